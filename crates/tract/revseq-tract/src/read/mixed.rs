//! Inputs of different element types where ONNX has one type: tract would compute in the wider one.

use std::collections::HashMap;

use revseq_onnx::ModelProto;
use revseq_onnx::model::{GraphProto, NodeProto, element_type};
use revseq_onnx::operators::broadcasts;
use revseq_onnx::types::{OutputType, of_output};

use crate::error::{Error, ErrorKind, MAXIMUM_NAME, shortened};
use crate::session::values::type_name;

/// Returns an error for the first node of a main graph, or of those within, whose inputs provably
/// differ in their types. Types that are declared for values between nodes may be stale.
pub(super) fn mixes(model: &ModelProto) -> Option<Error> {
    let graph = model.graph.as_option()?;
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
        let inputs = inputs.map(|input| (input.name(), element_type(input).unwrap_or(0)));
        let stored = graph.initializer.iter();
        let stored = stored.map(|tensor| (tensor.name(), tensor.code()));
        self.0.push(inputs.chain(stored).collect());
        for (index, node) in graph.node.iter().enumerate() {
            self.check(index, node)?;
            for inner in node.graphs() {
                self.graph(inner)?;
            }
            let made: Vec<_> = std::iter::zip(&node.output, 0..)
                .map(|(name, output)| (name.as_str(), self.made(node, output).unwrap_or(0)))
                .collect();
            if let Some(types) = self.0.last_mut() {
                types.extend(made);
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
        let message = format!(
            "node {:?} ({}) has inputs of {} and {}, expected one type",
            shortened(&node.label(index), MAXIMUM_NAME),
            node.op(),
            type_name(first),
            type_name(other)
        );
        Err(Error::new(ErrorKind::Model, message))
    }

    /// The known types of the inputs that have one type by ONNX.
    fn operands(&self, node: &NodeProto) -> impl Iterator<Item = i32> {
        let op = node.op();
        let is_of_one = op == "Concat" || broadcasts(op) && op != "Pow";
        let from = match node.domain().is_empty() && is_of_one {
            true => usize::from(op == "Where"),
            false => node.input.len(),
        };
        let operands = node.input.iter().skip(from);
        operands.filter_map(|name| self.of(name))
    }

    /// The type of an output.
    fn made(&self, node: &NodeProto, output: usize) -> Option<i32> {
        match of_output(node, output) {
            OutputType::Code(code) => Some(code),
            // One operand's type is another's.
            OutputType::Input(input) => {
                let of_input = node.input.get(input).and_then(|name| self.of(name));
                of_input.or_else(|| self.operands(node).next())
            }
            OutputType::NoStrings | OutputType::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use revseq_onnx::model::{
        self, AttributeProto, FLOAT, INT32, INT64, TypeProto, ValueInfoProto, int, type_proto,
    };

    use super::*;

    fn input(name: &str, code: i32) -> ValueInfoProto {
        let tensor = type_proto::Tensor {
            elem_type: Some(code),
            ..type_proto::Tensor::default()
        };
        ValueInfoProto {
            r#type: TypeProto {
                value: Some(type_proto::Value::TensorType(tensor.into())),
                ..TypeProto::default()
            }
            .into(),
            ..model::untyped(name)
        }
    }

    fn node_with(
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<AttributeProto>,
    ) -> NodeProto {
        model::node(op, inputs, &[output], attributes)
    }

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        node_with(op, inputs, output, vec![])
    }

    fn found(nodes: Vec<NodeProto>) -> Option<String> {
        let graph = GraphProto {
            node: nodes,
            input: vec![input("a", INT32), input("x", FLOAT)],
            ..GraphProto::default()
        };
        let model = ModelProto {
            graph: graph.into(),
            ..ModelProto::default()
        };
        mixes(&model).map(|error| error.to_string())
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
                node_with("Cast", &["x"], "b", vec![int("to", INT64.into())]),
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
                node_with("Cast", &["x"], "b", vec![int("to", INT32.into())]),
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
        let body = |input: Option<ValueInfoProto>| AttributeProto {
            name: Some("body".to_owned()),
            g: GraphProto {
                node: vec![node("Mul", &["a", "x"], "y")],
                input: input.into_iter().collect(),
                ..GraphProto::default()
            }
            .into(),
            ..AttributeProto::default()
        };
        let outer = node_with("Loop", &[], "y", vec![body(None)]);
        assert!(found(vec![outer]).is_some());
        let hidden = body(Some(model::untyped("a")));
        assert_eq!(found(vec![node_with("Loop", &[], "y", vec![hidden])]), None);
    }
}
