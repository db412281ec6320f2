//! A list of as many tensors in all iterations, to as many states.

use super::BEFORE_STATES;
use crate::emit::Emit;
use crate::model;
use crate::pass::Verdict;
use crate::passes::tract::list::{self, Segment, write_last as write_element};
use crate::scope::{Names, Scope};

/// The Loop with a state for each tensor of a list, if no iteration changes their number.
pub(super) fn replaced(
    scope: &Scope<'_>,
    index: usize,
    state: usize,
    initial: &[Segment<'_>],
    names: &mut Names,
) -> Option<Verdict> {
    let initial = list::elements(initial).filter(|all| !all.is_empty())?;
    let mut node = scope.nodes[index].clone();
    let mut body = node.graph("body")?.clone();
    let input = BEFORE_STATES + state;
    if body.input.len() <= input || body.output.len() <= 1 + state {
        return None;
    }
    let old = body.input.remove(input).name?;
    let new = body.output.remove(1 + state).name?;
    let given = node.output.get(state).filter(|it| !it.is_empty()).cloned();
    let mut emit = Emit::new(given.as_deref().unwrap_or(&old), scope.opset, names);
    let count = initial.len();
    let before: Vec<String> = (0..count).map(|_| emit.name("before")).collect();
    let construct = |emit: &mut Emit<'_>, tensors: &[String], list: &str| {
        let tensors: Vec<&str> = tensors.iter().map(String::as_str).collect();
        emit.write(&[list], "SequenceConstruct", &tensors, Vec::new());
    };
    let first = emit.within(|emit| construct(emit, &before, &old));
    body.node.splice(0..0, first);
    body.input
        .splice(input..input, before.iter().map(|it| model::untyped(it)));
    let inner = Scope::graph(&body, Some(scope), scope.opset);
    let updated = list::segments(&inner, &new).and_then(|all| list::elements(&all))?;
    if updated.len() != count {
        return None;
    }
    let after: Vec<String> = (0..count).map(|_| emit.name("after")).collect();
    let behind = emit.within(|emit| {
        for (element, after) in updated.iter().zip(&after) {
            let element = write_element(emit, element);
            emit.write(&[after], "Identity", &[&element], Vec::new());
        }
    });
    body.node.extend(behind);
    let outputs = after.iter().map(|it| model::untyped(it));
    body.output.splice(1 + state..1 + state, outputs);
    let initial: Vec<String> = initial
        .iter()
        .map(|it| write_element(&mut emit, it))
        .collect();
    node.input.splice(input..=input, initial);
    let last: Vec<String> = (0..count).map(|_| emit.name("last")).collect();
    node.output
        .resize(node.output.len().max(state + 1), String::new());
    node.output.splice(state..=state, last.iter().cloned());
    for output in &mut node.output {
        // ONNX Runtime takes no empty names of states.
        if output.is_empty() {
            *output = emit.name("unread");
        }
    }
    for graph in node.graphs_mut() {
        *graph = body.clone();
    }
    emit.copy(node);
    if let Some(given) = given {
        construct(&mut emit, &last, &given);
    }
    let what = "the same with each tensor of a list of fixed length as a state";
    Some(emit.finish(what.to_owned()))
}
