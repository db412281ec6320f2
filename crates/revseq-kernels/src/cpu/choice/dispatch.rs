//! Follows a [`KernelChoice`]: calls the kernel, compiled for the instructions, the stores and
//! the width that were chosen.

use std::ops::Range;

use super::{Kernel, KernelChoice, Memory, Place, choose, is_small};
use crate::cpu::kernels::columns::{self, Tiling};
use crate::cpu::kernels::{
    blended_lines, long_lines, long_rows, scalar, short_rows, shuffle_rows, sub_vector_lines,
};
use crate::cpu::loop_nest::LoopNest;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::non_temporal::NonTemporal;
use crate::cpu::memory::store_policy::{StorePolicy, Temporal};
use crate::cpu::memory::width::{Bytes, Element};
#[cfg(target_arch = "aarch64")]
use crate::cpu::simd::V128;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::simd::{LANE, Portable, SimdTask, Vector};
#[cfg(target_arch = "x86_64")]
use crate::cpu::simd::{V256, V512};
use crate::cpu::threads::Threads;
use crate::cpu::with_const::with_const;
use crate::{Plan, SequenceLengths};

/// Moves every row from its place in `input` to its place in `output`.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its
/// `output_bytes`, and they do not overlap.
pub(crate) unsafe fn out_of_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
    threads: Threads<'_>,
) {
    if plan.empty {
        return;
    }
    if is_small(plan) {
        // SAFETY: the buffers are the plan's.
        return unsafe { run_small(plan, lengths, (input, output), false) };
    }
    let (plan, choice) = choose(plan, Some(lengths), output, Place::Copied);
    // SAFETY: the buffers are those of the plan that a simpler one follows from.
    unsafe {
        run(
            &plan,
            plan.time.size,
            lengths,
            (input, output),
            choice,
            threads,
        )
    };
}

/// Exchanges every row of a reversed prefix with its mirror image.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout.
pub(crate) unsafe fn in_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    threads: Threads<'_>,
) {
    let longest = lengths.longest(plan);
    if plan.empty || longest <= 1 {
        return;
    }
    if is_small(plan) {
        // SAFETY: the buffer is the plan's.
        return unsafe { run_small(plan, lengths, (data, data), true) };
    }
    let place = Place::InPlace { longest };
    let (plan, choice) = choose(plan, Some(lengths), data, place);
    // SAFETY: the buffer is that of the plan that a simpler one follows from.
    unsafe { run(&plan, longest / 2, lengths, (data, data), choice, threads) };
}

/// Moves the rows, or exchanges the pairs, of the first `time_steps` as chosen.
///
/// # Safety
/// As [`out_of_place`] with all time steps, or [`in_place`] with those of all pairs, for a
/// choice for the plan, the buffers and the place.
unsafe fn run(
    plan: &Plan,
    time_steps: usize,
    lengths: &SequenceLengths<'_>,
    (input, output): (*const u8, *mut u8),
    choice: KernelChoice,
    threads: Threads<'_>,
) {
    let (nest, mut item_bytes) = choice.kernel.nest(plan, time_steps);
    let job = &Job {
        plan,
        nest: &nest,
        lengths,
        input,
        output,
    };
    if choice.in_place {
        item_bytes = item_bytes.saturating_mul(2);
    }
    threads.for_each_piece(nest.items(), item_bytes, choice.parallel_min(), |items| {
        // SAFETY: the nest is the kernel's, with the time steps of the place; the CPU has the
        // instructions of any plan's level.
        unsafe { move_items(job, items, choice) };
    });
}

impl Kernel {
    /// What it walks along, if time has so many steps, and the bytes of an item.
    pub(crate) fn nest(self, plan: &Plan, time_steps: usize) -> (LoopNest, usize) {
        match self {
            Self::Columns(tiling) => (
                LoopNest::tiles(plan, tiling.tiles(plan)),
                // Tiles of few columns end behind them.
                time_steps.saturating_mul(tiling.bytes),
            ),
            _ => (LoopNest::new(plan, time_steps), plan.row_bytes),
        }
    }
}

