//! A node before types and shapes are known: an operator of this crate, over tract's if that has one.

use std::fmt;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::Operator;
use super::inferring::{Facts, Inferring, owned};
use super::wiring::{Place, Wiring};
use crate::data_sizes::inferred_output;
use crate::dims::in_dims;
use crate::node::{Parsed, parse_with_tract};
use crate::wire::alone;

/// Puts an operator over another one.
pub fn over<T: Operator>(upstream: Box<dyn InferenceOp>, op: T) -> Box<dyn InferenceOp> {
    Box::new(Mended {
        name: upstream.name(),
        upstream: Some(upstream),
        arity: None,
        op,
    })
}

/// Puts an operator over one that is parsed.
pub(crate) fn over_parsed<T: Operator>(parsed: Parsed, op: T) -> Parsed {
    let (upstream, captured) = parsed?;
    Ok((over(upstream, op), captured))
}

/// Parses a node like tract, and puts an operator over it.
pub(crate) fn over_tract<T: Operator>(ctx: &ParsingContext<'_>, node: &NodeProto, op: T) -> Parsed {
    over_parsed(parse_with_tract(&node.op_type, ctx, node), op)
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
#[derive(Clone)]
struct Mended<T> {
    name: StaticName,
    /// tract's version of the operator, or one over it.
    upstream: Option<Box<dyn InferenceOp>>,
    /// The numbers of inputs and of outputs, without tract's version.
    arity: Option<[usize; 2]>,
    op: T,
}

never_equal!(Mended<T>, T);

impl<T> fmt::Debug for Mended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {:?}", self.name, self.upstream)
    }
}

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
            let count = inputs.len();
            ensure!(
                count == expected,
                "it has {count} inputs, expected {expected}"
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
                computes: computes && T::COMPUTES,
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
        let (mut model, inputs) = alone(SymbolScope::default(), inputs)?;
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
        let facts = std::iter::zip(outlets, outputs).map(|(outlet, inferred)| {
            let wired = model.outlet_fact(outlet)?;
            let mut fact = inferred_output(inferred, wired.datum_type, wired.shape.to_tvec());
            if let Some(value) = wired.konst.clone().filter(|_| computes) {
                fact.value = value.into();
            }
            Ok(fact)
        });
        Ok((owned(inputs), facts.collect::<TractResult<_>>()?, tvec![]))
    }

    /// Computes the outputs of known inputs, by the operator that would be wired; `None` if there is none
    /// of this crate, or if a value has many elements, or an output none.
    fn values(&self, facts: &Facts) -> Option<TVec<TValue>> {
        let (inputs, outputs, _) = facts;
        let count = |fact: &InferenceFact| {
            let sizes = fact.shape.as_concrete_finite().ok().flatten();
            sizes.map(|sizes| sizes.iter().product::<usize>())
        };
        let is_small = |fact: &InferenceFact| count(fact).is_some_and(|it| it <= FEW);
        let has_none = |fact: &InferenceFact| count(fact) == Some(0);
        let is_known = |fact: &InferenceFact| fact.value.is_concrete();
        let is_open = inputs.iter().all(is_known) && !outputs.iter().all(is_known);
        let are_small = inputs.iter().chain(outputs).all(is_small);
        if !is_open || !are_small || outputs.iter().any(has_none) {
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
            None => wiring.by_upstream(),
        }
    }

    as_op!();
}
