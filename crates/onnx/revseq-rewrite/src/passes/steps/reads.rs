//! Reads of one step by a Slice whose axis a Squeeze removes, as Gathers.
//!
//! ```text
//! row = Slice(x, [step, 0], [step + 1, 1000000000], axes [0, 1])      row = Gather(x, step)
//! now = Squeeze(row, axes 0)                                     =>   now = Identity(row)
//! ```
//!
//! Such a Slice begins at its start, and the Squeeze fails unless it takes exactly one position:
//! where it ends does not matter.

use super::body::Body;
use crate::constant::{self, Range};
use crate::model::{GraphProto, NodeProto, int};
use crate::scope::Scope;
use crate::sizes;

/// A Slice by the step's number, and the Squeeze behind it.
struct StepRead {
    slice: usize,
    squeeze: usize,
    axis: i64,
    /// The number, of one element, and how many axes it has.
    step: String,
    rank: usize,
}

/// The body with Gathers in place of such Slices.
pub(super) fn with_gathers(outer: &Scope<'_>, node: &NodeProto, body: GraphProto) -> GraphProto {
    let mut graph = body;
    // A Slice may read at a number that another one reads.
    while let Some(read) = first(outer, node, &graph) {
        let [data, _, ..] = &mut *graph.node[read.slice].input else {
            break;
        };
        let inputs = vec![std::mem::take(data), read.step];
        let slice = &mut graph.node[read.slice];
        slice.input = inputs;
        slice.op_type = Some("Gather".to_owned());
        slice.attribute = vec![int("axis", read.axis)];
        // A number without axes removes the axis itself.
        if read.rank == 0 {
            let squeeze = &mut graph.node[read.squeeze];
            squeeze.input.truncate(1);
            squeeze.op_type = Some("Identity".to_owned());
            squeeze.attribute.clear();
        }
    }
    graph
}

fn first(outer: &Scope<'_>, node: &NodeProto, graph: &GraphProto) -> Option<StepRead> {
    // Most bodies have none, and are not read twice.
    if !graph.node.iter().any(|node| node.is("Slice")) {
        return None;
    }
    let inner = Scope::form_of_body(graph, outer, node);
    let body = Body::of(outer, node, &inner).ok()?;
    (0..graph.node.len()).find_map(|squeeze| read(&body, squeeze))
}

fn read(body: &Body<'_>, squeeze: usize) -> Option<StepRead> {
    let inner = body.inner;
    let node = inner.nodes.get(squeeze).filter(|node| node.is("Squeeze"))?;
    let row = node.input(0).filter(|&row| inner.uses(row) == 1)?;
    let is_slice = |node: &NodeProto| node.is("Slice") && node.output[..] == [row];
    let slice = inner.nodes.iter().position(is_slice)?;
    let parts = &inner.nodes[slice];
    let data = parts.input(0).filter(|data| !inner.defines(data))?;
    let data_rank = sizes::rank(inner, data)?;
    let removed = constant::normal_axes(&constant::axes(inner, node)?, data_rank)?;
    let starts = parts.input(1)?;
    let axes = match parts.input(3) {
        Some(axes) => constant::ints(inner, axes)?,
        None => (0..sizes::axis(inner, starts, 0)?
            .number()?
            .min(data_rank as i64))
            .collect(),
    };
    let number = |input: &str, place| sizes::element_at(inner, input, &[place])?.number();
    let mut step_read = None;
    for (place, axis) in constant::normal_axes(&axes, data_rank)?
        .into_iter()
        .enumerate()
    {
        let step = parts
            .input(4)
            .map_or(Some(1), |steps| number(steps, place))?;
        if step_read.is_none() && removed.contains(&axis) {
            let (scope, step_number, _) = sizes::origin(inner, starts, &[place]);
            let count = body.counter(step_number).filter(|_| scope.is(inner))?;
            let removes_one = count.rank == 1 || removed.len() == 1 && count.rank == 0;
            let is_forwards = step > 0 && count.ahead >= 0;
            step_read = (removes_one && is_forwards).then(|| StepRead {
                slice,
                squeeze,
                axis: axis as i64,
                step: step_number.to_owned(),
                rank: count.rank,
            });
            step_read.as_ref()?;
            continue;
        }
        let range = Range {
            axis: axis as i64,
            start: number(starts, place)?,
            end: number(parts.input(2)?, place)?,
            step,
        };
        // No axis is longer.
        let size = sizes::axis(inner, data, axis)?.number();
        let size = size.unwrap_or(i32::MAX.into());
        if step != 1 || range.on(size) != (0, size) {
            return None;
        }
    }
    step_read
}
