//! Values whose sizes have to be those of others, although different expressions stand for them.
//!
//! tract takes an axis that is summed over from one operand, and trusts that the other one has it as well.
//! Where two expressions stand for its size, they are compared when the model runs.
//!
//! ```text
//! a: [N, K] · b: [14, 4]  →  Agreed(a): [N, 14] · b, checking that a has 14 columns
//! ```

use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_hir::internal::*;

use crate::other_sizes::OtherSizes;
use crate::typed_op::{Stateless, Typed};

/// Passes a value on by other expressions for its sizes, which are checked when the model runs.
pub(crate) fn agreed(
    target: &mut TypedModel,
    name: &str,
    outlet: OutletId,
    shape: TVec<TDim>,
) -> TractResult<OutletId> {
    if *target.outlet_fact(outlet)?.shape == *shape {
        return Ok(outlet);
    }
    let name = target.unique_name(name).into_owned();
    Ok(target.wire_node(name, Typed(Agreed { shape }), &[outlet])?[0])
}

/// Makes the operands of products agree on the axes that they sum over.
pub(crate) fn agree_on_sums(model: &mut TypedModel) -> TractResult<()> {
    for id in 0..model.nodes().len() {
        let node = model.node(id);
        let Some(op) = node.op_as::<EinSum>() else {
            continue;
        };
        let shapes = node.inputs.iter().map(|input| {
            let fact = model.outlet_fact(*input)?;
            Ok(fact.shape.to_tvec())
        });
        let mut shapes: TVec<TVec<TDim>> = shapes.collect::<TractResult<_>>()?;
        agree_on_axes(op, &mut shapes);
        let name = format!("{}.agreed", node.name);
        for (slot, shape) in shapes.into_iter().enumerate() {
            let before = model.node(id).inputs[slot];
            let after = agreed(model, &name, before, shape)?;
            if after != before {
                model.add_edge(after, InletId::new(id, slot))?;
            }
        }
    }
    Ok(())
}

/// Takes one expression, a number if there is one, for the size of each axis that is summed over. A 1
/// may be broadcast.
fn agree_on_axes(op: &EinSum, shapes: &mut [TVec<TDim>]) {
    for axis in op.axes.iter_all_axes() {
        if !axis.outputs[0].is_empty() {
            continue;
        }
        let places = axis.inputs.iter().enumerate();
        let places = places.flat_map(|(input, places)| places.iter().map(move |at| (input, *at)));
        let places = places.filter(|(input, at)| !shapes[*input][*at].is_one());
        let places: TVec<(usize, usize)> = places.collect();
        let mut sizes = places.iter().map(|(input, at)| &shapes[*input][*at]);
        let number = sizes.clone().find(|size| size.to_i64().is_ok());
        let Some(size) = number.or_else(|| sizes.next()).cloned() else {
            continue;
        };
        for (input, at) in places {
            shapes[input][at] = size.clone();
        }
    }
}

/// Passes a value on by other expressions for its sizes, and checks that these hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Agreed {
    shape: TVec<TDim>,
}

impl Stateless for Agreed {
    const NAME: &str = "Agreed";

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        OtherSizes::check(inputs[0].shape(), &self.shape, ctx.symbols)?;
        Ok(inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let is_known = self.shape.iter().all(|size| size.to_i64().is_ok());
        let outputs = is_known.then(|| self.eval(&EvalContext::out_of_plan(), inputs));
        outputs.transpose()
    }

    fn forwards_input(&self) -> bool {
        true
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        for (axis, (size, expected)) in
            std::iter::zip(inputs[0].shape.iter(), &self.shape).enumerate()
        {
            ensure!(
                size.compatible_with(expected),
                "its operand has {size} elements along axis {axis}, expected {expected}"
            );
        }
        Ok(tvec![inputs[0].datum_type.fact(self.shape.clone())])
    }

    substitutes!(shape);
}
