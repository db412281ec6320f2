//! tract's optimizers, with repaired passes.
//!
//! The passes and their order are tract's. Four of them are replaced or wrapped (`axes.rs`, `exact.rs`,
//! `slices.rs`), those of `faster/` come before them, and a session of this crate's
//! runs them (`session.rs`). What has to see the whole model stands around them: symbols keep their definers
//! before; afterwards, operators are computed by vectors, and shapes are checked.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tract_onnx::tract_core::optim::{Optimizer, OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::agree_on_sums;
use crate::data_sizes::definers::{keep_definers, sizes_in_numbers};
use crate::faster::{by_rows, casts, convolutions, softmax};
use crate::operators::reduce;
use crate::repairs::shapes::check_shapes;

mod axes;
mod exact;
mod kernels;
mod patch;
mod session;
mod slices;

/// tract's [`into_optimized`](TypedModel::into_optimized), for models that the passes of 0.23 break
/// or never finish.
///
/// - The time grows with the number of nodes; tract's looks at all of them for each patch.
/// - Equal nodes are merged. `PushSplitDown` merges them too, but drops both of two nodes that read
///   two values whose readers are listed in different orders; the model then fails with "eval()
///   called on a Dummy op".
/// - `ChangeAxes` may move axes of size 1 back and forth forever. Here it ends, and does not try again
///   what was refused after each change.
/// - Convolutions are computed in the way that is the fastest for their sizes.
/// - Arithmetic is simplified only where its results stay the same.
/// - Arithmetic and comparisons with operands that broadcast are computed row by row.
/// - A Gather index out of range is an error; tract panics.
/// - A value of another shape than the one that an operator was prepared for is an error
///   ([`OtherSizes`](crate::OtherSizes)); tract would read beyond its end.
/// - A size that comes from data is known wherever it is needed, even if nothing reads the value
///   whose size it is. Outputs that are sizes are int64; tract's are symbolic.
/// - Reductions and Softmax are computed by vectors, along any axes.
/// - A reduction of nothing has ONNX Runtime's result; tract panics.
///
/// # Errors
/// Those of tract.
pub fn into_optimized(mut model: TypedModel) -> TractResult<TypedModel> {
    sizes_in_numbers(&mut model)?;
    optimized(model)
}

/// The body of an operator, optimised.
pub(crate) fn body(body: TypedModel) -> TractResult<TypedModel> {
    optimized(into_decluttered(body)?)
}

/// The same for a body, whose outputs may be sizes.
pub(crate) fn optimized(mut model: TypedModel) -> TractResult<TypedModel> {
    agree_on_sums(&mut model)?;
    keep_definers(&mut model)?;
    let mut model = into_decluttered(model)?;
    let mut codegen = mended(Optimizer::codegen(), &CODEGEN, &model)?;
    let before: [Function; 2] = [
        |_, model, node| convolutions::chosen(model, node),
        |_, model, node| casts::by_vectors(model, node),
    ];
    for replace in before {
        codegen.add_pass(0, Box::new(EachNode::new(replace)));
    }
    session::optimize(&codegen, &mut model)?;
    // It is the one to say that the model is optimised.
    let nothing = Optimizer {
        passes: vec![],
        steps: None,
    };
    model.optimize_with_session(&mut nothing.session())?;
    compute_by_vectors(&mut model)?;
    check_shapes(&mut model)?;
    Ok(model)
}

/// Replaces operators for which tract has no kernel, or a wrong one.
fn compute_by_vectors(model: &mut TypedModel) -> TractResult<()> {
    let choices = [by_rows::by_rows, softmax::by_vectors, reduce::by_vectors];
    for id in 0..model.nodes().len() {
        for choose in choices {
            if let Some(op) = choose(model, model.node(id))? {
                model.node_mut(id).op = op;
            }
        }
    }
    Ok(())
}

/// tract's `into_decluttered`, with the same repairs.
pub(crate) fn into_decluttered(mut model: TypedModel) -> TractResult<TypedModel> {
    session::optimize(
        &mended(Optimizer::declutter(), &DECLUTTER, &model)?,
        &mut model,
    )?;
    Ok(model)
}

/// The passes of tract's declutter that are repaired. Most are private types, which nothing but their
/// names tells apart.
const DECLUTTER: [&str; 5] = [
    "ConcatThenEinsum",
    "declutter",
    "PushSliceUp",
    "PushSplitDown",
    "ChangeAxes",
];

/// Those of its codegen.
const CODEGEN: [&str; 5] = [
    "MergeConsecutiveSameRoleAxes",
    "codegen",
    "declutter",
    "PushSplitDown",
    "fuse",
];

