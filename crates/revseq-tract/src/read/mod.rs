//! The only place where ONNX becomes tract's: for [`Session`](crate::Session), for
//! [`model_for_path`], and for the command.
//!
//! A model is brought into a form that tract reads ([`prepare`]), completed (`adapt`), looked
//! through for what tract lacks (`lacking`), and parsed with operators whose outputs are bounded
//! (`bounded`, `register`).

pub(crate) mod adapt;
pub(crate) mod bounded;
pub(crate) mod inference;
pub(crate) mod lacking;
mod mixed;
mod register;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::session::error::{Error, ErrorKind};

/// Reads the ONNX model in a file, with all operators that [`register`](crate::register) adds, in
/// the form that tract reads.
///
/// tract itself does not read models with functions, an `If` whose branches differ, a `Scan` of
/// opset 8, and several other forms of ONNX; [`prepare`] lists them. Types that the model declares
/// for values between its nodes are ignored: they may be stale, and tract infers its own.
///
/// This is for pipelines that go on with tract's own model; a [`Session`](crate::Session) opens and
/// runs a model in two calls.
///
/// ```no_run
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let model = revseq_tract::model_for_path("bidirectional.onnx")?;
/// let model = revseq_tract::into_optimized(model.into_typed()?)?.into_runnable()?;
/// let outputs = model.run(tvec!(Tensor::zero::<f32>(&[1, 7, 3])?.into()))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The file is not a model, or tract does not support it.
pub fn model_for_path(path: impl AsRef<Path>) -> TractResult<InferenceModel> {
    Source::open(path.as_ref())?.parse(|_| Ok(()))
}

/// Reads an encoded ONNX model; like [`model_for_path`], without external data.
///
/// # Errors
/// The bytes are not a model, or tract does not support it.
pub fn model_for_bytes(bytes: &[u8]) -> TractResult<InferenceModel> {
    Source::decode(bytes)?.parse(|_| Ok(()))
}

/// Brings an encoded model into the form that tract reads; `None` if it already has that form.
/// `proto` is the same model as decoded by tract.
///
/// - Nodes are listed after those whose values they read.
/// - The model's functions are inlined.
/// - An `If` whose condition is known is replaced by the taken branch.
/// - Reads of sequences with known elements, and of those that a `Loop` only appends to, become
///   operators on tensors.
/// - `Scan` of opset 8, or without types, becomes `Loop`.
/// - `DFT` counts its axis from the end, and limits of `NonMaxSuppression` are vectors.
/// - The shape of a `NonZero` that nothing else reads is a count.
/// - Operators of `com.microsoft` that ONNX Runtime fuses or quantises become standard ones.
///
/// Inputs and outputs stay the same, their values bit for bit, except that the operators of
/// `com.microsoft` may round differently. [`model_for_path`] calls this; call it yourself to
/// parse models with your own operator register.
///
/// # Errors
/// The model's functions cannot be inlined.
pub fn prepare(proto: &ModelProto, bytes: &[u8]) -> TractResult<Option<Vec<u8>>> {
    if !may_need_preparation(proto) {
        return Ok(None);
    }
    Ok(revseq_rewrite::for_tract(bytes)?)
}

/// Whether [`prepare`] may change a model: it has functions, operators that preparation concerns, or
/// nodes that are listed before those whose values they read.
#[must_use]
pub fn may_need_preparation(proto: &ModelProto) -> bool {
    fn graph_is(graph: &GraphProto) -> bool {
        graph.node.iter().any(|node| {
            let attributes = node.attribute.iter();
            let mut inner = attributes.flat_map(|it| it.g.iter().chain(&it.graphs));
            revseq_rewrite::concerns_tract(&node.op_type) || inner.any(graph_is)
        })
    }
    let needs = |graph| graph_is(graph) || !is_in_order(graph);
    !proto.functions.is_empty() || proto.graph.as_ref().is_some_and(needs)
}

