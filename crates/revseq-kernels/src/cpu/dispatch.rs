//! From a run to the kernel that fits: the width of a row, the instructions, the stores.

use std::ops::Range;

use super::level::Level;
use super::nest::Nest;
use super::row::{Bytes, Element};
use super::sink::{Cached, Sink, Streaming};
use super::threads::Threads;
use super::walk;
use crate::{Plan, SequenceLengths};

/// From this many bytes on the output is written past the caches.
///
/// Below it a copy through the caches is faster, above it one with streaming
/// stores. Where they meet depends on the last-level cache, which has to hold
/// input and output: measured at 8 to 16 MiB with 32 MiB of it.
const STREAMING_BYTES: usize = 12 << 20;

/// Below this many bytes a run costs less than to choose how it is made.
const SMALL_BYTES: usize = 1 << 10;

/// From this many bytes on columns are moved in blocks: what the first cache level holds.
const BLOCKED_BYTES: usize = 32 << 10;

/// From this many bytes on it pays to look whether all lengths are equal.
const UNIFORM_BYTES: usize = 4 << 10;

/// Runs `$body` with `$row` bound to the row that moves `$bytes` bytes fastest.
macro_rules! with_row {
    ($bytes:expr, $row:ident => $body:expr) => {
        match $bytes {
            1 => {
                let $row = Element::<1>;
                $body
            }
            2 => {
                let $row = Element::<2>;
                $body
            }
            4 => {
                let $row = Element::<4>;
                $body
            }
            8 => {
                let $row = Element::<8>;
                $body
            }
            16 => {
                let $row = Element::<16>;
                $body
            }
            bytes => {
                let $row = Bytes(bytes);
                $body
            }
        }
    };
}

/// Defines functions that run `$body` compiled for each level, and `$name`,
/// which calls the one of a level.
///
/// `$body` is always inlined, so that its loops get the level's instructions.
macro_rules! for_each_level {
    ($(#[$meta:meta])* unsafe fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        unsafe fn $name(level: Level, $($argument: $type),*) {
            #[inline(always)]
            unsafe fn portable($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2")]
            unsafe fn avx2($($argument: $type),*) {
                // SAFETY: the caller's.
                unsafe { portable($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
            unsafe fn avx512($($argument: $type),*) {
                // SAFETY: the caller's.
                unsafe { portable($($argument),*) }
            }
            // SAFETY: the caller's; `Level::current` gives only what the CPU has.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2($($argument),*),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512($($argument),*),
                    _ => portable($($argument),*),
                }
            }
        }
    };
}

/// A buffer that several threads work on, each on bytes of its own.
#[derive(Clone, Copy)]
struct Shared<P>(P);

// SAFETY: threads get disjoint ranges of items, and distinct items write
// distinct bytes and read none that another writes (see the two runs).
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Shared<P> {}

impl<P: Copy> Shared<P> {
    fn get(&self) -> P {
        self.0
    }
}

/// Moves every row from its place in `input` to its place in `output`.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its
/// `output_bytes`, and they do not overlap.
pub(super) unsafe fn out_of_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
    threads: Threads<'_>,
) {
    if plan.empty {
        return;
    }
    let bytes = plan.moved_bytes();
    if bytes >= UNIFORM_BYTES
        && let Some(length) = lengths.uniform(plan)
        && let Some(plan) = plan.with_uniform_length(length)
    {
        // SAFETY: the caller's: the plan reaches the same bytes.
        return unsafe { copy(&plan, lengths, input, output, threads) };
    }
    // SAFETY: the caller's.
    unsafe { copy(plan, lengths, input, output, threads) };
}

/// As [`out_of_place`], for a plan that is settled.
///
/// # Safety
/// As [`out_of_place`].
unsafe fn copy(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
    threads: Threads<'_>,
) {
    let bytes = plan.moved_bytes();
    if bytes < SMALL_BYTES {
        let nest = Nest::new(plan, plan.time.size);
        let mut sink = Cached::new(output);
        with_row!(plan.row_bytes, row => {
            // SAFETY: the caller's.
            unsafe {
                walk::copy_items(plan, &nest, lengths, row, input, &mut sink, 0..nest.items());
            }
        });
        return;
    }
    let blocks = match bytes >= BLOCKED_BYTES {
        true => plan.in_column_blocks(),
        false => None,
    };
    let plan = blocks.as_ref().unwrap_or(plan);
    let nest = Nest::new(plan, plan.time.size);
    let in_order = blocks.is_none() && bytes == plan.output_bytes();
    let streaming = in_order && bytes >= STREAMING_BYTES;
    let level = Level::current();
    let (input, output) = (Shared(input), Shared(output));
    threads.for_each_piece(nest.items(), plan.row_bytes, |items| {
        let (input, output) = (input.get(), output.get());
        // SAFETY: the caller's. One item writes one row, and the plan's output
        // has no two rows that share a byte, so pieces are disjoint.
        unsafe { copy_piece(level, plan, &nest, lengths, input, output, items, streaming) }
    });
}

for_each_level! {
    /// # Safety
    /// As [`walk::copy_items`].
    #[expect(clippy::too_many_arguments, reason = "the parts of a run")]
    unsafe fn copy_piece(
        plan: &Plan,
        nest: &Nest,
        lengths: &SequenceLengths<'_>,
        input: *const u8,
        output: *mut u8,
        items: Range<usize>,
        streaming: bool,
    ) {
        with_row!(plan.row_bytes, row => {
            // SAFETY: the caller's.
            unsafe {
                if streaming {
                    let mut sink = Streaming::new(output);
                    walk::copy_items(plan, nest, lengths, row, input, &mut sink, items);
                    sink.finish();
                } else {
                    let mut sink = Cached::new(output);
                    walk::copy_items(plan, nest, lengths, row, input, &mut sink, items);
                }
            }
        })
    }
}

/// Exchanges every row of a reversed prefix with its mirror image.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout.
pub(super) unsafe fn in_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    threads: Threads<'_>,
) {
    let longest = lengths.longest(plan);
    if plan.empty || longest <= 1 {
        return;
    }
    let uniform = lengths
        .uniform(plan)
        .and_then(|length| plan.with_uniform_length(length));
    let plan = uniform.as_ref().unwrap_or(plan);
    let nest = walk::pairs(plan, longest);
    let level = Level::current();
    let data = Shared(data);
    threads.for_each_piece(nest.items(), 2 * plan.row_bytes, |items| {
        // SAFETY: the caller's. One item swaps two rows that no other item
        // touches: it is the only pair of its subsequence with that first step.
        unsafe { swap_piece(level, plan, &nest, lengths, data.get(), items) }
    });
}

for_each_level! {
    /// # Safety
    /// As [`walk::swap_items`].
    unsafe fn swap_piece(
        plan: &Plan,
        nest: &Nest,
        lengths: &SequenceLengths<'_>,
        data: *mut u8,
        items: Range<usize>,
    ) {
        with_row!(plan.row_bytes, row => {
            // SAFETY: the caller's.
            unsafe { walk::swap_items(plan, nest, lengths, row, data, items) }
        })
    }
}
