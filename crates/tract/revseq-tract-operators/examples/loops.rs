//! Shows how the loops and recurrent layers of an ONNX model run, after `revseq-rewrite` has made layers
//! of the loops that are layers.
//!
//! ```sh
//! cargo run --release -p revseq-tract-operators --example loops -- keras_lstm.onnx
//! ```

use std::error::Error;

use revseq_rewrite::revseq_onnx;
use revseq_tract_operators::{Limits, LoadOptions};
use tract_onnx::prelude::*;

/// Each of the model's loops by name, with how it runs.
pub(crate) fn loops(path: &str) -> TractResult<Vec<String>> {
    let mut model = revseq_onnx::file::open(path.as_ref())?;
    revseq_rewrite::layers_for_tract(&mut model)?;
    let model = revseq_onnx::encode(&model)?;
    let mut onnx = tract_onnx::onnx();
    revseq_tract_operators::register(&mut onnx);
    // A loop may be endless: beyond these limits, a run is an error.
    let limits = Limits::none().with_steps(100_000).with_bytes(1 << 30);
    let template = LoadOptions::new().with_limits(limits).template();
    let model = onnx.proto_model_for_read(&mut &*model)?;
    let model = onnx.model_for_proto_model_with_model_template(&model, template)?;
    let model = revseq_tract_operators::into_optimized(model.into_typed()?)?;
    let executions = revseq_tract_operators::executions(&model).into_iter();
    Ok(executions
        .map(|it| format!("{}: {}", it.node, it.how))
        .collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: loops MODEL")?;
    for line in loops(&path)? {
        println!("{line}");
    }
    Ok(())
}
