//! How large the parameters of a model are.

use revseq_graph::ElementType;
use tract_onnx::pb::{GraphProto, TensorProto};

use super::Model;

/// The initializers and the tensors of Constant nodes of a model, those of graphs in nodes too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) constants: u64,
    /// Their elements.
    pub(crate) parameters: u64,
    /// Strings count nothing.
    pub(crate) bytes: u64,
}

impl Model {
    /// The size of the parameters; their values need not be loaded.
    pub(crate) fn weights(&self) -> Weights {
        let mut weights = Weights::default();
        weights.add_graph(self.graph());
        weights
    }
}

impl Weights {
    fn add_graph(&mut self, graph: &GraphProto) {
        graph.initializer.iter().for_each(|tensor| self.add(tensor));
        let constants = graph.node.iter().filter(|node| node.op_type == "Constant");
        let constants = constants.flat_map(|node| &node.attribute);
        for tensor in constants.filter_map(|it| it.t.as_ref()) {
            self.add(tensor);
        }
        let attributes = graph.node.iter().flat_map(|node| &node.attribute);
        for inner in attributes.flat_map(|it| it.g.iter().chain(&it.graphs)) {
            self.add_graph(inner);
        }
    }

    fn add(&mut self, tensor: &TensorProto) {
        let sizes = tensor.dims.iter();
        let count = sizes.fold(1_u64, |count, &size| {
            count.saturating_mul(u64::try_from(size).unwrap_or_default())
        });
        let bits = match (
            ElementType::from_onnx_code(tensor.data_type),
            tensor.data_type,
        ) {
            (Some(ElementType::Fixed(data_type)), _) => 8 * data_type.size() as u64,
            // The floats of 8 bits, and the types of 4 and 2 (onnx/onnx.proto).
            (None, 17..=20 | 24) => 8,
            (None, 21..=23) => 4,
            (None, 25 | 26) => 2,
            _ => 0,
        };
        self.constants += 1;
        self.parameters = self.parameters.saturating_add(count);
        self.bytes = self
            .bytes
            .saturating_add(count.saturating_mul(bits).div_ceil(8));
    }
}
