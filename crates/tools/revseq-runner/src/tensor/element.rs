//! One element of a tensor, read.

use half::{bf16, f16};
use revseq_graph::ElementType;
use revseq_kernels::DataType;
use serde_json::Value as Json;

use super::{Data, Tensor};

/// Whether elements are floats, or complex numbers of floats.
pub(crate) fn is_float(element_type: ElementType) -> bool {
    use DataType::{Bfloat16, Float16, Float32, Float64};
    let floats = [Float16, Bfloat16, Float32, Float64].map(ElementType::Fixed);
    floats.contains(&element_type) || is_complex(element_type)
}

pub(crate) fn is_complex(element_type: ElementType) -> bool {
    matches!(
        element_type,
        ElementType::Fixed(DataType::Complex64 | DataType::Complex128)
    )
}

/// The value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Element<'a> {
    Bool(bool),
    Int(i128),
    /// A float of up to 32 bits.
    Float(f32),
    Double(f64),
    Complex64(f32, f32),
    Complex128(f64, f64),
    String(&'a str),
}

impl Tensor {
    /// The value of the element at an index below [`len`](Self::len).
    pub(crate) fn value(&self, index: usize) -> Element<'_> {
        let data_type = match &self.data {
            Data::Fixed(data_type, _) => *data_type,
            Data::Strings(strings) => return Element::String(&strings[index]),
        };
        let bytes = self.element(index);
        let mut wide = [0; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u128::from_le_bytes(wide);
        match data_type {
            DataType::Bool => Element::Bool(bits != 0),
            DataType::Int8 => Element::Int((bits as i8).into()),
            DataType::Int16 => Element::Int((bits as i16).into()),
            DataType::Int32 => Element::Int((bits as i32).into()),
            DataType::Int64 => Element::Int((bits as i64).into()),
            DataType::Float16 => Element::Float(f16::from_bits(bits as u16).into()),
            DataType::Bfloat16 => Element::Float(bf16::from_bits(bits as u16).into()),
            DataType::Float32 => Element::Float(f32::from_bits(bits as u32)),
            DataType::Float64 => Element::Double(f64::from_bits(bits as u64)),
            DataType::Complex64 => Element::Complex64(
                f32::from_bits(bits as u32),
                f32::from_bits((bits >> 32) as u32),
            ),
            DataType::Complex128 => Element::Complex128(
                f64::from_bits(bits as u64),
                f64::from_bits((bits >> 64) as u64),
            ),
            _ => Element::Int(bits as i128),
        }
    }
}

impl Tensor {
    /// Whether a float or a component of a complex number is NaN.
    pub(crate) fn has_nan(&self) -> bool {
        let Data::Fixed(data_type, bytes) = &self.data else {
            return false;
        };
        let halves = || bytes.as_chunks().0.iter().copied();
        match data_type {
            DataType::Float16 => halves().any(|it| f16::from_le_bytes(it).is_nan()),
            DataType::Bfloat16 => halves().any(|it| bf16::from_le_bytes(it).is_nan()),
            DataType::Float32 | DataType::Complex64 => {
                let mut all = bytes.as_chunks().0.iter();
                all.any(|it| f32::from_le_bytes(*it).is_nan())
            }
            DataType::Float64 | DataType::Complex128 => {
                let mut all = bytes.as_chunks().0.iter();
                all.any(|it| f64::from_le_bytes(*it).is_nan())
            }
            _ => false,
        }
    }
}

impl Element<'_> {
    /// The components of a float or complex value; `None` for values that are compared exactly.
    pub(crate) fn components(self) -> Option<[f64; 2]> {
        match self {
            Self::Float(value) => Some([value.into(), 0.0]),
            Self::Double(value) => Some([value, 0.0]),
            Self::Complex64(real, imaginary) => Some([real.into(), imaginary.into()]),
            Self::Complex128(real, imaginary) => Some([real, imaginary]),
            Self::Bool(_) | Self::Int(_) | Self::String(_) => None,
        }
    }

    /// Returns the element in JSON: a number, or a string for values that JSON's numbers lack.
    pub(crate) fn json(self) -> Json {
        let float = |value: f64, text: String| {
            serde_json::Number::from_f64(value).map_or_else(|| Json::from(text), Json::from)
        };
        let single = |value: f32| float(value.into(), float_text(&value));
        let double = |value: f64| float(value, float_text(&value));
        match self {
            Self::Bool(value) => value.into(),
            Self::Int(value) => match i64::try_from(value) {
                Ok(value) => value.into(),
                Err(_) => (value as u64).into(),
            },
            Self::Float(value) => single(value),
            Self::Double(value) => double(value),
            Self::Complex64(real, imaginary) => vec![single(real), single(imaginary)].into(),
            Self::Complex128(real, imaginary) => vec![double(real), double(imaginary)].into(),
            Self::String(value) => value.into(),
        }
    }
}

/// The shortest text that is this value and no other.
fn float_text<F: std::fmt::Debug>(value: &F) -> String {
    match format!("{value:?}").as_str() {
        "NaN" => "nan".to_owned(),
        text => text.to_owned(),
    }
}

fn complex_text(real: &str, imaginary: &str) -> String {
    let sign = if imaginary.starts_with('-') { "" } else { "+" };
    format!("{real}{sign}{imaginary}i")
}

impl std::fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => float_text(value),
            Self::Double(value) => float_text(value),
            Self::Complex64(real, imaginary) => {
                complex_text(&float_text(real), &float_text(imaginary))
            }
            Self::Complex128(real, imaginary) => {
                complex_text(&float_text(real), &float_text(imaginary))
            }
            Self::String(value) => format!("{value:?}"),
        })
    }
}
