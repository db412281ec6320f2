//! Slices of elements rather than of bytes.

use super::walk::{Job, MAX_COLUMNS, Walk};
use super::{KernelChoice, Options, run, run_in_place};
use crate::{Element, Error, Plan, SequenceLengths};

/// Runs like [`run`](super::run), with slices of elements.
///
/// # Errors
/// As [`run`](super::run), and [`Error::ElementSizeMismatch`] for a type of another
/// size than the plan's.
///
/// # Panics
/// As [`run`](super::run).
pub fn run_elements<'a, T: Element>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: &[T],
    output: &mut [T],
    options: impl Into<Options<'a>>,
) -> Result<(), Error> {
    check_element_size::<T>(plan)?;
    let output_bytes = size_of_val(output);
    // SAFETY: an `Element` has no padding, so each byte of `input` is initialised; only
    // whole elements of it are written to `output`. Both slices keep their bounds.
    let (input, output) = unsafe {
        (
            std::slice::from_raw_parts(input.as_ptr().cast(), size_of_val(input)),
            std::slice::from_raw_parts_mut(output.as_mut_ptr().cast(), output_bytes),
        )
    };
    run(plan, lengths, input, output, options)
}

/// [`run_in_place`](super::run_in_place) with a slice of elements.
///
/// # Errors
/// As [`run_in_place`](super::run_in_place), and [`Error::ElementSizeMismatch`] for a
/// type of another size than the plan's.
///
/// # Panics
/// As [`run_in_place`](super::run_in_place).
pub fn run_elements_in_place<'a, T: Element>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: &mut [T],
    options: impl Into<Options<'a>>,
) -> Result<(), Error> {
    check_element_size::<T>(plan)?;
    let bytes = size_of_val(data);
    // SAFETY: an `Element` has no padding, so each byte is initialised; whole elements
    // change places. The slice keeps its bounds.
    let data = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), bytes) };
    run_in_place(plan, lengths, data, options)
}

fn check_element_size<T>(plan: &Plan) -> Result<(), Error> {
    if size_of::<T>() != plan.element_bytes {
        return Err(Error::ElementSizeMismatch {
            expected: plan.element_bytes,
            actual: size_of::<T>(),
        });
    }
    Ok(())
}

/// Reverses subsequences of elements of any type, such as `String`, where they
/// lie, by swapping them.
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
    let (time, element) = (plan.time.output, plan.element_bytes);
    let job = Job {
        plan,
        walk: &Walk::rows(plan, lengths.longest(plan) / 2),
        lengths,
        // Only the distances from them count.
        input: std::ptr::null(),
        output: std::ptr::null_mut(),
        choice: KernelChoice::of_plan(plan),
    };
    job.for_each_band(0..job.walk.items(), MAX_COLUMNS, |band| {
        for (column, &length) in band.lengths.iter().enumerate() {
            let column = band.output.addr() + column * band.output_step;
            for t in band.times.start..band.times.end.min(length / 2) {
                let (one, other) = (column + t * time, column + (length - 1 - t) * time);
                for byte in (0..plan.row_bytes).step_by(element) {
                    data.swap((one + byte) / element, (other + byte) / element);
                }
            }
        }
    });
    Ok(())
}
