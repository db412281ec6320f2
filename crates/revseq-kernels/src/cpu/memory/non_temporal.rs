//! Non-temporal stores: past the caches, in whole lanes, which the processor combines to lines.
//!
//! An ordinary store to memory that is in no cache reads the line first, so that a copy moves
//! three bytes for each two that it has to. Non-temporal stores save the read if what is written
//! in order fills whole lines. They are not in order with other stores before the fence at the
//! end, so nothing is written twice before it.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::LINE;
use super::direction::{Direction, copy_inline};
use super::prefetch::{PrefetchTargets, prefetch_l1, prefetch_l2};
use super::store_policy::StorePolicy;
use crate::cpu::simd::bytes::copy_bytes;
use crate::cpu::simd::{LANE, V128, Vector, fence};

/// From how many bytes on the buffer is written out.
const FLUSH_BYTES: usize = 1 << 10;

/// The bytes of the buffer.
const BUFFER_BYTES: usize = 2 << 10;

/// The most bytes that are reserved at once.
pub(crate) const MAX_RESERVE: usize = BUFFER_BYTES - 2 * LINE;

/// Writes past the caches, by way of a buffer where the output's lanes are not filled at once.
pub(crate) struct NonTemporal<V> {
    start: *mut u8,
    /// The lane of the output that the buffer's first byte belongs to; before the output if that
    /// starts inside its first lane, so that only wrapping arithmetic leads from here to a place
    /// in it.
    lane: *mut u8,
    /// How many bytes of the first lane are not ours.
    skip: usize,
    /// How many bytes of the buffer are filled, with those skipped.
    filled: usize,
    buffer: Buffer,
    vector: PhantomData<V>,
}

/// Aligned so that it lies in one page. [M24]
#[repr(align(2048))]
struct Buffer([MaybeUninit<u8>; BUFFER_BYTES]);

const _: () = assert!(size_of::<Buffer>() <= align_of::<Buffer>());

impl<V: Vector> NonTemporal<V> {
    pub(crate) fn new(output: *mut u8) -> Self {
        let mut stores = Self {
            start: output,
            lane: output,
            skip: 0,
            filled: 0,
            buffer: Buffer([MaybeUninit::uninit(); BUFFER_BYTES]),
            vector: PhantomData,
        };
        stores.place(output);
        stores
    }

    /// Where the buffer's bytes start, behind room for a lane that ends there.
    #[inline(always)]
    fn bytes(&mut self) -> *mut u8 {
        let start = self.buffer.0.as_mut_ptr().cast::<u8>();
        start.wrapping_add(LINE)
    }

    #[inline(always)]
    fn place(&mut self, at: *mut u8) {
        self.skip = at.addr() % LANE;
        self.lane = at.wrapping_sub(self.skip);
        self.filled = self.skip;
    }

    /// Writes what is in the buffer.
    ///
    /// # Safety
    /// As [`StorePolicy::finish`].
    #[inline(never)]
    unsafe fn flush(&mut self) {
        // SAFETY: what is left after whole lanes are the filled bytes from `skip` on, which
        // belong in the output.
        unsafe {
            self.write_lanes();
            let from = self.bytes().add(self.skip);
            let to = self.lane.wrapping_add(self.skip);
            copy_bytes(from, to, self.filled - self.skip);
        }
        self.place(self.lane.wrapping_add(self.filled));
    }

    /// Writes the whole lanes in the buffer and keeps the rest.
    ///
    /// Called rather than inlined: they are written as fast by the narrowest vectors, which need
    /// no instructions of the caller's.
    ///
    /// # Safety
    /// As [`StorePolicy::finish`].
    #[inline(never)]
    unsafe fn write_lanes(&mut self) {
        let whole = self.filled / LANE * LANE;
        if whole == 0 {
            return;
        }
        let kept = self.filled - whole;
        let from = self.bytes();
        // SAFETY: the buffer's filled bytes belong at `lane`, those skipped excepted.
        unsafe {
            let mut at = 0;
            if self.skip > 0 {
                copy_bytes(
                    from.add(self.skip),
                    self.lane.wrapping_add(self.skip),
                    LANE - self.skip,
                );
                self.skip = 0;
                at = LANE;
            }
            while at < whole {
                V128::load(from.add(at)).stream(self.lane.wrapping_add(at));
                at += LANE;
            }
            self.lane = self.lane.wrapping_add(whole);
            copy_bytes(from.add(whole), from, kept);
        }
        self.filled = kept;
    }
}