/// Repairs an optimizer's passes.
///
/// # Errors
/// If tract has not all passes to repair: it is another version than the repairs are for.
fn mended(
    mut optimizer: Optimizer,
    repaired: &[&'static str],
    model: &TypedModel,
) -> TractResult<Optimizer> {
    let mut passes: Vec<Box<dyn TypedPass>> = Vec::new();
    let mut simplify: Function = exact::simplified;
    let mut missing = repaired.to_vec();
    for pass in std::mem::take(&mut optimizer.passes) {
        let text = format!("{pass:?}");
        let name = missing.iter().position(|name| text.starts_with(name));
        let name = name.map(|at| missing.remove(at));
        match name {
            // It would slice matrices that are kept in blocks, which tract cannot.
            Some("ConcatThenEinsum") if has_blocks(model) => {}
            Some("declutter") => passes.push(Box::new(EachNode::new(simplify))),
            Some("codegen") => passes.push(Box::new(EachNode::new(kernels::Kernels::default()))),
            Some("fuse") => passes.push(Box::new(EachNode::new(exact::fused as Function))),
            Some("MergeConsecutiveSameRoleAxes") => {
                simplify = exact::simplified_but_products;
                passes.push(Box::new(Optional(pass)));
            }
            Some("PushSplitDown") => passes.push(Box::new(MergeEqual)),
            Some("PushSliceUp") => {
                let pass = Box::new(Optional(pass));
                passes.push(Box::new(slices::Slices { pass, open: None }));
            }
            Some("ChangeAxes") => {
                // Far more patches than a pass that ends needs.
                let left = Arc::new(AtomicUsize::new(64 + 4 * model.nodes.len()));
                let pass = Box::<axes::Axes>::default();
                passes.push(Box::new(Ending { pass, left }));
            }
            _ => passes.push(pass),
        }
    }
    ensure!(
        missing.is_empty(),
        "tract has no optimizer passes {missing:?}, which are to be repaired"
    );
    optimizer.passes = passes;
    Ok(optimizer)
}

/// Whether a value is kept in blocks of few bits.
fn has_blocks(model: &TypedModel) -> bool {
    let mut outputs = model.nodes().iter().flat_map(|node| &node.outputs);
    outputs.any(|output| output.fact.exotic_fact().is_some())
}

/// What nodes become.
trait Replace: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// What becomes of a node; `None` if it stays.
    fn replacement(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>>;
}

type Function =
    fn(&mut OptimizerSession<'_>, &TypedModel, &TypedNode) -> TractResult<Option<TypedModelPatch>>;

impl Replace for Function {
    fn replacement(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        self(session, model, node)
    }
}

/// A pass that looks at each node once.
#[derive(Clone, Debug)]
struct EachNode<R> {
    replace: R,
    next: usize,
}

impl<R: Replace> EachNode<R> {
    fn new(replace: R) -> Self {
        Self { replace, next: 0 }
    }
}

impl<R: Replace> TypedPass for EachNode<R> {
    fn reset(&mut self) -> TractResult<()> {
        self.next = 0;
        Ok(())
    }

    fn next(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        while let Some(node) = model.nodes.get(self.next) {
            self.next += 1;
            let patch = self.replace.replacement(session, model, node);
            if let Some(patch) = patch.with_context(|| format!("optimising {node}"))? {
                return Ok(Some(patch));
            }
        }
        Ok(None)
    }
}

/// Ends a pass where it fails; what it has done leaves a valid model.
#[derive(Clone, Debug)]
struct Optional(Box<dyn TypedPass>);

impl TypedPass for Optional {
    fn reset(&mut self) -> TractResult<()> {
        self.0.reset()
    }

    fn next(
        &mut self,
        session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        Ok(self.0.next(session, model).unwrap_or_default())
    }

    fn run_direct(&mut self, model: &mut TypedModel) -> TractResult<bool> {
        Ok(self.0.run_direct(model).unwrap_or(true))
    }
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
        let outputs: HashSet<usize> = model.outputs.iter().map(|it| it.node).collect();
        // What each merged node becomes, and the nodes that stay, by their inputs.
        let mut merged: HashMap<usize, usize> = HashMap::new();
        let mut kept: HashMap<TVec<OutletId>, TVec<usize>> = HashMap::new();
        for id in model.eval_order()? {
            let second = model.node(id);
            if second.inputs.is_empty() {
                continue;
            }
            let inputs = second.inputs.iter().map(|input| {
                let node = merged.get(&input.node).copied().unwrap_or(input.node);
                OutletId::new(node, input.slot)
            });
            let alike = kept.entry(inputs.collect()).or_default();
            let mut alike_nodes = alike.iter().map(|&first| model.node(first));
            let equal = alike_nodes.find(|first| {
                let are_outputs = outputs.contains(&first.id) && outputs.contains(&id);
                !are_outputs && first.op.dyn_eq(second.op.as_op())
            });
            let Some(first) = equal else {
                alike.push(id);
                continue;
            };
            for slot in 0..second.outputs.len() {
                let tap = patch.tap_model(model, OutletId::new(first.id, slot))?;
                patch.shunt_outside(model, OutletId::new(id, slot), tap)?;
            }
            patch.obliterate(id)?;
            merged.insert(id, first.id);
        }
        Ok((!merged.is_empty()).then_some(patch))
    }
}
