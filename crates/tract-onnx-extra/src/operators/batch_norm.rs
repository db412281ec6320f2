//! BatchNormalization. tract's takes constants alone; Keras' LayerNormalization computes the mean
//! and the variance.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::{AxisOp, wire_with_rank_broadcast};
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, with_fallback};
use crate::node::{check_domain, parse_with_tract};

/// Parses a BatchNormalization.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let is_training = node.get_attr_opt::<i64>("training_mode")?.unwrap_or(0) != 0;
    ensure!(!is_training, "its training_mode is 1, expected 0");
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    let op = Computed {
        epsilon: node.get_attr_opt("epsilon")?.unwrap_or(1e-5),
    };
    Ok((with_fallback(upstream, op), captured))
}

/// A BatchNormalization with a computed scale, bias, mean or variance.
#[derive(Clone, Debug)]
struct Computed {
    epsilon: f32,
}

impl Override for Computed {
    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let is_known = |input: &OutletId| {
            let fact = target.outlet_fact(*input);
            fact.is_ok_and(|fact| fact.konst.is_some())
        };
        rule_if!(!inputs[1..].iter().all(is_known));
        let mut to = Wiring { name, target };
        let fact = to.target.outlet_fact(inputs[0])?;
        let (datum_type, rank) = (fact.datum_type, fact.rank());
        let mut parameters: TVec<OutletId> = inputs[1..].into();
        for parameter in &mut parameters {
            // From [channels] to [channels, 1, …].
            for axis in 1..rank.saturating_sub(1) {
                *parameter = to.wire("parameter", AxisOp::Add(axis), &[*parameter])?;
            }
        }
        let &[scale, bias, mean, variance] = &*parameters else {
            bail!("it has {} inputs, expected 5", inputs.len());
        };
        let epsilon = tensor0(self.epsilon).cast_to_dt(datum_type)?.into_owned();
        let epsilon = to.target.add_const(to.unique("epsilon"), epsilon)?;
        let centered = to.wire("centered", math::sub(), &[inputs[0], mean])?;
        let variance = to.wire("variance", math::add(), &[variance, epsilon])?;
        let deviation = to.wire("deviation", math::sqrt(), &[variance])?;
        let factor = to.wire("factor", math::div(), &[scale, deviation])?;
        let scaled = to.wire("scaled", math::mul(), &[centered, factor])?;
        Ok(Some(tvec![to.wire("y", math::add(), &[scaled, bias])?]))
    }
}

/// Wires operators that broadcast.
struct Wiring<'a> {
    name: &'a str,
    target: &'a mut TypedModel,
}

impl Wiring<'_> {
    fn unique(&self, part: &str) -> String {
        let name = format!("{}.{part}", self.name);
        self.target.unique_name(name).into_owned()
    }

    fn wire(
        &mut self,
        part: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        let name = self.unique(part);
        Ok(wire_with_rank_broadcast(name, self.target, op, inputs)?[0])
    }
}
