//! Lines: rows one after the other along time, of which a prefix is reversed. Rows of 1, 2, 4, 8 or
//! 16 bytes are elements that vectors reverse; others are [`pixels`].

mod pixels;

use std::ops::Range;

use super::choice::Tier;
use super::simd::{LANE, SimdTask, Vector, WIDEST, fence, few, run_at};
use super::swap::{reverse, swap};
use super::walk::{Band, Job, MAX_COLUMNS, longest};
use super::with_const::with_const;
use super::write::{
    Both, CACHE_LINE, L1_DISTANCE, L2_DISTANCE, Span, prefetch_l1, prefetch_l2, prefetch_range,
    write,
};

/// The most vectors that a line is reversed in place by: all are read before any is written, as
/// they are read from where they are written.
const MAX_VECTORS_IN_PLACE: usize = 8;

/// The most bytes before a line that are read in place.
pub(crate) const MAX_BYTES_IN_PLACE: usize = MAX_VECTORS_IN_PLACE * WIDEST;

/// Number of bytes of a line that are reversed in place from both ends before more is prefetched.
const PIECE: usize = 2 << 10;

/// Number of bytes below which lines are prefetched whole in place: a branch on the length is often
/// mispredicted.
const SHORT_LINE: usize = 1 << 10;

/// Copies the rows of some items to their place, or swaps those of pairs in place.
///
/// # Safety
/// As [`rows::run`](super::rows::run); rows are packed along time on both sides, and elements or no
/// wider than a vector.
pub(crate) unsafe fn run(job: &Job<'_>, items: Range<usize>) {
    let row = job.plan.row_bytes;
    // SAFETY: this function's conditions; rows are as wide as each branch says.
    unsafe {
        match row {
            1 => run_elements::<1>(job, items),
            2 => run_elements::<2>(job, items),
            4 => run_elements::<4>(job, items),
            8 => run_elements::<8>(job, items),
            16 => run_elements::<16>(job, items),
            _ => pixels::run(job, items),
        }
    }
    if job.choice.tier == Tier::Streamed {
        fence();
    }
}

/// Runs like [`run`], for elements of `W` bytes.
///
/// # Safety
/// As [`run`].
unsafe fn run_elements<const W: usize>(job: &Job<'_>, items: Range<usize>) {
    let bytes = job.plan.time.size * W;
    let (choice, simd) = (job.choice, job.choice.simd.narrowed(bytes));
    // SAFETY: see `Job`.
    job.for_each_band(items, MAX_COLUMNS, |band| unsafe {
        let whole = band.times.len() == job.walk.steps;
        match (choice.in_place, choice.tier) {
            (true, _) if !whole => run_at(simd, SwapPairs::<W>(band)),
            _ if bytes < LANE => move_few::<W>(&band, bytes, choice.in_place),
            (true, Tier::Near) => run_at(simd, Reverse::<W, false>::new(&band, bytes)),
            (true, _) => run_at(simd, Reverse::<W, true>::new(&band, bytes)),
            (_, Tier::Near) => run_at(simd, Copy::<W, false, false> { band, bytes, whole }),
            (_, Tier::Far) => run_at(simd, Copy::<W, false, true> { band, bytes, whole }),
            (_, Tier::Streamed) => run_at(simd, Copy::<W, true, true> { band, bytes, whole }),
        }
    });
}

/// Copies lines of `bytes` bytes, less than a lane, or reverses them whole in place: each in an
/// integer, by shifts and byte swaps.
///
/// # Safety
/// The band's rows are elements of `W` bytes, packed on both sides.
unsafe fn move_few<const W: usize>(band: &Band<'_>, bytes: usize, in_place: bool) {
    let (start, end) = match in_place {
        true => (0, bytes),
        false => (band.times.start * W, band.times.end * W),
    };
    let (mut line, mut to) = (band.input, band.output);
    for &length in band.lengths {
        // SAFETY: both lie in the line, which is `bytes` bytes in both buffers (see `Job`).
        unsafe {
            let reversed = few::reverse_prefix::<W>(few::load(line, bytes), length);
            few::store(reversed >> (8 * start), to.add(start), end - start);
        }
        line = line.wrapping_add(band.input_step);
        to = to.wrapping_add(band.output_step);
    }
}

/// Copies lines.
struct Copy<'a, const W: usize, const STREAM: bool, const AHEAD: bool> {
    band: Band<'a>,
    /// The bytes of a line.
    bytes: usize,
    /// Whether all of its time steps are copied.
    whole: bool,
}

