//! Short lines of elements along time, reversed without a branch on where the prefix ends.
//!
//! Lengths are unpredictable, and a mispredicted branch takes longer than a short line. So each
//! vector of a line is read twice, backward and forward, and the two are blended.

use std::ops::Range;

use super::long_lines::{MAX_LENGTHS, runs};
use crate::cpu::loop_nest::job::{Job, longest};
use crate::cpu::loop_nest::{Rounds, Run};
use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::{Backward, Direction, Forward};
use crate::cpu::memory::prefetch::{L2_DISTANCE, PrefetchTargets, prefetch_l2};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::memory::swap_queue::exchange;
use crate::cpu::simd::{LANE, SimdTask, Vector, WIDEST, prefix_mask, run_outlined_by_width};
use crate::cpu::with_const::with_const;

/// How many vectors of a line are read before any is written.
const UNROLL: usize = 4;

/// The most vectors that a line is reversed in place by: all are read before any is written, as
/// what is read backward lies where they are.
pub(crate) const MAX_VECTORS_IN_PLACE: usize = 8;

/// The most bytes of a prefix whose elements of any width a byte can number.
const MAX_NUMBERED: usize = 256;

/// The most bytes before the first line that [`ReverseLines`] reads.
pub(crate) const MAX_BYTES_IN_PLACE: usize = MAX_VECTORS_IN_PLACE * WIDEST;

/// Copies some items of a plan whose elements are packed along time on both sides; straight to
/// their places if `aligned`, which non-temporal stores then are.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the store policy
/// writes to the job's output; `W` is the plan's `row_bytes`, and a line is a lane at least. If
/// `aligned`, the output and every line in it start and end at multiples of a lane; if not, a
/// line is at most what the store policy reserves at once.
#[inline(always)]
pub(crate) unsafe fn copy_items<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
    aligned: bool,
) {
    let all = job.plan.time.size;
    let bytes = all * W;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(Run {
        mut at,
        step,
        lines: count,
        steps,
    }) = lines.next_run(MAX_LENGTHS)
    {
        let lengths = &mut lengths[..count];
        job.lengths.read(at.lengths, step.lengths, lengths);
        // Backward vectors reach up to a line's bytes before it: the first line of a buffer,
        // and a line in parts, are copied as two runs.
        let as_runs = match steps.len() == all {
            true if at.input >= bytes => 0,
            true if at.input + step.input >= bytes => 1,
            _ => count,
        };
        let (first, rest) = lengths.split_at(as_runs);
        // SAFETY: a line has as many packed elements in both buffers as time has steps (see
        // `Job`), and at least `bytes` bytes of the input come before each of the rest.
        unsafe {
            for &length in first {
                for run in runs::<W>(job, at, length, &steps) {
                    stores.seek(run.to);
                    match run.reversed {
                        true => stores.copy::<Backward<W>>(run.from, run.bytes, None),
                        false => stores.copy::<Forward>(run.from, run.bytes, None),
                    }
                }
                at.advance(&step, 1);
            }
            if !rest.is_empty() {
                let lines = CopyLines::<_, W> {
                    stores: &mut *stores,
                    input: job.input.add(at.input),
                    output: at.output,
                    step: (step.input, step.output),
                    lengths: rest,
                    bytes,
                };
                lines.copy::<V>(aligned);
            }
        }
    }
}

/// Lines that are copied, evenly spaced.
struct CopyLines<'a, S, const W: usize> {
    stores: &'a mut S,
    /// Where the first line starts in the input.
    input: *const u8,
    /// Its offset in the output.
    output: usize,
    /// How far the next line is from each, in input and output.
    step: (usize, usize),
    lengths: &'a [usize],
    /// The bytes of a line.
    bytes: usize,
}

