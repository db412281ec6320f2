//! Models: read with bounds, checked, and walked.

pub(crate) mod check;
pub(crate) mod dims;
pub(crate) mod element_types;
pub(crate) mod external;
pub(crate) mod inner;
mod order;
mod origins;
pub(crate) mod read;
mod scan;
mod start;
pub(crate) mod values;
pub(crate) mod walk;
pub(crate) mod weights;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use prost::Message;
use prost::bytes::Bytes;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

use tract_onnx::pb::tensor_proto::DataLocation;

use crate::progress::Progress;
use crate::tensor::pb;
use values::{Dim, ValueType};

/// Constants of more bytes than this are large: no shape or list of axes is.
const LARGE: usize = 1 << 16;

/// A model that has passed [`check`].
#[derive(Debug)]
pub(crate) struct Model {
    /// The file.
    pub(crate) path: PathBuf,
    /// The bytes of the file, which were checked; empty once [dropped](Self::without_bytes).
    pub(crate) bytes: Vec<u8>,
    /// The decoded model. Once its data is loaded, all tensors store theirs as `raw_data`.
    pub(crate) proto: Arc<ModelProto>,
    /// The defaults of each function's attributes, in the order of the functions.
    pub(crate) function_defaults: Vec<Vec<AttributeProto>>,
}

/// An input of the main graph.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) value_type: ValueType,
    /// Whether an initializer provides its default.
    pub(crate) optional: bool,
}

impl Model {
    /// Reads and checks a model without its data in other files.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let _progress = Progress::of(format!("reading {}", path.display()));
        read::model_file(path)
            .and_then(|bytes| Self::parse(path.to_owned(), bytes))
            .with_context(|| match read::is_standard_input(path) {
                true => "cannot read standard input".to_owned(),
                false => format!("cannot read {}", path.display()),
            })
    }

    /// The model in the bytes of the file at `path`, checked.
    pub(crate) fn parse(path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        scan::check(&bytes)?;
        // Shared bytes, as the decoder copies fields of a slice twice.
        let bytes = Bytes::from(bytes);
        let proto = ModelProto::decode(bytes.clone()).map_err(|error| {
            let error = error.to_string();
            let why = error.trim_start_matches("failed to decode Protobuf message: ");
            let why = || format!("it is not an ONNX model: {why}");
            anyhow!(scan::missing(&bytes).unwrap_or_else(why))
        })?;
        check::check(&proto)?;
        let function_defaults = match proto.functions.is_empty() {
            true => Vec::new(),
            false => function_defaults(&bytes)?,
        };
        Ok(Self {
            path,
            bytes: bytes.into(),
            proto: Arc::new(proto),
            function_defaults,
        })
    }

    /// The model in the bytes of the file at `path` after a change, checked. Fields that this
    /// version of ONNX does not know stay.
    fn parse_changed(
        path: &Path,
        bytes: impl AsRef<[u8]>,
        change: impl FnOnce(&mut revseq_onnx::ModelProto),
    ) -> Result<Self> {
        let mut model = revseq_onnx::decode(bytes.as_ref())?;
        drop(bytes);
        change(&mut model);
        let bytes = revseq_onnx::encode(&model)?;
        drop(model);
        Self::parse(path.to_owned(), bytes)
    }

    /// Reads and checks a model with all of its data.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        Self::read(path)?.with_data()
    }

    /// The model with all of its data as `raw_data`, that in other files, too.
    pub(crate) fn with_data(mut self) -> Result<Self> {
        let mut loader = external::Loader::new(&self.path);
        for_each_tensor(Arc::make_mut(&mut self.proto), &mut |tensor| {
            loader.load(tensor)?;
            pb::normalize(tensor)
        })
        .with_context(|| format!("cannot read {}", self.path.display()))?;
        Ok(self)
    }

    /// The model without the bytes of its file, for callers that need only the decoded model.
    pub(crate) fn without_bytes(mut self) -> Self {
        self.bytes = Vec::new();
        self
    }

    /// The model without the values of its large constants, which are most of it, for callers that
    /// need only its graph and perhaps the bytes of its file. They count as data in another file.
    pub(crate) fn without_constants(mut self) -> Self {
        let graph = Arc::make_mut(&mut self.proto).graph.iter_mut();
        for tensor in graph.flat_map(|graph| &mut graph.initializer) {
            let sizes = [
                tensor.raw_data.len(),
                4 * tensor.float_data.len(),
                4 * tensor.int32_data.len(),
                8 * tensor.int64_data.len(),
                8 * tensor.double_data.len(),
                8 * tensor.uint64_data.len(),
            ];
            if sizes.into_iter().any(|size| size > LARGE) {
                *tensor = TensorProto {
                    dims: std::mem::take(&mut tensor.dims),
                    data_type: tensor.data_type,
                    name: std::mem::take(&mut tensor.name),
                    data_location: Some(DataLocation::External.into()),
                    ..TensorProto::default()
                };
            }
        }
        self
    }

    /// The main graph.
    pub(crate) fn graph(&self) -> &GraphProto {
        self.proto
            .graph
            .as_ref()
            .expect("a checked model has a graph")
    }

    /// The inputs of the main graph, in order.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let graph = self.graph();
        let initializers: BTreeSet<&str> = initializer_names(graph).collect();
        graph
            .input
            .iter()
            .map(|input| Input {
                name: input.name.clone(),
                value_type: ValueType::declared(input),
                optional: initializers.contains(input.name.as_str()),
            })
            .collect()
    }

    /// The names of the main graph's outputs, in order.
    pub(crate) fn output_names(&self) -> Vec<String> {
        let outputs = self.graph().output.iter();
        outputs.map(|output| output.name.clone()).collect()
    }

    /// The names of the symbolic sizes of the main graph's inputs.
    pub(crate) fn input_symbols(&self) -> BTreeSet<String> {
        let dims = self
            .inputs()
            .into_iter()
            .filter_map(|input| input.value_type.shape)
            .flatten();
        dims.filter_map(|dim| match dim {
            Dim::Symbol(name) => Some(name),
            _ => None,
        })
        .collect()
    }
}

