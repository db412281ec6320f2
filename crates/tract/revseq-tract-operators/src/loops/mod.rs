//! ONNX's Loop, Scan and If.
//!
//! `parse.rs` reads a Loop, `infer.rs` types its body, until the sizes of states that change are symbols
//! (`states.rs`). `spec.rs` then describes it, with its body for the actual inputs. Its end follows from
//! its steps (`induction.rs`) or is an axis (`trips.rs`, through casts of sizes). `onnx_scan.rs` makes the same
//! of a Scan.
//!
//! `program/` has the loops that run as programs of the crate recurrent-steps; `wired.rs` asks it first. Others
//! run step by step (`op.rs`, `run.rs`). `budget.rs` gives nested loops shared limits.
//!
//! `if_.rs` reads If, `branches.rs` runs it. `report.rs` tells how each loop runs.

pub(crate) mod branches;
pub(crate) mod budget;
pub(crate) mod if_;
pub(crate) mod induction;
pub(crate) mod infer;
pub(crate) mod onnx_scan;
pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod spec;
pub(crate) mod states;
pub(crate) mod steps;
pub(crate) mod trips;
pub(crate) mod wired;
