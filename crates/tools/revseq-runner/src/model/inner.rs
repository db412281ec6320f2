//! The values between the nodes of a model, made outputs.

use std::collections::HashSet;

use anyhow::Result;
use revseq_onnx::model::{NodeProto, all_nodes};
use revseq_onnx::order;
use serde::Serialize;

use super::Model;

/// A value that a node of the main graph produces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        let order = order::sorted(nodes).map(|order| order.nodes);
        let values = order.unwrap_or_default().into_iter().flat_map(|index| {
            let node = &nodes[index];
            node.outputs().map(move |name| Produced {
                name: name.to_owned(),
                node: node.label(index),
                operator: node.op().to_owned(),
            })
        });
        values.collect()
    }

    /// Counts the values that nodes within nodes produce, such as those of a loop's body.
    pub(crate) fn count_nested(&self) -> usize {
        let graphs = self.graph().node.iter().flat_map(NodeProto::graphs);
        let nested = graphs.flat_map(|graph| all_nodes(&graph.node));
        nested.map(|node| node.output.len()).sum()
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
        let mut model = Self::parse(self.path.clone(), self.bytes.clone())?;
        model.change(|model| model.graph.get_or_insert_default().output.extend(added))?;
        model.with_data()
    }
}
