//! Proves elements of integer tensors.

use std::ops::Range;

use super::reshape::reshape_axis;
use super::{Size, arithmetic, reduced, shape_range};
use crate::constant;
use crate::model::{INT32, INT64, NodeProto};
use crate::numbers::{self, Operation};
use crate::scope::Scope;
use crate::{sizes, types};

/// Number of nodes that move an element and are followed.
const MAXIMUM_MOVES: usize = 128;

/// The most elements of a tensor that are visited one by one.
const MAXIMUM_ELEMENTS: usize = 64;

/// The element of a value at a place, an index for each axis.
#[must_use]
pub fn element_at<'a>(scope: &'a Scope<'a>, name: &str, place: &[usize]) -> Option<Size<'a>> {
    scope.visit(|| element(scope, name, place))
}

fn element<'a>(scope: &'a Scope<'a>, name: &str, place: &[usize]) -> Option<Size<'a>> {
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
                Err(_) => usize::try_from(shape_range(scope, node)?.0).ok()?,
            };
            sizes::axis(scope, input, start.checked_add(place)?)
        }
        "Range" => {
            let number = |input: usize| sizes::scalar(scope, node.input(input)?)?.number();
            let ahead = number(2)?.checked_mul(i64::try_from(*place.first()?).ok()?)?;
            let code = types::of(scope, input)?;
            numbers::cast(code, number(0)?.checked_add(ahead)?).map(Size::Known)
        }
        "Size" => {
            let count = known_count(scope, input, 0..sizes::rank(scope, input)?)?;
            i64::try_from(count).ok().map(Size::Known)
        }
        "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceSum" => {
            reduced_element(scope, node, place)
        }
        "Cast" => cast(node, sizes::element_at(scope, input, place)?),
        _ => match moved(scope, node, place) {
            Some((from, place)) => sizes::element_at(scope, from, &place),
            None => arithmetic::element_of(scope, node, |input| {
                operand(scope, node.input(input)?, place)
            }),
        },
    }
}

/// The input from which a node moves an element, and its place there.
fn moved<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
) -> Option<(&'a str, Vec<usize>)> {
    match node.op() {
        "Identity" => Some((node.input(0)?, place.to_vec())),
        "Concat" => {
            let axis = constant::normal_axis(node.int("axis").value()?, place.len())?;
            let mut place = place.to_vec();
            for part in node.inputs() {
                let size = known_size(scope, part, axis)?;
                if place[axis] < size {
                    return Some((part, place));
                }
                place[axis] -= size;
            }
            None
        }
        "Where" => {
            let condition = node.input(0)?;
            let truth = operand(scope, condition, place)?.number()?;
            let chosen = node.input(if truth != 0 { 1 } else { 2 })?;
            Some((chosen, place_in_operand(scope, chosen, place)?))
        }
        _ => Some((node.input(0)?, place_in_input(scope, node, place)?)),
    }
}

/// The value from which other nodes only move an element, its graph, and the place there.
#[must_use]
pub fn origin<'a>(
    scope: &'a Scope<'a>,
    name: &'a str,
    place: &[usize],
) -> (&'a Scope<'a>, &'a str, Vec<usize>) {
    let next = |&(scope, name, ref place): &(&'a Scope<'a>, &'a str, Vec<usize>)| {
        let (inner, node, output) = scope.producer(name)?;
        if output != 0 || !node.domain().is_empty() {
            return None;
        }
        let (from, place) = moved(inner, node, place)?;
        Some((inner, from, place))
    };
    let found = std::iter::successors(Some((scope, name, place.to_vec())), next);
    let last = found.take(MAXIMUM_MOVES).last();
    last.unwrap_or_else(|| (scope, name, place.to_vec()))
}

/// An element of an operand that is broadcast.
fn operand<'a>(scope: &'a Scope<'a>, name: &str, place: &[usize]) -> Option<Size<'a>> {
    let own = place_in_operand(scope, name, place)?;
    sizes::element_at(scope, name, &own)
}

