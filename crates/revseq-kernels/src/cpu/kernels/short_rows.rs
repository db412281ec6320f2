//! Rows of no more than a few pages, with neighbours that move together: every
//! instruction of their loops counts.

use std::ops::Range;

use crate::cpu::loop_nest::job::{Job, source};
use crate::cpu::loop_nest::{Lines, Position, Rounds};
use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::Forward;
use crate::cpu::memory::prefetch::prefetch_l2;
use crate::cpu::memory::prefetch::{L1_DISTANCE, L2_DISTANCE, PrefetchTargets, prefetch_range};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::swap_queue::exchange;
use crate::cpu::simd::{LANE, SimdTask, Vector};
use crate::plan::Loop;

/// How many bytes of neighbouring rows are moved together through time beyond the caches.
///
/// What is near is then one step ahead, and the next step's rows lie in the same pages, or in
/// pages whose translations lie in the same line of the cache. [M9]
const GROUP: usize = 8 << 10;

/// How many bytes of time steps are exchanged at once.
const SWAP_BLOCK: usize = 16 << 10;

/// How many lengths are read at once.
const MAX_LENGTHS: usize = 64;

/// The least and the most bytes of rows that have loops of their own: known to the compiler,
/// they leave no branch in how a row is copied. [M11]
pub(crate) const SIZE_CLASSES: [(usize, usize); 6] = [
    (64, 64),
    (128, 128),
    (256, 256),
    (33, 63),
    (65, 127),
    (1, usize::MAX),
];

/// The index of the class of rows of so many bytes.
pub(crate) const fn size_class(bytes: usize) -> usize {
    let mut class = 0;
    while bytes < SIZE_CLASSES[class].0 || bytes > SIZE_CLASSES[class].1 {
        class += 1;
    }
    class
}

/// The bytes of a row, of which the compiler then knows the class.
///
/// # Safety
/// They are of it.
#[inline(always)]
unsafe fn bytes_in_class<const CLASS: usize>(bytes: usize) -> usize {
    let (least, most) = const { SIZE_CLASSES[CLASS] };
    // SAFETY: the row is of the class, so its bytes are between its bounds.
    unsafe { std::hint::assert_unchecked(least <= bytes && bytes <= most) };
    bytes
}

/// Copies the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the store policy
/// writes to the job's output; the rows are as wide as their `CLASS` says. If `aligned` and the
/// stores are non-temporal, the output and every row in it start and end at multiples of a lane.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy, const CLASS: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
    aligned: bool,
) {
    // Through the caches any place is as good.
    // SAFETY: this function's conditions, and what the constant says.
    unsafe {
        match !S::NON_TEMPORAL || aligned {
            true => copy_lines::<V, S, CLASS, true>(job, stores, items),
            false => copy_lines::<V, S, CLASS, false>(job, stores, items),
        }
    }
}

/// As [`copy_items`]; `ALIGNED` to the places of the rows, which are lanes that the
/// store policy takes.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_lines<V: Vector, S: StorePolicy, const CLASS: usize, const ALIGNED: bool>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let (time, line, along_time) = (job.plan.time, job.nest.line, job.nest.along_time);
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    let most = lines_together(job, &lines);
    let columns = columns_together(job, S::PREFETCHES);
    while let Some(run) = lines.next_run(most) {
        // SAFETY: see `Job`.
        unsafe {
            let mut short = Short::<S, CLASS, ALIGNED> {
                stores: &mut *stores,
                input: job.input.wrapping_add(run.at.input),
                output: run.at.output,
                bytes: job.plan.row_bytes,
                time,
            };
            if along_time {
                let lengths = &mut lengths[..run.lines];
                job.lengths.read(run.at.lengths, run.step.lengths, lengths);
                V::run_outlined(Along {
                    short,
                    lengths,
                    step: run.step,
                    steps: run.steps,
                });
                continue;
            }
            for first in run.steps.clone().step_by(columns) {
                let lengths = &mut lengths[..columns.min(run.steps.end - first)];
                let place = run.at.lengths + first * line.lengths;
                job.lengths.read(place, line.lengths, lengths);
                short.input = job.input.wrapping_add(run.at.input + first * line.input);
                short.output = run.at.output + first * line.output;
                V::run_outlined(Across {
                    short: Short {
                        stores: &mut *short.stores,
                        ..short
                    },
                    lengths,
                    line,
                    steps: run.at.time..run.at.time + run.lines,
                });
            }
        }
    }
}

