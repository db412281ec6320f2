//! Memory to move: aligned to a cache line, and touched before it is timed.

use crate::error::Error;
use crate::regime::next_random;

/// The alignment of the data, in bytes: a cache line, and the widest vector.
const ALIGNMENT: usize = 64;

/// Bytes at an address that is a multiple of 64.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// Zeros, written, so that every page is there.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the allocator has none.
    pub(crate) fn new(length: usize) -> Result<Self, Error> {
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(length + ALIGNMENT)
            .map_err(|_| Error::OutOfMemory { bytes: length })?;
        memory.resize(length + ALIGNMENT, 0);
        let address = memory.as_ptr().addr();
        Ok(Self {
            start: address.next_multiple_of(ALIGNMENT) - address,
            memory,
            length,
        })
    }

    /// Bytes that do not repeat, the same in every run.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn random(length: usize) -> Result<Self, Error> {
        let mut buffer = Self::new(length)?;
        let mut state = 1;
        for chunk in buffer.bytes_mut().chunks_mut(8) {
            let bytes = next_random(&mut state).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        Ok(buffer)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_aligned_and_as_long_as_asked_for() {
        for length in [0, 1, 64, 1000] {
            let mut buffer = Buffer::random(length).unwrap();
            assert_eq!(buffer.bytes().len(), length);
            assert_eq!(buffer.bytes_mut().as_ptr().addr() % ALIGNMENT, 0);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(matches!(
            Buffer::new(isize::MAX as usize - ALIGNMENT),
            Err(Error::OutOfMemory { .. })
        ));
    }
}
