//! A model as a Graphviz graph.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use tract_onnx::pb::{GraphProto, NodeProto};

use super::report::{Outcome, Report};
use crate::escape::printable;
use crate::model::check::canonical_domain;
use crate::model::{Model, node_label};

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
        let path = format!(
            "function {}::{}",
            canonical_domain(function.domain()),
            function.name()
        );
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

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn open_cluster(&mut self, label: &str) {
        let number = self.number();
        self.line(format_args!(
            "subgraph cluster_{number} {{ label={};",
            quoted(&[label])
        ));
    }

    fn close_cluster(&mut self) {
        self.line(format_args!("}}"));
    }

    fn value<'a>(&mut self, name: &'a str, values: &mut Values<'a>) {
        let number = self.number();
        self.line(format_args!(
            "n{number} [shape=ellipse, label={}];",
            quoted(&[name])
        ));
        define(values, name, number);
    }

    fn edge(&mut self, value: &str, to: usize, values: &Values<'_>) {
        if let Some(from) = values.iter().rev().find_map(|graph| graph.get(value)) {
            self.line(format_args!(
                "n{from} -> n{to} [label={}];",
                quoted(&[value])
            ));
        }
    }

    fn graph<'a>(&mut self, graph: &'a GraphProto, path: &str, values: &mut Values<'a>) {
        values.push(HashMap::new());
        let inputs: HashSet<&str> = graph
            .input
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        for input in &graph.input {
            self.value(&input.name, values);
        }
        for initializer in &graph.initializer {
            if !inputs.contains(initializer.name.as_str()) {
                self.value(&initializer.name, values);
            }
        }
        self.nodes(&graph.node, path, values);
        for output in &graph.output {
            let number = self.number();
            self.line(format_args!(
                "n{number} [shape=ellipse, peripheries=2, label={}];",
                quoted(&[&output.name])
            ));
            self.edge(&output.name, number, values);
        }
        values.pop();
    }

    fn nodes<'a>(&mut self, nodes: &'a [NodeProto], path: &str, values: &mut Values<'a>) {
        for (index, node) in nodes.iter().enumerate() {
            let label = node_label(index, node);
            let path = format!("{path}/{label}");
            let number = self.number();
            let mut lines = vec![node.op_type.as_str(), node.name.as_str()];
            lines.retain(|line| !line.is_empty());
            let fill = if self.invalid.contains(path.as_str()) {
                ", style=filled, fillcolor=\"tomato\""
            } else if revseq_graph::Operator::is_known(&node.domain, &node.op_type) {
                ", style=filled, fillcolor=\"gold\""
            } else {
                ""
            };
            self.line(format_args!("n{number} [label={}{fill}];", quoted(&lines)));
            for input in &node.input {
                self.edge(input, number, values);
            }
            for attribute in &node.attribute {
                for graph in attribute.g.iter().chain(&attribute.graphs) {
                    let path = format!("{path}/{}", attribute.name);
                    self.open_cluster(&path);
                    self.graph(graph, &path, values);
                    self.close_cluster();
                }
            }
            for output in node.output.iter().filter(|output| !output.is_empty()) {
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
