//! Tensor data in files beside the model (onnx/docs/ExternalData.md).

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::model::{ModelProto, TensorProto, type_name};
use crate::pointer::{MAXIMUM_POINTER, check_fetched};
use crate::visit::for_each_tensor;
use crate::{Error, memory, tensor};

/// The most data that a model's tensors may have in other files, in bytes.
const MAXIMUM_DATA: u64 = 16 << 30;

/// Number of times that the size of a file may be read from it in all: tensors may share data, but
/// a small file is not to fill the memory.
const MAXIMUM_READS: u64 = 4;

/// Makes all data of the model in a file `raw_data` ([`tensor::to_raw`]), that in files in its
/// folder, too. Nothing outside of the folder is read, also through links, unless the model's own
/// file is a link: then data may lie in the folder that it leads to, as in caches that keep all
/// files in one folder.
///
/// # Errors
/// A file cannot be read or is too short, data is not what a tensor promises, or all of it is more
/// than 16 GiB.
pub fn load(model: &mut ModelProto, path: &Path) -> Result<(), Error> {
    let mut loader = Loader {
        folders: Folders::of(path),
        left: HashMap::new(),
        total: 0,
    };
    for_each_tensor(model, &mut |tensor| {
        loader.load(tensor)?;
        Ok(tensor::to_raw(tensor)?)
    })
    .map_err(Error::invalid)
}

/// Names the data of a model whose file is a link in the folders where it is, and returns the folder
/// that they are named from. `None` if all data is named from the model's folder as it was, without
/// links out of it.
///
/// Runtimes that take a model as bytes look for its data in one folder, and most of them follow no
/// link out of that.
///
/// # Errors
/// Data is not there, or lies elsewhere than [`load`] reads it.
pub fn resolve_links(model: &mut ModelProto, path: &Path) -> Result<Option<PathBuf>, Error> {
    let folders = Folders::of(path);
    let mut resolve = || {
        let folder = folders.folder.canonicalize()?;
        if folders.linked.as_ref().is_none_or(|it| *it == folder) {
            return Ok(None);
        }
        let mut common: Option<PathBuf> = None;
        for_each_file(model, &mut |file| {
            let path = folders.resolve(file)?;
            let parent = path.parent().unwrap_or(&path);
            common = Some(match &common {
                None => parent.to_owned(),
                Some(common) => shared(common, parent),
            });
            Ok(file.to_owned())
        })?;
        let common = common.filter(|common| !common.starts_with(&folder));
        let Some(common) = common else {
            return Ok(None);
        };
        for_each_file(model, &mut |file| {
            let path = folders.resolve(file)?;
            let below = path.strip_prefix(&common)?;
            let parts = below.iter().map(|part| part.to_str());
            let parts: Option<Vec<_>> = parts.collect();
            Ok(parts
                .with_context(|| format!("{} is not in UTF-8", below.display()))?
                .join("/"))
        })?;
        Ok(Some(common))
    };
    resolve().map_err(Error::invalid)
}

/// The folder that two folders lie in.
fn shared(one: &Path, other: &Path) -> PathBuf {
    let pairs = one.components().zip(other.components());
    pairs
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one)
        .collect()
}

/// Replaces the name of the file of each tensor's data.
fn for_each_file(
    model: &mut ModelProto,
    replace: &mut impl FnMut(&str) -> Result<String>,
) -> Result<()> {
    for_each_tensor(model, &mut |tensor| {
        if !tensor.is_external() {
            return Ok(());
        }
        let file = location(tensor)?.file;
        let new = replace(file).with_context(|| format!("its data in {file:?}"))?;
        let mut entries = tensor.external_data.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.key() == LOCATION) {
            entry.value = Some(new);
        }
        Ok(())
    })
}

/// The key of the file's name.
const LOCATION: &str = "location";

/// The folders that a model's data may lie in.
struct Folders {
    /// The model's folder.
    folder: PathBuf,
    /// The folder of the file that the model's path leads to.
    linked: Option<PathBuf>,
}

