//! Proves elements of integer tensors.

use super::reshape::reshape_axis;
use super::{
    Size, Steps, arithmetic, axis_within, follow, rank_within, reduced, shape_range,
    squeezed_within, transposed_within, unsqueezed_within,
};
use crate::constant;
use crate::model::{INT32, INT64, NodeProto};
use crate::numbers;
use crate::scope::Scope;
use crate::types;

/// The most elements of a tensor that are visited one by one.
const MAXIMUM_ELEMENTS: usize = 64;

/// An element of an integer tensor, at an index along each of its axes.
pub(super) fn element<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let steps = steps.next()?;
    if let Some(value) = numbers::constant(scope, name) {
        let index = index_of(&value.sizes, place)?;
        return value.elements.get(index).copied().map(Size::Known);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let input = node.input(0)?;
    match node.op() {
        "Shape" => {
            let &[place] = place else { return None };
            let start = match usize::try_from(node.int("start").or(0)?) {
                Ok(start) => start,
                Err(_) => usize::try_from(shape_range(scope, node, steps)?.0).ok()?,
            };
            axis_within(scope, input, start.checked_add(place)?, steps)
        }
        "Range" => {
            let number = |input: usize| scalar_within(scope, node.input(input)?, steps)?.number();
            let ahead = number(2)?.checked_mul(i64::try_from(*place.first()?).ok()?)?;
            let code = types::of(scope, input)?;
            numbers::cast(code, number(0)?.checked_add(ahead)?).map(Size::Known)
        }
        "Cast" => cast(node, element(scope, input, place, steps)?),
        _ => match moved(scope, node, place, steps) {
            Some((from, place)) => element(scope, from, &place, steps),
            None => arithmetic::element_of(scope, node, place, steps),
        },
    }
}

/// The input from which a node moves an element, and its place there.
fn moved<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<(&'a str, Vec<usize>)> {
    match node.op() {
        "Identity" => Some((node.input(0)?, place.to_vec())),
        "Concat" => {
            let axis = constant::normal_axis(node.int("axis").value()?, place.len())?;
            let mut place = place.to_vec();
            for part in node.inputs() {
                let size = known_size(scope, part, axis, steps)?;
                if place[axis] < size {
                    return Some((part, place));
                }
                place[axis] -= size;
            }
            None
        }
        "Where" => {
            let condition = node.input(0)?;
            let own = place_in_operand(scope, condition, place, steps)?;
            let truth = element(scope, condition, &own, steps)?.number()?;
            let chosen = node.input(if truth != 0 { 1 } else { 2 })?;
            Some((chosen, place_in_operand(scope, chosen, place, steps)?))
        }
        _ => Some((node.input(0)?, place_in_input(scope, node, place, steps)?)),
    }
}

/// The value from which other nodes only move an element, its graph, and the place there.
#[must_use]
pub fn origin<'a>(
    scope: &'a Scope<'a>,
    name: &'a str,
    place: &[usize],
) -> (&'a Scope<'a>, &'a str, Vec<usize>) {
    follow(|steps| origin_within(scope, name, place, steps))
}

pub(super) fn origin_within<'a>(
    scope: &'a Scope<'a>,
    name: &'a str,
    place: &[usize],
    steps: Steps<'_>,
) -> (&'a Scope<'a>, &'a str, Vec<usize>) {
    let mut found = (scope, name, place.to_vec());
    while let Some(steps) = steps.next()
        && let Some((inner, node, 0)) = found.0.producer(found.1)
        && node.domain().is_empty()
        && let Some((from, place)) = moved(inner, node, &found.2, steps)
    {
        found = (inner, from, place);
    }
    found
}

