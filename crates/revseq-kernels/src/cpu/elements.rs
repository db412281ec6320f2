//! Contiguous sequences of elements of 1, 2, 4, 8 or 16 bytes: reversed in registers.

use std::ops::Range;

use super::ahead::{DISTANCE, FAR, NEAR, Soon};
use super::direction::Backward;
use super::job::Job;
use super::nest::{Rounds, Run};
use super::pieces::Pieces;
use super::sink::{BLOCK, LINE, Sink};
use super::vector::{LANE, Task, V128, Vector, WIDEST, prefetch, prefetch_far};
use super::walk::{Element, Width};

/// The longest line that is reversed in place as a whole, in bytes.
const WHOLE: usize = 4 << 10;

/// From how many bytes a line on it is asked for as far as its length reaches,
/// if memory is far away.
///
/// In place, 64 MiB, Zen 4: lines of 1 KiB 1.4 times a copy by the length of an
/// earlier line, 1.1 so; of 256 bytes 1.1 and 1.2.
const FORESEEN_LINE: usize = 1 << 10;

/// How many vectors of a line are read before any is written.
const TOGETHER: usize = 4;

/// How many vectors of a line that is reversed in place are read before any is
/// written: all of them, as what is read backward lies where they are.
///
/// Of the widest each has a mask in a register, of which there are seven. Far
/// away, where that takes as long as pairs from both ends, Zen 4: AVX-512
/// 128 bytes 0.75 of those, 256 bytes 0.85 to 1.15; AVX2 0.5 and 0.65.
const fn most_in_place<V: Vector>(far_away: bool) -> usize {
    match (V::BYTES, far_away) {
        (WIDEST, true) => 3,
        (WIDEST, false) => 6,
        _ => 8,
    }
}

/// How many lengths are read at once.
const MANY: usize = 128;

/// Moves some items of a plan whose elements are packed along time on both sides.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink, const W: usize>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let all = job.plan.time.size;
    let bytes = all * W;
    let mut pieces = Pieces::new::<S>(bytes);
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(mut run) = lines.next_run(MANY) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let before = run.at.input;
        let whole = sink.takes_lanes(run.at.output | run.step.output | bytes);
        let most = match whole {
            true => S::TWICE,
            false => S::TWICE.min(BLOCK),
        };
        let stepwise = match run.steps.len() == all && (LANE..=most).contains(&bytes) {
            true if before >= bytes => 0,
            true if before + run.step.input >= bytes => 1,
            _ => run.lines,
        };
        let (first, rest) = lengths.split_at(stepwise);
        // SAFETY: see `Job`: a line has as many packed elements as time has
        // steps, and before it lies what comes before its offset in the input.
        unsafe {
            if !first.is_empty() {
                let lines = Lines::<S, W>::new(job, sink, &run, first);
                lines.copy_steps::<V>(run.steps.clone(), &mut pieces);
            }
            if !rest.is_empty() {
                pieces.finish::<V, S>(sink);
                run.at.advance(&run.step, stepwise);
                let lines = Lines::<S, W>::new(job, sink, &run, rest);
                match !S::STREAMS && bytes <= TOGETHER * V::BYTES {
                    true => apart_by_fitting::<V, _>(Together(lines), bytes),
                    false => apart_by_fitting::<V, _>(lines, bytes),
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { pieces.finish::<V, S>(sink) };
}

/// Does a task of lines of so many bytes, a lane at least, by vectors that are no longer.
///
/// # Safety
/// As [`Vector::apart`].
#[inline(always)]
unsafe fn apart_by_fitting<V: Vector, T: Task>(task: T, bytes: usize) {
    // SAFETY: the caller's.
    unsafe {
        if bytes >= V::BYTES {
            V::apart(task);
        } else if bytes >= V::Half::BYTES {
            V::Half::apart(task);
        } else {
            V128::apart(task);
        }
    }
}

/// Lines that are copied, evenly spaced.
struct Lines<'a, S, const W: usize> {
    sink: &'a mut S,
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

/// Copies short lines.
///
/// Lengths are anything, so a branch on where one ends is often mispredicted.
/// So each vector is read both ways and merged without one.
impl<S: Sink, const W: usize> Task for Lines<'_, S, W> {
    /// # Safety
    /// Every line is a vector at least, readable, and before it as many bytes;
    /// the output has room for it.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self
                .sink
                .takes_lanes(self.output | self.step.1 | self.bytes)
            {
                true => self.copy_both_ways::<V, true>(),
                false => self.copy_both_ways::<V, false>(),
            }
        }
    }
}

