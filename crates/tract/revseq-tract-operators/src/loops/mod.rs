//! ONNX's Loop, Scan and If.
//!
//! `parse.rs` reads a Loop, `infer.rs` types its body, until the sizes of states that change are symbols
//! (`states.rs`). `spec.rs` then describes it, with its body for the actual inputs. Its end follows from
//! its steps (`induction.rs`) or is an axis (`trips.rs`, through casts of sizes). With one, a loop that
//! reads by step becomes a Scan when it is decluttered (`scan/`, which otherwise says why not); others
//! run step by step (`op.rs`, `run.rs`). `budget.rs` gives nested loops shared limits.
//!
//! `onnx_scan.rs` reads Scans, whose axes may be empty. `alias.rs` holds what tract must not fold away
//! in a Scan; `nested.rs` has each Scan begin with its initial
//! states, and keeps in its body what is made for one step.
//!
//! `program/` has Loops and Scans that run as programs of the crate recurrent-steps; `wired.rs` asks it first.
//!
//! `if_.rs` reads If, `branches.rs` runs it. `report.rs` tells how each loop runs.

pub(crate) mod alias;
pub(crate) mod branches;
pub(crate) mod budget;
pub(crate) mod if_;
pub(crate) mod induction;
pub(crate) mod infer;
pub(crate) mod last;
pub(crate) mod nested;
pub(crate) mod onnx_scan;
pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod spec;
pub(crate) mod states;
pub(crate) mod steps;
pub(crate) mod trips;
pub(crate) mod wired;
