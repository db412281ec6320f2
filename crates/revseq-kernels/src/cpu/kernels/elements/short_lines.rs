//! Short lines of elements, read both ways.
//!
//! Lengths are anything, so a branch on where one ends is often mispredicted,
//! which takes longer than to move a short line. So each vector of it is read
//! backward and forward, and blended without a branch.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

use crate::cpu::choice::processor;
use crate::cpu::choice::with_const::with_const;
use crate::cpu::memory::LINE;
use crate::cpu::memory::prefetch::prefetch_l2;
use crate::cpu::memory::prefetch::{L2_DISTANCE, PrefetchTargets};
use crate::cpu::memory::store_policy::StorePolicy;
use crate::cpu::simd::{LANE, SimdTask, Vector, WIDEST, run_outlined_by_width};

/// How many vectors of a line are read before any is written.
const UNROLL: usize = 4;

/// Lines that are read backward by whole vectors of which each is in two, in bytes.
///
/// Zen 4, in the cache, of the time by loads from where they lie: 64 KiB of
/// lines of 256 bytes 0.91, of 512 bytes 0.86, of 1 KiB 0.93; 1 MiB 0.95, 0.96
/// and 0.97, but of 128 bytes 1.08 and of 4 KiB 1.04.
const ACROSS: RangeInclusive<usize> = 192..=1024;

/// How many elements a byte can count.
const COUNTED: usize = 256;

/// How many vectors of a line that is reversed in place are read before any is
/// written: all of them, as what is read backward lies where they are.
///
/// 512 bytes, Zen 4, of the time by pairs from both ends: AVX-512 0.6 to 0.7 in the
/// caches, 0.8 to 0.9 beyond; by twice as many vectors 1 KiB take 0.8 to 1.15.
const MOST_VECTORS_IN_PLACE: usize = 8;

/// The most bytes of a line that is short in place.
pub(crate) const MOST_IN_PLACE: usize = MOST_VECTORS_IN_PLACE * WIDEST;

/// Lines that are copied, evenly spaced.
pub(crate) struct CopyLines<'a, S, const W: usize> {
    pub(crate) stores: &'a mut S,
    /// Where the first line starts in the input.
    pub(crate) input: *const u8,
    /// Its offset in the output.
    pub(crate) output: usize,
    /// How far the next line is from each, in input and output.
    pub(crate) step: (usize, usize),
    pub(crate) lengths: &'a [usize],
    /// The bytes of a line.
    pub(crate) bytes: usize,
}

/// Copies lines; straight to their places if those are `aligned` that the store policy takes.
///
/// # Safety
/// Every line is a lane at least, readable, and before it as many bytes; the
/// output has room for it.
#[inline(always)]
pub(crate) unsafe fn copy<V: Vector, S: StorePolicy, const W: usize>(
    lines: CopyLines<'_, S, W>,
    aligned: bool,
) {
    let bytes = lines.bytes;
    let counted = bytes <= COUNTED * W;
    // Constants are branches of their own: what they rule out is not compiled.
    // SAFETY: the caller's.
    unsafe {
        if V::MASKS && bytes == V::BYTES {
            return match aligned {
                true => V::run_outlined(InOne::<_, W, true>(lines)),
                false => V::run_outlined(InOne::<_, W, false>(lines)),
            };
        }
        if S::NON_TEMPORAL {
            return match (aligned, counted) {
                (true, true) => run_outlined_by_width::<V, _>(
                    ManyVectors::<_, W, true, true, false>(lines),
                    bytes,
                ),
                (true, false) => run_outlined_by_width::<V, _>(
                    ManyVectors::<_, W, true, false, false>(lines),
                    bytes,
                ),
                (false, _) => run_outlined_by_width::<V, _>(
                    ManyVectors::<_, W, false, false, false>(lines),
                    bytes,
                ),
            };
        }
        // What does not stream takes any lanes.
        let together = bytes <= UNROLL * V::BYTES;
        if V::ACROSS && reads_across::<V>(lines.input, lines.step.0, bytes) {
            return match (together, counted) {
                (true, _) => V::run_outlined(FewVectors::<_, W, true>(lines)),
                (_, true) => V::run_outlined(ManyVectors::<_, W, true, true, true>(lines)),
                (_, false) => V::run_outlined(ManyVectors::<_, W, true, false, true>(lines)),
            };
        }
        match (together, counted) {
            (true, _) => run_outlined_by_width::<V, _>(FewVectors::<_, W, false>(lines), bytes),
            (_, true) => V::run_outlined(ManyVectors::<_, W, true, true, false>(lines)),
            (_, false) => V::run_outlined(ManyVectors::<_, W, true, false, false>(lines)),
        }
    }
}

