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
use crate::data_sizes::{Override, parse_overridden};
use crate::dims::scalar;
use crate::wire::wire_cast;

/// Parses a Mul or a Pow.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, |node| {
        Ok(match node.op_type.as_str() {
            "Mul" => ProductOf::Both,
            _ => ProductOf::Base,
        })
    })
}

/// The operands that an operator multiplies.
#[derive(Clone, Debug)]
enum ProductOf {
    Both,
    /// The first one by itself, if the second is 2.
    Base,
}

impl Override for ProductOf {
    fn lets_tract_compute(&self, inputs: &TVec<&InferenceFact>) -> bool {
        !has_sizes(inputs)
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let [first, second] = [0, 1].map(|input| target.outlet_fact(inputs[input]));
        let (first, second) = (first?, second?);
        let operands = match self {
            Self::Base => {
                let is_two =
                    |value: &Arc<Tensor>| scalar::<f64>(value).is_ok_and(|number| number == 2.0);
                // A list of one exponent may have more axes than the base; so has the output then.
                let squares =
                    first.rank() >= second.rank() && second.konst.as_ref().is_some_and(is_two);
                if !squares {
                    return power(name, target, [inputs[0], inputs[1]]);
                }
                [inputs[0], inputs[0]]
            }
            Self::Both => [inputs[0], inputs[1]],
        };
        if let Some(product) = Arithmetic::Mul.wire(name, target, operands)? {
            return Ok(Some(tvec![product]));
        }
        let types = operands.map(|it| target.outlet_fact(it).map(|fact| fact.datum_type));
        let [first, second] = types;
        rule_if_some!(datum_type = first?.common_super_type(second?));
        rule_if!(datum_type.is_integer());
        let mut operands = wire_rank_broadcast(name, target, &operands)?;
        for (index, operand) in operands.iter_mut().enumerate() {
            *operand = wire_cast(target, format!("{name}.in{index}"), *operand, datum_type)?;
        }
        let name = target.unique_name(name).into_owned();
        target.wire_node(name, Product, &operands).map(Some)
    }
}

/// Wires a power whose exponent has a wider type than the base.
fn power(
    name: &str,
    target: &mut TypedModel,
    operands: [OutletId; 2],
) -> TractResult<Option<TVec<OutletId>>> {
    let [base, exponent] = operands.map(|it| target.outlet_fact(it).map(|fact| fact.datum_type));
    let (base, exponent) = (base?, exponent?);
    rule_if!(base.is_float() && exponent.is_float() || base.is_integer() && exponent.is_integer());
    rule_if_some!(wide = base.common_super_type(exponent));
    rule_if!(wide != base);
    let mut operands = wire_rank_broadcast(name, target, &operands)?;
    for (index, operand) in operands.iter_mut().enumerate() {
        *operand = wire_cast(target, format!("{name}.in{index}"), *operand, wide)?;
    }
    let wide = target.unique_name(format!("{name}.wide")).into_owned();
    let made = target.wire_node(wide, pow(), &operands)?[0];
    Ok(Some(tvec![wire_cast(target, name.to_owned(), made, base)?]))
}

/// The product of integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Product;

impl Op for Product {
    fn name(&self) -> StaticName {
        "Mul".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Product {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        mul().eval(ctx, inputs)
    }
}

impl TypedOp for Product {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        mul().output_facts(inputs)
    }

    as_op!();
}
