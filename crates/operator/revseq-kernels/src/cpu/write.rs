//! The loop that writes: every byte that a kernel does not swap in place goes through [`write`],
//! from a [`Source`], which maps each place of the output to a vector.
//!
//! An ordinary store to memory that is in no cache reads the cache line first, so that a copy moves
//! three bytes for each two that it has to. Non-temporal stores save that if those in order fill
//! whole cache lines. They are not ordered with other stores before the [`fence`] at the end of a
//! piece, so nothing is written twice before it.
//!
//! [`fence`]: super::simd::fence

use super::simd::{LANE, Lane, Vector, few, prefix_mask};

/// The bytes of a cache line, the unit that non-temporal stores write.
pub(crate) const CACHE_LINE: usize = 64;

/// A cache line of memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct CacheLine(pub(crate) [u8; CACHE_LINE]);

/// Distance in bytes at which the next bytes are prefetched into the first level.
///
/// A run reads its rows in no order that the hardware foresees. Too near and the bytes are not
/// there in time; too far and they have left the first level. [M8]
pub(crate) const L1_DISTANCE: usize = 4 << 10;

/// Distance for the second level, where memory is far away, in bytes. [M8]
pub(crate) const L2_DISTANCE: usize = 32 << 10;

/// Distance in bytes at which the cache lines of ordinary stores are prefetched: a store to a line
/// that is not in the first level waits for it, and the stores after it wait with it.
const STORE_DISTANCE: usize = 2 << 10;

/// Number of vectors that are read before any is written in the caches.
const UNROLL: usize = 4;

/// The bytes of an output, by their place.
pub(crate) trait Source: Copy {
    /// The bytes of an element, which is never split; 1 if there are none.
    const ELEMENT: usize;

    /// The vector at `at` bytes after the start.
    ///
    /// # Safety
    /// See [`Vector`]; it ends within the bytes of the source, and `at` is whole elements.
    unsafe fn vector<V: Vector>(self, at: usize) -> V;

    /// Writes the `bytes` bytes from `at` on, less than a lane.
    ///
    /// # Safety
    /// They are whole elements within the bytes of the source, and `to` is writable for them.
    unsafe fn few(self, at: usize, to: *mut u8, bytes: usize);

    /// The address that is read `distance` bytes after the bytes at `at`; `distance` is
    /// [`L1_DISTANCE`] or [`L2_DISTANCE`].
    fn ahead(self, at: usize, distance: usize) -> *const u8;
}

/// Neighbouring elements of `W` bytes, from `edge` on or, if `REVERSED`, from the one before `edge`
/// backward.
#[derive(Clone, Copy)]
pub(crate) struct Span<const W: usize, const REVERSED: bool> {
    edge: *const u8,
    bytes: usize,
    /// The addresses at which reading goes on after it, within the nearer distance and within the
    /// farther one.
    next: [*const u8; 2],
}

impl<const W: usize, const REVERSED: bool> Span<W, REVERSED> {
    /// `bytes` bytes; the next read starts at `next`.
    #[inline(always)]
    pub(crate) fn new(edge: *const u8, bytes: usize, next: *const u8) -> Self {
        let next = [next; 2];
        Self { edge, bytes, next }
    }

    /// A row of `bytes` bytes, a distance before the rows that start at `near` and `far`, or before
    /// their parts if it is longer than that.
    #[inline(always)]
    pub(crate) fn row(from: *const u8, bytes: usize, near: *const u8, far: *const u8) -> Self {
        Self {
            edge: from,
            bytes,
            next: [
                near.wrapping_sub(L1_DISTANCE.saturating_sub(bytes)),
                far.wrapping_sub(L2_DISTANCE.saturating_sub(bytes)),
            ],
        }
    }
}

impl<const W: usize, const REVERSED: bool> Source for Span<W, REVERSED> {
    const ELEMENT: usize = if REVERSED { W } else { 1 };

    #[inline(always)]
    unsafe fn vector<V: Vector>(self, at: usize) -> V {
        // SAFETY: the vector lies in the span, on that side of its edge.
        unsafe {
            match REVERSED {
                true => V::load(self.edge.sub(at + V::BYTES)).reversed::<W>(),
                false => V::load(self.edge.add(at)),
            }
        }
    }

    #[inline(always)]
    unsafe fn few(self, at: usize, to: *mut u8, bytes: usize) {
        // SAFETY: the elements lie in the span, and `to` is writable for them.
        unsafe {
            if !REVERSED {
                return few::copy(self.edge.add(at), to, bytes);
            }
            for place in (0..bytes).step_by(W) {
                copy_element::<W>(self.edge.sub(at + place + W), to.add(place));
            }
        }
    }

    #[inline(always)]
    fn ahead(self, at: usize, distance: usize) -> *const u8 {
        let [near, far] = self.next;
        let next = if distance == L1_DISTANCE { near } else { far };
        let ahead = at + distance;
        if self.bytes <= distance || self.bytes <= ahead {
            next.wrapping_add(ahead.wrapping_sub(self.bytes))
        } else if REVERSED {
            self.edge.wrapping_sub(ahead)
        } else {
            self.edge.wrapping_add(ahead)
        }
    }
}