/// Room for a line at an offset of the output; in its place if those are `ALIGNED`.
///
/// # Safety
/// The output has room for it, and the store policy takes its lanes if `ALIGNED`.
#[inline(always)]
unsafe fn room<S: StorePolicy, const ALIGNED: bool>(
    stores: &mut S,
    output: usize,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        stores.seek(output);
        match ALIGNED {
            true => stores.reserve_aligned(bytes),
            false => stores.reserve(bytes),
        }
    }
}

/// Writes a vector to [`room`].
///
/// # Safety
/// It lies in that room, a number of lanes after its start if `ALIGNED`.
#[inline(always)]
unsafe fn write<V: Vector, S: StorePolicy, const ALIGNED: bool>(vector: V, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        match ALIGNED {
            true => S::write(vector, to),
            false => vector.store(to),
        }
    }
}

/// Lines of one vector, which is reversed in its register; straight to their places if
/// those are `ALIGNED` that the store policy takes.
struct InOne<'a, S, const W: usize, const ALIGNED: bool>(CopyLines<'a, S, W>);

impl<S: StorePolicy, const W: usize, const ALIGNED: bool> SimdTask for InOne<'_, S, W, ALIGNED> {
    /// # Safety
    /// As [`copy`]; a line is a vector.
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
            // SAFETY: the caller's.
            unsafe {
                let read = V::load(line).prefix_reversed::<W>(length);
                let to = room::<S, ALIGNED>(stores, output, bytes);
                write::<V, S, ALIGNED>(read, to);
                S::prefetch(PrefetchTargets::ahead_of(line), to);
            }
            line = line.wrapping_add(step.0);
            output = output.wrapping_add(step.1);
        }
    }
}

/// Lines that are copied a few vectors at a time, straight to their places if all
/// are `ALIGNED` that the store policy takes.
struct ManyVectors<
    'a,
    S,
    const W: usize,
    const ALIGNED: bool,
    const COUNTED: bool,
    const ACROSS: bool,
