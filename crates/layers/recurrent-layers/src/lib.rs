//! Recurrent layers on the CPU: LSTM, GRU and RNN as ONNX defines them, with all that it allows,
//! ONNX Runtime's `DynamicQuantizeLSTM`, and [linear attention](Attention).
//!
//! A [`Layer`] says which; its weights are [packed](Layer::pack) once, and a
//! [run](PackedLayer::run) reads and writes slices of the caller's, on the caller's threads.
//!
//! ```
//! use recurrent_layers::{Cell, Inputs, Layer, Memory, Outputs, Serial, Weights};
//!
//! // A bidirectional RNN of one unit, which adds its input to its state.
//! let layer = Layer::new(Cell::Rnn, 1, 1, &[false, true]);
//! let weights = Weights { w: &[0.5_f32, 0.5], r: &[1.0, 1.0], b: None, p: None };
//! let packed = layer.pack(&weights)?;
//!
//! // Y is [steps, directions, batch, units].
//! let mut y = [0.0; 6];
//! let outputs = Outputs { y: Some(&mut y), ..Outputs::default() };
//! packed.run(&Inputs::new(&[1.0, 0.0, 0.0], 3, 1), outputs, &mut Memory::default(), &Serial)?;
//! let expected = [0.5_f32.tanh(), 0.5_f32.tanh().tanh()];
//! assert!((y[0] - expected[0]).abs() < 1e-6 && (y[2] - expected[1]).abs() < 1e-6);
//! assert_eq!([y[3], y[5]], [0.0, 0.0]);
//! # Ok::<(), recurrent_layers::Error>(())
//! ```
//!
//! A layer multiplies the inputs of many steps with the weights at once, and then runs step by
//! step. Threads share its directions, its sequences or its units. The results are the same bits on
//! any number of threads.
//!
//! `recurrent.rs` reads nodes of layers by their [attributes](Attributes), `layer.rs` describes layers, `packed.rs` lays weights in the panels of `product.rs`, of all gates
//! together if a vector holds the units, or, of bytes, in those of `bytes.rs`, and `run.rs` checks a run's
//! slices. `step.rs` computes steps of the units in `units.rs`, for the sequences in `sequences.rs`; `logistic.rs` has Sigmoid and Tanh,
//! `activation.rs` the other functions, `element.rs` what differs between floats and doubles. How threads
//! wait for each other is `team/shares.rs`, which loom checks. `attention` stands for itself.
//!
//! Gates close: a Sigmoid is exactly 0 and 1, and a Tanh -1 and 1, for arguments that are large
//! enough, so that a state that is held stays what it is for any number of steps.
//!
//! # Features
#![doc = document_features::document_features!()]
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod attributes;
mod bytes;
mod cell;
mod element;
mod error;
mod layer;
mod logistic;
mod matrix;
mod memory;
mod packed;
mod panels;
mod place;
mod product;
mod quantized;
mod recurrent;
mod run;
mod sequences;
mod step;
mod team;
mod threads;
mod units;
mod unpacked;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use activation::{Activation, activate};
pub use attention::{
    Attention, AttentionGate, CausalConvolution, DecayGate, Elements, GatedDeltaNet,
    LinearAttention, Operand, PackedConvolution,
};
pub use attributes::{Attribute, Attributes};
pub use cell::Cell;
pub use element::Element;
pub use error::Error;
pub use integer_products::Bytes;
pub use layer::{Direction, Layer, ValidSteps};
pub use matrix::PackedMatrix;
pub use packed::{PackedInput, PackedLayer, PackedState, Weights, is_worth_packing};
pub use place::Place;
pub use quantized::{Quantization, Quantized};
pub use recurrent::{Mask, Recurrent};
pub use run::{Inputs, Layout, Outputs};
pub use team::Memory;
#[cfg(feature = "rayon")]
pub use threads::Rayon;
pub use threads::{Serial, Stop, Threads};
