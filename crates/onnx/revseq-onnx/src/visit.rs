//! All tensors of a model, wherever they are.

use anyhow::{Context, Result};

use crate::model::{GraphProto, ModelProto, NodeProto, TensorProto};

/// Calls a function with every tensor that a model holds, in functions too; an error says where.
pub(crate) fn for_each_tensor(
    model: &mut ModelProto,
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    if let Some(graph) = model.graph.as_option_mut() {
        in_graph(graph, visit)?;
    }
    for function in &mut model.functions {
        in_nodes(&mut function.node, visit)?;
    }
    Ok(())
}

fn in_graph(
    graph: &mut GraphProto,
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    for tensor in &mut graph.initializer {
        visit(tensor).with_context(|| format!("initializer {:?}", tensor.name()))?;
    }
    in_nodes(&mut graph.node, visit)
}

fn in_nodes(
    nodes: &mut [NodeProto],
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    for (index, node) in nodes.iter_mut().enumerate() {
        let label = node.label(index);
        for attribute in &mut node.attribute {
            let name = attribute.name.as_deref().unwrap_or_default();
            let tensor = attribute.t.as_option_mut().into_iter();
            for tensor in tensor.chain(&mut attribute.tensors) {
                visit(tensor).with_context(|| format!("node {label:?}, attribute {name}"))?;
            }
            let graph = attribute.g.as_option_mut().into_iter();
            for graph in graph.chain(&mut attribute.graphs) {
                in_graph(graph, visit)?;
            }
        }
    }
    Ok(())
}
