//! Runs a model with RevSeqExecutionProvider from Rust, by the crate `ort`.
//!
//! ```text
//! cargo run -p revseq-ep --example rust -- \
//!     libonnxruntime.so librevseq_ep.so models/shapes/rank3_batch0_time2/model.onnx
//! ```
//!
//! ONNX Runtime refuses this model without the provider. Any other will do
//! whose nodes are all the provider's, and whose inputs are float or int64
//! tensors of known sizes; `mixed.rs` runs models with other nodes.

use std::env;

use ort::session::{Session, SessionInputValue};
use ort::value::{Tensor, TensorElementType, ValueType};

const EP: &str = "RevSeqExecutionProvider";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [onnxruntime, library, model] = arguments.as_slice() else {
        return Err("usage: rust <libonnxruntime.so> <librevseq_ep.so> <model.onnx>".into());
    };
    let environment = ort::init_from(onnxruntime)?.build()?;
    // ONNX Runtime looks for a relative path beside itself.
    environment.register_ep_library("revseq", std::path::absolute(library)?)?;
    let devices = environment
        .devices()
        .filter(|device| device.ep().is_ok_and(|ep| ep == EP));

    // Here, unlike in Python, options have the provider's name in front.
    let options = [(format!("{EP}.lengths"), String::from("reject"))];
    let mut session = Session::builder(&environment)?
        .with_devices(devices, Some(&options))?
        // No node may fall back: making the session fails if one would.
        .with_config_entry("session.disable_cpu_ep_fallback", "1")?
        .commit_from_file(model)?;

    let mut inputs: Vec<(String, SessionInputValue<'_>)> = Vec::new();
    for input in session.inputs() {
        let ValueType::Tensor { ty, shape, .. } = input.dtype() else {
            return Err(format!("input {:?} is not a tensor", input.name()).into());
        };
        let count = shape.num_elements();
        let value = match ty {
            TensorElementType::Float32 => {
                let data: Vec<f32> = (0..count).map(|index| index as f32).collect();
                println!("{} {shape}: {data:?}", input.name());
                Tensor::from_array((shape.clone(), data))?.into()
            }
            TensorElementType::Int64 => {
                Tensor::from_array((shape.clone(), vec![2_i64; count]))?.into()
            }
            ty => {
                return Err(format!(
                    "input {:?} is of type {ty}, expected Float32 or Int64",
                    input.name()
                )
                .into());
            }
        };
        inputs.push((input.name().to_owned(), value));
    }
    let outputs = session.run(inputs)?;
    let (shape, y) = outputs[0].try_extract_tensor::<f32>()?;
    println!("{shape}: {y:?}");
    Ok(())
}
