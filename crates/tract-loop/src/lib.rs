//! ONNX's `Loop` for tract.
//!
//! tract-onnx 0.23 has `Scan` and `If` but no `Loop`, which is what tf2onnx
//! writes for every recurrent layer of Keras and every `tf.while_loop`.
//! [`register`] adds it, for all of its versions (1 to 25), and everything else
//! stays tract's own:
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
//! A trip count and a condition may each be there or not; states may change
//! their sizes (but not their rank) from step to step; bodies may hold
//! initializers, capture values from around them, and hold other loops, `If` and
//! `Scan`. Without a step, scan outputs are empty and states what they were.
//! The condition that a body gives out is followed even where the node has no
//! condition itself, as ONNX Runtime and ONNX's reference evaluator do.
//!
//! # How a loop runs
//!
//! A loop whose number of steps is known when the model is made ready, and that
//! cannot stop before, becomes tract's own `Scan`: tract then computes what does
//! not depend on a state, such as the products of a recurrent layer's inputs
//! with its weights, for all steps at once. What such a body reads by its step
//! (`Gather(x, step)`) is sliced.
//!
//! Any other loop runs its optimised body step by step. States are moved from
//! step to step, so that operators may work in their memory, and scan outputs
//! are copied once, when the last step is done.
//!
//! A loop may be endless. [`with_limits`] bounds the steps and the memory of the
//! loops of a model; without it there is no bound.
//!
//! # What it does not do
//!
//! Sequences and optionals as states, states whose rank changes, and loops in
//! more than 8 graphs within one another are errors when the model is loaded.

#![forbid(unsafe_code)]

mod alias;
mod induction;
mod infer;
mod limits;
mod op;
mod parse;
mod run;
mod scan;
mod states;

pub use limits::{Limits, with_limits};
pub use op::Loop;
pub use parse::register;
