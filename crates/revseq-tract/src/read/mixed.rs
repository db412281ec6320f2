//! Inputs of different element types where ONNX has one type: tract would compute in the wider one.

use std::collections::HashMap;

use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};

use super::adapt::node_label;
use crate::error::{Error, ErrorKind, MAXIMUM_NAME, shortened};
use crate::session::values::type_name;

/// Operators whose inputs have one type, which is that of their output.
const OF_ONE_TYPE: &[&str] = &[
    "Add",
    "And",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Concat",
    "Div",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Operators whose inputs have one type, and whose output is boolean.
const COMPARISONS: &[&str] = &["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];

/// Operators whose outputs have the type of their first input.
const OF_FIRST_INPUT: &[&str] = &[
    "Abs",
    "Clip",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Neg",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Operators whose output is int64.
const OF_SIZES: &[&str] = &["ArgMax", "ArgMin", "NonZero", "Shape", "Size"];

/// Returns an error for the first node of a main graph, or of those within, whose inputs provably
/// differ in their types.
pub(super) fn mixes(graph: &GraphProto) -> Option<Error> {
    Types::default().graph(graph).err()
}

/// The known element types of values, by ONNX's codes; the innermost graph's are last.
#[derive(Default)]
struct Types<'a>(Vec<HashMap<&'a str, i32>>);

impl<'a> Types<'a> {
    fn of(&self, name: &str) -> Option<i32> {
        let known = self.0.iter().rev().find_map(|types| types.get(name));
        // 0 stands for a value of unknown type, which hides an outer one.
        known.copied().filter(|code| *code != 0)
    }

    fn graph(&mut self, graph: &'a GraphProto) -> Result<(), Error> {
        let inputs = graph.input.iter();
        let inputs = inputs.map(|input| (input.name.as_str(), declared(input)));
        let stored = graph.initializer.iter();
        let stored = stored.map(|tensor| (tensor.name.as_str(), tensor.data_type));
        self.0.push(inputs.chain(stored).collect());
        for (index, node) in graph.node.iter().enumerate() {
            self.check(index, node)?;
            let attributes = node.attribute.iter();
            for inner in attributes.flat_map(|it| it.g.iter().chain(&it.graphs)) {
                self.graph(inner)?;
            }
            let code = self.made(node);
            if let Some(types) = self.0.last_mut() {
                let outputs = node.output.iter().filter(|name| !name.is_empty());
                types.extend(outputs.map(|name| (name.as_str(), code.unwrap_or(0))));
            }
        }
        self.0.pop();
        Ok(())
    }

    fn check(&self, index: usize, node: &NodeProto) -> Result<(), Error> {
        let mut types = self.operands(node);
        let Some(first) = types.next() else {
            return Ok(());
        };
        let Some(other) = types.find(|other| *other != first) else {
            return Ok(());
        };
        let label = node_label(index, node);
        let message = format!(
            "node {:?} ({}) has inputs of {} and {}, expected one type",
            shortened(&label, MAXIMUM_NAME),
            node.op_type,
            type_name(first),
            type_name(other)
        );
        Err(Error::new(ErrorKind::Model, message))
    }

    /// The known types of the inputs that have one type by ONNX.
    fn operands(&self, node: &NodeProto) -> impl Iterator<Item = i32> {
        let op = node.op_type.as_str();
        let is_of_one =
            is_standard(node) && (OF_ONE_TYPE.contains(&op) || COMPARISONS.contains(&op));
        let from = match is_of_one {
            true => usize::from(op == "Where"),
            false => node.input.len(),
        };
        node.input[from.min(node.input.len())..]
            .iter()
            .filter_map(|name| self.of(name))
    }

    /// The type of a node's first output, or of all.
    fn made(&self, node: &NodeProto) -> Option<i32> {
        let op = node.op_type.as_str();
        let attribute = |name: &str| node.attribute.iter().find(|it| it.name == name);
        match op {
            _ if !is_standard(node) => None,
            _ if OF_ONE_TYPE.contains(&op) => self.operands(node).next(),
            _ if COMPARISONS.contains(&op) => Some(DataType::Bool as i32),
            _ if OF_FIRST_INPUT.contains(&op) => self.of(node.input.first()?),
            _ if OF_SIZES.contains(&op) => Some(DataType::Int64 as i32),
            "Cast" => i32::try_from(attribute("to")?.i).ok(),
            "Constant" => type_of_tensor(attribute("value")?),
            "ConstantOfShape" => match attribute("value") {
                Some(value) => type_of_tensor(value),
                None => Some(DataType::Float as i32),
            },
            _ => None,
        }
    }
}

fn is_standard(node: &NodeProto) -> bool {
    matches!(node.domain.as_str(), "" | "ai.onnx")
}

fn type_of_tensor(attribute: &AttributeProto) -> Option<i32> {
    attribute.t.as_ref().map(|tensor| tensor.data_type)
}

/// The element type that an input is declared with, or 0.
fn declared(value: &ValueInfoProto) -> i32 {
    match value.r#type.as_ref().and_then(|it| it.value.as_ref()) {
        Some(TypeValue::TensorType(tensor)) => tensor.elem_type,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::pb::{TypeProto, type_proto};

    use super::*;

    const INT32: i32 = DataType::Int32 as i32;

    fn input(name: &str, elem_type: i32) -> ValueInfoProto {
        ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto {
                value: Some(TypeValue::TensorType(type_proto::Tensor {
                    elem_type,
                    shape: None,
                })),
                ..TypeProto::default()
            }),
            ..ValueInfoProto::default()
        }
    }

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: op.to_owned(),
            input: inputs.iter().map(|&it| it.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    fn with(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
        node.attribute.push(attribute);
        node
    }

    fn to(code: i32) -> AttributeProto {
        AttributeProto {
            name: "to".to_owned(),
            i: code.into(),
            ..AttributeProto::default()
        }
    }

    fn found(nodes: Vec<NodeProto>) -> Option<String> {
        let graph = GraphProto {
            node: nodes,
            input: vec![input("a", INT32), input("x", DataType::Float as i32)],
            ..GraphProto::default()
        };
        mixes(&graph).map(|error| error.to_string())
    }

    #[test]
    fn inputs_of_two_types_are_refused() {
        let refused = [
            vec![
                node("Shape", &["x"], "s"),
                node("Squeeze", &["s"], "b"),
                node("Add", &["a", "b"], "y"),
            ],
            vec![
                node("Size", &["x"], "b"),
                node("Where", &["c", "a", "b"], "y"),
            ],
            vec![
                with(node("Cast", &["x"], "b"), to(DataType::Int64 as i32)),
                node("Less", &["b", "a"], "y"),
            ],
        ];
        let messages = refused.map(|nodes| found(nodes).unwrap_or_default());
        assert_eq!(
            messages,
            [
                "node \"Add#2\" (Add) has inputs of int32 and int64, expected one type",
                "node \"Where#1\" (Where) has inputs of int32 and int64, expected one type",
                "node \"Less#1\" (Less) has inputs of int64 and int32, expected one type",
            ]
        );
    }

    #[test]
    fn inputs_of_one_or_of_unknown_types_are_not() {
        assert_eq!(
            found(vec![
                with(node("Cast", &["x"], "b"), to(INT32)),
                node("Add", &["a", "b"], "y"),
                node("Foo", &["x"], "u"),
                node("Add", &["u", "x"], "v"),
                node("Add", &["u", "a"], "w"),
                node("Pow", &["x", "a"], "z"),
            ]),
            None
        );
    }

    #[test]
    fn inner_graphs_know_outer_types_and_hide_them() {
        let body = |inputs: Vec<ValueInfoProto>| AttributeProto {
            name: "body".to_owned(),
            g: Some(GraphProto {
                node: vec![node("Mul", &["a", "x"], "y")],
                input: inputs,
                ..GraphProto::default()
            }),
            ..AttributeProto::default()
        };
        let outer = with(node("Loop", &[], "y"), body(vec![]));
        assert!(found(vec![outer]).is_some());
        let hidden = with(node("Loop", &[], "y"), body(vec![input("a", 0)]));
        assert_eq!(found(vec![hidden]), None);
    }
}
