//! A Loop's state of which each step writes its own row, to a scan output.
//!
//! JAX and scripted PyTorch write an output so. If the loop runs once for each row, all rows are written,
//! and none of the first value stays. Nothing but the steps' writes may read the state.
//!
//! ```text
//! Loop(y = zeros: [steps, 8]) { y = ScatterND(y, [[step]], [v]) }   →   Loop() { v }
//! ```

use super::loop_edit::LoopEdit;
use crate::model::{BEFORE_STATES, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::steps::body::{Body, Count, State, through_identity};
use crate::passes::steps::{self, trips};
use crate::scope::Scope;
use crate::sizes::{self, Size};

pub(super) const PASS: Pass = Pass::exact(
    "scattered-rows",
    "A Loop's state of which each step writes its own row, to a scan output",
    find,
)
.of(&["Loop"])
.fast();

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    // The pass of recurrent layers reports what keeps a loop from being read.
    let graph = steps::graph_of(scope, node).map_err(|_| Other)?;
    let inner = Scope::form_of_body(&graph, scope, node);
    let mut body = Body::of(scope, node, &inner).map_err(|_| Other)?;
    let write = |state: &State<'_>| row_of(&inner, state).is_some();
    if !body.states.iter().any(write) {
        return Err(Other);
    }
    body.steps = trips::count(&body, node).map_err(|_| Other)?;
    let mut left = Err(Other);
    for state in &body.states {
        let Some(write) = row_of(&inner, state) else {
            continue;
        };
        match check(&body, state, write) {
            Ok(()) => return replaced(&body, at, state, write),
            Err(why) => left = Err(why.into()),
        }
    }
    left
}

/// The node that writes into a state, which nothing else reads.
fn row_of<'a>(inner: &'a Scope<'a>, state: &State<'a>) -> Option<&'a NodeProto> {
    let updated = through_identity(inner, state.updated);
    let write = inner.first_output_of(updated, "ScatterND")?;
    let replaces = matches!(write.text("reduction").or("none"), Some("none"));
    // The write itself, or one Identity behind it.
    let identity = inner.first_output_of(state.updated, "Identity");
    let is_last = state.updated == updated || identity?.input(0)? == updated;
    let names = [state.carried, updated, state.updated];
    let is_alone = is_last && names.iter().all(|name| inner.uses(name) == 1);
    (replaces && is_alone && write.input(0)? == state.carried).then_some(write)
}

/// Checks that the steps write all rows, each its own.
fn check(body: &Body<'_>, state: &State<'_>, write: &NodeProto) -> Result<(), String> {
    let name = write.outputs().next().unwrap_or_default();
    let count = write.input(1).and_then(|indices| body.counter(indices));
    if count != Some(Count { ahead: 0, rank: 2 }) {
        return Err(format!(
            "its body has ScatterND ({name}), which does not provably write the row of its step alone"
        ));
    }
    let rows = sizes::axis(body.outer, state.initial, 0);
    if rows != Some(body.steps) {
        return Err(format!(
            "its body has ScatterND ({name}), which does not provably write all rows of {}",
            state.initial
        ));
    }
    Ok(())
}

/// The Loop with a scan output.
fn replaced(body: &Body<'_>, at: &At<'_>, state: &State<'_>, write: &NodeProto) -> Verdict {
    let mut carried = body.inner.inputs.iter().skip(BEFORE_STATES);
    let place = carried.position(|it| *it == state.carried);
    let (place, row) = (place.ok_or(Other)?, write.input(2).ok_or(Other)?);
    let emit = at.emit(state.initial);
    let mut edit = LoopEdit::new(&emit, at.node)?;
    edit.remove_state(place);
    let made: Vec<&str> = write.outputs().chain([state.updated]).collect();
    let nodes = edit.body.node.iter().enumerate();
    let gone = nodes.filter(|(_, node)| node.outputs().any(|it| made.contains(&it)));
    edit.gone = gone.map(|(index, _)| index).collect();
    let mut step = String::new();
    edit.behind = emit.within(|| step = emit.squeeze(row, &[0]));
    let all = edit.add_scan(&step, "rows");
    edit.finish();
    if state.last.is_empty() {
        // Nothing reads it.
    } else if matches!(body.steps, Size::Known(_)) {
        emit.same(state.last, &all);
    } else {
        // Of no step, a scan output does not have the sizes of a row everywhere.
        let sizes = emit.op("Shape", state.initial);
        emit.give(state.last, emit.op("Reshape", (all, sizes)));
    }
    emit.finish("the same with rows as a scan output")
}
