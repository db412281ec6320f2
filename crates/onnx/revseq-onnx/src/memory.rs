//! Memory that may not be there.
//!
//! Rust ends the process if an allocation fails, and a model's weights are the largest ones that a
//! program makes. They are asked for before they are needed, so that a lack of memory is an error.
//!
//! ```
//! revseq_onnx::memory::check(1 << 20)?;
//! assert!(revseq_onnx::memory::check(usize::MAX / 2).is_err());
//! # Ok::<(), revseq_onnx::Error>(())
//! ```

use crate::Error;

/// Checks that this many bytes can be had. They are given back: others may take them first.
///
/// # Errors
/// The system refuses them, by a limit of the process for instance.
pub fn check(bytes: usize) -> Result<(), Error> {
    reserve(&mut Vec::new(), bytes)
}

/// Makes room for so many more bytes.
pub(crate) fn reserve(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), Error> {
    let reserved = buffer.try_reserve_exact(bytes);
    reserved.map_err(|_| Error::OutOfMemory { bytes })
}
