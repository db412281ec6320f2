//! ONNX's Slices that reverse whole axes.

use revseq_tract_operators::constant_integers;
use revseq_tract_operators::operator::{self, Parsed, Wired, Wiring, over};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::Flip;

/// Parses a Slice: one that reverses whole axes, of any size, becomes a [`Flip`] along each.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let (slice, captured) = operator::parse(ctx, node)?;
    let slice = match flipped(ctx, node)? {
        Some(axes) => over(slice, move |node: &mut Wiring<'_>| wire(node, &axes)),
        None => slice,
    };
    Ok((slice, captured))
}

/// The axes of a Slice if it reverses all of them, by constants of the model. They may count from
/// the end.
fn flipped(ctx: &ParsingContext<'_>, node: &NodeProto) -> TractResult<Option<Vec<i64>>> {
    let ints = |input: usize, default: Option<Vec<i64>>| match node.input.get(input) {
        Some(name) if !name.is_empty() => constant_integers(ctx, name),
        _ => Ok(default),
    };
    // Before opset 10 there were no steps.
    let (Some(starts), Some(ends), Some(steps)) = (ints(1, None)?, ints(2, None)?, ints(4, None)?)
    else {
        return Ok(None);
    };
    let Some(axes) = ints(3, Some((0..starts.len() as i64).collect()))? else {
        return Ok(None);
    };
    // In ONNX, -1 or the largest number is the last element of an axis of unknown size, and the
    // smallest number is before the first.
    let is_last = |start: &i64| *start == -1 || *start >= i64::from(i32::MAX);
    let is_whole = starts.iter().all(is_last)
        && ends.iter().all(|end| *end <= -i64::from(i32::MAX))
        && steps.iter().all(|step| *step == -1);
    let is_each = [ends.len(), axes.len(), steps.len()] == [starts.len(); 3];
    Ok((is_whole && is_each && !axes.is_empty()).then_some(axes))
}

/// Wires a flip along each of some axes, each of which the Slice beneath has found once in the data.
fn wire(node: &mut Wiring<'_>, axes: &[i64]) -> Wired {
    let mut wire = node.inputs[0];
    let rank = i64::try_from(node.model.outlet_fact(wire)?.rank())?;
    for (index, axis) in axes.iter().enumerate() {
        let from_first = axis.checked_rem_euclid(rank).context("it has axes")?;
        let name = match index + 1 == axes.len() {
            true => node.name.to_owned(),
            false => format!("{}.axis-{from_first}", node.name),
        };
        let flip = Flip::new(usize::try_from(from_first)?);
        wire = node.model.wire_node(name, flip, &[wire])?[0];
    }
    Ok(Some(tvec![wire]))
}
