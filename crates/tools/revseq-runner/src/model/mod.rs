//! Models: read with bounds, checked, and walked.

pub(crate) mod dims;
pub(crate) mod element_types;
pub(crate) mod inner;
mod origins;
pub(crate) mod read;
mod scope;
pub(crate) mod values;
pub(crate) mod walk;
pub(crate) mod weights;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use revseq_onnx::external;
use revseq_onnx::model::{
    DOUBLE, FLOAT, FLOAT16, GraphProto, ModelProto, TensorProto, tensor_proto::DataLocation,
};

use crate::file;
use crate::progress::Progress;
use values::{Dim, ValueType};

/// Constants of more bytes than this are large: no shape or list of axes is.
const LARGE: usize = 1 << 16;

/// A model that has passed [`revseq_onnx::check()`].
#[derive(Debug)]
pub(crate) struct Model {
    /// The file.
    pub(crate) path: PathBuf,
    /// The bytes of the file, which were checked; empty once [dropped](Self::without_bytes).
    pub(crate) bytes: Vec<u8>,
    /// The decoded model. Once its data is loaded, all tensors store theirs as `raw_data`.
    pub(crate) proto: Arc<ModelProto>,
    /// The model with its large constants, if `proto` has lost them to it.
    whole: RefCell<Option<ModelProto>>,
}

/// An input of the main graph.
#[derive(Clone, Debug)]
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
            .with_context(|| match file::is_standard(path) {
                true => "cannot read standard input".to_owned(),
                false => format!("cannot read {}", path.display()),
            })
    }

    /// The model in the bytes of the file at `path`, checked.
    pub(crate) fn parse(path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        let proto = revseq_onnx::decode(&bytes)?;
        revseq_onnx::check(&proto)?;
        Ok(Self {
            path,
            bytes,
            proto: Arc::new(proto),
            whole: RefCell::default(),
        })
    }

    /// Changes the model, without its data in other files, and checks it again.
    fn change(&mut self, change: impl FnOnce(&mut ModelProto)) -> Result<()> {
        // The bytes are not needed beside the messages.
        self.bytes = Vec::new();
        let model = Arc::make_mut(&mut self.proto);
        change(model);
        revseq_onnx::check(model)?;
        self.bytes = revseq_onnx::encode(model)?;
        Ok(())
    }

    /// The model with zeros for the weights that are floats; `None` if it has none.
    ///
    /// # Errors
    /// It takes too many bytes.
    pub(crate) fn without_weights(&self) -> Result<Option<Self>> {
        let is_weight = |it: &TensorProto| matches!(it.code(), FLOAT | DOUBLE | FLOAT16);
        if !self.graph().initializer.iter().any(is_weight) {
            return Ok(None);
        }
        let mut model = self.whole();
        model.change(|proto| {
            let initializers = proto.graph.as_option_mut().into_iter();
            let initializers = initializers.flat_map(|it| &mut it.initializer);
            for tensor in initializers.filter(|it| is_weight(it)) {
                tensor.raw_data = Some(vec![0; tensor.raw().len()]);
            }
        })?;
        Ok(Some(model))
    }

    /// Reads and checks a model with all of its data.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        Self::read(path)?.with_data()
    }

    /// The same, and the sizes that `--dim` gives, which are checked before its data in other files is read.
    pub(crate) fn load_with(path: &Path, dims: &[(String, u64)]) -> Result<(Self, Bindings)> {
        let model = Self::read(path)?;
        let sizes = model.sizes(dims)?;
        Ok((model.with_data()?, sizes))
    }

    /// The model with all of its data as `raw_data`, that in other files, too.
    pub(crate) fn with_data(mut self) -> Result<Self> {
        external::load(Arc::make_mut(&mut self.proto), &self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        Ok(self)
    }

    /// The same messages, without the bytes of the file. They are shared until one side changes.
    pub(crate) fn whole(&self) -> Self {
        Self {
            path: self.path.clone(),
            bytes: Vec::new(),
            proto: Arc::clone(&self.proto),
            whole: RefCell::default(),
        }
    }

    /// Puts sizes in the place of their names, where nothing is to be written.
    pub(crate) fn bind(&mut self, bindings: &Bindings) {
        if !bindings.is_empty() {
            dims::write(Arc::make_mut(&mut self.proto), bindings);
        }
    }

    /// The model without the bytes of its file, for callers that need only the decoded model.
    pub(crate) fn without_bytes(mut self) -> Self {
        self.bytes = Vec::new();
        self
    }

    /// The model without the values of its large constants, which are most of it, for callers that
    /// need only its graph and perhaps the bytes of its file. They count as data in another file.
    pub(crate) fn without_constants(mut self) -> Self {
        drop(self.take_constants());
        self
    }

    /// The model for a single session, which [`messages`](Self::messages) gives the large constants:
    /// they are in memory once.
    pub(crate) fn for_one_session(self) -> Self {
        let mut model = self.without_bytes();
        let constants = model.take_constants();
        let mut whole = ModelProto::clone(&model.proto);
        if let Some(graph) = whole.graph.as_option_mut() {
            for (place, tensor) in constants {
                graph.initializer[place] = tensor;
            }
        }
        model.whole.replace(Some(whole));
        model
    }

    /// Returns the messages with all constants.
    pub(crate) fn messages(&self) -> ModelProto {
        let whole = self.whole.take();
        whole.unwrap_or_else(|| ModelProto::clone(&self.proto))
    }

    /// Takes the large constants out of the main graph, each with its place among the initializers.
    fn take_constants(&mut self) -> Vec<(usize, TensorProto)> {
        let model = Arc::make_mut(&mut self.proto);
        let graph = model.graph.as_option_mut().into_iter();
        let mut taken = Vec::new();
        for (place, tensor) in graph.flat_map(|it| it.initializer.iter_mut().enumerate()) {
            let sizes = [
                tensor.raw().len(),
                4 * tensor.float_data.len(),
                4 * tensor.int32_data.len(),
                8 * tensor.int64_data.len(),
                8 * tensor.double_data.len(),
                8 * tensor.uint64_data.len(),
            ];
            if sizes.into_iter().any(|size| size > LARGE) {
                let left = TensorProto {
                    dims: tensor.dims.clone(),
                    data_type: tensor.data_type,
                    name: tensor.name.clone(),
                    data_location: Some(DataLocation::EXTERNAL),
                    ..TensorProto::default()
                };
                taken.push((place, std::mem::replace(tensor, left)));
            }
        }
        taken
    }

    /// The main graph.
    pub(crate) fn graph(&self) -> &GraphProto {
        self.proto
            .graph
            .as_option()
            .expect("a checked model has a graph")
    }

    /// The inputs of the main graph, in order.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let graph = self.graph();
        let initializers: BTreeSet<&str> = graph.constants().collect();
        graph
            .input
            .iter()
            .map(|input| Input {
                name: input.name().to_owned(),
                value_type: ValueType::declared(input),
                optional: initializers.contains(input.name()),
            })
            .collect()
    }

    /// The names of the main graph's outputs, in order.
    pub(crate) fn output_names(&self) -> Vec<String> {
        self.graph().outputs().map(str::to_owned).collect()
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

/// Sizes, by the names that `--dim` takes: those of symbols, or as in `x.0`.
pub(crate) type Bindings = HashMap<String, u64>;
