//! A bound on the tensors that a model makes inside tract.
//!
//! A few bytes can ask for terabytes: ConstantOfShape, Expand, Tile, Range, a
//! broadcast. tract computes constants while it reads a model, so the size has
//! to be looked at between the inference of an operator's shapes and that.

use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{
    DimFact, InferenceFact, InferenceModel, InferenceNode, InferenceOp, ShapeFactoid,
};
use tract_onnx::tract_hir::internal::*;
use tract_onnx_extra::delegate::{Facts, Hook, Inference, Known};

use super::inference;
use crate::LoadOptions;
use crate::error::Explained;
use crate::session::words::AtNode;

/// The hook of an operator whose outputs may not be larger than the limit of [`LoadOptions`].
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    node: String,
    op_type: String,
    /// The indices of its inputs that are given.
    places: Vec<usize>,
    /// Key under which the inferred input facts are recorded, for nodes of our operators.
    key: Option<inference::Key>,
    /// The most bytes of an output.
    limit: Option<u64>,
}

impl Bounded {
    pub(super) fn new(node: &NodeProto) -> Self {
        Self {
            node: node.name.clone(),
            op_type: node.op_type.clone(),
            places: (0..node.input.len())
                .filter(|&place| !node.input[place].is_empty())
                .collect(),
            key: inference::key(node),
            limit: LoadOptions::of_nodes_read().maximum_bytes(),
        }
    }

    /// Infers, and refuses outputs that are too large before they are computed.
    fn infer_bounded(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
    ) -> TractResult<Facts> {
        let (_, inferred, _) = Inference::Facts.of(upstream, known.clone())?;
        for fact in &inferred {
            // A type that is not known yet has elements of at least one byte.
            let datum_type = fact.datum_type.concretize().unwrap_or(DatumType::U8);
            let shape = fact.shape.concretize().map(|shape| {
                shape
                    .iter()
                    .map(|dim| dim.to_usize().ok())
                    .collect::<Option<TVec<usize>>>()
            });
            if let Some(Some(shape)) = shape {
                check(&self.node, datum_type, &shape, self.limit)?;
            }
        }
        Inference::Values.of(upstream, known)
    }
}

/// Checks the size of a tensor that a node makes against the most bytes that it may have.
pub(crate) fn check(
    node: &str,
    datum_type: DatumType,
    shape: &[usize],
    limit: Option<u64>,
) -> TractResult<()> {
    let bytes = shape
        .iter()
        .try_fold(datum_type.size_of() as u64, |bytes, &size| {
            bytes.checked_mul(size as u64)
        });
    // No limit is still that of the processor's addresses.
    let limit = limit.unwrap_or(isize::MAX as u64);
    if shape.contains(&0) || bytes.is_some_and(|bytes| bytes <= limit) {
        return Ok(());
    }
    let allowed = match limit {
        limit if limit >= 1 << 30 && limit % (1 << 30) == 0 => format!("{} GiB", limit >> 30),
        limit => format!("{limit} bytes"),
    };
    bail!(Explained(format!(
        "node {node:?} makes a tensor of sizes {shape:?}, more than the {allowed} that are allowed"
    )))
}

/// A fact without the sizes that are known by name only.
fn without_names(fact: &InferenceFact) -> InferenceFact {
    let mut fact = fact.clone();
    let value = fact.value.concretize();
    if value.is_some_and(|value| value.datum_type() == TDim::datum_type()) {
        fact = fact.without_value();
    }
    let dims = fact.shape.dims().map(|dim| match dim.concretize() {
        Some(known) if known.to_i64().is_err() => DimFact::default(),
        _ => dim.clone(),
    });
    let dims = dims.collect();
    fact.shape = if fact.shape.is_open() {
        ShapeFactoid::open(dims)
    } else {
        ShapeFactoid::closed(dims)
    };
    fact
}

impl Hook for Bounded {
    const IS_TRANSPARENT: bool = true;

    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        known: Known<'_>,
        inference: Inference,
    ) -> TractResult<Facts> {
        if inference == Inference::Facts {
            return inference.of(upstream, known);
        }
        if let Some(key) = &self.key {
            inference::record(key, &known.inputs);
        }
        let inferred = self.infer_bounded(upstream, known.clone());
        let inferred = inferred.map_err(|error| {
            let inputs = known.inputs.iter().copied();
            AtNode::add(error, &self.node, &self.op_type, &self.places, inputs)
        });
        if inferred.is_ok() || !inference::is_watched() {
            return inferred;
        }
        // Two names may well be one size: only sizes that are known contradict each other.
        let unnamed = |facts: &[&InferenceFact]| -> Vec<InferenceFact> {
            facts.iter().map(|fact| without_names(fact)).collect()
        };
        let (inputs, outputs) = (unnamed(&known.inputs), unnamed(&known.outputs));
        let again = Known::new(&inputs, &outputs, known.observed);
        match self.infer_bounded(upstream, again) {
            Ok((_, outputs, observed)) => {
                let inputs = known.inputs.into_iter().cloned().collect();
                Ok((inputs, outputs, observed))
            }
            Err(_) => inferred,
        }
    }

    fn to_typed(
        &self,
        upstream: &dyn InferenceOp,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let typed = upstream.to_typed(source, node, target, mapping);
        typed.map_err(|error| {
            let inputs = node.inputs.iter();
            let facts = inputs.filter_map(|&input| source.outlet_fact(input).ok());
            AtNode::add(error, &self.node, &self.op_type, &self.places, facts)
        })
    }
}
