//! Where a kernel's bytes go, in the order of the output.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::ahead::Soon;
use super::direction::{Direction, copy_inline};
use super::vector::{LANE, V128, Vector, copy_bytes, fence, prefetch, prefetch_far};

/// A cache line, the unit that streaming stores write.
pub(super) const LINE: usize = 64;

/// The bytes of a cache line, where one starts.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [u8; LINE]);

/// How far ahead of what is written through the caches the next is asked for, in bytes.
///
/// A store to a line that is not in the innermost cache waits for it, and the
/// stores after it wait with it. Measured best at 1 to 4 KiB.
const WRITTEN_AHEAD: usize = 2 << 10;

/// The most that is written past the caches at once, while nothing is read.
///
/// At 64 MiB sequences of 4 KiB were a tenth to a fifth faster by 1 KiB than by 4.
pub(super) const BLOCK: usize = 1 << 10;

/// Takes the output's bytes in order.
pub(super) trait Sink {
    /// Whether what is written goes past the caches.
    const STREAMS: bool;

    /// Whether the run is so large that it pays to ask for what is read next.
    const ASKS: bool;

    /// The most bytes that [`space`](Self::space) gives at once.
    const SPACE: usize;

    /// The longest run, in bytes, that is read twice rather than by a branch on
    /// where it turns, which is often mispredicted: wide vectors read fast.
    ///
    /// Runs of anywhere reversed prefixes, 1 MiB, Zen 4, by that branch and
    /// twice: AVX-512 512 bytes 2.0 and 1.3 times a copy, 2 KiB 1.27 and 1.11,
    /// 4 KiB 1.15 both; AVX2 512 bytes 2.0 and 1.5, 1 KiB 1.4 and 1.3, 4 KiB 1.1
    /// and 1.4; SSE2 256 bytes 3.5 both, 1 KiB 1.9 and 2.4. Past the caches 16 KiB
    /// 1.25 and 1.2 by wide vectors, by SSE2 1 KiB 1.7 and 1.55.
    const TWICE: usize;

    /// Asks for the lines that are read soon, and for the one that is written
    /// soon after the one at `to`, where that pays.
    fn ask(soon: Soon, to: *const u8);

    /// Goes on at an offset of the output, in bytes.
    ///
    /// # Safety
    /// The offset is inside the output, and all bytes before it that were given are.
    unsafe fn seek(&mut self, offset: usize);

    /// Room for the next bytes, which the caller then fills.
    ///
    /// # Safety
    /// `bytes` is at most [`SPACE`](Self::SPACE), and the output has room for them.
    unsafe fn space(&mut self, bytes: usize) -> *mut u8;

    /// Whether [`lanes`](Self::lanes) takes what starts and ends at multiples of
    /// `offset`, in bytes.
    fn takes_lanes(&self, offset: usize) -> bool;

    /// Room for the next bytes, which the caller then fills by [`write`](Self::write).
    ///
    /// # Safety
    /// The output has room for them, and [`takes_lanes`](Self::takes_lanes).
    unsafe fn lanes(&mut self, bytes: usize) -> *mut u8;

    /// Writes a vector of [`lanes`](Self::lanes).
    ///
    /// # Safety
    /// As [`Vector::store`], and the vector starts a number of lanes after the first.
    unsafe fn write<V: Vector>(vector: V, to: *mut u8);

    /// Copies a run to a place in the room of [`lanes`](Self::lanes), and asks for as
    /// many bytes that are read soon, if any and if that pays.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, the room has as many
    /// from `to` on, and both are whole lanes if the sink streams.
    unsafe fn copy_to<D: Direction>(from: *const u8, to: *mut u8, bytes: usize, soon: Option<Soon>);

    /// Copies the next bytes, and asks for as many that are read soon, if any and
    /// if that pays.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, which are whole elements, and the output
    /// has room for them.
    unsafe fn copy<D: Direction>(&mut self, from: *const u8, bytes: usize, soon: Option<Soon>);

    /// Writes what has not been written yet.
    ///
    /// # Safety
    /// All bytes that were given room for are filled and inside the output.
    unsafe fn finish(&mut self);
}

/// Writes straight to the output, through the caches; `ASKS` if that pays, which
/// it does not in the innermost one.
pub(super) struct Cached<V, const ASKS: bool> {
    start: *mut u8,
    at: *mut u8,
    vector: PhantomData<V>,
}

impl<V, const ASKS: bool> Cached<V, ASKS> {
    pub(super) fn new(output: *mut u8) -> Self {
        Self {
            start: output,
            at: output,
            vector: PhantomData,
        }
    }
}

impl<V: Vector, const ASKS: bool> Sink for Cached<V, ASKS> {
    const STREAMS: bool = false;
    const ASKS: bool = ASKS;
    const SPACE: usize = usize::MAX;
    const TWICE: usize = V::BYTES * V::BYTES;

    #[inline(always)]
    fn ask(soon: Soon, to: *const u8) {
        if ASKS {
            prefetch(soon.near);
            prefetch(to.wrapping_add(WRITTEN_AHEAD));
        }
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the caller's.
        self.at = unsafe { self.start.add(offset) };
    }

