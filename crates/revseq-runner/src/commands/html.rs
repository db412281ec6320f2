//! A page of our nodes in a model: the details of each, and a picture of its neighbours.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use revseq_onnx::model::{FunctionProto, GraphProto, NodeProto};

use super::markup::escaped;
use super::report::Report;
use crate::model::Model;

/// The width of a box, the height of each of its lines, and the room around it, in pixels.
const WIDTH: usize = 230;
const LINE: usize = 17;
const GAP: (usize, usize) = (20, 56);

/// How many characters of a name fit into a box.
const FITS: usize = 30;

const STYLE: &str = "\
:root { color-scheme: light dark; --text: #1b1f24; --faint: #5b6570; --page: #fff; --edge: #8c959f;
  --box: #f3f5f7; --ours: #ffe08a; --ours-edge: #9a6b00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ed; --faint: #9aa5b1; --page: #14181d;
  --edge: #7d8792; --box: #232a32; --ours: #5c4400; --ours-edge: #e3b341; } }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: var(--text); background: var(--page); overflow-wrap: anywhere; }
h1 { font-size: 1.4em; }
h2 { font-size: 1.05em; margin: 2em 0 .5em; }
th { text-align: left; vertical-align: top; padding-right: 1.5em; font-weight: 600;
  overflow-wrap: normal; }
td.count { text-align: right; }
@media (max-width: 40em) { .details :is(th, td) { display: block; } .details td { padding-left: 1em; } }
.wide { overflow-x: auto; margin: .5em 0; }
svg { display: block; max-width: 100%; height: auto; }
rect { fill: var(--box); stroke: var(--edge); }
.ours rect { fill: var(--ours); stroke: var(--ours-edge); }
line { stroke: var(--edge); }
marker path { fill: var(--edge); }
text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: var(--text); }
g:not(.ours) text ~ text { fill: var(--faint); }
.value { fill: var(--faint); paint-order: stroke; stroke: var(--page); stroke-width: 5px; }
";

/// The arrow head of all lines.
const ARROW: &str = "\
<svg width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" \
refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
<path d=\"M0 0L8 4L0 8Z\"/></marker></defs></svg>
";

/// The producer or a consumer of a value.
#[derive(Clone, Debug)]
struct End {
    /// The operator, or another kind, such as an input.
    what: String,
    name: String,
    /// The node that reads the value in a graph of this operator, and how many others do.
    inside: Option<(Reader, usize)>,
}

/// The operator and the name of a node that reads a value.
type Reader = (String, String);

impl End {
    fn new(what: &str, name: &str) -> Self {
        Self {
            what: what.to_owned(),
            name: name.to_owned(),
            inside: None,
        }
    }

    /// The lines of its box, with names that fit into it if they are to be `short`.
    fn lines(&self, short: bool) -> Vec<String> {
        let named = |what: &str, name: &str, more: &str| match short {
            true => {
                let room = FITS.saturating_sub(what.chars().count() + more.chars().count());
                format!("{what}{}{more}", shortened(name, room.max(FITS / 2)))
            }
            false => format!("{what}{name}{more}"),
        };
        let mut lines = vec![named("", &self.what, ""), named("", &self.name, "")];
        if let Some(((what, name), others)) = &self.inside {
            let more = match others {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            lines.push(named(&format!("↳ {what} "), name, &more));
        }
        lines
    }

    /// The height of its box.
    fn height(&self) -> usize {
        LINE * self.lines(true).len() + 10
    }
}

/// A node and its neighbours.
struct Neighbourhood {
    node: End,
    /// The producer of each input, with the input's name.
    producers: Vec<(String, End)>,
    /// The consumers of the outputs, with the output's name.
    consumers: Vec<(String, End)>,
}

/// The page of a model, with the number of nodes of other operators.
pub(super) fn page(
    model: &Model,
    lines: &[String],
    reports: &[Report],
    others: &BTreeMap<String, usize>,
) -> String {
    let functions = model.proto.functions.iter();
    let mut neighbourhoods = Neighbourhoods {
        functions: functions.map(|it| (key(it), it)).collect(),
        found: HashMap::new(),
    };
    neighbourhoods.graph(model.graph(), "graph", &HashMap::new());
    for function in &model.proto.functions {
        let (domain, name) = key(function);
        neighbourhoods.function(function, &format!("function {domain}::{name}"));
    }
    let title = escaped(&name(model));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n{ARROW}<h1>{title}</h1>\n"
    );
    for line in lines {
        page += &format!("<div>{}</div>\n", escaped(line));
    }
    for report in reports {
        let operator = escaped(&report.operator);
        page += &format!("<h2>{}: {operator}</h2>\n", escaped(&report.path));
        if let Some(neighbourhood) = neighbourhoods.found.get(&report.path) {
            page += &picture(neighbourhood);
        }
        page += "<table class=\"details\">\n";
        for (what, text) in report.lines() {
            let (what, text) = (escaped(what), escaped(&text));
            page += &format!("<tr><th>{what}</th><td>{text}</td></tr>\n");
        }
        page += "</table>\n";
    }
    if !others.is_empty() {
        page += "<h2>other operators</h2>\n<table>\n";
        for (operator, count) in others {
            let operator = escaped(operator);
            page += &format!("<tr><th>{operator}</th><td class=\"count\">{count}</td></tr>\n");
        }
        page += "</table>\n";
    }
    page
}

