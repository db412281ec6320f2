//! ONNX loops on tract.

mod along_axes;
mod branches;
mod build;
mod by_rows;
mod byte_convolutions;
mod categories;
mod cells;
mod convolutions;
mod data_sizes;
mod early;
mod empty;
mod errors;
mod exact;
#[path = "../../examples/loops.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod example;
mod features;
mod floats;
mod integers;
mod layer_inputs;
mod layer_norm;
mod layers;
mod memory;
mod nd_indices;
mod nested;
mod optimize;
mod pool;
mod programs;
mod quantized;
mod random;
mod random_sizes;
mod ranges;
mod recognised;
mod recurrent;
mod shapes;
mod size_arithmetic;
mod slices;
mod splits;
mod symbols;
mod upstream;
