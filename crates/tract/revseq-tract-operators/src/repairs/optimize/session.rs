//! Runs the passes of an optimizer, in a time that grows with the number of nodes.
//!
//! tract's own session looks at all nodes of a model for each patch. Here patches are applied one
//! after another; the nodes that they remove stay as dummies until the pass has looked at all
//! nodes, and the model is compacted.

use std::collections::HashSet;

use tract_onnx::tract_core::optim::{Optimizer, OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

use super::patch::{apply, input_symbols_of, keeps_sizes, replace};
use crate::repairs::names::Names;

/// Runs all passes, again and again, until none changes the model.
pub(super) fn optimize(optimizer: &Optimizer, model: &mut TypedModel) -> TractResult<()> {
    let _proofs = model.symbols.proof_cache_session();
    let mut running = Running {
        // For the models within nodes.
        inner: optimizer.session(),
        seen: HashSet::new(),
    };
    model.compact()?;
    loop {
        let mut is_changed = false;
        for mut pass in optimizer.passes.clone() {
            let changes = running.run(&mut *pass, model);
            is_changed |= changes.with_context(|| format!("running pass {pass:?}"))?;
        }
        if !is_changed {
            return Ok(());
        }
    }
}

struct Running<'o> {
    inner: OptimizerSession<'o>,
    /// The labels of patches that are not to be applied again.
    seen: HashSet<String>,
}

impl Running<'_> {
    /// Runs a pass until it changes nothing more; whether it changed the model.
    fn run(&mut self, pass: &mut dyn TypedPass, model: &mut TypedModel) -> TractResult<bool> {
        let mut is_changed = false;
        while self.run_once(pass, model)? {
            is_changed = true;
        }
        Ok(is_changed)
    }

    fn run_once(&mut self, pass: &mut dyn TypedPass, model: &mut TypedModel) -> TractResult<bool> {
        pass.reset()?;
        // Those of the model, once a patch needs them.
        let mut names = None;
        let input_symbols = input_symbols_of(model)?;
        let mut is_changed = false;
        let mut refused = 0;
        while let Some(mut patch) = pass.next(&mut self.inner, model)? {
            let label = patch.dont_apply_twice.take();
            if label.is_some_and(|label| !self.seen.insert(label)) {
                continue;
            }
            if !keeps_sizes(&patch, model, &input_symbols)? {
                refused += 1;
                // A pass that makes it again begins anew.
                if refused > model.nodes.len() {
                    break;
                }
                continue;
            }
            is_changed = true;
            if let Some(patch) = replace(patch, model) {
                let all = || Names::of(model.nodes().iter().map(|node| &*node.name));
                let names = names.get_or_insert_with(all);
                apply(patch, model, names)?;
            }
        }
        // Facts that change here are no reason for another round, as in tract.
        if pass.run_direct(model)? || is_changed {
            model.compact()?;
        }
        Ok(is_changed)
    }
}
