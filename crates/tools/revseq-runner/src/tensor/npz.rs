//! Archives of arrays, as `numpy.savez` and `numpy.savez_compressed` write them.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::{MAXIMUM_BYTES, Tensor, Tensors, npy};
use crate::file;
use crate::model::read;

/// The ending of an array's file in an archive.
const ENDING: &str = ".npy";

/// Whether a file name has the ending of archives.
pub(crate) fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "npz")
}

/// Reads all arrays, by their names.
pub(crate) fn read(path: &Path) -> Result<Tensors> {
    let decoded = read::file(path).and_then(|bytes| decode(&bytes));
    decoded.with_context(|| format!("cannot read {}", path.display()))
}

/// The arrays of an archive, which take no more memory than a tensor may.
pub(crate) fn decode(bytes: &[u8]) -> Result<Tensors> {
    let mut archive =
        ZipArchive::new(std::io::Cursor::new(bytes)).context("it is not an .npz file")?;
    let mut tensors = Tensors::new();
    let mut left = MAXIMUM_BYTES;
    for index in 0..archive.len() {
        let entry = archive.by_index(index)?;
        let file = entry.name().to_owned();
        let name = file.strip_suffix(ENDING).unwrap_or(&file).to_owned();
        let read = || -> Result<Tensor> {
            let mut bytes = Vec::new();
            // One more byte, to see whether it ends there: its header may declare a wrong size.
            entry.take(left.saturating_add(1)).read_to_end(&mut bytes)?;
            left = left
                .checked_sub(bytes.len() as u64)
                .with_context(|| format!("its arrays are larger than {MAXIMUM_BYTES} bytes"))?;
            npy::decode(&bytes)
        };
        let tensor = read().with_context(|| format!("array {name:?}"))?;
        ensure!(
            tensors.insert(name, tensor).is_none(),
            "it has two arrays in {file:?}"
        );
    }
    Ok(tensors)
}

/// Writes tensors as arrays of their names, or nothing if one cannot be written.
pub(crate) fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<()> {
    let encode = || -> Result<Vec<u8>> {
        // In memory: an archive that cannot be written to its end complains on standard error.
        let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, tensor) in tensors {
            let bytes = npy::encode(tensor).with_context(|| format!("array {name:?}"))?;
            let stored = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .large_file(bytes.len() > u32::MAX as usize);
            archive.start_file(format!("{name}{ENDING}"), stored)?;
            archive.write_all(&bytes)?;
        }
        Ok(archive.finish()?.into_inner())
    };
    let bytes = encode().with_context(|| format!("cannot write {}", path.display()))?;
    file::write(path, &bytes)
}
