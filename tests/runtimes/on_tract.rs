//! Runs models on tract without this project's operators, for the sizes of the data.

use std::path::Path;
use std::process::ExitCode;

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::TractErrorContext;

use revseq_runtimes::{Value, serve};

/// The element types, as NumPy names them.
const TYPES: [(&str, DatumType); 13] = [
    ("bool", DatumType::Bool),
    ("float16", DatumType::F16),
    ("float32", DatumType::F32),
    ("float64", DatumType::F64),
    ("int8", DatumType::I8),
    ("int16", DatumType::I16),
    ("int32", DatumType::I32),
    ("int64", DatumType::I64),
    ("uint8", DatumType::U8),
    ("uint16", DatumType::U16),
    ("uint32", DatumType::U32),
    ("uint64", DatumType::U64),
    ("int64", DatumType::TDim),
];

fn main() -> ExitCode {
    serve(run)
}

fn run(model: &Path, inputs: &[Value]) -> Result<Vec<Value>, String> {
    run_typed(model, inputs).map_err(|error| format!("{error:#}"))
}

fn run_typed(model: &Path, inputs: &[Value]) -> TractResult<Vec<Value>> {
    let mut model = tract_onnx::onnx().model_for_path(model)?;
    let mut tensors = tvec!();
    // Initializers that are inputs as well are no inputs of tract's.
    for (index, outlet) in model.inputs.clone().into_iter().enumerate() {
        let name = &model.node(outlet.node).name;
        let input = inputs.iter().find(|input| input.name == *name);
        let input = input.with_context(|| format!("it reads {name:?}, which is no input"))?;
        let dt = TYPES.iter().find(|(name, _)| *name == input.element_type);
        let (_, dt) = dt.with_context(|| format!("no type {}", input.element_type))?;
        let bytes = input.bytes().map_err(TractError::msg)?;
        let mut tensor = Tensor::zero_dt(*dt, &input.shape)?;
        tensor.as_bytes_mut().copy_from_slice(&bytes);
        model.set_input_fact(index, InferenceFact::dt_shape(*dt, &input.shape))?;
        tensors.push(tensor.into_tvalue());
    }
    let plan = model.into_optimized()?.into_runnable()?;
    let outputs = plan.run(tensors)?;
    outputs.iter().map(|output| value(output)).collect()
}

fn value(output: &Tensor) -> TractResult<Value> {
    let output = match output.datum_type() {
        DatumType::TDim => output.cast_to::<i64>()?.into_owned(),
        _ => output.clone(),
    };
    let name = TYPES.iter().find(|(_, dt)| *dt == output.datum_type());
    let (name, _) = name.with_context(|| format!("it outputs {:?}", output.datum_type()))?;
    Ok(Value::new(name, output.shape(), output.as_bytes()))
}
