//! Loops of ONNX models as programs.
//!
//! The body of a Loop or a Scan runs node by node in other runtimes, each with an output of its own. Here
//! it is planned once for the sizes of a run: what only looks at elements otherwise becomes a view, what
//! depends on no state runs before the steps, functions of elements run together on blocks that the
//! nearest cache holds, products of constant matrices are packed, and states and outputs are written where
//! they stay.
//!
//! [`Steps::read`] takes a node of ONNX's and says what of it no program has; [`Steps::run`] runs it on
//! slices of the caller's.
//!
//! `reader.rs` reads a loop (`body.rs`), `operators` has a row for each operator, `plan` makes a program of a body, and
//! `kernels` runs it, step by step as `run.rs` says.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attributes;
mod body;
mod elements;
mod error;
mod function;
mod kernels;
mod known;
mod limits;
mod names;
mod nodes;
mod operators;
mod plan;
mod reader;
mod run;
mod steps;
mod view;

pub use attributes::NodeAttributes;
pub use body::Around;
pub use elements::{Elements, ElementsMut, Kind, Outputs, Tensor};
pub use error::Error;
pub use limits::Limits;
pub use steps::Steps;
