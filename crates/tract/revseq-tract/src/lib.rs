//! ONNX's `ReverseSequence` and `revseq::ReverseSubsequences` for tract.
//!
//! tract-onnx 0.23 has neither operator: a model with one does not load. A [`Session`] opens and
//! runs such models, and all others that the command `revseq` runs:
//!
//! ```no_run
//! use revseq_tract::{Session, tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::open("bidirectional.onnx")?;
//! let x: Vec<f32> = (0..7 * 3).map(|it| it as f32).collect();
//! let outputs = session.run([("x", tensor(&[1, 7, 3], x)?)])?;
//! println!("{:?}", outputs.to_vec::<f32>("y")?);
//! # Ok(())
//! # }
//! ```
//!
//! Values are tract's tensors: [`tensor()`] makes one of a `Vec`, an array or a slice of numbers, `bool` or
//! `String`, and `into_tensor` one of ndarray's arrays (of `tract_onnx::prelude::tract_ndarray`);
//! [`Outputs::to_vec`] copies elements, [`Outputs::view`] shows them as an array, and [`Outputs::take`]
//! gives the tensor itself.
//!
//! [`LoadOptions`] bounds loops that may be endless, and has the settings that a model does not
//! contain. `examples/run.rs` runs a model of any inputs.
//!
//! For pipelines on tract's own model, [`model_for_path`] reads it, and [`into_optimized`] optimises
//! it without the faults of tract's. [`register`] adds the operators alone, to a loader of your own:
//! both of these, `Loop`, complete `LSTM`, `GRU` and `RNN`, and others that come with them
//! ([`revseq_tract_operators`]). It reads a `Slice` that reverses whole axes as [`Flip`].
//!
//! The op itself, [`ReverseSubsequences`], can be wired into any tract model, without ONNX:
//!
//! ```
//! use revseq_tract::{Operator, ReverseSubsequences};
//! use tract_onnx::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let mut model = TypedModel::default();
//! let x = model.add_source("x", f32::fact([4, 2]))?;
//! let lens = model.add_source("lens", i64::fact([2]))?;
//! let op = ReverseSubsequences::new(Operator::ReverseSequence { batch_axis: 1, time_axis: 0 }, 2)?;
//! let reversed = model.wire_node("reversed", op, &[x, lens])?;
//! model.select_output_outlets(&reversed)?;
//! let x = tensor2(&[[0f32, 4.], [1., 5.], [2., 6.], [3., 7.]]);
//! let model = revseq_tract::into_optimized(model)?.into_runnable()?;
//! let outputs = model.run(tvec!(x.into(), tensor1(&[4i64, 3]).into()))?;
//! assert_eq!(*outputs[0], tensor2(&[[3f32, 6.], [2., 5.], [1., 4.], [0., 7.]]));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
#![doc = document_features::document_features!()]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod axes;
mod error;
mod eval;
mod fence;
mod flip;
mod onnx;
mod op;
mod options;
mod read;
mod session;
mod slice;
mod threads;

pub use error::{Error, ErrorKind};
pub use flip::Flip;
pub use onnx::register;
pub use op::ReverseSubsequences;
pub use options::{LoadOptions, Sizes};
#[doc(hidden)]
pub use read::inference::{Inference, NodeFacts, infer};
pub use read::{model_for_bytes, model_for_path};
pub use revseq_graph::Operator;
pub use revseq_kernels::LengthsPolicy;
#[doc(hidden)]
pub use revseq_onnx;
pub use revseq_onnx::Model;
pub use revseq_tract_operators::{
    Execution, How, Interrupt, Limits, NodeCall, into_optimized, into_typed, run_observed,
};
pub use session::values::{Size, ValueInfo, datum_type, element_type, tensor};
pub use session::{Inputs, Outputs, Plan, Session};
/// The tract that this crate extends.
pub use tract_onnx;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