/// How many lines are taken at once: lines along time with a length each, or all
/// time steps of columns.
#[inline(always)]
fn lines_together(job: &Job<'_>, lines: &Lines<'_>) -> usize {
    match lines.are_time_steps() {
        _ if job.nest.along_time => MAX_LENGTHS,
        true => usize::MAX,
        false => 1,
    }
}

/// How many columns are taken at once, whose lengths are read together; about a
/// [`GROUP`] if what is read soon is prefetched.
#[inline(always)]
fn columns_together(job: &Job<'_>, prefetches: bool) -> usize {
    if !prefetches {
        return MAX_LENGTHS;
    }
    let (bytes, columns) = (job.plan.row_bytes, job.nest.line.size);
    let groups = (columns * bytes + GROUP / 2) / GROUP;
    let together = columns.div_ceil(groups.max(1));
    // Where a group ends inside a line of the output, that is written in parts, and a
    // lane by way of the caches: by whole ones, unless those are many more.
    let whole = |unit: usize| unit >> bytes.trailing_zeros().min(unit.trailing_zeros());
    [LINE, LANE]
        .map(|unit| together.next_multiple_of(whole(unit)))
        .into_iter()
        .find(|&most| most * bytes <= GROUP + GROUP / 2)
        .unwrap_or(together)
        .min(MAX_LENGTHS)
}

/// Short rows.
struct Short<'a, S, const CLASS: usize, const ALIGNED: bool> {
    stores: &'a mut S,
    /// Where the first column starts in the input: its row of the first time step.
    input: *const u8,
    /// Its offset in the output.
    output: usize,
    bytes: usize,
    time: Loop,
}

impl<S: StorePolicy, const CLASS: usize, const ALIGNED: bool> Short<'_, S, CLASS, ALIGNED> {
    /// Where the output's offset 0 lies, for rows that are written straight to their places.
    ///
    /// # Safety
    /// The output's offset is inside it, and of lanes that the store policy takes.
    #[inline(always)]
    unsafe fn places(&mut self) -> *mut u8 {
        if !ALIGNED {
            return std::ptr::null_mut();
        }
        // SAFETY: the offset is inside the output. Nothing is left to write then, and nothing is
        // given.
        unsafe {
            self.stores.seek(self.output);
            self.stores.reserve_aligned(0).wrapping_sub(self.output)
        }
    }

    /// Copies a row to an offset of the output, and prefetches those that are read soon.
    ///
    /// # Safety
    /// The row is readable, and the output has room for it; the `places` are its.
    #[inline(always)]
    unsafe fn copy(
        &mut self,
        from: *const u8,
        to: usize,
        places: *mut u8,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: the row is readable, the output has room for it, and it is of its class.
        unsafe {
            let bytes = bytes_in_class::<CLASS>(self.bytes);
            if !ALIGNED {
                self.stores.seek(to);
                return self.stores.copy::<Forward>(from, bytes, targets);
            }
            S::copy_to::<Forward>(from, places.wrapping_add(to), bytes, targets);
        }
    }
}

/// Short rows on lines along time, each with its length.
struct Along<'a, S, const CLASS: usize, const ALIGNED: bool> {
    short: Short<'a, S, CLASS, ALIGNED>,
    lengths: &'a [usize],
    /// How far a line is from the one before.
    step: Position,
    steps: Range<usize>,
}

