//! Where a kernel's bytes go, in the order of the output.

use std::mem::MaybeUninit;

/// A cache line, the unit that streaming stores write.
const LINE: usize = 64;

/// The most that a kernel may ask room for at once.
pub(super) const BLOCK: usize = 4096;

/// Takes the output's bytes in order.
pub(super) trait Sink {
    /// Goes on at an offset of the output, in bytes.
    ///
    /// # Safety
    /// The offset is inside the output, and all bytes before it that were given are.
    unsafe fn seek(&mut self, offset: usize);

    /// Room for the next bytes, which the caller then fills.
    ///
    /// # Safety
    /// `bytes` is at most [`BLOCK`], and the output has room for them.
    unsafe fn space(&mut self, bytes: usize) -> *mut u8;

    /// Copies the next bytes.
    ///
    /// # Safety
    /// `from` is readable for `bytes`, and the output has room for them.
    unsafe fn copy(&mut self, from: *const u8, bytes: usize);

    /// Writes what has not been written yet.
    ///
    /// # Safety
    /// All bytes that were given room for are filled and inside the output.
    unsafe fn finish(&mut self);
}

/// Writes straight to the output, through the caches.
pub(super) struct Cached {
    start: *mut u8,
    at: *mut u8,
}

impl Cached {
    pub(super) fn new(output: *mut u8) -> Self {
        Self {
            start: output,
            at: output,
        }
    }
}

impl Sink for Cached {
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
    unsafe fn copy(&mut self, from: *const u8, bytes: usize) {
        // SAFETY: the caller's; the output and what is read do not overlap.
        unsafe { copy_bytes(from, self.space(bytes), bytes) };
    }

    #[inline(always)]
    unsafe fn finish(&mut self) {}
}

/// Collects whole lines and writes them past the caches.
///
/// An ordinary store to memory that is in no cache reads the line first, so a
/// copy moves three bytes for each two that it has to. Streaming stores save
/// the read, if they write whole lines.
pub(super) struct Streaming {
    start: *mut u8,
    /// The line of the output that the buffer's first byte belongs to.
    line: *mut u8,
    /// How many bytes of the first line are not ours.
    skip: usize,
    /// How many bytes of the buffer are filled, with those skipped.
    filled: usize,
    buffer: Buffer,
}

#[repr(align(64))]
struct Buffer([MaybeUninit<u8>; BLOCK + LINE]);

impl Streaming {
    pub(super) fn new(output: *mut u8) -> Self {
        let mut sink = Self {
            start: output,
            line: output,
            skip: 0,
            filled: 0,
            buffer: Buffer([MaybeUninit::uninit(); BLOCK + LINE]),
        };
        sink.place(output);
        sink
    }

    fn place(&mut self, at: *mut u8) {
        self.skip = at.addr() % LINE;
        self.line = at.wrapping_sub(self.skip);
        self.filled = self.skip;
    }

    /// Writes the whole lines in the buffer and keeps the rest.
    ///
    /// # Safety
    /// As [`Sink::finish`].
    #[inline(always)]
    unsafe fn write_lines(&mut self) {
        let mut whole = self.filled / LINE * LINE;
        if whole == 0 {
            return;
        }
        let kept = self.filled - whole;
        let mut from = self.buffer.0.as_ptr().cast::<u8>();
        // SAFETY: the buffer's filled bytes belong at `line`, those skipped excepted.
        unsafe {
            if self.skip > 0 {
                let ours = LINE - self.skip;
                copy_bytes(from.add(self.skip), self.line.add(self.skip), ours);
                self.skip = 0;
                self.line = self.line.add(LINE);
                from = from.add(LINE);
                whole -= LINE;
            }
            stream(from, self.line, whole);
            self.line = self.line.add(whole);
            from = from.add(whole);
            copy_bytes(from, self.buffer.0.as_mut_ptr().cast(), kept);
        }
        self.filled = kept;
    }
}

impl Sink for Streaming {
    #[inline(always)]
    unsafe fn seek(&mut self, offset: usize) {
        // SAFETY: the caller's.
        unsafe {
            let at = self.start.add(offset);
            if at != self.line.wrapping_add(self.filled) {
                self.finish();
                self.place(at);
            }
        }
    }

