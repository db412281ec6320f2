//! Gemm. tract's multiplies by `alpha` and `beta` as floats, which other types refuse.

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, with_fallback};
use crate::node::{check_domain, parse_with_tract};

/// Parses a Gemm.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    let factor =
        |name: &str| -> TractResult<f32> { Ok(node.get_attr_opt::<f32>(name)?.unwrap_or(1.0)) };
    let is_set =
        |name: &str| -> TractResult<bool> { Ok(node.get_attr_opt::<i64>(name)?.unwrap_or(0) != 0) };
    let op = Gemm {
        alpha: factor("alpha")?,
        beta: factor("beta")?,
        transposes: [is_set("transA")?, is_set("transB")?],
        addend: optional_inputs(node).nth(2).flatten(),
    };
    Ok((with_fallback(upstream, op), captured))
}

#[derive(Clone, Debug)]
struct Gemm {
    alpha: f32,
    beta: f32,
    transposes: [bool; 2],
    addend: Option<usize>,
}

impl Override for Gemm {
    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let datum_type = target.outlet_fact(inputs[0])?.datum_type;
        rule_if!(!datum_type.is::<f32>());
        let [a, b] = self.transposes;
        let axes = AxesMapping::for_numpy_matmul(2, a, b, false)?;
        let product = EinSum::new(axes, datum_type);
        let product_name = target.unique_name(format!("{name}.product")).into_owned();
        let product = target.wire_node(product_name, product, &inputs[..2])?[0];
        let product = scaled(target, &format!("{name}.alpha"), product, self.alpha)?;
        let Some(addend) = self.addend.filter(|_| self.beta != 0.0) else {
            return Ok(Some(tvec![product]));
        };
        let addend = scaled(target, &format!("{name}.beta"), inputs[addend], self.beta)?;
        wire_with_rank_broadcast(name, target, math::add(), &[product, addend]).map(Some)
    }
}

/// A value times a factor.
fn scaled(
    target: &mut TypedModel,
    name: &str,
    value: OutletId,
    factor: f32,
) -> TractResult<OutletId> {
    if factor == 1.0 {
        return Ok(value);
    }
    let datum_type = target.outlet_fact(value)?.datum_type;
    ensure!(
        datum_type.is_float(),
        "its factor is {factor}, expected 1 for a product of {datum_type:?}"
    );
    let factor = tensor0(factor).cast_to_dt(datum_type)?.into_owned();
    let factor_name = target.unique_name(format!("{name}.factor")).into_owned();
    let factor = target.add_const(factor_name, factor)?;
    let name = target.unique_name(name).into_owned();
    Ok(wire_with_rank_broadcast(name, target, math::mul(), &[value, factor])?[0])
}
