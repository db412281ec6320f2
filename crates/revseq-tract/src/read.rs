//! Reads models from files.

use std::path::Path;

use tract_onnx::Onnx;
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::outputs::in_numbers;

/// Reads the ONNX model in a file, with all operators that [`register`](crate::register) adds, in
/// the form that tract reads.
///
/// tract itself does not read models with functions, an `If` whose branches differ, a `Scan` of
/// opset 8, and several other forms of ONNX; [`prepare`] lists them. A model without them is read
/// as tract reads it.
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
    let path = path.as_ref();
    let onnx = onnx();
    let mut proto = onnx.proto_model_for_path(path)?;
    if may_need_preparation(&proto) {
        let bytes = std::fs::read(path).with_context(|| format!("reading {path:?}"))?;
        proto = prepared(&onnx, proto, &bytes)?;
    }
    let folder = path.parent().and_then(Path::to_str);
    parse(&onnx, proto, folder)
}

/// Reads an encoded ONNX model; like [`model_for_path`], without external data.
///
/// # Errors
/// The bytes are not a model, or tract does not support it.
pub fn model_for_bytes(bytes: &[u8]) -> TractResult<InferenceModel> {
    let onnx = onnx();
    let proto = prepared(&onnx, onnx.proto_model_for_read(&mut &*bytes)?, bytes)?;
    parse(&onnx, proto, None)
}

/// Brings an encoded model into the form that tract reads; `None` if it already has that form.
/// `proto` is the same model as decoded by tract.
///
/// - The model's functions are inlined.
/// - An `If` whose condition is known is replaced by the taken branch.
/// - Reads of sequences with known elements, and of those that a `Loop` only appends to, become
///   operators on tensors.
/// - `Scan` of opset 8, or without types, becomes `Loop`.
/// - `DFT` counts its axis from the end, and limits of `NonMaxSuppression` are vectors.
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

fn onnx() -> Onnx {
    let mut onnx = tract_onnx::onnx();
    crate::register(&mut onnx);
    onnx
}

fn prepared(onnx: &Onnx, proto: ModelProto, bytes: &[u8]) -> TractResult<ModelProto> {
    match prepare(&proto, bytes)? {
        None => Ok(proto),
        Some(bytes) => onnx.proto_model_for_read(&mut &*bytes),
    }
}

fn parse(onnx: &Onnx, mut proto: ModelProto, folder: Option<&str>) -> TractResult<InferenceModel> {
    proto.graph.iter_mut().for_each(crate::adapt);
    let parsed = onnx.parse(&proto, folder)?;
    if let Some(name) = parsed.unresolved_inputs.first() {
        bail!("no node produces {name:?}");
    }
    let mut model = parsed.model;
    if let Some(graph) = &proto.graph {
        in_numbers(&mut model, graph)?;
    }
    Ok(model)
}

/// Whether [`prepare`] may change a model: it has functions, or operators that preparation
/// concerns.
#[must_use]
pub fn may_need_preparation(proto: &ModelProto) -> bool {
    fn graph_is(graph: &GraphProto) -> bool {
        graph.node.iter().any(|node| {
            let attributes = node.attribute.iter();
            let mut inner = attributes.flat_map(|it| it.g.iter().chain(&it.graphs));
            revseq_rewrite::concerns_tract(&node.op_type) || inner.any(graph_is)
        })
    }
    !proto.functions.is_empty() || proto.graph.as_ref().is_some_and(graph_is)
}
