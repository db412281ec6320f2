//! Tensor data in files beside the model (onnx/docs/ExternalData.md).

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tract_onnx::pb::TensorProto;

use crate::tensor::{pb, size};

/// The most data that a model's tensors may have in other files, in bytes.
const MAXIMUM_DATA: u64 = 16 << 30;

/// How often all of a file may be read over: tensors may share data, but a
/// small file is not to fill the memory.
const MAXIMUM_READS: u64 = 4;

/// Checks that a location's text stays below the model's folder. Links are
/// resolved and checked when the data is read.
pub(crate) fn check_location(location: &str) -> Result<()> {
    let inside = Path::new(location)
        .components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    // On Windows these are separators and drives; elsewhere nothing writes them.
    ensure!(
        inside && !location.is_empty() && !location.contains(['\\', ':', '\0']),
        "its data is in {location:?}, which is not a path below the model's folder"
    );
    Ok(())
}

/// Where a tensor's data is: the file's path below the model's folder, and the
/// range of bytes.
#[derive(Debug)]
pub(crate) struct Location<'a> {
    pub(crate) file: &'a str,
    offset: u64,
    length: Option<u64>,
}

/// Reads where a tensor's data is.
pub(crate) fn location(proto: &TensorProto) -> Result<Location<'_>> {
    let entry = |key: &str| -> Result<Option<&str>> {
        let mut found = proto.external_data.iter().filter(|entry| entry.key == key);
        let first = found.next();
        ensure!(
            found.next().is_none(),
            "it gives the {key} of its external data twice"
        );
        Ok(first.map(|entry| entry.value.as_str()))
    };
    let number = |key: &str| -> Result<Option<u64>> {
        entry(key)?
            .map(|text| {
                text.parse().with_context(|| {
                    format!("the {key} of its external data is {text:?}, not a number")
                })
            })
            .transpose()
    };
    let file = entry("location")?.context("its external data has no location")?;
    check_location(file)?;
    Ok(Location {
        file,
        offset: number("offset")?.unwrap_or(0),
        length: number("length")?,
    })
}

/// Reads the data of a model's tensors.
pub(crate) struct Loader {
    folder: PathBuf,
    /// The bytes that may still be read of each file.
    left: HashMap<PathBuf, u64>,
    total: u64,
}

impl Loader {
    /// A loader for the model at a path.
    pub(crate) fn new(model: &Path) -> Self {
        let folder = match model.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Self {
            folder,
            left: HashMap::new(),
            total: 0,
        }
    }

    /// Brings a tensor's data into the tensor, if it is in another file.
    pub(crate) fn load(&mut self, proto: &mut TensorProto) -> Result<()> {
        if !pb::is_external(proto) {
            return Ok(());
        }
        let Some((element_type, shape)) = pb::check(proto)? else {
            bail!(
                "its element type {} is not supported",
                pb::type_name(proto.data_type)
            );
        };
        let promised = size(element_type, &shape).context("its sizes overflow")? as u64;
        let location = location(proto)?;
        let bytes = self
            .read(&location, promised)
            .with_context(|| format!("its data in {:?}", location.file))?;
        proto.raw_data = bytes;
        proto.data_location = None;
        proto.external_data.clear();
        Ok(())
    }

    fn read(&mut self, location: &Location<'_>, promised: u64) -> Result<Vec<u8>> {
        let folder = self.folder.canonicalize()?;
        let path = folder.join(location.file).canonicalize()?;
        ensure!(
            path.starts_with(&folder),
            "a link leads out of the model's folder"
        );
        ensure!(
            std::fs::metadata(&path)?.is_file(),
            "it is not a regular file"
        );
        let mut file = File::open(&path)?;
        let file_length = file.metadata()?.len();
        let length = location.length.unwrap_or(promised);
        ensure!(
            length == promised,
            "its external data is {length} bytes long, expected {promised}"
        );
        ensure!(
            file_length
                .checked_sub(location.offset)
                .is_some_and(|rest| length <= rest),
            "it is {file_length} bytes long, which is too short for {length} bytes from {} on",
            location.offset
        );
        let left = self
            .left
            .entry(path)
            .or_insert(file_length.saturating_mul(MAXIMUM_READS));
        *left = left
            .checked_sub(promised)
            .context("the tensors in it add up to several times its size")?;
        self.total += promised;
        ensure!(
            self.total <= MAXIMUM_DATA,
            "the model has more than {} GiB of external data",
            MAXIMUM_DATA >> 30
        );
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(promised as usize)
            .with_context(|| format!("not enough memory for {promised} bytes"))?;
        file.seek(SeekFrom::Start(location.offset))?;
        file.take(promised).read_to_end(&mut bytes)?;
        ensure!(bytes.len() as u64 == promised, "it ends early");
        Ok(bytes)
    }
}