>(CopyLines<'a, S, W>);

impl<S: StorePolicy, const W: usize, const ALIGNED: bool, const COUNTED: bool, const ACROSS: bool>
    SimdTask for ManyVectors<'_, S, W, ALIGNED, COUNTED, ACROSS>
{
    /// # Safety
    /// As [`copy`], [`reads_across`] if `ACROSS`, and no line is more than
    /// [`COUNTED`] elements if `COUNTED`; a line is a vector at least.
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
            // SAFETY: the caller's; every vector ends within the bytes.
            unsafe {
                let to = room::<S, ALIGNED>(stores, output, bytes);
                let mut line = BothWays::<V, W, ACROSS>::new(line, length);
                let mut iota = V::iota::<W>(0);
                while at + UNROLL * V::BYTES <= bytes {
                    let mut vectors = [line.vector::<COUNTED>(at, iota); UNROLL];
                    for (index, vector) in vectors.iter_mut().enumerate().skip(1) {
                        iota = iota.add_each((V::BYTES / W) as u8);
                        *vector = line.vector::<COUNTED>(at + index * V::BYTES, iota);
                    }
                    iota = iota.add_each((V::BYTES / W) as u8);
                    for vector in vectors {
                        write::<V, S, ALIGNED>(vector, to.add(at));
                        S::prefetch(targets.offset(at), to.add(at));
                        at += V::BYTES;
                    }
                }
                while at < bytes {
                    // The last vector may lie over the one before.
                    let place = at.min(bytes - V::BYTES);
                    let vector = line.vector::<COUNTED>(place, V::iota::<W>(place / W));
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

/// Lines of few vectors, of which each is read as a whole before it is written to
/// its place, that the store policy takes anywhere.
struct FewVectors<'a, S, const W: usize, const ACROSS: bool>(CopyLines<'a, S, W>);

impl<S: StorePolicy, const W: usize, const ACROSS: bool> SimdTask for FewVectors<'_, S, W, ACROSS> {
    /// # Safety
    /// As [`ManyVectors`]'s.
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

impl<S: StorePolicy, const W: usize, const ACROSS: bool> FewVectors<'_, S, W, ACROSS> {
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
        // SAFETY: the caller's.
        let mut to = unsafe {
            stores.seek(output);
            stores.reserve_aligned(bytes)
        };
        for &length in lengths {
            let targets = PrefetchTargets::ahead_of(line);
            // SAFETY: the caller's.
            unsafe {
                let mut line = BothWays::<V, W, ACROSS>::new(line, length);
                let vectors = line.vectors::<N, true>(bytes);
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

/// Lines one after the other that are reversed where they lie.
pub(crate) struct ReverseLines<'a, const W: usize> {
    first: *mut u8,
    /// The bytes of a line.
    bytes: usize,
    lengths: &'a [usize],
    /// The bytes of the longest reversed prefix.
    touched: usize,
    /// Whether they lie beyond the caches.
    far_away: bool,
}

impl<'a, const W: usize> ReverseLines<'a, W> {
    /// Lines of so many bytes, as many as have lengths, of which none is longer than
    /// `longest`; beyond the caches if `far_away`.
    #[inline(always)]
    pub(crate) fn new(
        first: *mut u8,
        bytes: usize,
        lengths: &'a [usize],
        longest: usize,
        far_away: bool,
    ) -> Self {
        Self {
            first,
            bytes,
            lengths,
            touched: longest * W,
            far_away,
        }
    }

    /// Whether they are short enough, and long enough, to be read both ways.
    #[inline(always)]
    pub(crate) fn are_short<V: Vector>(&self) -> bool {
        self.bytes >= LANE && self.touched <= MOST_VECTORS_IN_PLACE * V::BYTES
    }

    /// Reverses them.
    ///
    /// # Safety
    /// They are short, and with as many bytes before the first as one has readable
    /// and writable.
    #[inline(always)]
    pub(crate) unsafe fn reverse<V: Vector>(self) {
        let bytes = self.bytes;
        // SAFETY: the caller's.
        unsafe {
            if V::MASKS && (self.touched..=bytes).contains(&V::BYTES) {
                return V::run_outlined(ReverseInOne(self));
            }
            // As in `copy`.
            if V::ACROSS
                && ACROSS.contains(&self.touched)
                && reads_across::<V>(self.first, bytes, bytes)
            {
                return V::run_outlined(ReverseFewVectors::<_, true>(self));
            }
            run_outlined_by_width::<V, _>(ReverseFewVectors::<_, false>(self), bytes);
        }
    }
}

/// Lines in place of a vector at least, whose reversed prefixes are one at most.
struct ReverseInOne<'a, const W: usize>(ReverseLines<'a, W>);

impl<const W: usize> SimdTask for ReverseInOne<'_, W> {
    /// # Safety
    /// As [`ReverseLines::reverse`]; a line is a vector at least, what is reversed one at most.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let lines = self.0;
        let mut line = lines.first;
        for &length in lines.lengths {
            if lines.far_away {
                prefetch_l2(line.wrapping_add(L2_DISTANCE));
            }
            // SAFETY: the caller's.
            unsafe { V::load(line).prefix_reversed::<W>(length).store(line) };
            line = line.wrapping_add(lines.bytes);
        }
    }
}

/// As a type, how lines in place are read.
struct ReverseFewVectors<'a, const W: usize, const ACROSS: bool>(ReverseLines<'a, W>);

