//! Inspects ONNX messages, and makes new ones.

use std::collections::{BTreeSet, HashSet};

use buffa::{Message, MessageField};

mod accessors;
mod codes;
mod loops;

pub use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    attribute_proto::AttributeType, tensor_proto, tensor_shape_proto, type_proto,
};
pub(crate) use accessors::mentioned;
pub use accessors::{Attribute, all_nodes};
pub use codes::*;
pub use loops::{BEFORE_STATES, LoopLayout};

/// The external data files of a model, as it names them: paths below its folder, if it can be
/// trusted.
#[must_use]
pub fn external_files(model: &ModelProto) -> BTreeSet<String> {
    let attributes = model.all_nodes().flat_map(|node| &node.attribute);
    let main = model.graph.as_option().into_iter();
    let graphs = main.chain(model.all_nodes().flat_map(NodeProto::graphs));
    let stored = graphs.flat_map(|graph| {
        let sparse = graph.sparse_initializer.iter();
        let sparse = sparse.flat_map(|tensor| [&tensor.values, &tensor.indices]);
        let sparse = sparse.filter_map(MessageField::as_option);
        graph.initializer.iter().chain(sparse)
    });
    let tensors = attributes.flat_map(AttributeProto::all_tensors);
    tensors.chain(stored).filter_map(file).collect()
}

/// The file of a tensor's data, if it is external.
fn file(tensor: &TensorProto) -> Option<String> {
    let mut entries = tensor.external_data.iter();
    let location = entries.find(|entry| entry.key() == "location");
    location
        .filter(|_| tensor.is_external())
        .and_then(|entry| entry.value.clone())
}

/// Normalises an operator domain; ONNX's own is empty.
#[must_use]
pub fn domain(name: Option<&str>) -> &str {
    match name.unwrap_or_default() {
        "ai.onnx" => "",
        domain => domain,
    }
}

/// The opset of a function or model that imports none.
const DEFAULT_OPSET: i64 = 13;

/// The imported version of ONNX's own operators; a default for a model or function that imports
/// none.
#[must_use]
pub fn opset(imports: &[OperatorSetIdProto]) -> i64 {
    default_import(imports).map_or(DEFAULT_OPSET, |import| import.version.unwrap_or(1))
}

/// The import of ONNX's own operators.
#[must_use]
pub fn default_import(imports: &[OperatorSetIdProto]) -> Option<&OperatorSetIdProto> {
    imports
        .iter()
        .find(|import| matches!(import.domain.as_deref().unwrap_or_default(), "" | "ai.onnx"))
}

/// The names that a model's training graphs mention. They read values of the main graph and update
/// its initializers by name.
#[must_use]
pub fn trained_names(model: &ModelProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    for training in &model.training_info {
        let graphs = [&training.initialization, &training.algorithm];
        for graph in graphs.into_iter().filter_map(MessageField::as_option) {
            graph.mentioned(&mut names);
        }
        let bindings = training.initialization_binding.iter();
        for binding in bindings.chain(&training.update_binding) {
            names.extend(binding.key.as_deref());
            names.extend(binding.value.as_deref());
        }
    }
    names
}

/// Makes a node with an operator of ONNX's own; an empty name stands for an input or output that is
/// left out.
#[must_use]
pub fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        op_type: Some(op.to_owned()),
        attribute: attributes,
        ..NodeProto::default()
    }
}

/// The largest constant that is compared with others, in bytes.
const MAXIMUM_COMPARED: usize = 1 << 16;

/// Returns what a node computes of inputs with these names, to be compared with others; `None` if it has
/// a large constant.
#[must_use]
pub fn computation(node: &NodeProto, inputs: Vec<String>) -> Option<Vec<u8>> {
    let mut tensors = node.attribute.iter().filter_map(|it| it.t.as_option());
    if tensors.any(|tensor| tensor.raw().len() > MAXIMUM_COMPARED) {
        return None;
    }
    let mut attributes = node.attribute.clone();
    attributes.sort_by(|one, other| one.name.cmp(&other.name));
    let what = NodeProto {
        op_type: node.op_type.clone(),
        domain: node.domain.clone(),
        overload: node.overload.clone(),
        input: inputs,
        // Without lengths, Split depends on the number of outputs.
        output: vec![String::new(); node.output.len()],
        attribute: attributes,
        ..NodeProto::default()
    };
    Some(what.encode_to_vec())
}

/// Makes an attribute of a type, without a value.
#[must_use]
pub fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind),
        ..AttributeProto::default()
    }
}

/// Makes an integer attribute.
#[must_use]
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: Some(value),
        ..attribute(name, AttributeType::INT)
    }
}

/// Makes a float attribute.
#[must_use]
pub fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        ..attribute(name, AttributeType::FLOAT)
    }
}

