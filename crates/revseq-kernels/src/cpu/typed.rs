//! Elements that are more than bytes.

use super::walk;
use crate::{Error, Plan, SequenceLengths};

/// Reverses subsequences of elements of any type, such as `String`, where they
/// lie, by exchanging them.
///
/// Sizes and strides count elements of `data`, whatever the data type that the
/// plan was made for.
///
/// # Errors
/// [`Error::SliceTooShort`] for fewer elements than the strides reach,
/// [`Error::LengthsOfAnotherPlan`] and [`Error::NotInPlace`] as
/// [`run_in_place`](super::run_in_place).
pub fn reverse_in_place<T>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: &mut [T],
) -> Result<(), Error> {
    lengths.check_plan(plan)?;
    plan.check_in_place()?;
    let required = plan.output_bytes() / plan.element_bytes;
    if data.len() < required {
        return Err(Error::SliceTooShort {
            actual: data.len(),
            required,
        });
    }
    let nest = walk::pairs(plan, lengths.longest(plan));
    let (time, line) = (plan.time, nest.line());
    let mut swap = |one: usize, other: usize| {
        for byte in (0..plan.row_bytes).step_by(plan.element_bytes) {
            data.swap(
                (one + byte) / plan.element_bytes,
                (other + byte) / plan.element_bytes,
            );
        }
    };
    for (at, steps) in nest.lines(0..nest.items()) {
        for step in steps {
            let (column, length, t) = if nest.along_time {
                (at.output, lengths.get(at.lengths), step)
            } else {
                let length = lengths.get(at.lengths + step * line.lengths);
                (at.output + step * line.output, length, at.time)
            };
            if t < length / 2 {
                swap(
                    column + t * time.output,
                    column + (length - 1 - t) * time.output,
                );
            }
        }
    }
    Ok(())
}