/// Moves some items of a run as chosen.
///
/// # Safety
/// The job's buffers are valid for its plan, which the kernel can take; its nest is the
/// kernel's, with all time steps, or those of all pairs in place; `items` are items of it; and
/// the CPU has the instructions of the choice.
pub(crate) unsafe fn move_items(job: &Job<'_>, items: Range<usize>, choice: KernelChoice) {
    let run = Items { job, items, choice };
    // SAFETY: this function's conditions are those of the kernels.
    unsafe {
        match choice.kernel {
            // It has no vectors.
            Kernel::Scalar => match choice.in_place {
                true => Portable::run_outlined(Swap(run, Scalar)),
                false => Portable::run_outlined(Copy(run, Scalar)),
            },
            Kernel::ShortRows => run.outlined(ShortRows),
            Kernel::LongRows => run.outlined(LongRows),
            Kernel::ShuffleRows => run.outlined(ShuffleRows),
            Kernel::SubVectorLines => run.outlined(SubVectorLines),
            Kernel::BlendedLines => run.outlined(BlendedLines),
            Kernel::LongLines => run.outlined(LongLines),
            Kernel::Columns(tiling) => run.outlined(tiling),
        }
    }
}

/// Does a task with the instructions of a level.
///
/// # Safety
/// The CPU has them, and the task's condition holds.
pub(crate) unsafe fn run_at<T: SimdTask>(level: SimdLevel, task: T) {
    // SAFETY: the CPU has the instructions of the level, which are the vector's.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => V256::run_outlined(task),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => V512::run_outlined(task),
            #[cfg(target_arch = "aarch64")]
            SimdLevel::Neon => V128::run_outlined(task),
            _ => Portable::run_outlined(task),
        }
    }
}

/// Some items of a run.
struct Items<'a> {
    job: &'a Job<'a>,
    items: Range<usize>,
    choice: KernelChoice,
}

impl Items<'_> {
    /// Moves them by a kernel, in a function of its own with the instructions of the choice.
    ///
    /// # Safety
    /// As [`move_items`]; the kernel is that of the choice.
    #[inline(always)]
    unsafe fn outlined<K: MoveItems>(self, kernel: K) {
        let level = self.choice.simd;
        // SAFETY: this function's conditions are those of the kernel and of the level.
        unsafe {
            match self.choice.in_place {
                true => run_at(level, Swap(self, kernel)),
                false => run_at(level, Copy(self, kernel)),
            }
        }
    }
}

/// A kernel, as it is called for some items.
trait MoveItems {
    /// Copies each row to its place.
    ///
    /// # Safety
    /// As [`move_items`].
    unsafe fn copy<V: Vector>(self, run: Items<'_>);

    /// Exchanges the rows of each pair.
    ///
    /// # Safety
    /// As [`move_items`].
    unsafe fn swap<V: Vector>(self, run: Items<'_>);
}

/// Copies items by a kernel.
struct Copy<'a, K>(Items<'a>, K);

/// Exchanges items by a kernel.
struct Swap<'a, K>(Items<'a>, K);

impl<K: MoveItems> SimdTask for Copy<'_, K> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the task's conditions are the kernel's.
        unsafe { self.1.copy::<V>(self.0) };
    }
}

impl<K: MoveItems> SimdTask for Swap<'_, K> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the task's conditions are the kernel's.
        unsafe { self.1.swap::<V>(self.0) };
    }
}

/// Runs `$body` with `$stores` the store policy of a run.
macro_rules! with_stores {
    ($run:expr, $V:ident, $stores:ident => $body:expr) => {
        match $run.choice.memory {
            Memory::Cached => {
                let $stores = &mut Temporal::<$V, false>::new($run.job.output);
                $body
            }
            Memory::Prefetched => {
                let $stores = &mut Temporal::<$V, true>::new($run.job.output);
                $body
            }
            Memory::NonTemporal => {
                let $stores = &mut NonTemporal::<$V>::new($run.job.output);
                $body;
                $stores.finish();
            }
        }
    };
}

/// Runs `$body` with `$W` the width of an element and `$R` how many of them are a lane.
macro_rules! with_element {
    ($bytes:expr, $W:ident, $R:ident => $body:expr) => {
        with_const!($bytes, $W in [1, 2, 4, 8] else 16 => {
            const $R: usize = LANE / $W;
            $body
        })
    };
}

/// Runs `$body` with `$width` bound to what moves rows of `$bytes` bytes.
macro_rules! with_width {
    ($bytes:expr, $width:ident => $body:expr) => {
        match $bytes {
            1 | 2 | 4 | 8 | 16 => with_element!($bytes, W, _R => {
                let $width = Element::<W>;
                $body
            }),
            bytes => {
                let $width = Bytes(bytes);
                $body
            }
        }
    };
}

/// Runs `$body` with `$CLASS` the size class of short rows of `$bytes` bytes.
macro_rules! with_class {
    ($bytes:expr, $CLASS:ident => $body:expr) => {{
        const { assert!(short_rows::SIZE_CLASSES.len() == 6, "each has its constant") };
        with_const!(short_rows::size_class($bytes), $CLASS in [0, 1, 2, 3, 4] else 5 => $body)
    }};
}

