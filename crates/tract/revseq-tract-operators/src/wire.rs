//! Helpers for wiring nodes into a typed model.
//!
//! A node's name has to be free in the model, also among the nodes that are translated later. tract
//! compares the facts of a wired node with those inferred for it, in which another symbol may stand
//! for the same size.

use std::collections::HashSet;

use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_hir::internal::*;

use crate::cast_to_sizes::CastToSizes;
use crate::dims::in_dims;
use crate::typed_op::Typed;

/// Casts a value unless it already has the type. Integers that become sizes keep all of their bits. A
/// constant stays one: tract would cast a large one in each run.
pub(crate) fn wire_cast(
    model: &mut TypedModel,
    name: String,
    outlet: OutletId,
    to: DatumType,
) -> TractResult<OutletId> {
    let fact = model.outlet_fact(outlet)?;
    if fact.datum_type == to {
        return Ok(outlet);
    }
    let known = match fact.konst.as_deref() {
        Some(known) if to.is_tdim() => Some(in_dims(known)?),
        // Symbols are no numbers.
        known => known.and_then(|it| Some(it.cast_to_dt(to).ok()?.into_owned())),
    };
    let name = model.unique_name(name).into_owned();
    if let Some(known) = known {
        return model.add_const(name, known);
    }
    let op: Box<dyn TypedOp> = match to.is_tdim() {
        true => Box::new(Typed(CastToSizes)),
        false => Box::new(cast(to)),
    };
    Ok(model.wire_node(name, op, &[outlet])?[0])
}

/// Returns a model of its own with inputs of these facts, and the outlets of all: known values are constants, and
/// so are those without elements, which tract takes for constants.
pub(crate) fn alone<'a>(
    symbols: SymbolScope,
    facts: impl IntoIterator<Item = &'a TypedFact>,
) -> TractResult<(TypedModel, TVec<OutletId>)> {
    let mut model = TypedModel {
        symbols,
        ..TypedModel::default()
    };
    let outlets = facts.into_iter().enumerate().map(|(slot, fact)| {
        let name = format!("input {slot}");
        let empty = fact.shape.as_concrete().filter(|shape| shape.contains(&0));
        match (&fact.konst, empty) {
            (Some(value), _) => model.add_const(name, Arc::clone(value)),
            (None, Some(shape)) => model.add_const(name, Tensor::zero_dt(fact.datum_type, shape)?),
            (None, None) => model.add_source(name, fact.clone()),
        }
    });
    let outlets = outlets.collect::<TractResult<_>>()?;
    Ok((model, outlets))
}

/// Whether a node reads a value, or it is an output.
pub(crate) fn is_read(model: &TypedModel, outlet: OutletId) -> bool {
    !model.outlet_successors(outlet).is_empty() || model.outputs.contains(&outlet)
}

/// Whether a value is one of the sought ones, or depends on one.
pub(crate) fn reads(
    model: &TypedModel,
    outlet: OutletId,
    is_sought: impl Fn(OutletId) -> bool,
) -> bool {
    let mut open = vec![outlet];
    let mut seen = HashSet::new();
    while let Some(outlet) = open.pop() {
        if is_sought(outlet) {
            return true;
        }
        if seen.insert(outlet.node) {
            open.extend(&model.node(outlet.node).inputs);
        }
    }
    false
}

/// Renames the nodes wired for a node of `source`, starting at index `first`, if an untranslated
/// node of `source` has the same name: tract requires unique names.
pub(crate) fn free_names(
    source: &InferenceModel,
    node: &InferenceNode,
    target: &mut TypedModel,
    first: usize,
) {
    let is_named = |name: &str| source.nodes().iter().any(|it| it.name == name);
    for id in first..target.nodes().len() {
        let name = &target.node(id).name;
        if *name == node.name || !is_named(name) {
            continue;
        }
        let is_free = |it: &String| !is_named(it) && target.nodes().iter().all(|n| n.name != *it);
        let free = (1..).map(|number| format!("{name}.{number}")).find(is_free);
        if let Some(free) = free {
            target.node_mut(id).name = free;
        }
    }
}