impl<S: StorePolicy, const W: usize> CopyLines<'_, S, W> {
    /// Copies them.
    ///
    /// # Safety
    /// Every line is a lane at least, readable, and before it as many bytes; the output has room
    /// for it, as [`copy_items`] says of `aligned`.
    #[inline(always)]
    unsafe fn copy<V: Vector>(self, aligned: bool) {
        let bytes = self.bytes;
        // A constant is a branch of its own, so that what it rules out is not compiled.
        // SAFETY: this function's conditions are those of the tasks; the widths fit the lines.
        unsafe {
            if S::NON_TEMPORAL {
                match aligned {
                    true => run_outlined_by_width::<V, _>(ManyVectors::<_, W, true>(self), bytes),
                    false => run_outlined_by_width::<V, _>(ManyVectors::<_, W, false>(self), bytes),
                }
            } else if bytes <= UNROLL * V::BYTES {
                run_outlined_by_width::<V, _>(FewVectors(self), bytes);
            } else {
                V::run_outlined(ManyVectors::<_, W, true>(self));
            }
        }
    }
}

/// Copies lines a few vectors at a time.
struct ManyVectors<'a, S, const W: usize, const ALIGNED: bool>(CopyLines<'a, S, W>);

impl<S: StorePolicy, const W: usize, const ALIGNED: bool> SimdTask
    for ManyVectors<'_, S, W, ALIGNED>
{
    /// # Safety
    /// As [`CopyLines::copy`], with a line of a vector at least.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let CopyLines {
            stores,
            input: mut line,
            mut output,
            step,
            lengths,
            bytes,
        } = self.0;
        for &length in lengths {
            let targets = PrefetchTargets::ahead_of(line);
            let mut at = 0;
            // SAFETY: every vector ends within the line's bytes, which are readable, and for
            // which the output has room.
            unsafe {
                stores.seek(output);
                let to = match ALIGNED {
                    true => stores.reserve_aligned(bytes),
                    false => stores.reserve(bytes),
                };
                let line = BothWays::<W>::new::<V>(line, length);
                while at + UNROLL * V::BYTES <= bytes {
                    let mut vectors = [line.vector::<V>(at); UNROLL];
                    for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
                        *vector = line.vector::<V>(at + index * V::BYTES);
                    }
                    for vector in vectors {
                        match ALIGNED {
                            true => S::write(vector, to.add(at)),
                            false => vector.store(to.add(at)),
                        }
                        S::prefetch(targets.offset(at), to.add(at));
                        at += V::BYTES;
                    }
                }
                while at < bytes {
                    // The last vector may lie over the one before.
                    let place = at.min(bytes - V::BYTES);
                    let vector = line.vector::<V>(place);
                    match ALIGNED {
                        true => S::write_last(vector, to.add(place), bytes - at),
                        false => vector.store(to.add(place)),
                    }
                    S::prefetch(targets.offset(at), to.add(at));
                    at += V::BYTES;
                }
            }
            line = line.wrapping_add(step.0);
            output = output.wrapping_add(step.1);
        }
    }
}

/// Copies lines of at most [`UNROLL`] vectors, each read as a whole before it is written.
struct FewVectors<'a, S, const W: usize>(CopyLines<'a, S, W>);

impl<S: StorePolicy, const W: usize> SimdTask for FewVectors<'_, S, W> {
    /// # Safety
    /// As [`ManyVectors`]'s.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: a line is at most four vectors.
        unsafe {
            with_const!(self.0.bytes.div_ceil(V::BYTES), N in [1, 2, 3] else 4 => {
                self.copy::<V, N>();
            });
        }
    }
}

impl<S: StorePolicy, const W: usize> FewVectors<'_, S, W> {
    /// Copies the lines, of `N` vectors each.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run).
    #[inline(always)]
    unsafe fn copy<V: Vector, const N: usize>(self) {
        let CopyLines {
            stores,
            input: mut line,
            output,
            step,
            lengths,
            bytes,
        } = self.0;
        // SAFETY: the output has room for the first line, and so for each after it.
        let mut to = unsafe {
            stores.seek(output);
            stores.reserve_aligned(bytes)
        };
        for &length in lengths {
            let targets = PrefetchTargets::ahead_of(line);
            // SAFETY: every vector ends within the line's bytes, which are readable, and for
            // which the output has room.
            unsafe {
                let line = BothWays::<W>::new::<V>(line, length);
                let vectors = line.vectors::<V, N, true>(bytes);
                for (vector, (at, read)) in vectors.into_iter().enumerate() {
                    S::write(read, to.add(at));
                    S::prefetch(targets.offset(vector * V::BYTES), to.add(at));
                }
            }
            line = line.wrapping_add(step.0);
            to = to.wrapping_add(step.1);
        }
    }
}