/// Makes an attribute of integers.
#[must_use]
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: values.to_vec(),
        ..attribute(name, AttributeType::INTS)
    }
}

/// Makes an attribute of floats.
#[must_use]
pub fn floats(name: &str, values: &[f32]) -> AttributeProto {
    AttributeProto {
        floats: values.to_vec(),
        ..attribute(name, AttributeType::FLOATS)
    }
}

/// Makes a text attribute.
#[must_use]
pub fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        s: Some(value.as_bytes().to_vec()),
        ..attribute(name, AttributeType::STRING)
    }
}

/// Makes an attribute of strings.
#[must_use]
pub fn texts(name: &str, values: &[&str]) -> AttributeProto {
    AttributeProto {
        strings: values
            .iter()
            .map(|value| value.as_bytes().to_vec())
            .collect(),
        ..attribute(name, AttributeType::STRINGS)
    }
}

/// Makes a tensor attribute.
#[must_use]
pub fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto {
        t: MessageField::some(value),
        ..attribute(name, AttributeType::TENSOR)
    }
}

/// Makes a scalar 0 of a type of 8 to 64 bits that is a number or bool; `None` for other types.
#[must_use]
pub fn zero(code: i32) -> Option<TensorProto> {
    let size = match code {
        BOOL | INT8 | UINT8 => 1,
        FLOAT16 | BFLOAT16 | INT16 | UINT16 => 2,
        FLOAT | INT32 | UINT32 => 4,
        DOUBLE | INT64 | UINT64 => 8,
        _ => return None,
    };
    Some(TensorProto {
        data_type: Some(code),
        raw_data: Some(vec![0; size]),
        ..TensorProto::default()
    })
}

/// Makes an int64 tensor of row-major elements; a scalar if `sizes` is empty.
#[must_use]
pub fn int64_tensor(sizes: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        dims: sizes.to_vec(),
        data_type: Some(INT64),
        raw_data: Some(
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        ),
        ..TensorProto::default()
    }
}

/// Makes a float32 scalar.
#[must_use]
pub fn float_scalar(value: f32) -> TensorProto {
    TensorProto {
        data_type: Some(FLOAT),
        raw_data: Some(value.to_le_bytes().to_vec()),
        ..TensorProto::default()
    }
}

/// The declared sizes of a value: `None` if the rank is unknown, with `None` for each unknown size.
#[must_use]
pub fn declared_sizes(value: &ValueInfoProto) -> Option<Vec<Option<i64>>> {
    let tensor = tensor_type(value)?;
    let sizes = tensor
        .shape
        .as_option()?
        .dim
        .iter()
        .map(|dim| match dim.value {
            Some(tensor_shape_proto::dimension::Value::DimValue(size)) if size >= 0 => Some(size),
            _ => None,
        });
    Some(sizes.collect())
}

/// What exporters write for any size that is not known.
const ANY_SIZE: [&str; 4] = ["", "-1", "?", "None"];

/// Returns the name of a size. Sizes of one name are the same, which those that exporters write as `?`,
/// `None` or `-1` need not be: these have none.
#[must_use]
pub fn size_name(size: &tensor_shape_proto::Dimension) -> Option<&str> {
    match &size.value {
        Some(tensor_shape_proto::dimension::Value::DimParam(name)) => {
            Some(name.as_str()).filter(|name| !ANY_SIZE.contains(name))
        }
        _ => None,
    }
}

/// Makes a value that is declared as a tensor, with `None` for each unknown size.
#[must_use]
pub fn value(name: &str, elem_type: i32, sizes: &[Option<i64>]) -> ValueInfoProto {
    let dims = sizes.iter().map(|&size| tensor_shape_proto::Dimension {
        value: size.map(tensor_shape_proto::dimension::Value::DimValue),
        ..tensor_shape_proto::Dimension::default()
    });
    let shape = TensorShapeProto {
        dim: dims.collect(),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(elem_type),
        shape: MessageField::some(shape),
        ..Default::default()
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: MessageField::some(TypeProto {
            value: Some(tensor.into()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Makes a value with a name and no declared type.
#[must_use]
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        ..ValueInfoProto::default()
    }
}

/// A tensor's declared element type, as ONNX's code.
#[must_use]
pub fn element_type(value: &ValueInfoProto) -> Option<i32> {
    tensor_type(value)?.elem_type.filter(|&code| code != 0)
}

/// A value's declared tensor type, to be changed.
pub fn tensor_type_mut(value: &mut ValueInfoProto) -> Option<&mut type_proto::Tensor> {
    match value.r#type.as_option_mut()?.value.as_mut()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}

/// A value's declared tensor type.
#[must_use]
pub fn tensor_type(value: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match value.r#type.as_option()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}
