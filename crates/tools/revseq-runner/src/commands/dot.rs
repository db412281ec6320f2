//! A model as a Graphviz graph.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use revseq_onnx::model::{GraphProto, NodeProto};

use super::report::{Outcome, Report};
use crate::escape::printable;
use crate::model::Model;

/// The whole model: its main graph, the graphs inside nodes and the functions
/// as clusters, with the reported nodes filled.
pub(super) fn graph(model: &Model, reports: &[Report]) -> String {
    let mut drawing = Drawing {
        out: String::from(
            "digraph model {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n",
        ),
        next: 0,
        invalid: reports
            .iter()
            .filter(|report| matches!(report.outcome, Outcome::Invalid(_)))
            .map(|report| report.path.as_str())
            .collect(),
    };
    drawing.graph(model.graph(), "graph", &mut Vec::new());
    for function in &model.proto.functions {
        let path = format!("function {}::{}", function.domain(), function.name());
        drawing.open_cluster(&path);
        let mut values = vec![HashMap::new()];
        for input in &function.input {
            drawing.value(input, &mut values);
        }
        drawing.nodes(&function.node, &path, &mut values);
        drawing.close_cluster();
    }
    drawing.out.push_str("}\n");
    drawing.out
}

/// The drawn node that outputs each value, in each graph from the main one inwards.
type Values<'a> = Vec<HashMap<&'a str, usize>>;

fn define<'a>(values: &mut Values<'a>, name: &'a str, number: usize) {
    if let Some(innermost) = values.last_mut() {
        innermost.insert(name, number);
    }
}

struct Drawing<'r> {
    out: String,
    next: usize,
    invalid: HashSet<&'r str>,
}

impl Drawing<'_> {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "  {text}");
    }

    /// Draws a node with other attributes, and returns its number.
    fn node(&mut self, label: &[&str], attributes: &str) -> usize {
        self.next += 1;
        let (number, label) = (self.next, quoted(label));
        self.line(format_args!("n{number} [label={label}{attributes}];"));
        number
    }

    fn open_cluster(&mut self, label: &str) {
        self.next += 1;
        let (number, label) = (self.next, quoted(&[label]));
        self.line(format_args!("subgraph cluster_{number} {{ label={label};"));
    }

    fn close_cluster(&mut self) {
        self.line(format_args!("}}"));
    }

    fn value<'a>(&mut self, name: &'a str, values: &mut Values<'a>) {
        let number = self.node(&[name], ", shape=ellipse");
        define(values, name, number);
    }

    fn edge(&mut self, value: &str, to: usize, values: &Values<'_>) {
        if let Some(from) = values.iter().rev().find_map(|graph| graph.get(value)) {
            let label = quoted(&[value]);
            self.line(format_args!("n{from} -> n{to} [label={label}];"));
        }
    }

    fn graph<'a>(&mut self, graph: &'a GraphProto, path: &str, values: &mut Values<'a>) {
        values.push(HashMap::new());
        let inputs: HashSet<&str> = graph.inputs().collect();
        for input in graph.inputs() {
            self.value(input, values);
        }
        for initializer in graph.tensors().filter(|name| !inputs.contains(name)) {
            self.value(initializer, values);
        }
        self.nodes(&graph.node, path, values);
        for output in graph.outputs() {
            let number = self.node(&[output], ", shape=ellipse, peripheries=2");
            self.edge(output, number, values);
        }
        values.pop();
    }

    fn nodes<'a>(&mut self, nodes: &'a [NodeProto], path: &str, values: &mut Values<'a>) {
        for (index, node) in nodes.iter().enumerate() {
            let label = node.label(index);
            let path = format!("{path}/{label}");
            let mut lines = vec![node.op(), node.name()];
            lines.retain(|line| !line.is_empty());
            let fill = if self.invalid.contains(path.as_str()) {
                ", style=filled, fillcolor=\"tomato\""
            } else if revseq_graph::Operator::is_known(node.domain(), node.op()) {
                ", style=filled, fillcolor=\"gold\""
            } else {
                ""
            };
            let number = self.node(&lines, fill);
            for input in &node.input {
                self.edge(input, number, values);
            }
            for attribute in &node.attribute {
                for graph in attribute.all_graphs() {
                    let path = format!("{path}/{}", attribute.name());
                    self.open_cluster(&path);
                    self.graph(graph, &path, values);
                    self.close_cluster();
                }
            }
            for output in node.outputs() {
                define(values, output, number);
            }
        }
    }
}

/// Lines as a string of Graphviz's language.
fn quoted(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| {
        let line = printable(line).replace('\\', "\\\\");
        line.replace('"', "\\\"")
    });
    format!("\"{}\"", lines.collect::<Vec<_>>().join("\\n"))
}
