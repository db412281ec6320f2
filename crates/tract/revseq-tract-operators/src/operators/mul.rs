//! Products of integers, and powers with exponents of another type.
//!
//! tract makes squares of `Mul(i, i)` and `Pow(i, 2)`, which it has for floats alone. Its powers have the
//! wider type of two; ONNX's have that of the base. Products of floats stay tract's.
//!
//! ```text
//! Pow(i, 2): Mul(i, i), in integers
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::math::{mul, pow};
use tract_onnx::tract_hir::internal::*;

use super::arithmetic::{Arithmetic, has_sizes};
use crate::dims::scalar;
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};
use crate::typed_op::{Stateless, Typed};
use crate::wire::wire_cast;

/// Parses a Mul or a Pow.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let op = match node.op_type.as_str() {
        "Mul" => ProductOf::Both,
        _ => ProductOf::Base,
    };
    over_tract(ctx, node, op)
}

/// The operands that an operator multiplies.
#[derive(Clone, Debug)]
enum ProductOf {
    Both,
    /// The first one by itself, if the second is 2.
    Base,
}

impl Operator for ProductOf {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        node.computes &= !has_sizes(node);
        Ok(None)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let (first, second) = (node.input(0)?, node.input(1)?);
        let mut operands = [node.inputs[0], node.inputs[1]];
        if matches!(self, Self::Base) {
            let is_two =
                |value: &Arc<Tensor>| scalar::<f64>(value).is_ok_and(|number| number == 2.0);
            // A list of one exponent may have more axes than the base; so has the output then.
            let squares =
                first.rank() >= second.rank() && second.konst.as_ref().is_some_and(is_two);
            if !squares {
                return power(node);
            }
            operands[1] = operands[0];
        }
        if let Some(product) = Arithmetic::Mul.wire(node, operands)? {
            return Ok(Some(tvec![product]));
        }
        let types = operands.map(|it| node.fact(it).map(|fact| fact.datum_type));
        let [first, second] = types;
        rule_if_some!(datum_type = first?.common_super_type(second?));
        rule_if!(datum_type.is_integer());
        let operands = cast_alike(node, &operands, datum_type)?;
        node.last(Typed(Product), &operands)
    }
}

/// Operands of one type and rank.
fn cast_alike(
    node: &mut Wiring<'_>,
    operands: &[OutletId],
    to: DatumType,
) -> TractResult<TVec<OutletId>> {
    let operands = wire_rank_broadcast(node.name, node.model, operands)?;
    let operands = operands.into_iter().enumerate();
    let cast = operands.map(|(index, operand)| node.cast(&format!("in{index}"), operand, to));
    cast.collect()
}

/// Wires a power whose exponent has a wider type than the base.
fn power(node: &mut Wiring<'_>) -> Wired {
    let (base, exponent) = (node.input(0)?.datum_type, node.input(1)?.datum_type);
    rule_if!(base.is_float() && exponent.is_float() || base.is_integer() && exponent.is_integer());
    rule_if_some!(wide = base.common_super_type(exponent));
    rule_if!(wide != base);
    let operands = cast_alike(node, &node.inputs.clone(), wide)?;
    let made = node.op("wide", pow(), &operands)?;
    let name = node.name.to_owned();
    Ok(Some(tvec![wire_cast(node.model, name, made, base)?]))
}

/// The product of integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Product;

impl Stateless for Product {
    const NAME: &str = "Mul";

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        mul().eval(ctx, inputs)
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        mul().output_facts(inputs)
    }
}
