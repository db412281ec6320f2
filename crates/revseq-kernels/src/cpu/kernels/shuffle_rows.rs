//! Rows of less than a cache line that are packed along time, such as RGB
//! pixels: reversed by copying more than a row at a time.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::cpu::loop_nest::Rounds;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::direction::Forward;
use crate::cpu::memory::prefetch::prefetch_l1;
use crate::cpu::memory::prefetch::{PrefetchTargets, SEQUENTIAL_DISTANCE};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::{LINE, Line};
use crate::cpu::simd::bytes::copy_bytes;
use crate::cpu::simd::{SimdTask, Vector};
use crate::cpu::with_const::with_const;

/// The most that is kept aside while its place is written, in bytes.
const SAVED: usize = 4 << 10;

/// Moves some items of a plan whose rows are packed along time on both sides
/// and less than a cache line wide.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// store policy writes to the job's output.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
) {
    let (row, all) = (job.plan.row_bytes, job.plan.time.size);
    let shuffle = RowShuffle::new::<V>(row);
    let mut rounds = Rounds::default();
    // SAFETY: see `Job`: a line has as many packed rows as time has steps.
    unsafe {
        for (at, steps) in job.nest.lines(items, &mut rounds) {
            let line = job.input.add(at.input);
            let length = job.lengths.get(at.lengths).min(all);
            let reversed = steps.start.min(length)..steps.end.min(length);
            let kept = steps.start.max(length)..steps.end.max(length);
            stores.seek(at.output + steps.start * row);
            for first in reversed.clone().step_by(S::MAX_RESERVE / row) {
                let count = (S::MAX_RESERVE / row).min(reversed.end - first);
                let from = line.add((length - first - count) * row);
                V::run_outlined(Reverse {
                    from,
                    to: stores.reserve(count * row),
                    count,
                    shuffle: &shuffle,
                    ahead: from.wrapping_sub(SEQUENTIAL_DISTANCE),
                });
            }
            let from = line.add(kept.start * row);
            stores.copy::<Forward>(
                from,
                kept.len() * row,
                Some(PrefetchTargets::ahead_of(from)),
            );
        }
    }
}

/// Exchanges some pairs of a plan whose rows are packed along time and less than
/// a cache line wide.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector>(job: &Job<'_>, items: Range<usize>) {
    let row = job.plan.row_bytes;
    let shuffle = RowShuffle::new::<V>(row);
    let mut kept = [MaybeUninit::<u8>::uninit(); SAVED];
    let kept = kept.as_mut_ptr().cast::<u8>();
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        let length = job.lengths.get(at.lengths);
        let pairs = steps.start..steps.end.min(length / 2);
        for first in pairs.clone().step_by(SAVED / row) {
            let count = (SAVED / row).min(pairs.end - first);
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed rows that do not overlap.
            unsafe {
                let line = job.output.add(at.output);
                let one = line.add(first * row);
                let other = line.add((length - first - count) * row);
                kept.copy_from_nonoverlapping(one, count * row);
                V::run_outlined(Reverse {
                    from: other,
                    to: one,
                    count,
                    shuffle: &shuffle,
                    ahead: other.cast_const().wrapping_sub(SEQUENTIAL_DISTANCE),
                });
                V::run_outlined(Reverse {
                    from: kept,
                    to: other,
                    count,
                    shuffle: &shuffle,
                    ahead: one.cast_const().wrapping_add(SEQUENTIAL_DISTANCE),
                });
            }
        }
    }
}

/// Rows that are reversed together, in one vector.
struct RowShuffle {
    /// The bytes of a row.
    row: usize,
    /// How many rows a vector holds.
    rows: usize,
    /// The order of a vector's bytes that reverses them.
    order: Line,
}

impl RowShuffle {
    #[inline(always)]
    fn new<V: Vector>(row: usize) -> Self {
        let rows = V::BYTES / row;
        let mut order = Line([0; LINE]);
        for (place, to) in order.0[..rows * row].chunks_mut(row).enumerate() {
            for (byte, index) in to.iter_mut().enumerate() {
                *index = ((rows - 1 - place) * row + byte) as u8;
            }
        }
        Self { row, rows, order }
    }
}

/// Copies `count` rows in reverse order, and prefetches as many at `ahead`.
///
/// To prefetch what is not mapped would cost the search for its page each time,
/// so that a caller gives a place in its data, or near.
struct Reverse<'a> {
    from: *const u8,
    to: *mut u8,
    count: usize,
    shuffle: &'a RowShuffle,
    ahead: *const u8,
}

impl SimdTask for Reverse<'_> {
    /// # Safety
    /// `from` is readable and `to` writable for `count` rows, and they do not overlap.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let RowShuffle { row, rows, .. } = *self.shuffle;
        // So many rows a vector touches, the last one perhaps in part.
        let touched = V::BYTES.div_ceil(row);
        // SAFETY: both are valid for `count` rows; the vectors of a row are as many as it fills.
        unsafe {
            if V::SHUFFLES && rows > 1 && self.count >= touched + rows {
                self.by_vectors::<V>(touched);
            } else {
                with_const!(row.div_ceil(V::BYTES), VECTORS in [1, 2, 3] else 4 => {
                    self.one_by_one::<V, VECTORS>();
                });
            }
        }
    }
}

