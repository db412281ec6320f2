//! The inputs and outputs of a model, and ONNX's names of tract's types.

use std::fmt;

use revseq_graph::ElementType;
use revseq_kernels::DataType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{ValueInfoProto, tensor_proto};
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{Factoid, InferenceFact};
use tract_onnx::tract_hir::internal::*;

use crate::error::{Error, ErrorKind};

/// An input or output of a model, as far as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueInfo {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub datum_type: Option<DatumType>,
    /// The sizes; `None` if even the rank is open.
    pub sizes: Option<Vec<Size>>,
    /// Whether the model has a value for an input that is not given.
    pub has_default: bool,
}

/// A size of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Size {
    /// A number of elements.
    Known(usize),
    /// A size with a name, such as `batch`.
    Symbol(String),
    /// Any size.
    Unknown,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => size.fmt(f),
            Self::Symbol(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// `float[batch,3]`.
impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(
            self.datum_type.and_then(element_type),
            self.sizes.as_deref(),
        ))
    }
}

impl ValueInfo {
    /// The value that a graph declares.
    pub(crate) fn declared(value: &ValueInfoProto, has_default: bool) -> Self {
        let declared = value.r#type.as_ref().and_then(|it| it.value.as_ref());
        let declared = declared.map(|TypeValue::TensorType(tensor)| tensor);
        let code = declared.map_or(0, |tensor| tensor.elem_type);
        let shape = declared.and_then(|tensor| tensor.shape.as_ref());
        let size = |value: &Option<DimValue>| match value {
            Some(DimValue::DimValue(size)) => {
                usize::try_from(*size).map_or(Size::Unknown, Size::Known)
            }
            // Exporters write ? for any size that is not known.
            Some(DimValue::DimParam(name)) if !matches!(name.as_str(), "" | "?") => {
                Size::Symbol(name.clone())
            }
            _ => Size::Unknown,
        };
        Self {
            name: value.name.clone(),
            datum_type: ElementType::from_onnx_code(code).and_then(datum_type),
            sizes: shape.map(|shape| shape.dim.iter().map(|dim| size(&dim.value)).collect()),
            has_default,
        }
    }

    /// Whether a tensor may be this value.
    pub(crate) fn takes(&self, tensor: &Tensor) -> bool {
        let fits = |sizes: &Vec<Size>| {
            sizes.len() == tensor.rank()
                && std::iter::zip(sizes, tensor.shape()).all(
                    |(size, of_tensor)| !matches!(size, Size::Known(known) if known != of_tensor),
                )
        };
        self.datum_type.is_none_or(|it| it == tensor.datum_type())
            && self.sizes.as_ref().is_none_or(fits)
    }
}

/// tract's name of an element type, if it has the type.
#[must_use]
pub fn datum_type(element_type: ElementType) -> Option<DatumType> {
    let ElementType::Fixed(data_type) = element_type else {
        return Some(DatumType::String);
    };
    Some(match data_type {
        DataType::Bool => DatumType::Bool,
        DataType::Uint8 => DatumType::U8,
        DataType::Uint16 => DatumType::U16,
        DataType::Uint32 => DatumType::U32,
        DataType::Uint64 => DatumType::U64,
        DataType::Int8 => DatumType::I8,
        DataType::Int16 => DatumType::I16,
        DataType::Int32 => DatumType::I32,
        DataType::Int64 => DatumType::I64,
        DataType::Float16 => DatumType::F16,
        DataType::Float32 => DatumType::F32,
        DataType::Float64 => DatumType::F64,
        _ => return None,
    })
}

/// ONNX's name of a type of tract's, whose type of sizes counts as int64; `None` if ONNX lacks it.
#[must_use]
pub fn element_type(known: DatumType) -> Option<ElementType> {
    if known == TDim::datum_type() {
        return Some(ElementType::Fixed(DataType::Int64));
    }
    ElementType::all().find(|&element_type| datum_type(element_type) == Some(known))
}

/// Returns a tensor of some sizes, whose elements are listed with the last axis first: floats of any
/// width, integers, `bool` or `String`. No sizes are those of a scalar.
///
/// ```
/// use revseq_tract::tensor;
///
/// let x = tensor(&[2, 3], [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let words = tensor(&[2], vec!["one".to_owned(), "two".to_owned()])?;
/// # let _ = (x, words);
/// # Ok::<(), revseq_tract::Error>(())
/// ```
///
/// # Errors
/// There are more or fewer elements than the sizes say.
pub fn tensor<T: Datum>(sizes: &[usize], elements: impl Into<Vec<T>>) -> Result<Tensor, Error> {
    let elements = elements.into();
    let count = elements.len();
    let array = ArrayD::from_shape_vec(sizes, elements).map_err(|_| {
        let expected = sizes
            .iter()
            .try_fold(1_usize, |all, &it| all.checked_mul(it));
        let expected = expected.map_or("too many".to_owned(), |it| it.to_string());
        Error::new(
            ErrorKind::Input,
            format!("a tensor of sizes {sizes:?} has {expected} elements, given {count}"),
        )
    })?;
    Ok(array.into_tensor())
}

/// ONNX's name of an element type by its `TensorProto.DataType` code.
pub(crate) fn type_name(code: i32) -> String {
    if let Some(element_type) = ElementType::from_onnx_code(code) {
        return element_type.name().to_owned();
    }
    match tensor_proto::DataType::try_from(code) {
        Ok(known) => known.as_str_name().to_ascii_lowercase(),
        Err(_) => format!("type {code}"),
    }
}

/// A tensor's type and shape, as in `float[2,3]`.
pub(crate) fn type_and_shape(tensor: &Tensor) -> String {
    in_words(element_type(tensor.datum_type()), Some(tensor.shape()))
}

/// The type and shape of a fact; sizes that are known by name only are left open.
pub(crate) fn fact_in_words(fact: &InferenceFact) -> String {
    let sizes = (!fact.shape.is_open()).then(|| {
        let dims = fact.shape.dims().map(|dim| {
            let known = dim.concretize().and_then(|dim| dim.to_usize().ok());
            known.map_or(Size::Unknown, Size::Known)
        });
        dims.collect::<Vec<_>>()
    });
    in_words(
        fact.datum_type.concretize().and_then(element_type),
        sizes.as_deref(),
    )
}

fn in_words(element_type: Option<ElementType>, sizes: Option<&[impl fmt::Display]>) -> String {
    let element_type = element_type.map_or("?", ElementType::name);
    match sizes {
        None => format!("{element_type} of unknown rank"),
        Some(sizes) => {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("{element_type}[{}]", sizes.join(","))
        }
    }
}

/// An output in ONNX's terms: tract's type of sizes becomes the declared type of integers.
pub(crate) fn in_numbers(value: TValue, declared: &ValueInfo) -> Result<TValue, Error> {
    if value.datum_type() != TDim::datum_type() {
        return Ok(value);
    }
    let integer = match declared.datum_type {
        Some(DatumType::I32) => DatumType::I32,
        _ => DatumType::I64,
    };
    let numbers = value.cast_to_dt(integer).map_err(|_| {
        let name = &declared.name;
        let message = format!(
            "output {name:?} depends on a size that comes from data, of a value whose elements nothing \
             reads; tract does not compute it"
        );
        Error::new(ErrorKind::Unsupported, message)
    })?;
    Ok(numbers.into_owned().into_tvalue())
}
