//! Where a kernel's bytes go, in the order of the output.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::{Direction, copy_inline};
use crate::cpu::memory::prefetch::PrefetchTargets;
use crate::cpu::memory::prefetch::{prefetch_l1, prefetch_l2};
use crate::cpu::simd::bytes::copy_bytes;
use crate::cpu::simd::{LANE, V128, Vector, fence};

/// How far ahead of what is written through the caches the next is prefetched, in bytes.
///
/// A store to a line that is not in the innermost cache waits for it, and the
/// stores after it wait with it. Measured best at 1 to 4 KiB.
const STORE_DISTANCE: usize = 2 << 10;

/// From how many bytes on what goes past the caches by way of a buffer leaves it.
const FLUSH_BYTES: usize = 1 << 10;

/// The bytes of that buffer.
const BUFFER_BYTES: usize = 2 << 10;

/// Takes the output's bytes in order.
pub(crate) trait StorePolicy {
    /// Whether what is written goes past the caches.
    const NON_TEMPORAL: bool;

    /// Whether the run is so large that it pays to prefetch what is read next.
    const PREFETCHES: bool;

    /// The most bytes that [`reserve`](Self::reserve) gives at once.
    const MAX_RESERVE: usize;

    /// The longest run, in bytes, that is read twice rather than by a branch on
    /// where it turns, which is often mispredicted: wide vectors read fast.
    ///
    /// Runs of anywhere reversed prefixes, 1 MiB, Zen 4, by that branch and
    /// twice: AVX-512 512 bytes 2.0 and 1.3 times a copy, 2 KiB 1.27 and 1.11,
    /// 4 KiB 1.15 both; AVX2 512 bytes 2.0 and 1.5, 1 KiB 1.4 and 1.3, 4 KiB 1.1
    /// and 1.4; SSE2 256 bytes 3.5 both, 1 KiB 1.9 and 2.4. Past the caches 16 KiB
    /// 1.25 and 1.2 by wide vectors, by SSE2 1 KiB 1.7 and 1.55.
    const MAX_BLENDED: usize;

    /// Prefetches the lines that are read soon, and for the one that is written
    /// soon after the one at `to`, where that pays.
    fn prefetch(targets: PrefetchTargets, to: *const u8);

    /// Goes on at an offset of the output, in bytes.
    ///
    /// # Safety
    /// The offset is inside the output, and all bytes before it that were given are.
    unsafe fn seek(&mut self, offset: usize);

    /// Room for the next bytes, which the caller then fills.
    ///
    /// # Safety
    /// `bytes` is at most [`MAX_RESERVE`](Self::MAX_RESERVE), and the output has room for them.
    unsafe fn reserve(&mut self, bytes: usize) -> *mut u8;

    /// Whether [`reserve_aligned`](Self::reserve_aligned) takes what starts and ends at multiples of
    /// `offset`, in bytes.
    fn is_aligned(&self, offset: usize) -> bool;

    /// Room for the next bytes, which the caller then fills by [`write`](Self::write).
    ///
    /// # Safety
    /// The output has room for them, and [`is_aligned`](Self::is_aligned).
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8;

    /// Writes a vector of [`reserve_aligned`](Self::reserve_aligned).
    ///
    /// # Safety
    /// As [`Vector::store`], and the vector starts a number of lanes after the first.
    unsafe fn write<V: Vector>(vector: V, to: *mut u8);

    /// Writes a vector of [`reserve_aligned`](Self::reserve_aligned) of which all but the last `bytes`
    /// bytes, if those are less, have been written already.
    ///
    /// # Safety
    /// As [`write`](Self::write), and `bytes` are whole lanes if the stores are non-temporal.
    unsafe fn write_last<V: Vector>(vector: V, to: *mut u8, bytes: usize);

    /// Copies a run to a place in the room of [`reserve_aligned`](Self::reserve_aligned), and prefetches as
    /// many bytes that are read soon, if any and if that pays.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, the room has as many
    /// from `to` on, and both are whole lanes if the stores are non-temporal.
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    );

    /// Copies the next bytes, and prefetches as many that are read soon, if any and
    /// if that pays.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, and the output
    /// has room for them.
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    );

    /// Writes what has not been written yet.
    ///
    /// # Safety
    /// All bytes that were given room for are filled and inside the output.
    unsafe fn finish(&mut self);
}

/// Writes straight to the output, through the caches; `PREFETCHES` if that pays, which
/// it does not in the innermost one.
pub(crate) struct Temporal<V, const PREFETCHES: bool> {
    start: *mut u8,
    at: *mut u8,
    vector: PhantomData<V>,
}

