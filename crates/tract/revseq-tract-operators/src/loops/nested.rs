//! Scans within bodies, and the steps within the operators of a body.
//!
//! A body runs many times, while tract's Scan was made to run once, or on the parts of a stream. So
//! each one made here begins every run with its initial states, and its steps are counted in advance,
//! as it does not count itself.

use tract_onnx::tract_core::ops::array::{MultiBroadcastTo, Tile, TypedConcat};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_hir::internal::*;

use crate::loops::alias::Alias;
use crate::loops::branches::Branches;
use crate::wire::reads;

/// The name of [`Loop`](crate::Loop), which draws on its outer loop's budget itself.
pub(crate) const LOOP: &str = "Loop";

/// Makes a new Scan the one that ONNX means: by default, tract's keeps its states from run to run.
///
/// What tract would compute for all steps at once although it is made for one stays in the body behind
/// barriers, and reads of an element become distinct. Of an inner Scan tract would also take the first
/// output for any other.
pub(crate) fn settle(scan: &mut Scan) -> TractResult<()> {
    scan.reset_every_turn = true;
    let scanned = std::iter::zip(&scan.body.inputs, &scan.input_mapping);
    let scanned = scanned.filter(|(_, mapping)| mapping.is_scan());
    let scanned: Vec<OutletId> = scanned.map(|(input, _)| *input).collect();
    let body = &mut scan.body;
    for id in 0..body.nodes().len() {
        if is_of_one_step(body, id)? {
            hold(body, id)?;
        } else {
            distinguish(body, id, &scanned)?;
        }
    }
    // tract takes nodes in the order of their numbers where it puts a body in the place of its Scan.
    body.compact()
}

/// Puts a barrier on either side of an operator.
fn hold(body: &mut TypedModel, id: usize) -> TractResult<()> {
    for (slot, input) in body.node(id).inputs.clone().into_iter().enumerate() {
        if body.outlet_fact(input)?.konst.is_none() {
            let barrier = alias(body, Alias::Barrier, input)?;
            body.add_edge(barrier, InletId::new(id, slot))?;
        }
    }
    for slot in 0..body.node(id).outputs.len() {
        let output = OutletId::new(id, slot);
        let readers = body.outlet_successors(output).to_vec();
        let barrier = alias(body, Alias::Barrier, output)?;
        for reader in readers {
            body.add_edge(barrier, reader)?;
        }
        for outlet in body.outputs.iter_mut().filter(|it| **it == output) {
            *outlet = barrier;
        }
    }
    Ok(())
}

/// Puts an alias between a node and an input of its that may turn out to be the same element of a scan
/// input as another one.
fn distinguish(body: &mut TypedModel, id: usize, scanned: &[OutletId]) -> TractResult<()> {
    let inputs = body.node(id).inputs.clone();
    for (slot, input) in inputs.iter().enumerate().skip(1) {
        let mut before = inputs[..slot].iter();
        if before.any(|before| may_be_one(body, *before, *input, scanned)) {
            let alias = alias(body, Alias::Distinct, *input)?;
            body.add_edge(alias, InletId::new(id, slot))?;
        }
    }
    Ok(())
}

/// Whether two values may turn out to be the same element of a scan input: one is that element except for
/// operators that may fold away, and the other is computed from it.
fn may_be_one(body: &TypedModel, a: OutletId, b: OutletId, scanned: &[OutletId]) -> bool {
    let element = |outlet: OutletId| {
        let mut outlet = outlet;
        loop {
            let node = body.node(outlet.node);
            let is_known = |it: &&OutletId| body.node(it.node).op_is::<Const>();
            let mut inputs = node.inputs.iter().filter(|it| !is_known(it));
            match (inputs.next(), inputs.next()) {
                (Some(input), None) if !node.op_is::<Alias>() => outlet = *input,
                _ => break,
            }
        }
        scanned.contains(&outlet).then_some(outlet)
    };
    let is_of = |element: Option<OutletId>, other: OutletId| {
        element.is_some_and(|element| reads(body, other, |it| it == element))
    };
    is_of(element(a), b) || is_of(element(b), a)
}

/// The value behind an alias of its own.
fn alias(body: &mut TypedModel, alias: Alias, outlet: OutletId) -> TractResult<OutletId> {
    let name = format!("{}.alias", body.node(outlet.node).name);
    let name = body.unique_name(name).into_owned();
    Ok(body.wire_node(name, alias, &[outlet])?[0])
}

/// Whether an operator is wrong for all steps at once: it has sizes of its own, or an axis of one element,
/// along which the steps may come to lie, meets a constant that has another number of elements.
fn is_of_one_step(body: &TypedModel, id: usize) -> TractResult<bool> {
    let node = body.node(id);
    if node.op_is::<Scan>() || node.op_is::<MultiBroadcastTo>() || node.op_is::<Tile>() {
        return Ok(true);
    }
    let facts = body.node_input_facts(id)?;
    let (constants, others): (TVec<_>, TVec<_>) =
        facts.into_iter().partition(|fact| fact.konst.is_some());
    let has_one = |fact: &TypedFact, axis: usize| fact.shape.get(axis).is_some_and(TDim::is_one);
    let is_one = |axis: usize| others.iter().any(|fact| has_one(fact, axis));
    let mut axes = 0..node.outputs.first().map_or(0, |output| output.fact.rank());
    Ok(if let Some(op) = node.op_as::<TypedConcat>() {
        // It does not broadcast.
        !constants.is_empty() && axes.any(|axis| axis != op.axis && is_one(axis))
    } else if node.op_is::<TypedBinOp>() || node.op_is::<Iff>() {
        let mut constants = constants.iter();
        constants.any(|fact| {
            axes.clone()
                .any(|axis| is_one(axis) && !has_one(fact, axis))
        })
    } else {
        false
    })
}

/// The steps of inner loops that became Scans, which do not use the budget when they run. `None` if
/// there is another loop, or a symbolic number of steps.
pub(crate) fn steps_within(body: &TypedModel) -> TractResult<Option<u64>> {
    let mut steps = 0_u64;
    for node in body.nodes() {
        let within = if let Some(scan) = node.op_as::<Scan>() {
            let facts = body.node_input_facts(node.id)?;
            let count = scan.iteration_count(&facts);
            let count = count.and_then(|count| count.to_i64().ok());
            // Scans of recurrent layers are bounded by their data.
            let own = if !is_loop(scan) { Some(0) } else { count };
            let within = steps_within(&scan.body)?;
            own.zip(within).map(|(own, within)| {
                let own = own.unsigned_abs();
                own.saturating_add(count.unwrap_or(1).unsigned_abs().saturating_mul(within))
            })
        } else if let Some(Branches {
            bodies: branches, ..
        }) = node.op_as()
        {
            let then = steps_within(&branches.then_body)?;
            let otherwise = steps_within(&branches.else_body)?;
            then.zip(otherwise)
                .map(|(then, otherwise)| then.max(otherwise))
        } else {
            (node.op.name() != LOOP).then_some(0)
        };
        match within {
            Some(within) => steps = steps.saturating_add(within),
            None => return Ok(None),
        }
    }
    Ok(Some(steps))
}

/// Whether a Scan comes from a loop: its outputs keep an element.
fn is_loop(scan: &Scan) -> bool {
    let mut nodes = scan.body.nodes().iter();
    nodes.any(|node| matches!(node.op_as(), Some(Alias::Barrier)) && node.inputs.len() > 1)
}
