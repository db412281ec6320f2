//! Products of quantised matrices. tract's version gives products with a vector another shape.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::operators::mat_mul::{batch, may_broadcast};

/// Parses a MatMulInteger or a QLinearMatMul.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let op = OfMatrices {
        places: match node.op_type.as_str() {
            "QLinearMatMul" => [0, 3],
            _ => [0, 1],
        },
    };
    over_tract(ctx, node, op)
}

#[derive(Clone, Debug)]
struct OfMatrices {
    /// The operands' places among the inputs.
    places: [usize; 2],
}

impl Operator for OfMatrices {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        for place in self.places {
            let operand = node.inputs.get(place);
            let rank = operand.and_then(|it| it.shape.rank().concretize());
            ensure!(
                rank.is_none_or(|rank| rank > 1),
                "an operand is a vector, expected matrices"
            );
        }
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let [a, b] = self.places.map(|place| node.input(place));
        let [a, b] = [batch(a?), batch(b?)];
        // tract's takes one of them for the other.
        ensure!(
            !may_broadcast(&a, &b),
            "whether its operands broadcast is not known before it runs"
        );
        Ok(None)
    }
}
