//! A bound on the tensors that a model makes inside tract, and on the axes that it names.
//!
//! A few bytes can ask for terabytes: ConstantOfShape, Expand, Tile, Range, a
//! broadcast. tract computes constants while it reads a model, so the size has
//! to be looked at between the inference of an operator's shapes and that. Axes are looked at before,
//! as soon as ranks are known: some operators of tract's count up to any axis.

use revseq_onnx::axes;
use revseq_tract_operators::operator::{Facts, Inferred, Inferring, Operator, Wired, Wiring};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{DimFact, InferenceFact, ShapeFactoid};
use tract_onnx::tract_hir::internal::*;

use super::seen::{self, Seen};
use crate::LoadOptions;
use crate::error::{ErrorKind, Explained};
use crate::session::words::{AtNode, node_in_words};

/// The operator over one whose outputs may not be larger than the limit of [`LoadOptions`].
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    node: String,
    op_type: String,
    /// The indices of its inputs that are given.
    places: Vec<usize>,
    /// The attributes that may name axes.
    axes: Vec<(String, Vec<i64>)>,
    /// Key under which the inferred input facts are recorded, for nodes of our operators.
    key: Option<seen::Key>,
    /// Where they are recorded, if they are.
    seen: Option<Seen>,
    /// The most bytes of an output.
    limit: Option<u64>,
}

/// An attribute that is an integer, or a list of them, with its name.
fn integers(attribute: &AttributeProto) -> Option<(String, Vec<i64>)> {
    let integers = match AttributeType::try_from(attribute.r#type).ok()? {
        AttributeType::Int => vec![attribute.i],
        AttributeType::Ints => attribute.ints.clone(),
        _ => return None,
    };
    Some((attribute.name.clone(), integers))
}

/// Knowledge of a node that is inferred.
struct KnownOf<'a> {
    node: &'a Bounded,
    inputs: &'a [&'a InferenceFact],
}

impl KnownOf<'_> {
    fn fact(&self, input: usize) -> Option<&InferenceFact> {
        let index = self.node.places.iter().position(|place| *place == input)?;
        self.inputs.get(index).copied()
    }
}

impl axes::Known for KnownOf<'_> {
    fn integers(&self, attribute: &str) -> Option<Vec<i64>> {
        let mut axes = self.node.axes.iter();
        let (_, integers) = axes.find(|(name, _)| name == attribute)?;
        Some(integers.clone())
    }

    fn rank(&self, input: usize) -> Option<usize> {
        let rank = self.fact(input)?.shape.rank().concretize()?;
        usize::try_from(rank).ok()
    }

    fn elements(&self, input: usize) -> Option<Vec<i64>> {
        let value = self.fact(input)?.value.concretize()?;
        let value = value.cast_to::<i64>().ok()?;
        let value = value.to_plain_array_view::<i64>().ok()?;
        Some(value.iter().copied().collect())
    }
}

impl Bounded {
    pub(super) fn new(context: &ParsingContext<'_>, node: &NodeProto) -> Self {
        Self {
            node: node.name.clone(),
            op_type: node.op_type.clone(),
            places: (0..node.input.len())
                .filter(|&place| !node.input[place].is_empty())
                .collect(),
            axes: node.attribute.iter().filter_map(integers).collect(),
            key: seen::key(node),
            seen: Seen::of(context),
            limit: LoadOptions::of(context).maximum_bytes(),
        }
    }

    fn check_axes(&self, inputs: &[&InferenceFact]) -> TractResult<()> {
        let known = KnownOf { node: self, inputs };
        let inputs = self.places.last().map_or(0, |last| last + 1);
        axes::check(&self.op_type, inputs, &known).map_err(|why| {
            Explained {
                kind: ErrorKind::Node,
                message: format!("{}: {why}", node_in_words(&self.node, &self.op_type)),
                node: Some(self.node.clone()),
            }
            .into()
        })
    }

    /// Infers, and refuses outputs that are too large before they are computed.
    fn infer_bounded(
        &self,
        node: &mut Inferring<'_>,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        node.computes = false;
        let facts = node.by_upstream_of(inputs.clone(), outputs.clone())?;
        for fact in &facts.1 {
            // A type that is not known yet has elements of at least one byte.
            let datum_type = fact.datum_type.concretize().unwrap_or(DatumType::U8);
            let shape = fact.shape.concretize().map(|shape| {
                shape
                    .iter()
                    .map(|dim| dim.to_usize().ok())
                    .collect::<Option<TVec<usize>>>()
            });
            if let Some(Some(shape)) = shape {
                check(Maker::Node(&self.node), datum_type, &shape, self.limit)?;
            }
        }
        // An operator computes outputs of inputs that are all known.
        if !facts.0.iter().all(|fact| fact.value.is_concrete()) {
            return Ok(facts);
        }
        node.computes = true;
        node.by_upstream_of(inputs, outputs)
    }
}

/// What has a tensor, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Maker<'a> {
    Node(&'a str),
    Input(&'a str),
}

impl<'a> Maker<'a> {
    pub(crate) fn of(name: &'a str, is_input: bool) -> Self {
        match is_input {
            true => Self::Input(name),
            false => Self::Node(name),
        }
    }
}

/// Checks the size of a tensor against the most bytes that it may have.
pub(crate) fn check(
    maker: Maker<'_>,
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
    let has = match maker {
        Maker::Node(name) => format!("node {name:?} makes a tensor"),
        Maker::Input(name) => format!("input {name:?} is a tensor"),
    };
    bail!(Explained {
        kind: ErrorKind::Limit,
        message: format!("{has} of sizes {shape:?}, more than the {allowed} that are allowed"),
        node: None,
    })
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

impl Operator for Bounded {
    const IS_TRANSPARENT: bool = true;

    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        self.check_axes(&node.inputs)?;
        if !node.computes {
            return Ok(None);
        }
        if let (Some(seen), Some(key)) = (&self.seen, &self.key) {
            seen.record(key, &node.inputs);
        }
        let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
        let inferred = self.infer_bounded(node, inputs.clone(), outputs.clone());
        let inferred = inferred.map_err(|error| {
            let inputs = inputs.iter().copied();
            AtNode::add(error, &self.node, &self.op_type, &self.places, inputs)
        });
        if inferred.is_ok() || self.seen.is_none() {
            return inferred.map(Some);
        }
        // Two names may well be one size: only sizes that are known contradict each other.
        let unnamed = |facts: &[&InferenceFact]| -> Vec<InferenceFact> {
            facts.iter().map(|fact| without_names(fact)).collect()
        };
        let (unnamed_inputs, unnamed_outputs) = (unnamed(&inputs), unnamed(&outputs));
        let again = (
            unnamed_inputs.iter().collect(),
            unnamed_outputs.iter().collect(),
        );
        match self.infer_bounded(node, again.0, again.1) {
            Ok((_, outputs, observed)) => {
                let inputs = inputs.into_iter().cloned().collect();
                Ok(Some((inputs, outputs, observed)))
            }
            Err(_) => inferred.map(Some),
        }
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        node.by_upstream().map(Some).map_err(|error| {
            let facts = node.inferred_inputs();
            AtNode::add(error, &self.node, &self.op_type, &self.places, facts)
        })
    }
}