impl<const W: usize, const STREAM: bool, const AHEAD: bool> SimdTask
    for Copy<'_, W, STREAM, AHEAD>
{
    /// # Safety
    /// The band's rows are elements, packed on both sides.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { band, bytes, whole } = self;
        let lanes = (band.output.addr() | band.output_step | bytes).is_multiple_of(LANE);
        // The longest line that is blended. [M6]
        let most = match STREAM && lanes {
            false => V::BYTES * V::BYTES,
            true if V::BYTES > LANE => 16 << 10,
            true => 2 << 10,
        };
        let Range { start, end } = band.times;
        let (mut line, mut to, mut before) = (band.input, band.output, band.before);
        for &length in band.lengths {
            // SAFETY: both spans lie in the line, which has as many packed elements in both buffers
            // as time has steps (see `Job`); `before` bytes lie before it.
            unsafe {
                if whole && bytes <= most && before >= bytes {
                    write::<V, _, STREAM, AHEAD>(Both::<W>::new(line, length), to, bytes);
                } else {
                    // A prefix that ends before the steps has no elements in them.
                    let middle = length.clamp(start, end);
                    let kept = line.add(middle * W);
                    let edge = line.add((length - start.min(length)) * W);
                    let (reversed, rest) = ((middle - start) * W, (end - middle) * W);
                    let next = line.wrapping_add(band.input_step);
                    let (first, second) = (
                        Span::<W, true>::new(edge, reversed, kept),
                        Span::<W, false>::new(kept, rest, next),
                    );
                    write::<V, _, STREAM, AHEAD>(first, to.add(start * W), reversed);
                    write::<V, _, STREAM, AHEAD>(second, to.add(middle * W), rest);
                }
            }
            line = line.wrapping_add(band.input_step);
            to = to.wrapping_add(band.output_step);
            before += band.input_step;
        }
    }
}

/// Swaps some of the pairs of lines.
struct SwapPairs<'a, const W: usize>(Band<'a>);

impl<const W: usize> SimdTask for SwapPairs<'_, W> {
    /// # Safety
    /// As for [`Copy`]; the job is in place.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let band = self.0;
        let mut line = band.output;
        for &length in band.lengths {
            let Range { start, end } = band.times.start..band.times.end.min(length / 2);
            if start < end {
                // SAFETY: the first steps of pairs and their mirror images are two parts of the
                // line, which do not overlap.
                unsafe {
                    let (one, other) = (line.add(start * W), line.add((length - end) * W));
                    swap::<V, W, true>(one, other, (end - start) * W);
                }
            }
            line = line.wrapping_add(band.output_step);
        }
    }
}

/// Reverses the prefixes of whole lines where they lie.
pub(crate) struct Reverse<'a, const W: usize, const AHEAD: bool> {
    /// The start of the first line.
    pub(crate) first: *mut u8,
    /// The bytes from a line to the next.
    pub(crate) step: usize,
    /// The bytes of a line.
    pub(crate) bytes: usize,
    /// Number of readable bytes before the first line.
    pub(crate) before: usize,
    pub(crate) lengths: &'a [usize],
}

impl<'a, const W: usize, const AHEAD: bool> Reverse<'a, W, AHEAD> {
    fn new(band: &Band<'a>, bytes: usize) -> Self {
        Self {
            first: band.output,
            step: band.output_step,
            bytes,
            before: band.before,
            lengths: band.lengths,
        }
    }

