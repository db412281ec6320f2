//! The large constants of a model: tensors of tract's that all plans share.
//!
//! tract copies each constant out of the message that it reads. Here the data leaves the message
//! once, when a model is opened, and a mark with its place among the weights stays behind. When the
//! message is parsed, initializers become Constant nodes, and the parser of Constant looks marked
//! tensors up. uint32 and uint64 go this way in any size, as tract reads them from the wrong fields.

use std::collections::HashSet;
use std::sync::Weak;

use revseq_graph::ElementType;
use revseq_onnx::ModelProto;
use revseq_onnx::model::{self as onnx, UINT32, UINT64};
use revseq_tract_operators::template;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::session::values::datum_type;

/// The bytes from which on a constant is a weight: no shape and no list of axes is.
const LARGE: usize = 1 << 12;

/// The key of a tensor's external data that says its place among the weights.
const PLACE: &str = "revseq.weight";

/// The key of the weights in a template.
const WEIGHTS: &str = "revseq_tract.weights";

/// The weights of a model, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights(Arc<[Arc<Tensor>]>);

impl Weights {
    /// Lends the weights to the parsers of a model that is made of this template. Its bodies keep what
    /// they were made of, so it does not own them.
    pub(super) fn lend(&self, template: &mut InferenceModel) {
        template::hand(template, WEIGHTS, Arc::downgrade(&self.0));
    }
}

/// Takes the weights out of a model whose data is `raw_data`.
pub(super) fn take(model: &mut ModelProto) -> TractResult<Weights> {
    let mut weights = Vec::new();
    if let Some(graph) = model.graph.as_option_mut() {
        take_graph(graph, &mut weights)?;
    }
    Ok(Weights(weights.into()))
}

fn take_graph(graph: &mut onnx::GraphProto, weights: &mut Vec<Arc<Tensor>>) -> TractResult<()> {
    for tensor in &mut graph.initializer {
        take_tensor(tensor, weights)?;
    }
    for node in &mut graph.node {
        let is_constant = node.is("Constant");
        for attribute in &mut node.attribute {
            if let Some(tensor) = attribute.t.as_option_mut().filter(|_| is_constant) {
                take_tensor(tensor, weights)?;
            }
        }
        for inner in node.graphs_mut() {
            take_graph(inner, weights)?;
        }
    }
    Ok(())
}

fn take_tensor(tensor: &mut onnx::TensorProto, weights: &mut Vec<Arc<Tensor>>) -> TractResult<()> {
    let is_misread = matches!(tensor.code(), UINT32 | UINT64);
    // The key is of use here alone, and a file may have it.
    tensor.external_data.retain(|entry| entry.key() != PLACE);
    if tensor.is_external() || (tensor.raw().len() < LARGE && !is_misread) {
        return Ok(());
    }
    let known = ElementType::from_onnx_code(tensor.code()).and_then(datum_type);
    let Some(datum_type) = known.filter(|it| it.is_copy()) else {
        return Ok(());
    };
    let sizes = tensor.dims.iter().map(|&size| usize::try_from(size));
    let shape = sizes.collect::<Result<TVec<usize>, _>>()?;
    let mut weight = Tensor::zero_dt(datum_type, &shape)?;
    let data = tensor.raw_data.take().unwrap_or_default();
    let room = weight.as_bytes_mut();
    ensure!(
        room.len() == data.len(),
        "tensor {:?} has {} bytes, expected {}",
        tensor.name(),
        data.len(),
        room.len()
    );
    room.copy_from_slice(&data);
    tensor.data_location = Some(onnx::tensor_proto::DataLocation::EXTERNAL);
    tensor.external_data = vec![onnx::StringStringEntryProto {
        key: Some(PLACE.to_owned()),
        value: Some(weights.len().to_string()),
        ..Default::default()
    }];
    weights.push(weight.into_arc_tensor());
    Ok(())
}

/// The place of a tensor among the weights, if it is one.
fn place(tensor: &pb::TensorProto) -> Option<usize> {
    let mut entries = tensor.external_data.iter();
    let entry = entries.find(|entry| entry.key == PLACE)?;
    entry.value.parse().ok()
}

/// Whether a tensor's data is in a file, which is not read for shapes alone.
pub(super) fn is_in_file(tensor: &pb::TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32) && place(tensor).is_none()
}

/// Returns the tensor whose place a message says, among those that are lent to the parser.
pub(super) fn find(context: &ParsingContext<'_>, tensor: &pb::TensorProto) -> Option<Arc<Tensor>> {
    let weights: &Weak<[Arc<Tensor>]> = template::handed(context, WEIGHTS)?;
    weights.upgrade()?.get(place(tensor)?).cloned()
}

/// Makes Constant nodes of the initializers of a main graph and of those inside it: weights are looked
/// up by the parser of Constant, and tract compares an initializer with all constants before it, for
/// which 0 and -0 are the same.
pub(super) fn into_nodes(graph: &mut pb::GraphProto) {
    // Inputs with defaults are constants by now, if they are not given.
    let names = graph.initializer.iter().map(|tensor| &*tensor.name);
    let names: HashSet<&str> = names.collect();
    graph.input.retain(|input| !names.contains(&*input.name));
    initializers_into_nodes(graph);
}

/// The same for any graph, where an input that a node feeds hides an initializer.
fn initializers_into_nodes(graph: &mut pb::GraphProto) {
    let inputs: HashSet<&str> = graph.input.iter().map(|input| &*input.name).collect();
    let (constants, others): (Vec<_>, Vec<_>) = std::mem::take(&mut graph.initializer)
        .into_iter()
        .partition(|tensor| !inputs.contains(&*tensor.name) || place(tensor).is_some());
    let names: HashSet<&str> = constants.iter().map(|tensor| &*tensor.name).collect();
    graph.input.retain(|input| !names.contains(&*input.name));
    graph.initializer = others;
    let constants = constants.into_iter().map(|tensor| pb::NodeProto {
        name: tensor.name.clone(),
        op_type: "Constant".to_owned(),
        output: vec![tensor.name.clone()],
        attribute: vec![pb::AttributeProto {
            name: "value".to_owned(),
            r#type: AttributeType::Tensor as i32,
            t: Some(tensor),
            ..pb::AttributeProto::default()
        }],
        ..pb::NodeProto::default()
    });
    graph.node.splice(0..0, constants);
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes
        .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs))
        .for_each(initializers_into_nodes);
}
