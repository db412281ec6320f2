//! Moves axes through the operators around them.
//!
//! An operator suggests that an axis of one of its values moves, comes or goes; an axis of size 1 may
//! always go. The change spreads to every operator that reads or makes the value, until all of them
//! have taken it, or one refuses; a convolution refuses to have its channels last. tract's pass starts
//! over after each change that succeeds, and sorts the whole model to write it. Here a change that was
//! refused is not tried again in the same round, and only the nodes that it reaches are looked at:
//!
//! ```text
//! Squeeze(Slice(x)) -> MatMul   becomes   Slice(Squeeze(x)) -> MatMul
//! ```

use std::collections::HashSet;
use std::collections::hash_map::Entry;

use tract_onnx::tract_core::ops::change_axes::{AxisChange, AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_core::ops::dummy::Dummy;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::optim::{OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

/// The pass, in the middle of a round.
#[derive(Clone, Default)]
pub(super) struct Axes {
    /// The next node that may suggest changes.
    next: usize,
    /// Changes that spread in this round, as far as they came.
    seen: HashSet<AxisChange>,
    /// The model's inputs and outputs, which keep their axes.
    fixed: HashSet<OutletId>,
    /// The same outputs, in order.
    outputs: Vec<OutletId>,
}

impl std::fmt::Debug for Axes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Axes")
    }
}

impl TypedPass for Axes {
    fn reset(&mut self) -> TractResult<()> {
        *self = Self::default();
        Ok(())
    }

    fn next(
        &mut self,
        _session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        if self.fixed.is_empty() || self.outputs != model.outputs {
            self.outputs.clone_from(&model.outputs);
            self.fixed = model.inputs.iter().chain(&model.outputs).copied().collect();
        }
        while let Some(node) = model.nodes.get(self.next) {
            for change in suggestions(node)? {
                // What it reached before stays refused, and has changed if it was not.
                if self.seen.contains(&change) {
                    continue;
                }
                let spread = self.spread(model, &change);
                let spread =
                    spread.with_context(|| format!("Moving axes of {node}: {change:?}"))?;
                if let Some(spread) = spread {
                    return Ok(Some(spread.patch(model)?));
                }
            }
            self.next += 1;
        }
        Ok(None)
    }
}

/// The changes that a node suggests.
fn suggestions(node: &TypedNode) -> TractResult<Vec<AxisChange>> {
    if node.op_is::<Dummy>() {
        return Ok(vec![]);
    }
    let own = node.op.suggested_axis_changes()?.into_iter();
    let mut changes: Vec<AxisChange> = own
        .map(|(place, op)| AxisChange {
            outlet: place.as_outlet(node),
            op,
        })
        .collect();
    for (slot, output) in node.outputs.iter().enumerate() {
        let sizes = output.fact.shape.iter().enumerate();
        let ones = sizes.filter(|(_, size)| size.is_one());
        changes.extend(ones.map(|(axis, _)| AxisChange {
            outlet: OutletId::new(node.id, slot),
            op: AxisOp::Rm(axis),
        }));
    }
    Ok(changes)
}

/// The single number that a node holds, which each reader may have in a shape of its own.
fn single(node: &TypedNode) -> Option<&Const> {
    let constant = node.op_as::<Const>()?;
    (constant.val().volume() == 1).then_some(constant)
}

/// The fewest products of a convolution that take longer than the moves around it. [M53]
const MIN_PRODUCTS: usize = 1 << 18;

/// Whether a change puts the channels of a convolution last that has many products, or may have. There
/// is no product for it, and tract writes all windows first.
fn is_slower(model: &TypedModel, node: &TypedNode, changed: &dyn TypedOp) -> TractResult<bool> {
    let (Some(conv), Some(changed)) = (node.op_as::<Conv>(), changed.downcast_ref::<Conv>()) else {
        return Ok(false);
    };
    let [before, after] = [conv, changed].map(|it| it.pool_spec.data_format.c_is_last());
    if before || !after {
        return Ok(false);
    }
    let weights = model.outlet_fact(node.inputs[1])?.shape.volume();
    let products = node.outputs[0].fact.shape.volume() * weights;
    let products = products.to_usize().ok();
    let channels = conv.output_channels().max(1);
    Ok(products.is_none_or(|products| products / channels >= MIN_PRODUCTS))
}

/// A change that all operators have taken.
#[derive(Default)]
struct Spread {
    values: HashMap<OutletId, AxisOp>,
    ops: HashMap<usize, Box<dyn TypedOp>>,
    /// Inputs that are single numbers, with their changes.
    numbers: HashMap<InletId, AxisOp>,
}

