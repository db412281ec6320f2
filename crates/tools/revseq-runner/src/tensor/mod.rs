//! Tensors in memory, from files, as inputs and as outputs.

pub(crate) mod compare;
pub(crate) mod element;
pub(crate) mod fill;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod pb;
pub(crate) mod plain;
pub(crate) mod print;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use revseq_graph::ElementType;
use revseq_kernels::DataType;

use crate::file;
use crate::model::read;

/// The largest tensor that is made rather than read, in bytes. Fuzzers have less memory and time.
pub(crate) const MAXIMUM_BYTES: u64 = if cfg!(fuzzing) { 1 << 22 } else { 4 << 30 };

/// The most dimensions of a tensor. Printing one recurses as deep.
pub(crate) use revseq_onnx::tensor::MAXIMUM_RANK;

/// Tensors by name.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

/// A dense tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

/// The elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// Elements of a fixed size, and their bytes, little-endian.
    Fixed(DataType, Vec<u8>),
    /// Strings.
    Strings(Vec<String>),
}

impl Tensor {
    /// Makes a tensor, if the data matches the shape.
    pub(crate) fn new(shape: Vec<usize>, data: Data) -> Result<Self> {
        check_rank(shape.len())?;
        let tensor = Self { shape, data };
        let (found, of) = match &tensor.data {
            Data::Fixed(_, bytes) => (bytes.len(), "bytes"),
            Data::Strings(strings) => (strings.len(), "elements"),
        };
        ensure!(
            size(tensor.element_type(), &tensor.shape) == Some(found),
            "{} has {found} {of}, which does not match its shape",
            tensor.type_and_shape()
        );
        Ok(tensor)
    }

    pub(crate) fn element_type(&self) -> ElementType {
        match self.data {
            Data::Fixed(data_type, _) => ElementType::Fixed(data_type),
            Data::Strings(_) => ElementType::String,
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Data::Fixed(data_type, bytes) => bytes.len() / data_type.size(),
            Data::Strings(strings) => strings.len(),
        }
    }

    /// The bytes of an element; empty for a string.
    pub(crate) fn element(&self, index: usize) -> &[u8] {
        match &self.data {
            Data::Fixed(data_type, bytes) => {
                let size = data_type.size();
                &bytes[index * size..][..size]
            }
            Data::Strings(_) => &[],
        }
    }

    /// The type and shape, as in `float[4,5,3]`.
    pub(crate) fn type_and_shape(&self) -> String {
        type_and_shape(self.element_type(), &self.shape)
    }

    /// Reads a tensor from a `.pb` or `.npy` file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Ok(Self::read_named(path)?.1)
    }

    /// The same, and the name that a `.pb` file holds; otherwise the name is empty.
    pub(crate) fn read_named(path: &Path) -> Result<(String, Self)> {
        let read = || match format(path)? {
            Format::Pb => pb::decode(&read::file(path)?),
            Format::Npy => Ok((String::new(), npy::decode(&read::file(path)?)?)),
        };
        read().with_context(|| format!("cannot read {}", path.display()))
    }

    /// Writes a tensor to a `.pb` or `.npy` file, by the ending.
    pub(crate) fn write(&self, path: &Path, name: &str) -> Result<()> {
        let encode = || match format(path)? {
            Format::Pb => pb::encode(self, name),
            Format::Npy => npy::encode(self),
        };
        let bytes = encode().with_context(|| format!("cannot write {}", path.display()))?;
        file::write(path, &bytes)
    }
}

enum Format {
    Pb,
    Npy,
}

fn format(path: &Path) -> Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("pb") => Ok(Format::Pb),
        Some("npy") => Ok(Format::Npy),
        Some("npz") => {
            bail!("an .npz file holds several arrays: give it without a name before it")
        }
        _ => bail!("the name ends neither in .pb (TensorProto) nor in .npy"),
    }
}

/// Checks that a file name has an ending that [`Tensor::write`] knows.
pub(crate) fn check_ending(path: &Path) -> Result<()> {
    format(path)
        .map(drop)
        .with_context(|| path.display().to_string())
}

/// Checks that there are no more dimensions than [`MAXIMUM_RANK`].
pub(crate) fn check_rank(rank: usize) -> Result<()> {
    ensure!(
        rank <= MAXIMUM_RANK,
        "it has {rank} dimensions, at most {MAXIMUM_RANK} are supported"
    );
    Ok(())
}

/// The number of elements; `None` if it does not fit.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1_usize, |count, &size| count.checked_mul(size))
}

/// The size of the data: in bytes, or for strings in elements. `None` if it
/// is more than can be addressed.
pub(crate) fn size(element_type: ElementType, shape: &[usize]) -> Option<usize> {
    let element_size = match element_type {
        ElementType::Fixed(data_type) => data_type.size(),
        ElementType::String => 1,
    };
    count(shape)?
        .checked_mul(element_size)
        .filter(|&size| isize::try_from(size).is_ok())
}

/// A type and a shape, as in `float[4,5,3]`.
pub(crate) fn type_and_shape<D: ToString>(
    element_type: impl std::fmt::Display,
    shape: &[D],
) -> String {
    let sizes: Vec<String> = shape.iter().map(D::to_string).collect();
    format!("{element_type}[{}]", sizes.join(","))
}

/// The coordinates of the element at an index.
pub(crate) fn coordinates(shape: &[usize], index: usize) -> Vec<usize> {
    let mut rest = index;
    let mut coordinates: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let coordinate = rest % size.max(1);
            rest /= size.max(1);
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}
