//! Parts of a loop with states that are a map: what its steps compute of no state, and what only its outputs
//! need, over all steps at once.
//!
//! What depends on sequences and on the step's number alone runs before the loop, which reads its steps. What
//! nothing but scan outputs follow from runs behind it, over scan outputs of what it reads.
//!
//! ```text
//! now = Gather(x, step)                 all = MatMul(x, w)
//! a = MatMul(now, w)                    hs = Loop(h) { now = Gather(all, step); h2 = Tanh(now + h) }
//! h2 = Tanh(a + h); y = MatMul(h2, v)   y = MatMul(hs, v)
//! ```
//!
//! A product with a constant matrix is worth it at any size: its weights are read once. Another value of all
//! steps has to fit the cache (`choice`), or a step computes it in less time; one of unknown size does not. Where a
//! part saves no more nodes than the reads that it adds, it stays.

mod choice;

use std::collections::{HashMap, HashSet};

use crate::model::{self, GraphProto, LoopLayout, NodeProto, ValueInfoProto};
use crate::pass::{At, Left, Other, Pass, Verdict};
use crate::passes::known_sizes;
use crate::passes::loop_edit::LoopEdit;
use crate::passes::steps::body::{Body, ScanOutput, unchanged};
use crate::passes::steps::{self, trips};
use crate::scope::Scope;
use crate::sizes::{self, LoopBody};
use crate::types;

use super::values::{Stepped, Value, Values};
use super::{OPSET, in_place, operators};
use choice::Choice;

pub(crate) const PASS: Pass = Pass::rounding(
    "partial-map",
    "What steps of other Loops and Scans compute without their states, over all steps",
    find,
)
.of(&["Loop", "Scan"])
.fast()
.keeping_loops();

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    if at.context.waits {
        return Err(Left::Later);
    }
    // The passes of layers and of whole maps report what keeps a loop from being read.
    let graph = steps::graph_of(scope, node).map_err(|_| Other)?;
    let inner = Scope::graph(&graph, Some(scope), scope.opset);
    let mut body = Body::of(scope, node, &inner).map_err(|_| Other)?;
    body.steps = trips::count(&body, node).map_err(|_| Other)?;
    // A number with axes would add them to what is read at it.
    let reads_plainly = body
        .iteration
        .is_none_or(|it| sizes::rank(&inner, it) == Some(0));
    // Before version 4, a body lists its constants among its inputs.
    let has_constants = graph.input.len() > inner.inputs.len();
    if scope.opset < OPSET || !reads_plainly || has_constants {
        return Err(Other);
    }
    assume_states(&body, node);
    let states = unchanged(scope, node, node.graph("body").ok_or(Other)?).map_err(|_| Other)?;
    let layout = LoopLayout::of(node).ok_or(Other)?;
    let first_scan = layout.leading_outputs + layout.states;
    let mut named = None;
    // Nodes that have no form behind the loop.
    let mut without_form = HashSet::new();
    loop {
        let emit = at.emit(node.outputs().next().ok_or(Other)?);
        let mut values = Values::new(&body, &emit, operators::write);
        let choice = Choice::of(&mut values, first_scan, &without_form);
        if choice.is_nothing() {
            return Err(Other);
        }
        let named = named.get_or_insert_with(|| at.named());
        let edit = LoopEdit::of(&emit, named, with_states(&graph, &states))?;
        match write(&mut values, &choice, edit) {
            Ok(()) => return emit.finish(choice.what()),
            Err(Unwritten::Node(index)) => without_form.insert(index),
            Err(Unwritten::Output(why)) => return Err(why.into()),
        };
    }
}

/// The body with states that no step changes in place of the values with which they begin: runtimes know
/// the sizes that the body declares.
fn with_states(body: &GraphProto, unchanged: &[(String, String)]) -> GraphProto {
    let states = unchanged.iter().map(|(state, initial)| (&**initial, state));
    let states: HashMap<&str, &String> = states.collect();
    let mut body = body.clone();
    for input in body.node.iter_mut().flat_map(|node| &mut node.input) {
        if let Some(state) = states.get(input.as_str()) {
            input.clone_from(state);
        }
    }
    body
}