/// Swaps some pairs of a plan whose elements are packed along time, and whose lines are packed,
/// too; beyond the caches if `prefetches`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs, and `items`
/// are items of it; `W` is the plan's `row_bytes`; a line is a lane at least, and no reversed
/// prefix more than [`MAX_VECTORS_IN_PLACE`].
#[inline(always)]
pub(crate) unsafe fn swap_items<V: Vector, const W: usize>(
    job: &Job<'_>,
    items: Range<usize>,
    prefetches: bool,
) {
    let bytes = job.plan.time.size * W;
    let mut lengths = [0; MAX_LENGTHS];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MAX_LENGTHS) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        // SAFETY: the lines lie one after the other (see `Job`), so that one lies before each
        // but the first; the two runs of pairs of a line do not overlap.
        unsafe {
            let line = job.output.add(run.at.output);
            let (first, rest) = (lengths[0], &lengths[1..]);
            if run.steps.len() < job.nest.line.size {
                // A line in parts is a run of its own.
                let pairs = run.steps.start..run.steps.end.min(first / 2);
                if !pairs.is_empty() {
                    let mirror = line.add((first - pairs.end) * W);
                    let one = line.add(pairs.start * W);
                    exchange::<V, Backward<W>>(one, mirror, pairs.len() * W);
                }
                continue;
            }
            Backward::<W>::reverse_in_place::<V>(line, first * W);
            let second = line.wrapping_add(bytes);
            ReverseLines::<W>::new(second, bytes, rest, longest(rest), prefetches).reverse::<V>();
        }
    }
}

/// Lines one after the other that are reversed where they lie.
pub(crate) struct ReverseLines<'a, const W: usize> {
    first: *mut u8,
    /// The bytes of a line.
    bytes: usize,
    lengths: &'a [usize],
    /// The bytes of the longest reversed prefix.
    longest: usize,
    prefetches: bool,
}

impl<'a, const W: usize> ReverseLines<'a, W> {
    /// Lines of so many bytes, as many as have lengths, of which none is more than `longest`;
    /// beyond the caches if `prefetches`.
    #[inline(always)]
    pub(crate) fn new(
        first: *mut u8,
        bytes: usize,
        lengths: &'a [usize],
        longest: usize,
        prefetches: bool,
    ) -> Self {
        Self {
            first,
            bytes,
            lengths,
            longest: longest * W,
            prefetches,
        }
    }

    /// Whether they are short enough, and long enough, to be reversed by blending.
    #[inline(always)]
    pub(crate) fn are_short<V: Vector>(&self) -> bool {
        self.bytes >= LANE && self.longest <= MAX_VECTORS_IN_PLACE * V::BYTES
    }

    /// Reverses them.
    ///
    /// # Safety
    /// They [are short](Self::are_short), and with as many bytes before the first as the
    /// vectors of a prefix have readable and writable.
    #[inline(always)]
    pub(crate) unsafe fn reverse<V: Vector>(self) {
        let bytes = self.bytes;
        // SAFETY: this function's conditions are those of the task.
        unsafe { run_outlined_by_width::<V, _>(self, bytes) };
    }

    /// Reverses them, by `N` vectors each, from the last line on: what is read backward reaches
    /// into the line before, and a load from bytes that were just stored waits for them.
    ///
    /// # Safety
    /// As [`reverse`](Self::reverse), and no prefix is more than `N` vectors.
    #[inline(always)]
    unsafe fn by_vectors<V: Vector, const N: usize>(self) {
        let ahead = L2_DISTANCE.max(self.bytes * self.lengths.len());
        for (index, &length) in self.lengths.iter().enumerate().rev() {
            let line = self.first.wrapping_add(index * self.bytes);
            if self.prefetches {
                for byte in (0..N * V::BYTES).step_by(LINE) {
                    prefetch_l2(line.wrapping_add(ahead + byte));
                }
            }
            // Where a line is one vector, to skip it costs more than to write it as it was.
            if N > 1 && length <= 1 {
                continue;
            }
            // SAFETY: the prefix, in whole vectors or a line, is readable and writable, and so
            // is as much before it.
            unsafe {
                let read = BothWays::<W>::new::<V>(line, length);
                if V::MASKS {
                    for (at, vector) in read.vectors::<V, N, false>(self.longest) {
                        match N * V::BYTES <= MAX_NUMBERED {
                            true => {
                                vector.store_prefix::<W, MAX_NUMBERED>(
                                    line.add(at),
                                    at,
                                    read.reversed,
                                );
                            }
                            false => {
                                vector.store_prefix::<W, MAX_BYTES_IN_PLACE>(
                                    line.add(at),
                                    at,
                                    read.reversed,
                                );
                            }
                        }
                    }
                } else {
                    for (at, vector) in read.vectors::<V, N, true>(self.longest) {
                        vector.store(line.add(at));
                    }
                }
            }
        }
    }
}