impl<const W: usize, const ACROSS: bool> SimdTask for ReverseFewVectors<'_, W, ACROSS> {
    /// # Safety
    /// As [`ReverseLines::reverse`], and [`reads_across`] if `ACROSS`; a line is a
    /// vector at least.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller's.
        unsafe {
            with_const!(self.0.touched.div_ceil(V::BYTES), N in [1, 2, 3, 4, 5, 6, 7] else 8 => {
                self.reverse::<V, N>();
            });
        }
    }
}

impl<const W: usize, const ACROSS: bool> ReverseFewVectors<'_, W, ACROSS> {
    /// Reverses them, by `N` vectors each, from the last line on: what is read
    /// backward reaches into the line before, and a processor waits for bytes
    /// that it has just written.
    ///
    /// # Safety
    /// As [`run`](SimdTask::run), and no reversed prefix is more than `N` vectors.
    #[inline(always)]
    unsafe fn reverse<V: Vector, const N: usize>(self) {
        let lines = self.0;
        let ahead = L2_DISTANCE.max(lines.bytes * lines.lengths.len());
        for (index, &length) in lines.lengths.iter().enumerate().rev() {
            let line = lines.first.wrapping_add(index * lines.bytes);
            if lines.far_away {
                for byte in (0..N * V::BYTES).step_by(LINE) {
                    prefetch_l2(line.wrapping_add(ahead + byte));
                }
            }
            if length <= 1 {
                continue;
            }
            // SAFETY: the caller's.
            unsafe {
                let read = BothWays::<V, W, ACROSS>::new(line, length);
                read.reverse::<N>(line, lines.touched);
            }
        }
    }
}

/// Whether lines of so many bytes from `first` on, `step` bytes apart, may and
/// should be read [across](BothWays) vectors, by those that do it at all.
#[inline(always)]
fn reads_across<V: Vector>(first: *const u8, step: usize, bytes: usize) -> bool {
    let places = first.addr() | step | bytes;
    ACROSS.contains(&bytes) && places.is_multiple_of(V::BYTES) && processor::shuffles_two_vectors()
}

/// A line that is read both ways: its vectors, blended.
///
/// A vector that is read backward starts anywhere, so most lie in two cache lines
/// and are two loads. `ACROSS` vectors that lie in one, each of which has parts
/// of two of those, it is one.
struct BothWays<V, const W: usize, const ACROSS: bool> {
    line: *const u8,
    /// How many bytes are reversed.
    reversed: usize,
    /// Where the vector that is the line's first starts, or the whole vector that
    /// it starts in.
    backward: *const u8,
    /// How many bytes after that it starts, one at least.
    start: usize,
    /// The vector after the one that is read next, if `ACROSS`.
    high: MaybeUninit<V>,
}

impl<V: Vector, const W: usize, const ACROSS: bool> BothWays<V, W, ACROSS> {
    /// A line with a prefix of so many elements to reverse.
    ///
    /// # Safety
    /// The line is readable, a vector at least, and as many bytes before it; and
    /// a number of whole vectors if `ACROSS`, at a multiple of their bytes.
    #[inline(always)]
    unsafe fn new(line: *const u8, length: usize) -> Self {
        // To reverse one element is to reverse none, and what is read then lies
        // no further before the line than for another.
        let reversed = length.max(1) * W;
        let backward = line.wrapping_add(reversed).wrapping_sub(V::BYTES);
        if !ACROSS {
            return Self {
                line,
                reversed,
                backward,
                start: 0,
                high: MaybeUninit::uninit(),
            };
        }
        let start = backward.addr().wrapping_sub(1) % V::BYTES + 1;
        let backward = backward.wrapping_sub(start);
        Self {
            line,
            reversed,
            backward,
            start,
            // SAFETY: the caller's.
            high: MaybeUninit::new(unsafe { V::load(backward.wrapping_add(V::BYTES)) }),
        }
    }

