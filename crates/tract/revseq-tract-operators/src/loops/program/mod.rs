//! Loops that run as programs of the crate recurrent-steps.
//!
//! `source.rs` keeps a node as ONNX says it, `read.rs` makes a program of it once the values around it have
//! types and wires that, and `run.rs` runs it on tensors. What no program has stays a loop of this crate's.
//! A program is made when a run has its sizes; where that turns out impossible, the loop that it stands for
//! runs (`other.rs`).

mod op;
mod other;
mod read;
mod run;
mod source;

pub(crate) use op::{Made, NO_PROGRAMS, PROGRAM};
pub(crate) use other::Other;
pub(crate) use read::Ready;
pub(crate) use source::Source;
