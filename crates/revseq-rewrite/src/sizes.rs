//! What is provable about sizes: "this is the length of that axis".

use std::cell::Cell;

use crate::constant;
use crate::model::{Attribute, NodeProto, declared_sizes};
use crate::scope::{Scope, Source};

/// How deep values are followed, so that no model takes all of the stack.
const MAXIMUM_DEPTH: usize = 128;

/// How many values are looked at for one answer, so that none takes forever.
const MAXIMUM_VALUES: usize = 4096;

/// The most axes that are looked at: a model can name any number, and no runtime takes so many.
const MAXIMUM_RANK: usize = 64;

/// What is left of depth and values.
#[derive(Clone, Copy)]
struct Steps<'s> {
    depth: usize,
    values: &'s Cell<usize>,
}

impl Steps<'_> {
    /// After one more value; none if it is too far.
    fn next(self) -> Option<Self> {
        self.values.set(self.values.get().checked_sub(1)?);
        let depth = self.depth.checked_sub(1)?;
        Some(Self { depth, ..self })
    }
}

/// Follows values from where an answer is asked for.
fn follow<T>(answer: impl FnOnce(Steps<'_>) -> T) -> T {
    answer(Steps {
        depth: MAXIMUM_DEPTH,
        values: &Cell::new(MAXIMUM_VALUES),
    })
}

/// A number that is known, or is known to be an axis's length. Two that are
/// equal are the same in every run.
#[derive(Clone, Copy)]
pub(crate) enum Size<'a> {
    /// This one.
    Known(i64),
    /// The length of an axis of a value.
    Axis {
        scope: &'a Scope<'a>,
        value: &'a str,
        axis: usize,
    },
}

impl PartialEq for Size<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(one), Self::Known(other)) => one == other,
            (
                Self::Axis { scope, value, axis },
                Self::Axis {
                    scope: other_scope,
                    value: other_value,
                    axis: other_axis,
                },
            ) => std::ptr::eq(*scope, *other_scope) && value == other_value && axis == other_axis,
            _ => false,
        }
    }
}

/// Elementwise operators of one input, to which the order is all the same.
pub(crate) const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Cast",
    "Ceil",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "Identity",
    "LeakyRelu",
    "Log",
    "Neg",
    "Not",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
    "ThresholdedRelu",
];

/// Others whose output has the sizes of the first input.
const SAME_SIZES: &[&str] = &[
    "Clip",
    "Dropout",
    "LayerNormalization",
    "LogSoftmax",
    "ReverseSequence",
    "Softmax",
];

fn has_sizes_of_input(op: &str) -> bool {
    ELEMENTWISE.contains(&op) || SAME_SIZES.contains(&op)
}

