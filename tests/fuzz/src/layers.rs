//! Recurrent layers in both directions, with every input and attribute.

use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto::AttributeType, type_proto,
};

/// The sizes of batches, features and states.
const SIZE: usize = 2;

const TIME: usize = 3;

pub(crate) fn layers() -> [ModelProto; 3] {
    [
        layer("LSTM", 4, &["Sigmoid", "Tanh", "Softsign"]),
        layer("GRU", 3, &["HardSigmoid", "ScaledTanh"]),
        layer("RNN", 1, &["LeakyRelu"]),
    ]
}

fn layer(op_type: &str, gates: usize, functions: &[&str]) -> ModelProto {
    let weights = [2, gates * SIZE, SIZE];
    let state = [2, SIZE, SIZE];
    let mut constants = vec![
        floats("w", &weights),
        floats("r", &weights),
        floats("b", &[2, 2 * gates * SIZE]),
        TensorProto {
            name: "lengths".to_owned(),
            dims: vec![SIZE as i64],
            data_type: DataType::Int32 as i32,
            int32_data: vec![3, 1],
            ..TensorProto::default()
        },
        floats("h", &state),
    ];
    let mut outputs = vec!["y", "y_h"];
    if op_type == "LSTM" {
        constants.push(floats("c", &state));
        constants.push(floats("peepholes", &[2, 3 * SIZE]));
        outputs.push("y_c");
    }
    let names = constants.iter().map(|constant| constant.name.clone());
    let number = |name: &str, i: i64| AttributeProto {
        i,
        ..attribute(name, AttributeType::Int)
    };
    let node = NodeProto {
        op_type: op_type.to_owned(),
        input: std::iter::once("x".to_owned()).chain(names).collect(),
        output: outputs.iter().map(|&name| name.to_owned()).collect(),
        attribute: vec![
            AttributeProto {
                s: b"bidirectional".to_vec(),
                ..attribute("direction", AttributeType::String)
            },
            AttributeProto {
                strings: [functions; 2]
                    .concat()
                    .iter()
                    .map(|it| it.as_bytes().to_vec())
                    .collect(),
                ..attribute("activations", AttributeType::Strings)
            },
            AttributeProto {
                f: 1.5,
                ..attribute("clip", AttributeType::Float)
            },
            number("hidden_size", SIZE as i64),
            match op_type {
                "GRU" => number("linear_before_reset", 1),
                "LSTM" => number("input_forget", 0),
                _ => number("layout", 0),
            },
        ],
        ..NodeProto::default()
    };
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto {
            version: 14,
            ..OperatorSetIdProto::default()
        }],
        graph: Some(GraphProto {
            name: "layer".to_owned(),
            input: vec![value("x", Some(&[TIME, SIZE, SIZE]))],
            output: outputs.iter().map(|name| value(name, None)).collect(),
            initializer: constants,
            node: vec![node],
            ..GraphProto::default()
        }),
        ..ModelProto::default()
    }
}

fn attribute(name: &str, r#type: AttributeType) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: r#type as i32,
        ..AttributeProto::default()
    }
}

fn floats(name: &str, sizes: &[usize]) -> TensorProto {
    let elements = 0..sizes.iter().product::<usize>();
    TensorProto {
        name: name.to_owned(),
        dims: sizes.iter().map(|&size| size as i64).collect(),
        data_type: DataType::Float as i32,
        raw_data: elements
            .flat_map(|index| ((index % 7) as f32 / 4.0 - 0.75).to_le_bytes())
            .collect(),
        ..TensorProto::default()
    }
}

fn value(name: &str, sizes: Option<&[usize]>) -> ValueInfoProto {
    let dim = |&size: &usize| Dimension {
        value: Some(dimension::Value::DimValue(size as i64)),
        ..Dimension::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: DataType::Float as i32,
        shape: sizes.map(|sizes| TensorShapeProto {
            dim: sizes.iter().map(dim).collect(),
        }),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..TypeProto::default()
        }),
        ..ValueInfoProto::default()
    }
}
