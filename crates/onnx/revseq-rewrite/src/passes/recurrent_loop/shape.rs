//! Proves shapes of sequences and initial states.

use crate::constant;
use crate::passes::cells::width;
use crate::passes::reversal::Reversal;
use crate::scope::Scope;
use crate::sizes::{self, Size};

use super::body::{Body, MAXIMUM_STEPS, Sequence, operands};

/// Proves that a sequence has rank 3 and as many steps as the loop. Returns the size of its batch.
pub(super) fn fits<'a>(
    body: &Body<'a>,
    sequence: Sequence<'a>,
    what: &str,
) -> Result<Size<'a>, String> {
    match shape(body, sequence, &[3], what)? {
        (true, batch) => Ok(batch),
        (false, _) => Err(format!(
            "it does not provably run once for each step of its {what} {}",
            sequence.value
        )),
    }
}

/// Proves that a sequence has one of some ranks. Returns whether it provably has as many steps as
/// the loop, and the size of its batch.
pub(super) fn shape<'a>(
    body: &Body<'a>,
    sequence: Sequence<'a>,
    ranks: &[usize],
    what: &str,
) -> Result<(bool, Size<'a>), String> {
    let name = sequence.value;
    let rank = sizes::rank(body.outer, name);
    if rank.is_none_or(|rank| !ranks.contains(&rank)) {
        return Err(format!(
            "its {what} {name} is not provably of 3 axes{}",
            rank.map_or_else(String::new, |rank| format!(", but of {rank}"))
        ));
    }
    if sequence.axis > 1 {
        return Err(format!("its {what} {name} is read along its last axis"));
    }
    let steps = sizes::axis(body.outer, name, sequence.axis);
    let batch = sizes::axis(body.outer, name, 1 - sequence.axis)
        .ok_or_else(|| format!("the batch of its {what} {name} is not provable"))?;
    // All sequences of a Scan have one length.
    Ok((body.is_scan() || steps == Some(body.steps), batch))
}

/// The sequence before a flip along time.
pub(super) fn unflipped<'a>(body: &Body<'a>, sequence: Sequence<'a>) -> Sequence<'a> {
    let before = || {
        let (scope, node, _) = body.outer.producer(sequence.value)?;
        let flip = Reversal::Flip {
            axis: sequence.axis,
        };
        (Reversal::of(scope, node)? == flip)
            .then(|| node.input(0))
            .flatten()
    };
    match before() {
        Some(value) => Sequence {
            value,
            backwards: !sequence.backwards,
            ..sequence
        },
        None => sequence,
    }
}

/// Whether a mask has been reversed, so that the caller's assumption may not hold for it.
pub(super) fn is_reversed(body: &Body<'_>, name: &str) -> bool {
    let mut name = name;
    for _ in 0..MAXIMUM_STEPS {
        let Some((scope, node, 0)) = body.outer.producer(name) else {
            return false;
        };
        if Reversal::of(scope, node).is_some() {
            return true;
        }
        let any = Reversal::Flip { axis: 0 };
        match node.input(0) {
            Some(input) if node.is("Transpose") || any.before(scope, node).is_some() => {
                name = input;
            }
            _ => return false,
        }
    }
    false
}

/// Whether a size is the batch's, or 1, or possibly so.
pub(super) fn may_be(size: Size<'_>, batch: Size<'_>) -> bool {
    size == batch
        || size == Size::Known(1)
        || !matches!((size, batch), (Size::Known(_), Size::Known(_)))
}

/// Whether an initial state is `[batch, units]` or `[1, units]`, given that the loop runs.
pub(crate) fn may_begin(scope: &Scope<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let rows = sizes::axis(scope, name, 0);
    sizes::rank(scope, name) == Some(2)
        && rows.is_none_or(|rows| may_be(rows, batch))
        && sizes::axis(scope, name, 1) == Some(Size::Known(units as i64))
}

/// Whether a value provably has shape `[batch, units]`, or broadcasts to it.
pub(super) fn is_matrix(scope: &Scope<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let is = |axis, expected| {
        let size = sizes::axis(scope, name, axis);
        size == Some(expected) || size == Some(Size::Known(1))
    };
    sizes::rank(scope, name) == Some(2) && is(0, batch) && is(1, Size::Known(units as i64))
}

/// Whether a value in the body is all 0 and broadcasts without enlarging other operands.
pub(super) fn is_zero_row(body: &Body<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let scope = body.inner;
    let fits = match sizes::rank(scope, name) {
        Some(0) => true,
        Some(2) => is_matrix(scope, name, batch, units),
        _ => false,
    };
    fits && constant::is_zero(scope, name)
}

/// A value without an axis that is inserted and removed again, or both in one Reshape.
pub(super) fn with_axis_and_without<'a>(body: &Body<'a>, name: &'a str) -> &'a str {
    let name = body.plain(name);
    if let Some(value) = without_reshape(body, name, 0) {
        return value;
    }
    let before = || {
        let squeeze = body.inner.first_output_of(name, "Squeeze")?;
        let is_first = constant::axes(body.inner, squeeze)? == [0];
        is_first.then(|| without_axis(body, squeeze.input(0)?))?
    };
    before().unwrap_or(name)
}

/// A matrix before a leading axis is inserted.
pub(super) fn without_axis<'a>(body: &Body<'a>, name: &'a str) -> Option<&'a str> {
    if let Some(node) = body.inner.first_output_of(name, "Unsqueeze") {
        let is_first = constant::axes(body.inner, node)? == [0];
        return is_first.then(|| node.input(0).map(|it| body.plain(it)))?;
    }
    without_reshape(body, name, 1)
}

/// A matrix before it is reshaped to the same sizes, behind as many axes of one element.
fn without_reshape<'a>(body: &Body<'a>, name: &'a str, ones: usize) -> Option<&'a str> {
    let (value, shape) = operands(body.inner, name, "Reshape")?;
    let shape = constant::ints(body.inner, shape)?;
    let (leading, sizes) = shape.split_at_checked(ones)?;
    // With the same number of columns, the number of rows is the same.
    let width = width(body, value)?;
    let keeps = leading.iter().all(|&size| size == 1)
        && matches!(sizes[..], [rows, columns] if rows != 0 && columns == width as i64);
    keeps.then(|| body.plain(value))
}
