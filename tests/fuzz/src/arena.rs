//! Buffers next to inaccessible memory, made once and used for every input.

use std::ops::Range;

/// Number of bytes on either side of a buffer that are looked at.
const MARGIN: usize = 64;

/// The value of the bytes beside a buffer.
const UNTOUCHED: u8 = 0xee;

/// Memory between two inaccessible pages.
pub(crate) struct Arena {
    start: *mut u8,
    bytes: usize,
    /// The place of the buffer in it.
    place: Range<usize>,
}

impl Arena {
    /// Maps at least `bytes` bytes, for as long as the process runs.
    pub(crate) fn new(bytes: usize) -> Self {
        /// A multiple of every page.
        const PAGE: usize = 1 << 16;
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: new memory, of which the first and the last page are made inaccessible.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let (none, mapped_bytes) = (std::ptr::null_mut(), bytes + 2 * PAGE);
            let mapped = libc::mmap(none, mapped_bytes, protection, flags, -1, 0);
            assert_ne!(mapped, libc::MAP_FAILED);
            let start = mapped.cast::<u8>().add(PAGE);
            for guard in [start.sub(PAGE), start.add(bytes)] {
                assert_eq!(libc::mprotect(guard.cast(), PAGE, libc::PROT_NONE), 0);
            }
            start
        };
        Self {
            start,
            bytes,
            place: 0..0,
        }
    }

    /// A buffer that holds `content`, `apart` bytes from the end of the memory if
    /// `at_end`, else from its start.
    pub(crate) fn place(&mut self, content: &[u8], at_end: bool, apart: usize) -> &mut [u8] {
        let room = self.bytes - content.len() - apart;
        let from = if at_end { room } else { apart };
        self.place = from..from + content.len();
        let place = self.place.clone();
        let all = self.all();
        let (before, after) = margins(&place, all.len());
        all[before].fill(UNTOUCHED);
        all[after].fill(UNTOUCHED);
        let buffer = &mut all[place];
        buffer.copy_from_slice(content);
        buffer
    }

    /// The buffer, as it was left.
    ///
    /// # Panics
    /// If something beside it was written.
    pub(crate) fn result(&mut self) -> &[u8] {
        let place = self.place.clone();
        let all = self.all();
        let (before, after) = margins(&place, all.len());
        for beside in [before, after] {
            let untouched = all[beside].iter().all(|&byte| byte == UNTOUCHED);
            assert!(untouched, "bytes beside the buffer were written");
        }
        &all[place]
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: mapped by `new`, zeroed by the system, and this arena's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

/// The bytes before and after a place that are looked at.
fn margins(place: &Range<usize>, bytes: usize) -> (Range<usize>, Range<usize>) {
    (
        place.start.saturating_sub(MARGIN)..place.start,
        place.end..bytes.min(place.end + MARGIN),
    )
}