/// The place in an operand that is broadcast.
pub(super) fn place_in_operand(
    scope: &Scope<'_>,
    name: &str,
    place: &[usize],
) -> Option<Vec<usize>> {
    let rank = sizes::rank(scope, name)?;
    let skipped = place.len().checked_sub(rank)?;
    let own = place[skipped..].iter().enumerate();
    let own = own.map(|(axis, &place)| match place {
        0 => Some(0),
        // An axis that may be 1 may be broadcast.
        _ => match known_size(scope, name, axis)? {
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
) -> Option<Vec<usize>> {
    let input = node.input(0)?;
    match node.op() {
        "Squeeze" | "Transpose" | "Unsqueeze" => {
            // Axes that are added or removed have one place.
            let rank = sizes::rank(scope, input)?;
            let own = (0..place.len()).map(|axis| sizes::axis_of_input(scope, node, axis));
            let own: Vec<Option<usize>> = own.collect();
            let mut before = vec![0; rank];
            for (own, &place) in std::iter::zip(&own, place) {
                if let Some(own) = *own {
                    *before.get_mut(own)? = place;
                }
            }
            let is_whole = own.iter().flatten().count() == rank.min(place.len());
            let is_place = sizes::rank(scope, node.output.first()?)? == place.len();
            (is_whole && is_place).then_some(before)
        }
        "Reshape" => {
            let sizes = (1..place.len()).map(|axis| number(reshape_axis(scope, node, axis)?));
            let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
            reshaped_place(scope, input, index_behind(&sizes, place)?)
        }
        "Flatten" => {
            let rank = sizes::rank(scope, input)?;
            let axis = match node.int("axis").or(1)? {
                axis if axis == rank as i64 => rank,
                axis => constant::normal_axis(axis, rank)?,
            };
            let columns = known_count(scope, input, axis..rank)?;
            reshaped_place(scope, input, index_behind(&[columns], place)?)
        }
        "Expand" => {
            let rank = sizes::rank(scope, input)?;
            let skipped = place.len().checked_sub(rank)?;
            let place = (0..rank).map(|axis| match known_size(scope, input, axis)? {
                1 => Some(0),
                _ => Some(place[skipped + axis]),
            });
            place.collect()
        }
        "Gather" => gathered_place(scope, node, place),
        "Slice" => {
            let mut place = place.to_vec();
            for range in constant::ranges(scope, node)? {
                let axis = constant::normal_axis(range.axis, place.len())?;
                // A start beyond the axis gives an empty output, of which no element is requested.
                let start = if range.start >= 0 && range.step > 0 {
                    range.start
                } else {
                    range.on(known_size(scope, input, axis)? as i64).0
                };
                let moved = range.step.checked_mul(place[axis] as i64)?;
                place[axis] = usize::try_from(start.checked_add(moved)?).ok()?;
            }
            Some(place)
        }
        _ => None,
    }
}

/// The place of the element with a row-major index.
fn reshaped_place(scope: &Scope<'_>, name: &str, index: usize) -> Option<Vec<usize>> {
    let rank = sizes::rank(scope, name)?;
    let sizes = (1..rank).map(|axis| known_size(scope, name, axis));
    place_of(&sizes.collect::<Option<Vec<_>>>()?, index, rank)
}

/// The number of elements along some axes.
fn known_count(scope: &Scope<'_>, name: &str, mut axes: Range<usize>) -> Option<usize> {
    axes.try_fold(1_usize, |all, axis| {
        all.checked_mul(known_size(scope, name, axis)?)
    })
}

/// An element of a reduction: the only one that is reduced, or a number.
fn reduced_element<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
) -> Option<Size<'a>> {
    let input = node.input(0)?;
    let removed = reduced(scope, node)?;
    let keeps = node.int("keepdims").or(1)? != 0;
    let mut kept = place.iter().copied();
    let place = (0..sizes::rank(scope, input)?).map(|axis| match removed.contains(&axis) {
        true if !keeps => Some(0),
        _ => kept.next(),
    });
    let mut place: Vec<usize> = place.collect::<Option<_>>()?;
    let lengths = removed.iter().map(|&axis| known_size(scope, input, axis));
    let lengths: Vec<usize> = lengths.collect::<Option<_>>()?;
    let count = lengths
        .iter()
        .try_fold(1_usize, |all, &size| all.checked_mul(size))?;
    let mut at = |index| {
        let own = place_of(lengths.get(1..).unwrap_or_default(), index, removed.len())?;
        for (&axis, own) in std::iter::zip(&removed, own) {
            place[axis] = own;
        }
        sizes::element_at(scope, input, &place)
    };
    // The runtime chooses the order of a sum of floats.
    let (operation, of_nothing) = match node.op() {
        "ReduceMax" => (Operation::Numbers(|one, other| Some(one.max(other))), None),
        "ReduceMin" => (Operation::Numbers(|one, other| Some(one.min(other))), None),
        "ReduceProd" => (Operation::Integers(i64::checked_mul), Some(1)),
        _ => (Operation::Integers(i64::checked_add), Some(0)),
    };
    match count {
        0 => of_nothing.map(Size::Known),
        1 => at(0),
        _ if count > MAXIMUM_ELEMENTS => None,
        _ => {
            let code = types::of(scope, input)?;
            let first = at(0)?.number()?;
            let number = (1..count).try_fold(first, |all, index| {
                operation.on(code, all, at(index)?.number()?)
            });
            number.map(Size::Known)
        }
    }
}

/// Returns [`place_in_input`] of a Gather: the index stands between the axes before and after it.
fn gathered_place<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    place: &[usize],
) -> Option<Vec<usize>> {
    let (input, indices) = (node.input(0)?, node.input(1)?);
    let axis = constant::normal_axis(node.int("axis").or(0)?, sizes::rank(scope, input)?)?;
    let end = axis + sizes::rank(scope, indices)?;
    let index = sizes::element_at(scope, indices, place.get(axis..end)?)?.number()?;
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => {
            let size = known_size(scope, input, axis)? as i64;
            usize::try_from(index.checked_add(size)?).ok()?
        }
    };
    Some([&place[..axis], &[index], &place[end..]].concat())
}