/// What of a loop cannot be written over all steps.
enum Unwritten {
    /// A node, by its index in the body.
    Node(usize),
    /// An output, and why.
    Output(String),
}

impl From<String> for Unwritten {
    fn from(why: String) -> Self {
        Self::Output(why)
    }
}

/// Takes each state to have the rank and the sizes that it begins with, where all steps keep them.
fn assume_states<'a>(body: &Body<'a>, node: &'a NodeProto) {
    let inner = body.inner;
    let looped = LoopBody::of(body.outer, node);
    for state in &body.states {
        let rank = match &looped {
            Some(looped) => sizes::rank(&looped.scope, state.carried),
            None => sizes::rank(body.outer, state.initial),
        };
        let Some(rank) = rank else { continue };
        inner.assume_rank(state.carried, rank);
        for axis in 0..rank {
            let size = match &looped {
                Some(looped) => looped.fixed_axis(state.carried, axis),
                None => sizes::axis(body.outer, state.initial, axis),
            };
            if let Some(size) = size {
                size.assume(inner, state.carried, axis);
            }
        }
    }
}

/// A value of a body with its type, as far as it is known: ONNX Runtime refuses a Scan whose outputs have
/// none.
fn declared(inner: &Scope<'_>, name: &str) -> ValueInfoProto {
    if let Some(declared) = inner.declaration(name).filter(|it| it.r#type.is_set()) {
        return declared.clone();
    }
    match types::of(inner, name).zip(known_sizes(inner, name)) {
        Some((code, sizes)) => model::value(name, code, &sizes),
        None => model::untyped(name),
    }
}

/// Writes a node of the body over all steps, with the constants of the body that it reads.
fn write_node<'a>(values: &mut Values<'a, '_>, node: &'a NodeProto) -> Result<(), String> {
    let inner = values.body.inner;
    for (_, constant) in node.inputs().filter_map(|name| inner.maker(name)) {
        if constant.is("Constant") && values.value(&constant.output[0]).is_err() {
            operators::write(values, constant)?;
        }
    }
    operators::write(values, node)
}

/// Writes the loop and what is behind it; what is before it is written.
fn write<'a>(
    values: &mut Values<'a, '_>,
    choice: &Choice<'a>,
    mut edit: LoopEdit<'_>,
) -> Result<(), Unwritten> {
    let (body, emit) = (values.body, values.emit);
    edit.gone.extend(choice.gone());
    for &name in &choice.read {
        match values.value(name)? {
            Value::Stepped(all) => edit.read_step(&all.name, declared(body.inner, name)),
            Value::Fixed(fixed) => edit.read_whole(&fixed, name),
        }
    }
    let mut outputs: HashSet<&str> = body.inner.outputs.iter().copied().collect();
    for &(value, rank) in &choice.kept {
        let is_it = |it: &&ScanOutput<'_>| {
            it.value == value && it.axis == 0 && !it.backwards && !it.result.is_empty()
        };
        let name = match body.scanned.iter().find(is_it) {
            Some(known) => known.result.to_owned(),
            None => {
                let mut step = declared(body.inner, value);
                // A body must not output a value twice, and ONNX Runtime misreads an input that is one.
                if body.inner.maker(value).is_none() || !outputs.insert(value) {
                    step.name = Some(edit.hand_on(value, "step"));
                }
                edit.add_declared_scan(step, "steps")
            }
        };
        values.set(value, Value::Stepped(Stepped::new(name, rank)));
    }
    for (number, scanned) in body.scanned.iter().enumerate().rev() {
        if choice.makes(scanned.value) {
            edit.remove_scan(number);
        }
    }
    edit.finish();
    for &index in &choice.behind {
        write_node(values, &body.inner.nodes[index]).map_err(|_| Unwritten::Node(index))?;
    }
    for scanned in &body.scanned {
        if choice.makes(scanned.value) && body.outer.uses(scanned.result) > 0 {
            let value = values.stepped(scanned.value)?;
            emit.same(scanned.result, &in_place(emit, value, scanned)?);
        }
    }
    Ok(())
}