impl Folders {
    fn of(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = path.canonicalize().ok();
        Self {
            folder: match folder.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => folder.to_owned(),
            },
            linked: file.and_then(|file| file.parent().map(Path::to_owned)),
        }
    }

    /// The path of a file, without links.
    fn resolve(&self, file: &str) -> Result<PathBuf> {
        let folder = self.folder.canonicalize()?;
        let path = folder.join(file).canonicalize()?;
        let folders = std::iter::once(&folder).chain(&self.linked);
        ensure!(
            folders.into_iter().any(|folder| path.starts_with(folder)),
            "a link leads out of the model's folder"
        );
        Ok(path)
    }
}

/// Checks that a location's text stays below the model's folder. Links are resolved and checked when
/// the data is read.
///
/// # Errors
/// It is absolute, leads upwards, or is a name on Windows alone.
pub fn check_location(location: &str) -> Result<(), Error> {
    let inside = Path::new(location)
        .components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    // On Windows these are separators and drives; elsewhere nothing writes them.
    if inside && !location.is_empty() && !location.contains(['\\', ':', '\0']) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "its data is in {location:?}, which is not a path below the model's folder"
    )))
}

/// The place of a tensor's data: the file's path below the model's folder, and the range of bytes.
#[derive(Debug)]
pub(crate) struct Location<'a> {
    file: &'a str,
    offset: u64,
    length: Option<u64>,
}

/// Reads the place of a tensor's data.
pub(crate) fn location(proto: &TensorProto) -> Result<Location<'_>> {
    let entry = |key: &str| -> Result<Option<&str>> {
        let mut found = proto
            .external_data
            .iter()
            .filter(|entry| entry.key() == key);
        let first = found.next();
        ensure!(
            found.next().is_none(),
            "it gives the {key} of its external data twice"
        );
        Ok(first.map(|entry| entry.value()))
    };
    let number = |key: &str| -> Result<Option<u64>> {
        let text = entry(key)?;
        let number = text.map(|text| {
            text.parse().with_context(|| {
                format!("the {key} of its external data is {text:?}, not a number")
            })
        });
        number.transpose()
    };
    let file = entry(LOCATION)?.context("its external data has no location")?;
    check_location(file)?;
    Ok(Location {
        file,
        offset: number("offset")?.unwrap_or(0),
        length: number("length")?,
    })
}

/// Reads the data of a model's tensors.
struct Loader {
    folders: Folders,
    /// The bytes that may still be read of each file.
    left: HashMap<PathBuf, u64>,
    total: u64,
}

impl Loader {
    /// Brings a tensor's data into the tensor, if it is in another file.
    fn load(&mut self, proto: &mut TensorProto) -> Result<()> {
        if !proto.is_external() {
            return Ok(());
        }
        let sizes = tensor::checked(proto)?;
        let Some(promised) = tensor::promised(proto, &sizes)? else {
            bail!(
                "its element type {} is not supported",
                type_name(proto.code())
            );
        };
        let location = location(proto)?;
        let bytes = self
            .read(&location, promised as u64)
            .with_context(|| format!("its data in {:?}", location.file))?;
        proto.raw_data = Some(bytes);
        proto.data_location = None;
        proto.external_data.clear();
        Ok(())
    }

    fn read(&mut self, location: &Location<'_>, promised: u64) -> Result<Vec<u8>> {
        let path = self.folders.resolve(location.file)?;
        ensure!(
            std::fs::metadata(&path)?.is_file(),
            "it is not a regular file"
        );
        let mut file = File::open(&path)?;
        let file_length = file.metadata()?.len();
        if file_length <= MAXIMUM_POINTER {
            let mut all = Vec::new();
            file.by_ref().take(file_length).read_to_end(&mut all)?;
            check_fetched(&all)?;
        }
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
        memory::reserve(&mut bytes, promised as usize)?;
        file.seek(SeekFrom::Start(location.offset))?;
        file.take(promised).read_to_end(&mut bytes)?;
        ensure!(bytes.len() as u64 == promised, "it ends early");
        Ok(bytes)
    }
}
