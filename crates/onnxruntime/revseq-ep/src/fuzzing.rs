//! Entry points for fuzzers.

use recurrent_layers::{Layer, Recurrent};
use recurrent_steps::NodeAttributes;
pub use revseq_onnx::model;

use self::model::AttributeProto;
use crate::plugin::options::option;
use crate::provider::EP_NAME_STR;
use crate::provider::options::Options;

/// Reads a session's configuration. Returns the error, if there is one.
pub fn options(entries: &[(&str, &str)]) -> Result<(), String> {
    let of_ep = |&(key, value)| Some((option(key, EP_NAME_STR)?, value));
    let options = Options::new(entries.iter().filter_map(of_ep));
    options.map(|_| ()).map_err(|error| error.to_string())
}

/// Reads a node of a recurrent layer. Returns the layer, or why it is not computed.
pub fn layer(op_type: &str, attributes: &[AttributeProto]) -> Result<Layer, String> {
    let recurrent = Recurrent::of(op_type, &NodeAttributes(attributes));
    recurrent
        .map(|it| it.layer)
        .map_err(|error| error.to_string())
}
