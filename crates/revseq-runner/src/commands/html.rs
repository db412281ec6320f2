//! A page of our nodes in a model: the details of each, and a picture of its neighbours.

use std::collections::HashMap;
use std::fmt::Write;

use tract_onnx::pb::{GraphProto, NodeProto};

use super::markup::escaped;
use super::report::Report;
use crate::model::check::canonical_domain;
use crate::model::{Model, initializer_names, node_label};

/// The size of a node's box and the room around it, in pixels.
const BOX: (usize, usize) = (230, 44);
const GAP: (usize, usize) = (20, 56);

/// How many characters of a name fit into a box.
const FITS: usize = 30;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: #222; background: #fff; }
h2 { font-size: 1.05em; margin: 2em 0 .5em; overflow-wrap: anywhere; }
th { text-align: left; vertical-align: top; padding-right: 1.5em; font-weight: 600; }
td { overflow-wrap: anywhere; }
svg { max-width: 100%; margin-top: .5em; }
rect { fill: #f4f4f4; stroke: #999; } .ours { fill: #ffe08a; stroke: #a07800; }
text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: #222; }
.name { fill: #666; } line { stroke: #888; }
.value { fill: #666; paint-order: stroke; stroke: #fff; stroke-width: 5px; }
h1 { overflow-wrap: anywhere; font-size: 1.4em; }
";

/// The producer or a consumer of a value.
#[derive(Clone, Debug)]
struct End {
    /// The operator, or another kind, such as an input.
    what: String,
    name: String,
}

/// A node and its neighbours.
struct Neighbourhood {
    node: End,
    /// The producer of each input, with the input's name.
    producers: Vec<(String, End)>,
    /// The consumers of the outputs, with the output's name.
    consumers: Vec<(String, End)>,
}

/// The page of a model.
pub(super) fn page(model: &Model, lines: &[String], reports: &[Report]) -> String {
    let mut around = HashMap::new();
    collect(model.graph(), "graph", &HashMap::new(), &mut around);
    for function in &model.proto.functions {
        let path = format!(
            "function {}::{}",
            canonical_domain(function.domain()),
            function.name()
        );
        let mut values = HashMap::new();
        for input in &function.input {
            values.insert(input.as_str(), end("input", input));
        }
        collect_nodes(&function.node, &path, &mut values, &[], &mut around);
    }
    let title = escaped(&model.path.display().to_string());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for line in lines {
        page += &format!("<div>{}</div>\n", escaped(line));
    }
    for report in reports {
        let operator = escaped(&report.operator);
        page += &format!("<h2>{}: {operator}</h2>\n", escaped(&report.path));
        if let Some(neighbourhood) = around.get(&report.path) {
            page += &picture(neighbourhood);
        }
        page += "<table>\n";
        for (what, text) in report.lines() {
            let (what, text) = (escaped(what), escaped(&text));
            page += &format!("<tr><th>{what}</th><td>{text}</td></tr>\n");
        }
        page += "</table>\n";
    }
    page
}

fn end(what: &str, name: &str) -> End {
    End {
        what: what.to_owned(),
        name: name.to_owned(),
    }
}

/// Finds the neighbourhood of every node of a graph and of the graphs in it, by path.
fn collect<'a>(
    graph: &'a GraphProto,
    path: &str,
    outer: &HashMap<&'a str, End>,
    around: &mut HashMap<String, Neighbourhood>,
) {
    let mut values = outer.clone();
    for name in initializer_names(graph) {
        values.insert(name, end("constant", name));
    }
    for input in &graph.input {
        values.insert(&input.name, end("input", &input.name));
    }
    let outputs: Vec<&str> = graph.output.iter().map(|it| it.name.as_str()).collect();
    collect_nodes(&graph.node, path, &mut values, &outputs, around);
}

fn collect_nodes<'a>(
    nodes: &'a [NodeProto],
    path: &str,
    values: &mut HashMap<&'a str, End>,
    outputs: &[&str],
    around: &mut HashMap<String, Neighbourhood>,
) {
    let ends: Vec<End> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| end(&node.op_type, &node_label(index, node)))
        .collect();
    let mut takers: HashMap<&str, Vec<End>> = HashMap::new();
    for (node, end) in std::iter::zip(nodes, &ends) {
        for input in &node.input {
            takers.entry(input).or_default().push(end.clone());
        }
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            values.insert(output, end.clone());
        }
    }
    for output in outputs {
        takers
            .entry(output)
            .or_default()
            .push(end("output", output));
    }
    for (node, end) in std::iter::zip(nodes, ends) {
        let path = format!("{path}/{}", end.name);
        for attribute in &node.attribute {
            for graph in attribute.g.iter().chain(&attribute.graphs) {
                collect(graph, &format!("{path}/{}", attribute.name), values, around);
            }
        }
        if !revseq_graph::Operator::is_known(&node.domain, &node.op_type) {
            continue;
        }
        let inputs = node.input.iter();
        let given = inputs.filter_map(|name| Some((name.clone(), values.get(name.as_str())?)));
        let outputs = node.output.iter().flat_map(|name| {
            let takers = takers.get(name.as_str()).into_iter().flatten();
            takers.map(move |taker| (name.clone(), taker.clone()))
        });
        let neighbourhood = Neighbourhood {
            node: end,
            producers: given.map(|(name, end)| (name, end.clone())).collect(),
            consumers: outputs.collect(),
        };
        around.insert(path, neighbourhood);
    }
}

