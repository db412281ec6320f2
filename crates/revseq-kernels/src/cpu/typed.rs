//! Elements that are more than bytes.

use super::loop_nest::job::Job;
use super::loop_nest::{LoopNest, Rounds};
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
    // The kernels see offsets only: the pointers of this job are never read.
    let job = Job {
        plan,
        nest: &LoopNest::new(plan, lengths.longest(plan) / 2),
        lengths,
        input: std::ptr::null(),
        output: std::ptr::null_mut(),
    };
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(0..job.nest.items(), &mut rounds) {
        for step in steps {
            let row = job.row(at, step);
            if row.time >= row.length / 2 {
                continue;
            }
            let one = row.output + row.time * plan.time.output;
            let other = row.output + row.source() * plan.time.output;
            for byte in (0..plan.row_bytes).step_by(plan.element_bytes) {
                data.swap(
                    (one + byte) / plan.element_bytes,
                    (other + byte) / plan.element_bytes,
                );
            }
        }
    }
    Ok(())
}
