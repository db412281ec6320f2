//! From a run to its kernel, compiled for the instructions, the stores and the width that it takes.

use std::ops::Range;

use super::with_const::with_const;
use crate::cpu::choice::{self, Kernel, Tier};
use crate::cpu::kernels::columns::{self, Tiling};
use crate::cpu::kernels::scalar::{self};
use crate::cpu::kernels::{elements, long_rows, short_rows, shuffle_rows};
use crate::cpu::loop_nest::LoopNest;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::LINE;
use crate::cpu::memory::store_policy::{NonTemporal, StorePolicy, Temporal};
use crate::cpu::memory::width::{Bytes, Element};
#[cfg(target_arch = "aarch64")]
use crate::cpu::simd::V128;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::simd::{LANE, Portable, SimdTask, Vector};
#[cfg(target_arch = "x86_64")]
use crate::cpu::simd::{V256, V512};
use crate::cpu::threads::Threads;
use crate::plan::Strategy;
use crate::{Plan, SequenceLengths};

/// From this many bytes on it pays to look which lengths are equal.
const UNIFORM_BYTES: usize = 4 << 10;

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
    if choice::is_small(plan) {
        // SAFETY: the caller's; the nest has all time steps.
        unsafe { scalar_all(plan, plan.time.size, lengths, (input, output), Copied) };
        return;
    }
    let simpler = simplify(plan, lengths);
    let plan = simpler.as_ref().unwrap_or(plan);
    let kernel = Kernel::of(plan, output, false);
    let tier = kernel.tier(plan, plan.moved_bytes() == plan.output_bytes());
    let level = SimdLevel::current();
    let (nest, item_bytes) = kernel.nest(plan, plan.time.size);
    let job = &Job {
        plan,
        nest: &nest,
        lengths,
        input,
        output,
    };
    threads.for_each_piece(nest.items(), item_bytes, kernel.parallel_min(), |items| {
        // SAFETY: the caller's; the nest is the kernel's, with all time steps.
        unsafe { copy_items(job, items, kernel, tier, level) };
    });
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
    if choice::is_small(plan) {
        // SAFETY: the caller's; the nest is of all pairs.
        unsafe { scalar_all(plan, longest / 2, lengths, (data, data), Swapped) };
        return;
    }
    let simpler = simplify(plan, lengths);
    let plan = simpler.as_ref().unwrap_or(plan);
    let kernel = Kernel::of(plan, data, true);
    let tier = choice::tier_in_place(plan);
    let level = SimdLevel::current();
    let (nest, item_bytes) = kernel.nest(plan, longest / 2);
    let job = &Job {
        plan,
        nest: &nest,
        lengths,
        input: data,
        output: data,
    };
    // Of the pairs, about half are exchanged.
    let parallel_min = kernel.parallel_min().of_half();
    let item_bytes = item_bytes.saturating_mul(2);
    threads.for_each_piece(nest.items(), item_bytes, parallel_min, |items| {
        // SAFETY: the caller's; the nest is the kernel's, of all pairs.
        unsafe { swap_items(job, items, kernel, tier, level) };
    });
}

/// Moves the rows of some items of a run by a kernel that can take its plan.
///
/// # Safety
/// As [`out_of_place`], for the job's buffers; its nest is the kernel's, with all time
/// steps, and `items` are items of it; and the CPU has the level's instructions.
pub(crate) unsafe fn copy_items(
    job: &Job<'_>,
    items: Range<usize>,
    kernel: Kernel,
    tier: Tier,
    level: SimdLevel,
) {
    // SAFETY: the caller's.
    unsafe { Items::new(job, items, tier, Copied).run_by(kernel, level) };
}

/// Exchanges the rows of some pairs of a run in place by a kernel that can take its plan.
///
/// # Safety
/// As [`in_place`], for the job's buffer; its nest is the kernel's, of all pairs, and
/// `items` are items of it; and the CPU has the level's instructions.
pub(crate) unsafe fn swap_items(
    job: &Job<'_>,
    items: Range<usize>,
    kernel: Kernel,
    tier: Tier,
    level: SimdLevel,
) {
    // SAFETY: the caller's.
    unsafe { Items::new(job, items, tier, Swapped).run_by(kernel, level) };
}