/// The model's name: that of its file, or of its folder, where ONNX's test data have a
/// `model.onnx`.
fn name(model: &Model) -> String {
    let path = &model.path;
    let folder = path.parent().and_then(|folder| folder.file_name());
    let name = match (path.file_name(), folder) {
        (Some(file), Some(folder)) if file == "model.onnx" => folder,
        (Some(file), _) => file,
        (None, _) => path.as_os_str(),
    };
    name.to_string_lossy().into_owned()
}

/// The values that a graph's nodes read from outer graphs, with their readers.
type Captured<'a> = Vec<(&'a str, Reader)>;

/// The domain and the name of a function.
fn key(function: &FunctionProto) -> (&str, &str) {
    (function.domain(), function.name())
}

/// Finds the neighbourhood of every node of our operators.
struct Neighbourhoods<'a> {
    functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    /// By path.
    found: HashMap<String, Neighbourhood>,
}

impl<'a> Neighbourhoods<'a> {
    /// Visits a graph, and returns the values that it reads from outer graphs.
    fn graph(
        &mut self,
        graph: &'a GraphProto,
        path: &str,
        outer: &HashMap<&'a str, End>,
    ) -> Captured<'a> {
        let mut values = outer.clone();
        let mut local: HashSet<&str> = HashSet::new();
        for name in graph.constants() {
            values.insert(name, End::new("constant", name));
            local.insert(name);
        }
        for input in graph.inputs() {
            values.insert(input, End::new("input", input));
            local.insert(input);
        }
        let outputs: Vec<&str> = graph.outputs().collect();
        let mut captured = self.nodes(&graph.node, path, &mut values, &outputs);
        captured.retain(|(name, _)| !local.contains(name));
        captured
    }

    /// Visits a function, which reads nothing but its inputs.
    fn function(&mut self, function: &'a FunctionProto, path: &str) {
        let inputs = function.input.iter();
        let mut values = inputs
            .map(|input| (input.as_str(), End::new("input", input)))
            .collect();
        let outputs: Vec<&str> = function.output.iter().map(String::as_str).collect();
        self.nodes(&function.node, path, &mut values, &outputs);
    }

    /// Visits nodes, and returns the values that they and `outputs` read but do not define.
    fn nodes(
        &mut self,
        nodes: &'a [NodeProto],
        path: &str,
        values: &mut HashMap<&'a str, End>,
        outputs: &[&'a str],
    ) -> Captured<'a> {
        let ends: Vec<End> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| End::new(node.op(), &node.label(index)))
            .collect();
        let mut local: HashSet<&str> = HashSet::new();
        for (node, end) in std::iter::zip(nodes, &ends) {
            for output in node.outputs() {
                values.insert(output, end.clone());
                local.insert(output);
            }
        }
        let mut takers: HashMap<&str, Vec<End>> = HashMap::new();
        let mut captured: Captured<'a> = Vec::new();
        for (node, end) in std::iter::zip(nodes, &ends) {
            for (index, input) in node.input.iter().enumerate() {
                if node.input[..index].contains(input) {
                    continue;
                }
                takers.entry(input).or_default().push(end.clone());
                captured.push((input, (end.what.clone(), end.name.clone())));
            }
            let path = format!("{path}/{}", end.name);
            let key = (node.domain(), node.op());
            if let Some(&function) = self.functions.get(&key) {
                self.function(function, &format!("{path}/{}", node.op()));
            }
            let mut inside: BTreeMap<&str, (Reader, usize)> = BTreeMap::new();
            for attribute in &node.attribute {
                for graph in attribute.all_graphs() {
                    let path = format!("{path}/{}", attribute.name());
                    for (name, reader) in self.graph(graph, &path, values) {
                        match inside.get_mut(name) {
                            Some((_, others)) => *others += 1,
                            None => {
                                inside.insert(name, (reader.clone(), 0));
                            }
                        }
                        captured.push((name, reader));
                    }
                }
            }
            for (name, readers) in inside {
                let inside = Some(readers);
                let end = end.clone();
                takers.entry(name).or_default().push(End { inside, ..end });
            }
        }
        for output in outputs {
            let end = End::new("output", output);
            captured.push((output, ("output".to_owned(), (*output).to_owned())));
            takers.entry(output).or_default().push(end);
        }
        for (node, end) in std::iter::zip(nodes, ends) {
            if revseq_graph::Operator::is_known(node.domain(), node.op()) {
                let path = format!("{path}/{}", end.name);
                let found = neighbourhood(node, end, values, &takers);
                self.found.insert(path, found);
            }
        }
        captured.retain(|(name, _)| !name.is_empty() && !local.contains(name));
        captured
    }
}

