//! Pointers of Git LFS in place of files.

use anyhow::{Result, ensure};

/// The beginning of what Git has in place of a file that it keeps elsewhere.
pub(crate) const POINTER: &[u8] = b"version https://git-lfs";

/// The bytes that a pointer has at most, by its specification.
pub(crate) const MAXIMUM_POINTER: u64 = 1023;

/// Checks that a file is more than a pointer to itself.
///
/// # Errors
/// It is one.
pub fn check_fetched(bytes: &[u8]) -> Result<()> {
    ensure!(
        !bytes.starts_with(POINTER),
        "it is a Git LFS pointer: `git lfs pull` gets the file"
    );
    Ok(())
}
