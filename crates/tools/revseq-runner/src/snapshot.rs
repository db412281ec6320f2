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

use crate::backend::Engine;
use crate::cli::{Backend, BackendArguments, EngineArguments, NamedFile};
use crate::commands::inputs::{self, Sources};
use crate::commands::tolerance::is_exact;
use crate::escape::printable;
use crate::model::{Model, read};
use crate::tensor::element::{is_complex, is_float};
use crate::tensor::fill::{Fill, SplitMix64};
use crate::tensor::{Data, Tensor};

/// The default number of values shown of an output.
const VALUES: usize = 12;

/// Error of a model that could not be run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A run of a model: on tract, on inputs that are made up from random numbers which are
/// always the same, for inputs that are not given.
#[derive(Debug)]
pub struct Run {
    model: PathBuf,
    files: Vec<NamedFile>,
    dims: Vec<(String, u64)>,
    seed: u64,
    digits: usize,
    values: usize,
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
            values: VALUES,
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
        self.files.push(NamedFile::new(name, file.as_ref()));
        self
    }

    /// Makes inputs up from other random numbers: floats from -1 to 1, integers from 0 to
    /// 99, lengths within their sequence.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of significant digits, 1 to 17, to which computed floats are rounded: 3
    /// unless given. Backends and processors differ in the last of seven.
    #[must_use]
    pub fn digits(mut self, digits: usize) -> Self {
        self.digits = digits.clamp(1, 17);
        self
    }

    /// Sets the number of values shown of each output: 12 unless given. All others count in the
    /// digest, or in the statistics.
    #[must_use]
    pub fn values(mut self, values: usize) -> Self {
        self.values = values;
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
        let located = read::locate(&self.model)?;
        let (model, mut bindings) = Model::load_with(&located.model, &self.dims)?;
        let sources = Sources {
            files: &self.files,
            fill: Some(Fill::Random(self.seed)),
            ..Sources::default()
        };
        let given = inputs::gather(&model, &sources, &mut bindings)?;
        let engine = Engine::open(&BackendArguments {
            backend: match self.on_onnxruntime {
                false => Backend::Tract,
                true => Backend::Ort,
            },
            engine: EngineArguments::default(),
        })?;
        let outputs = engine.ready(&model)?.run(&given)?;
        let outputs = std::iter::zip(model.output_names(), &outputs);
        Ok(Snapshot::new(outputs, is_exact(&model)?, self))
    }
}

/// The outputs of a model: types, shapes, the first values, a digest of outputs that must match
/// bit for bit, and statistics of computed floats that are not all shown. It is the same on
/// every processor and backend, except for floats that lie halfway between two rounded ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    text: String,
}

impl Snapshot {
    fn new<'a>(
        outputs: impl Iterator<Item = (String, &'a Tensor)>,
        is_exact: bool,
        run: &Run,
    ) -> Self {
        let outputs = outputs.map(|(name, output)| shown(&name, output, is_exact, run));
        Self {
            text: outputs.collect(),
        }
    }

    /// That of outputs that are known, with as many digits and values as by default.
    pub(crate) fn of<'a>(
        outputs: impl Iterator<Item = (String, &'a Tensor)>,
        is_exact: bool,
    ) -> Self {
        Self::new(outputs, is_exact, &Run::new(""))
    }
}