impl<V: Vector> StorePolicy for NonTemporal<V> {
    const NON_TEMPORAL: bool = true;
    const PREFETCHES: bool = true;
    const MAX_RESERVE: usize = MAX_RESERVE;

    #[inline(always)]
    fn prefetch(targets: PrefetchTargets, _: *const u8) {
        prefetch_l1(targets.l1);
        prefetch_l2(targets.l2);
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the offset is inside the output, and so is all that was given before.
        unsafe {
            let at = self.start.add(offset);
            if at != self.lane.wrapping_add(self.filled) {
                self.flush();
                self.place(at);
            }
        }
    }

    #[inline(always)]
    unsafe fn reserve(&mut self, bytes: usize) -> *mut u8 {
        if self.filled + bytes > FLUSH_BYTES + LINE {
            // SAFETY: all that was given is filled. Afterwards less than a lane is.
            unsafe { self.write_lanes() };
        }
        let at = self.bytes().wrapping_add(self.filled);
        self.filled += bytes;
        at
    }

    #[inline(always)]
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8 {
        if self.filled > 0 {
            // SAFETY: all that was given is filled, and whole lanes. Afterwards nothing is.
            unsafe { self.write_lanes() };
        }
        let at = self.lane;
        self.lane = at.wrapping_add(bytes);
        at
    }

    #[inline(always)]
    unsafe fn write<W: Vector>(vector: W, to: *mut u8) {
        // SAFETY: the room is writable, and `to` a multiple of a lane.
        unsafe { vector.stream_lanes(to) };
    }

    #[inline(always)]
    unsafe fn write_last<W: Vector>(vector: W, to: *mut u8, bytes: usize) {
        // SAFETY: the room is writable, `to` a multiple of a lane, and `bytes` whole lanes.
        unsafe { vector.stream_last_lanes(to, bytes) };
    }

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: `from` is readable and the room writable for `bytes`, which are whole lanes.
        unsafe {
            stream_lanes::<V, D, false>((from, to, bytes), 0, targets);
            if let Some(targets) = targets.and_then(|targets| targets.straddled(bytes)) {
                Self::prefetch(targets, to);
            }
        }
    }

    #[inline(always)]
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: `from` is readable, and the output has room, for all parts of `bytes`. What
        // fills lanes of the output goes straight there, once what came before it has.
        unsafe {
            let mut at = 0;
            let head = self.filled.next_multiple_of(LANE) - self.filled;
            if head + LANE <= bytes && head.is_multiple_of(D::ELEMENT) {
                if self.filled > 0 {
                    let first = from.add(D::part(0, head, bytes));
                    D::copy_partial(first, self.reserve(head), head);
                    self.write_lanes();
                }
                let (run, lanes) = ((from, self.lane, bytes), (bytes - head) / LANE * LANE);
                // The targets are those of the run's first byte.
                let targets = targets.map(|targets| targets.offset(head.wrapping_neg()));
                match run.1.addr().is_multiple_of(V::BYTES) {
                    true => stream_lanes::<V, D, true>(run, head, targets),
                    false => stream_lanes::<V, D, false>(run, head, targets),
                }
                self.lane = self.lane.add(lanes);
                at = head + lanes;
                if at < bytes {
                    let last = D::load::<V128>(from, bytes, bytes - LANE);
                    last.store(self.bytes().sub(at + LANE - bytes));
                    self.filled = bytes - at;
                    at = bytes;
                }
            }
            while at < bytes {
                let part = (bytes - at).min(FLUSH_BYTES);
                let to = self.reserve(part);
                if let Some(targets) = targets {
                    for line in (at..at + part).step_by(LINE) {
                        Self::prefetch(targets.offset(line), to);
                    }
                }
                copy_inline::<V, D>(from.add(D::part(at, part, bytes)), to, part);
                at += part;
            }
            if let Some(targets) = targets.and_then(|targets| targets.straddled(bytes)) {
                Self::prefetch(targets, self.lane);
            }
        }
    }

    unsafe fn finish(&mut self) {
        // SAFETY: all that was given is filled and inside the output.
        unsafe { self.flush() };
        fence();
    }
}

