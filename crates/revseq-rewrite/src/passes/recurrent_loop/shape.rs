//! What is proved of the values that layers read and begin with.

use crate::constant;
use crate::passes::reversal::Reversal;
use crate::scope::Scope;
use crate::sizes::{self, Size};

use super::body::{Body, MAXIMUM_STEPS, Sequence, operands};
use super::sum;

/// Proves that a sequence has three axes and as many steps as the loop; tells the size of its
/// batch.
pub(super) fn fits<'a>(
    body: &Body<'a>,
    sequence: Sequence<'a>,
    what: &str,
) -> Result<Size<'a>, String> {
    match shape(body, sequence, what)? {
        (true, batch) => Ok(batch),
        (false, _) => Err(format!(
            "it does not provably run once for each step of its {what} {}",
            sequence.value
        )),
    }
}

/// Proves that a sequence has three axes; tells whether it provably has as many steps as the
/// loop, and the size of its batch.
pub(super) fn shape<'a>(
    body: &Body<'a>,
    sequence: Sequence<'a>,
    what: &str,
) -> Result<(bool, Size<'a>), String> {
    let name = sequence.value;
    let rank = sizes::rank(body.outer, name);
    if rank != Some(3) {
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
    // All that a Scan reads has one length.
    Ok((body.is_scan() || steps == Some(body.steps), batch))
}

/// A sequence before it was flipped along time.
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

/// Whether a value was reversed in a way that is not known, and is not as the user knows it.
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

/// Whether a size is that of a batch, or 1, as far as both are known.
pub(super) fn may_be(size: Size<'_>, batch: Size<'_>) -> bool {
    size == batch
        || size == Size::Known(1)
        || !matches!((size, batch), (Size::Known(_), Size::Known(_)))
}

/// Whether a state begins as `[batch, units]` or `[1, units]` wherever the loop runs with as many
/// sequences as its input has.
pub(super) fn may_begin(scope: &Scope<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let rows = sizes::axis(scope, name, 0);
    sizes::rank(scope, name) == Some(2)
        && rows.is_none_or(|rows| may_be(rows, batch))
        && sizes::axis(scope, name, 1) == Some(Size::Known(units as i64))
}

/// Whether a value is provably `[batch, units]`, or is broadcast to that.
pub(super) fn is_matrix(scope: &Scope<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let is = |axis, expected| {
        let size = sizes::axis(scope, name, axis);
        size == Some(expected) || size == Some(Size::Known(1))
    };
    sizes::rank(scope, name) == Some(2) && is(0, batch) && is(1, Size::Known(units as i64))
}

/// Whether a value of the step is 0 everywhere, and makes nothing larger that it meets.
pub(super) fn is_zero_row(body: &Body<'_>, name: &str, batch: Size<'_>, units: usize) -> bool {
    let scope = body.inner;
    let fits = match sizes::rank(scope, name) {
        Some(0) => true,
        Some(2) => is_matrix(scope, name, batch, units),
        _ => false,
    };
    fits && constant::is_zero(scope, name)
}

/// What a step adds, without an axis that is given to it and taken away again.
pub(super) fn with_axis_and_without<'a>(body: &Body<'a>, name: &'a str) -> &'a str {
    let name = body.plain(name);
    let before = || {
        let squeeze = body.inner.first_output_of(name, "Squeeze")?;
        let is_first = constant::axes(body.inner, squeeze)? == [0];
        is_first.then(|| without_axis(body, squeeze.input(0)?))?
    };
    before().unwrap_or(name)
}

/// The matrix that is given an axis in front.
pub(super) fn without_axis<'a>(body: &Body<'a>, name: &'a str) -> Option<&'a str> {
    if let Some(node) = body.inner.first_output_of(name, "Unsqueeze") {
        let is_first = constant::axes(body.inner, node)? == [0];
        return is_first.then(|| node.input(0).map(|it| body.plain(it)))?;
    }
    let (value, shape) = operands(body.inner, name, "Reshape")?;
    let shape = constant::ints(body.inner, shape)?;
    // A matrix of as many columns has as many rows.
    let width = sum::width(body, value, MAXIMUM_STEPS)?;
    let keeps = matches!(shape[..], [1, rows, columns] if rows != 0 && columns == width as i64);
    keeps.then(|| body.plain(value))
}