    /// The reversed vector at `at`, if `ACROSS` the first or the one after that before.
    ///
    /// # Safety
    /// It ends within the line.
    #[inline(always)]
    unsafe fn backward(&mut self, at: usize) -> V {
        // SAFETY: the caller's, and that of `new`.
        unsafe {
            let low = V::load(self.backward.wrapping_sub(at));
            let backward = match ACROSS {
                true => V::reversed_across::<W>(low, self.high.assume_init(), self.start),
                false => low.reversed::<W>(),
            };
            self.high.write(low);
            backward
        }
    }

    /// The vector at `at`, if `ACROSS` the first or the one after that before; by
    /// the `iota` of its elements if `COUNTED`, which is fewer instructions.
    ///
    /// # Safety
    /// It ends within the line, whose elements a byte can count if `COUNTED`.
    #[inline(always)]
    unsafe fn vector<const COUNTED: bool>(&mut self, at: usize, iota: V) -> V {
        // SAFETY: the caller's, and that of `new`.
        unsafe {
            let backward = self.backward(at);
            let forward = V::load(self.line.wrapping_add(at));
            match COUNTED {
                true => backward.blend_up_to(forward, iota, (self.reversed / W - 1) as u8),
                false => backward.blend(forward, self.reversed.saturating_sub(at)),
            }
        }
    }

    /// The first `bytes` as `N` vectors, each with its place; the last one may lie
    /// over the one before. What is not reversed of them is only there if `BLENDED`.
    ///
    /// # Safety
    /// They end within the line.
    #[inline(always)]
    unsafe fn vectors<const N: usize, const BLENDED: bool>(
        &mut self,
        bytes: usize,
    ) -> [(usize, V); N] {
        let last = match ACROSS {
            true => usize::MAX,
            false => bytes.saturating_sub(V::BYTES),
        };
        // SAFETY: the caller's.
        let mut vectors = [(0, unsafe { self.vector_of::<N, BLENDED>(0) }); N];
        for (index, read) in vectors.iter_mut().enumerate().skip(1) {
            let at = (index * V::BYTES).min(last);
            // SAFETY: the caller's.
            *read = (at, unsafe { self.vector_of::<N, BLENDED>(at) });
        }
        vectors
    }

    /// Reverses the line at `to`, of which the first `bytes` are `N` vectors.
    ///
    /// # Safety
    /// It is this line, writable, and no more of it is reversed.
    #[inline(always)]
    unsafe fn reverse<const N: usize>(mut self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe {
            if !V::MASKS {
                for (at, vector) in self.vectors::<N, true>(bytes) {
                    vector.store(to.add(at));
                }
                return;
            }
            for (at, vector) in self.vectors::<N, false>(bytes) {
                if N * V::BYTES <= COUNTED * W {
                    let iota = V::iota::<W>(at / W);
                    vector.store_up_to(to.add(at), iota, (self.reversed / W - 1) as u8);
                } else {
                    vector.store_first(to.add(at), self.reversed.saturating_sub(at));
                }
            }
        }
    }

    /// As [`vector`](Self::vector), of a line of `N` vectors.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn vector_of<const N: usize, const BLENDED: bool>(&mut self, at: usize) -> V {
        // SAFETY: the caller's.
        unsafe {
            if !BLENDED {
                return self.backward(at);
            }
            let iota = V::iota::<W>(at / W);
            match N * V::BYTES <= COUNTED * W {
                true => self.vector::<true>(at, iota),
                false => self.vector::<false>(at, iota),
            }
        }
    }
}