/// The place in an operand that is broadcast.
pub(super) fn place_in_operand(
    scope: &Scope<'_>,
    name: &str,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Vec<usize>> {
    let rank = rank_within(scope, name, steps)?;
    let skipped = place.len().checked_sub(rank)?;
    let own = place[skipped..].iter().enumerate();
    let own = own.map(|(axis, &place)| match place {
        0 => Some(0),
        // An axis that may be 1 may be broadcast.
        _ => match known_size(scope, name, axis, steps)? {
            1 => Some(0),
            _ => Some(place),
        },
    });
    own.collect()
}

/// The place in its first input of an element that a node moves.
fn place_in_input<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Vec<usize>> {
    let input = node.input(0)?;
    match node.op() {
        "Squeeze" => {
            let removed = squeezed_within(scope, node, steps)?;
            let mut kept = place.iter().copied();
            let rank = place.len() + removed.len();
            let place = (0..rank).map(|axis| match removed.contains(&axis) {
                true => Some(0),
                false => kept.next(),
            });
            place.collect()
        }
        "Unsqueeze" => {
            let (added, rank) = unsqueezed_within(scope, node, steps)?;
            let kept = (0..place.len()).filter(|axis| !added.contains(axis));
            (place.len() == rank).then(|| kept.map(|axis| place[axis]).collect())
        }
        "Transpose" => {
            let rank = rank_within(scope, node.output.first()?, steps)?;
            let mut before = vec![0; place.len()];
            for (axis, &place) in place.iter().enumerate() {
                *before.get_mut(transposed_within(scope, node, axis, steps)?)? = place;
            }
            (rank == place.len()).then_some(before)
        }
        "Reshape" => {
            let sizes =
                (1..place.len()).map(|axis| number(reshape_axis(scope, node, axis, steps)?));
            let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
            let index = index_behind(&sizes, place)?;
            let rank = rank_within(scope, input, steps)?;
            let sizes = (1..rank).map(|axis| known_size(scope, input, axis, steps));
            let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
            place_of(&sizes, index, rank)
        }
        "Expand" => {
            let rank = rank_within(scope, input, steps)?;
            let skipped = place.len().checked_sub(rank)?;
            let place = (0..rank).map(|axis| match known_size(scope, input, axis, steps)? {
                1 => Some(0),
                _ => Some(place[skipped + axis]),
            });
            place.collect()
        }
        "Gather" => gathered_place(scope, node, place, steps),
        // Of one element.
        "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum" => {
            let removed = reduced(scope, node, steps)?;
            let is_one = |&axis: &usize| known_size(scope, input, axis, steps) == Some(1);
            let mut kept = place.iter().copied();
            let keeps = node.int("keepdims").or(1)? != 0;
            let rank = rank_within(scope, input, steps).filter(|_| removed.iter().all(is_one))?;
            let place = (0..rank).map(|axis| match removed.contains(&axis) && !keeps {
                true => Some(0),
                false => kept.next(),
            });
            place.collect()
        }
        "Slice" => {
            let mut place = place.to_vec();
            for range in constant::ranges(scope, node)? {
                let axis = constant::normal_axis(range.axis, place.len())?;
                // A start beyond the axis gives an empty output, of which no element is requested.
                let start = if range.start >= 0 && range.step > 0 {
                    range.start
                } else {
                    range.on(known_size(scope, input, axis, steps)? as i64).0
                };
                let moved = range.step.checked_mul(place[axis] as i64)?;
                place[axis] = usize::try_from(start.checked_add(moved)?).ok()?;
            }
            Some(place)
        }
        _ => None,
    }
}

/// Returns [`place_in_input`] of a Gather: the index stands between the axes before and after it.
fn gathered_place<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
    steps: Steps<'_>,
) -> Option<Vec<usize>> {
    let (input, indices) = (node.input(0)?, node.input(1)?);
    let axis = constant::normal_axis(node.int("axis").or(0)?, rank_within(scope, input, steps)?)?;
    let end = axis + rank_within(scope, indices, steps)?;
    let Size::Known(index) = element(scope, indices, place.get(axis..end)?, steps)? else {
        return None;
    };
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => {
            let size = known_size(scope, input, axis, steps)? as i64;
            usize::try_from(index.checked_add(size)?).ok()?
        }
    };
    Some([&place[..axis], &[index], &place[end..]].concat())
}

pub(super) fn known_size(
    scope: &Scope<'_>,
    name: &str,
    axis: usize,
    steps: Steps<'_>,
) -> Option<usize> {
    number(axis_within(scope, name, axis, steps)?)
}

/// A size as a number, `None` if it is symbolic.
fn number(size: Size<'_>) -> Option<usize> {
    usize::try_from(size.number()?).ok()
}

