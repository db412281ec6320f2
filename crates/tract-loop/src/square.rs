//! Squares of integers. tract's operator takes no int64.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::math::mul;
use tract_onnx::tract_hir::internal::*;

use crate::from_data::{FromData, OrTracts};
use crate::node::{Facts, check_domain, tracts};

/// Parses a Pow.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let (tracts, captured) = tracts("Pow", ctx, node)?;
    let op = SquareOrPower;
    Ok((Box::new(OrTracts { tracts, op }), captured))
}

#[derive(Clone, Debug)]
struct SquareOrPower;

impl FromData for SquareOrPower {
    fn name(&self, tracts: &dyn InferenceOp) -> StaticName {
        tracts.name()
    }

    fn infer(
        &self,
        _tracts: &mut dyn InferenceOp,
        _inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        Ok(None)
    }

    fn wire(
        &self,
        _tracts: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let [base, exponent] = [0, 1].map(|input| target.outlet_fact(inputs[input]));
        let (base, exponent) = (base?, exponent?);
        let is_two = |value: &Arc<Tensor>| {
            let number = value.cast_to_scalar::<f64>();
            value.len() == 1 && number.is_ok_and(|number| number == 2.0)
        };
        let squares = base.datum_type.is_integer()
            && base.rank() >= exponent.rank()
            && exponent.konst.as_ref().is_some_and(is_two);
        squares
            .then(|| target.wire_node(name, Square, &inputs[..1]))
            .transpose()
    }
}

/// The squares of integers, by tract's Mul.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Square;

impl Op for Square {
    fn name(&self) -> StaticName {
        "Square".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Square {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        mul().eval(ctx, tvec![inputs[0].clone(), inputs[0].clone()])
    }
}

impl TypedOp for Square {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}
