//! ONNX's Loop, Scan and If.

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
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod spec;
pub(crate) mod states;
pub(crate) mod steps;
pub(crate) mod trips;
