//! One kind of operator: what a node does otherwise than in tract, and nothing else, is written down.
//!
//! An [`Operator`] says what it infers and how it is wired, and `None` where tract does well. It is asked
//! at each inference, since inputs become known bit by bit, and again when the node is wired: by then all
//! types and shapes are known, and the answer is final.
//!
//! It stands over tract's operator ([`over`]), or over another one if two things differ; the outermost is
//! asked first. Where tract has none (`own`), its facts are those of what it wires.

use std::borrow::Cow;
use std::fmt;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::inferred_output;
use crate::dims::in_dims;
use crate::node::{check_domain, parse_with_tract};
pub use crate::register::parse;
use crate::wire::wire_cast;

/// Inferred facts: those of a node's inputs and outputs, and those observed.
pub type Facts = (
    TVec<InferenceFact>,
    TVec<InferenceFact>,
    TVec<InferenceFact>,
);

/// A node that is parsed: its operator, and the names that its graphs capture.
pub type Parsed = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// Inferred facts; `None` to infer like the operator beneath.
pub type Inferred = TractResult<Option<Facts>>;

/// The outlets of a node that is wired; `None` to wire it like the operator beneath.
pub type Wired = TractResult<Option<TVec<OutletId>>>;

/// The behaviour of a node.
pub trait Operator: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether the operator beneath may be evaluated and replaced while facts are inferred, without this
    /// one.
    const IS_TRANSPARENT: bool = false;

    /// Infers facts; `None` to infer like the operator beneath.
    ///
    /// # Errors
    /// The facts contradict each other, or the operator does not take them.
    fn infer(&self, _node: &mut Inferring<'_>) -> Inferred {
        Ok(None)
    }

    /// Wires the node into a typed model.
    ///
    /// # Errors
    /// The operator does not take its inputs.
    fn wire(&self, _node: &mut Wiring<'_>) -> Wired {
        Ok(None)
    }
}

/// A node whose facts are inferred.
#[derive(Debug)]
pub struct Inferring<'a> {
    upstream: Option<&'a mut dyn InferenceOp>,
    /// The facts of its inputs.
    pub inputs: TVec<&'a InferenceFact>,
    /// The facts of its outputs.
    pub outputs: TVec<&'a InferenceFact>,
    observed: TVec<&'a InferenceFact>,
    /// Whether the operator beneath may compute outputs of known inputs: not if its values differ.
    pub computes: bool,
}

impl Inferring<'_> {
    /// The operator beneath.
    pub(crate) fn upstream(&self) -> Option<&dyn InferenceOp> {
        self.upstream.as_deref()
    }

    /// Infers like the operator beneath.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream(&mut self) -> TractResult<Facts> {
        self.by_upstream_of(self.inputs.clone(), self.outputs.clone())
    }

    /// Infers types and shapes alone like the operator beneath.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn facts_by_upstream(&mut self) -> TractResult<Facts> {
        let computes = std::mem::replace(&mut self.computes, false);
        let facts = self.by_upstream();
        self.computes = computes;
        facts
    }

    /// Infers like the operator beneath from other facts.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream_of(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        let upstream = self
            .upstream
            .as_mut()
            .context("tract has no such operator")?;
        match self.computes {
            true => upstream.infer(inputs, outputs, self.observed.clone()),
            false => upstream.infer_facts(inputs, outputs, self.observed.clone()),
        }
    }

    /// Infers with other facts in place of some inputs', which keep their own types, and their values.
    pub(crate) fn with_others(&mut self, others: &[Option<InferenceFact>]) -> TractResult<Facts> {
        let inputs = std::iter::zip(&self.inputs, others);
        let inputs = inputs.map(|(fact, other)| other.as_ref().unwrap_or(fact));
        let (mut found, outputs, observed) =
            self.by_upstream_of(inputs.collect(), self.outputs.clone())?;
        let inputs = std::iter::zip(&self.inputs, others);
        for (found, (before, other)) in std::iter::zip(&mut found, inputs) {
            if other.is_some() {
                found.datum_type = before.datum_type;
                found.value = before.value.clone();
            }
        }
        Ok((found, outputs, observed))
    }

    /// The types of the inputs that are known.
    pub(crate) fn types(&self) -> impl Iterator<Item = Option<DatumType>> {
        self.inputs.iter().map(|fact| fact.datum_type.concretize())
    }

    /// The value of an input that is known.
    pub(crate) fn value(&self, input: usize) -> Option<Arc<Tensor>> {
        self.inputs.get(input)?.value.concretize()
    }

    /// Infers one output with this type and shape; sizes that are already known stay. The inputs stay
    /// as they are.
    pub(crate) fn output(&self, datum_type: DatumType, shape: TVec<TDim>) -> Facts {
        let output = inferred_output(self.outputs[0], datum_type, shape);
        (owned(&self.inputs), tvec![output], tvec![])
    }
}

