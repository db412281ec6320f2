//! Inputs that tract requires before it runs: if a model reads axes, sizes and the like from its
//! inputs, their values become part of the prepared model.

use std::collections::{BTreeSet, HashMap, HashSet};

use revseq_graph::ElementType;
use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use super::Inputs;
use super::values::element_type;

/// The inputs of operators that tract wants as constants, by place, and ONNX's names for them.
pub(crate) fn wanted(operator: &str) -> &'static [(usize, &'static str)] {
    match operator {
        "BatchNormalization" => &[(1, "scale"), (2, "B"), (3, "mean"), (4, "var")],
        "BlackmanWindow" | "HammingWindow" | "HannWindow" => &[(0, "size")],
        "CenterCropPad" | "Expand" | "Reshape" => &[(1, "shape")],
        "ConstantOfShape" => &[(0, "input")],
        "CumSum" => &[(1, "axis")],
        "DFT" => &[(1, "dft_length"), (2, "axis")],
        "MelWeightMatrix" => &[
            (0, "num_mel_bins"),
            (1, "dft_length"),
            (2, "sample_rate"),
            (3, "lower_edge_hertz"),
            (4, "upper_edge_hertz"),
        ],
        "OneHot" => &[(1, "depth"), (2, "values")],
        "Pad" => &[(1, "pads"), (2, "constant_value"), (3, "axes")],
        "Range" => &[(0, "start"), (1, "limit"), (2, "delta")],
        "Resize" => &[(1, "roi"), (2, "scales"), (3, "sizes")],
        "STFT" => &[(1, "frame_step"), (2, "window"), (3, "frame_length")],
        "Slice" => &[(1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")],
        "Split" => &[(1, "split")],
        "Squeeze" | "Unsqueeze" => &[(1, "axes")],
        "Tile" => &[(1, "repeats")],
        "TopK" => &[(1, "K")],
        "Trilu" => &[(1, "k")],
        "Upsample" => &[(1, "scales")],
        reduce if reduce.starts_with("Reduce") => &[(1, "axes")],
        _ => &[],
    }
}

/// The most elements of an input that counts as axes, sizes or a condition.
const MAXIMUM_ELEMENTS: usize = 64;

/// The small inputs of a model that its nodes need as constants, or that decide an If.
pub(super) fn inputs(graph: &GraphProto, inputs: &Inputs) -> BTreeSet<String> {
    let mut search = Search {
        inputs,
        makers: HashMap::new(),
        seen: BTreeSet::new(),
        found: BTreeSet::new(),
    };
    search.graph(graph);
    search.found
}

struct Search<'a> {
    inputs: &'a Inputs,
    /// The nodes that make values, of all graphs.
    makers: HashMap<&'a str, &'a NodeProto>,
    seen: BTreeSet<&'a str>,
    found: BTreeSet<String>,
}

impl<'a> Search<'a> {
    fn graph(&mut self, graph: &'a GraphProto) {
        for node in &graph.node {
            self.makers
                .extend(node.output.iter().map(|output| (output.as_str(), node)));
        }
        for node in &graph.node {
            let wanted = wanted(&node.op_type).iter().map(|(index, _)| *index);
            let condition = (node.op_type == "If").then_some(0);
            for index in wanted.chain(condition) {
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
                    self.found.insert(name.to_owned());
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
