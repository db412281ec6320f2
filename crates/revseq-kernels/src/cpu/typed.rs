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
    let nest = walk::pairs(plan, lengths);
    let row = plan.row_bytes / plan.element_bytes;
    walk::for_each_pair(plan, &nest, lengths, 0..nest.items(), |one, other| {
        let (one, other) = (one / plan.element_bytes, other / plan.element_bytes);
        for index in 0..row {
            data.swap(one + index, other + index);
        }
    });
    Ok(())
}