    #[inline(always)]
    unsafe fn space(&mut self, bytes: usize) -> *mut u8 {
        let at = self.at;
        // SAFETY: the caller's.
        self.at = unsafe { at.add(bytes) };
        at
    }

    #[inline(always)]
    fn takes_lanes(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn lanes(&mut self, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.space(bytes) }
    }

    #[inline(always)]
    unsafe fn write<W: Vector>(vector: W, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { vector.store(to) };
    }

    #[inline(always)]
    unsafe fn copy<D: Direction>(&mut self, from: *const u8, bytes: usize, soon: Option<Soon>) {
        // SAFETY: the caller's.
        unsafe {
            let to = self.space(bytes);
            Self::copy_to::<D>(from, to, bytes, soon);
        }
    }

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        soon: Option<Soon>,
    ) {
        // SAFETY: the caller's; the output and what is read do not overlap.
        unsafe {
            match soon {
                Some(soon) if ASKS => copy_asking::<V, Self, D>(from, to, bytes, soon),
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
/// copy moves three bytes for each two that it has to. Streaming stores save
/// the read, if what is written in order fills whole lines.
pub(super) struct Streaming<V> {
    start: *mut u8,
    /// The lane of the output that the buffer's first byte belongs to.
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
struct Buffer([MaybeUninit<u8>; BLOCK + LINE]);

const _: () = assert!(size_of::<Buffer>() <= align_of::<Buffer>());

impl<V: Vector> Streaming<V> {
    pub(super) fn new(output: *mut u8) -> Self {
        let mut sink = Self {
            start: output,
            lane: output,
            skip: 0,
            filled: 0,
            buffer: Buffer([MaybeUninit::uninit(); BLOCK + LINE]),
            vector: PhantomData,
        };
        sink.place(output);
        sink
    }

    #[inline(always)]
    fn place(&mut self, at: *mut u8) {
        self.skip = at.addr() % LANE;
        self.lane = at.wrapping_sub(self.skip);
        self.filled = self.skip;
    }

    /// Writes the whole lanes in the buffer and keeps the rest.
    ///
    /// Called rather than inlined: they are written as fast by the narrowest
    /// vectors, which need no instructions of the caller's.
    ///
    /// # Safety
    /// As [`Sink::finish`].
    #[inline(never)]
    unsafe fn write_lanes(&mut self) {
        let whole = self.filled / LANE * LANE;
        if whole == 0 {
            return;
        }
        let kept = self.filled - whole;
        let from = self.buffer.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the buffer's filled bytes belong at `lane`, those skipped excepted.
        unsafe {
            let mut at = 0;
            if self.skip > 0 {
                copy_bytes(
                    from.add(self.skip),
                    self.lane.add(self.skip),
                    LANE - self.skip,
                );
                self.skip = 0;
                at = LANE;
            }
            while at < whole {
                V128::load(from.add(at)).stream(self.lane.add(at));
                at += LANE;
            }
            self.lane = self.lane.add(whole);
            copy_bytes(from.add(whole), from, kept);
        }
        self.filled = kept;
    }
}

impl<V: Vector> Sink for Streaming<V> {
    const STREAMS: bool = true;
    const ASKS: bool = true;
    const SPACE: usize = BLOCK;
    const TWICE: usize = if V::BYTES > LANE { 16 << 10 } else { 1 << 10 };

    #[inline(always)]
    fn ask(soon: Soon, _: *const u8) {
        prefetch(soon.near);
        prefetch_far(soon.far);
    }

    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the caller's.
        unsafe {
            let at = self.start.add(offset);
            if at != self.lane.wrapping_add(self.filled) {
                self.finish();
                self.place(at);
            }
        }
    }

    #[inline(always)]
    unsafe fn space(&mut self, bytes: usize) -> *mut u8 {
        if self.filled + bytes > BLOCK + LINE {
            // SAFETY: the caller's. Afterwards less than a lane is filled.
            unsafe { self.write_lanes() };
        }
        let at = self.buffer.0[self.filled..].as_mut_ptr().cast();
        self.filled += bytes;
        at
    }

    #[inline(always)]
    fn takes_lanes(&self, offset: usize) -> bool {
        (self.start.addr() | offset).is_multiple_of(LANE)
    }

    #[inline(always)]
    unsafe fn lanes(&mut self, bytes: usize) -> *mut u8 {
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
    unsafe fn copy<D: Direction>(&mut self, from: *const u8, bytes: usize, soon: Option<Soon>) {
        // SAFETY: the caller's, in parts. What fills lanes of the output goes
        // straight there, a line at a time, once what came before it has.
        unsafe {
            let head = self.filled.next_multiple_of(LANE) - self.filled;
            let mut at = 0;
            if head + LINE <= bytes && head.is_multiple_of(D::ELEMENT) {
                D::copy_few(from.add(D::part(0, head, bytes)), self.space(head), head);
                self.write_lanes();
                at = head + (bytes - head) / LINE * LINE;
                let run = (from, self.lane, bytes);
                self.lane = self.lane.add(at - head);
                match run.1.addr().is_multiple_of(V::BYTES) {
                    true => stream_lines::<V, Self, D, true>(run, head, soon),
                    false => stream_lines::<V, Self, D, false>(run, head, soon),
                }
            }
            while at < bytes {
                let part = (bytes - at).min(BLOCK);
                let to = self.space(part);
                if let Some(soon) = soon {
                    for line in (at..at + part).step_by(LINE) {
                        Self::ask(soon.after(line), to);
                    }
                }
                copy_inline::<V, D>(from.add(D::part(at, part, bytes)), to, part);
                at += part;
            }
            if let Some(soon) = soon.and_then(|soon| soon.spilled(bytes)) {
                Self::ask(soon, self.lane);
            }
        }
    }

    #[inline(always)]
    unsafe fn copy_to<D: Direction>(
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        soon: Option<Soon>,
    ) {
        let lines = bytes / LINE * LINE;
        // SAFETY: the caller's; every line and lane ends within the bytes.
        unsafe {
            stream_lines::<V, Self, D, false>((from, to, bytes), 0, soon);
            if lines < bytes {
                if let Some(soon) = soon {
                    Self::ask(soon.after(lines), to);
                }
                for at in (lines..bytes).step_by(LANE) {
                    D::load::<V128>(from, bytes, at).stream(to.add(at));
                }
            }
            if let Some(soon) = soon.and_then(|soon| soon.spilled(bytes)) {
                Self::ask(soon, to);
            }
        }
    }

    #[inline(never)]
    unsafe fn finish(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            self.write_lanes();
            let from = self.buffer.0.as_ptr().cast::<u8>().add(self.skip);
            copy_bytes(from, self.lane.add(self.skip), self.filled - self.skip);
        }
        self.place(self.lane.wrapping_add(self.filled));
        fence();
    }
}

/// Writes as many whole lines of a run past the caches as there are from
/// `start` on, and asks for as many bytes that are read soon, if any.
///
/// # Safety
/// As for [`copy_inline`], but that the first line is written to the given
/// place; that is a multiple of a lane, and of a vector if it is `WHOLE`.
#[inline(always)]
unsafe fn stream_lines<V: Vector, S: Sink, D: Direction, const WHOLE: bool>(
    (from, mut to, bytes): (*const u8, *mut u8, usize),
    start: usize,
    soon: Option<Soon>,
) {
    let mut at = start;
    // SAFETY: the caller's; every line ends within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            if let Some(soon) = soon {
                S::ask(soon.after(at), to);
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
    }
}

/// Copies bytes and asks for as many that are read soon.
///
/// # Safety
/// As for [`copy_inline`].
#[inline(always)]
unsafe fn copy_asking<V: Vector, S: Sink, D: Direction>(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    soon: Soon,
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            S::ask(soon.after(at), to.add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                D::load::<V>(from, bytes, part).store(to.add(part));
            }
            at += LINE;
        }
        if at < bytes {
            S::ask(soon.after(at), to.add(at));
            let rest = bytes - at;
            copy_inline::<V, D>(from.add(D::part(at, rest, bytes)), to.add(at), rest);
        }
        if let Some(soon) = soon.spilled(bytes) {
            S::ask(soon, to.add(bytes));
        }
    }
}

