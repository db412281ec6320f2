//! From a run to the kernel that fits: how its rows move, the instructions, the stores.

use std::ops::Range;

use super::columns::{self, Tiling};
use super::level::Level;
use super::nest::Nest;
use super::sink::{Cached, LINE, Sink, Streaming};
use super::threads::Threads;
use super::vector::{V128, Vector};
#[cfg(target_arch = "x86_64")]
use super::vector::{V256, V512};
use super::walk::{self, Bytes, Element};
use super::{elements, rows};
use crate::plan::Strategy;
use crate::{Plan, SequenceLengths};

/// From this many bytes on the output is written past the caches.
///
/// Below it a copy through the caches is faster, above it one with streaming
/// stores. Where they meet depends on the last-level cache, which has to hold
/// input and output: measured at 8 to 16 MiB with 32 MiB of it.
const STREAMING_BYTES: usize = 12 << 20;

/// Below this many bytes a run costs less than to choose how it is made.
const SMALL_BYTES: usize = 1 << 10;

/// From this many bytes on it pays to look whether all lengths are equal.
const UNIFORM_BYTES: usize = 4 << 10;

/// How the rows of a plan move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// One by one, by any strides.
    Walk,
    /// Many bytes at a time.
    Rows,
    /// Contiguous along time, of the width of an element.
    Elements,
    /// Contiguous across time, with lengths of their own.
    Columns(Tiling),
}

impl Kernel {
    fn of(plan: &Plan) -> Self {
        if plan.moved_bytes() < SMALL_BYTES {
            return Self::Walk;
        }
        if plan.strategy() == Strategy::Elements {
            return Self::Elements;
        }
        match Tiling::new(plan) {
            Some(tiling) => Self::Columns(tiling),
            None if plan.row_bytes >= LINE => Self::Rows,
            None => Self::Walk,
        }
    }
}

/// Runs `$body` with `$width` bound to what moves rows of `$bytes` bytes.
macro_rules! with_width {
    ($bytes:expr, $width:ident => $body:expr) => {
        match $bytes {
            1 => {
                let $width = Element::<1>;
                $body
            }
            2 => {
                let $width = Element::<2>;
                $body
            }
            4 => {
                let $width = Element::<4>;
                $body
            }
            8 => {
                let $width = Element::<8>;
                $body
            }
            16 => {
                let $width = Element::<16>;
                $body
            }
            bytes => {
                let $width = Bytes(bytes);
                $body
            }
        }
    };
}

/// Runs `$body` with `$W` the width of an element and `$R` how many of them are a lane.
macro_rules! with_element {
    ($bytes:expr, $W:ident, $R:ident => $body:expr) => {
        match $bytes {
            1 => {
                const $W: usize = 1;
                const $R: usize = 16;
                $body
            }
            2 => {
                const $W: usize = 2;
                const $R: usize = 8;
                $body
            }
            4 => {
                const $W: usize = 4;
                const $R: usize = 4;
                $body
            }
            8 => {
                const $W: usize = 8;
                const $R: usize = 2;
                $body
            }
            _ => {
                const $W: usize = 16;
                const $R: usize = 1;
                $body
            }
        }
    };
}

