//! The size of a model's parameters.

use revseq_onnx::model::{GraphProto, STRING, TensorProto};
use revseq_onnx::tensor::element_size;

use super::Model;

/// The initializers and the tensors of Constant nodes of a model, those of graphs in nodes too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) constants: usize,
    /// Number of their elements.
    pub(crate) parameters: u64,
    /// Number of bytes of their elements; strings count nothing.
    pub(crate) bytes: u64,
}

impl Model {
    /// The size of the parameters; their values need not be loaded.
    pub(crate) fn weights(&self) -> Weights {
        let mut weights = Weights::default();
        for graph in self.graph().with_inner() {
            weights.add_graph(graph);
        }
        weights
    }
}

impl Weights {
    fn add_graph(&mut self, graph: &GraphProto) {
        graph.initializer.iter().for_each(|tensor| self.add(tensor));
        let constants = graph.node.iter().filter(|node| node.op() == "Constant");
        let constants = constants.flat_map(|node| &node.attribute);
        for tensor in constants.filter_map(|it| it.t.as_option()) {
            self.add(tensor);
        }
    }

    fn add(&mut self, tensor: &TensorProto) {
        let sizes = tensor.dims.iter();
        let count = sizes.fold(1_u64, |count, &size| {
            count.saturating_mul(u64::try_from(size).unwrap_or_default())
        });
        let bits = match tensor.code() {
            STRING => 0,
            // The floats of 8 bits, and the types of 4 and 2 (onnx/onnx.proto).
            17..=20 | 24 => 8,
            21..=23 => 4,
            25 | 26 => 2,
            code => 8 * element_size(code).unwrap_or(0) as u64,
        };
        self.constants += 1;
        self.parameters = self.parameters.saturating_add(count);
        self.bytes = self
            .bytes
            .saturating_add(count.saturating_mul(bits).div_ceil(8));
    }
}