/// The lines of an output.
fn shown(name: &str, tensor: &Tensor, moves: bool, run: &Run) -> String {
    let is_exact = moves || !is_float(tensor.element_type());
    let shown = tensor.len().min(run.values);
    let values = (0..shown).map(|index| {
        let value = tensor.value(index);
        match value.components() {
            Some([real, imaginary]) if !is_exact => {
                let real = rounded(real, run.digits);
                match is_complex(tensor.element_type()) {
                    true => format!("{real} + {}i", rounded(imaginary, run.digits)),
                    false => real,
                }
            }
            _ => value.to_string(),
        }
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let digest = match is_exact {
        true => format!(" crc32 {:08x}", digest(tensor)),
        false => String::new(),
    };
    let (more, statistics) = match tensor.len() - shown {
        0 => (String::new(), String::new()),
        more if is_exact => (format!(", and {more} more"), String::new()),
        more => {
            let statistics = statistics(tensor, run.digits);
            (format!(", and {more} more"), format!("  {statistics}\n"))
        }
    };
    let (name, type_and_shape) = (printable(name), tensor.type_and_shape());
    format!("{name}: {type_and_shape}{digest}\n  {values}{more}\n{statistics}")
}

/// Returns the minimum, maximum, mean and Euclidean norm of all finite elements, and their
/// projection on a fixed direction, which also changes when elements are permuted. All are rounded
/// as far as the size of the elements makes them reproducible. A complex number counts as two
/// elements.
fn statistics(tensor: &Tensor, digits: usize) -> String {
    let components = 1 + usize::from(is_complex(tensor.element_type()));
    let (mut minimum, mut maximum) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut count, mut sum, mut squares, mut projection) = (0.0, 0.0, 0.0, 0.0);
    let mut not_finite = 0;
    let mut direction = SplitMix64::new(0);
    let elements = (0..tensor.len()).filter_map(|index| tensor.value(index).components());
    for value in elements.flat_map(|values| values.into_iter().take(components)) {
        let along = direction.unit();
        if !value.is_finite() {
            not_finite += 1;
            continue;
        }
        minimum = minimum.min(value);
        maximum = maximum.max(value);
        count += 1.0;
        sum += value;
        squares += value * value;
        projection += value * along;
    }
    let mut text = String::new();
    if count > 0.0 {
        let largest = minimum.abs().max(maximum.abs());
        let typical = f64::sqrt(squares / count);
        text = format!(
            "min {}, max {}, mean {}, norm {}, projection {}",
            rounded_beside(minimum, largest, digits),
            rounded_beside(maximum, largest, digits),
            rounded_beside(sum / count, typical, digits),
            rounded(squares.sqrt(), digits),
            rounded_beside(projection / count.sqrt(), typical, digits),
        );
    }
    if not_finite > 0 {
        let separator = if text.is_empty() { "" } else { ", " };
        text += &format!("{separator}{not_finite} not finite");
    }
    text
}

/// A number to the decimal place to which `scale` has `digits` significant digits: a sum of
/// values that nearly cancel is no more precise than they are.
fn rounded_beside(value: f64, scale: f64, digits: usize) -> String {
    if !value.is_finite() || !scale.is_finite() || scale <= 0.0 {
        return rounded(value, digits);
    }
    let exponent = scale.log10().floor() as i32;
    let step = 10_f64.powi(exponent + 1 - digits as i32);
    let places = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    let value = if places == 0 {
        (value / step).round() * step
    } else {
        value
    };
    let value: f64 = format!("{value:.places$}").parse().unwrap_or(value);
    format!("{}", value + 0.0)
}

/// A number to some significant digits; never -0, into which a rounding error turns 0.
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
        Data::Fixed(_, bytes) => crc32fast::hash(bytes),
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
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use revseq_kernels::DataType;

    use super::*;

    #[test]
    fn floats_are_rounded_to_significant_digits() {
        assert_eq!(rounded(1234.5, 3), "1230");
        assert_eq!(rounded(-0.000_123_46, 3), "-0.000123");
        assert_eq!(rounded(-0.0, 3), "0");
        assert_eq!(rounded(f64::NAN, 3), "NaN");
        assert_eq!(rounded(f64::NEG_INFINITY, 3), "-inf");
        for (value, scale, text) in [
            (0.123_456, 1.0, "0.12"),
            (0.123_456, 9.9, "0.12"),
            (0.123_456, 10.0, "0.1"),
            (-1e-9, 1.0, "0"),
            (123_456.0, 2e5, "123000"),
            (0.000_123_46, 0.000_2, "0.000123"),
            (0.0, 0.0, "0"),
        ] {
            assert_eq!(rounded_beside(value, scale, 3), text, "{value} {scale}");
        }
    }

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let data = Data::Fixed(DataType::Float32, bytes.collect());
        Tensor::new(vec![values.len()], data).unwrap()
    }

    /// The snapshot of a computed output.
    fn of(values: &[f32]) -> String {
        shown("y", &floats(values), false, &Run::new("model"))
    }

    #[test]
    fn a_change_in_any_element_shows_and_rounding_does_not() {
        let values: Vec<f32> = (0..200).map(|at| (at as f32 * 0.7).sin()).collect();
        let expected = of(&values);
        for index in 0..values.len() {
            let mut changed = values.clone();
            changed[index] += 0.5;
            assert_ne!(of(&changed), expected, "{index}");
        }
        // Elements that only change places.
        let mut reversed = values.clone();
        reversed[VALUES..].reverse();
        assert_ne!(of(&reversed), expected);
        let mut swapped = values.clone();
        swapped.swap(100, 102);
        assert_ne!(of(&swapped), expected);
        let noisy: Vec<f32> = values.iter().map(|value| value * (1.0 + 3e-7)).collect();
        assert_eq!(of(&noisy), expected);
        let mut not_finite = values.clone();
        not_finite[150] = f32::NAN;
        let text = of(&not_finite);
        assert!(text.ends_with(", 1 not finite\n"), "{text}");
    }

    #[test]
    fn exact_outputs_have_a_digest_and_short_ones_no_statistics() {
        assert_eq!(of(&[1.0, 2.0]), "y: float[2]\n  1, 2\n");
        let integers: Vec<u8> = (0..100).collect();
        let integers = Tensor::new(vec![100], Data::Fixed(DataType::Uint8, integers)).unwrap();
        let text = shown("y", &integers, false, &Run::new("model"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("y: uint8[100] crc32 "), "{text}");
        assert_eq!(
            lines[1..],
            ["  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 88 more"]
        );
    }
}
