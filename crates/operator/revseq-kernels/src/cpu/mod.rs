//! The operator on the CPU: out of place and in place, serial and on any thread pool.
//!
//! A run is chosen (`choose`), walked (`walk`) and written (`write`), in this order. `choose` returns one
//! `KernelChoice`: kernel, tier (near, far, streamed), instructions. `walk` numbers rows or tiles as items,
//! of which threads take ranges, and cuts these into *bands*: columns with a length each, and time steps.
//! One loop writes, from a *source* that returns the vector for each place, through the caches or past
//! them; in place, pairs are swapped through registers (`swap`).
//!
//! | kernel | moves | example |
//! |---|---|---|
//! | `rows` | rows as they are | `[time, batch, 256]` float |
//! | `lines` | neighbouring rows along time: elements by vectors, pixels by shuffles | `[batch, 256]` float, RGB |
//! | `columns` | narrow rows with their own lengths: tiles are transposed, reversed as lines, transposed back | `[time, batch]` |
//! | `small` | small plans and everything else | 4x4, padded layouts |
//!
//! Kernels use the trait `Vector` (`simd`); `run_at` compiles a `SimdTask` for each instruction set.

mod choice;
mod choose;
mod columns;
mod lines;
mod options;
mod rows;
mod simd;
mod small;
mod swap;
#[cfg(test)]
mod tests;
mod threads;
mod typed;
mod walk;
mod with_const;
mod write;

use std::mem::MaybeUninit;

pub use choice::KernelChoice;
pub use options::Options;
pub use threads::{ParallelFor, Threads};
pub use typed::{reverse_in_place, run_elements, run_elements_in_place};

pub use crate::simd_level::{SimdLevel, UnknownSimdLevel};

use crate::error::check_buffer;
use crate::{Error, Plan, SequenceLengths, Tensor};
use choice::Kernel;
use choose::{choose, is_small};
use columns::Tiling;
use walk::{Job, Walk};

/// Reverses subsequences of `input` into `output`, both in bytes.
///
/// Bytes of the output between its strides keep their values. Nothing is
/// written unless all checks pass. Nothing is allocated, except at most 1 MiB of
/// scratch memory that a thread keeps for columns with individual lengths, and a
/// thread pool's own allocations for its jobs.
///
/// # Errors
/// [`Error::BufferTooShort`] for a buffer shorter than the plan's
/// [`input_bytes`](Plan::input_bytes) or [`output_bytes`](Plan::output_bytes),
/// [`Error::LengthsOfAnotherPlan`] for lengths that were not checked for this plan.
///
/// # Panics
/// If the loop of [`Threads::Host`] does. A part of the output is then written.
pub fn run<'a>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [u8],
    options: impl Into<Options<'a>>,
) -> Result<(), Error> {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and only initialised
    // bytes, those of the input, are ever written through the slice.
    let output = unsafe { &mut *(std::ptr::from_mut(output) as *mut [MaybeUninit<u8>]) };
    run_uninit(plan, lengths, input, output, options)
}

/// Runs like [`run`], into memory that need not be initialised.
///
/// Afterwards every element that the output's strides reach is initialised;
/// the bytes between them are as before.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_uninit<'a>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [MaybeUninit<u8>],
    options: impl Into<Options<'a>>,
) -> Result<(), Error> {
    lengths.check_plan(plan)?;
    check_buffer(Tensor::Input, input.len(), plan.input_bytes())?;
    check_buffer(Tensor::Output, output.len(), plan.output_bytes())?;
    let buffers = (input.as_ptr(), output.as_mut_ptr().cast());
    // SAFETY: both buffers hold all that the plan's loops reach, checked here; they
    // do not overlap, since one is borrowed mutably.
    unsafe { move_rows(plan, lengths, buffers, false, options.into()) };
    Ok(())
}

/// Reverses subsequences of `data`, in bytes, where they lie.
///
/// Changes the reversed prefixes only; the bytes after a short one may be rewritten
/// with their own values.
///
/// # Errors
/// As [`run`], and [`Error::NotInPlace`] if input and output have different layouts.
///
/// # Panics
/// As [`run`]; some subsequences are then reversed in part.
pub fn run_in_place<'a>(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: &mut [u8],
    options: impl Into<Options<'a>>,
) -> Result<(), Error> {
    lengths.check_plan(plan)?;
    plan.check_in_place()?;
    check_buffer(Tensor::Output, data.len(), plan.output_bytes())?;
    let data = data.as_mut_ptr();
    // SAFETY: the buffer holds all that the plan's loops reach, checked here.
    unsafe { move_rows(plan, lengths, (data, data), true, options.into()) };
    Ok(())
}

/// Copies every row to its place, or swaps those of every pair in place.
///
/// # Safety
/// The input is readable for the plan's `input_bytes`, the output writable for its `output_bytes`,
/// and they do not overlap; `in_place` they are the same, readable and writable, of one layout.
unsafe fn move_rows(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    buffers: (*const u8, *mut u8),
    in_place: bool,
    options: Options<'_>,
) {
    if plan.empty {
        return;
    }
    if is_small(plan) {
        // SAFETY: the buffers are the plan's.
        return unsafe { small::run_plan(plan, lengths, buffers, in_place) };
    }
    if in_place && lengths.longest(plan) <= 1 {
        return;
    }
    let (plan, choice) = choose(plan, Some(lengths), in_place, options.simd());
    let threads = options.threads;
    let min = choice.parallel_min(&threads);
    // SAFETY: the buffers are those of the plan that a simpler one follows from, and the CPU has
    // the instructions of the options.
    unsafe {
        move_as_chosen(&plan, lengths, buffers, choice, |items, bytes, work| {
            threads.for_each_piece(items, bytes, min, work);
        });
    }
}

/// Moves rows like [`move_rows`], as chosen: `for_each_piece` gets the number of items, the bytes
/// of each, and the function that moves some of them.
///
/// # Safety
/// As [`move_rows`], for a kernel that takes the plan, and instructions that the CPU has.
unsafe fn move_as_chosen(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    (input, output): (*const u8, *mut u8),
    choice: KernelChoice,
    for_each_piece: impl FnOnce(usize, usize, &(dyn Fn(std::ops::Range<usize>) + Sync)),
) {
    let (steps, moves) = match choice.in_place {
        true => (lengths.longest(plan) / 2, 2),
        false => (plan.time.size, 1),
    };
    let tiling = match choice.kernel {
        Kernel::Columns => Tiling::new(plan, output),
        _ => None,
    };
    let (walk, bytes) = match tiling {
        Some(tiling) => (
            Walk::tiles(plan, tiling.tiles(plan)),
            steps.saturating_mul(tiling.bytes),
        ),
        None => (Walk::rows(plan, steps), plan.row_bytes),
    };
    let job = &Job {
        plan,
        walk: &walk,
        lengths,
        input,
        output,
        choice,
    };
    for_each_piece(walk.items(), bytes.saturating_mul(moves), &|items| {
        // SAFETY: the walk is the kernel's, with the time steps of the place.
        unsafe {
            match (choice.kernel, tiling) {
                (Kernel::Columns, Some(tiling)) => columns::run(job, tiling, items),
                (Kernel::Rows, _) => rows::run(job, items),
                (Kernel::Lines, _) => lines::run(job, items),
                _ => small::run(job, items),
            }
        }
    });
}
