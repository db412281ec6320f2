//! tract's optimizers, with repaired passes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tract_onnx::tract_core::optim::{Optimizer, OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

use crate::definers::{keep_definers, sizes_in_numbers};
use crate::gather::check_indices;
use crate::reduce::check_reductions;

/// tract's [`into_optimized`](TypedModel::into_optimized), for models that the passes of 0.23 break
/// or never finish.
///
/// - Equal nodes are merged. `PushSplitDown` merges them too, but drops both of two nodes that read
///   two values whose readers are listed in different orders; the model then fails with "eval()
///   called on a Dummy op".
/// - `ChangeAxes` may move axes of size 1 back and forth forever. Here it ends.
/// - A Gather index out of range is an error; tract panics.
/// - A size that comes from data is known wherever it is needed, even if nothing reads the value
///   whose size it is. Outputs that are sizes are int64; tract's are symbolic.
/// - A reduction of nothing has ONNX Runtime's result; tract panics.
///
/// # Errors
/// Those of tract.
pub fn into_optimized(mut model: TypedModel) -> TractResult<TypedModel> {
    sizes_in_numbers(&mut model)?;
    optimized(model)
}

/// The same for a body, whose outputs may be sizes.
pub(crate) fn optimized(mut model: TypedModel) -> TractResult<TypedModel> {
    keep_definers(&mut model)?;
    let mut model = into_decluttered(model)?;
    let optimizer = mended(Optimizer::codegen(), &model);
    model.optimize_with_session(&mut optimizer.session())?;
    check_indices(&mut model);
    check_reductions(&mut model)?;
    Ok(model)
}

/// tract's `into_decluttered`, with the same repairs.
pub(crate) fn into_decluttered(mut model: TypedModel) -> TractResult<TypedModel> {
    let optimizer = mended(Optimizer::declutter(), &model);
    optimizer.session().optimize(&mut model)?;
    Ok(model)
}

/// Repairs an optimizer's passes.
fn mended(mut optimizer: Optimizer, model: &TypedModel) -> Optimizer {
    let mut passes: Vec<Box<dyn TypedPass>> = Vec::new();
    for pass in std::mem::take(&mut optimizer.passes) {
        match format!("{pass:?}").as_str() {
            "PushSplitDown" => passes.extend([Box::new(MergeEqual) as Box<dyn TypedPass>, pass]),
            name if name.starts_with("ChangeAxes") => {
                // Far more patches than a pass that ends needs.
                let left = Arc::new(AtomicUsize::new(64 + 4 * model.nodes.len()));
                passes.push(Box::new(Ending { pass, left }));
            }
            _ => passes.push(pass),
        }
    }
    optimizer.passes = passes;
    optimizer
}

/// Ends a pass after a number of patches; each leaves a valid model.
#[derive(Clone, Debug)]
struct Ending {
    pass: Box<dyn TypedPass>,
    /// The remaining patches, shared by clones: the optimizer clones the pass for each round.
    left: Arc<AtomicUsize>,
}

impl TypedPass for Ending {
    fn reset(&mut self) -> TractResult<()> {
        self.pass.reset()
    }

    fn next(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        if self.left.load(Relaxed) == 0 {
            return Ok(None);
        }
        let patch = self.pass.next(session, model)?;
        self.left.fetch_sub(usize::from(patch.is_some()), Relaxed);
        Ok(patch)
    }

    fn run_direct(&mut self, model: &mut TypedModel) -> TractResult<bool> {
        self.pass.run_direct(model)
    }
}

/// Merges equal nodes.
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

    /// `(-x - exp(x))` twice, with duplicate nodes.
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
