//! ONNX loops on tract.

mod branches;
mod build;
mod data_sizes;
mod errors;
mod features;
mod layers;
mod memory;
mod random;
mod recognised;
mod recurrent;
mod symbols;