/// Writes as many whole lanes of a run past the caches as there are from `start` on, and
/// prefetches as many bytes at `targets`.
///
/// # Safety
/// As [`copy_inline`], but that the first lane is written to the given place; that is a multiple
/// of a lane, and of a vector if it is `WHOLE`.
#[inline(always)]
unsafe fn stream_lanes<V: Vector, D: Direction, const WHOLE: bool>(
    (from, mut to, bytes): (*const u8, *mut u8, usize),
    start: usize,
    targets: Option<PrefetchTargets>,
) {
    let mut at = start;
    // SAFETY: every line and lane ends within `bytes`, for which both are valid.
    unsafe {
        while at + LINE <= bytes {
            if let Some(targets) = targets {
                NonTemporal::<V>::prefetch(targets.offset(at), to);
            }
            for part in (0..LINE).step_by(V::BYTES) {
                let vector = D::load::<V>(from, bytes, at + part);
                match WHOLE {
                    true => vector.stream(to.add(part)),
                    false => vector.stream_lanes(to.add(part)),
                }
            }
            to = to.add(LINE);
            at += LINE;
        }
        if at < bytes
            && let Some(targets) = targets
        {
            NonTemporal::<V>::prefetch(targets.offset(at), to);
        }
        while at + LANE <= bytes {
            D::load::<V128>(from, bytes, at).stream(to);
            to = to.add(LANE);
            at += LANE;
        }
    }
}

/// Copies a line past the caches.
///
/// # Safety
/// `from` is readable and `to` writable for a line, and `to` is the start of one.
#[inline(always)]
pub(crate) unsafe fn stream_line<V: Vector>(from: *const u8, to: *mut u8) {
    for part in (0..LINE).step_by(V::BYTES) {
        // SAFETY: a line is a number of vectors.
        unsafe { V::load(from.add(part)).stream(to.add(part)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::choice::dispatch::run_at;
    use crate::cpu::memory::direction::Forward;
    use crate::cpu::memory::store_policy::Temporal;
    use crate::cpu::simd::SimdTask;
    use crate::cpu::simd::level::SimdLevel;
    use proptest::strategy::Strategy as _;

    /// Gives `pieces` to store policy at `offset`, by turns through `reserve` and `copy`.
    #[inline(always)]
    fn give<S: StorePolicy>(stores: &mut S, offset: usize, pieces: &[usize], input: &[u8]) {
        let mut at = 0;
        // SAFETY: the pieces lie inside the input, and the output has as many bytes.
        unsafe {
            stores.seek(offset);
            for (index, &bytes) in pieces.iter().enumerate() {
                let from = input[at..at + bytes].as_ptr();
                if bytes <= FLUSH_BYTES && index % 2 == 0 {
                    copy_bytes(from, stores.reserve(bytes), bytes);
                } else {
                    let targets = (index % 3 == 0).then(|| PrefetchTargets::ahead_of(from));
                    stores.copy::<Forward>(from, bytes, targets);
                }
                at += bytes;
            }
        }
    }

    /// Gives `pieces` to a store policy that streams.
    struct Streamed<'a> {
        output: &'a mut [u8],
        skipped: usize,
        pieces: &'a [usize],
        input: &'a [u8],
    }

    impl SimdTask for Streamed<'_> {
        #[inline(always)]
        unsafe fn run<V: Vector>(self) {
            let mut stores = NonTemporal::<V>::new(self.output.as_mut_ptr());
            give(&mut stores, self.skipped, self.pieces, self.input);
            // SAFETY: all bytes given are filled and inside the output.
            unsafe { stores.finish() };
        }
    }

    proptest::proptest! {
        #[test]
        fn streaming_writes_what_caching_writes_and_nothing_else(
            misaligned in 0_usize..LINE,
            skipped in 0_usize..300,
            pieces in proptest::collection::vec(
                proptest::prop_oneof![
                    0_usize..100,
                    (0_usize..9).prop_map(|lines| lines * LINE),
                    900_usize..1200,
                    4000_usize..9000,
                ],
                0..12,
            ),
        ) {
            let bytes: usize = pieces.iter().sum();
            let input: Vec<u8> = (0..bytes).map(|index| (index * 31 % 251) as u8).collect();
            let mut expected = vec![0xee; misaligned + skipped + bytes + 2 * LINE];
            let mut found = expected.clone();
            give(&mut Temporal::<V128, true>::new(expected[misaligned..].as_mut_ptr()), skipped, &pieces, &input);
            let mut inline = vec![0xee; expected.len()];
            give(&mut Temporal::<V128, false>::new(inline[misaligned..].as_mut_ptr()), skipped, &pieces, &input);
            proptest::prop_assert!(inline == expected);
            for level in SimdLevel::ALL.into_iter().filter(|level| level.is_supported()) {
                found.fill(0xee);
                let streamed = Streamed { output: &mut found[misaligned..], skipped, pieces: &pieces, input: &input };
                // SAFETY: the CPU has the level's instructions.
                unsafe { run_at(level, streamed) };
                proptest::prop_assert!(found == expected, "{level:?}");
            }
        }
    }
}
