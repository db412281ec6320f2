//! Runs a model with loops from Rust, by the crates `ort` and `revseq-ort`: those that are recurrent layers
//! run as such. Shows which provider has each node.
//!
//! ```text
//! cargo run -p revseq-ep --example mixed -- \
//!     libonnxruntime.so librevseq_ep.so models/exported/keras_bilstm_masked/model.onnx
//! ```
//!
//! Nodes that the provider does not take run on ONNX Runtime's CPU provider; making the session fails if
//! ReverseSequence would, which has another meaning there for some axes. Any model will do whose inputs
//! are float tensors. Sizes that are not known are 4 here.

use std::collections::BTreeMap;
use std::env;

use ort::session::SessionInputValue;
use ort::value::Tensor;
use revseq_ort::{Loops, Options, Provider, assigned};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [onnxruntime, library, model] = arguments.as_slice() else {
        return Err("usage: mixed <libonnxruntime.so> <librevseq_ep.so> <model.onnx>".into());
    };
    let environment = ort::init_from(onnxruntime)?.build()?;
    let provider = Provider::register(&environment, library)?;
    let options = Options::new().with_loops(Loops::AsLayers);
    let mut session = provider.session(model, &options)?;

    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for node in assigned(&session)? {
        *counts.entry((node.provider, node.operator)).or_default() += 1;
    }
    for ((provider, operator), count) in counts {
        println!("{provider:28} {count:3} {operator}");
    }

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