fn owned(facts: &[&InferenceFact]) -> TVec<InferenceFact> {
    facts.iter().map(|fact| (*fact).clone()).collect()
}

/// The place of a node among others that are translated.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    source: &'a InferenceModel,
    node: &'a InferenceNode,
    mapping: &'a HashMap<OutletId, OutletId>,
}

/// A node that is wired into a typed model.
#[derive(Debug)]
pub struct Wiring<'a> {
    /// Its name.
    pub name: &'a str,
    /// The model.
    pub model: &'a mut TypedModel,
    /// Its inputs.
    pub inputs: TVec<OutletId>,
    /// The operator beneath.
    pub(crate) upstream: Option<&'a dyn InferenceOp>,
    /// `None` if it is wired alone.
    place: Option<Place<'a>>,
}

impl<'a> Wiring<'a> {
    /// A node that is wired alone.
    pub(crate) fn alone(name: &'a str, model: &'a mut TypedModel, inputs: &[OutletId]) -> Self {
        Self {
            name,
            model,
            inputs: inputs.into(),
            upstream: None,
            place: None,
        }
    }

    /// Wires the node like the operator beneath.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn by_upstream(&mut self) -> TractResult<TVec<OutletId>> {
        self.by_upstream_with(|_, _| {})
    }

    /// Wires the node like the operator beneath, without the facts inferred for its outputs: tract compares
    /// wired facts with inferred ones, in which another symbol may stand for the same size. Floats stay the
    /// floats that they are computed from, since a Mean divides by a number of that type.
    pub(crate) fn without_facts(&mut self) -> TractResult<TVec<OutletId>> {
        self.by_upstream_with(|node, types| {
            for output in &mut node.outputs {
                let datum_type = output.fact.datum_type.concretize();
                let kept = datum_type.filter(|it| it.is_float() && types.contains(it));
                output.fact = kept.map(InferenceFact::dt).unwrap_or_default();
            }
        })
    }

    fn by_upstream_with(
        &mut self,
        change: impl Fn(&mut InferenceNode, &[DatumType]),
    ) -> TractResult<TVec<OutletId>> {
        let upstream = self.upstream.zip(self.place);
        let (upstream, place) = upstream.context("tract has no such operator here")?;
        let (mut node, mut mapping) = (place.node.clone(), Cow::Borrowed(place.mapping));
        for (slot, input) in self.inputs.iter().enumerate() {
            if mapping[&node.inputs[slot]] != *input {
                // An outlet that no other input has.
                let own = OutletId::new(place.source.nodes().len(), slot);
                node.inputs[slot] = own;
                mapping.to_mut().insert(own, *input);
            }
        }
        change(&mut node, &self.types()?);
        upstream.to_typed(place.source, &node, self.model, &mapping)
    }

    /// The facts that were inferred of the inputs.
    pub fn inferred_inputs(&self) -> impl Iterator<Item = &InferenceFact> {
        let place = self.place.into_iter();
        place.flat_map(|Place { source, node, .. }| {
            let inputs = node.inputs.iter();
            inputs.filter_map(|input| source.outlet_fact(*input).ok())
        })
    }

    /// The facts that were inferred of the outputs.
    pub(crate) fn inferred_outputs(&self) -> impl Iterator<Item = &'a InferenceFact> + use<'a> {
        let place = self.place.into_iter();
        place.flat_map(|it| it.node.outputs.iter().map(|output| &output.fact))
    }

    /// The fact of an outlet.
    pub(crate) fn fact(&self, outlet: OutletId) -> TractResult<&TypedFact> {
        self.model.outlet_fact(outlet)
    }

    /// The fact of an input.
    pub(crate) fn input(&self, index: usize) -> TractResult<&TypedFact> {
        let input = self.inputs.get(index);
        self.fact(*input.with_context(|| format!("it has no input {index}"))?)
    }

    /// The facts of the inputs.
    pub(crate) fn facts(&self) -> TractResult<Vec<&TypedFact>> {
        self.inputs.iter().map(|input| self.fact(*input)).collect()
    }

    /// The types of the inputs.
    pub(crate) fn types(&self) -> TractResult<TVec<DatumType>> {
        let facts = self.facts()?;
        Ok(facts.iter().map(|fact| fact.datum_type).collect())
    }

    /// A name for a part of the node.
    pub(crate) fn part(&self, part: &str) -> String {
        let name = self.model.unique_name(format!("{}.{part}", self.name));
        name.into_owned()
    }

    /// Wires a part of the node.
    pub(crate) fn op(
        &mut self,
        part: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(self.model.wire_node(self.part(part), op, inputs)?[0])
    }

    /// Wires the part of the node that has its outputs, and its name if that is free.
    pub(crate) fn last(&mut self, op: impl Into<Box<dyn TypedOp>>, inputs: &[OutletId]) -> Wired {
        let name = self.model.unique_name(self.name).into_owned();
        self.model.wire_node(name, op, inputs).map(Some)
    }

    /// Wires an operator with all of the inputs.
    pub(crate) fn whole(&mut self, op: impl Into<Box<dyn TypedOp>>) -> Wired {
        self.last(op, &self.inputs.clone())
    }

    /// Wires a part of the node whose operands broadcast.
    pub(crate) fn broadcast(
        &mut self,
        part: &str,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        Ok(wire_with_rank_broadcast(self.part(part), self.model, op, inputs)?[0])
    }

    /// Adds a constant.
    pub(crate) fn constant(
        &mut self,
        part: &str,
        value: impl IntoArcTensor,
    ) -> TractResult<OutletId> {
        self.model.add_const(self.part(part), value)
    }

    /// Casts a value unless it has the type.
    pub(crate) fn cast(
        &mut self,
        part: &str,
        outlet: OutletId,
        to: DatumType,
    ) -> TractResult<OutletId> {
        wire_cast(self.model, format!("{}.{part}", self.name), outlet, to)
    }

    /// Puts others in place of some inputs.
    pub(crate) fn replace_inputs(
        &mut self,
        mut other: impl FnMut(&mut Self, OutletId) -> TractResult<Option<OutletId>>,
    ) -> TractResult<()> {
        for slot in 0..self.inputs.len() {
            if let Some(other) = other(self, self.inputs[slot])? {
                self.inputs[slot] = other;
            }
        }
        Ok(())
    }
}

