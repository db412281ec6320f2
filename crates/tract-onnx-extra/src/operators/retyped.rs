//! Operators of types that tract lacks for them, or computes badly, by those of another type.
//!
//! tract sums half floats in half floats, which loses digits, and one by one where the processor
//! has no such instructions. ONNX Runtime casts them to floats as well.

use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_hir::internal::*;

use crate::delegate::{Delegate, Facts, Hook, Inference, Known};
use crate::wire::{to_typed_without_facts, wire_cast, with_inputs};

/// Operators that lose digits, overflow, or take several times as long in half floats.
const OF_HALVES: [&str; 40] = [
    "AveragePool",
    "BatchNormalization",
    "Celu",
    "Clip",
    "Conv",
    "ConvTranspose",
    "CumSum",
    "Einsum",
    "Elu",
    "Exp",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LayerNormalization",
    "Log",
    "LogSoftmax",
    "MatMul",
    "MeanVarianceNormalization",
    "Mish",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Resize",
    "Selu",
    "Softmax",
    "Softplus",
    "Softsign",
    "STFT",
    "Swish",
];

/// Operators of truth values, of which tract has those of numbers alone.
const OF_TRUTHS: [&str; 4] = ["Equal", "Pad", "ReduceMax", "ReduceMin"];

/// The types that some operators get for others.
const RETYPED: [Retyped; 2] = [
    Retyped {
        from: DatumType::F16,
        to: DatumType::F32,
        operators: &OF_HALVES,
    },
    Retyped {
        from: DatumType::Bool,
        to: DatumType::U8,
        operators: &OF_TRUTHS,
    },
];

/// A type, and another one for operators that tract lacks for it or computes badly.
struct Retyped {
    from: DatumType,
    to: DatumType,
    operators: &'static [&'static str],
}

/// Adds the hook to one of the operators.
pub(crate) fn hooked(operator: &str, upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    let types = RETYPED.iter().filter(|it| it.operators.contains(&operator));
    let types: TVec<(DatumType, DatumType)> = types.map(|it| (it.from, it.to)).collect();
    if types.is_empty() {
        return upstream;
    }
    Delegate::boxed(upstream, InOtherType { types })
}

/// The hook of an operator that gets values of other types, and whose results are cast back.
#[derive(Clone, Debug)]
struct InOtherType {
    /// The types, each with the one that stands in for it.
    types: TVec<(DatumType, DatumType)>,
}

impl InOtherType {
    fn other(&self, datum_type: DatumType) -> Option<DatumType> {
        let types = self.types.iter();
        types.filter(|it| it.0 == datum_type).map(|it| it.1).next()
    }
}

impl Hook for InOtherType {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        let types = known.inputs.iter().map(|fact| fact.datum_type.concretize());
        let inference = match types.flatten().any(|it| self.other(it).is_some()) {
            true => Inference::Facts,
            false => inference,
        };
        inference.of(upstream, known)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let retyped = with_inputs(node, target, mapping, |target, outlet| {
            let fact = target.outlet_fact(outlet)?;
            rule_if_some!(other = self.other(fact.datum_type));
            let known = fact.konst.clone();
            let name = target.unique_name(format!("{}.retyped", node.name));
            let name = name.into_owned();
            // A constant stays one: tract would cast a large one in each run.
            Ok(Some(match known {
                Some(known) => target.add_const(name, known.cast_to_dt(other)?.into_owned())?,
                None => target.wire_node(name, cast(other), &[outlet])?[0],
            }))
        })?;
        if retyped == *mapping {
            return upstream.to_typed(source, node, target, mapping);
        }
        let mut made = to_typed_without_facts(upstream, source, node, target, &retyped)?;
        for (made, output) in std::iter::zip(&mut made, &node.outputs) {
            let datum_type = output.fact.datum_type.concretize();
            if let Some(datum_type) = datum_type.filter(|it| self.other(*it).is_some()) {
                let name = format!("{}.retyped", node.name);
                *made = wire_cast(target, name, *made, datum_type)?;
            }
        }
        Ok(made)
    }
}
