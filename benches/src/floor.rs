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
        use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        // Stores that go past the caches need aligned addresses.
        let (head, body, tail) = split(destination);
        let (source_head, rest) = source.split_at(head.len());
        let (source_body, source_tail) = rest.split_at(body.len());
        head.copy_from_slice(source_head);
        tail.copy_from_slice(source_tail);
        // Wider vectors fill the same cache lines, in the same time.
        let body = body.as_chunks_mut::<16>().0;
        for (from, to) in std::iter::zip(source_body.as_chunks::<16>().0, body) {
            // SAFETY: SSE2 is part of x86-64; `body` starts at a multiple of 64.
            unsafe {
                let vector = _mm_loadu_si128(from.as_ptr().cast());
                _mm_stream_si128(to.as_mut_ptr().cast(), vector);
            }
        }
        // Such stores are in no order with others until here.
        // SAFETY: as above.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    destination.copy_from_slice(source);
}

/// Whether [`stream`] is something else than [`memcpy`] here.
#[must_use]
pub const fn can_stream() -> bool {
    cfg!(target_arch = "x86_64")
}

/// The bytes before the first whole cache line, those of whole ones, and the rest.
#[cfg(target_arch = "x86_64")]
fn split(bytes: &mut [u8]) -> (&mut [u8], &mut [u8], &mut [u8]) {
    const LINE: usize = 64;
    let address = bytes.as_ptr().addr();
    let head = (address.next_multiple_of(LINE) - address).min(bytes.len());
    let (head, rest) = bytes.split_at_mut(head);
    let (body, tail) = rest.split_at_mut(rest.len() / LINE * LINE);
    (head, body, tail)
}

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
}