impl<const W: usize> SimdTask for ReverseLines<'_, W> {
    /// # Safety
    /// As [`reverse`](Self::reverse); a line is a vector at least.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: no prefix is more than eight vectors.
        unsafe {
            with_const!(self.longest.div_ceil(V::BYTES), N in [1, 2, 3, 4, 5, 6, 7] else 8 => {
                self.by_vectors::<V, N>();
            });
        }
    }
}

/// A line that is read both ways.
#[derive(Clone, Copy)]
struct BothWays<const W: usize> {
    line: *const u8,
    /// How many bytes are reversed.
    reversed: usize,
    /// Where the backward vector starts that is the line's first.
    backward: *const u8,
}

impl<const W: usize> BothWays<W> {
    /// A line with a prefix of so many elements to reverse, read by vectors of `V`.
    #[inline(always)]
    fn new<V: Vector>(line: *const u8, length: usize) -> Self {
        // To reverse one element is to reverse none, and then reads no further before the line.
        let reversed = length.max(1) * W;
        Self {
            line,
            reversed,
            backward: line.wrapping_add(reversed).wrapping_sub(V::BYTES),
        }
    }

    /// The vector at `at`, of which what is in the prefix is reversed.
    ///
    /// # Safety
    /// It ends within the line, which is readable and as many bytes before it.
    #[inline(always)]
    unsafe fn vector<V: Vector>(self, at: usize) -> V {
        // SAFETY: the backward vector starts less than a line before the line and ends in its
        // prefix or before; the forward one ends within the line; the mask is readable.
        unsafe {
            let mask = V::load_mask(prefix_mask(self.reversed.saturating_sub(at)));
            let forward = V::load(self.line.wrapping_add(at));
            self.backward::<V>(at).blend(forward, mask)
        }
    }

    /// The vector at `at` if it lies in the prefix.
    ///
    /// # Safety
    /// As [`vector`](Self::vector).
    #[inline(always)]
    unsafe fn backward<V: Vector>(self, at: usize) -> V {
        // SAFETY: it starts less than a line before the line and ends in its prefix or before.
        unsafe { V::load(self.backward.wrapping_sub(at)).reversed::<W>() }
    }

    /// The first `bytes` bytes as `N` vectors, each with its place; the last one may lie over the
    /// one before. What is not in the prefix is only there if `BLENDED`.
    ///
    /// # Safety
    /// As [`vector`](Self::vector) of each.
    #[inline(always)]
    unsafe fn vectors<V: Vector, const N: usize, const BLENDED: bool>(
        self,
        bytes: usize,
    ) -> [(usize, V); N] {
        let last = bytes.saturating_sub(V::BYTES);
        // SAFETY: the first vector ends within the line, and no other starts after `last`.
        unsafe {
            let mut vectors = [(0, self.read::<V, BLENDED>(0)); N];
            for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
                let at = (index * V::BYTES).min(last);
                *vector = (at, self.read::<V, BLENDED>(at));
            }
            vectors
        }
    }

    /// The vector at `at`, as for [`vectors`](Self::vectors).
    ///
    /// # Safety
    /// As [`vector`](Self::vector).
    #[inline(always)]
    unsafe fn read<V: Vector, const BLENDED: bool>(self, at: usize) -> V {
        // SAFETY: the conditions are the same.
        unsafe {
            match BLENDED {
                true => self.vector::<V>(at),
                false => self.backward::<V>(at),
            }
        }
    }
}
