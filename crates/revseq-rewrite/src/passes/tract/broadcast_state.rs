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

use std::collections::HashMap;

use crate::constant;
use crate::emit::SOFTMAX_BY_ONE_AXIS;
use crate::model::{self, GraphProto, NodeProto};
use crate::operators::{BROADCAST, ELEMENTWISE, REDUCE};
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;
use crate::{sizes, truth};

pub(super) const PASS: Pass = Pass::exact(
    "broadcast-state",
    "A loop's state that its first step broadcasts to more axes, to one that has them",
    find,
)
.of(&["Loop"]);

/// The inputs of a Loop's body before its states: the step and the condition.
const BEFORE_STATES: usize = 2;

/// The ranks of a value in the first step, before and after the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ranks {
    before: usize,
    after: usize,
}

impl Ranks {
    /// The same rank before and after.
    const fn of(rank: usize) -> Self {
        Self {
            before: rank,
            after: rank,
        }
    }

    fn map(self, of: impl Fn(usize) -> usize) -> Self {
        Self {
            before: of(self.before),
            after: of(self.after),
        }
    }
}

const NO_AXES: Ranks = Ranks::of(0);

/// A state to be broadcast.
struct State<'a> {
    /// Its place among the states.
    place: usize,
    /// The name of its first value.
    initial: &'a str,
    ranks: Ranks,
}

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let body = node.graph("body").ok_or(Other)?;
    let inner = Scope::graph(body, Some(scope), scope.opset);
    let states = growing(scope, node, body, &inner);
    let first = states.first().ok_or(Other)?;
    check(scope, node, body, &inner, &states)?;
    let emit = at.emit(first.initial);
    let mut taken = node.clone();
    for state in &states {
        let added = state.ranks.after - state.ranks.before;
        let axes: Vec<i64> = (0..added as i64).collect();
        taken.input[BEFORE_STATES + state.place] = emit.unsqueeze(state.initial, &axes);
    }
    for body in taken.graphs_mut() {
        for State { place, .. } in &states {
            // The declared shapes may be those of the first step.
            forget_shape(&mut body.input[BEFORE_STATES + place]);
            forget_shape(&mut body.output[1 + place]);
        }
    }
    emit.copy(taken);
    emit.finish("the same with first states that have all axes")
}

fn forget_shape(value: &mut model::ValueInfoProto) {
    let kind = value
        .r#type
        .as_option_mut()
        .and_then(|it| it.value.as_mut());
    if let Some(model::type_proto::Value::TensorType(tensor)) = kind {
        tensor.shape = Default::default();
    }
}

/// The states that provably have more axes after the first step than before it.
fn growing<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    body: &GraphProto,
    inner: &Scope<'_>,
) -> Vec<State<'a>> {
    let initial = node.input.iter().skip(BEFORE_STATES).enumerate();
    let initial: Vec<(usize, &str)> = initial
        .map(|(place, name)| (place, name.as_str()))
        .collect();
    let fits =
        body.input.len() == BEFORE_STATES + initial.len() && body.output.len() > initial.len();
    if !fits {
        return Vec::new();
    }
    if let Some(step) = body.input[0].name.as_deref() {
        inner.assume_rank(step, 0);
    }
    let known = initial.into_iter().filter_map(|(place, name)| {
        let rank = sizes::rank(scope, name)?;
        let input = body.input[BEFORE_STATES + place].name.as_deref()?;
        inner.assume_rank(input, rank);
        Some((place, name, rank))
    });
    // All are assumed before one is proved.
    let known: Vec<(usize, &str, usize)> = known.collect();
    let grown = known.into_iter().filter_map(|(place, initial, before)| {
        let after = sizes::rank(inner, inner.outputs[1 + place])?;
        (after > before).then_some(State {
            place,
            initial,
            ranks: Ranks { before, after },
        })
    });
    grown.collect()
}

/// Checks that the loop computes the same with the states broadcast.
fn check(
    scope: &Scope<'_>,
    node: &NodeProto,
    body: &GraphProto,
    inner: &Scope<'_>,
    states: &[State<'_>],
) -> Result<(), String> {
    let mut changed: HashMap<&str, Ranks> = HashMap::new();
    for state in states {
        let name = body.input[BEFORE_STATES + state.place].name.as_deref();
        changed.insert(name.unwrap_or_default(), state.ranks);
    }
    for (index, reader) in body.node.iter().enumerate() {
        let captures = reader.graphs().any(|graph| reads_any(graph, &changed));
        let reads = reader.inputs().any(|name| changed.contains_key(name));
        if !captures && !reads {
            continue;
        }
        let made = match captures {
            true => None,
            false => ranks_of(inner, reader, &changed),
        };
        let Some(made) = made else {
            return Err(format!(
                "its node {} does not broadcast a state that its first step broadcasts",
                reader.label(index)
            ));
        };
        if made.before != made.after {
            changed.insert(&reader.output[0], made);
        }
    }
    // The condition has one element in any shape.
    if let Some(output) = inner.outputs[1..]
        .iter()
        .find(|it| changed.contains_key(*it))
    {
        return Err(format!(
            "its output {output} would have more axes after the first step"
        ));
    }
    let is_read = |state: &State<'_>| {
        let output = node.output.get(state.place).map(String::as_str);
        output.is_some_and(|it| scope.uses(it) > 0 || scope.outputs.contains(&it))
    };
    if states.iter().any(is_read) && !runs(scope, node) {
        return Err("it may run no step, after which a state would have fewer axes".to_owned());
    }
    Ok(())
}

