//! Quotients as ONNX defines them.
//!
//! tract multiplies floats with the reciprocal of the divisor, which rounds twice: 41 / 41 is less
//! than 1 then, and its Floor 0. It panics where an integer is divided by 0, and rounds some quotients of
//! sizes down.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::math::{Div, mul};
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
        let (datum_type, b) = (node.input(0)?.datum_type, node.input(1)?);
        rule_if!(datum_type == b.datum_type);
        rule_if!(datum_type.is_float() || datum_type.is_integer());
        let (op, b) = match b.konst.as_deref().map(reciprocals).transpose()?.flatten() {
            Some(reciprocals) => (mul(), node.constant("reciprocal", reciprocals)?),
            None => (TypedBinOp(Box::new(Quotient), None), operands[1]),
        };
        let operands = wire_rank_broadcast(node.name, node.model, &[operands[0], b])?;
        node.last(op, &operands)
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

/// The reciprocals of floats that are powers of 2, by which a product equals the quotient.
fn reciprocals(divisor: &Tensor) -> TractResult<Option<Tensor>> {
    let datum_type = divisor.datum_type();
    rule_if!(datum_type.is_float());
    let numbers = divisor.cast_to::<f64>()?;
    let numbers = numbers.try_as_plain_ram()?;
    let numbers = numbers.as_slice::<f64>()?;
    let is_power =
        |it: &f64| it.is_normal() && it.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
    rule_if!(numbers.iter().all(is_power));
    let exact: Vec<f64> = numbers.iter().map(|it| it.recip()).collect();
    let exact = Tensor::from_shape(divisor.shape(), &exact)?;
    let reciprocals = exact.cast_to_dt(datum_type)?.into_owned();
    // Of the least float it is infinite.
    let is_exact = *reciprocals.cast_to::<f64>()? == exact;
    Ok(is_exact.then_some(reciprocals))
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