/// Puts an operator over another one.
pub fn over<T: Operator>(upstream: Box<dyn InferenceOp>, op: T) -> Box<dyn InferenceOp> {
    Box::new(Mended {
        name: upstream.name(),
        upstream: Some(upstream),
        arity: None,
        op,
    })
}

/// Parses a node like tract, and puts an operator over it.
pub(crate) fn over_tract<T: Operator>(ctx: &ParsingContext<'_>, node: &NodeProto, op: T) -> Parsed {
    check_domain(node)?;
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((over(upstream, op), captured))
}

/// Makes an operator that tract lacks, with a number of inputs and of outputs.
pub(crate) fn own<T: Operator>(node: &NodeProto, arity: [usize; 2], op: T) -> Parsed {
    let op = Mended {
        name: node.op_type.clone().into(),
        upstream: None,
        arity: Some(arity),
        op,
    };
    Ok((Box::new(op), vec![]))
}

/// A node before types and shapes are known.
#[derive(Clone, Debug)]
struct Mended<T> {
    name: StaticName,
    /// tract's version of the operator, or one over it.
    upstream: Option<Box<dyn InferenceOp>>,
    /// The numbers of inputs and of outputs, without tract's version.
    arity: Option<[usize; 2]>,
    op: T,
}

never_equal!(Mended<T>, T);