/// Three rows: the producers of the inputs, the node, the consumers of the output.
fn picture(neighbourhood: &Neighbourhood) -> String {
    let Neighbourhood {
        node,
        producers,
        consumers,
    } = neighbourhood;
    let columns = producers.len().max(consumers.len()).max(1);
    let width = columns * (BOX.0 + GAP.0) + GAP.0;
    let step = BOX.1 + GAP.1;
    let rows = 2 + usize::from(!consumers.is_empty());
    let height = (rows - 1) * step + BOX.1 + 2;
    let mut svg = format!(
        "<svg width=\"{width}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{}\">\n",
        escaped(&format!("{} and what is around it", node.name))
    );
    // The middles of the boxes of a row.
    let middle = |index: usize, count: usize| {
        (width - count * (BOX.0 + GAP.0)) / 2 + index * (BOX.0 + GAP.0) + (BOX.0 + GAP.0) / 2
    };
    let center = width / 2;
    for (index, (value, producer)) in producers.iter().enumerate() {
        let x = middle(index, producers.len());
        edge(&mut svg, (x, BOX.1), (center, step), value);
        boxed(&mut svg, x, 1, producer, "");
    }
    for (index, (value, consumer)) in consumers.iter().enumerate() {
        let x = middle(index, consumers.len());
        edge(&mut svg, (x, 2 * step), (center, step + BOX.1), value);
        boxed(&mut svg, x, 2 * step + 1, consumer, "");
    }
    boxed(&mut svg, center, step + 1, node, "ours");
    svg + "</svg>\n"
}

/// A line from a box to that of the node, with a value's name nearer to the first, so that the
/// names of several do not meet.
fn edge(svg: &mut String, from: (usize, usize), to: (usize, usize), value: &str) {
    let at = ((3 * from.0 + to.0) / 4, (2 * from.1 + to.1) / 3 + 4);
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\
         <text class=\"value\" x=\"{}\" y=\"{}\">{}<title>{}</title></text>",
        from.0,
        from.1,
        to.0,
        to.1,
        at.0,
        at.1,
        escaped(&shortened(value)),
        escaped(value)
    );
}

fn boxed(svg: &mut String, middle: usize, top: usize, end: &End, class: &str) {
    let (width, height) = BOX;
    let left = middle - width / 2;
    let _ = writeln!(
        svg,
        "<g><title>{} {}</title><rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" \
         height=\"{height}\" rx=\"5\"/><text x=\"{middle}\" y=\"{}\">{}</text>\
         <text class=\"name\" x=\"{middle}\" y=\"{}\">{}</text></g>",
        escaped(&end.what),
        escaped(&end.name),
        top + 18,
        escaped(&shortened(&end.what)),
        top + 35,
        escaped(&shortened(&end.name)),
    );
}

/// The end of a long name: exporters put the layers' names first.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    if count <= FITS {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 1 - FITS).collect();
    format!("…{end}")
}
