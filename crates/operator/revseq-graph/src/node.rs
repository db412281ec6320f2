//! A node as its host sees it, borrowed.

use crate::ElementType;

/// A node of an ONNX graph.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The node's name, for messages.
    pub name: &'a str,
    /// The operator's domain: empty or `ai.onnx` for ONNX's own.
    pub domain: &'a str,
    /// The operator.
    pub op_type: &'a str,
    /// The version of the operator's schema, or that of the operator set that
    /// the model imports for the domain: either selects the schema.
    pub since_version: i64,
    /// The attributes that the model sets.
    pub attributes: &'a [Attribute<'a>],
    /// The inputs, in order.
    pub inputs: &'a [Input<'a>],
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// An integer: the one type that the operators have.
    Int(i64),
    /// A value of any other type, by the type's name.
    Other(&'a str),
}

/// An input of a node, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a> {
    /// The value's name; empty for an input that is left out.
    pub name: &'a str,
    /// The type of its elements.
    pub element_type: Option<ElementType>,
    /// Its sizes in elements, each known or not.
    pub shape: Option<&'a [Option<u64>]>,
}
