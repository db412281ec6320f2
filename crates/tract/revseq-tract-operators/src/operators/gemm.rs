//! Gemm. tract's multiplies by `alpha` and `beta` as floats, which other types refuse.

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a Gemm.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let factor =
        |name: &str| -> TractResult<f32> { Ok(node.get_attr_opt::<f32>(name)?.unwrap_or(1.0)) };
    let is_set =
        |name: &str| -> TractResult<bool> { Ok(node.get_attr_opt::<i64>(name)?.unwrap_or(0) != 0) };
    let op = Gemm {
        alpha: factor("alpha")?,
        beta: factor("beta")?,
        is_a_turned: is_set("transA")?,
        is_b_turned: is_set("transB")?,
        addend: optional_inputs(node).nth(2).flatten(),
    };
    over_tract(ctx, node, op)
}

#[derive(Clone, Debug)]
struct Gemm {
    alpha: f32,
    beta: f32,
    is_a_turned: bool,
    is_b_turned: bool,
    /// The input that is added.
    addend: Option<usize>,
}

impl Operator for Gemm {
    const COMPUTES: bool = false;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let datum_type = node.input(0)?.datum_type;
        rule_if!(!datum_type.is::<f32>());
        let axes = AxesMapping::for_numpy_matmul(2, self.is_a_turned, self.is_b_turned, false)?;
        let operands = [node.inputs[0], node.inputs[1]];
        let product = node.op("product", EinSum::new(axes, datum_type), &operands)?;
        let product = scaled(node, "alpha", product, self.alpha)?;
        let Some(addend) = self.addend.filter(|_| self.beta != 0.0) else {
            return Ok(Some(tvec![product]));
        };
        let addend = scaled(node, "beta", node.inputs[addend], self.beta)?;
        wire_with_rank_broadcast(node.name, node.model, math::add(), &[product, addend]).map(Some)
    }
}

/// A value times a factor.
fn scaled(
    node: &mut Wiring<'_>,
    part: &str,
    value: OutletId,
    factor: f32,
) -> TractResult<OutletId> {
    if factor == 1.0 {
        return Ok(value);
    }
    let datum_type = node.fact(value)?.datum_type;
    ensure!(
        datum_type.is_float(),
        "its factor is {factor}, expected 1 for a product of {datum_type:?}"
    );
    let factor = tensor0(factor).cast_to_dt(datum_type)?.into_owned();
    let factor = node.constant(&format!("{part}.factor"), factor)?;
    node.broadcast(part, math::mul(), &[value, factor])
}
