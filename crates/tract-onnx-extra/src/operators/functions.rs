//! Functions of one number, where tract computes something else, overflows, or lacks doubles.

use recurrent_layers::Activation as OfLayer;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::logic::{Or, comp_eq, comp_ne};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};
use crate::recurrent::activation::Activation;

const OPERATORS: [&str; 13] = [
    "Celu",
    "Erf",
    "Gelu",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Mish",
    "Round",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Swish",
];

/// Registers them in a tract ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    for operator in OPERATORS {
        onnx.op_register.insert(operator, parse);
    }
}

fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, read)
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

impl Override for Function {
    fn lets_tract_compute(&self, _inputs: &TVec<&InferenceFact>) -> bool {
        false
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let x = inputs[0];
        let datum_type = target.outlet_fact(x)?.datum_type;
        let is_double = datum_type.is::<f64>();
        rule_if!(is_double || datum_type.is::<f32>() && matches!(self, Self::OfAll(_)));
        let equal = |target: &mut TypedModel, number: f64| {
            let name = target.unique_name(format!("{name}.number")).into_owned();
            let number = target.add_const(&*name, tensor0(number))?;
            let name = target.unique_name(format!("{name}.equal")).into_owned();
            let operands = wire_rank_broadcast(&name, target, &[x, number])?;
            TractResult::Ok(target.wire_node(name, TypedBinOp(comp_eq(), None), &operands)?[0])
        };
        Ok(Some(match *self {
            Self::OfAll(activation) | Self::OfDoubles(activation) => {
                target.wire_node(name, activation.op(), &[x])?
            }
            Self::IsNan => target.wire_node(name, TypedBinOp(comp_ne(), None), &[x, x])?,
            Self::IsInfinite { positive, negative } => {
                // Of NaN if none is sought: no number equals it.
                let sought = |is_sought: bool, it: f64| if is_sought { it } else { f64::NAN };
                let (most, least) = (f64::INFINITY, f64::NEG_INFINITY);
                let above = equal(target, sought(positive, most))?;
                let below = equal(target, sought(negative, least))?;
                target.wire_node(name, TypedBinOp(Box::new(Or), None), &[above, below])?
            }
        }))
    }
}
