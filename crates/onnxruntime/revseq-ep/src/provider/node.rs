//! Nodes of the operators.

use revseq_graph::{Attribute, AttributeValue, ElementType, Error, Input, Node, Operator};
use revseq_onnx::model::AttributeType;

use crate::plugin::node;

/// The attributes of the operators.
pub(super) const ATTRIBUTES: [&str; 3] = ["batch_axis", "time_axis", "axis"];

/// An input whose elements are not of a fixed size that kernels move, by its
/// position and type.
pub(super) fn unmovable_input(node: &node::Node) -> Option<(usize, String)> {
    let mut inputs = node.inputs.iter().enumerate();
    inputs.find_map(|(index, (_, input))| {
        let element = input.as_ref()?.element;
        match ElementType::from_onnx_code(element) {
            Some(ElementType::Fixed(_)) => None,
            Some(ElementType::String) => Some((index, String::from("string"))),
            None => Some((index, format!("ONNXTensorElementDataType {element}"))),
        }
    })
}

/// Reads a node's operator.
///
/// # Errors
/// A violation of its schema.
pub(super) fn operator(node: &node::Node) -> Result<Operator, Error> {
    let attributes: Vec<_> = node
        .attributes
        .iter()
        .map(|attribute| Attribute {
            name: attribute.name(),
            value: match attribute.r#type {
                Some(AttributeType::INT) => AttributeValue::Int(attribute.i.unwrap_or_default()),
                other => AttributeValue::Other(node::type_name(other)),
            },
        })
        .collect();
    let sizes: Vec<Option<Vec<_>>> = node
        .inputs
        .iter()
        .map(|(_, input)| {
            let sizes = input.as_ref()?.sizes.as_ref()?.iter();
            Some(sizes.map(|&size| u64::try_from(size).ok()).collect())
        })
        .collect();
    // Whether there is a name counts, and messages have it.
    let names: Vec<_> = node
        .inputs
        .iter()
        .map(|(name, _)| name.to_string_lossy())
        .collect();
    let inputs: Vec<_> = std::iter::zip(&node.inputs, &names)
        .zip(&sizes)
        .map(|(((_, input), name), sizes)| Input {
            name,
            element_type: input
                .as_ref()
                .and_then(|input| ElementType::from_onnx_code(input.element)),
            shape: sizes.as_deref(),
        })
        .collect();
    Operator::from_node(&Node {
        name: &node.name,
        domain: &node.domain,
        op_type: &node.op_type,
        since_version: node.since_version.into(),
        attributes: &attributes,
        inputs: &inputs,
    })
}
