//! Operators of types that tract lacks for them, or computes badly, by those of another type.
//!
//! tract sums half floats in half floats, which loses digits, and one by one where the processor
//! has no such instructions. There its Sigmoid is never below 0.00098, its Tanh never above 0.99902.
//! ONNX Runtime casts them to floats as well.

use tract_onnx::tract_hir::internal::*;

use crate::node::is_one_of;
use crate::operator::{Inferred, Inferring, Operator, Wired, Wiring, over};

/// Operators that lose digits, overflow, or take several times as long in half floats.
const OF_HALVES: &str = "\
    AveragePool BatchNormalization Celu Clip Conv ConvTranspose CumSum Einsum Elu Exp Gelu Gemm \
    GlobalAveragePool GroupNormalization HardSigmoid HardSwish InstanceNormalization \
    LayerNormalization Log LogSoftmax MatMul MeanVarianceNormalization Mish ReduceL1 ReduceL2 \
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Resize \
    Selu Sigmoid Softmax Softplus Softsign STFT Swish Tanh";

/// Operators of truth values, of which tract has those of numbers alone.
const OF_TRUTHS: &str = "Equal Pad ReduceMax ReduceMin";

/// The types that some operators get for others: the type, the one that stands in, and the operators.
const RETYPED: [(DatumType, DatumType, &str); 2] = [
    (DatumType::F16, DatumType::F32, OF_HALVES),
    (DatumType::Bool, DatumType::U8, OF_TRUTHS),
];

/// Puts an operator over one of these.
pub(crate) fn mended(operator: &str, upstream: Box<dyn InferenceOp>) -> Box<dyn InferenceOp> {
    let types = RETYPED
        .iter()
        .filter(|(.., names)| is_one_of(names, operator));
    let types: TVec<(DatumType, DatumType)> = types.map(|(from, to, _)| (*from, *to)).collect();
    if types.is_empty() {
        return upstream;
    }
    over(upstream, InOtherType { types })
}

/// The operator over one that gets values of other types, and whose results are cast back.
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

impl Operator for InOtherType {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let is_other = node.types().flatten().any(|it| self.other(it).is_some());
        node.computes &= !is_other;
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let before = node.inputs.clone();
        node.replace_inputs(|node, outlet| {
            rule_if_some!(other = self.other(node.fact(outlet)?.datum_type));
            node.cast("retyped", outlet, other).map(Some)
        })?;
        rule_if!(node.inputs != before);
        let mut made = node.by_upstream()?;
        for (made, fact) in std::iter::zip(&mut made, node.inferred_outputs()) {
            let datum_type = fact.datum_type.concretize();
            if let Some(datum_type) = datum_type.filter(|it| self.other(*it).is_some()) {
                *made = node.cast("retyped", *made, datum_type)?;
            }
        }
        Ok(Some(made))
    }
}
