//! The floor: the fastest copy of the same bytes that is known here.
//!
//! It is the faster of two: the C library's `memcpy`, and a copy with
//! non-temporal stores, which for large data avoids reading the bytes that it
//! overwrites.
#![expect(unsafe_code, reason = "vector stores that go past the caches")]

/// Copies as `memcpy` does.
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn memcpy(source: &[u8], destination: &mut [u8]) {
    destination.copy_from_slice(source);
}

/// Copies with stores that go past the caches; where this target has none, as
/// `memcpy` does.
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn stream(source: &[u8], destination: &mut [u8]) {
    assert_eq!(source.len(), destination.len(), "a copy of as many bytes");
    #[cfg(target_arch = "x86_64")]
    {
        // Stores that go past the caches need aligned addresses.
        let (head, body, tail) = split(destination);
        let (source_head, rest) = source.split_at(head.len());
        let (source_body, source_tail) = rest.split_at(body.len());
        head.copy_from_slice(source_head);
        tail.copy_from_slice(source_tail);
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2. `body` starts at a multiple of 128 and
            // is as long as `source_body`, a multiple of 128 bytes.
            unsafe { stream_avx2(source_body, body) }
        } else {
            // SAFETY: as above; SSE2 is part of x86-64.
            unsafe { stream_sse2(source_body, body) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    destination.copy_from_slice(source);
}

/// Whether [`stream`] is something else than [`memcpy`] here.
#[must_use]
pub const fn can_stream() -> bool {
    cfg!(target_arch = "x86_64")
}

/// The bytes that one iteration of the streaming loops copies: two cache lines.
#[cfg(target_arch = "x86_64")]
const TURN: usize = 128;

/// The bytes before the first multiple of [`TURN`], the whole turns, and the rest.
#[cfg(target_arch = "x86_64")]
fn split(bytes: &mut [u8]) -> (&mut [u8], &mut [u8], &mut [u8]) {
    let address = bytes.as_ptr().addr();
    let head = (address.next_multiple_of(TURN) - address).min(bytes.len());
    let (head, rest) = bytes.split_at_mut(head);
    let (body, tail) = rest.split_at_mut(rest.len() / TURN * TURN);
    (head, body, tail)
}

#[cfg(target_arch = "x86_64")]
macro_rules! streaming_copy {
    ($name:ident, $feature:literal, $load:ident, $store:ident, $vector:ty) => {
        /// Copies whole turns past the caches.
        ///
        /// # Safety
        /// The CPU has the instructions; both slices are of one length, a
        /// multiple of [`TURN`], and the destination's address is a multiple of it.
        #[target_feature(enable = $feature)]
        unsafe fn $name(source: &[u8], destination: &mut [u8]) {
            use std::arch::x86_64::{_mm_sfence, $load, $store};
            const WIDTH: usize = size_of::<$vector>();
            let mut offset = 0;
            while offset < destination.len() {
                for step in 0..TURN / WIDTH {
                    let at = offset + step * WIDTH;
                    // SAFETY: `at + WIDTH` is at most the end of this turn, and
                    // the caller keeps both slices whole turns of one length;
                    // the store's address is a multiple of `WIDTH`, as the
                    // destination's is of `TURN`.
                    unsafe {
                        let vector = $load(source.as_ptr().add(at).cast());
                        $store(destination.as_mut_ptr().add(at).cast(), vector);
                    }
                }
                offset += TURN;
            }
            // Such stores are in no order with others until here.
            _mm_sfence();
        }
    };
}
#[cfg(target_arch = "x86_64")]
streaming_copy!(
    stream_avx2,
    "avx2",
    _mm256_loadu_si256,
    _mm256_stream_si256,
    std::arch::x86_64::__m256i
);
#[cfg(target_arch = "x86_64")]
streaming_copy!(
    stream_sse2,
    "sse2",
    _mm_loadu_si128,
    _mm_stream_si128,
    std::arch::x86_64::__m128i
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copy_every_byte_at_every_alignment() {
        let source: Vec<u8> = (0..1000_u32).map(|byte| byte as u8).collect();
        for start in [0, 1, 31, 64, 127] {
            for length in [0, 1, 127, 128, 129, 640, 800] {
                for copy in [memcpy, stream] {
                    let mut copied = vec![0xEE; 1000];
                    copy(&source[7..7 + length], &mut copied[start..start + length]);
                    let mut expected = vec![0xEE; 1000];
                    expected[start..start + length].copy_from_slice(&source[7..7 + length]);
                    assert_eq!(copied, expected, "{length} bytes to {start}");
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_narrower_instructions_copy_too() {
        let source: Vec<u8> = (0..1024_u32).map(|byte| byte as u8).collect();
        let mut memory = vec![0; 1024];
        let (_, body, _) = split(&mut memory);
        // SAFETY: `split` gives whole turns at a multiple of a turn.
        unsafe { stream_sse2(&source[..body.len()], body) };
        assert_eq!(body, &source[..body.len()]);
    }
}
