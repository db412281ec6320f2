//! DirectML's REVERSE_SUBSEQUENCES: reverses the first elements of every
//! subsequence along an axis, on CPU and GPU, out of place or in place.
//!
//! [`reverse_sequence`] is the usual case in one call, ONNX's ReverseSequence:
//!
//! ```
//! // A batch of three sequences of 4 steps, batch-major.
//! let mut data: Vec<f32> = (1..=12).map(|it| it as f32).collect();
//! revseq_kernels::reverse_sequence(&mut data, &[3, 4], 0, 1, &[2, 4, 3])?;
//! assert_eq!(data, [2., 1., 3., 4., 8., 7., 6., 5., 11., 10., 9., 12.]);
//! # Ok::<(), revseq_kernels::Error>(())
//! ```
//!
//! It consists of three steps, for those who repeat some of them or need more. A
//! [`ReverseSubsequencesDesc`] describes the work, in DirectML's terms. A
//! [`Plan`] is made from it once per shape, [`SequenceLengths`] are checked
//! once per run, and [`cpu::run`] or [`cpu::run_in_place`] moves the bytes,
//! [`cpu::run_elements`] and [`cpu::run_elements_in_place`] slices of elements.
//! With the feature `wgpu`, module `gpu` does the same on a GPU, for host slices
//! or for buffers that stay on the device. This crate depends on neither ONNX nor
//! any runtime.
//!
//! ```
//! use revseq_kernels::{DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths};
//! use revseq_kernels::cpu::{self, Threads};
//!
//! let desc = ReverseSubsequencesDesc::reverse_sequence(
//!     DataType::Float32, &[3, 4], 0, 1, DataType::Int64,
//! )?;
//! let plan = Plan::new(&desc)?;
//! let lengths = SequenceLengths::new(&plan, &[2_i64, 4, 3], LengthsPolicy::Reject)?;
//!
//! let mut data: Vec<f32> = (1..=12).map(|it| it as f32).collect();
//! cpu::run_elements_in_place(&plan, &lengths, &mut data, Threads::default())?;
//! assert_eq!(data, [2., 1., 3., 4., 8., 7., 6., 5., 11., 10., 9., 12.]);
//! # Ok::<(), revseq_kernels::Error>(())
//! ```
//!
//! # Features
#![doc = document_features::document_features!()]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cpu;
mod data_type;
mod desc;
mod dims;
mod element;
mod error;
mod feature_level;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "wgpu")]
pub mod gpu;
mod index_set;
mod lengths;
mod overlap;
mod plan;
pub mod reference;
mod sequence;
mod simd_level;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use data_type::DataType;
pub use desc::{ReverseSubsequencesDesc, TensorDesc};
pub use dims::Dims;
pub use element::Element;
pub use error::{Error, Tensor};
pub use feature_level::FeatureLevel;
pub use lengths::{LengthsData, LengthsPolicy, SequenceLengths};
pub use plan::Plan;
pub use sequence::{reverse_sequence, reverse_sequence_into};