/// Moves the rows of a small plan, or exchanges its pairs: what [`choose`] says of one, in less
/// time than to make a choice takes. [M51]
///
/// # Safety
/// As [`out_of_place`], or [`in_place`].
#[inline(always)]
unsafe fn run_small(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    (input, output): (*const u8, *mut u8),
    in_place: bool,
) {
    // SAFETY: the buffers are the plan's, and the width is that of its rows.
    unsafe {
        with_width!(plan.row_bytes, width => match in_place {
            true => scalar::swap_columns(plan, width, lengths, output),
            false => scalar::copy_columns(plan, width, lengths, input, output),
        });
    }
}

/// Implements [`MoveItems`] for a kernel by what copies and what exchanges items.
macro_rules! kernel {
    ($Kernel:ty, $V:ident, $run:ident, $kernel:pat => $copy:expr, $swap:expr) => {
        impl MoveItems for $Kernel {
            #[inline(always)]
            unsafe fn copy<$V: Vector>(self, $run: Items<'_>) {
                let $kernel = self;
                // SAFETY: the conditions of `move_items`, for the kernel that was chosen by the
                // plan's widths and the run's memory.
                unsafe { $copy }
            }

            #[inline(always)]
            unsafe fn swap<$V: Vector>(self, $run: Items<'_>) {
                let $kernel = self;
                // SAFETY: as above; in place.
                unsafe { $swap }
            }
        }
    };
}

struct Scalar;
kernel! { Scalar, V, run, _ =>
    with_width!(run.job.plan.row_bytes, width => scalar::copy_items(run.job, width, run.items)),
    with_width!(run.job.plan.row_bytes, width => scalar::swap_items(run.job, width, run.items))
}

struct ShortRows;
kernel! { ShortRows, V, run, _ =>
    with_stores!(run, V, stores => with_class!(run.job.plan.row_bytes, CLASS => {
        let aligned = run.choice.aligned;
        short_rows::copy_items::<V, _, CLASS>(run.job, stores, run.items, aligned);
    })),
    with_class!(run.job.plan.row_bytes, CLASS => {
        short_rows::swap_items::<V, CLASS>(run.job, run.items, run.choice.prefetches());
    })
}

struct LongRows;
kernel! { LongRows, V, run, _ =>
    with_stores!(run, V, stores => long_rows::copy_items::<V, _>(run.job, stores, run.items)),
    long_rows::swap_items::<V>(run.job, run.items, run.choice.prefetches())
}

struct ShuffleRows;
kernel! { ShuffleRows, V, run, _ =>
    with_stores!(run, V, stores => shuffle_rows::copy_items::<V, _>(run.job, stores, run.items)),
    shuffle_rows::swap_items::<V>(run.job, run.items)
}

struct SubVectorLines;
kernel! { SubVectorLines, V, run, _ =>
    with_element!(run.job.plan.row_bytes, W, _R => with_stores!(run, V, stores => {
        sub_vector_lines::copy_items::<_, W>(run.job, stores, run.items);
    })),
    with_element!(run.job.plan.row_bytes, W, _R => {
        sub_vector_lines::swap_items::<W>(run.job, run.items);
    })
}

struct BlendedLines;
kernel! { BlendedLines, V, run, _ =>
    with_element!(run.job.plan.row_bytes, W, _R => with_stores!(run, V, stores => {
        let aligned = run.choice.aligned;
        blended_lines::copy_items::<V, _, W>(run.job, stores, run.items, aligned);
    })),
    with_element!(run.job.plan.row_bytes, W, _R => {
        blended_lines::swap_items::<V, W>(run.job, run.items, run.choice.prefetches());
    })
}

struct LongLines;
kernel! { LongLines, V, run, _ =>
    with_element!(run.job.plan.row_bytes, W, _R => with_stores!(run, V, stores => {
        long_lines::copy_items::<V, _, W>(run.job, stores, run.items);
    })),
    with_element!(run.job.plan.row_bytes, W, _R => {
        long_lines::swap_items::<V, W>(run.job, run.items, run.choice.prefetches());
    })
}

kernel! { Tiling, V, run, tiling =>
    with_element!(tiling.element, W, R => {
        let non_temporal = run.choice.memory == Memory::NonTemporal;
        columns::copy_tiles::<V, W, R>(run.job, tiling, run.items, non_temporal);
    }),
    with_element!(tiling.element, W, R => {
        columns::swap_tiles::<V, W, R>(run.job, tiling, run.items);
    })
}
