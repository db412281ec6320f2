//! Applies patches to a model.
//!
//! The result is that of tract's own function, except that a new node is not compared with all
//! nodes of the model; equal ones are merged later, in a pass.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use crate::repairs::names::Names;

/// The symbols in the sizes of a model's inputs: what a run gives, and no pass can know.
pub(super) fn input_symbols_of(model: &TypedModel) -> TractResult<HashSet<Symbol>> {
    let mut symbols = HashSet::new();
    for input in &model.inputs {
        let sizes = model.outlet_fact(*input)?.shape.iter();
        symbols.extend(sizes.flat_map(TDim::symbols));
    }
    Ok(symbols)
}

/// Whether no value loses a size that only a run knows. tract makes `[1, 0, 3]` of a constant `[N, 0, 3]`,
/// since both have no elements, and a row of zeros of `x · 0`.
pub(super) fn keeps_sizes(
    patch: &TypedModelPatch,
    model: &TypedModel,
    input_symbols: &HashSet<Symbol>,
) -> TractResult<bool> {
    let is_given = |size: &TDim| {
        let symbols = size.symbols();
        !symbols.is_empty() && symbols.iter().all(|symbol| input_symbols.contains(symbol))
    };
    for (outlet, by) in &patch.shunts {
        let before = &model.outlet_fact(*outlet)?.shape;
        let after = &patch.model.outlet_fact(*by)?.shape;
        let mut sizes = std::iter::zip(before.iter(), after.iter());
        if sizes.any(|(before, after)| is_given(before) && after.to_i64().is_ok()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Puts a node in the place of another, with the same name, inputs and number of outputs, if a patch
/// does no more; returns the patch otherwise. No list of readers changes: a constant may have many.
pub(super) fn replace(patch: TypedModelPatch, model: &mut TypedModel) -> Option<TypedModelPatch> {
    let Some((old, new)) = replacement(&patch, model) else {
        return Some(patch);
    };
    let mut nodes = patch.model.nodes;
    let TypedNode { op, outputs, .. } = nodes.swap_remove(new);
    let replaced = model.node_mut(old);
    replaced.op = op;
    for (output, new) in std::iter::zip(&mut replaced.outputs, outputs) {
        output.fact = new.fact;
    }
    None
}

/// The node that a patch replaces, and the patch's node for it.
fn replacement(patch: &TypedModelPatch, model: &TypedModel) -> Option<(usize, usize)> {
    let is_new = |node: &&TypedNode| !patch.taps.contains_key(&OutletId::new(node.id, 0));
    let mut made = patch.model.nodes().iter().filter(is_new);
    let (Some(new), None) = (made.next(), made.next()) else {
        return None;
    };
    let old = model.node(patch.shunts.keys().next()?.node);
    let is_same_output = |(outlet, by): (&OutletId, &OutletId)| {
        (outlet.node, by.node) == (old.id, new.id) && outlet.slot == by.slot
    };
    let inputs = new.inputs.iter().map(|input| patch.taps.get(input));
    let outputs = patch.shunts.len();
    let is_replacement = new.name == old.name
        && !new.inputs.is_empty()
        && inputs.eq(old.inputs.iter().map(Some))
        && (outputs, outputs) == (old.outputs.len(), new.outputs.len())
        && patch.shunts.iter().all(is_same_output)
        && patch.obliterate.iter().all(|node| *node == old.id);
    is_replacement.then_some((old.id, new.id))
}

/// Applies a patch like tract, which compares each new node with all nodes of the model. `names`
/// are those of the model.
pub(super) fn apply(
    patch: TypedModelPatch,
    model: &mut TypedModel,
    names: &mut Names,
) -> TractResult<()> {
    let TypedModelPatch {
        model: new,
        taps,
        shunts,
        obliterate,
        inputs: replaced,
        ..
    } = patch;
    // Outlets of the patch to those of the model.
    let mut mapping = taps;
    let mut edges: Vec<(usize, Vec<OutletId>)> = vec![];
    let mut sources = model.inputs.clone();
    for node in new.nodes {
        let outlet = OutletId::new(node.id, 0);
        let is_source = node.op_is::<TypedSource>();
        if is_source && mapping.contains_key(&outlet) {
            continue;
        }
        let facts: TVec<TypedFact> = node.outputs.into_iter().map(|it| it.fact).collect();
        let slots = facts.len();
        names.add(&node.name);
        let added = model.add_node(node.name, node.op, facts)?;
        for slot in 0..slots {
            let from = OutletId::new(node.id, slot);
            mapping.insert(from, OutletId::new(added, slot));
        }
        edges.push((added, node.inputs));
        if is_source {
            let old = replaced.get(&node.id);
            let old = *old.context("a new source stands for one of the model")?;
            let same = sources.iter_mut().filter(|source| source.node == old);
            same.for_each(|source| source.node = added);
        }
    }
    let at = |outlet: &OutletId| -> TractResult<OutletId> {
        let added = mapping.get(outlet).copied();
        added.context("an outlet of a patch is a tap or an output of one of its nodes")
    };
    let shunts: BTreeMap<OutletId, OutletId> = shunts.into_iter().collect();
    for (outlet, by) in &shunts {
        let by = at(by)?;
        let readers = &model.node(outlet.node).outputs[outlet.slot].successors;
        for reader in readers.clone() {
            model.add_edge(by, reader)?;
        }
        let outputs = model.outputs.iter_mut().filter(|it| *it == outlet);
        outputs.for_each(|output| *output = by);
        if let Some(label) = model.outlet_labels.remove(outlet) {
            model.set_outlet_label(by, label)?;
        }
    }
    for (node, inputs) in &edges {
        for (slot, input) in inputs.iter().enumerate() {
            model.add_edge(at(input)?, InletId::new(*node, slot))?;
        }
    }
    for node in obliterate {
        model.node_mut(node).op = model.create_dummy();
    }
    model.set_input_outlets(&sources)?;
    let unread = shunts.keys().map(|outlet| outlet.node).collect();
    remove_unread(model, unread, names)?;
    // tract drops what follows a `#` in a name, and so does this.
    for (node, _) in edges {
        let name = model.node(node).name.clone();
        let start = match name.split_once('#') {
            Some((start, _)) => start,
            None if names.count(&name) > 1 => &name,
            None => continue,
        };
        let unique = names.unique(start);
        names.remove(&name);
        names.add(&unique);
        model.node_mut(node).name = unique;
    }
    Ok(())
}

/// Removes the nodes whose outputs nothing reads, and their inputs in turn.
fn remove_unread(
    model: &mut TypedModel,
    mut open: BTreeSet<usize>,
    names: &mut Names,
) -> TractResult<()> {
    while let Some(node) = open.pop_first() {
        let mut ends = model.inputs.iter().chain(&model.outputs);
        let mut outputs = model.node(node).outputs.iter();
        if ends.any(|outlet| outlet.node == node) || outputs.any(|it| !it.successors.is_empty()) {
            continue;
        }
        let dummy = model.create_dummy();
        let removed = model.node_mut(node);
        removed.op = dummy;
        let name = format!("Dummy-node-{node}");
        names.remove(&std::mem::replace(&mut removed.name, name));
        removed.outputs.clear();
        for input in std::mem::take(&mut removed.inputs) {
            let readers = &mut model.node_mut(input.node).outputs[input.slot].successors;
            readers.retain(|reader| reader.node != node);
            open.insert(input.node);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::ops::math::{add, mul};

    use super::*;

    #[test]
    fn a_node_that_alone_changes_is_replaced_in_its_place() {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([2])).unwrap();
        let one = model.add_const("one", tensor1(&[1.0_f32, 1.0])).unwrap();
        let first = model.wire_node("first", add(), &[x, one]).unwrap()[0];
        let second = model.wire_node("second", add(), &[first, one]).unwrap();
        model.select_output_outlets(&second).unwrap();
        let readers = model.node(one.node).outputs[0].successors.clone();
        let node = model.node(first.node).clone();
        let other = |inputs: &[OutletId]| {
            TypedModelPatch::replace_single_op(&model, &node, inputs, mul()).unwrap()
        };
        let (same, turned) = (other(&node.inputs), other(&[one, x]));
        assert!(replace(turned, &mut model.clone()).is_some());
        assert!(replace(same, &mut model).is_none());
        assert_eq!(model.nodes().len(), 4);
        assert_eq!(model.node(one.node).outputs[0].successors, readers);
        let [product, sum] = [first, second[0]].map(|it| model.node(it.node));
        assert_eq!([&*product.name, &*sum.name], ["first", "second"]);
        assert_eq!([product.op.name(), sum.op.name()], ["Mul", "Add"]);
    }
}
