//! Memory next to inaccessible pages.

/// A buffer between two pages that are not accessible.
pub(crate) struct Guarded {
    mapped: *mut u8,
    mapped_bytes: usize,
    start: *mut u8,
    bytes: usize,
}

impl Guarded {
    /// A buffer that starts `distance` bytes after the first of the two pages, or
    /// ends as many before the last if it is `at_end`.
    pub(crate) fn new(content: &[u8], at_end: bool, distance: usize) -> Self {
        const PAGE: usize = 1 << 16;
        let inside = (content.len() + distance).next_multiple_of(PAGE);
        let mapped_bytes = inside + 2 * PAGE;
        // SAFETY: new memory, of which the first and the last page are made inaccessible.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapped = libc::mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, -1, 0);
            assert_ne!(mapped, libc::MAP_FAILED);
            let mapped = mapped.cast::<u8>();
            for guard in [mapped, mapped.add(PAGE + inside)] {
                assert_eq!(libc::mprotect(guard.cast(), PAGE, libc::PROT_NONE), 0);
            }
            let before = match at_end {
                true => inside - content.len() - distance,
                false => distance,
            };
            let start = mapped.add(PAGE + before);
            start.copy_from(content.as_ptr(), content.len());
            Self {
                mapped,
                mapped_bytes,
                start,
                bytes: content.len(),
            }
        }
    }

    pub(crate) fn slice(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialised and this buffer's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it.
        let unmapped = unsafe { libc::munmap(self.mapped.cast(), self.mapped_bytes) };
        assert_eq!(unmapped, 0);
    }
}