impl<V, const PREFETCHES: bool> Temporal<V, PREFETCHES> {
    pub(crate) fn new(output: *mut u8) -> Self {
        Self {
            start: output,
            at: output,
            vector: PhantomData,
        }
    }
}

impl<V: Vector, const PREFETCHES: bool> StorePolicy for Temporal<V, PREFETCHES> {
    const NON_TEMPORAL: bool = false;
    const PREFETCHES: bool = PREFETCHES;
    const MAX_RESERVE: usize = usize::MAX;
    const MAX_BLENDED: usize = V::BYTES * V::BYTES;

    #[inline(always)]
    fn prefetch(targets: PrefetchTargets, to: *const u8) {
        if PREFETCHES {
            prefetch_l1(targets.l1);
            prefetch_l1(to.wrapping_add(STORE_DISTANCE));
        }
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the caller's.
        self.at = unsafe { self.start.add(offset) };
    }

    #[inline(always)]
    unsafe fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let at = self.at;
        // SAFETY: the caller's.
        self.at = unsafe { at.add(bytes) };
        at
    }

    #[inline(always)]
    fn is_aligned(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.reserve(bytes) }
    }

    #[inline(always)]
    unsafe fn write<W: Vector>(vector: W, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { vector.store(to) };
    }

    #[inline(always)]
    unsafe fn write_last<W: Vector>(vector: W, to: *mut u8, _: usize) {
        // SAFETY: the caller's. What was written before is written as it was.
        unsafe { vector.store(to) };
    }

    #[inline(always)]
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let to = self.reserve(bytes);
            Self::copy_to::<D>(from, to, bytes, targets);
        }
    }

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: the caller's; the output and what is read do not overlap.
        unsafe {
            match targets {
                Some(targets) if PREFETCHES => {
                    copy_prefetching::<V, Self, D>(from, to, bytes, targets)
                }
                _ => copy_inline::<V, D>(from, to, bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(&mut self) {}
}

/// Writes past the caches, by lanes, which the processor puts together to lines.
///
/// An ordinary store to memory that is in no cache reads the line first, so a
/// copy moves three bytes for each two that it has to. Non-temporal stores save
/// the read, if what is written in order fills whole lines. Nothing is written
/// twice before the fence at the end, as such stores are not in order with others.
pub(crate) struct NonTemporal<V> {
    start: *mut u8,
    /// The lane of the output that the buffer's first byte belongs to; before the
    /// output, if that starts inside its first lane, so that only wrapping
    /// arithmetic leads from here to a place in it.
    lane: *mut u8,
    /// How many bytes of the first lane are not ours.
    skip: usize,
    /// How many bytes of the buffer are filled, with those skipped.
    filled: usize,
    buffer: Buffer,
    vector: PhantomData<V>,
}

/// Aligned so that it lies in one page: where it went on in a second one, of
/// which the stack's place decides, copies took three times as long (Zen 4).
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
        // What a lane that is filled later is loaded with.
        stores.buffer.0[..LINE].fill(MaybeUninit::new(0));
        stores.place(output);
        stores
    }

    /// Where the buffer's bytes start, behind room for a vector that ends there.
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
        // SAFETY: the caller's.
        unsafe {
            self.write_lanes();
            let from = self.bytes().add(self.skip);
            let to = self.lane.wrapping_add(self.skip);
            copy_bytes(from, to, self.filled - self.skip);
        }
        self.place(self.lane.wrapping_add(self.filled));
    }

    /// Writes the first `head` bytes of a run, which fill the lane that has bytes already, if any.
    ///
    /// # Safety
    /// As [`StorePolicy::copy`]; the run is a lane longer.
    #[inline(always)]
    unsafe fn fill_lane<D: Direction>(&mut self, from: *const u8, bytes: usize, head: usize) {
        // SAFETY: the caller's; the buffer has room for a lane after one.
        unsafe {
            if self.skip > 0 || self.filled >= LANE {
                D::copy_partial(from.add(D::part(0, head, bytes)), self.reserve(head), head);
                self.write_lanes();
            } else if self.filled > 0 {
                let last = V128::load(self.bytes().sub(LANE - self.filled));
                let first = D::load::<V128>(from, bytes, 0);
                V::concat_shift(last, first, LANE - self.filled).stream(self.lane);
                self.lane = self.lane.add(LANE);
                self.filled = 0;
            }
        }
    }

    /// Writes the whole lanes in the buffer and keeps the rest.
    ///
    /// Called rather than inlined: they are written as fast by the narrowest
    /// vectors, which need no instructions of the caller's.
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
    const MAX_RESERVE: usize = BUFFER_BYTES - 2 * LINE;
    const MAX_BLENDED: usize = if V::BYTES > LANE { 16 << 10 } else { 1 << 10 };

    #[inline(always)]
    fn prefetch(targets: PrefetchTargets, _: *const u8) {
        prefetch_l1(targets.l1);
        prefetch_l2(targets.l2);
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the caller's.
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
            // SAFETY: the caller's. Afterwards less than a lane is filled.
            unsafe { self.write_lanes() };
        }
        let at = self.bytes().wrapping_add(self.filled);
        self.filled += bytes;
        at
    }

    #[inline(always)]
    fn is_aligned(&self, offset: usize) -> bool {
        (self.start.addr() | offset).is_multiple_of(LANE)
    }

    #[inline(always)]
    unsafe fn reserve_aligned(&mut self, bytes: usize) -> *mut u8 {
        if self.filled > 0 {
            // SAFETY: the caller's. Afterwards nothing is filled.
            unsafe { self.write_lanes() };
        }
        let at = self.lane;
        self.lane = at.wrapping_add(bytes);
        at
    }

    #[inline(always)]
    unsafe fn write<W: Vector>(vector: W, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { vector.stream_lanes(to) };
    }

    #[inline(always)]
    unsafe fn write_last<W: Vector>(vector: W, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { vector.stream_last_lanes(to, bytes) };
    }

    #[inline(always)]
    unsafe fn copy<D: Direction>(
        &mut self,
        from: *const u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: the caller's, in parts. What fills lanes of the output goes
        // straight there, once what came before it has.
        unsafe {
            let mut at = 0;
            let head = self.filled.next_multiple_of(LANE) - self.filled;
            if head + LANE <= bytes && head.is_multiple_of(D::ELEMENT) {
                self.fill_lane::<D>(from, bytes, head);
                let (run, lanes) = ((from, self.lane, bytes), (bytes - head) / LANE * LANE);
                // What is read soon starts with its first byte.
                let targets = targets.map(|targets| targets.offset(head.wrapping_neg()));
                match run.1.addr().is_multiple_of(V::BYTES) {
                    true => stream_lanes::<V, Self, D, true>(run, head, targets),
                    false => stream_lanes::<V, Self, D, false>(run, head, targets),
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

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        targets: Option<PrefetchTargets>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            stream_lanes::<V, Self, D, false>((from, to, bytes), 0, targets);
            if let Some(targets) = targets.and_then(|targets| targets.straddled(bytes)) {
                Self::prefetch(targets, to);
            }
        }
    }

    unsafe fn finish(&mut self) {
        // SAFETY: the caller's.
        unsafe { self.flush() };
        fence();
    }
}

/// Writes as many whole lanes of a run past the caches as there are from `start`
/// on, and prefetches as many bytes that are read soon, if any.
///
/// # Safety
/// As for [`copy_inline`], but that the first lane is written to the given
/// place; that is a multiple of a lane, and of a vector if it is `WHOLE`.
#[inline(always)]
unsafe fn stream_lanes<V: Vector, S: StorePolicy, D: Direction, const WHOLE: bool>(
    (from, mut to, bytes): (*const u8, *mut u8, usize),
    start: usize,
    targets: Option<PrefetchTargets>,
) {
    let mut at = start;
    // SAFETY: the caller's; every line and lane ends within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            if let Some(targets) = targets {
                S::prefetch(targets.offset(at), to);
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
            S::prefetch(targets.offset(at), to);
        }
        while at + LANE <= bytes {
            D::load::<V128>(from, bytes, at).stream(to);
            to = to.add(LANE);
            at += LANE;
        }
    }
}

/// Copies bytes and prefetches as many that are read soon.
///
/// # Safety
/// As for [`copy_inline`].
#[inline(always)]
unsafe fn copy_prefetching<V: Vector, S: StorePolicy, D: Direction>(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    targets: PrefetchTargets,
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            S::prefetch(targets.offset(at), to.add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                D::load::<V>(from, bytes, part).store(to.add(part));
            }
            at += LINE;
        }
        if at < bytes {
            S::prefetch(targets.offset(at), to.add(at));
            let rest = bytes - at;
            copy_inline::<V, D>(from.add(D::part(at, rest, bytes)), to.add(at), rest);
        }
        if let Some(targets) = targets.straddled(bytes) {
            S::prefetch(targets, to.add(bytes));
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
        // SAFETY: the caller's; a line is a number of vectors.
        unsafe { V::load(from.add(part)).stream(to.add(part)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::choice::dispatch::run_at;
    use crate::cpu::memory::direction::Forward;
    use crate::cpu::simd::SimdTask;
    use crate::cpu::simd::level::SimdLevel;
    use proptest::strategy::Strategy as _;

    /// Gives `pieces` to a store policy at `offset`, by turns through `space` and `copy`.
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
