//! Inputs that tract requires before it runs: if a model reads axes, sizes and the like from its
//! inputs, their values become part of the prepared model.

use std::collections::{BTreeSet, HashMap, HashSet};

use revseq_graph::ElementType;
use revseq_onnx::operators::Operator;
use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use super::Inputs;
use super::values::element_type;

/// The most elements of an input that counts as axes, sizes or a condition.
const MAXIMUM_ELEMENTS: usize = 64;

/// The small inputs of a model that its nodes need as constants, or that decide an If.
pub(super) fn inputs(graph: &GraphProto, inputs: &Inputs) -> BTreeSet<String> {
    let mut search = Search {
        inputs,
        makers: HashMap::new(),
        seen: BTreeSet::new(),
        names: BTreeSet::new(),
    };
    search.graph(graph);
    search.names
}

struct Search<'a> {
    inputs: &'a Inputs,
    /// The nodes that make values, of all graphs.
    makers: HashMap<&'a str, &'a NodeProto>,
    seen: BTreeSet<&'a str>,
    names: BTreeSet<String>,
}

impl<'a> Search<'a> {
    fn graph(&mut self, graph: &'a GraphProto) {
        for node in &graph.node {
            self.makers
                .extend(node.output.iter().map(|output| (output.as_str(), node)));
        }
        for node in &graph.node {
            let places = Operator::of(&node.op_type).map_or(&[][..], |it| it.constants);
            let places = places.iter().map(|(index, _)| *index);
            let condition = (node.op_type == "If").then_some(0);
            for index in places.chain(condition) {
                if let Some(name) = node.input.get(index) {
                    self.follow(name);
                }
            }
            let attributes = node.attribute.iter();
            for inner in attributes.flat_map(|it| it.g.iter().chain(&it.graphs)) {
                self.graph(inner);
            }
        }
    }

    /// Adds the inputs that a value is computed from. Shapes are known without them.
    fn follow(&mut self, name: &'a str) {
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            if !self.seen.insert(name) {
                continue;
            }
            if let Some(input) = self.inputs.get(name) {
                if input.len() <= MAXIMUM_ELEMENTS {
                    self.names.insert(name.to_owned());
                }
                continue;
            }
            let maker = self.makers.get(name);
            let maker = maker.filter(|node| !["Shape", "Size"].contains(&node.op_type.as_str()));
            open.extend(
                maker
                    .iter()
                    .flat_map(|node| &node.input)
                    .map(String::as_str),
            );
        }
    }
}

/// Makes initializers of inputs.
pub(super) fn fix(graph: &mut GraphProto, inputs: &Inputs) -> TractResult<()> {
    graph
        .input
        .retain(|input| !inputs.contains_key(&input.name));
    for (name, value) in inputs {
        let datum_type = value.datum_type();
        let known = element_type(datum_type).filter(|it| *it != ElementType::String);
        let known = known.with_context(|| format!("input {name:?} is of type {datum_type:?}"))?;
        graph.initializer.push(TensorProto {
            name: name.clone(),
            dims: value.shape().iter().map(|&size| size as i64).collect(),
            data_type: known.onnx_code(),
            raw_data: value.as_bytes().to_vec(),
            ..TensorProto::default()
        });
    }
    Ok(())
}

/// The inputs that tract has as sources: those without an initializer, in order.
pub(crate) fn graph_inputs(graph: &GraphProto) -> Vec<String> {
    let initialized = graph.initializer.iter().map(|it| it.name.as_str());
    let initialized: HashSet<&str> = initialized.collect();
    let names = graph.input.iter().map(|input| input.name.as_str());
    names
        .filter(|name| !initialized.contains(name))
        .map(str::to_owned)
        .collect()
}