fn neighbourhood(
    node: &NodeProto,
    end: End,
    values: &HashMap<&str, End>,
    takers: &HashMap<&str, Vec<End>>,
) -> Neighbourhood {
    let producers = node
        .input
        .iter()
        .filter_map(|name| Some((name.clone(), values.get(name.as_str())?.clone())));
    let consumers = node.output.iter().flat_map(|name| {
        let takers = takers.get(name.as_str()).into_iter().flatten();
        takers.map(move |taker| (name.clone(), taker.clone()))
    });
    Neighbourhood {
        node: end,
        producers: producers.collect(),
        consumers: consumers.collect(),
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
    let width = columns * (WIDTH + GAP.0) + GAP.0;
    let step = node.height() + GAP.1;
    let last = consumers.iter().map(|(_, end)| end.height()).max();
    let bottom = last.map_or(step + node.height(), |last| 2 * step + last);
    let mut svg = format!(
        "<div class=\"wide\"><svg width=\"{width}\" viewBox=\"0 0 {width} {}\" \
         style=\"min-width: {}px\" role=\"img\" aria-label=\"{}\">\n",
        bottom + 2,
        // Smaller text is unreadable.
        width * 2 / 3,
        escaped(&format!("{} and its neighbours", node.name))
    );
    // The middles of the boxes of a row.
    let middle = |index: usize, count: usize| {
        (width - count * (WIDTH + GAP.0)) / 2 + index * (WIDTH + GAP.0) + (WIDTH + GAP.0) / 2
    };
    let center = width / 2;
    for (index, (value, producer)) in producers.iter().enumerate() {
        let x = middle(index, producers.len());
        let (from, to) = ((x, producer.height()), (center, step));
        edge(&mut svg, (from, to), from, value);
        boxed(&mut svg, x, 1, producer, "");
    }
    for (index, (value, consumer)) in consumers.iter().enumerate() {
        let x = middle(index, consumers.len());
        let (from, to) = ((center, step + node.height()), (x, 2 * step));
        edge(&mut svg, (from, to), to, value);
        boxed(&mut svg, x, 2 * step + 1, consumer, "");
    }
    boxed(&mut svg, center, step + 1, node, " class=\"ours\"");
    svg + "</svg></div>\n"
}

type Point = (usize, usize);

/// An arrow from a box to another, with a value's name nearer to `near`, so that the names of
/// several do not meet.
fn edge(svg: &mut String, (from, to): (Point, Point), near: Point, value: &str) {
    let far = if near == from { to } else { from };
    let at = ((7 * near.0 + far.0) / 8, (2 * near.1 + far.1) / 3 + 4);
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" marker-end=\"url(#arrow)\"/>\
         <text class=\"value\" x=\"{}\" y=\"{}\">{}<title>{}</title></text>",
        from.0,
        from.1,
        to.0,
        to.1,
        at.0,
        at.1,
        escaped(&shortened(value, FITS)),
        escaped(value)
    );
}

fn boxed(svg: &mut String, middle: usize, top: usize, end: &End, class: &str) {
    let _ = write!(
        svg,
        "<g{class}><title>{}</title><rect x=\"{}\" y=\"{top}\" width=\"{WIDTH}\" \
         height=\"{}\" rx=\"5\"/>",
        escaped(&end.lines(false).join(" ")),
        middle - WIDTH / 2,
        end.height(),
    );
    for (index, line) in end.lines(true).iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"{}\">{}</text>",
            top + LINE * (index + 1),
            escaped(line),
        );
    }
    svg.push_str("</g>\n");
}

/// The end of a name that is longer than `room`: exporters put the layers' names first.
fn shortened(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 1 - room).collect();
    format!("…{end}")
}
