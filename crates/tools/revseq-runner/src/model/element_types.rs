//! The element types that a model names.

use std::collections::BTreeSet;

use anyhow::Result;
use revseq_onnx::model::{GraphProto, TensorProto};

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
            types.extend(attribute.all_tensors().map(TensorProto::code));
            if site.node.op() == "Cast" && *name == "to" {
                types.extend(attribute.i.and_then(|code| i32::try_from(code).ok()));
            }
        }
        types.extend(site.node.graphs().flat_map(types_of));
    })?;
    Ok(types)
}

/// The element types that a graph names.
fn types_of(graph: &GraphProto) -> Vec<i32> {
    let values = graph.input.iter().chain(&graph.output);
    let declared = values.filter_map(|value| ValueType::declared(value).element_type);
    declared
        .chain(graph.initializer.iter().map(TensorProto::code))
        .collect()
}
