//! Products of quantised matrices. tract's version gives products with a vector another shape.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, with_fallback};
use crate::delegate::Facts;
use crate::node::{check_domain, parse_with_tract};
use crate::operators::mat_mul::{batch, may_broadcast};

pub(super) const OPERATORS: [&str; 2] = ["MatMulInteger", "QLinearMatMul"];

/// Parses a MatMulInteger or a QLinearMatMul.
pub(super) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    let op = OfMatrices {
        places: match node.op_type.as_str() {
            "QLinearMatMul" => [0, 3],
            _ => [0, 1],
        },
    };
    Ok((with_fallback(upstream, op), captured))
}

#[derive(Clone, Debug)]
struct OfMatrices {
    /// The operands' places among the inputs.
    places: [usize; 2],
}

impl Override for OfMatrices {
    fn infer(
        &self,
        _upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        for place in self.places {
            let rank = inputs
                .get(place)
                .and_then(|it| it.shape.rank().concretize());
            ensure!(
                rank.is_none_or(|rank| rank > 1),
                "an operand is a vector, expected matrices"
            );
        }
        Ok(None)
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        _name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let [a, b] = self.places.map(|place| target.outlet_fact(inputs[place]));
        let [a, b] = [batch(a?), batch(b?)];
        // tract's takes one of them for the other.
        ensure!(
            !may_broadcast(&a, &b),
            "whether its operands broadcast is not known before it runs"
        );
        Ok(None)
    }
}
