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

use super::inference;
use crate::LoadOptions;
use crate::error::Explained;
use crate::session::words::AtNode;

/// An operator of tract's whose outputs may not be larger than the limit of [`LoadOptions`].
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    operator: Box<dyn InferenceOp>,
    node: String,
    op_type: String,
    /// Which of its inputs are there.
    places: Vec<usize>,
    /// Key under which the inferred input facts are recorded, for nodes of our operators.
    key: Option<inference::Key>,
    /// Which inputs tract reads as sizes.
    size_inputs: &'static [usize],
    /// The most bytes of an output.
    limit: Option<u64>,
}

/// The inputs that tract casts to its type of sizes, which goes through 32
/// bits and drops the others (tract-data, `Tensor::cast_to_dt`).
fn size_inputs(op_type: &str) -> &'static [usize] {
    match op_type {
        "ConstantOfShape" => &[0],
        "Expand" | "OneHot" | "Pad" | "Reshape" | "Tile" => &[1],
        "Range" => &[0, 1, 2],
        "Resize" => &[3],
        _ => &[],
    }
}

impl Bounded {
    pub(super) fn new(operator: Box<dyn InferenceOp>, node: &NodeProto) -> Self {
        Self {
            operator,
            node: node.name.clone(),
            op_type: node.op_type.clone(),
            places: (0..node.input.len())
                .filter(|&place| !node.input[place].is_empty())
                .collect(),
            key: inference::key(node),
            size_inputs: size_inputs(&node.op_type),
            limit: LoadOptions::of_nodes_read().maximum_bytes(),
        }
    }

    fn check_size_inputs(&self, inputs: &[&InferenceFact]) -> TractResult<()> {
        for &index in self.size_inputs {
            let Some(value) = inputs.get(index).and_then(|fact| fact.value.concretize()) else {
                continue;
            };
            if !value.datum_type().is_integer() {
                continue;
            }
            let wide = value.cast_to::<i64>()?;
            let found = wide.to_plain_array_view::<i64>()?;
            if let Some(size) = found.iter().find(|&&size| i32::try_from(size).is_err()) {
                bail!(Explained(format!(
                    "node {:?} has {size} in input {index}, of which tract would keep only 32 bits",
                    self.node
                )));
            }
        }
        Ok(())
    }

    /// Infers, and refuses outputs that are too large before they are computed.
    fn infer_bounded(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        self.check_size_inputs(&inputs)?;
        let (_, inferred, _) =
            self.operator
                .infer_facts(inputs.clone(), outputs.clone(), observed.clone())?;
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
        self.operator.infer(inputs, outputs, observed)
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

type Facts = TVec<InferenceFact>;

impl InferenceOp for Bounded {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        if let Some(key) = &self.key {
            inference::record(key, &inputs);
        }
        let inferred = self
            .infer_bounded(inputs.clone(), outputs.clone(), observed.clone())
            .map_err(|error| {
                AtNode::add(
                    error,
                    &self.node,
                    &self.op_type,
                    &self.places,
                    inputs.iter().copied(),
                )
            });
        if inferred.is_ok() || !inference::is_watched() {
            return inferred;
        }
        // Two names may well be one size: only sizes that are known contradict each other.
        let unnamed = |facts: &[&InferenceFact]| -> Facts {
            facts.iter().map(|fact| without_names(fact)).collect()
        };
        let (in_facts, out_facts) = (unnamed(&inputs), unnamed(&outputs));
        let again = self.infer_bounded(
            in_facts.iter().collect(),
            out_facts.iter().collect(),
            observed,
        );
        match again {
            Ok((_, outputs, observed)) => {
                Ok((inputs.into_iter().cloned().collect(), outputs, observed))
            }
            Err(_) => inferred,
        }
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        self.operator.infer_facts(inputs, outputs, observed)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        self.operator.observe_outlets(model, node)
    }

    fn incorporate(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Option<InferenceModelPatch>> {
        self.operator.incorporate(model, node)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.operator.nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let typed = self.operator.to_typed(source, node, target, mapping);
        typed.map_err(|error| {
            let inputs = node.inputs.iter();
            let facts = inputs.filter_map(|&input| source.outlet_fact(input).ok());
            AtNode::add(error, &self.node, &self.op_type, &self.places, facts)
        })
    }

    as_op!();
}

impl Op for Bounded {
    fn name(&self) -> StaticName {
        self.operator.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.operator.info()
    }

    fn validation(&self) -> Validation {
        self.operator.validation()
    }

    not_a_typed_op!();
}

impl EvalOp for Bounded {
    fn eval(&self, context: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.operator.eval(context, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.operator.eval_out_of_plan(inputs)
    }

    fn state(&self, context: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        self.operator.state(context)
    }
}

impl PartialEq for Bounded {
    fn eq(&self, _other: &Self) -> bool {
        false
    }
}

impl Eq for Bounded {}
