//! ONNX's `Loop` for tract, and all of its `LSTM`, `GRU` and `RNN`.
//!
//! tract-onnx 0.23 has `Scan` and `If` but no `Loop`, which is what tf2onnx
//! writes for every recurrent layer of Keras and every `tf.while_loop`.
//! [`register`] adds it, for all of its versions (1 to 25), reads the recurrent
//! layers in tract's stead, and leaves everything else to tract:
//!
//! ```no_run
//! use tract_onnx::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let mut onnx = tract_onnx::onnx();
//! tract_loop::register(&mut onnx);
//! let model = onnx.model_for_path("keras_lstm.onnx")?.into_optimized()?.into_runnable()?;
//! let x = Tensor::zero::<f32>(&[1, 200, 64])?;
//! let outputs = model.run(tvec!(x.into()))?;
//! println!("{:?}", outputs[0]);
//! # Ok(())
//! # }
//! ```
//!
//! A trip count and a condition may each be present or absent; states may change
//! their sizes (but not their rank) from step to step; bodies may have
//! initializers, capture outer values, and contain other loops, `If` and `Scan`.
//! With zero iterations, scan outputs are empty and states keep their initial
//! values. The condition that a body outputs is followed even if the node has no
//! condition input, as in ONNX Runtime and ONNX's reference evaluator.
//!
//! # Branches
//!
//! `If` is read in tract's stead as well: where its condition is known, only the branch that is taken
//! has to fit, and takes the node's place; where it is not, sizes in which the branches differ
//! become symbols, and types or numbers of axes in which they differ are an error.
//!
//! # Recurrent layers
//!
//! tract reads `LSTM`, `GRU` and `RNN` without `direction = reverse`, activations
//! and `clip`, all of which it takes no notice of, and refuses lengths
//! (`sequence_lens`). Here all of it is read, for sizes that are known or not, and
//! each run starts with the initial states. A length below 0 or above the number of steps
//! is taken for the nearest that there can be; where it is 0, the last states are
//! zeros, as in ONNX Runtime.
//!
//! A layer is a product of all inputs with the weights, and a `Scan` in each direction. With
//! large weights that are known when it is loaded, as a node or as a loop whose steps compute
//! an LSTM, GRU or RNN, masked or not, it is one operator, whose weights are packed once. With
//! the feature `multithread` it runs on the threads of tract's executor; the results are the
//! same bits for any number of them. Layers of doubles are computed in doubles, those of half
//! floats in floats.
//!
//! # How a loop runs
//!
//! A loop whose number of steps is known when the model is prepared, and that
//! cannot stop earlier, becomes tract's own `Scan`: tract then computes what does
//! not depend on a state, such as the products of a recurrent layer's inputs
//! with its weights, for all steps at once. What such a body reads by its step
//! (`Gather(x, step)`) is sliced.
//!
//! Any other loop runs its optimised body step by step. States are moved from
//! step to step, so operators may work in place on them, and scan outputs are
//! copied once, after the last step.
//!
//! In both, the small operators of a step are fused into one, which goes through the
//! same functions in the same order, on memory that is kept from step to step; only
//! products of small matrices are summed in another order than tract's. A Scan whose
//! step is one such operator runs without a plan.
//!
//! # Sizes that are symbols
//!
//! Models load before their sizes are known. A loop that lasts for a whole axis, as those of
//! recurrent layers do, has the axis' size in its outputs, and is a `Scan`, too, unless a state
//! is read after its last step. Its trip count is that size, and its condition is true until
//! then; if that cannot be seen of the first step, and is not so, running it is an error. A
//! cast of sizes to int32, which TensorFlow writes around each, keeps the symbols.
//!
//! # Limits
//!
//! A loop may be endless. [`with_limits`] bounds the steps and the memory of the
//! loops of a model, of those within one another together; without it there is no bound.
//!
//! # What is around loops
//!
//! Operators that models have in and around their loops, and that tract reads in part:
//!
//! - `If`: without a name, with names that are elsewhere, too, and with branches that output
//!   different constants or what they capture.
//! - `Slice` of one element along an axis that is then squeezed, which is how `x[t]` is
//!   exported: a `Gather`. Bounds may come from data, and follow ONNX's rule.
//! - `Compress`, `ConstantOfShape`, `Expand`, `OneHot`, `Pad`, `Reshape`, `Squeeze` and `Tile`
//!   whose sizes come from data: the sizes are symbols until they are there.
//! - `Range` downward, and `Cast` of sizes to int32.
//!
//! # What it does not do
//!
//! Sequences and optionals as states, states whose rank changes, and loops nested
//! more than 8 graphs deep are errors when the model is loaded.

#![forbid(unsafe_code)]

#[macro_use]
mod equality;

mod alias;
mod around;
mod branches;
mod budget;
mod compress;
mod from_data;
mod fusion;
mod gather;
mod graph;
mod induction;
mod infer;
mod last;
mod late;
mod limits;
mod minted;
mod node;
mod op;
mod optimize;
mod parse;
mod part;
mod range;
mod recurrent;
mod run;
mod scan;
mod sizes;
mod slice;
mod spec;
mod squeeze;
mod states;
mod trips;
mod wire;

pub use limits::{Limits, with_limits};
pub use op::Loop;
pub use optimize::into_optimized;
pub use parse::register;
