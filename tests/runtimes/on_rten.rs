//! Runs models on rten, with no features but the reading of ONNX. Its integers have 32 bits, which are
//! truth values, too.

use std::path::Path;
use std::process::ExitCode;

use rten::{Model, Value as Tensor};
use rten_tensor::{AsView, Layout};

use revseq_runtimes::{Value, serve};

fn main() -> ExitCode {
    serve(run)
}

fn run(model: &Path, inputs: &[Value]) -> Result<Vec<Value>, String> {
    let model = Model::load_file(model).map_err(|error| error.to_string())?;
    let mut tensors = Vec::new();
    for &id in model.input_ids() {
        let info = model.node_info(id);
        let name = info.and_then(|info| info.name()).unwrap_or_default();
        let input = inputs.iter().find(|input| input.name == name);
        // Initializers that are inputs as well have values.
        if let Some(input) = input {
            tensors.push((id, tensor(input)?.into()));
        }
    }
    let outputs = model.run(tensors, model.output_ids(), None);
    let outputs = outputs.map_err(|error| error.to_string())?;
    outputs.iter().map(value).collect()
}

/// A tensor; rten has integers of 32 bits, which are truth values, too.
fn tensor(input: &Value) -> Result<Tensor, String> {
    let bytes = input.bytes()?;
    match input.element_type.as_str() {
        "float32" => shaped(input, each(&bytes, f32::from_le_bytes)),
        "int32" => shaped(input, each(&bytes, i32::from_le_bytes)),
        "int64" => {
            let wide = each(&bytes, i64::from_le_bytes).into_iter();
            let narrow: Option<Vec<i32>> = wide.map(|it| i32::try_from(it).ok()).collect();
            shaped(input, narrow.ok_or("an int64 is beyond 32 bits")?)
        }
        "bool" => shaped(input, each(&bytes, |[byte]| i32::from(byte))),
        "int8" => shaped(input, each(&bytes, i8::from_le_bytes)),
        "uint8" => shaped(input, bytes),
        other => Err(format!("it has no tensors of {other}")),
    }
}

fn shaped<T>(input: &Value, elements: Vec<T>) -> Result<Tensor, String>
where
    Tensor: From<rten_tensor::Tensor<T>>,
{
    Tensor::from_shape(&input.shape, elements).map_err(|error| error.to_string())
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| read(bytes))
        .collect()
}

fn value(output: &Tensor) -> Result<Value, String> {
    Ok(match output {
        Tensor::FloatTensor(it) => {
            let bytes: Vec<u8> = it.iter().flat_map(|it| it.to_le_bytes()).collect();
            Value::new("float32", it.shape(), &bytes)
        }
        Tensor::Int32Tensor(it) => {
            let bytes: Vec<u8> = it.iter().flat_map(|it| it.to_le_bytes()).collect();
            Value::new("int32", it.shape(), &bytes)
        }
        Tensor::Int8Tensor(it) => {
            let bytes: Vec<u8> = it.iter().flat_map(|it| it.to_le_bytes()).collect();
            Value::new("int8", it.shape(), &bytes)
        }
        Tensor::UInt8Tensor(it) => {
            let bytes: Vec<u8> = it.iter().copied().collect();
            Value::new("uint8", it.shape(), &bytes)
        }
        _ => return Err("it outputs a sequence".to_owned()),
    })
}
