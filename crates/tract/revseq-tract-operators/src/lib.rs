//! ONNX operators that tract lacks or runs in part: `Loop`, complete `LSTM`, `GRU` and `RNN`, sizes
//! that come from data, quantised numbers.
//!
//! tract-onnx 0.23 has `Scan` and `If` but no `Loop`, which tf2onnx writes for every recurrent
//! layer of Keras and every `tf.while_loop`. [`register`] adds all of its versions (1 to 25),
//! replaces tract's recurrent layers and the operators below, and leaves everything else to tract:
//!
//! ```no_run
//! use tract_onnx::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let mut onnx = tract_onnx::onnx();
//! revseq_tract_operators::register(&mut onnx);
//! let model = onnx.model_for_path("keras_lstm.onnx")?.into_typed()?;
//! let model = revseq_tract_operators::into_optimized(model)?.into_runnable()?;
//! let x = Tensor::zero::<f32>(&[1, 200, 64])?;
//! let outputs = model.run(tvec!(x.into()))?;
//! println!("{:?}", outputs[0]);
//! # Ok(())
//! # }
//! ```
//!
//! The trip count and the condition are both optional. States may change their sizes (but not their
//! rank) from step to step; bodies may have initializers, capture outer values, and contain other
//! loops, `If` and `Scan`. With zero iterations, scan outputs are empty and states keep their
//! initial values. The condition that a body outputs is followed even if the node has no condition
//! input, as in ONNX Runtime and ONNX's reference evaluator.
//!
//! # Branches
//!
//! `If` is replaced as well. With a known condition, only the taken branch has to be valid, and it
//! replaces the node. Otherwise, sizes in which the branches differ become symbols, and branches
//! that differ in type or rank are an error. Branches know the sizes of what is around them.
//!
//! # Recurrent layers
//!
//! tract ignores `direction = reverse`, activations and `clip` of `LSTM`, `GRU` and `RNN`, and
//! refuses lengths (`sequence_lens`). This crate supports all of them, for known and symbolic
//! sizes, and each run starts with the initial states. A length below 0 or above the number of steps
//! is an error, as in ONNX Runtime, unless [`LoadOptions::with_lengths`] has them clamped; for a
//! length of 0 the final states are zeros. NaN stays NaN.
//!
//! A layer is a single operator, which packs weights that are known at load time once. With the
//! feature `multithread` it uses the threads of tract's executor, with bit-identical results for any
//! number of them. Layers of doubles are computed in doubles, those of half floats in floats.
//!
//! A loop that is a layer becomes one before tract reads the model, by the crate revseq-rewrite
//! (`layers_for_tract`): LSTM, GRU or RNN, or where it has a mask, an operator of the domain `revseq`
//! that is the same with a mask in the place of the lengths.
//!
//! ONNX Runtime's `DynamicQuantizeLSTM`, which its `quantize_dynamic` makes of every `LSTM`, rounds
//! its input and its states as ONNX Runtime does with a thread for each sequence.
//!
//! # How a loop runs
//!
//! A Loop or Scan whose states keep their sizes runs as a program of the crate
//! recurrent-steps, if that has all operators of its body. The program is made when a run has its sizes, and
//! kept for later ones. Where it turns out impossible then, as where a wrong value is to be reported, the loop
//! runs as all others do, and as [`LoadOptions::with_programs`] has it run always: its optimised body step by
//! step. States are moved from step to step, so operators may work in place on them, and scan outputs are
//! copied once, after the last step.
//!
//! [`executions`] says how each loop of a model runs, and why.
//!
//! # Symbolic sizes
//!
//! Models load before their sizes are known. A loop over a whole axis, such as that of a recurrent
//! layer, has the axis's size in its outputs. Its trip count is that size, and its condition stays true until the end; if the condition of the
//! first step cannot be proved and turns out false, the run fails. Casts of sizes to int32, which
//! TensorFlow writes around each size, keep symbols.
//!
//! # Limits
//!
//! A loop may be endless. [`LoadOptions::with_limits`] bounds the steps and the memory of a model's loops,
//! nested ones included, and of a `Range` and outputs whose sizes come from data; by default there
//! is no bound.
//!
//! # Other operators
//!
//! The [README](https://crates.io/crates/revseq-tract-operators) lists the operators that models use in and around
//! loops, what of them tract has, and what is here.
//!
//! # Limitations
//!
//! Sequences and optionals as states, states whose rank changes, and loops nested more than 8
//! graphs deep are errors when the model is loaded.

#![deny(unsafe_code)]

#[macro_use]
mod typed_op;

mod binary;
mod cast_to_sizes;
mod data_sizes;
mod dims;
mod faster;
mod graph;
mod interrupt;
mod limits;
mod load;
mod loops;
mod node;
pub mod operator;
mod operators;
mod other_sizes;
mod polynomial;
mod recurrent;
mod register;
mod repairs;
mod run;
pub mod template;
mod wire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use data_sizes::constant_integers;
pub use interrupt::{Interrupt, Interrupted};
pub use limits::{BeyondLimits, Limits};
pub use load::{LengthsPolicy, LoadOptions};
pub use loops::op::Loop;
pub use loops::report::{Execution, How, executions};
pub use other_sizes::OtherSizes;
#[doc(hidden)]
pub use register::is_of_other_domain;
pub use register::register;
pub use repairs::optimize::into_optimized;
pub use repairs::typed::into_typed;
pub use run::{NodeCall, is_run_in_pool, run, run_comparing_shapes, run_in_pool, run_observed};