impl<S: Sink, const W: usize> Lines<'_, S, W> {
    /// Copies the lines; straight to their places if all are `WHOLE` lanes.
    ///
    /// # Safety
    /// As [`run`](Task::run).
    #[inline(always)]
    unsafe fn copy_both_ways<V: Vector, const WHOLE: bool>(self) {
        let bytes = self.bytes;
        let (mut line, mut output) = (self.input, self.output);
        for &length in self.lengths {
            let reversed = (length * W).min(bytes);
            let backward = line.wrapping_add(reversed).wrapping_sub(V::BYTES);
            let soon = Soon::beyond(line);
            let mut at = 0;
            // SAFETY: the caller's; every vector ends within the bytes.
            unsafe {
                self.sink.seek(output);
                let to = match WHOLE {
                    true => self.sink.lanes(bytes),
                    false => self.sink.space(bytes),
                };
                let write = |vector: V, to: *mut u8| match WHOLE {
                    true => S::write(vector, to),
                    false => vector.store(to),
                };
                while at + TOGETHER * V::BYTES <= bytes {
                    let first = both_ways::<V, W>(line, backward, reversed, at);
                    let mut vectors = [first; TOGETHER];
                    for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
                        let at = at + index * V::BYTES;
                        *vector = both_ways::<V, W>(line, backward, reversed, at);
                    }
                    for vector in vectors {
                        write(vector, to.add(at));
                        S::ask(soon.after(at), to.add(at));
                        at += V::BYTES;
                    }
                }
                while at < bytes {
                    // The last vector may lie over the one before.
                    let place = at.min(bytes - V::BYTES);
                    let vector = both_ways::<V, W>(line, backward, reversed, place);
                    write(vector, to.add(place));
                    S::ask(soon.after(at), to.add(at));
                    at += V::BYTES;
                }
            }
            line = line.wrapping_add(self.step.0);
            output = output.wrapping_add(self.step.1);
        }
    }
}

/// Lines of few vectors, each of which is read as a whole before it is written.
struct Together<'a, S, const W: usize>(Lines<'a, S, W>);

/// Copies them straight to their places, which the sink takes anywhere.
impl<S: Sink, const W: usize> Task for Together<'_, S, W> {
    /// # Safety
    /// As those of [`Lines`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller's.
        unsafe {
            with_const!(self.0.bytes.div_ceil(V::BYTES), N in [1, 2, 3] else 4 => {
                self.copy::<V, N>();
            });
        }
    }
}

impl<S: Sink, const W: usize> Together<'_, S, W> {
    /// Copies the lines of `N` vectors straight to their places.
    ///
    /// # Safety
    /// As [`run`](Task::run).
    #[inline(always)]
    unsafe fn copy<V: Vector, const N: usize>(self) {
        let Lines {
            sink,
            input: mut line,
            mut output,
            step,
            lengths,
            bytes,
        } = self.0;
        for &length in lengths {
            let soon = Soon::beyond(line);
            // SAFETY: the caller's.
            unsafe {
                let vectors = all_both_ways::<V, W, N>(line, length * W, bytes);
                sink.seek(output);
                let to = sink.lanes(bytes);
                for (vector, (at, read)) in vectors.into_iter().enumerate() {
                    S::write(read, to.add(at));
                    S::ask(soon.after(vector * V::BYTES), to.add(at));
                }
            }
            line = line.wrapping_add(step.0);
            output = output.wrapping_add(step.1);
        }
    }
}

/// The first `bytes` of a line as `N` vectors, each with its place; the last one
/// may lie over the one before. `reversed` bytes are reversed.
///
/// # Safety
/// As [`both_ways`]; a line is a vector at least.
#[inline(always)]
unsafe fn all_both_ways<V: Vector, const W: usize, const N: usize>(
    line: *const u8,
    reversed: usize,
    bytes: usize,
) -> [(usize, V); N] {
    let backward = line.wrapping_add(reversed).wrapping_sub(V::BYTES);
    let last = bytes.saturating_sub(V::BYTES);
    let at = |vector: usize| (vector * V::BYTES).min(last);
    // SAFETY: the caller's.
    let mut vectors = [(0, unsafe { both_ways::<V, W>(line, backward, reversed, 0) }); N];
    for (vector, read) in vectors.iter_mut().enumerate().skip(1) {
        let at = at(vector);
        // SAFETY: the caller's.
        *read = (at, unsafe {
            both_ways::<V, W>(line, backward, reversed, at)
        });
    }
    vectors
}

