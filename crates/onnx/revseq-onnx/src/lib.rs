//! ONNX models without loss: read, written, and asked for what follows from the graph.
//!
//! A model comes in as bytes ([`decode`]) and goes out as bytes ([`encode`]). Fields unknown to
//! this version of ONNX are kept, and what nobody changes is written back as it was. Between them
//! lie the messages of ONNX themselves ([`proto`]), with accessors for what is asked of them often
//! ([`model`]).
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

pub mod axes;
mod bind;
mod check;
mod codec;
pub mod constant;
mod error;
pub mod external;
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
pub mod memory;
pub mod model;
mod numbers;
pub mod operators;
pub mod order;
mod pointer;
pub mod proto;
pub mod scope;
pub mod sizes;
pub mod tensor;
pub mod types;
mod visit;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use bind::{bind_sizes, forget_sizes, set_size};
pub use check::check;
pub use codec::{decode, decode_tensor, encode};
pub use error::Error;
pub use model::external_files;
pub use pointer::check_fetched;
pub use proto::ModelProto;