/// Moves all rows of the first `time_steps` one by one.
///
/// # Safety
/// As the task's, with that nest.
#[inline(always)]
unsafe fn scalar_all<'a, M>(
    plan: &'a Plan,
    time_steps: usize,
    lengths: &'a SequenceLengths<'a>,
    (input, output): (*const u8, *mut u8),
    moved: M,
) where
    for<'b> Items<'b, M, Scalar>: SimdTask,
{
    let nest = LoopNest::new(plan, time_steps);
    let job = &Job {
        plan,
        nest: &nest,
        lengths,
        input,
        output,
    };
    let all = Items::new(job, 0..nest.items(), Tier::Inner, moved);
    // SAFETY: the caller's.
    unsafe { all.by(Scalar).run::<Portable>() };
}

/// A simpler plan for lengths that are all equal, or equal in groups of
/// neighbours that together fill a cache line, if there is enough to move.
pub(crate) fn simplify(plan: &Plan, lengths: &SequenceLengths<'_>) -> Option<Plan> {
    if plan.moved_bytes() < UNIFORM_BYTES {
        return None;
    }
    if let Some(length) = lengths.uniform(plan) {
        return plan.with_uniform_length(length);
    }
    if plan.strategy() == Strategy::Elements || plan.row_bytes >= LINE {
        return None;
    }
    let group = lengths.group(plan, LINE.div_ceil(plan.row_bytes));
    (group > 1).then(|| plan.with_grouped_lengths(group))
}

/// Runs `$body` with `$stores` the store policy of a tier.
macro_rules! with_stores {
    ($tier:expr, $V:ident, $job:expr, $stores:ident => $body:expr) => {
        match $tier {
            Tier::Inner => {
                let $stores = &mut Temporal::<$V, false>::new($job.output);
                $body
            }
            Tier::Outer => {
                let $stores = &mut Temporal::<$V, true>::new($job.output);
                $body
            }
            Tier::Memory => {
                let $stores = &mut NonTemporal::<$V>::new($job.output);
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

/// Runs `$body` with `$CLASS` the class of short rows of `$bytes` bytes.
macro_rules! with_class {
    ($bytes:expr, $CLASS:ident => $body:expr) => {{
        const { assert!(short_rows::SIZE_CLASSES.len() == 6, "each has its constant") };
        with_const!(short_rows::size_class($bytes), $CLASS in [0, 1, 2, 3, 4] else 5 => $body)
    }};
}

/// Does a task with the instructions of a level.
///
/// # Safety
/// The CPU has them, as it has those of any level that [`SimdLevel::current`] gives;
/// and the task's condition holds.
pub(crate) unsafe fn run_at<T: SimdTask>(level: SimdLevel, task: T) {
    // SAFETY: the caller's.
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

/// Some items of a job, whose bytes are as far away as `tier` says, by a kernel.
struct Items<'a, M, K = ()> {
    job: &'a Job<'a>,
    items: Range<usize>,
    tier: Tier,
    moved: M,
    kernel: K,
}

/// How items are moved out of place: each is copied.
struct Copied;
/// How items are moved in place: each is exchanged with its mirror image.
struct Swapped;

/// [`Kernel::Scalar`], as a type.
struct Scalar;
/// [`Kernel::Rows`], as a type.
struct Rows;
/// [`Kernel::Elements`], as a type.
struct Elements;
/// [`Kernel::ShuffleRows`], as a type.
struct ShuffleRows;

impl<'a, M> Items<'a, M> {
    fn new(job: &'a Job<'a>, items: Range<usize>, tier: Tier, moved: M) -> Self {
        Self {
            job,
            items,
            tier,
            moved,
            kernel: (),
        }
    }

    fn by<K>(self, kernel: K) -> Items<'a, M, K> {
        Items {
            job: self.job,
            items: self.items,
            tier: self.tier,
            moved: self.moved,
            kernel,
        }
    }

    /// Moves the items by a kernel, with the instructions of a level.
    ///
    /// # Safety
    /// As the kernel's, and the CPU has the level's instructions.
    unsafe fn run_by(self, kernel: Kernel, level: SimdLevel)
    where
        Items<'a, M, Scalar>: SimdTask,
        Items<'a, M, Rows>: SimdTask,
        Items<'a, M, Elements>: SimdTask,
        Items<'a, M, ShuffleRows>: SimdTask,
        Items<'a, M, Tiling>: SimdTask,
    {
        // SAFETY: the caller's.
        unsafe {
            match kernel {
                // No vectors are in it.
                Kernel::Scalar => Portable::run_outlined(self.by(Scalar)),
                Kernel::Rows => run_at(level, self.by(Rows)),
                Kernel::Elements => run_at(level, self.by(Elements)),
                Kernel::ShuffleRows => run_at(level, self.by(ShuffleRows)),
                Kernel::Columns(tiling) => run_at(level, self.by(tiling)),
            }
        }
    }
}

impl SimdTask for Items<'_, Copied, Scalar> {
    /// # Safety
    /// As [`scalar::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { job, items, .. } = self;
        // SAFETY: the caller's.
        unsafe {
            with_width!(job.plan.row_bytes, width => scalar::copy_items(job, width, items));
        }
    }
}

impl SimdTask for Items<'_, Copied, Rows> {
    /// # Safety
    /// As [`long_rows::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_stores!(tier, V, job, stores => match short_rows::are_short(job, tier != Tier::Inner) {
                true => with_class!(job.plan.row_bytes, CLASS => {
                    short_rows::copy_items::<V, _, CLASS>(job, stores, items);
                }),
                false => long_rows::copy_items::<V, _>(job, stores, items),
            });
        }
    }
}