/// Operators of two inputs or more that are broadcast.
const BROADCAST: &[&str] = &[
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Operators that reduce axes.
const REDUCE: &[&str] = &[
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
];

/// The number of axes of a value.
pub(crate) fn rank(scope: &Scope<'_>, name: &str) -> Option<usize> {
    follow(|steps| rank_within(scope, name, steps))
}

fn rank_within(scope: &Scope<'_>, name: &str, steps: Steps<'_>) -> Option<usize> {
    let steps = steps.next()?;
    let (inner, source) = scope.source(name)?;
    let proved = match source {
        Source::Initializer(tensor) => Some(tensor.dims.len()),
        Source::Input(_) => None,
        Source::Node { node, output, .. } => {
            let input = || rank_within(inner, node.input(0)?, steps);
            match node.op() {
                "LSTM" | "GRU" | "RNN" if node.domain().is_empty() => {
                    Some(if output == 0 { 4 } else { 3 })
                }
                _ if !node.domain().is_empty() || output != 0 => None,
                "Constant" => node.tensor("value").value().map(|tensor| tensor.dims.len()),
                "Transpose" => node.ints("perm").value().map(<[i64]>::len).or_else(input),
                "Shape" => Some(1),
                "ConstantOfShape" => count(inner, node.input(0)?, steps),
                "Expand" => {
                    let sizes = count(inner, node.input(1)?, steps)?;
                    Some(rank_within(inner, node.input(0)?, steps)?.max(sizes))
                }
                "Unsqueeze" => Some(input()? + constant::axes(inner, node)??.len()),
                "Squeeze" => input()?.checked_sub(constant::axes(inner, node)??.len()),
                "Slice" | "Concat" => input(),
                "Gather" => (input()? + rank_within(inner, node.input(1)?, steps)?).checked_sub(1),
                op if REDUCE.contains(&op) => {
                    let reduced = constant::axes(inner, node)??;
                    if node.int("keepdims").or(1)? == 0 {
                        input()?.checked_sub(reduced.len())
                    } else {
                        input()
                    }
                }
                "MatMul" if rank_within(inner, node.input(1)?, steps)? == 2 => {
                    rank_within(inner, node.input(0)?, steps)
                }
                op if has_sizes_of_input(op) => input(),
                op if BROADCAST.contains(&op) => node.inputs().try_fold(0, |most, input| {
                    Some(rank_within(inner, input, steps)?.max(most))
                }),
                _ => None,
            }
        }
    };
    // A rank that does not hold would keep a model from loading.
    proved
        .or_else(|| Some(declared_sizes(scope.declaration(name)?)?.len()))
        .filter(|&rank| rank <= MAXIMUM_RANK)
}

/// The length of an axis, followed to where it comes from.
pub(crate) fn axis<'a>(scope: &'a Scope<'a>, name: &'a str, axis: usize) -> Option<Size<'a>> {
    follow(|steps| axis_within(scope, name, axis, steps))
}

fn axis_within<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    axis: usize,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let steps = steps.next().filter(|_| axis < MAXIMUM_RANK)?;
    let (scope, source) = scope.source(name)?;
    let from = |size: Option<i64>| size.map(Size::Known);
    let (found, value): (Option<Size<'a>>, &'a str) = match source {
        Source::Initializer(tensor) => {
            return from(tensor.dims.get(axis).copied());
        }
        // What inner graphs declare of their inputs, nothing holds them to.
        Source::Input(declared) => {
            let main = if scope.parent.is_none() {
                declared
            } else {
                None
            };
            let size = main.and_then(|value| *declared_sizes(value)?.get(axis)?);
            let name = scope.inputs.iter().find(|&&input| input == name)?;
            (from(size), name)
        }
        Source::Node { node, output, .. } => (
            node_axis(scope, node, output, axis, steps),
            node.output.get(output)?,
        ),
    };
    Some(found.unwrap_or(Size::Axis { scope, value, axis }))
}

