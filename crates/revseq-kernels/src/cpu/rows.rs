//! Rows of many bytes: each is copied or exchanged whole.

use std::ops::Range;

use super::ahead::Ahead;
use super::job::{Job, source};
use super::nest::Rounds;
use super::sink::{LINE, Sink};
use super::vector::{Vector, copy_inline, prefetch};
use super::walk::{Bytes, Width};

/// Up to this many bytes a row is so short that every instruction of its loop counts.
const SHORT: usize = 512;

/// How many lengths are read at once.
const MANY: usize = 64;

/// Moves the rows of some items from their place in the input to their place in the output.
///
/// # Safety
/// The nest has all time steps of the plan, and `items` are items of it; the
/// sink writes to the job's output.
#[inline(always)]
pub(super) unsafe fn copy_items<V: Vector, S: Sink>(
    job: &Job<'_>,
    sink: &mut S,
    items: Range<usize>,
) {
    let (bytes, time, line) = (job.plan.row_bytes, job.plan.time, job.nest.line);
    let mut queue = Ahead::of(bytes);
    let mut lengths = [0; MANY];
    // Which lengths were read: mostly those of the next line, too.
    let mut read = None;
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for first in steps.clone().step_by(MANY) {
            let lengths = &mut lengths[..MANY.min(steps.end - first)];
            let wanted = (at.lengths + first * line.lengths, lengths.len());
            if read != Some(wanted) {
                job.lengths.read(wanted.0, line.lengths, lengths);
                read = Some(wanted);
            }
            let to = at.output + at.time * time.output + first * line.output;
            let along_time = job.nest.along_time;
            if !S::ASKS && bytes <= SHORT {
                let short = Short {
                    from: job.input.wrapping_add(at.input),
                    to: job.output.wrapping_add(to),
                    stride: (line.input, line.output),
                    pitch: time.input,
                    bytes,
                };
                // SAFETY: see `Job`.
                unsafe {
                    match along_time {
                        true => short.copy_along_time::<V>(first, lengths[0], lengths.len()),
                        false => short.copy_across::<V>(first, at.time, lengths),
                    }
                }
                continue;
            }
            for (place, &length) in lengths.iter().enumerate() {
                // Along time the line's strides are those of time.
                let (t, column) = match along_time {
                    true => (first + place, at.input),
                    false => (at.time, at.input + (first + place) * line.input),
                };
                let to = to + place * line.output;
                // SAFETY: see `Job`.
                unsafe {
                    let from = job.input.add(column + source(length, t) * time.input);
                    if !S::ASKS {
                        sink.seek(to);
                        sink.copy(from, bytes, from);
                    } else if let Some((oldest, to)) = queue.push((from, to)) {
                        sink.seek(to);
                        sink.copy(oldest, bytes, from);
                    }
                }
            }
        }
    }
    while let Some((from, to)) = queue.pop() {
        // SAFETY: see `Job`.
        unsafe {
            sink.seek(to);
            sink.copy(from, bytes, from);
        }
    }
}

/// Short rows, one after the other on a line.
///
/// Apart from the rest, and with widths that are common known to the compiler:
/// every instruction of their loop counts.
struct Short {
    /// Where the line starts in the input: the row of its first time step.
    from: *const u8,
    /// Where the first row is written.
    to: *mut u8,
    /// How far the next row on the line is from there, in input and output.
    stride: (usize, usize),
    /// How far a time step is from the one before, in the input.
    pitch: usize,
    bytes: usize,
}

impl Short {
    /// Copies rows at one time step, from row `first` of the line on.
    ///
    /// # Safety
    /// See [`Vector`]; the rows read are readable and those written writable.
    #[inline(always)]
    unsafe fn copy_across<V: Vector>(self, first: usize, time: usize, lengths: &[usize]) {
        let (mut from, mut to) = (self.from.wrapping_add(first * self.stride.0), self.to);
        for &length in lengths {
            let row = from.wrapping_add(source(length, time) * self.pitch);
            // SAFETY: the caller's.
            unsafe { copy_short::<V>(row, to, self.bytes) };
            from = from.wrapping_add(self.stride.0);
            to = to.wrapping_add(self.stride.1);
        }
    }

    /// Copies `count` time steps from step `first` on.
    ///
    /// # Safety
    /// As [`copy_across`](Self::copy_across).
    #[inline(always)]
    unsafe fn copy_along_time<V: Vector>(self, first: usize, length: usize, count: usize) {
        let mut to = self.to;
        for t in first..first + count {
            let row = self.from.wrapping_add(source(length, t) * self.pitch);
            // SAFETY: the caller's.
            unsafe { copy_short::<V>(row, to, self.bytes) };
            to = to.wrapping_add(self.stride.1);
        }
    }
}

/// Copies a short row.
///
/// # Safety
/// See [`Vector`]; `from` is readable and `to` writable for `bytes`, and they do not overlap.
#[inline(always)]
unsafe fn copy_short<V: Vector>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            64 => copy_inline::<V>(from, to, 64),
            128 => copy_inline::<V>(from, to, 128),
            256 => copy_inline::<V>(from, to, 256),
            _ => copy_inline::<V>(from, to, bytes),
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// The job is in place, the time steps of its nest are the first ones of pairs,
/// and `items` are items of it.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector>(job: &Job<'_>, items: Range<usize>) {
    let (bytes, time) = (job.plan.row_bytes, job.plan.time.output);
    let mut queue = Ahead::of(2 * bytes);
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(items, &mut rounds) {
        for step in steps {
            let row = job.row(at, step);
            if row.time >= row.length / 2 {
                continue;
            }
            // SAFETY: see `Job`. The two time steps of a pair differ, so the rows
            // do not overlap.
            unsafe {
                let column = job.output.add(row.output);
                let pair = (column.add(row.time * time), column.add(row.source() * time));
                if let Some(oldest) = queue.push(pair) {
                    swap::<V>(oldest, bytes, pair);
                }
            }
        }
    }
    while let Some(pair) = queue.pop() {
        // SAFETY: as above.
        unsafe { swap::<V>(pair, bytes, pair) };
    }
}

/// Exchanges two rows and asks for those of `ahead`.
///
/// # Safety
/// Both rows are readable and writable for `bytes`, and they do not overlap.
#[inline(always)]
unsafe fn swap<V: Vector>(
    (one, other): (*mut u8, *mut u8),
    bytes: usize,
    ahead: (*mut u8, *mut u8),
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            prefetch(ahead.0.wrapping_add(at));
            prefetch(ahead.1.wrapping_add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                let (one, other) = (one.add(part), other.add(part));
                let (first, second) = (V::load(one), V::load(other));
                second.store(one);
                first.store(other);
            }
            at += LINE;
        }
        Bytes(bytes - at).swap(one.add(at), other.add(at));
    }
}