/// An element after a Cast. Both integer types hold every length, but int32 not every number.
fn cast<'a>(node: &NodeProto, element: Size<'a>) -> Option<Size<'a>> {
    let to = i32::try_from(node.int("to").value()?).ok()?;
    match element {
        Size::Known(number) => numbers::cast(to, number).map(Size::Known),
        Size::Axis { .. } => [INT32, INT64].contains(&to).then_some(element),
    }
}

/// The row-major index of an element.
fn index_of(sizes: &[usize], place: &[usize]) -> Option<usize> {
    let is_within = std::iter::zip(sizes, place).all(|(size, place)| place < size);
    if sizes.len() != place.len() || !is_within {
        return None;
    }
    index_behind(sizes.get(1..).unwrap_or_default(), place)
}

/// Returns [`index_of`] with the sizes after the first axis; the first axis may have any size.
fn index_behind(sizes: &[usize], place: &[usize]) -> Option<usize> {
    let Some((&first, rest)) = place.split_first() else {
        return Some(0);
    };
    std::iter::zip(sizes, rest).try_fold(first, |index, (&size, &place)| {
        index.checked_mul(size)?.checked_add(place)
    })
}

/// The inverse of [`index_behind`].
fn place_of(sizes: &[usize], index: usize, rank: usize) -> Option<Vec<usize>> {
    let mut index = index;
    let mut place = vec![0; rank];
    for axis in (1..rank).rev() {
        let size = sizes[axis - 1];
        place[axis] = index.checked_rem(size)?;
        index /= size;
    }
    match place.first_mut() {
        Some(first) => *first = index,
        None if index > 0 => return None,
        None => {}
    }
    Some(place)
}

/// The element of a value at a place, an index for each axis.
#[must_use]
pub fn element_at<'a>(scope: &'a Scope<'a>, name: &str, place: &[usize]) -> Option<Size<'a>> {
    follow(|steps| element(scope, name, place, steps))
}

/// A value's integer, if it has exactly one: a number, or the length of an axis.
#[must_use]
pub fn scalar<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    follow(|steps| scalar_within(scope, name, steps))
}

pub(super) fn scalar_within<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let rank = rank_within(scope, name, steps)?;
    let is_one =
        (0..rank).all(|axis| axis_within(scope, name, axis, steps) == Some(Size::Known(1)));
    is_one
        .then(|| element(scope, name, &vec![0; rank], steps))
        .flatten()
}

/// The integer that all elements of a tensor equal.
#[must_use]
pub fn every_element<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    follow(|steps| every_element_within(scope, name, steps))
}

pub(super) fn every_element_within<'a>(
    scope: &'a Scope<'a>,
    name: &str,
    steps: Steps<'_>,
) -> Option<Size<'a>> {
    let steps = steps.next()?;
    if let Some(values) = constant::ints(scope, name) {
        let first = *values.first()?;
        let mut all = values.iter();
        return all
            .all(|&value| value == first)
            .then_some(Size::Known(first));
    }
    if let Some(size) = agreed_element(scope, name, steps) {
        return Some(size);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let of_input = || every_element_within(scope, node.input(0)?, steps);
    match node.op() {
        "Expand" | "Gather" | "Identity" | "Reshape" | "Slice" | "Squeeze" | "Tile"
        | "Transpose" | "Unsqueeze" => of_input(),
        "Cast" => cast(node, of_input()?),
        "ConstantOfShape" => arithmetic::element_of(scope, node, &[], steps),
        _ => None,
    }
}

/// The integer that all elements equal, proved one by one.
fn agreed_element<'a>(scope: &'a Scope<'a>, name: &str, steps: Steps<'_>) -> Option<Size<'a>> {
    let rank = rank_within(scope, name, steps)?;
    let sizes = (0..rank).map(|axis| known_size(scope, name, axis, steps));
    let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
    let count = sizes
        .iter()
        .try_fold(1, |count: usize, &size| count.checked_mul(size))?;
    let at = |index| {
        let place = place_of(sizes.get(1..).unwrap_or_default(), index, rank)?;
        element(scope, name, &place, steps)
    };
    let first = at(0).filter(|_| (1..=MAXIMUM_ELEMENTS).contains(&count))?;
    (1..count)
        .all(|index| at(index) == Some(first))
        .then_some(first)
}