/// Whether each node of a graph, and of those in it, is listed after those whose values it reads.
/// Converters append casts at the end, and ONNX Runtime takes any order; tract's parser looks back
/// alone.
fn is_in_order(graph: &GraphProto) -> bool {
    /// Calls `visit` with the names that a node reads, in its graphs, too.
    fn reads<'a>(node: &'a NodeProto, visit: &mut impl FnMut(&'a str)) {
        node.input.iter().for_each(|name| visit(name));
        for graph in inner(node) {
            graph.node.iter().for_each(|node| reads(node, visit));
            graph.output.iter().for_each(|output| visit(&output.name));
        }
    }
    fn inner(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
        let attributes = node.attribute.iter();
        attributes.flat_map(|it| it.g.iter().chain(&it.graphs))
    }
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        let named = node.output.iter().filter(|name| !name.is_empty());
        makers.extend(named.map(|name| (name.as_str(), index)));
    }
    graph.node.iter().enumerate().all(|(index, node)| {
        let mut is_later = false;
        reads(node, &mut |name| {
            is_later |= makers.get(name).is_some_and(|maker| *maker >= index);
        });
        !is_later && inner(node).all(is_in_order)
    })
}

/// A model that has been brought into the form that tract reads.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Shared: most of it are weights, which the caller may have for other reasons.
    proto: Arc<ModelProto>,
    /// The folder of its external data; `None` if all data is inside.
    folder: Option<String>,
}

impl Source {
    /// Reads a model's file; data in other files is read when the model is parsed.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|error| {
            Error::new(ErrorKind::Read, format!("cannot read {path:?}: {error}"))
        })?;
        let mut source = Self::decode(&bytes)?;
        source.folder = path.parent().and_then(Path::to_str).map(str::to_owned);
        Ok(source)
    }

    /// Decodes a model and brings it into the form that tract reads.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let decode = |mut bytes: &[u8]| {
            let proto = tract_onnx::onnx().proto_model_for_read(&mut bytes);
            let proto = proto.ok().filter(|proto| proto.graph.is_some());
            proto.ok_or_else(|| Error::new(ErrorKind::Model, "it is not an ONNX model"))
        };
        let proto = decode(bytes)?;
        let prepared = prepare(&proto, bytes)
            .map_err(|error| Error::new(ErrorKind::Model, format!("{error:#}")))?;
        let proto = match prepared {
            None => proto,
            Some(bytes) => {
                drop(proto);
                decode(&bytes)?
            }
        };
        Self::new(Arc::new(proto))
    }

    /// Takes a model that is prepared and has all of its data inside.
    pub(crate) fn new(proto: Arc<ModelProto>) -> Result<Self, Error> {
        if let Some(lacking) = proto.graph.as_ref().and_then(lacking::lacks) {
            return Err(lacking);
        }
        if let Some(mixed) = proto.graph.as_ref().and_then(mixed::mixes) {
            return Err(mixed);
        }
        Ok(Self {
            proto,
            folder: None,
        })
    }

    /// The main graph.
    pub(crate) fn graph(&self) -> &GraphProto {
        static NONE: LazyLock<GraphProto> = LazyLock::new(GraphProto::default);
        self.proto.graph.as_ref().unwrap_or(&NONE)
    }

    /// Parses the model, with the options of [`LoadOptions::load`](crate::LoadOptions::load), after
    /// `change` has changed its main graph.
    pub(crate) fn parse(
        &self,
        change: impl FnOnce(&mut GraphProto) -> TractResult<()>,
    ) -> TractResult<InferenceModel> {
        let mut proto = ModelProto::clone(&self.proto);
        change(proto.graph.get_or_insert_default())?;
        parse(proto, self.folder.as_deref(), InferenceModel::default())
    }
}

/// Parses a prepared model.
fn parse(
    mut proto: ModelProto,
    folder: Option<&str>,
    template: InferenceModel,
) -> TractResult<InferenceModel> {
    adapt::complete(&mut proto);
    let mut onnx = tract_onnx::onnx().with_ignore_value_info(true);
    onnx.op_register = register::bounded_operators();
    let parsed = onnx.parse_with_template(&proto, folder, template)?;
    if let Some(name) = parsed.unresolved_inputs.first() {
        bail!("no node produces {name:?}");
    }
    Ok(parsed.model)
}
