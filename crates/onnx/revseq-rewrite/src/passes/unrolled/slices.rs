//! Values that are a step of a sequence: what Gather, Slice and Split read at a place that is the same
//! in every run.
//!
//! ```text
//! Gather<axis=1>(x, 3)                     step 3 of x
//! Squeeze<axes=[1]>(Slice(x, 3..4 of 1))   the same
//! Squeeze<axes=[1]>(Split<axis=1>(x))      the same, if the parts are of one step
//! ```

use std::collections::{BTreeMap, HashMap};

use crate::constant;
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes::{self, Size};

use super::MINIMUM_STEPS;

/// A step of a sequence of three axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step<'a> {
    pub(super) sequence: &'a str,
    /// The time axis, the first or the second.
    pub(super) axis: usize,
    /// Its place, from the start.
    pub(super) at: i64,
}

/// All steps of a graph's sequences.
pub(super) struct Slices<'a> {
    /// Steps by the values that they are, without the time axis.
    pub(super) steps: HashMap<&'a str, Step<'a>>,
    /// Values in order of time, by sequence and time axis, where enough different steps are read.
    pub(super) sequences: Vec<Vec<&'a str>>,
}

impl<'a> Slices<'a> {
    pub(super) fn of(scope: &'a Scope<'a>) -> Self {
        let mut steps: HashMap<&str, Step<'_>> = HashMap::new();
        // Those that still have the time axis.
        let mut framed: HashMap<&str, Step<'_>> = HashMap::new();
        for node in scope.nodes.iter().filter(|it| it.domain().is_empty()) {
            let step = match node.op() {
                "Gather" => gathered(scope, node),
                "Slice" => sliced(scope, node).map(|step| (step, true)),
                "Squeeze" => squeezed(scope, node, &framed).map(|step| (step, false)),
                _ => None,
            };
            if let (Some((step, has_axis)), Some(output)) = (step, node.outputs().next()) {
                let by_value = if has_axis { &mut framed } else { &mut steps };
                by_value.insert(output, step);
            }
            if node.is("Split") {
                framed.extend(split(scope, node).unwrap_or_default());
            }
        }
        let sequences = sequences(scope, &steps);
        Self { steps, sequences }
    }
}

/// The steps of each sequence that has enough of them, in order of time.
fn sequences<'a>(scope: &'a Scope<'a>, steps: &HashMap<&str, Step<'a>>) -> Vec<Vec<&'a str>> {
    type Sequence<'a> = BTreeMap<i64, Vec<&'a str>>;
    let mut places: HashMap<(&str, usize), usize> = HashMap::new();
    let mut sequences: Vec<Sequence<'_>> = Vec::new();
    for value in scope.nodes.iter().flat_map(NodeProto::outputs) {
        let Some(step) = steps.get(value) else {
            continue;
        };
        let place = *places.entry((step.sequence, step.axis)).or_insert_with(|| {
            sequences.push(BTreeMap::new());
            sequences.len() - 1
        });
        sequences[place].entry(step.at).or_default().push(value);
    }
    sequences.retain(|steps| steps.len() >= MINIMUM_STEPS);
    let in_order = sequences.into_iter().map(|steps| steps.into_values());
    in_order.map(|steps| steps.flatten().collect()).collect()
}

/// A sequence of three axes, with its time axis from the front.
fn sequence<'a>(scope: &'a Scope<'a>, value: &'a str, axis: i64) -> Option<(&'a str, usize)> {
    if sizes::rank(scope, value)? != 3 {
        return None;
    }
    let axis = constant::normal_axis(axis, 3)?;
    (axis < 2).then_some((value, axis))
}

/// A place from the start; `None` if it counts from an end that is not known, or is not there.
fn place(size: Option<Size<'_>>, at: i64) -> Option<i64> {
    match size {
        Some(Size::Known(size)) => {
            let at = if at < 0 { at.checked_add(size)? } else { at };
            (0..size).contains(&at).then_some(at)
        }
        _ => (at >= 0).then_some(at),
    }
}

/// The step that a Gather reads, and whether it keeps its axis.
fn gathered<'a>(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<(Step<'a>, bool)> {
    let index = constant::integers(scope, node.input(1)?)?;
    let [at] = index.elements[..] else {
        return None;
    };
    let (sequence, axis) = sequence(scope, node.input(0)?, node.int("axis").or(0)?)?;
    let at = place(sizes::axis(scope, sequence, axis), at)?;
    let step = Step { sequence, axis, at };
    match index.sizes.len() {
        0 => Some((step, false)),
        1 => Some((step, true)),
        _ => None,
    }
}

/// The single step that a Slice reads.
fn sliced<'a>(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Step<'a>> {
    let [range] = constant::ranges(scope, node)?[..] else {
        return None;
    };
    let (sequence, axis) = sequence(scope, node.input(0)?, range.axis)?;
    let at = match sizes::axis(scope, sequence, axis) {
        Some(Size::Known(size)) => match range.on(size) {
            (at, 1) => at,
            _ => return None,
        },
        _ => {
            let is_one = range.start >= 0 && range.start.checked_add(1) == Some(range.end);
            is_one.then_some(range.start)?
        }
    };
    // A step of -1 reads another single element.
    (range.step == 1).then_some(Step { sequence, axis, at })
}

/// The step whose time axis a Squeeze removes.
fn squeezed<'a>(
    scope: &Scope<'_>,
    node: &NodeProto,
    framed: &HashMap<&str, Step<'a>>,
) -> Option<Step<'a>> {
    let step = *framed.get(node.input(0)?)?;
    let [axis] = constant::axes(scope, node)?[..] else {
        return None;
    };
    (constant::normal_axis(axis, 3)? == step.axis).then_some(step)
}

/// The parts of a Split into single steps.
fn split<'a>(scope: &'a Scope<'a>, node: &'a NodeProto) -> Option<Vec<(&'a str, Step<'a>)>> {
    let (sequence, axis) = sequence(scope, node.input(0)?, node.int("axis").or(0)?)?;
    let size = sizes::axis(scope, sequence, axis)?.number()?;
    let count = node.output.len();
    let is_single = constant::split_part(scope, node, 0, usize::try_from(size).ok()?)? == (0, 1);
    let lengths = match node.input(1) {
        Some(lengths) => Some(constant::ints(scope, lengths)?),
        None => node.ints("split").value().map(<[i64]>::to_vec),
    };
    let are_single = lengths.is_none_or(|lengths| lengths.iter().all(|&length| length == 1));
    if !is_single || !are_single || count as i64 != size {
        return None;
    }
    let parts = (0..size).zip(&node.output);
    let parts = parts.filter(|(_, output)| !output.is_empty());
    let step = |at| Step { sequence, axis, at };
    let steps = parts.map(|(at, output)| (output.as_str(), step(at)));
    Some(steps.collect())
}