/// The vector at `at` of a line, of which `reversed` bytes are.
///
/// # Safety
/// As [`Vector::merged`]; `backward` is where the vector starts that is read
/// backward for the line's first.
#[inline(always)]
unsafe fn both_ways<V: Vector, const W: usize>(
    line: *const u8,
    backward: *const u8,
    reversed: usize,
    at: usize,
) -> V {
    let (backward, forward) = (backward.wrapping_sub(at), line.wrapping_add(at));
    // SAFETY: the caller's.
    unsafe { V::merged::<W>(backward, forward, reversed.saturating_sub(at)) }
}

impl<'a, S: Sink, const W: usize> Lines<'a, S, W> {
    /// The first lines of a run, as many as have lengths.
    #[inline(always)]
    fn new(job: &Job<'_>, sink: &'a mut S, run: &Run, lengths: &'a [usize]) -> Self {
        Self {
            sink,
            input: job.input.wrapping_add(run.at.input),
            output: run.at.output,
            step: (run.step.input, run.step.output),
            lengths,
            bytes: job.plan.time.size * W,
        }
    }

    /// Copies some steps of each.
    ///
    /// # Safety
    /// The lines are readable, and the output has room for them, until the
    /// pieces are finished.
    #[inline(always)]
    unsafe fn copy_steps<V: Vector>(
        self,
        steps: Range<usize>,
        pieces: &mut Pieces<Backward<W>, true>,
    ) {
        let (mut line, mut output) = (self.input, self.output);
        for &length in self.lengths {
            let Range { start, end } = steps;
            let middle = length.clamp(start, end);
            let reversed = line.wrapping_add(length.wrapping_sub(middle).wrapping_mul(W));
            // SAFETY: the caller's.
            unsafe {
                let (to, bytes) = (output + start * W, (middle - start) * W);
                pieces.copy::<V, S>(self.sink, true, reversed, to, bytes);
                let (to, bytes) = (output + middle * W, (end - middle) * W);
                pieces.copy::<V, S>(self.sink, false, line.add(middle * W), to, bytes);
            }
            line = line.wrapping_add(self.step.0);
            output += self.step.1;
        }
    }
}

/// Exchanges some pairs of a plan whose elements are packed along time, which
/// lie beyond the caches if they are `FAR_AWAY`.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it; `W` is the plan's `row_bytes`.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector, const W: usize, const FAR_AWAY: bool>(
    job: &Job<'_>,
    items: Range<usize>,
) {
    let all = job.nest.line.size;
    let bytes = job.plan.time.size * W;
    let mut lengths = [0; MANY];
    let mut rounds = Rounds::default();
    let mut lines = job.nest.lines(items, &mut rounds);
    while let Some(run) = lines.next_run(MANY) {
        let lengths = &mut lengths[..run.lines];
        job.lengths.read(run.at.lengths, run.step.lengths, lengths);
        let mut line = job.output.wrapping_add(run.at.output);
        let step = run.step.output;
        if run.steps.len() == all && step == bytes && bytes >= LANE {
            let (first, rest) = lengths.split_at(1);
            let longest = rest.iter().fold(0, |longest, &length| longest.max(length));
            if longest * W <= const { most_in_place::<V>(FAR_AWAY) * V::BYTES } {
                // SAFETY: see `Job`: before each of the rest lies another line of these.
                unsafe {
                    reverse::<V, W>(line, first[0]);
                    let lines = LinesInPlace::<W, FAR_AWAY> {
                        first: line.add(step),
                        bytes,
                        lengths: rest,
                        touched: longest * W,
                    };
                    apart_by_fitting::<V, _>(lines, bytes);
                }
                continue;
            }
        }
        for (index, &length) in lengths.iter().enumerate() {
            // SAFETY: see `Job`. The first steps of pairs and their mirror images
            // are two runs of packed elements that do not overlap.
            unsafe {
                if run.steps.len() == all && length * W <= WHOLE {
                    if FAR_AWAY && step >= FORESEEN_LINE {
                        // What is read of a later line is what its length says,
                        // or about as much as of the last that is known.
                        for (distance, ask) in [(NEAR, prefetch as fn(_)), (FAR, prefetch_far)] {
                            let lines = (distance / step).max(1);
                            let later = lengths[(index + lines).min(lengths.len() - 1)];
                            let place = line.wrapping_add(lines * step);
                            for byte in (0..later * W).step_by(LINE) {
                                ask(place.wrapping_add(byte));
                            }
                        }
                    } else {
                        // Short lines lie one after the other.
                        for byte in (0..length * W).step_by(LINE) {
                            prefetch(line.wrapping_add(DISTANCE + byte));
                        }
                    }
                    reverse::<V, W>(line, length);
                } else {
                    let pairs = run.steps.start..run.steps.end.min(length / 2);
                    if !pairs.is_empty() {
                        let other = line.add((length - pairs.end) * W);
                        swap_reversed::<V, W>(line.add(pairs.start * W), other, pairs.len());
                    }
                }
            }
            line = line.wrapping_add(step);
        }
    }
}

