//! ONNX models without loss: read, written, and asked for what follows from the graph.
//!
//! A [`Model`] comes in as a file or as bytes and goes out as bytes. Fields unknown to this version
//! of ONNX are kept, and what nobody changes is written back as it was.
//!
//! ```no_run
//! use revseq_onnx::Model;
//!
//! let model = Model::open("model.onnx".as_ref())?;
//! std::fs::write("one_file.onnx", model.encode()?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # For the other crates of this workspace
//!
//! The modules hold the messages of ONNX as `buffa` reads them, and the questions that are asked of
//! them. They are not part of the documented API: they may change in any release.
//!
//! Questions about values are asked of a [`scope::Scope`], a graph within the graphs around it:
//!
//! | question | answer |
//! |---|---|
//! | who makes this value? | [`Scope::source`](scope::Scope::source), [`Scope::producer`](scope::Scope::producer) |
//! | who reads it, and how often? | [`Scope::uses`](scope::Scope::uses) |
//! | are these two the same in every run? | [`Scope::is_same`](scope::Scope::is_same) |
//! | is it a constant, and which? | [`constant::int`], [`constant::integers`], [`constant::floats`], [`constant::tensor`] |
//! | which type do its elements have? | [`types::of`] |
//! | how many axes does it have? | [`sizes::rank`] |
//! | how long is an axis, or of which other axis is it the length? | [`sizes::axis`] |
//! | is a number in it a size of another value? | [`sizes::scalar`], [`sizes::element_at`] |
//! | does this condition hold in every run? | [`sizes::truth`] |
//! | in which order can these nodes run? | [`order::sorted`] |
//!
//! Answers are proved from the graph and hold in every run; what cannot be proved is `None`. How
//! far values are followed is limited, so that no model takes long or recurses deeply.
//!
//! ```
//! use revseq_onnx::model::{FLOAT, int64_tensor, ints, node, tensor};
//! use revseq_onnx::proto::{GraphProto, ModelProto};
//! use revseq_onnx::scope::Scope;
//! use revseq_onnx::{constant, sizes, types};
//!
//! let graph = GraphProto {
//!     node: vec![
//!         node("Constant", &[], &["shape"], vec![tensor("value", int64_tensor(&[2], &[4, 3]))]),
//!         node("ConstantOfShape", &["shape"], &["zeros"], vec![]),
//!         node("Transpose", &["zeros"], &["turned"], vec![ints("perm", &[1, 0])]),
//!     ],
//!     ..GraphProto::default()
//! };
//! let model = ModelProto { graph: graph.into(), ..ModelProto::default() };
//! let scope = Scope::main(&model, false).expect("it has a graph");
//! assert_eq!(constant::ints(&scope, "shape"), Some(vec![4, 3]));
//! assert_eq!(sizes::rank(&scope, "turned"), Some(2));
//! assert!(sizes::axis(&scope, "turned", 0) == Some(sizes::Size::Known(3)));
//! assert_eq!(types::of(&scope, "turned"), Some(FLOAT));
//! ```

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod axes;
mod bind;
mod check;
mod codec;
#[doc(hidden)]
pub mod constant;
mod error;
#[doc(hidden)]
pub mod external;
#[doc(hidden)]
pub mod file;
#[allow(
    missing_docs,
    unreachable_pub,
    unused_imports,
    non_camel_case_types,
    clippy::all,
    clippy::allow_attributes_without_reason,
    dead_code,
    reason = "generated"
)]
#[rustfmt::skip]
mod generated;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod model;
mod numbers;
#[doc(hidden)]
pub mod operators;
#[doc(hidden)]
pub mod order;
mod pointer;
#[doc(hidden)]
pub mod proto;
#[doc(hidden)]
pub mod scope;
#[doc(hidden)]
pub mod sizes;
#[doc(hidden)]
pub mod tensor;
#[doc(hidden)]
pub mod types;
mod visit;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[doc(hidden)]
pub use bind::{bind_sizes, forget_sizes, set_size};
#[doc(hidden)]
pub use check::check;
pub use codec::Model;
#[doc(hidden)]
pub use codec::{decode, decode_tensor, encode};
pub use error::Error;
#[doc(hidden)]
pub use model::external_files;
#[doc(hidden)]
pub use pointer::check_fetched;
#[doc(hidden)]
pub use proto::ModelProto;
