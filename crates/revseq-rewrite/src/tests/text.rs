//! Graphs from text.
//!
//! Each line is a node: `y, z = Split<axis=0>(x)`, with `_` for an omitted name. An attribute is an
//! integer, a list of integers, a string, or the name of a subgraph: `body=@body`. Operators of
//! this project's domain look like `revseq.ReverseSubsequences`; those of `com.microsoft` start
//! with `microsoft`, function calls with `my`.

use buffa::MessageField;

use crate::model::{self, AttributeProto, AttributeType, GraphProto, NodeProto, ValueInfoProto};

/// A subgraph: its name, inputs, outputs and nodes.
pub(super) struct Inner<'a> {
    pub(super) name: &'a str,
    pub(super) inputs: &'a str,
    pub(super) outputs: &'a str,
    pub(super) nodes: &'a str,
}

pub(super) fn nodes(text: &str, inner: &[Inner<'_>]) -> Vec<NodeProto> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>();
    lines.into_iter().map(|line| node(line, inner)).collect()
}

fn node(line: &str, inner: &[Inner<'_>]) -> NodeProto {
    let (outputs, call) = line.split_once(" = ").expect("outputs = a call");
    let call = call.strip_suffix(')').expect("inputs in brackets");
    let (operator, inputs) = call.split_once('(').expect("inputs in brackets");
    let (operator, attributes) = match operator.strip_suffix('>') {
        Some(operator) => operator.split_once('<').expect("attributes in brackets"),
        None => (operator, ""),
    };
    let (domain, operator) = match operator.split_once('.') {
        Some(("revseq", operator)) => (Some("revseq"), operator),
        Some(("microsoft", operator)) => (Some("com.microsoft"), operator),
        Some(("my", operator)) => (Some("my"), operator),
        _ => (None, operator),
    };
    let (inputs, outputs) = (names(inputs), names(outputs));
    let attributes = attributes.split(';').filter(|text| !text.is_empty());
    let mut node = model::node(
        operator,
        &inputs,
        &outputs,
        attributes.map(|text| attribute(text, inner)).collect(),
    );
    node.domain = domain.map(str::to_owned);
    node
}

fn names(text: &str) -> Vec<&str> {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    names.map(|it| if it == "_" { "" } else { it }).collect()
}

fn attribute(text: &str, inner: &[Inner<'_>]) -> AttributeProto {
    let (name, value) = text.split_once('=').expect("name=value");
    if let Some(graph) = value.strip_prefix('@') {
        let found = inner.iter().find(|inner| inner.name == graph);
        return AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::GRAPH),
            g: MessageField::some(found.expect("the graph is there").graph(inner)),
            ..AttributeProto::default()
        };
    }
    if let Some(list) = value.strip_prefix('[') {
        let list = list.strip_suffix(']').expect("a list");
        let values: Vec<i64> = list.split(',').map(|it| it.parse().unwrap()).collect();
        return model::ints(name, &values);
    }
    match value.parse() {
        Ok(value) => model::int(name, value),
        Err(_) if name == "activations" => {
            let names: Vec<&str> = value.split(',').collect();
            model::texts(name, &names)
        }
        Err(_) => model::text(name, value),
    }
}

impl Inner<'_> {
    fn graph(&self, inner: &[Inner<'_>]) -> GraphProto {
        let values = |text: &str| {
            let values = text.split_whitespace().map(|name| ValueInfoProto {
                name: Some(name.to_owned()),
                ..ValueInfoProto::default()
            });
            values.collect()
        };
        GraphProto {
            name: Some(self.name.to_owned()),
            input: values(self.inputs),
            output: values(self.outputs),
            node: nodes(self.nodes, inner),
            ..GraphProto::default()
        }
    }
}