/// Lines one after the other that are reversed where they lie, beyond the caches
/// if they are `FAR_AWAY`.
struct LinesInPlace<'a, const W: usize, const FAR_AWAY: bool> {
    first: *mut u8,
    /// The bytes of a line.
    bytes: usize,
    lengths: &'a [usize],
    /// The bytes of the longest reversed prefix.
    touched: usize,
}

impl<const W: usize, const FAR_AWAY: bool> Task for LinesInPlace<'_, W, FAR_AWAY> {
    /// # Safety
    /// The lines, and as many bytes before the first as one has, are readable and
    /// writable; a line is a vector at least.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller's.
        unsafe {
            with_const!(self.touched.div_ceil(V::BYTES), N in [1, 2, 3, 4, 5, 6, 7] else 8 => {
                self.reverse::<V, N>();
            });
        }
    }
}

impl<const W: usize, const FAR_AWAY: bool> LinesInPlace<'_, W, FAR_AWAY> {
    /// Reverses them, by `N` vectors each, from the last line on: what is read
    /// backward reaches into the line before, and a processor waits for bytes
    /// that it has just written.
    ///
    /// # Safety
    /// As [`run`](Task::run), and no reversed prefix is more than `N` vectors.
    #[inline(always)]
    unsafe fn reverse<V: Vector, const N: usize>(self) {
        for (index, &length) in self.lengths.iter().enumerate().rev() {
            let line = self.first.wrapping_add(index * self.bytes);
            if FAR_AWAY {
                for byte in (0..N * V::BYTES).step_by(LINE) {
                    prefetch_far(line.wrapping_add(FAR + byte));
                }
            }
            if length <= 1 {
                continue;
            }
            // SAFETY: the caller's.
            unsafe {
                for (at, read) in all_both_ways::<V, W, N>(line, length * W, self.touched) {
                    read.store(line.add(at));
                }
            }
        }
    }
}

/// Reverses `count` packed elements.
///
/// # Safety
/// `run` is readable and writable for them.
#[inline(always)]
pub(super) unsafe fn reverse<V: Vector, const W: usize>(run: *mut u8, count: usize) {
    let (mut start, mut end) = (0, count * W);
    // SAFETY: every vector lies between start and end.
    unsafe {
        while end - start >= 2 * V::BYTES {
            end -= V::BYTES;
            swap_vectors::<V, W>(run.add(start), run.add(end));
            start += V::BYTES;
        }
        if end - start >= V::BYTES {
            // They overlap in the middle, where both write the same.
            swap_vectors::<V, W>(run.add(start), run.add(end - V::BYTES));
        } else {
            V::reverse_part::<W>(run.add(start), end - start);
        }
    }
}

/// Exchanges `count` packed elements with as many others, the first with the last.
///
/// # Safety
/// Both are readable and writable for `count` elements, and they do not overlap.
#[inline(always)]
unsafe fn swap_reversed<V: Vector, const W: usize>(one: *mut u8, other: *mut u8, count: usize) {
    let width = V::BYTES / W;
    let mut pair = 0;
    // SAFETY: the caller's; a vector on each side ends within `count` elements.
    unsafe {
        while pair + width <= count {
            let (one, other) = (one.add(pair * W), other.add((count - pair - width) * W));
            prefetch(one.wrapping_add(DISTANCE / 2));
            prefetch(other.wrapping_sub(DISTANCE / 2));
            swap_vectors::<V, W>(one, other);
            pair += width;
        }
        for pair in pair..count {
            Element::<W>.swap(one.add(pair * W), other.add((count - 1 - pair) * W));
        }
    }
}

/// Exchanges two vectors and reverses both; of two that overlap the second
/// overwrites the first.
///
/// # Safety
/// Both are readable and writable.
#[inline(always)]
unsafe fn swap_vectors<V: Vector, const W: usize>(one: *mut u8, other: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        let (first, last) = (V::load(one), V::load(other));
        last.reversed::<W>().store(one);
        first.reversed::<W>().store(other);
    }
}