/// The most elements of a value that is computed while facts are inferred: sizes, and what becomes one.
const FEW: usize = 64;

impl<T: Operator> Mended<T> {
    fn inferred(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
        computes: bool,
    ) -> TractResult<Facts> {
        if let Some([expected, _]) = self.arity {
            let given = inputs.len();
            ensure!(
                given == expected,
                "it has {given} inputs, expected {expected}"
            );
        }
        // A TVec of references cannot be taken for one of shorter lives: it is made again.
        fn alike<'a>(facts: &'a [&InferenceFact]) -> TVec<&'a InferenceFact> {
            facts.iter().map(|it| -> &'a InferenceFact { it }).collect()
        }
        let answer = {
            let mut node = Inferring {
                upstream: self.upstream.as_deref_mut(),
                inputs: alike(&inputs),
                outputs: alike(&outputs),
                observed: alike(&observed),
                computes,
            };
            match self.op.infer(&mut node)? {
                None if node.upstream.is_some() => Some(node.by_upstream()?),
                answer => answer,
            }
        };
        let mut facts = match answer {
            Some(facts) => facts,
            None => self.as_wired(&inputs, &outputs, computes)?,
        };
        if computes && let Some(values) = self.values(&facts) {
            for (fact, value) in std::iter::zip(&mut facts.1, values) {
                let datum_type = fact.datum_type.concretize();
                if datum_type == Some(value.datum_type()) {
                    fact.value = value.into_arc_tensor().into();
                } else if datum_type.is_some_and(|it| it.is_tdim()) {
                    // Sizes that are numbers are computed as such.
                    fact.value = in_dims(&value)?.into_arc_tensor().into();
                }
            }
        }
        Ok(facts)
    }

    /// Wires the node alone into an empty model.
    fn alone(&self, inputs: &[TypedFact]) -> TractResult<Option<(TypedModel, TVec<OutletId>)>> {
        let mut model = TypedModel::default();
        let inputs = inputs.iter().enumerate().map(|(index, fact)| {
            let name = format!("input {index}");
            // tract takes values without elements for constants.
            let empty = fact.shape.as_concrete().filter(|shape| shape.contains(&0));
            match (&fact.konst, empty) {
                (Some(value), _) => model.add_const(name, value.clone()),
                (None, Some(shape)) => {
                    model.add_const(name, Tensor::zero_dt(fact.datum_type, shape)?)
                }
                (None, None) => model.add_source(name, fact.clone()),
            }
        });
        let inputs = inputs.collect::<TractResult<TVec<OutletId>>>()?;
        let mut node = Wiring {
            upstream: self.upstream.as_deref(),
            ..Wiring::alone("value", &mut model, &inputs)
        };
        let outlets = self.op.wire(&mut node)?;
        Ok(outlets.map(|outlets| (model, outlets)))
    }

    /// The facts of what is wired, once the types and shapes of all inputs are known.
    fn as_wired(
        &self,
        inputs: &[&InferenceFact],
        outputs: &[&InferenceFact],
        computes: bool,
    ) -> TractResult<Facts> {
        let typed = inputs.iter().map(|fact| TypedFact::try_from(*fact));
        let Ok(typed) = typed.collect::<TractResult<Vec<_>>>() else {
            return Ok((owned(inputs), owned(outputs), tvec![]));
        };
        let (model, outlets) = self.alone(&typed)?.context("tract has no such operator")?;
        let found = std::iter::zip(outlets, outputs).map(|(outlet, known)| {
            let fact = model.outlet_fact(outlet)?;
            let mut found = inferred_output(known, fact.datum_type, fact.shape.to_tvec());
            if let Some(value) = fact.konst.clone().filter(|_| computes) {
                found.value = value.into();
            }
            Ok(found)
        });
        Ok((owned(inputs), found.collect::<TractResult<_>>()?, tvec![]))
    }

    /// Computes the outputs of known inputs, by the operator that would be wired; `None` if there is none
    /// of this crate, or if a value has many elements or none.
    fn values(&self, facts: &Facts) -> Option<TVec<TValue>> {
        let (inputs, outputs, _) = facts;
        let is_small = |fact: &InferenceFact| {
            let sizes = fact.shape.as_concrete_finite().ok().flatten();
            sizes.is_some_and(|sizes| (1..=FEW).contains(&sizes.iter().product()))
        };
        let is_known = |fact: &InferenceFact| fact.value.is_concrete();
        let is_open = inputs.iter().all(is_known) && !outputs.iter().all(is_known);
        if !is_open || !inputs.iter().chain(outputs).all(is_small) {
            return None;
        }
        let inputs = inputs.iter().map(TypedFact::try_from);
        let inputs = inputs.collect::<TractResult<Vec<_>>>().ok()?;
        let (mut model, outlets) = self.alone(&inputs).ok().flatten()?;
        model.select_output_outlets(&outlets).ok()?;
        model.into_runnable().ok()?.run(tvec![]).ok()
    }
}

