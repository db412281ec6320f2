//! The loop that a program stands for: it runs where the values of a run allow no program.

use std::sync::OnceLock;

use recurrent_steps::Around as _;
use revseq_onnx::encode;
use revseq_onnx::proto::type_proto::Tensor;
use revseq_onnx::proto::{GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};

use super::super::error::Error;
use super::super::options::Options;
use super::program::{OfGraph, Program};
use crate::plugin::session::{Around, Model, Prepared, Session};
use crate::plugin::tensor::Context;

/// A model of the loop, and its session once a run needed it.
#[derive(Debug)]
pub(super) struct Other {
    bytes: Vec<u8>,
    /// The names of the inputs and outputs.
    names: [Vec<String>; 2],
    /// Their places among those of the fused node.
    places: [Vec<usize>; 2],
    prepared: Prepared,
    session: OnceLock<Option<Session>>,
}

/// What the graph around a loop says of it.
pub(super) struct OfLoop<'a> {
    /// The model but for its graph.
    pub(super) header: &'a ModelProto,
    pub(super) node: &'a NodeProto,
    /// The names of what it reads, and of what its body captures.
    pub(super) reads: &'a [String],
    pub(super) graph: &'a OfGraph<'a>,
}

impl Other {
    /// Makes a model of a loop; `None` if a value of it has no known type or cannot be read.
    pub(super) fn new(
        of: &OfLoop<'_>,
        program: &Program,
        options: &Options,
        around: &Around,
    ) -> Option<Self> {
        let OfLoop { node, .. } = *of;
        let mut own = node.clone();
        for (index, name) in own.output.iter_mut().enumerate() {
            if name.is_empty() {
                // ONNX Runtime looks for the values of all outputs of a loop.
                *name = format!("unread output {index}");
            }
        }
        let mut graph = GraphProto {
            name: Some(String::from("loop")),
            node: vec![own],
            ..GraphProto::default()
        };
        let mut reads: Vec<&String> = of.reads.iter().filter(|it| !it.is_empty()).collect();
        reads.sort_unstable();
        reads.dedup();
        let mut inputs = vec![];
        for name in reads {
            match of.graph.constant(name) {
                Some(mut tensor) => {
                    tensor.name = Some(name.clone());
                    graph.initializer.push(tensor);
                }
                None => {
                    graph.input.push(tensor(name, of.graph.code(name)?));
                    inputs.push(name.clone());
                }
            }
        }
        let outputs = program.codes(node).filter(|(name, _)| !name.is_empty());
        graph.output = outputs.map(|(name, code)| tensor(name, code)).collect();
        let outputs = graph.output.iter().filter_map(|it| it.name.clone());
        let outputs = outputs.collect();
        let model = ModelProto {
            graph: graph.into(),
            ..of.header.clone()
        };
        Some(Self {
            bytes: encode(&model).ok()?,
            names: [inputs, outputs],
            places: Default::default(),
            prepared: Prepared::new(around, options.of_plain_session()).ok()?,
            session: OnceLock::new(),
        })
    }

    /// Takes the place of a node with these inputs and outputs; `None` if that lacks one of the loop's.
    pub(super) fn place(mut self, of_node: [&[String]; 2]) -> Option<Self> {
        let [inputs, outputs] = &self.names;
        let places = |names: &[String], all: &[String]| -> Option<Vec<usize>> {
            let place = |name| all.iter().position(|it| it == name);
            names.iter().map(place).collect()
        };
        self.places = [places(inputs, of_node[0])?, places(outputs, of_node[1])?];
        Some(self)
    }

    /// Runs the loop; `None` if it cannot be run.
    pub(super) fn run(&self, context: Context<'_>) -> Option<Result<(), Error>> {
        let [inputs, outputs] = &self.places;
        let session = self.session.get_or_init(|| {
            let [inputs, outputs] = &self.names;
            let model = Model {
                bytes: &self.bytes,
                inputs,
                outputs,
            };
            self.prepared.session(model).ok()
        });
        let session = session.as_ref()?;
        Some(session.run(context, inputs, outputs).map_err(Error::from))
    }
}

/// A tensor of any sizes.
fn tensor(name: &str, code: i32) -> ValueInfoProto {
    let tensor = Tensor {
        elem_type: Some(code),
        ..Tensor::default()
    };
    let of_tensor = TypeProto {
        value: Some(tensor.into()),
        ..TypeProto::default()
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: of_tensor.into(),
        ..ValueInfoProto::default()
    }
}