impl<S: StorePolicy, const CLASS: usize, const ALIGNED: bool> SimdTask
    for Along<'_, S, CLASS, ALIGNED>
{
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut short = self.short;
        let time = short.time;
        let Range { start, end } = self.steps;
        // SAFETY: a time step is less than the axis size, so each row lies in its column (see
        // `Job`).
        unsafe {
            let places = short.places();
            for &length in self.lengths {
                let middle = length.clamp(start, end);
                let mut to = short.output + start * time.output;
                let first = length.wrapping_sub(1 + start).wrapping_mul(time.input);
                let mut from = short.input.wrapping_add(first);
                for _ in start..middle {
                    short.copy(from, to, places, Some(PrefetchTargets::behind(from)));
                    from = from.wrapping_sub(time.input);
                    to += time.output;
                }
                // Beyond the input if the length is all of time: then nothing is read.
                let mut from = short.input.wrapping_add(middle * time.input);
                for _ in middle..end {
                    short.copy(from, to, places, Some(PrefetchTargets::ahead_of(from)));
                    from = from.wrapping_add(time.input);
                    to += time.output;
                }
                short.input = short.input.wrapping_add(self.step.input);
                short.output += self.step.output;
            }
        }
    }
}

/// Short rows on lines across time, with a length for each of a line.
struct Across<'a, S, const CLASS: usize, const ALIGNED: bool> {
    short: Short<'a, S, CLASS, ALIGNED>,
    lengths: &'a [usize],
    /// The columns.
    line: Loop,
    steps: Range<usize>,
}

impl<S: StorePolicy, const CLASS: usize, const ALIGNED: bool> SimdTask
    for Across<'_, S, CLASS, ALIGNED>
{
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (mut short, line) = (self.short, self.line);
        let time = short.time;
        // SAFETY: the rows are of the class.
        let bytes = unsafe { bytes_in_class::<CLASS>(short.bytes) };
        let ahead = |distance: usize| distance / (self.lengths.len() * bytes);
        let (near, far) = (ahead(L1_DISTANCE).max(1), ahead(L2_DISTANCE).max(1));
        // SAFETY: a time step is less than the axis size, so each row lies in its column (see
        // `Job`).
        unsafe {
            let places = short.places();
            for t in self.steps {
                let mut column = short.input;
                let mut to = short.output + t * time.output;
                for &length in self.lengths {
                    let row = |t: usize| column.wrapping_add(source(length, t) * time.input);
                    let targets = S::PREFETCHES.then(|| PrefetchTargets {
                        l1: row((t + near).min(time.size - 1)),
                        l2: row((t + far).min(time.size - 1)),
                    });
                    short.copy(row(t), to, places, targets);
                    column = column.wrapping_add(line.input);
                    to += line.output;
                }
            }
        }
    }
}

/// Exchanges the rows of some pairs, beyond the caches if `prefetches`.
///
/// # Safety
/// As for [`rows`](crate::cpu::kernels::long_rows::swap_items); the rows are as wide as their
/// `CLASS` says.
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector, const CLASS: usize>(
    job: &Job<'_>,
    items: Range<usize>,
    prefetches: bool,
) {
    let line = job.nest.line;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    let most = lines_together(job, &lines);
    let columns = columns_together(job, prefetches);
    while let Some(run) = lines.next_run(most) {
        let mut short = ShortPairs::<CLASS> {
            data: job.output.wrapping_add(run.at.output),
            pitch: job.plan.time.output,
            bytes: job.plan.row_bytes,
            ahead: 0,
        };
        // SAFETY: see `Job`.
        unsafe {
            if job.nest.along_time {
                let lengths = &mut lengths[..run.lines];
                job.lengths.read(run.at.lengths, run.step.lengths, lengths);
                V::run_outlined(SwapAlong {
                    short,
                    lengths,
                    step: run.step.output,
                    steps: run.steps,
                });
                continue;
            }
            for first in run.steps.clone().step_by(columns) {
                let lengths = &mut lengths[..columns.min(run.steps.end - first)];
                let place = run.at.lengths + first * line.lengths;
                job.lengths.read(place, line.lengths, lengths);
                short.data = job.output.wrapping_add(run.at.output + first * line.output);
                V::run_outlined(SwapAcross {
                    short,
                    lengths,
                    step: line.output,
                    steps: run.at.time..run.at.time + run.lines,
                    prefetches,
                });
            }
        }
    }
}