/// Copies a line past the caches.
///
/// # Safety
/// `from` is readable and `to` writable for a line, and `to` is the start of one.
#[inline(always)]
pub(super) unsafe fn stream_line<V: Vector>(from: *const u8, to: *mut u8) {
    for part in (0..LINE).step_by(V::BYTES) {
        // SAFETY: the caller's; a line is a number of vectors.
        unsafe { V::load(from.add(part)).stream(to.add(part)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::direction::Forward;
    use proptest::strategy::Strategy as _;

    /// Gives `pieces` to a sink at `offset`, by turns through `space` and `copy`.
    fn give<S: Sink>(sink: &mut S, offset: usize, pieces: &[usize], input: &[u8]) {
        let mut at = 0;
        // SAFETY: the pieces lie inside the input, and the output has as many bytes.
        unsafe {
            sink.seek(offset);
            for (index, &bytes) in pieces.iter().enumerate() {
                let from = input[at..at + bytes].as_ptr();
                if bytes <= BLOCK && index % 2 == 0 {
                    copy_bytes(from, sink.space(bytes), bytes);
                } else {
                    let soon = (index % 3 == 0).then(|| Soon::beyond(from));
                    sink.copy::<Forward>(from, bytes, soon);
                }
                at += bytes;
            }
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
            give(&mut Cached::<V128, true>::new(expected[misaligned..].as_mut_ptr()), skipped, &pieces, &input);
            let mut inline = vec![0xee; expected.len()];
            give(&mut Cached::<V128, false>::new(inline[misaligned..].as_mut_ptr()), skipped, &pieces, &input);
            proptest::prop_assert!(inline == expected);
            let mut sink = Streaming::<V128>::new(found[misaligned..].as_mut_ptr());
            give(&mut sink, skipped, &pieces, &input);
            // SAFETY: all bytes given are filled and inside `found`.
            unsafe { sink.finish() };
            proptest::prop_assert!(found == expected);
        }
    }
}