/// A line of elements of `W` bytes whose first `prefix` bytes are reversed: each vector is read
/// backward and forward, and the two are blended, so that no branch depends on the length.
///
/// As many bytes as the line has are readable before it; the prefix is one element at least.
#[derive(Clone, Copy)]
pub(crate) struct Both<const W: usize> {
    pub(crate) line: *const u8,
    pub(crate) prefix: usize,
}

impl<const W: usize> Both<W> {
    /// A line with its first `length` elements reversed.
    #[inline(always)]
    pub(crate) fn new(line: *const u8, length: usize) -> Self {
        // To reverse one element is to reverse none, and then reads no further before the line.
        let prefix = length.max(1) * W;
        Self { line, prefix }
    }

    /// The vector at `at` for [`Vector::store_prefix`]; if that masks, only the prefix is right.
    ///
    /// # Safety
    /// As [`Source::vector`].
    #[inline(always)]
    pub(crate) unsafe fn in_place<V: Vector>(self, at: usize) -> V {
        // SAFETY: this function's conditions.
        unsafe {
            match V::MASKS {
                true => self.backward::<V>(at),
                false => self.vector::<V>(at),
            }
        }
    }

    /// The vector at `at` if all of it lies in the prefix.
    ///
    /// # Safety
    /// As [`Source::vector`].
    #[inline(always)]
    unsafe fn backward<V: Vector>(self, at: usize) -> V {
        // SAFETY: it starts less than a line before the line, and ends in the prefix or before.
        unsafe {
            let end = self.line.wrapping_add(self.prefix).wrapping_sub(at);
            V::load(end.wrapping_sub(V::BYTES)).reversed::<W>()
        }
    }
}

impl<const W: usize> Source for Both<W> {
    const ELEMENT: usize = W;

    #[inline(always)]
    unsafe fn vector<V: Vector>(self, at: usize) -> V {
        // SAFETY: the backward vector is readable, the forward one lies in the line, and the mask
        // is one.
        unsafe {
            let mask = V::load(prefix_mask(self.prefix.saturating_sub(at)));
            let forward = V::load(self.line.add(at));
            self.backward::<V>(at).blend(forward, mask)
        }
    }

    #[inline(always)]
    unsafe fn few(self, at: usize, to: *mut u8, bytes: usize) {
        for place in (0..bytes).step_by(W) {
            let element = at + place;
            let from = match element < self.prefix {
                true => self.prefix - W - element,
                false => element,
            };
            // SAFETY: the element lies in the line, and `to` is writable for it.
            unsafe { copy_element::<W>(self.line.add(from), to.add(place)) };
        }
    }

    #[inline(always)]
    fn ahead(self, at: usize, distance: usize) -> *const u8 {
        self.line.wrapping_add(at + distance)
    }
}

/// Copies an element.
///
/// # Safety
/// `from` is readable and `to` writable for it.
#[inline(always)]
pub(crate) unsafe fn copy_element<const W: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: both are valid for an element; arrays of bytes need no alignment.
    unsafe { *to.cast::<[u8; W]>() = *from.cast::<[u8; W]>() };
}

/// Writes the first `bytes` bytes of a source to `to`: past the caches if `STREAM`, and with
/// prefetches of the next bytes if `AHEAD`.
///
/// Whole lanes are streamed wherever they lie, as the rest of their cache line is written before or
/// after; other bytes as far as they fill cache lines.
///
/// # Safety
/// See [`Vector`]; the source has as many bytes, whole elements, and `to` is writable for them and
/// does not overlap the source.
#[inline(always)]
pub(crate) unsafe fn write<V: Vector, S: Source, const STREAM: bool, const AHEAD: bool>(
    source: S,
    to: *mut u8,
    bytes: usize,
) {
    let head = to.addr().wrapping_neg() % CACHE_LINE;
    let lanes = (to.addr() | bytes).is_multiple_of(LANE);
    let lines = head + CACHE_LINE <= bytes && head.is_multiple_of(S::ELEMENT);
    // SAFETY: every vector ends within `bytes`; streamed ones start at a multiple of their bytes.
    unsafe {
        if STREAM && (lanes || lines) {
            let mut at = head.min(bytes);
            write_edge::<V, S, AHEAD>(source, 0, to, at, lanes);
            let count = CACHE_LINE / V::BYTES;
            while at + CACHE_LINE <= bytes {
                prefetch::<S, true, AHEAD>(source, at, to);
                for vector in vectors::<V, S>(source, at, count).into_iter().take(count) {
                    vector.stream(to.add(at));
                    at += V::BYTES;
                }
            }
            return write_edge::<V, S, AHEAD>(source, at, to, bytes, lanes);
        }
        let mut at = 0;
        while AHEAD && at + CACHE_LINE <= bytes {
            prefetch::<S, STREAM, AHEAD>(source, at, to);
            for part in (at..at + CACHE_LINE).step_by(V::BYTES) {
                source.vector::<V>(part).store(to.add(part));
            }
            at += CACHE_LINE;
        }
        if at < bytes {
            prefetch::<S, STREAM, AHEAD>(source, at, to);
        }
        match bytes < V::BYTES {
            true => write_part::<V, S>(source, 0, to, bytes),
            false => write_vectors::<V, S, AHEAD>(source, at, to, bytes),
        }
    }
}

