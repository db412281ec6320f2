//! Outputs that are computed from sizes alone.

use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{GraphProto, ValueInfoProto, type_proto};
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::tract_core::ops::cast::cast;

/// Makes numbers of the sizes that a model outputs: tract holds them as expressions of symbols.
pub(crate) fn in_numbers(model: &mut InferenceModel, graph: &GraphProto) -> TractResult<()> {
    let mut outputs = model.outputs.clone();
    for (outlet, declared) in std::iter::zip(&mut outputs, &graph.output) {
        if !may_be_size(declared) {
            continue;
        }
        let mut name = format!("{}.number", declared.name);
        while model.nodes().iter().any(|node| node.name == name) {
            name.push('~');
        }
        *outlet = model.wire_node(name, expand(InNumbers), &[*outlet])?[0];
        model.set_outlet_label(*outlet, declared.name.clone())?;
    }
    model.select_output_outlets(&outputs)
}

/// Whether an output is declared as int64, or not at all.
fn may_be_size(output: &ValueInfoProto) -> bool {
    match output.r#type.as_ref().and_then(|it| it.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor.elem_type == DataType::Int64 as i32,
        None => true,
    }
}

/// A cast to int64 of sizes; all else stays as it is.
#[derive(Clone, Debug)]
struct InNumbers;

impl InNumbers {
    fn of(from: DatumType) -> DatumType {
        if from.is_tdim() {
            i64::datum_type()
        } else {
            from
        }
    }
}

impl Expansion for InNumbers {
    fn name(&self) -> StaticName {
        "Output".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)?;
        s.given(&inputs[0].datum_type, move |s, from| {
            s.equals(&outputs[0].datum_type, Self::of(from))
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let from = model.outlet_fact(inputs[0])?.datum_type;
        match Self::of(from) {
            to if to == from => Ok(inputs.into()),
            to => model.wire_node(prefix, cast(to), inputs),
        }
    }
}
