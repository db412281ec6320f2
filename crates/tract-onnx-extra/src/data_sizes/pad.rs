//! Pads that remove elements, on which tract panics.
//!
//! A Pad that removes elements is one that only adds elements, and a slice of its output for each
//! axis that loses some. The pads have to be known when the node is wired; others are deferred
//! (`deferred.rs`), and come here when they run.
//!
//! ```text
//! Pad(x, [-1, 2])  →  Pad(x, [0, 2])[1:]
//! ```

use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_hir::internal::*;

use super::size_symbols::axis;
use crate::delegate::{Facts, Hook, Inference, Known};
use crate::wire::to_typed_without_facts;

/// The hook of a Pad whose negative pads remove elements; tract's only adds elements.
#[derive(Clone, Debug)]
pub(crate) struct Cropping {
    /// The input with the padded axes.
    pub(crate) axes: Option<usize>,
}

/// Pads from here on would overflow where they are added to a size.
const MOST: u64 = 1 << 60;

/// The elements of a list, which has no symbols.
pub(super) fn numbers(value: &Tensor) -> TractResult<Vec<i64>> {
    let value = value.cast_to::<i64>()?;
    Ok(value.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
}

impl Hook for Cropping {
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        _inference: Inference,
    ) -> TractResult<Facts> {
        let pads = known.inputs.get(1).and_then(|fact| fact.value.concretize());
        for pad in pads.and_then(|it| numbers(&it).ok()).into_iter().flatten() {
            ensure!(
                pad.unsigned_abs() < MOST,
                "one of its pads is {pad}, of a value larger than any memory"
            );
        }
        // tract panics if it computes values.
        Inference::Facts.of(upstream, known)
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let fact = |input: usize| target.outlet_fact(mapping[&node.inputs[input]]);
        let rank = fact(0)?.rank();
        let pads = match node.inputs.get(1) {
            Some(_) => fact(1)?.konst.clone(),
            None => None,
        };
        let pads = pads.and_then(|pads| numbers(&pads).ok());
        let Some(pads) = pads.filter(|pads| pads.iter().any(|pad| *pad < 0)) else {
            return to_typed_without_facts(upstream, source, node, target, mapping);
        };
        let axes = match self.axes {
            None => (0..rank).collect(),
            Some(input) => {
                let axes = fact(input)?
                    .konst
                    .as_ref()
                    .context("its axes are unknown")?;
                let axes = numbers(axes)?.into_iter().map(|it| axis(it, rank));
                axes.collect::<TractResult<Vec<_>>>()?
            }
        };
        let added: Vec<i64> = pads.iter().map(|pad| (*pad).max(0)).collect();
        let name = target
            .unique_name(format!("{}.added", node.name))
            .into_owned();
        let mut mapping = mapping.clone();
        mapping.insert(node.inputs[1], target.add_const(name, tensor1(&added))?);
        let mut wire = to_typed_without_facts(upstream, source, node, target, &mapping)?[0];
        for (index, axis) in axes.into_iter().enumerate() {
            let removed = |at: usize| pads[at].min(0).saturating_neg();
            let (first, last) = (removed(index), removed(index + pads.len() / 2));
            if first == 0 && last == 0 {
                continue;
            }
            let size = target.outlet_fact(wire)?.shape[axis].clone();
            // A symbolic size is checked at run, if its expression does not overflow until then.
            let most = size.to_i64().unwrap_or(i64::MAX / 2);
            ensure!(
                first.saturating_add(last) <= most,
                "its pads remove {first} and {last} of {size} elements along axis {axis}"
            );
            let slice = Slice::new(axis, first, size - last);
            let name = target
                .unique_name(format!("{}.axis{axis}", node.name))
                .into_owned();
            wire = target.wire_node(name, slice, &[wire])?[0];
        }
        Ok(tvec![wire])
    }
}
