//! Writes what is read from a list as operators on tensors.

use super::segment::{Cut, Element, PartLengths, Segment};
use crate::constant;
use crate::emit::{Emit, NO_SIZES};
use crate::model::INT64;
use crate::scope::Scope;
use crate::sizes;

/// Writes the number of elements, a scalar.
pub(crate) fn write_length(emit: &Emit<'_>, scope: &Scope<'_>, list: &[Segment<'_>]) -> String {
    if let Some(elements) = super::elements(list) {
        return emit.constant(&[], &[elements.len() as i64]);
    }
    let mut ones = 0;
    let mut counts = Vec::new();
    for segment in list {
        match segment {
            Segment::One(_) => ones += 1,
            Segment::Cut(cut) => counts.push(write_count(emit, scope, cut)),
        }
    }
    let sum = counts
        .into_iter()
        .reduce(|sum, count| emit.op("Add", (sum, count)));
    match (sum, ones) {
        (Some(sum), 0) => sum,
        (Some(sum), ones) => emit.op("Add", (sum, ones)),
        (None, ones) => emit.constant(&[], &[ones]),
    }
}

/// The number of parts of a value, a scalar.
fn write_count(emit: &Emit<'_>, scope: &Scope<'_>, cut: &Cut<'_>) -> String {
    if let PartLengths::Listed(lengths) = cut.parts {
        return emit.size(lengths, 0);
    }
    let size = emit.size(&write_checked(emit, scope, cut), cut.axis);
    match cut.parts {
        PartLengths::Of(length @ 2..) => {
            let rounded = emit.op("Add", (size, length - 1));
            emit.op("Div", (rounded, length))
        }
        _ => size,
    }
}

/// The value of a cut. The lengths of the parts have to add up to the axis's, which a Reshape to their
/// sum checks.
fn write_checked(emit: &Emit<'_>, scope: &Scope<'_>, cut: &Cut<'_>) -> String {
    let value = cut.value.to_owned();
    if let PartLengths::Of(_) = cut.parts {
        return value;
    }
    let axis = sizes::rank(scope, cut.value).and_then(|rank| constant::normal_axis(cut.axis, rank));
    let Some(axis) = axis.map(|axis| axis as i64) else {
        emit.refuse(format!("the rank of {value:?} is not known"));
        return value;
    };
    match cut.parts {
        PartLengths::Of(_) => value,
        PartLengths::Ones(ones) => write_with_size(emit, &value, axis, emit.op("Shape", ones)),
        PartLengths::Listed(lengths) => {
            // Negative lengths make the second sum the smaller one.
            let lengths = emit.cast(lengths, INT64);
            let magnitudes = emit.op("Abs", &lengths);
            [magnitudes, lengths].iter().fold(value, |value, lengths| {
                let sum = emit.unsqueeze(&emit.sum(lengths, &[0]), &[0]);
                write_with_size(emit, &value, axis, sum)
            })
        }
    }
}

/// A value whose axis has to have the size in a vector.
fn write_with_size(emit: &Emit<'_>, value: &str, axis: i64, size: String) -> String {
    emit.reshape(value, write_shape(emit, value, [axis, axis + 1], size))
}

/// The shape of a value with another size in place of those of some axes.
fn write_shape(emit: &Emit<'_>, value: &str, [start, end]: [i64; 2], size: String) -> String {
    let behind = emit.sizes(value, end, i64::MAX);
    let before = (start > 0).then(|| emit.sizes(value, 0, start));
    let sizes = Vec::from_iter(before.into_iter().chain([size, behind]));
    emit.concat(sizes, 0)
}

pub(crate) fn write_element(emit: &Emit<'_>, element: &Element<'_>) -> String {
    match *element {
        Element::Value(name) => name.to_owned(),
        Element::Part {
            value,
            axis,
            start,
            end,
            keeps,
        } => {
            let part = emit.range(value, axis, start, end);
            if keeps {
                part
            } else {
                emit.squeeze(&part, &[axis])
            }
        }
    }
}

/// Writes the part at a position, which counts from the end if it is negative. A Gather refuses
/// positions outside of the list, as SequenceAt does.
pub(super) fn write_at(emit: &Emit<'_>, scope: &Scope<'_>, cut: &Cut<'_>, at: &str) -> String {
    let value = &write_checked(emit, scope, cut);
    // Runtimes take a vector of one element, too.
    let at = &match sizes::rank(scope, at) {
        Some(0) => at.to_owned(),
        _ => emit.op("Reshape", (at, NO_SIZES)),
    };
    match cut.parts {
        PartLengths::Listed(lengths) => {
            let lengths = emit.cast(lengths, INT64);
            let ends = emit.op("CumSum", (&lengths, 0));
            let starts = emit.op("Sub", (&ends, lengths));
            let bounds = [starts, ends].map(|all| emit.op("Gather", (all, at)));
            let [start, end] = bounds.map(|bound| emit.unsqueeze(&bound, &[0]));
            emit.op("Slice", (value, start, end, [cut.axis]))
        }
        PartLengths::Of(length @ 2..) => {
            let places = write_places(emit, scope, cut, length, at);
            emit.gather(value, places, cut.axis)
        }
        _ if cut.keeps => emit.unsqueeze(&emit.gather(value, at, cut.axis), &[cut.axis]),
        _ => emit.gather(value, at, cut.axis),
    }
}

/// The places along the axis of the part at a position. A position outside of the list gives a place
/// outside of the axis.
fn write_places(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    cut: &Cut<'_>,
    length: i64,
    at: &str,
) -> String {
    let at = &emit.cast(at, INT64);
    let from_front = emit.op("Add", (at, write_count(emit, scope, cut)));
    let part = &emit.op("Where", (emit.op("Less", (at, 0)), from_front, at));
    let start = &emit.op("Mul", (part, length));
    let next = &emit.op("Add", (start, 1));
    let end = &emit.op("Add", (start, length));
    let size = &emit.size(cut.value, cut.axis);
    let end = &emit.op("Where", (emit.op("Less", (size, end)), size, end));
    // At least the first place, which Gather refuses if it is outside.
    let end = &emit.op("Where", (emit.op("Less", (end, next)), next, end));
    // Places before the first would count from the end.
    let is_before = &emit.op("Less", (part, 0));
    let moved = |it: &String| emit.op("Where", (is_before, emit.op("Sub", (it, size)), it));
    emit.op("Range", (moved(start), moved(end), 1))
}

/// Writes a ConcatFromSequence along an axis, which is a new one or one of the elements.
pub(crate) fn write_join(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    list: &[Segment<'_>],
    (axis, new): (i64, bool),
) -> Result<String, String> {
    let parts = list.iter().map(|segment| match segment {
        Segment::One(element) => {
            let element = write_element(emit, element);
            Ok(match new {
                true => emit.unsqueeze(&element, &[axis]),
                false => element,
            })
        }
        Segment::Cut(cut) => write_parts(emit, scope, cut, axis, new),
    });
    let parts: Vec<String> = parts.collect::<Result<_, _>>()?;
    Ok(emit.concat(parts, axis))
}

/// All parts of a value along an axis of the output, which is a new one or one of each part.
fn write_parts(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    cut: &Cut<'_>,
    axis: i64,
    new: bool,
) -> Result<String, String> {
    let mut value = write_checked(emit, scope, cut);
    if new != cut.keeps && axis == cut.axis && (!new || axis >= 0) {
        return Ok(value);
    }
    let unknown = || format!("the rank of {:?} is not known", cut.value);
    let rank = sizes::rank(scope, cut.value).ok_or_else(unknown)?;
    let from = constant::normal_axis(cut.axis, rank).ok_or_else(unknown)?;
    let of_part = rank - usize::from(!cut.keeps);
    let of_result = of_part + usize::from(new);
    let axis = constant::normal_axis(axis, of_result)
        .ok_or_else(|| format!("its axis is {axis}, but its output has {of_result} axes"))?;
    if !new && cut.keeps && axis == from {
        return Ok(value);
    }
    if !cut.is_unit() {
        return Err(format!(
            "the parts of {:?} may differ in length, and they are joined along another axis",
            cut.value
        ));
    }
    if cut.keeps {
        value = emit.unsqueeze(&value, &[from as i64 + 1]);
    }
    // Moves the axis of the parts to the new one, or in front of the one along which they are joined.
    value = emit.move_axis(&value, of_part + 1, from, axis);
    Ok(match new {
        true => value,
        false => merge(emit, &value, axis as i64),
    })
}

/// Makes one axis of an axis and the next one.
fn merge(emit: &Emit<'_>, value: &str, axis: i64) -> String {
    let [joined, size] = [axis, axis + 1].map(|at| emit.sizes(value, at, at + 1));
    let joined = emit.op("Mul", (joined, size));
    let shape = write_shape(emit, value, [axis, axis + 2], joined);
    emit.reshape(value, shape)
}

/// Whether all elements of a list provably have the same sizes.
pub(super) fn have_one_shape<'a>(scope: &'a Scope<'a>, list: &[Segment<'a>]) -> bool {
    let mut all = list.iter().map(|segment| segment.sizes(scope));
    let Some(Some(first)) = all.next() else {
        return list.is_empty();
    };
    all.all(|sizes| sizes.as_ref() == Some(&first))
}

/// Writes all elements, stacked along a new first axis.
pub(crate) fn write_stack(
    emit: &Emit<'_>,
    scope: &Scope<'_>,
    list: &[Segment<'_>],
) -> Result<String, String> {
    write_join(emit, scope, list, (0, true))
}