impl Axes {
    /// Spreads a change; `None` if an operator refuses it.
    fn spread(&mut self, model: &TypedModel, first: &AxisChange) -> TractResult<Option<Spread>> {
        if single(model.node(first.outlet.node)).is_some_and(|it| it.val().is_plain_ram()) {
            return Ok(None);
        }
        let mut spread = Spread::default();
        spread.values.insert(first.outlet, first.op.clone());
        let mut open = vec![(first.clone(), None)];
        while let Some((change, from)) = open.pop() {
            if !self.seen.insert(change.clone()) || self.fixed.contains(&change.outlet) {
                return Ok(None);
            }
            let outlet = change.outlet;
            let readers = model.outlet_successors(outlet).iter();
            let readers = readers.map(|reader| (reader.node, InOut::In(reader.slot)));
            let around = std::iter::once((outlet.node, InOut::Out(outlet.slot))).chain(readers);
            for (id, place) in around.filter(|(id, _)| Some(*id) != from) {
                let taken = spread.take(model, id, place, &change.op)?;
                let Some(further) = taken else {
                    return Ok(None);
                };
                open.extend(further.into_iter().map(|change| (change, Some(id))));
            }
        }
        Ok(Some(spread))
    }
}

impl Spread {
    /// Has an operator take a change of one of its values, and returns those of its others that
    /// follow; `None` if it refuses.
    fn take(
        &mut self,
        model: &TypedModel,
        id: usize,
        place: InOut,
        op: &AxisOp,
    ) -> TractResult<Option<Vec<AxisChange>>> {
        let node = model.node(id);
        let taking = match self.ops.get(&id) {
            // It takes any number of changes; others would have to undo the first.
            Some(changed) if changed.is::<EinSum>() => changed,
            Some(_) => return Ok(None),
            None => &node.op,
        };
        let Some(consequence) = taking.change_axes(model, node, place, op)? else {
            return Ok(None);
        };
        let AxisChangeConsequence {
            substitute_op,
            wire_changes,
        } = consequence;
        if let Some(changed) = substitute_op {
            if is_slower(model, node, &*changed)? {
                return Ok(None);
            }
            self.ops.insert(id, changed);
        }
        let mut further = vec![];
        for (place, op) in wire_changes {
            let outlet = place.as_outlet(node);
            if let InOut::In(slot) = place
                && single(model.node(outlet.node)).is_some()
            {
                self.numbers.insert(InletId::new(id, slot), op);
                continue;
            }
            match self.values.entry(outlet) {
                Entry::Vacant(entry) => {
                    entry.insert(op.clone());
                    further.push(AxisChange { outlet, op });
                }
                Entry::Occupied(known) if *known.get() == op => {}
                Entry::Occupied(_) => return Ok(None),
            }
        }
        Ok(Some(further))
    }

    /// The patch that makes the change.
    fn patch(self, model: &TypedModel) -> TractResult<TypedModelPatch> {
        let mut patch = TypedModelPatch::default();
        let values = self.values.keys().map(|outlet| outlet.node);
        let replaced: HashSet<usize> = values.chain(self.ops.keys().copied()).collect();
        // Old outlets to those of the patch.
        let mut wires: HashMap<OutletId, OutletId> = HashMap::new();
        for id in sorted(model, &replaced) {
            let node = model.node(id);
            let mut inputs = tvec!();
            for (slot, &input) in node.inputs.iter().enumerate() {
                let number = self.numbers.get(&InletId::new(id, slot));
                let wire = match (number, single(model.node(input.node))) {
                    (Some(change), Some(constant)) => {
                        let mut value = constant.val().clone().into_tensor();
                        change.change_tensor(&mut value, false)?;
                        patch.add_const(model.node(input.node).name.clone(), value)?
                    }
                    _ => match wires.entry(input) {
                        Entry::Occupied(known) => *known.get(),
                        Entry::Vacant(entry) => *entry.insert(patch.tap_model(model, input)?),
                    },
                };
                inputs.push(wire);
            }
            let op = self.ops.get(&id).unwrap_or(&node.op).clone();
            let made = patch.wire_node(&*node.name, op, &inputs)?;
            for (slot, wire) in made.into_iter().enumerate() {
                wires.insert(OutletId::new(id, slot), wire);
            }
        }
        for &id in &replaced {
            for (slot, output) in model.node(id).outputs.iter().enumerate() {
                let outlet = OutletId::new(id, slot);
                let mut readers = output.successors.iter();
                let is_read_elsewhere = readers.any(|reader| !replaced.contains(&reader.node));
                if is_read_elsewhere || model.outputs.contains(&outlet) {
                    patch.shunt_outside(model, outlet, wires[&outlet])?;
                }
            }
        }
        Ok(patch)
    }
}

/// Some nodes, each after those of them that it reads.
fn sorted(model: &TypedModel, nodes: &HashSet<usize>) -> Vec<usize> {
    let mut starts: Vec<usize> = nodes.iter().copied().collect();
    starts.sort_unstable();
    let mut sorted = vec![];
    let mut visited = HashSet::new();
    for start in starts {
        let mut open = vec![(start, false)];
        while let Some((id, is_ready)) = open.pop() {
            if is_ready {
                sorted.push(id);
            } else if visited.insert(id) {
                open.push((id, true));
                let inputs = model.node(id).inputs.iter().map(|input| input.node);
                let inputs = inputs.filter(|input| nodes.contains(input));
                open.extend(inputs.map(|input| (input, false)));
            }
        }
    }
    sorted
}
