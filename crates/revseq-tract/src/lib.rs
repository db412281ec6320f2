//! ONNX's `ReverseSequence` and `revseq::ReverseSubsequences` for tract.
//!
//! tract-onnx 0.23 has neither operator: a model with one does not load.
//! [`register`] adds both, as well as `Loop`, which often comes with them, and complete `LSTM`,
//! `GRU` and `RNN` ([`tract_loop`]). It reads a `Slice` that reverses whole axes as [`Flip`], and
//! takes an end of 1,000,000,000, as tf2onnx writes it, for the end of the axis. Everything else
//! stays tract's own.
//!
//! ```no_run
//! use tract_onnx::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let mut onnx = tract_onnx::onnx();
//! revseq_tract::register(&mut onnx);
//! let model = onnx.model_for_path("bidirectional.onnx")?.into_optimized()?.into_runnable()?;
//! let x = Tensor::zero::<f32>(&[1, 7, 3])?;
//! let outputs = model.run(tvec!(x.into()))?;
//! println!("{:?}", outputs[0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`model_for_path`] does this in one call, and reads more forms of ONNX. [`LoadOptions`] bounds
//! loops that may be endless, and has the settings that a model does not contain.
//! `examples/run.rs` runs a model of any inputs.
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
//! let outputs = model.into_optimized()?.into_runnable()?.run(tvec!(x.into(), tensor1(&[4i64, 3]).into()))?;
//! assert_eq!(*outputs[0], tensor2(&[[3f32, 6.], [2., 5.], [1., 4.], [0., 7.]]));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
#![doc = document_features::document_features!()]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod adapt;
mod axes;
mod eval;
mod flip;
mod load;
mod lru_cache;
mod onnx;
mod op;
mod others;
mod outputs;
mod read;
mod slice;

pub use adapt::adapt;
pub use flip::Flip;
pub use load::LoadOptions;
pub use onnx::register;
pub use op::ReverseSubsequences;
pub use read::{may_need_preparation, model_for_bytes, model_for_path, prepare};
pub use revseq_graph::Operator;
pub use revseq_kernels::LengthsPolicy;
/// The operator on a GPU, and the choice of an adapter.
#[cfg(feature = "wgpu")]
pub use revseq_kernels::gpu;
pub use tract_loop::{Limits, into_optimized};
/// The tract that this crate extends.
pub use tract_onnx;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