/// Defines a function that runs `$body` compiled for each level, with `$V` the
/// level's vector, and picks the one of a level.
///
/// `$body` is always inlined, so that its loops get the level's instructions.
/// A closure in it would not.
macro_rules! for_each_level {
    ($(#[$meta:meta])* unsafe fn $name:ident<$V:ident>($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        unsafe fn $name(level: Level, $($argument: $type),*) {
            #[inline(always)]
            unsafe fn body<$V: Vector>($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2")]
            unsafe fn avx2($($argument: $type),*) {
                // SAFETY: the caller's.
                unsafe { body::<V256>($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
            unsafe fn avx512($($argument: $type),*) {
                // SAFETY: the caller's.
                unsafe { body::<V512>($($argument),*) }
            }
            // SAFETY: the caller's; `Level::current` gives only what the CPU has.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2($($argument),*),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512($($argument),*),
                    _ => body::<V128>($($argument),*),
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
    if plan.moved_bytes() >= UNIFORM_BYTES
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
    let kernel = Kernel::of(plan);
    let (nest, item_bytes) = match kernel {
        Kernel::Columns(tiling) => (
            Nest::tiles(plan, tiling.bytes),
            plan.time.size * tiling.bytes,
        ),
        _ => (Nest::new(plan, plan.time.size), plan.row_bytes),
    };
    let streaming = bytes == plan.output_bytes() && bytes >= STREAMING_BYTES;
    let level = Level::current();
    let (input, output) = (Shared(input), Shared(output));
    threads.for_each_piece(nest.items(), item_bytes, |items| {
        let (input, output) = (input.get(), output.get());
        // SAFETY: the caller's. One item writes rows that no other writes, and the
        // plan's output has no two rows that share a byte, so pieces are disjoint.
        unsafe {
            match kernel {
                Kernel::Walk => with_width!(plan.row_bytes, width => {
                    walk::copy_items(plan, &nest, lengths, width, input, output, items);
                }),
                Kernel::Columns(tiling) => {
                    copy_tiles(
                        level, plan, &nest, tiling, lengths, input, output, items, streaming,
                    );
                }
                Kernel::Rows | Kernel::Elements => {
                    copy_items(
                        level, plan, &nest, kernel, lengths, input, output, items, streaming,
                    );
                }
            }
        }
    });
}

for_each_level! {
    /// # Safety
    /// As [`rows::copy_items`] or [`elements::copy_items`], for that kernel.
    #[expect(clippy::too_many_arguments, reason = "the parts of a run")]
    unsafe fn copy_items<V>(
        plan: &Plan,
        nest: &Nest,
        kernel: Kernel,
        lengths: &SequenceLengths<'_>,
        input: *const u8,
        output: *mut u8,
        items: Range<usize>,
        streaming: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match (kernel, streaming) {
                (Kernel::Elements, false) => with_element!(plan.row_bytes, W, R => {
                    let _ = R;
                    let mut sink = Cached::new(output);
                    elements::copy_items::<V, _, W>(plan, nest, lengths, input, &mut sink, items);
                }),
                (Kernel::Elements, true) => with_element!(plan.row_bytes, W, R => {
                    let _ = R;
                    let mut sink = Streaming::<V>::new(output);
                    elements::copy_items::<V, _, W>(plan, nest, lengths, input, &mut sink, items);
                    sink.finish();
                }),
                (_, false) => {
                    let mut sink = Cached::new(output);
                    rows::copy_items(plan, nest, lengths, input, &mut sink, items);
                }
                (_, true) => {
                    let mut sink = Streaming::<V>::new(output);
                    rows::copy_items(plan, nest, lengths, input, &mut sink, items);
                    sink.finish();
                }
            }
        }
    }
}

for_each_level! {
    /// # Safety
    /// As [`columns::copy_tiles`].
    #[expect(clippy::too_many_arguments, reason = "the parts of a run")]
    unsafe fn copy_tiles<V>(
        plan: &Plan,
        nest: &Nest,
        tiling: Tiling,
        lengths: &SequenceLengths<'_>,
        input: *const u8,
        output: *mut u8,
        tiles: Range<usize>,
        streaming: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            with_element!(tiling.element, W, R => match (tiling.bytes < V::BYTES, streaming) {
                (true, _) => columns::copy_tiles::<V128, false, W, R>(plan, nest, tiling, lengths, input, output, tiles),
                (_, true) => columns::copy_tiles::<V, true, W, R>(plan, nest, tiling, lengths, input, output, tiles),
                (_, false) => columns::copy_tiles::<V, false, W, R>(plan, nest, tiling, lengths, input, output, tiles),
            })
        }
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
    let kernel = Kernel::of(plan);
    let (nest, item_bytes) = match kernel {
        Kernel::Columns(tiling) => (Nest::tiles(plan, tiling.bytes), longest * tiling.bytes),
        _ => (Nest::new(plan, longest / 2), 2 * plan.row_bytes),
    };
    let level = Level::current();
    let data = Shared(data);
    threads.for_each_piece(nest.items(), item_bytes, |items| {
        // SAFETY: the caller's. One item exchanges rows that no other item
        // touches: a tile is whole columns, and a pair is the only one of its
        // subsequence with that first step.
        unsafe { swap_items(level, plan, &nest, kernel, lengths, data.get(), items) }
    });
}

for_each_level! {
    /// # Safety
    /// As the kernel's `swap_items` or [`columns::swap_tiles`].
    unsafe fn swap_items<V>(
        plan: &Plan,
        nest: &Nest,
        kernel: Kernel,
        lengths: &SequenceLengths<'_>,
        data: *mut u8,
        items: Range<usize>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match kernel {
                Kernel::Walk => with_width!(plan.row_bytes, width => {
                    walk::swap_items(plan, nest, lengths, width, data, items);
                }),
                Kernel::Rows => rows::swap_items::<V>(plan, nest, lengths, data, items),
                Kernel::Elements => with_element!(plan.row_bytes, W, R => {
                    let _ = R;
                    elements::swap_items::<V, W>(nest, lengths, data, items);
                }),
                Kernel::Columns(tiling) => with_element!(tiling.element, W, R => {
                    if tiling.bytes < V::BYTES {
                        columns::swap_tiles::<V128, W, R>(plan, nest, tiling, lengths, data, items);
                    } else {
                        columns::swap_tiles::<V, W, R>(plan, nest, tiling, lengths, data, items);
                    }
                }),
            }
        }
    }
}