impl<T: Operator> Op for Mended<T> {
    fn name(&self) -> StaticName {
        self.name.clone()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.upstream.as_ref().map_or(Ok(vec![]), |it| it.info())
    }

    fn validation(&self) -> Validation {
        let upstream = self.upstream.as_ref();
        upstream.map_or(Validation::Accurate, |it| it.validation())
    }

    not_a_typed_op!();
}

impl<T: Operator> EvalOp for Mended<T> {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let upstream = self.upstream.as_ref();
        upstream.context("it is not wired")?.eval(ctx, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        match &self.upstream {
            Some(upstream) if T::IS_TRANSPARENT => upstream.eval_out_of_plan(inputs),
            _ => Ok(None),
        }
    }

    fn state(&self, ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        self.upstream.as_ref().map_or(Ok(None), |it| it.state(ctx))
    }
}

impl<T: Operator> InferenceOp for Mended<T> {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.inferred(inputs, outputs, observed, true)
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.inferred(inputs, outputs, observed, false)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        let upstream = self.upstream.as_ref();
        upstream.map_or(Ok(vec![]), |it| it.observe_outlets(model, node))
    }

    fn incorporate(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Option<InferenceModelPatch>> {
        match &self.upstream {
            Some(upstream) if T::IS_TRANSPARENT => upstream.incorporate(model, node),
            _ => Ok(None),
        }
    }

    fn nboutputs(&self) -> TractResult<usize> {
        match (&self.upstream, self.arity) {
            (Some(upstream), _) => upstream.nboutputs(),
            (None, arity) => Ok(arity.map_or(1, |[_, outputs]| outputs)),
        }
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs = node.inputs.iter().map(|input| mapping[input]);
        let mut wiring = Wiring {
            name: &node.name,
            model: target,
            inputs: inputs.collect(),
            upstream: self.upstream.as_deref(),
            place: Some(Place {
                source,
                node,
                mapping,
            }),
        };
        match self.op.wire(&mut wiring)? {
            Some(outlets) => Ok(outlets),
            None => wiring.without_facts(),
        }
    }

    as_op!();
}
