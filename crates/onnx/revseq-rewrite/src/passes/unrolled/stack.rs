//! Steps that were taken apart and are put together again.
//!
//! Once a layer computes all steps at once, they are read one by one to be stacked. Those that follow
//! each other are a part of the layer's output.
//!
//! ```text
//! Concat<axis=1>(Unsqueeze<axes=[1]>(y[0]), Unsqueeze<axes=[1]>(y[1]), ...)   becomes   Transpose(y)
//! ```

use std::collections::HashMap;

use crate::constant;
use crate::emit::Emit;
use crate::model::NodeProto;
use crate::pass::Verdict;
use crate::scope::{Names, Scope};
use crate::sizes::{self, Size};

use super::slices::{Slices, Step};

/// Finds all Concats of steps.
pub(super) fn find(
    scope: &Scope<'_>,
    slices: &Slices<'_>,
    names: &Names,
    verdicts: &mut HashMap<usize, Verdict>,
) {
    for (index, node) in scope.nodes.iter().enumerate() {
        if node.is("Concat")
            && let Some(verdict) = concat(scope, slices, index, node, names)
        {
            verdicts.insert(index, verdict);
        }
    }
}

/// An input of the Concat.
enum Joined<'a> {
    Value(&'a str),
    /// Steps that follow each other in time: the first, and their number, negative if each is before
    /// the last; and the first of the inputs.
    Steps(Step<'a>, i64, &'a str),
}

fn concat(
    scope: &Scope<'_>,
    slices: &Slices<'_>,
    index: usize,
    node: &NodeProto,
    names: &Names,
) -> Option<Verdict> {
    let axis = node.int("axis").value()?;
    let mut parts: Vec<Joined<'_>> = Vec::new();
    let mut is_shorter = false;
    for input in node.inputs() {
        let Some(step) = stacked(scope, slices, input, axis) else {
            parts.push(Joined::Value(input));
            continue;
        };
        if let Some(Joined::Steps(first, count, _)) = parts.last_mut()
            && (first.sequence, first.axis) == (step.sequence, step.axis)
        {
            let by = step.at - first.at;
            // The second of them says in which order they come.
            if by == *count || *count == 1 && by == -1 {
                *count = if by > 0 { by + 1 } else { by - 1 };
                is_shorter = true;
                continue;
            }
        }
        parts.push(Joined::Steps(step, 1, input));
    }
    if !is_shorter {
        return None;
    }
    let [output] = node.output.as_slice() else {
        return None;
    };
    let emit = Emit::new(&node.label(index), scope.opset, names);
    let mut values = Vec::new();
    for part in &parts {
        values.push(match *part {
            Joined::Value(value) | Joined::Steps(_, 1, value) => value.to_owned(),
            Joined::Steps(step, count, _) => steps(&emit, scope, step, count, axis)?,
        });
    }
    emit.give(output, emit.concat(values, axis));
    Some(emit.finish("steps that were taken apart, as the tensor of them"))
}

/// The step that a value is, with an axis of size 1 in the place of the Concat's.
fn stacked<'a>(
    scope: &'a Scope<'a>,
    slices: &Slices<'a>,
    value: &str,
    axis: i64,
) -> Option<Step<'a>> {
    let node = scope.first_output_of(value, "Unsqueeze")?;
    let step = *slices.steps.get(node.input(0)?)?;
    let added = constant::axes(scope, node)?;
    let axis = constant::normal_axis(axis, 3)?;
    let is_same = matches!(added[..], [added] if constant::normal_axis(added, 3) == Some(axis));
    let size = sizes::axis(scope, step.sequence, step.axis)?;
    (is_same && axis < 2 && matches!(size, Size::Known(_))).then_some(step)
}

/// Writes steps that follow each other as one tensor, with time along an axis.
fn steps(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    first: Step<'_>,
    count: i64,
    axis: i64,
) -> Option<String> {
    let time = first.axis as i64;
    let start = if count > 0 {
        first.at
    } else {
        first.at + count + 1
    };
    let is_all = start == 0
        && sizes::axis(scope, first.sequence, first.axis) == Some(Size::Known(count.abs()));
    let mut value = match is_all {
        true => first.sequence.to_owned(),
        false => emit.range(first.sequence, time, start, start + count.abs()),
    };
    if count < 0 {
        value = emit.flip(&value, time);
    }
    if constant::normal_axis(axis, 3)? != first.axis {
        value = emit.transpose(&value, &[1, 0, 2]);
    }
    Some(value)
}