    /// Reverses short ones, by `N` vectors each, from the last line on: a backward load
    /// reaches into the line before, and a load from bytes that were just stored waits for them.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run); lines are packed, no prefix is more than `N` vectors, and as much
    /// is readable before the first line, or a line if that is less.
    #[inline(always)]
    unsafe fn by_vectors<V: Vector, const N: usize>(self) {
        let last = self.bytes - V::BYTES;
        let ahead = L2_DISTANCE.max(self.bytes * self.lengths.len());
        for (index, &length) in self.lengths.iter().enumerate().rev() {
            let line = self.first.wrapping_add(index * self.bytes);
            for byte in (0..N * V::BYTES).step_by(CACHE_LINE).filter(|_| AHEAD) {
                prefetch_l2(line.wrapping_add(ahead + byte));
            }
            // Where a line is one vector, to skip it costs more than to write it as it was.
            if N > 1 && length <= 1 {
                continue;
            }
            let both = Both::<W>::new(line, length);
            let place = |index: usize| (index * V::BYTES).min(last);
            // SAFETY: each vector ends in the line, and the backward one starts no more than a
            // line, or `N` vectors, before it.
            unsafe {
                let mut vectors = [both.in_place::<V>(0); N];
                for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
                    *vector = both.in_place::<V>(place(index));
                }
                for (index, vector) in vectors.into_iter().enumerate() {
                    let (at, prefix) = (place(index), both.prefix);
                    let to = line.add(at);
                    // A byte can number the elements of short ones.
                    match N * V::BYTES <= 256 {
                        true => vector.store_prefix::<W, 256>(to, at, prefix),
                        false => vector.store_prefix::<W, MAX_BYTES_IN_PLACE>(to, at, prefix),
                    }
                }
            }
        }
    }

    /// Reverses long ones, each from both ends.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run).
    #[inline(always)]
    unsafe fn between_ends<V: Vector>(self) {
        if AHEAD && self.bytes >= SHORT_LINE {
            let parts = Parts::<W> {
                line: self.first,
                step: self.step,
                lengths: self.lengths,
                left: (self.first, 0),
            };
            let (mut soon, mut ahead) = (parts.clone(), 0);
            for (one, other, bytes) in parts {
                while ahead < L2_DISTANCE
                    && let Some((one, other, bytes)) = soon.next()
                {
                    for part in std::iter::once(one).chain(other) {
                        prefetch_range(part, bytes, prefetch_l2);
                        ahead += bytes;
                    }
                }
                ahead = ahead.saturating_sub(if other.is_some() { 2 * bytes } else { bytes });
                // SAFETY: the part lies in the prefix of a line, as does the other one after it.
                unsafe {
                    match other {
                        Some(other) => swap::<V, W, true>(one, other, bytes),
                        None => reverse::<V, W>(one, bytes),
                    }
                }
            }
            return;
        }
        let mut line = self.first;
        for &length in self.lengths {
            if AHEAD {
                prefetch_range(line.wrapping_add(L1_DISTANCE), self.bytes, prefetch_l1);
            }
            // SAFETY: the prefix lies in the line.
            unsafe { reverse::<V, W>(line, length * W) };
            line = line.wrapping_add(self.step);
        }
    }
}

impl<const W: usize, const AHEAD: bool> SimdTask for Reverse<'_, W, AHEAD> {
    /// # Safety
    /// The lines are readable and writable, packed elements of `W` bytes, and `before` bytes before
    /// the first are readable.
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        let longest = longest(self.lengths) * W;
        let most = MAX_VECTORS_IN_PLACE * V::BYTES;
        // SAFETY: this function's conditions; the backward loads of short lines lie in the line
        // before, or in `before` bytes.
        unsafe {
            if self.step != self.bytes || self.bytes < V::BYTES || longest > most {
                return self.between_ends::<V>();
            }
            if self.before < self.bytes.min(most) {
                reverse::<V, W>(self.first, self.lengths[0] * W);
                self.first = self.first.wrapping_add(self.step);
                self.lengths = &self.lengths[1..];
            }
            let vectors = longest.div_ceil(V::BYTES).max(1);
            with_const!(vectors, N in [1, 2, 3, 4, 5, 6, 7] else 8 => self.by_vectors::<V, N>());
        }
    }
}

/// The parts of lines that are swapped or reversed one after the other.
#[derive(Clone)]
struct Parts<'a, const W: usize> {
    /// The line that comes next.
    line: *mut u8,
    step: usize,
    lengths: &'a [usize],
    /// The rest of the prefix of the current line: its start and its bytes.
    left: (*mut u8, usize),
}

impl<const W: usize> Iterator for Parts<'_, W> {
    /// Two parts of as many bytes that change places, or one that is reversed where it is.
    type Item = (*mut u8, Option<*mut u8>, usize);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        while self.left.1 == 0 {
            let (&length, rest) = self.lengths.split_first()?;
            self.left = (self.line, length * W);
            self.lengths = rest;
            self.line = self.line.wrapping_add(self.step);
        }
        let (one, bytes) = self.left;
        if bytes <= 2 * PIECE {
            self.left.1 = 0;
            return Some((one, None, bytes));
        }
        self.left = (one.wrapping_add(PIECE), bytes - 2 * PIECE);
        Some((one, Some(one.wrapping_add(bytes - PIECE)), PIECE))
    }
}
