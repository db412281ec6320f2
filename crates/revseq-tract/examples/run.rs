//! Runs an ONNX model on ones, once for each size of the axes that it leaves open.
//!
//! ```sh
//! cargo run --release -p revseq-tract --example run -- bidirectional.onnx 2 7
//! ```
//!
//! The model is prepared once, as its sizes stay symbols.

use std::error::Error;

use revseq_tract::tract_onnx::prelude::*;
use revseq_tract::{Limits, LoadOptions};

/// Loads a model. Its loops take at most 100,000 steps and a gigabyte.
pub(crate) fn load(path: &str) -> TractResult<Arc<TypedRunnableModel>> {
    let limits = Limits::none().with_steps(100_000).with_bytes(1 << 30);
    let model = LoadOptions::new()
        .with_limits(limits)
        .load(|| revseq_tract::model_for_path(path))?;
    revseq_tract::into_optimized(model.into_typed()?)?.into_runnable()
}

/// Runs it on ones, with `size` for every symbol.
pub(crate) fn run(model: &Arc<TypedRunnableModel>, size: usize) -> TractResult<TVec<TValue>> {
    let mut inputs = tvec!();
    for &outlet in model.model().input_outlets()? {
        let fact = model.model().outlet_fact(outlet)?;
        let sizes = fact
            .shape
            .iter()
            .map(|it| it.to_i64().map_or(size, |it| it as usize));
        let ones = tensor0(1_f32).broadcast_to_shape(&sizes.collect::<Vec<_>>())?;
        inputs.push(ones.cast_to_dt(fact.datum_type)?.into_owned().into());
    }
    model.run(inputs)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: run MODEL [SIZE]...")?;
    let model = load(&path)?;
    for size in arguments {
        println!("{size}: {:?}", run(&model, size.parse()?)?);
    }
    Ok(())
}
