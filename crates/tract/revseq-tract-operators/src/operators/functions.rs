//! Functions of one number, where tract computes something else, overflows, lacks doubles, or takes longer.

use recurrent_layers::Activation as OfLayer;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::logic::{Or, comp_eq, comp_ne};
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};
use crate::recurrent::activation::Activation;

/// Parses a function.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, read(node)?)
}

fn read(node: &NodeProto) -> TractResult<Function> {
    let float = |name: &str, default: f32| -> TractResult<f32> {
        Ok(node.get_attr_opt::<f32>(name)?.unwrap_or(default))
    };
    let is_sought =
        |name: &str| -> TractResult<bool> { Ok(node.get_attr_opt::<i64>(name)?.unwrap_or(1) != 0) };
    let is_by_tanh = node.get_attr_opt::<&str>("approximate")? == Some("tanh");
    Ok(match node.op_type.as_str() {
        "Celu" => Function::OfAll(Activation::Celu {
            alpha: float("alpha", 1.0)?,
        }),
        "Mish" => Function::OfAll(Activation::Mish),
        "Selu" => Function::OfAll(Activation::Selu {
            alpha: float("alpha", 1.673_263_2)?,
            gamma: float("gamma", 1.050_701)?,
        }),
        "Softplus" => Function::OfAll(Activation::OfLayer(OfLayer::Softplus)),
        "Swish" => match float("alpha", 1.0)? {
            1.0 => Function::OfDoubles(Activation::Swish { alpha: 1.0 }),
            alpha => Function::OfAll(Activation::Swish { alpha }),
        },
        "HardSigmoid" => Function::OfAll(Activation::OfLayer(OfLayer::HardSigmoid {
            alpha: float("alpha", 0.2)?,
            beta: float("beta", 0.5)?,
        })),
        "Softsign" => Function::OfAll(Activation::OfLayer(OfLayer::Softsign)),
        "ThresholdedRelu" => Function::OfAll(Activation::ThresholdedRelu {
            alpha: float("alpha", 1.0)?,
        }),
        "Erf" => Function::OfDoubles(Activation::Erf),
        "Gelu" if is_by_tanh => Function::OfDoubles(Activation::GeluTanh),
        "Gelu" => Function::OfDoubles(Activation::Gelu),
        "HardSwish" => Function::OfDoubles(Activation::HardSwish),
        "LeakyRelu" => Function::OfDoubles(Activation::OfLayer(OfLayer::LeakyRelu {
            alpha: float("alpha", 0.01)?,
        })),
        "Round" => Function::OfDoubles(Activation::Round),
        "Sigmoid" => Function::OfDoubles(Activation::OfLayer(OfLayer::Sigmoid)),
        "IsNaN" => Function::IsNan,
        _ => Function::IsInfinite {
            positive: is_sought("detect_positive")?,
            negative: is_sought("detect_negative")?,
        },
    })
}

#[derive(Clone, Debug)]
enum Function {
    /// A function for floats and doubles.
    OfAll(Activation),
    /// A function for doubles; for floats tract's is as good, and uses vectors.
    OfDoubles(Activation),
    /// IsNaN, for doubles.
    IsNan,
    /// IsInf, for doubles.
    IsInfinite { positive: bool, negative: bool },
}

impl Operator for Function {
    const COMPUTES: bool = false;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let x = node.inputs[0];
        let datum_type = node.input(0)?.datum_type;
        let is_double = datum_type.is::<f64>();
        rule_if!(is_double || datum_type.is::<f32>() && matches!(self, Self::OfAll(_)));
        let equal = |node: &mut Wiring<'_>, number: f64| {
            let number = node.constant("number", tensor0(number))?;
            let operands = wire_rank_broadcast(node.part("equal"), node.model, &[x, number])?;
            node.op("equal", TypedBinOp(comp_eq(), None), &operands)
        };
        match *self {
            Self::OfAll(activation) | Self::OfDoubles(activation) => {
                node.last(activation.op(), &[x])
            }
            Self::IsNan => node.last(TypedBinOp(comp_ne(), None), &[x, x]),
            Self::IsInfinite { positive, negative } => {
                // Of NaN if none is sought: no number equals it.
                let sought = |is_sought: bool, it: f64| if is_sought { it } else { f64::NAN };
                let (most, least) = (f64::INFINITY, f64::NEG_INFINITY);
                let above = equal(node, sought(positive, most))?;
                let below = equal(node, sought(negative, least))?;
                node.last(TypedBinOp(Box::new(Or), None), &[above, below])
            }
        }
    }
}
