//! Quotients as ONNX defines them.
//!
//! tract multiplies floats with the reciprocal of the divisor, which rounds twice: 41 / 41 is less
//! than 1 then, and its Floor 0. It panics where an integer is divided by 0, and rounds some quotients of
//! sizes down.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::math::Div;
use tract_onnx::tract_hir::internal::*;

use super::arithmetic::{Arithmetic, has_sizes};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a Div.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, QuotientOf)
}

#[derive(Clone, Debug)]
struct QuotientOf;

impl Operator for QuotientOf {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        node.computes &= !has_sizes(node);
        if let Some(divisor) = node.value(1).filter(|_| node.computes) {
            check_divisor(&divisor)?;
        }
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let operands = [node.inputs[0], node.inputs[1]];
        if let Some(quotient) = Arithmetic::Div.wire(node, operands)? {
            return Ok(Some(tvec![quotient]));
        }
        let datum_type = node.input(0)?.datum_type;
        rule_if!(datum_type == node.input(1)?.datum_type);
        rule_if!(datum_type.is_float() || datum_type.is_integer());
        let operands = wire_rank_broadcast(node.name, node.model, &operands)?;
        node.last(TypedBinOp(Box::new(Quotient), None), &operands)
    }
}

/// The quotient of numbers of one type, integers rounded towards 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quotient;

impl BinMiniOp for Quotient {
    fn name(&self) -> &'static str {
        "Div"
    }

    fn result_datum_type(&self, a: DatumType, b: DatumType) -> TractResult<DatumType> {
        Div.result_datum_type(a, b)
    }

    fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
        check_divisor(b)?;
        Div.eval_in_a(a, b)
    }

    fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
        check_divisor(b)?;
        Div.eval_out_of_place(c, a, b)
    }

    fn is_commutative(&self) -> bool {
        false
    }

    fn neutral_element(&self) -> Option<i64> {
        Div.neutral_element()
    }

    fn cost_per_element(&self, datum_type: DatumType) -> TVec<(Cost, usize)> {
        Div.cost_per_element(datum_type)
    }
}

/// Checks that no integer is divided by 0.
fn check_divisor(divisor: &Tensor) -> TractResult<()> {
    let datum_type = divisor.datum_type();
    if datum_type.is_integer() {
        let plain = divisor.try_as_plain_ram()?;
        let mut numbers = plain.as_bytes().chunks_exact(datum_type.size_of());
        ensure!(
            numbers.all(|number| number.iter().any(|byte| *byte != 0)),
            "it divides by 0"
        );
    }
    Ok(())
}
