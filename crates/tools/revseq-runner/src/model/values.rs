//! The types and shapes of values, as far as a model declares or implies them.

use std::fmt;

use revseq_graph::ElementType;
use revseq_onnx::model::tensor_shape_proto::dimension::Value as DimValue;
use revseq_onnx::model::{
    AttributeProto, NodeProto, TensorProto, ValueInfoProto, element_type, size_name, tensor_type,
    type_name,
};
use revseq_onnx::operators::{broadcasts, has_sizes_of_input};
use revseq_onnx::types::{self, OutputType};

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

/// The types of a node's outputs, where they follow simply from its inputs'.
pub(crate) fn propagate(
    node: &NodeProto,
    attributes: &[(&str, &AttributeProto)],
    inputs: &[ValueType],
) -> Vec<ValueType> {
    let first = || inputs.first().and_then(|input| input.shape.clone());
    let attribute = |name: &str| {
        let mut attributes = attributes.iter();
        let (_, attribute) = attributes.find(|(found, _)| *found == name)?;
        Some(*attribute)
    };
    let type_of = |output| match types::of_output(node, output) {
        OutputType::Code(code) => Some(code),
        OutputType::Input(input) => inputs.get(input)?.element_type,
        // A function's node may name the type by the call's attribute.
        _ => attribute("to").and_then(|to| i32::try_from(to.i?).ok()),
    };
    // Further outputs, such as Dropout's mask, may have other sizes.
    let shape = match node.op() {
        "Constant" => {
            let value = attribute("value").and_then(|value| value.t.as_option());
            value.and_then(|tensor| ValueType::of_tensor(tensor).shape)
        }
        "Transpose" => first().and_then(|shape| match attribute("perm") {
            None => Some(shape.into_iter().rev().collect()),
            Some(perm) if perm.ints.len() == shape.len() => {
                let axes = perm.ints.iter();
                axes.map(|&axis| shape.get(usize::try_from(axis).ok()?).cloned())
                    .collect()
            }
            Some(_) => None,
        }),
        "Shape" => {
            let shape = first().filter(|_| attributes.is_empty());
            shape.map(|shape| vec![Dim::Known(shape.len() as u64)])
        }
        op if broadcasts(op) => same_shape(inputs),
        op if has_sizes_of_input(op) => first(),
        _ => None,
    };
    let outputs = (0..node.output.len()).map(|output| ValueType {
        element_type: type_of(output),
        shape: shape.clone().filter(|_| output == 0),
    });
    outputs.collect()
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