/// Some vectors from `at` on, of which the first `count` are those of the source.
///
/// # Safety
/// As [`Source::vector`], for each.
#[inline(always)]
unsafe fn vectors<V: Vector, S: Source>(source: S, at: usize, count: usize) -> [V; UNROLL] {
    // SAFETY: this function's conditions.
    unsafe {
        let mut vectors = [source.vector::<V>(at); UNROLL];
        for (index, vector) in vectors.iter_mut().enumerate().take(count).skip(1) {
            *vector = source.vector::<V>(at + index * V::BYTES);
        }
        vectors
    }
}

/// Writes the bytes from `at` to `end` by vectors, of which the last one overlaps the one
/// before.
///
/// # Safety
/// As [`write`]; both ends lie in its bytes, a vector's worth at least.
#[inline(always)]
unsafe fn write_vectors<V: Vector, S: Source, const AHEAD: bool>(
    source: S,
    mut at: usize,
    to: *mut u8,
    end: usize,
) {
    // SAFETY: every vector ends within the bytes.
    unsafe {
        while !AHEAD && at + UNROLL * V::BYTES <= end {
            for vector in vectors::<V, S>(source, at, UNROLL) {
                vector.store(to.add(at));
                at += V::BYTES;
            }
        }
        let last = end - V::BYTES;
        while at < last {
            source.vector::<V>(at).store(to.add(at));
            at += V::BYTES;
        }
        if at < end {
            source.vector::<V>(last).store(to.add(last));
        }
    }
}

/// Writes the bytes from `at` to `end`, and nothing around them, by ordinary stores.
///
/// # Safety
/// As [`write`]; both ends lie in its bytes.
#[inline(always)]
unsafe fn write_part<V: Vector, S: Source>(source: S, at: usize, to: *mut u8, end: usize) {
    let bytes = end - at;
    // SAFETY: there is as much as each branch needs.
    unsafe {
        if bytes >= V::BYTES {
            write_vectors::<V, S, true>(source, at, to, end);
        } else if bytes >= V::Half::BYTES {
            write_vectors::<V::Half, S, true>(source, at, to, end);
        } else if bytes >= LANE {
            write_vectors::<Lane<V>, S, true>(source, at, to, end);
        } else {
            source.few(at, to.add(at), bytes);
        }
    }
}

/// Writes the bytes from `at` to `end`, less than a cache line: streamed if they are whole `lanes`.
///
/// # Safety
/// As [`write_part`]; both ends of the output are multiples of a lane if `lanes`.
#[inline(always)]
unsafe fn write_edge<V: Vector, S: Source, const AHEAD: bool>(
    source: S,
    at: usize,
    to: *mut u8,
    end: usize,
    lanes: bool,
) {
    if at == end {
        return;
    }
    prefetch::<S, true, AHEAD>(source, at, to);
    // SAFETY: the lanes lie between both ends.
    unsafe {
        if !lanes {
            return write_part::<V, S>(source, at, to, end);
        }
        for lane in (at..end).step_by(LANE) {
            source.vector::<Lane<V>>(lane).stream(to.add(lane));
        }
    }
}

/// Prefetches the bytes that are read soon after those at `at`, and the place where they are
/// written if through the caches.
#[inline(always)]
fn prefetch<S: Source, const STREAM: bool, const AHEAD: bool>(source: S, at: usize, to: *mut u8) {
    if AHEAD {
        prefetch_l1(source.ahead(at, L1_DISTANCE));
        match STREAM {
            true => prefetch_l2(source.ahead(at, L2_DISTANCE)),
            false => prefetch_l1(to.wrapping_add(at + STORE_DISTANCE)),
        }
    }
}

/// Prefetches every cache line that has some of these bytes.
#[inline(always)]
pub(crate) fn prefetch_range(from: *const u8, bytes: usize, prefetch: impl Fn(*const u8)) {
    let before = from.addr() % CACHE_LINE;
    let first = from.wrapping_sub(before);
    for at in (0..before + bytes).step_by(CACHE_LINE) {
        prefetch(first.wrapping_add(at));
    }
}

/// Prefetches the cache line of an address that is read soon, into the first level.
#[inline(always)]
pub(crate) fn prefetch_l1(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address has no effect but speed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(from.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; Rust's own name for this instruction is not stable.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) from, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    let _ = from;
}

/// Prefetches the cache line of an address that is read later, into the second level.
///
/// Twice: a processor that is busy drops some prefetches. [M10]
#[inline(always)]
pub(crate) fn prefetch_l2(from: *const u8) {
    for _ in 0..2 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as for [`prefetch_l1`].
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(from.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as for [`prefetch_l1`].
        unsafe {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) from, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        let _ = from;
    }
}
