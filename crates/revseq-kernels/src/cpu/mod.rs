//! The operator on the CPU: out of place and in place, serial and on any thread pool.

pub(crate) mod choice;
mod kernels;
mod loop_nest;
mod memory;
mod simd;
#[cfg(test)]
mod tests;
mod threads;
mod typed;
mod with_const;

use std::mem::MaybeUninit;

pub use choice::KernelChoice;
pub use simd::level::SimdLevel;
pub use threads::{ParallelFor, Threads};
pub use typed::{reverse_in_place, run_elements, run_elements_in_place};

use crate::{Error, Plan, SequenceLengths, Tensor};

/// Reverses subsequences of `input` into `output`, both in bytes.
///
/// Bytes of the output between its strides keep their values. Nothing is
/// written unless all checks pass. Nothing is allocated, but for at most 1 MiB
/// of scratch memory that a thread keeps once columns of lengths of their own
/// have needed it, and what a thread pool allocates for its own jobs.
///
/// # Errors
/// [`Error::BufferTooShort`] for a buffer shorter than the plan's
/// [`input_bytes`](Plan::input_bytes) or [`output_bytes`](Plan::output_bytes),
/// [`Error::LengthsOfAnotherPlan`] for lengths that were not checked for this plan.
///
/// # Panics
/// If the loop of [`Threads::Host`] does. A part of the output is then written.
pub fn run(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [u8],
    threads: Threads<'_>,
) -> Result<(), Error> {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and only initialised
    // bytes, those of the input, are ever written through the slice.
    let output = unsafe { &mut *(std::ptr::from_mut(output) as *mut [MaybeUninit<u8>]) };
    run_uninit(plan, lengths, input, output, threads)
}

/// [`run`] into memory that need not be initialised.
///
/// Afterwards every element that the output's strides reach is initialised;
/// the bytes between them are as before.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_uninit(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [MaybeUninit<u8>],
    threads: Threads<'_>,
) -> Result<(), Error> {
    lengths.check_plan(plan)?;
    check_buffer(Tensor::Input, input.len(), plan.input_bytes())?;
    check_buffer(Tensor::Output, output.len(), plan.output_bytes())?;
    // SAFETY: both buffers hold what the plan's loops reach, checked here; they
    // do not overlap, since one is borrowed mutably.
    unsafe {
        choice::dispatch::out_of_place(
            plan,
            lengths,
            input.as_ptr(),
            output.as_mut_ptr().cast(),
            threads,
        );
    }
    Ok(())
}

/// Reverses subsequences of `data`, in bytes, where they lie.
///
/// Touches the reversed prefixes only, where lengths are 0 or 1 nothing; but what
/// lies behind a short one may be written as it was.
///
/// # Errors
/// As [`run`], and [`Error::NotInPlace`] if input and output have different layouts.
///
/// # Panics
/// As [`run`]; some subsequences are then reversed in part.
pub fn run_in_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: &mut [u8],
    threads: Threads<'_>,
) -> Result<(), Error> {
    lengths.check_plan(plan)?;
    plan.check_in_place()?;
    check_buffer(Tensor::Output, data.len(), plan.output_bytes())?;
    // SAFETY: the buffer holds what the plan's loops reach, checked here.
    unsafe { choice::dispatch::in_place(plan, lengths, data.as_mut_ptr(), threads) };
    Ok(())
}

fn check_buffer(tensor: Tensor, actual: usize, required: usize) -> Result<(), Error> {
    if actual < required {
        return Err(Error::BufferTooShort {
            tensor,
            actual,
            required,
        });
    }
    Ok(())
}
