//! Dropout before opset 12, whose mask is of zeros, as in ONNX Runtime, and before opset 10 of the data's
//! type. tract's has the truth values of later ones.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::operator::{Parsed, Wiring, over_tract, own};

/// The first version whose mask has truth values, and the first that marks what is kept.
const OF_TRUTHS: i64 = 10;
const OF_KEPT: i64 = 12;

/// Parses a Dropout.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let version = ctx.onnx_operator_set_version;
    if version >= OF_KEPT || node.output.len() < 2 {
        return over_tract(ctx, node, OrNothing);
    }
    let has_truths = version >= OF_TRUTHS;
    own(node, [1, 2], move |node: &mut Wiring<'_>| {
        let fact = node.input(0)?.clone();
        let datum_type = match has_truths {
            true => bool::datum_type(),
            false => fact.datum_type,
        };
        let zero = Tensor::zero_dt(datum_type, &tvec![1; fact.rank()])?;
        let zero = node.constant("zero", zero)?;
        let mask = node.op("mask", MultiBroadcastTo::new(fact.shape), &[zero])?;
        Ok(Some(tvec![node.inputs[0], mask]))
    })
}
