//! The operators, element types and kinds of values that tract lacks for a model.

use std::collections::{BTreeMap, BTreeSet};

use revseq_graph::ElementType;
use revseq_onnx::operators::unheard_of_in;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};

use super::adapt::node_label;
use super::register::has_operator;
use crate::error::{Error, ErrorKind, MAXIMUM_NAME, shortened};
use crate::session::values::{datum_type, type_name};

/// The most characters of all names that are shown.
const MAXIMUM_NAMES: usize = 280;

/// The domain of operators on ONNX Runtime's own layout, which its optimiser chooses for a
/// processor.
const BLOCKED_LAYOUT: &str = "com.microsoft.nchwc::";

/// The operators, types and values that tract lacks for a model.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    /// The nodes of each operator.
    operators: BTreeMap<String, Vec<String>>,
    /// Everything else that it lacks, in the order of the message.
    others: BTreeSet<(u8, String)>,
    /// The version of ONNX's own operators.
    opset: i64,
    /// The operators among them that no runtime has, and what has them not: ONNX or ONNX Runtime.
    unheard_of: BTreeMap<String, &'static str>,
}

/// Returns what tract lacks for a prepared model's main graph, as an error on one line; `None` if
/// it lacks nothing that the graph alone shows.
pub(crate) fn lacks(graph: &GraphProto, opset: i64) -> Option<Error> {
    let mut lacking = Lacking {
        opset,
        ..Lacking::default()
    };
    for input in &graph.input {
        let is_tensor = element_type(input).is_some();
        if !is_tensor {
            let what = format!("input {:?}, which is not a tensor", input.name);
            lacking.others.insert((2, what));
        }
    }
    lacking.graph(graph);
    // Another runtime may have operators; few have more types.
    let kind = match lacking.operators.is_empty() {
        true => ErrorKind::Type,
        false => ErrorKind::Unsupported,
    };
    let is_everywhere = !lacking.unheard_of.is_empty();
    let message = lacking.message()?;
    Some(Error::new(kind, message).everywhere(is_everywhere))
}

impl Lacking {
    fn graph(&mut self, graph: &GraphProto) {
        let declared = graph.input.iter().chain(&graph.output);
        declared
            .filter_map(element_type)
            .for_each(|code| self.element_type(code));
        graph
            .initializer
            .iter()
            .for_each(|tensor| self.tensor(tensor));
        if !graph.sparse_initializer.is_empty() {
            self.sparse();
        }
        for (index, node) in graph.node.iter().enumerate() {
            if !has_operator(&node.domain, &node.op_type) {
                let operator = match node.domain.as_str() {
                    "" | "ai.onnx" => node.op_type.clone(),
                    domain => format!("{domain}::{}", node.op_type),
                };
                if let Some(by) = unheard_of_in(&node.domain, &node.op_type, self.opset) {
                    self.unheard_of.insert(operator.clone(), by);
                }
                self.operator(operator, node_label(index, node));
            }
            for attribute in &node.attribute {
                self.attribute(node, attribute);
            }
            if let Some(what) = unread(node) {
                let operator = format!("{} with {what}", node.op_type);
                self.operator(operator, node_label(index, node));
            }
        }
    }

    fn attribute(&mut self, node: &NodeProto, attribute: &AttributeProto) {
        let tensors = attribute.t.iter().chain(&attribute.tensors);
        tensors.for_each(|tensor| self.tensor(tensor));
        if attribute.sparse_tensor.is_some() || !attribute.sparse_tensors.is_empty() {
            self.sparse();
        }
        if node.op_type == "Cast"
            && attribute.name == "to"
            && let Ok(code) = i32::try_from(attribute.i)
        {
            self.element_type(code);
        }
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            self.graph(graph);
        }
    }

    fn operator(&mut self, operator: String, node: String) {
        self.operators.entry(operator).or_default().push(node);
    }

    fn tensor(&mut self, tensor: &TensorProto) {
        self.element_type(tensor.data_type);
    }

    fn element_type(&mut self, code: i32) {
        let known = ElementType::from_onnx_code(code);
        if known.and_then(datum_type).is_none() {
            self.others.insert((0, type_name(code)));
        }
    }

    fn sparse(&mut self) {
        self.others.insert((1, "sparse tensors".to_owned()));
    }

    /// All of it on one line, as far as that has room; `None` if nothing is lacking.
    fn message(self) -> Option<String> {
        let operators = self.operators.iter().map(|(operator, nodes)| {
            let first = shortened(&nodes[0], MAXIMUM_NAME);
            match nodes.len() {
                1 => format!("{operator} (node {first:?})"),
                2 => format!("{operator} (node {first:?} and another)"),
                count => format!("{operator} (node {first:?} and {} others)", count - 1),
            }
        });
        let others = self.others.iter().map(|(_, what)| what.clone());
        let all: Vec<String> = operators.chain(others).collect();
        let mut text = String::new();
        for (index, what) in all.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            if text.len() + what.len() > MAXIMUM_NAMES && index > 0 {
                text += &format!(" and {} more", all.len() - index);
                break;
            }
            text += separator;
            text += what;
        }
        if self
            .operators
            .keys()
            .any(|it| it.starts_with(BLOCKED_LAYOUT))
        {
            text += ", which ONNX Runtime's optimiser writes for one kind of processor: save the model \
                     with ORT_ENABLE_EXTENDED or less";
        }
        let unheard_of = &self.unheard_of;
        if let Some((first, by)) = unheard_of.first_key_value() {
            let is_all = unheard_of.len() == all.len() && unheard_of.values().all(|it| it == by);
            text += &match is_all && all.len() > 1 {
                true => format!("; {by} has none of them, either"),
                false => format!("; {by} has no {first}, either"),
            };
        }
        (!all.is_empty()).then(|| format!("tract has no {text}"))
    }
}

