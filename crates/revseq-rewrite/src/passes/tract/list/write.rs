//! Writes what is read from a list as operators on tensors.

use super::segment::{Cut, Element, Parts, Segment};
use crate::constant;
use crate::emit::Emit;
use crate::model;
use crate::scope::Scope;
use crate::sizes;

/// Writes the number of elements, a scalar, into a named value.
pub(in crate::passes::tract) fn write_length(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    list: &[Segment<'_>],
    output: &str,
) {
    if let Some(elements) = super::elements(list) {
        let count = model::int64_tensor(&[], &[elements.len() as i64]);
        let value = vec![model::tensor("value", count)];
        return emit.write(&[output], "Constant", &[], value);
    }
    let mut ones = 0;
    let mut counts = Vec::new();
    for segment in list {
        match segment {
            Segment::One(_) => ones += 1,
            Segment::Cut(cut) => counts.push(write_count(emit, scope, cut)),
        }
    }
    if ones > 0 {
        counts.push(emit.scalar(ones));
    }
    let mut counts = counts.into_iter();
    let first = counts.next().unwrap_or_default();
    let sum = counts.fold(first, |sum, count| emit.plain("Add", &[&sum, &count]));
    emit.write(&[output], "Identity", &[&sum], Vec::new());
}

/// The number of parts of a value, a scalar.
fn write_count(emit: &mut Emit<'_>, scope: &Scope<'_>, cut: &Cut<'_>) -> String {
    if let Parts::Listed(lengths) = cut.parts {
        let shape = emit.plain("Shape", &[lengths]);
        let zero = emit.scalar(0);
        return emit.plain("Gather", &[&shape, &zero]);
    }
    let value = write_checked(emit, scope, cut);
    let axis = emit.scalar(cut.axis);
    let shape = emit.plain("Shape", &[&value]);
    let size = emit.plain("Gather", &[&shape, &axis]);
    let Parts::Of(length @ 2..) = cut.parts else {
        return size;
    };
    let [length, more] = [length, length - 1].map(|it| emit.scalar(it));
    let rounded = emit.plain("Add", &[&size, &more]);
    emit.plain("Div", &[&rounded, &length])
}

/// The value of a cut. The lengths of the parts have to add up to the axis's, which a Reshape to their
/// sum checks.
fn write_checked(emit: &mut Emit<'_>, scope: &Scope<'_>, cut: &Cut<'_>) -> String {
    let value = cut.value.to_owned();
    if let Parts::Of(_) = cut.parts {
        return value;
    }
    let axis = sizes::rank(scope, cut.value).and_then(|rank| constant::normal_axis(cut.axis, rank));
    let Some(axis) = axis.map(|axis| axis as i64) else {
        emit.refuse(format!("the rank of {value:?} is not known"));
        return value;
    };
    match cut.parts {
        Parts::Of(_) => value,
        Parts::Ones(ones) => {
            let count = emit.plain("Shape", &[ones]);
            write_with_size(emit, &value, axis, &count)
        }
        Parts::Listed(lengths) => {
            // Negative lengths make the second sum the smaller one.
            let lengths = write_longs(emit, lengths);
            let magnitudes = emit.plain("Abs", &[&lengths]);
            [magnitudes, lengths].iter().fold(value, |value, lengths| {
                let sum = emit.sum(lengths, &[0]);
                let sum = emit.unsqueeze(&sum, &[0]);
                write_with_size(emit, &value, axis, &sum)
            })
        }
    }
}

/// A value whose axis has to have the size in a vector.
fn write_with_size(emit: &mut Emit<'_>, value: &str, axis: i64, size: &str) -> String {
    let shape = emit.plain("Shape", &[value]);
    let behind = emit.range(&shape, 0, axis + 1, i64::MAX);
    let before = (axis > 0).then(|| emit.range(&shape, 0, 0, axis));
    let sizes: Vec<&str> = before
        .as_deref()
        .into_iter()
        .chain([size, &behind])
        .collect();
    let shape = emit.op("Concat", &sizes, vec![model::int("axis", 0)]);
    // Otherwise a size of 0 is the value's own.
    let allows_zero = vec![model::int("allowzero", 1)];
    match emit.opset() {
        14.. => emit.op("Reshape", &[value, &shape], allows_zero),
        _ => emit.plain("Reshape", &[value, &shape]),
    }
}

fn write_longs(emit: &mut Emit<'_>, value: &str) -> String {
    emit.op(
        "Cast",
        &[value],
        vec![model::int("to", model::INT64.into())],
    )
}

pub(in crate::passes::tract) fn write_element(
    emit: &mut Emit<'_>,
    element: &Element<'_>,
) -> String {
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
pub(super) fn write_at(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    cut: &Cut<'_>,
    at: &str,
    output: &str,
) {
    let value = write_checked(emit, scope, cut);
    // Runtimes take a vector of one element, too.
    let at = match sizes::rank(scope, at) {
        Some(0) => at.to_owned(),
        _ => {
            let no_sizes = emit.ints(&[]);
            emit.plain("Reshape", &[at, &no_sizes])
        }
    };
    let axis = vec![model::int("axis", cut.axis)];
    if let Parts::Listed(lengths) = cut.parts {
        let lengths = write_longs(emit, lengths);
        let first = emit.scalar(0);
        let ends = emit.plain("CumSum", &[&lengths, &first]);
        let starts = emit.plain("Sub", &[&ends, &lengths]);
        let [start, end] = [&starts, &ends].map(|all| {
            let bound = emit.plain("Gather", &[all, &at]);
            emit.unsqueeze(&bound, &[0])
        });
        let axis = emit.ints(&[cut.axis]);
        emit.write(
            &[output],
            "Slice",
            &[&value, &start, &end, &axis],
            Vec::new(),
        );
    } else if let Parts::Of(length @ 2..) = cut.parts {
        let places = write_places(emit, scope, cut, length, &at);
        emit.write(&[output], "Gather", &[&value, &places], axis);
    } else if cut.keeps {
        let part = emit.op("Gather", &[&value, &at], axis);
        emit.unsqueeze_into(output, &part, &[cut.axis]);
    } else {
        emit.write(&[output], "Gather", &[&value, &at], axis);
    }
}

/// The places along the axis of the part at a position. A position outside of the list gives a place
/// outside of the axis.
fn write_places(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    cut: &Cut<'_>,
    length: i64,
    at: &str,
) -> String {
    let at = write_longs(emit, at);
    let [zero, one, length] = [0, 1, length].map(|it| emit.scalar(it));
    let count = write_count(emit, scope, cut);
    let from_front = emit.plain("Add", &[&at, &count]);
    let is_back = emit.plain("Less", &[&at, &zero]);
    let part = emit.plain("Where", &[&is_back, &from_front, &at]);
    let start = emit.plain("Mul", &[&part, &length]);
    let next = emit.plain("Add", &[&start, &one]);
    let end = emit.plain("Add", &[&start, &length]);
    let axis = emit.scalar(cut.axis);
    let shape = emit.plain("Shape", &[cut.value]);
    let size = emit.plain("Gather", &[&shape, &axis]);
    let is_last = emit.plain("Less", &[&size, &end]);
    let end = emit.plain("Where", &[&is_last, &size, &end]);
    // At least the first place, which Gather refuses if it is outside.
    let is_outside = emit.plain("Less", &[&end, &next]);
    let end = emit.plain("Where", &[&is_outside, &next, &end]);
    // Places before the first would count from the end.
    let is_before = emit.plain("Less", &[&part, &zero]);
    let [start, end] = [&start, &end].map(|it| {
        let moved = emit.plain("Sub", &[it, &size]);
        emit.plain("Where", &[&is_before, &moved, it])
    });
    emit.plain("Range", &[&start, &end, &one])
}

/// Writes a ConcatFromSequence along an axis, which is a new one or one of the elements.
pub(in crate::passes::tract) fn write_join(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    list: &[Segment<'_>],
    (axis, new): (i64, bool),
    output: &str,
) -> Result<(), String> {
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
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let joined = vec![model::int("axis", axis)];
    match (list, parts.as_slice()) {
        ([Segment::Cut(_)], [value]) => emit.same(output, value),
        _ => emit.write(&[output], "Concat", &parts, joined),
    }
    Ok(())
}

/// All parts of a value along an axis of the output, which is a new one or one of each part.
fn write_parts(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    cut: &Cut<'_>,
    axis: i64,
    new: bool,
) -> Result<String, String> {
    let mut value = write_checked(emit, scope, cut);
    if !new && cut.keeps && axis == cut.axis {
        return Ok(value);
    }
    if new && !cut.keeps && axis == cut.axis && axis >= 0 {
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
    let all = of_part + 1;
    let mut perm: Vec<i64> = (0..all as i64).collect();
    perm.remove(from);
    perm.insert(axis, from as i64);
    if axis != from {
        value = emit.op("Transpose", &[&value], vec![model::ints("perm", &perm)]);
    }
    Ok(match new {
        true => value,
        false => merge(emit, &value, axis as i64),
    })
}

/// Makes one axis of an axis and the next one.
fn merge(emit: &mut Emit<'_>, value: &str, axis: i64) -> String {
    let shape = emit.plain("Shape", &[value]);
    let [joined, size] = [axis, axis + 1].map(|at| emit.range(&shape, 0, at, at + 1));
    let joined = emit.plain("Mul", &[&joined, &size]);
    let behind = emit.range(&shape, 0, axis + 2, i64::MAX);
    let mut sizes = vec![joined.as_str(), &behind];
    let before = (axis > 0).then(|| emit.range(&shape, 0, 0, axis));
    sizes.splice(0..0, before.as_deref());
    let shape = emit.op("Concat", &sizes, vec![model::int("axis", 0)]);
    emit.plain("Reshape", &[value, &shape])
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
pub(in crate::passes::tract) fn write_stack(
    emit: &mut Emit<'_>,
    scope: &Scope<'_>,
    list: &[Segment<'_>],
) -> Result<String, String> {
    let parts = list.iter().map(|segment| match segment {
        Segment::One(element) => {
            let element = write_element(emit, element);
            Ok(emit.unsqueeze(&element, &[0]))
        }
        Segment::Cut(cut) => write_parts(emit, scope, cut, 0, true),
    });
    let parts: Vec<String> = parts.collect::<Result<_, _>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Ok(match parts.as_slice() {
        [part] => (*part).to_owned(),
        _ => emit.op("Concat", &parts, vec![model::int("axis", 0)]),
    })
}
