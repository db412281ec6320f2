//! A loop's state that a step broadcasts to more axes, to one that has them from the start: tract
//! fixes the rank of every value.
//!
//! The first value gets axes of size 1 in front. It has the same elements, so each operator of the
//! body that broadcasts it as numpy does gives the same ones: with the axes in front, or, where
//! another operand has them anyway, in the very same shape. Every reader has to be such an operator,
//! and what the body outputs must have the same shape in the first step as it had before. After no
//! step, the state would have kept its rank: at least one has to run, or nothing reads its last value.
//!
//! ```text
//! Loop(s = 0) { s = Add(s, x) }  →  Loop(s = [0]) { s = Add(s, x) }, where x is a vector
//! ```

use crate::constant;
use crate::emit::SOFTMAX_BY_ONE_AXIS;
use crate::model::{self, BEFORE_STATES, GraphProto, NodeProto};
use crate::operators::{broadcasts, is_elementwise, reduces};
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::steps::trips::is_a_step_certain;
use crate::scope::Scope;
use crate::{order, sizes};

pub(super) const PASS: Pass = Pass::exact(
    "broadcast-state",
    "A loop's state that its first step broadcasts to more axes, to one that has them",
    find,
)
.of(&["Loop"]);

/// A state to be broadcast.
struct GrowingState<'a> {
    /// Its place among the states.
    place: usize,
    /// The name of its first value.
    initial: &'a str,
    /// The number of axes that it gets.
    added: usize,
}

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let body = node.graph("body").ok_or(Other)?;
    let initial = node.input.iter().skip(BEFORE_STATES);
    let initial: Vec<Option<usize>> = initial.map(|name| sizes::rank(scope, name)).collect();
    let before = first_step(scope, body, &initial).ok_or(Other)?;
    let states = growing(node, &initial, &before);
    let first = states.first().ok_or(Other)?;
    let mut grown = initial;
    for state in &states {
        grown[state.place] = grown[state.place].map(|rank| rank + state.added);
    }
    let after = first_step(scope, body, &grown).ok_or(Other)?;
    check(at, &FirstStep { before, after }, &states)?;
    let emit = at.emit(first.initial);
    let mut taken = node.clone();
    for state in &states {
        let axes: Vec<i64> = (0..state.added as i64).collect();
        taken.input[BEFORE_STATES + state.place] = emit.unsqueeze(state.initial, &axes);
    }
    for body in taken.graphs_mut() {
        for GrowingState { place, .. } in &states {
            // The declared shapes may be those of the first step.
            let values = [
                &mut body.input[BEFORE_STATES + place],
                &mut body.output[1 + place],
            ];
            for tensor in values.into_iter().filter_map(model::tensor_type_mut) {
                tensor.shape = Default::default();
            }
        }
    }
    emit.copy(taken);
    emit.finish("the same with first states that have all axes")
}

/// The states that provably have more axes after the first step than before it.
fn growing<'a>(
    node: &'a NodeProto,
    initial: &[Option<usize>],
    before: &Scope<'_>,
) -> Vec<GrowingState<'a>> {
    let states = std::iter::zip(initial, &before.outputs[1..]).enumerate();
    let growing = states.filter_map(|(place, (&initial, updated))| {
        let added = sizes::rank(before, updated)?.checked_sub(initial?)?;
        (added > 0).then_some(GrowingState {
            place,
            initial: &node.input[BEFORE_STATES + place],
            added,
        })
    });
    growing.collect()
}

/// The body in the first step, where its states have these ranks; `None` if it has other states.
fn first_step<'a>(
    scope: &'a Scope<'a>,
    body: &'a GraphProto,
    ranks: &[Option<usize>],
) -> Option<Scope<'a>> {
    let inner = Scope::graph(body, Some(scope), scope.opset);
    let (step, states) = (body.input.first()?, body.input.get(BEFORE_STATES..)?);
    inner.assume_rank(step.name(), 0);
    for (state, rank) in std::iter::zip(states, ranks) {
        if let Some(rank) = *rank {
            inner.assume_rank(state.name(), rank);
        }
    }
    (states.len() == ranks.len() && body.output.len() > ranks.len()).then_some(inner)
}

