//! Equal of sizes, which tract takes for different if their expressions are.
//!
//! ```text
//! N = 2 is false for tract, and is decided here once N is a number; N + 1 = 0 is false for all N
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};
use crate::dims::{each_size, is_size};
use crate::wire::wire_cast;

/// Parses an Equal.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, |_| Ok(Equal))
}

#[derive(Clone, Debug)]
struct Equal;

impl Override for Equal {
    fn lets_tract_compute(&self, inputs: &TVec<&InferenceFact>) -> bool {
        let is_number = |input: &&InferenceFact| {
            let value = input.value.concretize();
            value.is_none_or(|value| !value.datum_type().is_tdim())
        };
        inputs.iter().all(is_number)
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let types = [0, 1].map(|input| Ok(target.outlet_fact(inputs[input])?.datum_type));
        let [a, b]: [TractResult<DatumType>; 2] = types;
        rule_if!(a?.is_tdim() || b?.is_tdim());
        let mut operands: TVec<OutletId> = tvec![];
        for input in inputs {
            let name = target.unique_name(format!("{name}.size")).into_owned();
            operands.push(wire_cast(target, name, *input, TDim::datum_type())?);
        }
        let operands = wire_rank_broadcast(format!("{name}.operand"), target, &operands)?;
        target.wire_node(name, SizesEqual, &operands).map(Some)
    }
}

/// Whether sizes are equal, with as many axes on either side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SizesEqual;

/// Whether two sizes are equal, if all symbols agree on it.
fn are_equal(a: &TDim, b: &TDim) -> TractResult<bool> {
    let difference = a.clone() - b;
    let is_more = |difference: TDim| is_size(&(difference - 1));
    if is_more(difference.clone()) || is_more(-difference.clone()) {
        return Ok(false);
    }
    // Where that takes numbers, tract's error says that it is too early.
    Ok(difference.to_i64()? == 0)
}

impl Op for SizesEqual {
    fn name(&self) -> StaticName {
        "SizesEqual".into()
    }

    op_as_typed_op!();
}

impl EvalOp for SizesEqual {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let equal = each_size([&inputs[0], &inputs[1]], |a, b| {
            let equal = are_equal(&a.eval(ctx.symbols), &b.eval(ctx.symbols))?;
            Ok(i64::from(equal).to_dim())
        })?;
        let equal = equal.cast_to::<i64>()?.cast_to::<bool>()?.into_owned();
        Ok(tvec![equal.into_tvalue()])
    }
}

impl TypedOp for SizesEqual {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        Ok(tvec![bool::fact(shape)])
    }

    as_op!();
}
