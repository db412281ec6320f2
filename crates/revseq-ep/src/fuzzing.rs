//! Entry points for fuzzers.

use recurrent_layers::Layer;

use crate::plugin::node::{Attribute, Node};
use crate::plugin::options::option;
use crate::provider::EP_NAME_STR;
use crate::provider::layers::Form;
use crate::provider::options::Options;

/// Reads a session's configuration. Returns the device's name, or the error.
pub fn options(entries: &[(&str, &str)]) -> Result<String, String> {
    let of_ep = |&(key, value)| Some((option(key, EP_NAME_STR)?, value));
    match Options::new(entries.iter().filter_map(of_ep)) {
        Ok(options) => Ok(options.device().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The value of an attribute.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "for a fuzzer alone")]
pub enum Value {
    Int(i64),
    Float(f32),
    String(String),
    Floats(Vec<f32>),
    Strings(Vec<String>),
    Other,
}

/// Reads a node of a recurrent layer. Returns the layer, or why it is not computed.
pub fn layer(op_type: &str, attributes: &[(&str, Value)]) -> Result<Layer, String> {
    let attributes = attributes.iter().map(|(name, value)| {
        let value = match value.clone() {
            Value::Int(value) => Attribute::Int(value),
            Value::Float(value) => Attribute::Float(value),
            Value::String(value) => Attribute::String(value),
            Value::Floats(values) => Attribute::Floats(values),
            Value::Strings(values) => Attribute::Strings(values),
            Value::Other => Attribute::Other("graph"),
        };
        ((*name).to_owned(), value)
    });
    let node = Node {
        name: String::new(),
        domain: String::new(),
        op_type: op_type.to_owned(),
        since_version: 22,
        attributes: attributes.collect(),
        inputs: vec![],
        outputs: vec![],
    };
    Form::of(&node).map(|form| form.layer)
}
