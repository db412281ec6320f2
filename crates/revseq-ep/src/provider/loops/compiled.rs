//! A fused node, and the inner session that runs it.

use std::collections::HashMap;

use revseq_onnx::encode;
use revseq_onnx::proto::{ModelProto, TensorProto};

use super::super::EP_NAME;
use super::super::error::Error;
use super::super::options::Options;
use super::{Claims, message};
use crate::plugin::error::Error as HostError;
use crate::plugin::fused::Fused;
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::session::{Around, Model, Session};
use crate::plugin::tensor::Context;

/// What runs a fused node.
pub(crate) struct Compiled {
    /// The name of the first loop, for messages.
    label: String,
    session: Session,
    /// The places of the session's inputs and outputs among those of the node.
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl Compiled {
    /// Makes a node that was fused of the nodes of a graph.
    pub(crate) fn new(
        claims: &Claims,
        graph: Graph<'_>,
        fused: GraphNode<'_>,
        options: &Options,
        around: &Around,
    ) -> Result<Self, Error> {
        let nodes = graph.nodes()?;
        let unknown = "the nodes are none that the provider had fused";
        let claim = claims.take(&nodes)?;
        let claim = claim.ok_or(HostError::argument("Compile", unknown))?;
        let label = label(&nodes)?;
        if around.writes_context {
            return Err(Error::Context.of_node(label));
        }
        let region = claim.region;
        let inputs = places(&region.inputs, fused.inputs()?)?;
        let outputs = places(&region.outputs, fused.outputs()?)?;
        let model = fill(region.replacement, graph, &nodes)?;
        let model = Model {
            bytes: &encode(&model).map_err(|error| Error::Replacement {
                problem: error.to_string(),
            })?,
            inputs: &region.inputs,
            outputs: &region.outputs,
        };
        let session = Session::new(around, EP_NAME, options.of_inner_session(), model);
        let session = session.map_err(|error| Error::from(error).of_node(label.clone()))?;
        Ok(Self {
            label,
            session,
            inputs,
            outputs,
        })
    }
}

impl Fused for Compiled {
    type Failure = Error;

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        let run = self.session.run(context, &self.inputs, &self.outputs);
        run.map_err(|error| Error::from(error).of_node(self.label.clone()))
    }
}

/// The first loop, for messages.
fn label(nodes: &[GraphNode<'_>]) -> Result<String, Error> {
    for node in nodes {
        let operator = node.operator()?;
        if message::is_loop(&operator) {
            return Ok(format!("{} node {:?}", operator.1, node.name()?));
        }
    }
    Ok(String::from("fused nodes"))
}

/// The places of values among those of a node.
fn places(names: &[String], values: Vec<Value<'_>>) -> Result<Vec<usize>, Error> {
    let known = message::names(values)?;
    let missing = "the fused node lacks a value of the nodes that it is made of";
    let place = |name: &String| {
        let place = known.iter().position(|it| it == name);
        place.ok_or(HostError::argument("Compile", missing))
    };
    Ok(names.iter().map(place).collect::<Result<_, _>>()?)
}

/// Copies the constants into a model that the host has of those it reads.
fn fill(
    mut replacement: ModelProto,
    graph: Graph<'_>,
    nodes: &[GraphNode<'_>],
) -> Result<ModelProto, Error> {
    let tensors = replacement.graph.as_option_mut().into_iter();
    let tensors = tensors.flat_map(|graph| &mut graph.initializer);
    let mut missing: HashMap<String, &mut TensorProto> = tensors
        .filter(|tensor| tensor.is_external())
        .map(|tensor| (tensor.name.clone().unwrap_or_default(), tensor))
        .collect();
    if missing.is_empty() {
        return Ok(replacement);
    }
    let mut constants = graph.initializers()?;
    for node in nodes {
        constants.extend(node.inputs()?);
        constants.extend(node.captured()?);
    }
    for constant in constants {
        if let Some(tensor) = missing.remove(&constant.name()?)
            && let Some(found) = constant.constant_tensor()?
        {
            tensor.data_location = None;
            tensor.external_data.clear();
            tensor.raw_data = Some(found.bytes.to_vec());
        }
    }
    Ok(replacement)
}