/// The body in the first step, before and after the pass.
struct FirstStep<'a> {
    before: Scope<'a>,
    after: Scope<'a>,
}

impl FirstStep<'_> {
    /// Whether a value has other axes after the pass.
    fn changes(&self, name: &str) -> bool {
        sizes::rank(&self.before, name) != sizes::rank(&self.after, name)
    }
}

/// Checks that the loop computes the same with the states broadcast.
fn check(at: &At<'_>, step: &FirstStep<'_>, states: &[GrowingState<'_>]) -> Result<(), String> {
    let &At { scope, node, .. } = at;
    for (index, reader) in step.before.nodes.iter().enumerate() {
        let reads = order::reads(reader);
        if reads.iter().any(|name| step.changes(name)) && keeps_elements(step, reader).is_none() {
            return Err(format!(
                "its node {} does not broadcast a state that its first step broadcasts",
                reader.label(index)
            ));
        }
    }
    // The condition has one element in any shape.
    let mut outputs = step.before.outputs[1..].iter();
    if let Some(output) = outputs.find(|it| step.changes(it)) {
        return Err(format!(
            "its output {output} would have more axes after the first step"
        ));
    }
    let is_read = |state: &GrowingState<'_>| {
        let output = node.output.get(state.place).map(String::as_str);
        output.is_some_and(|it| scope.uses(it) > 0 || scope.outputs.contains(&it))
    };
    if states.iter().any(is_read) && !is_a_step_certain(scope, node) {
        return Err("it may run no step, after which a state would have fewer axes".to_owned());
    }
    Ok(())
}

/// Proves that an operator gives the same elements for inputs with axes of size 1 in front. The ranks of
/// what it reads and gives have to be known.
fn keeps_elements(step: &FirstStep<'_>, node: &NodeProto) -> Option<()> {
    let scope = &step.before;
    let rank = |input: usize| sizes::rank(scope, node.input(input)?);
    let is_of_data = || node.inputs().skip(1).all(|name| !step.changes(name));
    // An axis counted from the end is the same one with axes in front.
    let is_from_end = |axis: &i64| Some((-(rank(0)? as i64)..0).contains(axis));
    let are_from_end = |axes: &[i64]| axes.iter().all(|axis| is_from_end(axis) == Some(true));
    let keeps = match (node.domain(), node.op()) {
        // Its slope has no more axes than its data.
        ("", "PRelu") => false,
        ("", op) if broadcasts(op) || is_elementwise(op) => true,
        ("", op) if reduces(op) => {
            let axes = constant::axes(scope, node)?;
            let is_noop = node.int("noop_with_empty_axes").or(0)? != 0;
            let keeps_axes = node.int("keepdims").or(1)? != 0;
            let is_of_all = axes.is_empty() && !keeps_axes && !is_noop;
            is_of_data() && (is_of_all || !axes.is_empty() && are_from_end(&axes))
        }
        ("", "ArgMax" | "ArgMin") => are_from_end(&[node.int("axis").or(0)?]),
        ("", "LogSoftmax" | "Softmax") if scope.opset >= SOFTMAX_BY_ONE_AXIS => {
            are_from_end(&[node.int("axis").or(-1)?])
        }
        ("", "MatMul") => rank(0)? > 0 && rank(1)? == 2 && is_of_data(),
        ("", "Reshape") => {
            // A 0 stands for a size of its input.
            is_of_data() && !constant::ints(scope, node.input(1)?)?.contains(&0)
        }
        ("", "Unsqueeze") => {
            let added = constant::axes(scope, node)?;
            let is_front = |axis: &i64| (0..added.len() as i64).contains(axis);
            is_of_data() && added.iter().all(is_front)
        }
        ("", "Gather") => !step.changes(node.input(0)?) && node.int("axis").or(0)? == 0,
        _ => false,
    };
    // Of a value that is not known, the declared rank may be that of the first step.
    let mut values = node.inputs().chain(node.outputs());
    let are_known = values.all(|it| {
        let ranks = [scope, &step.after].map(|scope| sizes::rank(scope, it));
        ranks.iter().all(Option::is_some)
    });
    (keeps && are_known).then_some(())
}
