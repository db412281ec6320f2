//! The values between the nodes of a model, made outputs.

use std::collections::HashSet;

use anyhow::Result;
use tract_onnx::pb::NodeProto;

use super::{Model, node_label, order};

/// A value that a node of the main graph produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) name: String,
    /// The node's label.
    pub(crate) node: String,
    pub(crate) operator: String,
}

impl Model {
    /// The values that the nodes of the main graph produce, in an order in which they can run.
    pub(crate) fn produced(&self) -> Vec<Produced> {
        let nodes = &self.graph().node;
        // A checked model has an order.
        let order = order::sorted(nodes).unwrap_or_default().into_iter();
        let values = order.flat_map(|index| {
            let node = &nodes[index];
            let names = node.output.iter().filter(|name| !name.is_empty());
            names.map(move |name| Produced {
                name: name.clone(),
                node: node_label(index, node),
                operator: node.op_type.clone(),
            })
        });
        values.collect()
    }

    /// How many values the nodes within nodes, such as those of a loop's body, produce.
    pub(crate) fn count_nested(&self) -> usize {
        fn nested(node: &NodeProto) -> usize {
            let graphs = node.attribute.iter();
            let graphs = graphs.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs));
            let nodes = graphs.flat_map(|graph| &graph.node);
            nodes.map(|node| node.output.len() + nested(node)).sum()
        }
        self.graph().node.iter().map(nested).sum()
    }

    /// The model with values among its outputs, after its own, and with all of its data.
    ///
    /// # Errors
    /// Data in another file cannot be read.
    pub(crate) fn with_outputs<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Produced>,
    ) -> Result<Self> {
        let own: HashSet<String> = self.output_names().into_iter().collect();
        let values = values.into_iter().map(|value| value.name.as_str());
        let added = values.filter(|name| !own.contains(*name));
        let added = added.map(revseq_onnx::model::untyped);
        Self::parse_changed(&self.path, &*self.bytes, |model| {
            let graph = model.graph.get_or_insert_default();
            graph.output.extend(added);
        })?
        .with_data()
    }
}