// What is copied past a row's end lies inside the rows on both sides, and the rows
// after it overwrite it; those at either end, where it would not, are copied for
// themselves.
impl Reverse<'_> {
    /// Where a row comes from.
    #[inline(always)]
    fn source(&self, index: usize) -> *const u8 {
        let rows = self.count.wrapping_sub(1).wrapping_sub(index);
        self.from.wrapping_add(rows.wrapping_mul(self.shuffle.row))
    }

    /// Where a row goes.
    #[inline(always)]
    fn place(&self, index: usize) -> *mut u8 {
        self.to.wrapping_add(index * self.shuffle.row)
    }

    /// Prefetches the rows at `ahead` that are as far from its end as a row from the start.
    #[inline(always)]
    fn prefetch(&self, index: usize) {
        let rows = self.count - 1 - index;
        prefetch_l1(self.ahead.wrapping_add(rows * self.shuffle.row));
    }

    /// Copies some rows, and nothing around them.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run).
    #[inline(never)]
    unsafe fn exactly(&self, rows: Range<usize>) {
        for index in rows {
            // SAFETY: a row of this index lies in the `count` rows on both sides.
            unsafe { copy_bytes(self.source(index), self.place(index), self.shuffle.row) };
        }
    }

    /// Copies them as many at a time as a vector holds, which touches `touched`.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run), and there are more rows than a vector holds and touches.
    #[inline(always)]
    unsafe fn by_vectors<V: Vector>(&self, touched: usize) {
        let rows = self.shuffle.rows;
        let ends = touched - rows;
        let (mut index, end) = (ends, self.count - touched);
        // SAFETY: rows from `ends` on have a vector's bytes before them, and up to `end` after
        // them, on both sides.
        unsafe {
            let order = V::load(self.shuffle.order.0.as_ptr());
            self.exactly(0..ends);
            loop {
                let last = index + rows - 1;
                self.prefetch(last);
                let vector = V::load(self.source(last)).shuffle(order);
                vector.store(self.place(index));
                if index == end {
                    break;
                }
                // The last vector lies over the one before it.
                index = end.min(index + rows);
            }
            self.exactly(self.count - ends..self.count);
        }
    }

    /// Copies them row by row, each by so many vectors.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run), and no row is longer.
    #[inline(always)]
    unsafe fn one_by_one<V: Vector, const VECTORS: usize>(&self) {
        let row = self.shuffle.row;
        let exact = (VECTORS * V::BYTES).div_ceil(row).min(self.count);
        let middle = exact..(self.count - exact).max(exact);
        // SAFETY: the middle rows have as many after them, on both sides, as their last vector
        // reaches past them.
        unsafe {
            self.exactly(0..middle.start);
            for index in middle.clone() {
                let (from, to) = (self.source(index), self.place(index));
                if (index * row) % LINE < row {
                    self.prefetch(index);
                }
                for vector in 0..VECTORS {
                    let at = vector * V::BYTES;
                    V::load(from.add(at)).store(to.add(at));
                }
            }
            self.exactly(middle.end..self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::level::SimdLevel;
    use crate::cpu::simd::{Portable, V128};

    /// # Safety
    /// See [`Vector`].
    unsafe fn check<V: Vector>(row: usize, count: usize) {
        const AROUND: usize = 5;
        let from: Vec<u8> = (0..row * count).map(|at| (at * 31 % 251) as u8).collect();
        let mut found = vec![0xee; row * count + 2 * AROUND];
        let mut expected = found.clone();
        for (to, from) in expected[AROUND..]
            .chunks_mut(row)
            .zip(from.chunks(row).rev())
        {
            to.copy_from_slice(from);
        }
        let shuffle = RowShuffle::new::<V>(row);
        let (from, to) = (from.as_ptr(), found[AROUND..].as_mut_ptr());
        let reverse = Reverse {
            from,
            to,
            count,
            shuffle: &shuffle,
            ahead: from,
        };
        // SAFETY: the buffers have room for the rows; the caller has the instructions.
        unsafe { V::run_outlined(reverse) };
        assert!(found == expected, "{count} rows of {row} bytes");
    }

    #[test]
    fn rows_of_every_width_are_reversed_and_nothing_around_them() {
        for row in 1..LINE {
            for count in (0..70).chain([333]) {
                // SAFETY: every level is run only where the CPU has it.
                unsafe {
                    check::<Portable>(row, count);
                    check::<V128>(row, count);
                    #[cfg(target_arch = "x86_64")]
                    {
                        use crate::cpu::simd::{V256, V512};
                        if SimdLevel::Avx2.is_supported() {
                            check::<V256>(row, count);
                        }
                        if SimdLevel::Avx512.is_supported() {
                            check::<V512>(row, count);
                        }
                    }
                }
            }
        }
        assert!(SimdLevel::Portable.is_supported());
    }
}
