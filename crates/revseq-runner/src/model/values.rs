//! The types and shapes of values, as far as a model declares or implies them.

use std::fmt;

use revseq_graph::ElementType;
use revseq_onnx::model::tensor_shape_proto::dimension::Value as DimValue;
use revseq_onnx::model::{
    AttributeProto, NodeProto, TensorProto, ValueInfoProto, element_type, size_name, tensor_type,
    type_name,
};

use super::Bindings;

/// A size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Known(u64),
    /// A size known by its name alone.
    Symbol(String),
    /// A size that is known once the names that it is computed from are.
    Computed {
        text: String,
        symbols: Vec<String>,
    },
    Unknown,
}

/// The known parts of a value's type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueType {
    /// The `TensorProto.DataType` code of its elements.
    pub(crate) element_type: Option<i32>,
    /// Its sizes.
    pub(crate) shape: Option<Vec<Dim>>,
}

impl Dim {
    /// The size, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::Known(size) => Some(*size),
            _ => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => size.fmt(f),
            Self::Symbol(text) | Self::Computed { text, .. } => f.write_str(text),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl ValueType {
    /// The type that a graph declares.
    pub(crate) fn declared(value: &ValueInfoProto) -> Self {
        let shape = tensor_type(value).and_then(|tensor| tensor.shape.as_option());
        let shape = shape.map(|shape| {
            let dims = shape.dim.iter().map(|dim| match &dim.value {
                Some(DimValue::DimValue(size)) => {
                    u64::try_from(*size).map_or(Dim::Unknown, Dim::Known)
                }
                _ => size_name(dim).map_or(Dim::Unknown, |name| Dim::Symbol(name.to_owned())),
            });
            dims.collect()
        });
        Self {
            element_type: element_type(value).filter(|&code| code > 0),
            shape,
        }
    }

    /// The type of a stored tensor.
    pub(crate) fn of_tensor(tensor: &TensorProto) -> Self {
        let sizes = tensor
            .dims
            .iter()
            .map(|&size| u64::try_from(size).map_or(Dim::Unknown, Dim::Known));
        Self {
            element_type: Some(tensor.code()),
            shape: Some(sizes.collect()),
        }
    }

    /// Puts sizes in the place of their names.
    pub(crate) fn bind(mut self, bindings: &Bindings) -> Self {
        for dim in self.shape.iter_mut().flatten() {
            if let Dim::Symbol(name) = dim
                && let Some(&size) = bindings.get(name)
            {
                *dim = Dim::Known(size);
            }
        }
        self
    }

    /// Merges two types; the first wins where they disagree.
    pub(crate) fn or(self, other: Self) -> Self {
        let shape = match (self.shape, other.shape) {
            (Some(one), Some(other)) if one.len() == other.len() => Some(
                std::iter::zip(one, other)
                    .map(|(one, other)| match (&one, &other) {
                        (Dim::Known(_), _) | (_, Dim::Unknown) => one,
                        (Dim::Unknown, _) | (_, Dim::Known(_)) => other,
                        _ => one,
                    })
                    .collect(),
            ),
            (one, other) => one.or(other),
        };
        Self {
            element_type: self.element_type.or(other.element_type),
            shape,
        }
    }

    /// The element type, if the operators know it.
    pub(crate) fn known_element_type(&self) -> Option<ElementType> {
        self.element_type.and_then(ElementType::from_onnx_code)
    }

    /// The sizes, each of them if known.
    pub(crate) fn sizes(&self) -> Option<Vec<Option<u64>>> {
        self.shape
            .as_ref()
            .map(|shape| shape.iter().map(Dim::size).collect())
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element_type = self.element_type.map_or_else(|| "?".to_owned(), type_name);
        match &self.shape {
            Some(shape) => f.write_str(&crate::tensor::type_and_shape(element_type, shape)),
            None => write!(f, "{element_type} of unknown rank"),
        }
    }
}

/// Operators whose output is of the input's type and shape.
const ELEMENT_BY_ELEMENT: &[&str] = &[
    "Identity",
    "ReverseSequence",
    "ReverseSubsequences",
    "Neg",
    "Abs",
    "Relu",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Tanh",
    "Sigmoid",
    "HardSigmoid",
    "Softplus",
    "Softmax",
    "LogSoftmax",
    "Exp",
    "Log",
    "Sqrt",
    "Erf",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Reciprocal",
    "Clip",
    "Not",
    "Dropout",
    "Gelu",
    "HardSwish",
    "CumSum",
    "LayerNormalization",
];

/// Operators that move elements, or compute others of the same type.
const SAME_TYPE: &[&str] = &[
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Gather",
    "Concat",
    "Expand",
    "Tile",
    "Flatten",
    "Split",
    "Pad",
    "GatherElements",
    "GatherND",
    "Range",
    "ReduceProd",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "MatMul",
    "Gemm",
    "Conv",
    "LSTM",
    "GRU",
    "RNN",
];

/// The types of a node's outputs, where they follow simply from its inputs'.
pub(crate) fn propagate(
    node: &NodeProto,
    attributes: &[(&str, &AttributeProto)],
    inputs: &[ValueType],
) -> Vec<ValueType> {
    let first = || inputs.first().cloned().unwrap_or_default();
    let attribute = |name: &str| {
        attributes
            .iter()
            .find(|(found, _)| *found == name)
            .map(|(_, attribute)| *attribute)
    };
    let output = match node.op() {
        op if ELEMENT_BY_ELEMENT.contains(&op) => first(),
        "Cast" => ValueType {
            element_type: attribute("to").and_then(|to| i32::try_from(to.i?).ok()),
            ..first()
        },
        "CastLike" => ValueType {
            element_type: inputs.get(1).and_then(|like| like.element_type),
            ..first()
        },
        "Constant" => match attribute("value").and_then(|value| value.t.as_option()) {
            Some(tensor) => ValueType::of_tensor(tensor),
            None => ValueType::default(),
        },
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Pow" | "Max" | "Min" | "Sum" => ValueType {
            shape: same_shape(inputs),
            ..first()
        },
        "Where" => ValueType {
            element_type: inputs.get(1).and_then(|input| input.element_type),
            shape: same_shape(inputs),
        },
        "Transpose" => {
            let input = first();
            let shape = input.shape.and_then(|shape| match attribute("perm") {
                None => Some(shape.into_iter().rev().collect()),
                Some(perm) if perm.ints.len() == shape.len() => perm
                    .ints
                    .iter()
                    .map(|&axis| shape.get(usize::try_from(axis).ok()?).cloned())
                    .collect(),
                Some(_) => None,
            });
            ValueType { shape, ..input }
        }
        "Shape" => {
            let rank = first()
                .shape
                .filter(|_| attributes.is_empty())
                .map(|shape| shape.len());
            ValueType {
                element_type: Some(ElementType::Fixed(revseq_kernels::DataType::Int64).onnx_code()),
                shape: rank.map(|rank| vec![Dim::Known(rank as u64)]),
            }
        }
        op if SAME_TYPE.contains(&op) => {
            let moved = ValueType {
                shape: None,
                ..first()
            };
            return vec![moved; node.output.len()];
        }
        _ => return vec![ValueType::default(); node.output.len()],
    };
    // Further outputs, such as Dropout's mask, follow other rules.
    let mut outputs = vec![ValueType::default(); node.output.len()];
    if let Some(first) = outputs.first_mut() {
        *first = output;
    }
    outputs
}

/// The shape that inputs share, or that one has beside scalars.
fn same_shape(inputs: &[ValueType]) -> Option<Vec<Dim>> {
    let mut shared: Option<&Vec<Dim>> = None;
    for input in inputs {
        let shape = input.shape.as_ref()?;
        if shape.is_empty() {
            continue;
        }
        match shared {
            None => shared = Some(shape),
            Some(shared) if shared == shape && !shape.contains(&Dim::Unknown) => {}
            Some(_) => return None,
        }
    }
    Some(shared.cloned().unwrap_or_default())
}