/// The defaults of the attributes of a model's functions, which tract's messages lack.
fn function_defaults(bytes: &[u8]) -> Result<Vec<Vec<AttributeProto>>> {
    let functions = revseq_onnx::decode(bytes)?.functions.into_iter();
    let defaults = functions.map(|function| {
        let defaults = function.attribute_proto.iter();
        defaults
            .map(|default| Ok(AttributeProto::decode(&*revseq_onnx::encode(default)?)?))
            .collect()
    });
    defaults.collect()
}

/// The names of a graph's initializers.
pub(crate) fn initializer_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let sparse = graph
        .sparse_initializer
        .iter()
        .filter_map(|sparse| sparse.values.as_ref());
    graph
        .initializer
        .iter()
        .chain(sparse)
        .map(|tensor| tensor.name.as_str())
}

/// A node's name in a path and in messages: its own, or its operator and place.
pub(crate) fn node_label(index: usize, node: &NodeProto) -> String {
    if node.name.is_empty() {
        format!("{}#{index}", node.op_type)
    } else {
        node.name.clone()
    }
}

/// Calls a function with every tensor that a model holds.
pub(crate) fn for_each_tensor(
    model: &mut ModelProto,
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    if let Some(graph) = &mut model.graph {
        for_each_graph_tensor(graph, visit)?;
    }
    for function in &mut model.functions {
        for_each_node_tensor(&mut function.node, visit)?;
    }
    Ok(())
}

fn for_each_graph_tensor(
    graph: &mut GraphProto,
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    for tensor in &mut graph.initializer {
        visit(tensor).with_context(|| format!("initializer {:?}", tensor.name))?;
    }
    for_each_node_tensor(&mut graph.node, visit)
}

fn for_each_node_tensor(
    nodes: &mut [NodeProto],
    visit: &mut impl FnMut(&mut TensorProto) -> Result<()>,
) -> Result<()> {
    for (index, node) in nodes.iter_mut().enumerate() {
        let label = node_label(index, node);
        for attribute in &mut node.attribute {
            for tensor in attribute.t.iter_mut().chain(&mut attribute.tensors) {
                visit(tensor)
                    .with_context(|| format!("node {label:?}, attribute {}", attribute.name))?;
            }
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                for_each_graph_tensor(graph, visit)?;
            }
        }
    }
    Ok(())
}

/// The values of symbolic sizes, by name.
pub(crate) type Bindings = HashMap<String, u64>;
