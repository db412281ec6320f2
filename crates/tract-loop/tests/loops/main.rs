//! ONNX loops on tract.

mod build;
mod errors;
mod features;
mod memory;
mod random;
mod recognised;
mod recurrent;
mod symbols;