    #[inline(always)]
    unsafe fn space(&mut self, bytes: usize) -> *mut u8 {
        if self.filled + bytes > BLOCK + LINE {
            // SAFETY: the caller's. Afterwards less than a line is filled.
            unsafe { self.write_lines() };
        }
        let at = self.buffer.0[self.filled..].as_mut_ptr().cast();
        self.filled += bytes;
        at
    }

    #[inline(always)]
    unsafe fn copy(&mut self, mut from: *const u8, mut bytes: usize) {
        // SAFETY: the caller's, in parts.
        unsafe {
            if bytes > BLOCK / 4 {
                // Complete the line, then go past the buffer.
                let rest = (LINE - self.filled % LINE) % LINE;
                copy_bytes(from, self.space(rest), rest);
                self.write_lines();
                from = from.add(rest);
                bytes -= rest;
                let whole = bytes / LINE * LINE;
                stream(from, self.line, whole);
                self.line = self.line.add(whole);
                from = from.add(whole);
                bytes -= whole;
            }
            copy_bytes(from, self.space(bytes), bytes);
        }
    }

    #[inline(always)]
    unsafe fn finish(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            self.write_lines();
            let from = self.buffer.0.as_ptr().cast::<u8>().add(self.skip);
            copy_bytes(from, self.line.add(self.skip), self.filled - self.skip);
        }
        self.place(self.line.wrapping_add(self.filled));
        fence();
    }
}

/// Copies bytes between places that do not overlap; short ones without a call.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    /// Copies chunks of `N` bytes, the last one over the end of the one before it.
    ///
    /// # Safety
    /// As [`copy_bytes`]; `bytes` is at least `N`.
    #[inline(always)]
    unsafe fn chunks<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: every chunk ends within `bytes`.
        unsafe {
            let last = bytes - N;
            let mut at = 0;
            while at < last {
                *to.add(at).cast::<[u8; N]>() = *from.add(at).cast::<[u8; N]>();
                at += N;
            }
            *to.add(last).cast::<[u8; N]>() = *from.add(last).cast::<[u8; N]>();
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            0 => {}
            1 => *to = *from,
            2..4 => chunks::<2>(from, to, bytes),
            4..8 => chunks::<4>(from, to, bytes),
            8..16 => chunks::<8>(from, to, bytes),
            16..32 => chunks::<16>(from, to, bytes),
            32..=256 => chunks::<32>(from, to, bytes),
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// Copies whole lines past the caches, where the target has stores for it.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, a multiple of a line; they
/// do not overlap, and `to` is the start of a line.
#[inline(always)]
pub(super) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let mut at = 0;
        while at < bytes {
            // SAFETY: the caller's; SSE2 is part of x86-64.
            unsafe {
                let from = from.add(at).cast::<__m128i>();
                let to = to.add(at).cast::<__m128i>();
                for part in 0..LINE / 16 {
                    _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
                }
            }
            at += LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

/// Orders streaming stores before what follows: other threads read the output.
#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for bytes that are read soon.
#[inline(always)]
pub(super) fn prefetch(from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch of any address has no effect but speed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

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
                    sink.copy(from, bytes);
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
                proptest::prop_oneof![0_usize..100, 900_usize..1200, 4000_usize..9000],
                0..12,
            ),
        ) {
            let bytes: usize = pieces.iter().sum();
            let input: Vec<u8> = (0..bytes).map(|index| (index * 31 % 251) as u8).collect();
            let mut expected = vec![0xee; misaligned + skipped + bytes + 2 * LINE];
            let mut found = expected.clone();
            give(&mut Cached::new(expected[misaligned..].as_mut_ptr()), skipped, &pieces, &input);
            let mut sink = Streaming::new(found[misaligned..].as_mut_ptr());
            give(&mut sink, skipped, &pieces, &input);
            // SAFETY: all bytes given are filled and inside `found`.
            unsafe { sink.finish() };
            proptest::prop_assert!(found == expected);
        }
    }
}
