//! Products of integers and of sizes, and powers with exponents of another type.
//!
//! tract makes squares of `Mul(i, i)` and `Pow(i, 2)`, which it has for floats alone, and keeps 32
//! bits of a number that is multiplied with a size. Its powers have the wider type of two; ONNX's have
//! that of the base. Products of floats stay tract's.
//!
//! ```text
//! Mul(Shape(x)[0], 5000000000): 5000000000·N
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::math::{mul, pow};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};
use crate::delegate::Facts;
use crate::dims::{each_size, scalar};
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
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        let is_size = |fact: &&InferenceFact| {
            let datum_type = fact.datum_type.concretize();
            datum_type.is_some_and(|it| it.is_tdim())
        };
        rule_if!(matches!(self, Self::Both) && inputs.iter().any(is_size));
        let mut found = upstream.infer_facts(inputs.clone(), outputs.clone(), tvec![])?;
        let values = [0, 1].map(|input| found.0[input].value.concretize());
        if let [Some(a), Some(b)] = values {
            let products = each_size([&a, &b], |a, b| Ok(product(a, b)))?;
            found.1[0].value = products.into_arc_tensor().into();
        }
        Ok(Some(found))
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
        let (first, second) = match self {
            Self::Base => {
                let is_two =
                    |value: &Arc<Tensor>| scalar::<f64>(value).is_ok_and(|number| number == 2.0);
                // A list of one exponent may have more axes than the base; so has the output then.
                let squares =
                    first.rank() >= second.rank() && second.konst.as_ref().is_some_and(is_two);
                if !squares {
                    return power(name, target, [inputs[0], inputs[1]]);
                }
                (first.datum_type, first.datum_type)
            }
            Self::Both => (first.datum_type, second.datum_type),
        };
        rule_if_some!(datum_type = first.common_super_type(second));
        rule_if!(datum_type.is_integer() || datum_type.is_tdim());
        let operands = match self {
            Self::Base => [inputs[0], inputs[0]],
            Self::Both => [inputs[0], inputs[1]],
        };
        let mut operands = wire_rank_broadcast(name, target, &operands)?;
        for (index, operand) in operands.iter_mut().enumerate() {
            if !datum_type.is_tdim() {
                *operand = wire_cast(target, format!("{name}.in{index}"), *operand, datum_type)?;
            }
        }
        let name = target.unique_name(name).into_owned();
        target
            .wire_node(name, Product { datum_type }, &operands)
            .map(Some)
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

/// The product of integers, or of sizes, which may be numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Product {
    datum_type: DatumType,
}

/// The product of sizes.
fn product(a: &TDim, b: &TDim) -> TDim {
    match (a.to_i64(), b.to_i64()) {
        (Ok(a), Ok(b)) => a.wrapping_mul(b).to_dim(),
        (Ok(times), Err(_)) => b.clone() * times,
        (Err(_), Ok(times)) => a.clone() * times,
        (Err(_), Err(_)) => a.clone() * b,
    }
}

impl Op for Product {
    fn name(&self) -> StaticName {
        "Mul".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Product {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        if !self.datum_type.is_tdim() {
            return mul().eval(ctx, inputs);
        }
        let products = each_size([&inputs[0], &inputs[1]], |a, b| {
            Ok(product(&a.eval(ctx.symbols), &b.eval(ctx.symbols)))
        })?;
        Ok(tvec![products.into_tvalue()])
    }
}

impl TypedOp for Product {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec![self.datum_type.fact(shape)])
    }

    as_op!();
}
