//! The element types that a model names.

use std::collections::BTreeSet;

use anyhow::Result;
use tract_onnx::pb::GraphProto;

use super::values::ValueType;
use super::walk::walk;
use super::{Bindings, Model};

/// The codes of the element types that a model names where it can run.
///
/// # Errors
/// The errors of [`walk`].
pub(crate) fn element_types(model: &Model) -> Result<BTreeSet<i32>> {
    let mut types: BTreeSet<i32> = types_of(model.graph()).into_iter().collect();
    walk(model, &Bindings::new(), |site| {
        if site.is_dead {
            return;
        }
        for (name, attribute) in &site.attributes {
            let tensors = attribute.t.iter().chain(&attribute.tensors);
            types.extend(tensors.map(|tensor| tensor.data_type));
            if site.node.op_type == "Cast" && *name == "to" {
                types.extend(i32::try_from(attribute.i));
            }
        }
        let graphs = site
            .node
            .attribute
            .iter()
            .flat_map(|attribute| &attribute.g);
        types.extend(graphs.flat_map(types_of));
    })?;
    Ok(types)
}

/// The element types that a graph names.
fn types_of(graph: &GraphProto) -> Vec<i32> {
    let values = graph.input.iter().chain(&graph.output);
    let declared = values.filter_map(|value| ValueType::declared(value).element_type);
    declared
        .chain(graph.initializer.iter().map(|tensor| tensor.data_type))
        .collect()
}
