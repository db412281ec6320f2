//! Makes layers of a model's loops, and runs the result on ONNX Runtime, by the crate `ort`.
//!
//! ```text
//! cargo run -p revseq-ep --example rewrite -- \
//!     libonnxruntime.so models/exported/keras_bilstm_masked/model.onnx
//! ```
//!
//! Any model will do whose inputs are float tensors. Sizes that are not known are 4 here.

use std::env;

use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;
use revseq_rewrite::Options;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [onnxruntime, model] = arguments.as_slice() else {
        return Err("usage: rewrite <libonnxruntime.so> <model.onnx>".into());
    };
    let options = Options {
        fast: true,
        ..Options::default()
    };
    let (model, report) = revseq_rewrite::rewrite_bytes(&std::fs::read(model)?, &options)?;
    for step in &report.steps {
        println!("{} {}: {:?}", step.operator, step.node, step.outcome);
    }

    let environment = ort::init_from(onnxruntime)?.build()?;
    let mut session = Session::builder(&environment)?.commit_from_memory(&model)?;
    let mut inputs: Vec<(String, SessionInputValue<'_>)> = Vec::new();
    for input in session.inputs() {
        let shape = input
            .dtype()
            .tensor_shape()
            .ok_or("an input is no tensor")?;
        let shape: Vec<i64> = shape
            .iter()
            .map(|&size| if size < 0 { 4 } else { size })
            .collect();
        let data = vec![1_f32; shape.iter().product::<i64>() as usize];
        let value = Tensor::from_array((shape, data))?;
        inputs.push((input.name().to_owned(), value.into()));
    }
    let outputs = session.run(inputs)?;
    let (shape, y) = outputs[0].try_extract_tensor::<f32>()?;
    println!("{shape}: {y:?}");
    Ok(())
}
