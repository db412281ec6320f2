//! The neighbours of our nodes: who makes what a node reads, and who reads what it makes.
//!
//! A value is read in its graph and in the graphs inside that graph's nodes. A node that reads it
//! inside, such as a Loop, is a neighbour that names the nodes that do, such as a Gather in its body.

use std::collections::HashMap;

use revseq_graph::Operator;
use revseq_onnx::model::{FunctionProto, NodeProto};
use revseq_onnx::scope::{Scope, Source};

use crate::model::Model;

/// A node, or another producer or reader of a value, such as an input.
pub(super) struct End {
    /// The operator, or the kind.
    pub(super) what: String,
    pub(super) name: String,
    /// The nodes that read the value in graphs of this one.
    pub(super) inside: Vec<End>,
}

impl End {
    fn new(what: &str, name: &str) -> Self {
        Self {
            what: what.to_owned(),
            name: name.to_owned(),
            inside: Vec::new(),
        }
    }

    /// The nodes that read the value themselves.
    fn innermost(self) -> Vec<Self> {
        match self.inside.is_empty() {
            true => vec![self],
            false => self.inside,
        }
    }
}

/// A node and its neighbours.
pub(super) struct Neighbourhood {
    pub(super) node: End,
    /// The producer of each input, with the input's name.
    pub(super) producers: Vec<(String, End)>,
    /// The readers of the outputs, with the output's name.
    pub(super) readers: Vec<(String, End)>,
}

/// Finds the neighbourhood of every node of our operators, by path.
pub(super) fn find(model: &Model) -> HashMap<String, Neighbourhood> {
    let functions = model.proto.functions.iter();
    let mut finder = Finder {
        functions: functions.map(|it| ((it.domain(), it.name()), it)).collect(),
        found: HashMap::new(),
    };
    if let Some(main) = Scope::main(&model.proto, false) {
        finder.visit(&main, "graph");
    }
    for function in &model.proto.functions {
        let path = format!("function {}::{}", function.domain(), function.name());
        finder.visit(&body(function), &path);
    }
    finder.found
}

struct Finder<'a> {
    functions: HashMap<(&'a str, &'a str), &'a FunctionProto>,
    found: HashMap<String, Neighbourhood>,
}

impl Finder<'_> {
    fn visit(&mut self, scope: &Scope<'_>, path: &str) {
        let is_ours = |node: &NodeProto| Operator::is_known(node.domain(), node.op());
        let mut readers = match scope.nodes.iter().any(is_ours) {
            true => readers(scope),
            false => HashMap::new(),
        };
        for (index, node) in scope.nodes.iter().enumerate() {
            let end = End::new(node.op(), &node.label(index));
            let path = format!("{path}/{}", end.name);
            if let Some(function) = self.functions.get(&(node.domain(), node.op())) {
                self.visit(&body(function), &format!("{path}/{}", node.op()));
            }
            for attribute in &node.attribute {
                for graph in attribute.all_graphs() {
                    let inner = Scope::graph(graph, Some(scope), scope.opset);
                    self.visit(&inner, &format!("{path}/{}", attribute.name()));
                }
            }
            if is_ours(node) {
                let found = neighbourhood(scope, node, end, &mut readers);
                self.found.insert(path, found);
            }
        }
    }
}

/// The graph of a function. Neither its place in the model nor its operator set matters here.
fn body(function: &FunctionProto) -> Scope<'_> {
    Scope::function_body(function, 0)
}

fn neighbourhood(
    scope: &Scope<'_>,
    node: &NodeProto,
    end: End,
    readers: &mut HashMap<&str, Vec<End>>,
) -> Neighbourhood {
    let inputs = node.input.iter().filter(|name| !name.is_empty());
    let producers = inputs.filter_map(|name| Some((name.clone(), producer(scope, name)?)));
    let readers = node.outputs().flat_map(|name| {
        let readers = readers.remove(name).into_iter().flatten();
        readers.map(move |reader| (name.to_owned(), reader))
    });
    Neighbourhood {
        node: end,
        producers: producers.collect(),
        readers: readers.collect(),
    }
}

/// The producer of a value, if there is one.
fn producer(scope: &Scope<'_>, name: &str) -> Option<End> {
    let (owner, source) = scope.source(name)?;
    Some(match source {
        Source::Node { node, .. } => {
            let index = owner.nodes.iter().position(|it| std::ptr::eq(it, node))?;
            End::new(node.op(), &node.label(index))
        }
        Source::Input(_) if owner.inputs.contains(&name) => End::new("input", name),
        Source::Input(_) | Source::Initializer(_) => End::new("constant", name),
    })
}

/// The readers of each value that a graph reads, there and in the graphs inside its nodes.
fn readers<'a>(scope: &Scope<'a>) -> HashMap<&'a str, Vec<End>> {
    let mut readers: HashMap<&str, Vec<End>> = HashMap::new();
    for (index, node) in scope.nodes.iter().enumerate() {
        let end = || End::new(node.op(), &node.label(index));
        for (index, input) in node.input.iter().enumerate() {
            if !node.input[..index].contains(input) {
                readers.entry(input).or_default().push(end());
            }
        }
        let mut inside: HashMap<&str, Vec<End>> = HashMap::new();
        for graph in node.attribute.iter().flat_map(|it| it.all_graphs()) {
            let inner = Scope::graph(graph, None, 0);
            for (name, readers) in self::readers(&inner) {
                // A graph may have a value of its own under this name.
                if !inner.defines(name) {
                    let readers = readers.into_iter().flat_map(End::innermost);
                    inside.entry(name).or_default().extend(readers);
                }
            }
        }
        for (name, inside) in inside {
            let end = End { inside, ..end() };
            readers.entry(name).or_default().push(end);
        }
    }
    for output in &scope.outputs {
        let end = End::new("output", output);
        readers.entry(output).or_default().push(end);
    }
    readers
}
