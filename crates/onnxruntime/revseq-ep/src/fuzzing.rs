//! Entry points for fuzzers.

use recurrent_layers::Layer;
pub use revseq_onnx::model;

use self::model::AttributeProto;
use crate::plugin::node::Node;
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

/// Reads a node of a recurrent layer. Returns the layer, or why it is not computed.
pub fn layer(op_type: &str, attributes: Vec<AttributeProto>) -> Result<Layer, String> {
    let node = Node {
        name: String::new(),
        domain: String::new(),
        op_type: op_type.to_owned(),
        since_version: 22,
        attributes,
        inputs: vec![],
        outputs: vec![],
    };
    Form::of(&node).map(|form| form.layer)
}
