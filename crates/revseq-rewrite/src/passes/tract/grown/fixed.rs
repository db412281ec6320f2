//! A list of as many tensors in all iterations, to as many states.

use super::BEFORE_STATES;
use crate::model;
use crate::pass::{At, Verdict};
use crate::passes::name_outputs;
use crate::passes::tract::list::{self, Segment, write_element};
use crate::scope::Scope;

/// The Loop with a state for each tensor of a list, if no iteration changes their number.
pub(super) fn replaced(at: &At<'_>, state: usize, initial: &[Segment<'_>]) -> Option<Verdict> {
    let initial = list::elements(initial).filter(|all| !all.is_empty())?;
    let mut node = at.node.clone();
    let mut body = node.graph("body")?.clone();
    let input = BEFORE_STATES + state;
    if body.input.len() <= input || body.output.len() <= 1 + state {
        return None;
    }
    let old = body.input.remove(input).name?;
    let new = body.output.remove(1 + state).name?;
    let given = node.output.get(state).filter(|it| !it.is_empty()).cloned();
    let emit = at.emit(given.as_deref().unwrap_or(&old));
    let count = initial.len();
    let names = |hint| Vec::from_iter((0..count).map(|_| emit.name(hint)));
    let before = names("before");
    let first = emit.within(|| emit.write(&[&old], "SequenceConstruct", &before, ()));
    body.node.splice(0..0, first);
    let inputs = before.iter().map(|it| model::untyped(it));
    body.input.splice(input..input, inputs);
    let inner = Scope::graph(&body, Some(at.scope), at.scope.opset);
    let updated = list::segments(&inner, &new).and_then(|all| list::elements(&all))?;
    if updated.len() != count {
        return None;
    }
    let after = names("after");
    let behind = emit.within(|| {
        for (element, after) in updated.iter().zip(&after) {
            emit.write(&[after], "Identity", write_element(&emit, element), ());
        }
    });
    body.node.extend(behind);
    let outputs = after.iter().map(|it| model::untyped(it));
    body.output.splice(1 + state..1 + state, outputs);
    let initial = initial.iter().map(|it| write_element(&emit, it));
    node.input.splice(input..=input, initial);
    let last = names("last");
    node.output
        .resize(node.output.len().max(state + 1), String::new());
    node.output.splice(state..=state, last.iter().cloned());
    let outputs = node.output.len();
    name_outputs(&emit, &mut node, outputs);
    for graph in node.graphs_mut() {
        *graph = body.clone();
    }
    emit.copy(node);
    if let Some(given) = given {
        emit.write(&[&given], "SequenceConstruct", last, ());
    }
    Some(emit.finish("the same with each tensor of a list of fixed length as a state"))
}