pub(super) fn known_size(scope: &Scope<'_>, name: &str, axis: usize) -> Option<usize> {
    number(sizes::axis(scope, name, axis)?)
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

/// A value's integer, if it has exactly one: a number, or the length of an axis.
#[must_use]
pub fn scalar<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    scope.visit(|| {
        let rank = sizes::rank(scope, name)?;
        let is_one = |axis| sizes::axis(scope, name, axis) == Some(Size::Known(1));
        (0..rank)
            .all(is_one)
            .then(|| sizes::element_at(scope, name, &vec![0; rank]))
            .flatten()
    })
}

/// The integer that all elements of a tensor equal.
#[must_use]
pub fn every_element<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    scope.visit(|| same_element(scope, name))
}

fn same_element<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    if let Some(values) = constant::ints(scope, name) {
        let first = *values.first()?;
        let mut all = values.iter();
        return all
            .all(|&value| value == first)
            .then_some(Size::Known(first));
    }
    if let Some(size) = agreed_element(scope, name) {
        return Some(size);
    }
    let (scope, node, output) = scope.producer(name)?;
    if !node.domain().is_empty() || output != 0 {
        return None;
    }
    let of_input = || sizes::every_element(scope, node.input(0)?);
    match node.op() {
        "Expand" | "Gather" | "Identity" | "Reshape" | "Slice" | "Squeeze" | "Tile"
        | "Transpose" | "Unsqueeze" => of_input(),
        "Cast" => cast(node, of_input()?),
        "ConstantOfShape" => arithmetic::element_of(scope, node, |_| None),
        _ => None,
    }
}

/// The integer that all elements equal, proved one by one.
fn agreed_element<'a>(scope: &'a Scope<'a>, name: &str) -> Option<Size<'a>> {
    let rank = sizes::rank(scope, name)?;
    let sizes = (0..rank).map(|axis| known_size(scope, name, axis));
    let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
    let count = known_count(scope, name, 0..rank)?;
    let at = |index| {
        let place = place_of(sizes.get(1..).unwrap_or_default(), index, rank)?;
        sizes::element_at(scope, name, &place)
    };
    let first = at(0).filter(|_| (1..=MAXIMUM_ELEMENTS).contains(&count))?;
    (1..count)
        .all(|index| at(index) == Some(first))
        .then_some(first)
}
