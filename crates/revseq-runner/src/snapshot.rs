//! A model's outputs, as a value for snapshot tests such as insta's.
//!
//! ```no_run
//! use revseq_runner::snapshot::Run;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let snapshot = Run::new("models/encoder.onnx").dim("batch", 2).dim("time", 7).run()?;
//! println!("{snapshot}");
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use revseq_graph::ElementType;
use revseq_kernels::DataType;

use crate::backend::Engine;
use crate::cli::{self, EngineArguments};
use crate::commands::inputs::{self, Sources};
use crate::commands::tolerance::is_exact;
use crate::model::{Bindings, Model, check_dims, read};
use crate::tensor::fill::Fill;
use crate::tensor::{Data, Tensor};

/// How many values of an output are shown.
const VALUES: usize = 12;

/// Why a model could not be run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A run of a model: on tract, on inputs that are made up from random numbers which are
/// always the same, as far as none are given.
#[derive(Debug)]
pub struct Run {
    model: PathBuf,
    files: Vec<(String, PathBuf)>,
    dims: Vec<(String, u64)>,
    seed: u64,
    digits: usize,
    on_onnxruntime: bool,
}

impl Run {
    /// A model's file, or a folder with a `model.onnx`.
    pub fn new(model: impl AsRef<Path>) -> Self {
        Self {
            model: model.as_ref().to_owned(),
            files: Vec::new(),
            dims: Vec::new(),
            seed: 0,
            digits: 3,
            on_onnxruntime: false,
        }
    }

    /// Gives a symbolic size its value.
    #[must_use]
    pub fn dim(mut self, name: &str, size: u64) -> Self {
        self.dims.push((name.to_owned(), size));
        self
    }

    /// Feeds an input from a file: `.npy`, or `.pb` with a TensorProto.
    #[must_use]
    pub fn input(mut self, name: &str, file: impl AsRef<Path>) -> Self {
        self.files.push((name.to_owned(), file.as_ref().to_owned()));
        self
    }

    /// Makes inputs up from other random numbers: floats from -1 to 1, integers from 0 to
    /// 99, lengths within their sequence.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// To how many significant digits floats are rounded that a model computes: 3 unless
    /// given. Backends and processors differ in the last of seven.
    #[must_use]
    pub fn digits(mut self, digits: usize) -> Self {
        self.digits = digits.clamp(1, 17);
        self
    }

    /// Runs on ONNX Runtime with this project's provider, which are found as the command
    /// line finds them: by `ORT_DYLIB_PATH` and `REVSEQ_EP_LIBRARY`, or as Python packages.
    #[must_use]
    pub fn on_onnxruntime(mut self) -> Self {
        self.on_onnxruntime = true;
        self
    }

    /// Runs the model.
    ///
    /// # Errors
    /// The model or an input cannot be read, a size has no value, the backend lacks an
    /// operator, or an operator refuses its inputs.
    pub fn run(&self) -> Result<Snapshot, Error> {
        self.try_run().map_err(|error| crate::chain(&error).into())
    }

    fn try_run(&self) -> anyhow::Result<Snapshot> {
        let model = Model::load(&read::locate(&self.model)?.model)?;
        let mut bindings: Bindings = self.dims.iter().cloned().collect();
        check_dims(&bindings, &model.input_symbols())?;
        let sources = Sources {
            files: &self.files,
            fill: Some(Fill::Random(self.seed)),
            ..Sources::default()
        };
        let given = inputs::gather(&model, &sources, &mut bindings)?;
        let engine = match self.on_onnxruntime {
            false => cli::Engine::Tract,
            true => cli::Engine::Ort,
        };
        let engines = Engine::open_all(&EngineArguments::default(), &[engine])?;
        let mut outputs = Vec::new();
        for engine in &engines {
            outputs = engine.load(&model)?.ready()?.run(&given, &bindings)?;
        }
        let moves = is_exact(&model)?;
        Ok(Snapshot {
            outputs: std::iter::zip(model.output_names(), &outputs)
                .map(|(name, output)| Output::new(name, output, moves, self.digits))
                .collect(),
        })
    }
}

/// The outputs of a model: types, shapes, the first values, and a digest of what is only
/// moved. It is the same on every processor and backend, but for floats that lie between
/// two rounded ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    outputs: Vec<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Output {
    name: String,
    type_and_shape: String,
    /// Of all elements, if the model moves them without computing.
    digest: Option<u32>,
    values: Vec<String>,
    /// How many more there are.
    more: usize,
}

impl Output {
    fn new(name: String, tensor: &Tensor, moves: bool, digits: usize) -> Self {
        let shown = tensor.len().min(VALUES);
        let values = (0..shown).map(|index| {
            let value = tensor.value(index);
            match (value.components(), tensor.element_type()) {
                (Some([real, imaginary]), ElementType::Fixed(data_type)) if !moves => {
                    let real = rounded(real, digits);
                    match data_type {
                        DataType::Complex64 | DataType::Complex128 => {
                            format!("{real} + {}i", rounded(imaginary, digits))
                        }
                        _ => real,
                    }
                }
                _ => value.to_string(),
            }
        });
        Self {
            name,
            type_and_shape: tensor.type_and_shape(),
            digest: moves.then(|| digest(tensor)),
            values: values.collect(),
            more: tensor.len() - shown,
        }
    }
}

/// A number to some significant digits; never -0, which a rounding error makes of 0.
fn rounded(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{value:.*e}", digits - 1);
    let value: f64 = text.parse().unwrap_or(value);
    format!("{}", value + 0.0)
}

/// The CRC-32 of all elements, as zip has it.
fn digest(tensor: &Tensor) -> u32 {
    match tensor.data() {
        Data::Bytes(bytes) => crc32fast::hash(bytes),
        Data::Strings(strings) => {
            let mut hasher = crc32fast::Hasher::new();
            for string in strings {
                hasher.update(&(string.len() as u64).to_le_bytes());
                hasher.update(string.as_bytes());
            }
            hasher.finalize()
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for output in &self.outputs {
            write!(f, "{}: {}", output.name, output.type_and_shape)?;
            if let Some(digest) = output.digest {
                write!(f, " crc32 {digest:08x}")?;
            }
            write!(f, "\n  {}", output.values.join(", "))?;
            match output.more {
                0 => writeln!(f)?,
                more => writeln!(f, ", and {more} more")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn floats_are_rounded_to_significant_digits() {
        assert_eq!(rounded(1234.5, 3), "1230");
        assert_eq!(rounded(-0.000_123_46, 3), "-0.000123");
        assert_eq!(rounded(-0.0, 3), "0");
        assert_eq!(rounded(f64::NAN, 3), "NaN");
        assert_eq!(rounded(f64::NEG_INFINITY, 3), "-inf");
    }
}
