//! BatchNormalization. tract's takes constants alone; Keras' LayerNormalization computes the mean
//! and the variance.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a BatchNormalization.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let is_training = node.get_attr_opt::<i64>("training_mode")?.unwrap_or(0) != 0;
    ensure!(!is_training, "its training_mode is 1, expected 0");
    let op = Computed {
        epsilon: node.get_attr_opt("epsilon")?.unwrap_or(1e-5),
    };
    over_tract(ctx, node, op)
}

/// A BatchNormalization with a computed scale, bias, mean or variance.
#[derive(Clone, Debug)]
struct Computed {
    epsilon: f32,
}

impl Operator for Computed {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let is_known = |fact: &&TypedFact| fact.konst.is_some();
        rule_if!(!node.facts()?[1..].iter().all(is_known));
        let fact = node.input(0)?;
        let (datum_type, rank) = (fact.datum_type, fact.rank());
        let mut parameters: TVec<OutletId> = node.inputs[1..].into();
        for parameter in &mut parameters {
            // From [channels] to [channels, 1, …].
            for axis in 1..rank.saturating_sub(1) {
                *parameter = node.op("parameter", AxisOp::Add(axis), &[*parameter])?;
            }
        }
        let &[scale, bias, mean, variance] = &*parameters else {
            bail!("it has {} inputs, expected 5", node.inputs.len());
        };
        let epsilon = tensor0(self.epsilon).cast_to_dt(datum_type)?.into_owned();
        let epsilon = node.constant("epsilon", epsilon)?;
        let centered = node.broadcast("centered", math::sub(), &[node.inputs[0], mean])?;
        let variance = node.broadcast("variance", math::add(), &[variance, epsilon])?;
        let deviation = node.op("deviation", math::sqrt(), &[variance])?;
        let factor = node.broadcast("factor", math::div(), &[scale, deviation])?;
        let scaled = node.broadcast("scaled", math::mul(), &[centered, factor])?;
        Ok(Some(tvec![node.broadcast(
            "y",
            math::add(),
            &[scaled, bias]
        )?]))
    }
}