/// Returns what tract would leave out of a node as if it were not there, and compute something else.
fn unread(node: &NodeProto) -> Option<String> {
    let text = |name: &str| {
        let attribute = node.attribute.iter().find(|it| it.name == name)?;
        Some(String::from_utf8_lossy(&attribute.s))
    };
    let has = |name: &str| node.attribute.iter().any(|it| it.name == name);
    match node.op_type.as_str() {
        "SpaceToDepth" => {
            let mode = text("mode").filter(|mode| mode != "DCR")?;
            Some(format!("mode {mode}"))
        }
        "ConvTranspose" if has("output_shape") => {
            Some("output_shape and an input of unknown size".to_owned())
        }
        "ConvTranspose" if has("output_padding") => {
            let pad = text("auto_pad").filter(|pad| pad.starts_with("SAME"))?;
            Some(format!(
                "output_padding, auto_pad {pad} and an input of unknown size"
            ))
        }
        "DFT" => {
            let length = node.input.get(1).filter(|length| !length.is_empty())?;
            Some(format!("a length, {length:?}"))
        }
        "TreeEnsembleClassifier" => {
            let list = |name: &str| node.attribute.iter().find(|it| it.name == name);
            let labels = list("classlabels_int64s").map_or(0, |it| it.ints.len())
                + list("classlabels_strings").map_or(0, |it| it.strings.len());
            let classes = &list("class_ids")?.ints;
            let is_one = classes.iter().all(|class| classes.first() == Some(class));
            (labels == 2 && is_one).then(|| "scores of one of two classes".to_owned())
        }
        "GridSample" => {
            let mode = text("mode").filter(|mode| mode.ends_with("cubic"))?;
            let padding = text("padding_mode").filter(|padding| padding == "border")?;
            Some(format!("mode {mode} and padding_mode {padding}"))
        }
        _ => None,
    }
}

/// The code of the element type that a value is declared with, if it is a tensor.
fn element_type(value: &ValueInfoProto) -> Option<i32> {
    let TypeValue::TensorType(tensor) = value.r#type.as_ref()?.value.as_ref()?;
    (tensor.elem_type > 0).then_some(tensor.elem_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_operators_fit_one_line() {
        let mut lacking = Lacking::default();
        assert_eq!(Lacking::default().message(), None);
        for index in 0..3 {
            lacking.operator("Foo".to_owned(), format!("n{index}"));
        }
        lacking.operator("com.example::Bar".to_owned(), "b".repeat(100));
        lacking.element_type(16);
        let bar = "b".repeat(MAXIMUM_NAME);
        assert_eq!(
            lacking.message(),
            Some(format!(
                "tract has no Foo (node \"n0\" and 2 others), com.example::Bar (node \"…{bar}\"), \
                 bfloat16"
            ))
        );
        let mut lacking = Lacking::default();
        lacking.operator(format!("{BLOCKED_LAYOUT}Conv"), "n".to_owned());
        assert_eq!(
            lacking.message().as_deref(),
            Some(
                "tract has no com.microsoft.nchwc::Conv (node \"n\"), which ONNX Runtime's optimiser \
                 writes for one kind of processor: save the model with ORT_ENABLE_EXTENDED or less"
            )
        );
        let mut lacking = Lacking::default();
        for index in 0..50 {
            lacking.operator(format!("Operator{index}"), "x".repeat(80));
        }
        let message = lacking.message().expect("something is lacking");
        assert!(
            message.len() < 400 && message.ends_with(" more"),
            "{message}"
        );
    }
}