fn node_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    output: usize,
    axis: usize,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let of_input = |axis: usize| axis_within(scope, node.input(0)?, axis, steps);
    match (node.domain(), node.op(), output) {
        ("revseq", "ReverseSubsequences", 0) => of_input(axis),
        // Y is [time, directions, batch, units], the states are [directions, batch, units].
        ("", "LSTM" | "GRU" | "RNN", _) if node.int("layout").or(0) == Some(0) => {
            match axis + usize::from(output != 0) {
                0 => of_input(0),
                1 if node.text("direction").or("forward")? == "bidirectional" => {
                    Some(Size::Known(2))
                }
                1 => Some(Size::Known(1)),
                2 => of_input(1),
                _ => node.int("hidden_size").value().map(Size::Known),
            }
        }
        ("", op, 0) => match op {
            "Constant" => node
                .tensor("value")
                .value()?
                .dims
                .get(axis)
                .copied()
                .map(Size::Known),
            "Transpose" => {
                let from = *node.ints("perm").value()?.get(axis)?;
                of_input(usize::try_from(from).ok()?)
            }
            "Unsqueeze" => {
                let added = constant::axes(scope, node)??;
                let rank = rank_within(scope, node.input(0)?, steps)? + added.len();
                let added = constant::normal_axes(&added, rank)?;
                if added.contains(&axis) {
                    return Some(Size::Known(1));
                }
                of_input((0..axis).filter(|axis| !added.contains(axis)).count())
            }
            "Squeeze" => {
                let rank = rank_within(scope, node.input(0)?, steps)?;
                let removed = constant::normal_axes(&constant::axes(scope, node)??, rank)?;
                of_input((0..rank).filter(|axis| !removed.contains(axis)).nth(axis)?)
            }
            "Slice" if flipped_axis(scope, node).is_some() => of_input(axis),
            "Expand" | "ConstantOfShape" => {
                let shape = node.input(usize::from(op == "Expand"))?;
                // Expand keeps a size where the shape says 1.
                match element(scope, shape, axis, steps)? {
                    Size::Known(1) if op == "Expand" => None,
                    size if op == "ConstantOfShape" => Some(size),
                    size => {
                        let scalar = rank_within(scope, node.input(0)?, steps)? == 0;
                        scalar.then_some(size)
                    }
                }
            }
            "MatMul" => {
                let weights = rank_within(scope, node.input(1)?, steps)?;
                let rank = rank_within(scope, node.input(0)?, steps)?;
                if weights == 2 && axis + 1 < rank {
                    of_input(axis)
                } else {
                    None
                }
            }
            "Concat" => {
                let rank = rank_within(scope, node.input(0)?, steps)?;
                let joined = constant::normal_axis(node.int("axis").value()?, rank)?;
                if axis == joined { None } else { of_input(axis) }
            }
            // Rows of a table.
            "Gather" if node.int("axis").or(0) == Some(0) => {
                let rank = rank_within(scope, node.input(1)?, steps)?;
                if axis < rank {
                    axis_within(scope, node.input(1)?, axis, steps)
                } else {
                    of_input(axis - rank + 1)
                }
            }
            op if has_sizes_of_input(op) => of_input(axis),
            op if BROADCAST.contains(&op) => broadcast_axis(scope, node, axis, steps),
            op if REDUCE.contains(&op) => {
                let rank = rank_within(scope, node.input(0)?, steps)?;
                let reduced = constant::normal_axes(&constant::axes(scope, node)??, rank)?;
                if node.int("keepdims").or(1)? == 0 {
                    of_input((0..rank).filter(|axis| !reduced.contains(axis)).nth(axis)?)
                } else if reduced.contains(&axis) {
                    Some(Size::Known(1))
                } else {
                    of_input(axis)
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// The size that all inputs agree on, but those that have 1 there or nothing.
fn broadcast_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let mut ranks = Vec::new();
    for input in node.inputs() {
        ranks.push((input, rank_within(scope, input, steps)?));
    }
    let most = ranks.iter().map(|&(_, rank)| rank).max()?;
    let mut agreed = Size::Known(1);
    for (input, rank) in ranks {
        let Some(axis) = (axis + rank).checked_sub(most) else {
            continue;
        };
        let size = axis_within(scope, input, axis, steps)?;
        if size == Size::Known(1) || size == agreed {
            continue;
        }
        if agreed != Size::Known(1) {
            return None;
        }
        agreed = size;
    }
    Some(agreed)
}

/// The axis that a node flips from end to end: Slice with a step of -1.
pub(crate) fn flipped_axis(scope: &Scope<'_>, node: &NodeProto) -> Option<i64> {
    if !node.is("Slice") {
        return None;
    }
    let one = |index: usize| constant::int(scope, node.input(index)?);
    // Any start at or after the last element, any end before the first: sizes
    // are below the smallest of these.
    let (start, end) = (one(1)?, one(2)?);
    let flips = (start == -1 || start >= i64::from(i32::MAX))
        && end <= -i64::from(i32::MAX)
        && one(4)? == -1;
    flips.then(|| one(3)).flatten()
}

/// An element of a tensor of integers, counted through all of its axes.
fn element<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    index: usize,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let steps = steps.next()?;
    if let Some(values) = constant::ints(scope, name) {
        return values.get(index).copied().map(Size::Known);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let input = node.input(0)?;
    match node.op() {
        "Shape" => {
            let start = usize::try_from(node.int("start").or(0)?).ok()?;
            axis_within(scope, input, start.checked_add(index)?, steps)
        }
        "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" => element(scope, input, index, steps),
        // Sizes fit into both.
        "Cast" if matches!(node.int("to"), Attribute::Value(6 | 7)) => {
            element(scope, input, index, steps)
        }
        "Gather" => {
            let indices = constant::ints(scope, node.input(1)?)?;
            let at = *indices.get(index)?;
            let at = if at < 0 {
                at + count(scope, input, steps)? as i64
            } else {
                at
            };
            element(scope, input, usize::try_from(at).ok()?, steps)
        }
        "Slice" => {
            let (start, end) = vector_slice(scope, node, steps)?;
            let at = start.checked_add(index).filter(|&at| at < end)?;
            element(scope, input, at, steps)
        }
        "Concat" => {
            let mut index = index;
            for part in node.inputs() {
                let length = count(scope, part, steps)?;
                if index < length {
                    return element(scope, part, index, steps);
                }
                index -= length;
            }
            None
        }
        _ => None,
    }
}

/// How many elements a tensor of integers has.
fn count(scope: &Scope<'_>, name: &str, steps: Steps<'_>) -> Option<usize> {
    let steps = steps.next()?;
    if let Some(values) = constant::ints(scope, name) {
        return Some(values.len());
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let input = node.input(0)?;
    match node.op() {
        "Shape" if node.int("end") == Attribute::Absent => {
            let start = usize::try_from(node.int("start").or(0)?).ok()?;
            rank_within(scope, input, steps)?.checked_sub(start)
        }
        "Identity" | "Cast" | "Squeeze" | "Unsqueeze" => count(scope, input, steps),
        // Of a vector, as all that is followed here is.
        "Gather" => Some(constant::ints(scope, node.input(1)?)?.len()),
        "Slice" => {
            let (start, end) = vector_slice(scope, node, steps)?;
            Some(end.saturating_sub(start))
        }
        "Concat" => node
            .inputs()
            .map(|part| count(scope, part, steps))
            .try_fold(0_usize, |sum, part| sum.checked_add(part?)),
        _ => None,
    }
}

/// What a Slice of a vector keeps: start and end. The vector's own length is
/// needed only where they count from its end.
fn vector_slice(scope: &Scope<'_>, node: &NodeProto, steps: Steps<'_>) -> Option<(usize, usize)> {
    let one = |index: usize| constant::int(scope, node.input(index)?);
    let (start, end) = (one(1)?, one(2)?);
    if node.input(3).is_some() && one(3)? != 0 || node.input(4).is_some() && one(4)? != 1 {
        return None;
    }
    let length = count(scope, node.input(0)?, steps)?;
    let position = |at: i64| {
        let at = if at < 0 {
            at.saturating_add(length as i64)
        } else {
            at
        };
        at.clamp(0, length as i64) as usize
    };
    Some((position(start), position(end)))
}

/// The one integer that a value is.
pub(crate) fn scalar<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    follow(|steps| {
        let is_one = count(scope, name, steps)? == 1;
        is_one.then(|| element(scope, name, 0, steps)).flatten()
    })
}

/// What every element of a tensor of integers is.
pub(crate) fn every_element<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    follow(|steps| every_element_within(scope, name, steps))
}

fn every_element_within<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let steps = steps.next()?;
    if let Some(values) = constant::ints(scope, name) {
        let first = *values.first()?;
        return values
            .iter()
            .all(|&value| value == first)
            .then_some(Size::Known(first));
    }
    if let Some(size) = scalar(scope, name) {
        return Some(size);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    match node.op() {
        "Expand" | "Tile" | "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" | "Transpose" => {
            every_element_within(scope, node.input(0)?, steps)
        }
        "Cast" if matches!(node.int("to"), Attribute::Value(6 | 7)) => {
            every_element_within(scope, node.input(0)?, steps)
        }
        _ => None,
    }
}
