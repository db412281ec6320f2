//! tract's optimizers, with one more pass.

use std::collections::HashSet;

use tract_onnx::tract_core::optim::{Optimizer, OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

use crate::gather::check_indices;

/// tract's [`into_optimized`](TypedModel::into_optimized), for models with equal nodes, too.
///
/// tract merges nodes that compute the same from the same. Where two of them read two values
/// whose readers it lists in different orders, its own pass (`PushSplitDown`, in 0.23) drops
/// both, and the model ends in "eval() called on a Dummy op" when it runs. Here they are merged
/// before that pass sees them.
///
/// An index of a Gather outside of its axis, at which tract panics, is an error.
///
/// # Errors
/// Those of tract.
pub fn into_optimized(model: TypedModel) -> TractResult<TypedModel> {
    let mut model = into_decluttered(model)?;
    let optimizer = merging(Optimizer::codegen());
    model.optimize_with_session(&mut optimizer.session())?;
    check_indices(&mut model);
    Ok(model)
}

/// tract's `into_decluttered`, as in [`into_optimized`].
pub(crate) fn into_decluttered(mut model: TypedModel) -> TractResult<TypedModel> {
    merging(Optimizer::declutter())
        .session()
        .optimize(&mut model)?;
    Ok(model)
}

fn merging(mut optimizer: Optimizer) -> Optimizer {
    let mut passes = optimizer.passes.iter();
    let tracts = passes.position(|pass| format!("{pass:?}") == "PushSplitDown");
    optimizer.add_pass(tracts.unwrap_or(0), Box::new(MergeEqual));
    optimizer
}

/// Merges nodes that compute the same from the same.
#[derive(Clone, Debug)]
struct MergeEqual;

impl TypedPass for MergeEqual {
    fn reset(&mut self) -> TractResult<()> {
        Ok(())
    }

    fn next(
        &mut self,
        _session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        let mut patch = TypedModelPatch::default();
        let is_output = |node: usize| model.outputs.iter().any(|outlet| outlet.node == node);
        let mut gone = HashSet::new();
        for node in model.eval_order()? {
            for output in &model.node(node).outputs {
                for (index, second) in output.successors.iter().enumerate() {
                    let second = model.node(second.node);
                    let earlier = output.successors[..index].iter();
                    let mut earlier = earlier.map(|inlet| model.node(inlet.node));
                    let first = earlier.find(|first| {
                        first.id != second.id && !gone.contains(&first.id) && first.same_as(second)
                    });
                    let Some(first) = first else { continue };
                    if gone.contains(&second.id) || is_output(first.id) && is_output(second.id) {
                        continue;
                    }
                    for slot in 0..second.outputs.len() {
                        let tap = patch.tap_model(model, OutletId::new(first.id, slot))?;
                        patch.shunt_outside(model, OutletId::new(second.id, slot), tap)?;
                    }
                    patch.obliterate(second.id)?;
                    gone.insert(second.id);
                }
            }
        }
        Ok((!gone.is_empty()).then_some(patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tract_onnx::tract_core::ops::math;

    /// `(-x - exp(x))` twice, of values that are made twice.
    fn twice() -> TypedModel {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([2])).unwrap();
        let mut wire = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
            model.wire_node(name, op, inputs).unwrap()[0]
        };
        let one = wire("a", Box::new(math::neg()), &[x]);
        let other = wire("b", Box::new(math::exp()), &[x]);
        let one_again = wire("a2", Box::new(math::neg()), &[x]);
        let other_again = wire("b2", Box::new(math::exp()), &[x]);
        let first = wire("first", Box::new(math::sub()), &[one, other_again]);
        let second = wire("second", Box::new(math::sub()), &[one_again, other]);
        let product = wire("product", Box::new(math::mul()), &[first, second]);
        model.select_output_outlets(&[product]).unwrap();
        model
    }

    #[test]
    fn equal_nodes_are_merged() {
        let input = tensor1(&[0_f32, 1.]);
        let run = |model: TypedModel| {
            let plan = model.into_runnable()?;
            plan.run(tvec!(input.clone().into()))
        };
        let expected = run(twice()).unwrap();
        let optimized = into_optimized(twice()).unwrap();
        assert!(optimized.nodes().len() <= 5, "{optimized}");
        assert_eq!(run(optimized).unwrap(), expected);
    }
}