impl SimdTask for Items<'_, Copied, Elements> {
    /// # Safety
    /// As [`elements::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(job.plan.row_bytes, W, _R => {
                with_stores!(tier, V, job, stores => elements::copy_items::<V, _, W>(job, stores, items));
            });
        }
    }
}

impl SimdTask for Items<'_, Copied, ShuffleRows> {
    /// # Safety
    /// As [`shuffle_rows::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_stores!(tier, V, job, stores => shuffle_rows::copy_items::<V, _>(job, stores, items));
        }
    }
}

impl SimdTask for Items<'_, Copied, Tiling> {
    /// # Safety
    /// As [`columns::copy_tiles`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job,
            items,
            tier,
            kernel,
            ..
        } = self;
        let streams = tier == Tier::Memory;
        // SAFETY: the caller's.
        unsafe {
            with_element!(kernel.element, W, R => {
                columns::copy_tiles::<V, W, R>(job, kernel, items, streams);
            });
        }
    }
}

impl SimdTask for Items<'_, Swapped, Scalar> {
    /// # Safety
    /// As [`scalar::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { job, items, .. } = self;
        // SAFETY: the caller's.
        unsafe {
            with_width!(job.plan.row_bytes, width => scalar::swap_items(job, width, items));
        }
    }
}

impl SimdTask for Items<'_, Swapped, Rows> {
    /// # Safety
    /// As [`long_rows::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        let far_away = tier == Tier::Memory;
        // SAFETY: the caller's.
        unsafe {
            match short_rows::are_short(job, far_away) {
                true => with_class!(job.plan.row_bytes, CLASS => {
                    short_rows::swap_items::<V, CLASS>(job, items, far_away);
                }),
                false => long_rows::swap_items::<V>(job, items, far_away),
            }
        }
    }
}

impl SimdTask for Items<'_, Swapped, ShuffleRows> {
    /// # Safety
    /// As [`shuffle_rows::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { job, items, .. } = self;
        // SAFETY: the caller's.
        unsafe { shuffle_rows::swap_items::<V>(job, items) };
    }
}

impl SimdTask for Items<'_, Swapped, Elements> {
    /// # Safety
    /// As [`elements::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(job.plan.row_bytes, W, _R => {
                elements::swap_items::<V, W>(job, items, tier == Tier::Memory);
            });
        }
    }
}

impl SimdTask for Items<'_, Swapped, Tiling> {
    /// # Safety
    /// As [`columns::swap_tiles`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, kernel, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(kernel.element, W, R => {
                columns::swap_tiles::<V, W, R>(job, kernel, items);
            });
        }
    }
}