/// Pairs of short rows.
#[derive(Clone, Copy)]
struct ShortPairs<const CLASS: usize> {
    /// Where the first column starts.
    data: *mut u8,
    /// How far a time step is from the one before.
    pitch: usize,
    bytes: usize,
    /// How far ahead in time rows are prefetched, in bytes, if they are.
    ahead: usize,
}

/// Pairs of short rows on lines along time, each with its length.
struct SwapAlong<'a, const CLASS: usize> {
    short: ShortPairs<CLASS>,
    /// How far a line is from the one before.
    step: usize,
    lengths: &'a [usize],
    steps: Range<usize>,
}

impl<const CLASS: usize> SimdTask for SwapAlong<'_, CLASS> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let mut column = self.short;
        for &length in self.lengths {
            let pairs = self.steps.start..self.steps.end.min(length / 2);
            // SAFETY: the column has as many rows as its length, at most the axis size.
            unsafe { column.swap::<V>(length, pairs) };
            column.data = column.data.wrapping_add(self.step);
        }
    }
}

/// Pairs of short rows on lines across time, with a length for each column.
struct SwapAcross<'a, const CLASS: usize> {
    short: ShortPairs<CLASS>,
    /// How far a column is from the one before.
    step: usize,
    lengths: &'a [usize],
    steps: Range<usize>,
    /// Whether the rows lie beyond the caches.
    prefetches: bool,
}

impl<const CLASS: usize> SimdTask for SwapAcross<'_, CLASS> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // Some steps of a column at a time, as whether a step is one of a pair
        // changes with every column.
        let together = (SWAP_BLOCK / (self.lengths.len() * self.short.bytes)).max(1);
        let mut first = self.short;
        if self.prefetches {
            first.ahead = together * first.pitch;
        }
        for start in self.steps.clone().step_by(together) {
            let end = self.steps.end.min(start + together);
            let mut column = first;
            for &length in self.lengths {
                let pairs = start..end.min(length / 2);
                // SAFETY: the column has as many rows as its length, at most the axis size.
                unsafe { column.swap::<V>(length, pairs) };
                column.data = column.data.wrapping_add(self.step);
            }
        }
    }
}

impl<const CLASS: usize> ShortPairs<CLASS> {
    /// Exchanges some rows of the first column with their mirror images.
    ///
    /// # Safety
    /// The column has as many rows as its length, and the steps are less than
    /// half of it.
    #[inline(always)]
    unsafe fn swap<V: Vector>(self, length: usize, steps: Range<usize>) {
        if steps.is_empty() {
            return;
        }
        // SAFETY: the rows are of the class.
        let bytes = unsafe { bytes_in_class::<CLASS>(self.bytes) };
        let mut one = self.data.wrapping_add(steps.start * self.pitch);
        let last = length - 1 - steps.start;
        let mut other = self.data.wrapping_add(last * self.pitch);
        for _ in steps {
            // SAFETY: both rows lie in the column, and differ as no step is beyond half of its
            // length.
            unsafe { exchange::<V, Forward>(one, other, bytes) };
            if self.ahead > 0 {
                prefetch_range(one.wrapping_add(self.ahead), bytes, prefetch_l2);
                prefetch_range(other.wrapping_sub(self.ahead), bytes, prefetch_l2);
            }
            one = one.wrapping_add(self.pitch);
            other = other.wrapping_sub(self.pitch);
        }
    }
}
