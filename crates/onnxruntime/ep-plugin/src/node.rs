//! A copy of ONNX Runtime's description of a node.

use std::ffi::{CString, c_int};
use std::ptr;

use ort_sys::{OrtTensorTypeAndShapeInfo, OrtTypeInfo};
use revseq_onnx::model::{AttributeProto, AttributeType};

use super::error::Error;
use super::host::{Host, name, ort, ort_get, ort_try};

/// A node of a model.
pub struct Node {
    /// Its name, which may be empty.
    pub name: String,
    /// The domain of its operator.
    pub domain: String,
    /// Its operator.
    pub op_type: String,
    /// The version of its operator's schema.
    pub since_version: c_int,
    /// Its attributes, but for graphs.
    pub attributes: Vec<AttributeProto>,
    /// The inputs' names and types; one that is left out has neither.
    pub inputs: Vec<(CString, Option<TypeAndSizes>)>,
    /// The outputs' names; one that is left out has none.
    pub outputs: Vec<CString>,
}

/// The name of an attribute's type in messages.
pub fn type_name(kind: Option<AttributeType>) -> &'static str {
    match kind.unwrap_or_default() {
        AttributeType::INT => "integer",
        AttributeType::INTS => "list of integers",
        AttributeType::FLOAT => "float",
        AttributeType::FLOATS => "list of floats",
        AttributeType::STRING => "string",
        AttributeType::STRINGS => "list of strings",
        AttributeType::TENSOR => "tensor",
        AttributeType::GRAPH => "graph",
        _ => "unknown",
    }
}

/// A tensor's element type and, as far as they are known, sizes; -1 is an unknown one.
pub struct TypeAndSizes {
    /// Its `ONNXTensorElementDataType`.
    pub element: c_int,
    /// Its sizes, if its rank is known.
    pub sizes: Option<Vec<i64>>,
    /// The names of the sizes; one without a name that is UTF-8 has an empty one.
    pub names: Vec<String>,
}

impl TypeAndSizes {
    /// Reads a tensor's type; `None` if it is not one.
    ///
    /// # Safety
    /// `info` is null or a type of this host.
    pub unsafe fn read(host: Host, info: *const OrtTypeInfo) -> Result<Option<Self>, Error> {
        if info.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's; the result lives as long as `info`.
        unsafe {
            let tensor = ort_get!(host, CastTypeInfoToTensorInfo(info));
            match tensor.is_null() {
                true => Ok(None),
                false => Self::read_tensor(host, tensor).map(Some),
            }
        }
    }

    /// # Safety
    /// `tensor` is a tensor's type of this host.
    pub unsafe fn read_tensor(
        host: Host,
        tensor: *const OrtTensorTypeAndShapeInfo,
    ) -> Result<Self, Error> {
        let mut element: c_int = 0;
        // SAFETY: the caller's; an `ONNXTensorElementDataType` is a C enum.
        unsafe {
            ort_try!(
                host,
                GetTensorElementType(tensor, (&raw mut element).cast())
            );
        }
        // SAFETY: the caller's; the host writes `rank` sizes and names, which live as long as the type.
        unsafe {
            if !ort!(host, TensorTypeAndShape_HasShape(tensor)) {
                return Ok(Self {
                    element,
                    sizes: None,
                    names: Vec::new(),
                });
            }
            let rank = ort_get!(host, GetDimensionsCount(tensor));
            let (mut sizes, mut names) = (vec![-1_i64; rank], vec![ptr::null(); rank]);
            ort_try!(host, GetDimensions(tensor, sizes.as_mut_ptr(), rank));
            ort_try!(
                host,
                GetSymbolicDimensions(tensor, names.as_mut_ptr(), rank)
            );
            Ok(Self {
                element,
                sizes: Some(sizes),
                names: names
                    .into_iter()
                    .map(|it| name(it).into_string().unwrap_or_default())
                    .collect(),
            })
        }
    }
}