/// Whether a loop provably runs a step.
fn runs(scope: &Scope<'_>, node: &NodeProto) -> bool {
    let counts = |name: &str| constant::int(scope, name).is_some_and(|count| count > 0);
    node.input(0).is_none_or(counts)
        && node
            .input(1)
            .is_none_or(|name| truth::of(scope, name) == Some(true))
}

/// Whether a graph reads one of the values.
fn reads_any(graph: &GraphProto, values: &HashMap<&str, Ranks>) -> bool {
    let mut nodes = graph.node.iter();
    graph.outputs().any(|name| values.contains_key(name))
        || nodes.any(|node| {
            node.inputs().any(|name| values.contains_key(name))
                || node.graphs().any(|graph| reads_any(graph, values))
        })
}

/// The ranks of what an operator gives; `None` unless it gives the same elements for inputs with axes
/// of size 1 in front.
fn ranks_of(inner: &Scope<'_>, node: &NodeProto, changed: &HashMap<&str, Ranks>) -> Option<Ranks> {
    let ranks = |name: &str| match changed.get(name) {
        Some(ranks) => Some(*ranks),
        None => sizes::rank(inner, name).map(Ranks::of),
    };
    let data = ranks(node.input(0)?);
    let is_of_data = || {
        node.inputs()
            .skip(1)
            .all(|name| !changed.contains_key(name))
    };
    match (node.domain(), node.op()) {
        // Its slope has no more axes than its data.
        ("", "PRelu") => None,
        ("", op) if BROADCAST.contains(&op) => node.inputs().try_fold(NO_AXES, |most, name| {
            let one = ranks(name)?;
            Some(Ranks {
                before: most.before.max(one.before),
                after: most.after.max(one.after),
            })
        }),
        ("", op) if ELEMENTWISE.contains(&op) => data,
        ("", op) if REDUCE.contains(&op) => {
            let axes = constant::axes(inner, node)?;
            let is_noop = node.int("noop_with_empty_axes").or(0)? != 0;
            if !axes.is_empty() {
                return reduced(node, data?, &axes).filter(|_| is_of_data());
            }
            let is_of_all = node.int("keepdims").or(1)? == 0 && !is_noop;
            (is_of_all && is_of_data()).then_some(NO_AXES)
        }
        ("", "ArgMax" | "ArgMin") => reduced(node, data?, &[node.int("axis").or(0)?]),
        ("", "LogSoftmax" | "Softmax") if inner.opset >= SOFTMAX_BY_ONE_AXIS => {
            let axis = node.int("axis").or(-1)?;
            data.filter(|data| is_from_end(axis, *data))
        }
        ("", "MatMul") => {
            let (rows, matrix) = (data?, ranks(node.input(1)?)?);
            let is_matrix = matrix.before == 2 && matrix.after == 2;
            (rows.before > 0 && is_matrix).then_some(rows)
        }
        ("", "Reshape") => {
            let sizes = constant::ints(inner, node.input(1)?)?;
            // A 0 stands for a size of its input.
            (!sizes.contains(&0) && is_of_data()).then_some(Ranks::of(sizes.len()))
        }
        ("", "Unsqueeze") => {
            let added = constant::axes(inner, node)?;
            let is_front = |axis: &i64| (0..added.len() as i64).contains(axis);
            let data = data.filter(|_| added.iter().all(is_front) && is_of_data())?;
            Some(data.map(|rank| rank + added.len()))
        }
        ("", "Gather") => {
            let (table, indices) = (data?, ranks(node.input(1)?)?);
            let is_same = table.before == table.after;
            let others = table.before.checked_sub(1)?;
            let is_first = node.int("axis").or(0)? == 0;
            (is_same && is_first).then(|| indices.map(|rank| others + rank))
        }
        _ => None,
    }
}

/// Whether an axis is counted from the end, and so is the same one with axes in front.
fn is_from_end(axis: i64, data: Ranks) -> bool {
    (-(data.before as i64)..0).contains(&axis)
}

/// The ranks of what remains of axes that are counted from the end.
fn reduced(node: &NodeProto, data: Ranks, axes: &[i64]) -> Option<Ranks> {
    let removed = match node.int("keepdims").or(1)? {
        0 => axes.len(),
        _ => 0,
    };
    let is_fit = axes.iter().all(|axis| is_from_end(*axis, data)) && removed <= data.before;
    is_fit.then(|| data.map(|rank| rank - removed))
}
