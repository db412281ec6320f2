//! ONNX's `If`: with a known condition, only the taken branch has to be valid.

use std::collections::HashMap;

use tract_onnx::model::{ParseResult, ParsingContext};
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_hir::infer::{DimFact, ShapeFactoid};
use tract_onnx::tract_hir::internal::*;

use crate::graph::self_contained;
use crate::node::check_domain;
use crate::wire::free_names;

/// Parses an If, with any names in its branches.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let mut captured: Vec<String> = Vec::new();
    let mut branch = |name: &str| -> TractResult<Branch> {
        let graph: &GraphProto = node.get_attr(name)?;
        let ParseResult {
            model,
            unresolved_inputs,
            ..
        } = ctx.parse_graph(&self_contained(graph, &[]))?;
        let feeds = unresolved_inputs.into_iter().map(|name| {
            let known = captured.iter().position(|it| *it == name);
            // Input 0 is the condition.
            1 + known.unwrap_or_else(|| {
                captured.push(name);
                captured.len() - 1
            })
        });
        Ok(Branch {
            feeds: feeds.collect(),
            body: model,
        })
    };
    let branches = [branch("then_branch")?, branch("else_branch")?];
    let [then, other] = branches.each_ref().map(|it| it.body.outputs.len());
    ensure!(
        then == other && node.output.len() <= then,
        "If {:?} has {} outputs, its branches {then} and {other}",
        node.name,
        node.output.len()
    );
    let op = OnnxIf {
        branches,
        sizes: HashMap::new(),
    };
    Ok((Box::new(op), captured))
}

/// A branch before types and shapes are known.
#[derive(Clone, Debug)]
struct Branch {
    body: InferenceModel,
    /// The node's input for each input of the body.
    feeds: Vec<usize>,
}

impl Branch {
    /// Infers the outputs from the inputs and the known facts of the outputs. Keeps the result
    /// unless it is inconsistent.
    fn infer(
        &mut self,
        inputs: &[InferenceFact],
        outputs: Option<&[InferenceFact]>,
    ) -> TractResult<TVec<InferenceFact>> {
        let mut body = self.body.clone();
        for (index, &input) in self.feeds.iter().enumerate() {
            body.input_fact_mut(index)?
                .unify_with_mut(&mut inputs[input].clone())?;
        }
        for (index, output) in outputs.into_iter().flatten().enumerate() {
            body.output_fact_mut(index)?
                .unify_with_mut(&mut output.clone())?;
        }
        body.analyse(false)?;
        self.body = body;
        let outputs = self.body.output_outlets()?.iter();
        let facts = outputs.map(|&outlet| self.body.outlet_fact(outlet).cloned());
        facts.collect()
    }
}

/// Symbols for sizes in which the branches differ, by output and axis.
type Sizes = HashMap<(usize, usize), TDim>;

#[derive(Clone, Debug)]
struct OnnxIf {
    /// The branches for a true and a false condition.
    branches: [Branch; 2],
    sizes: Sizes,
}

never_equal!(OnnxIf);

impl OnnxIf {
    /// The index of the taken branch, if known.
    fn taken(condition: &InferenceFact) -> TractResult<Option<usize>> {
        let value = condition.value.concretize();
        let holds = value.map(|value| value.cast_to_scalar::<bool>());
        Ok(holds.transpose()?.map(|holds| usize::from(!holds)))
    }

    /// Facts about an output that both branches share.
    fn join(&mut self, output: usize, [one, other]: [&InferenceFact; 2]) -> InferenceFact {
        let mut fact = InferenceFact::default();
        let types = [one, other].map(|fact| fact.datum_type.concretize());
        if let [Some(one), Some(other)] = types
            && one == other
        {
            fact = fact.with_datum_type(one);
        }
        let shapes = [&one.shape, &other.shape];
        let ranks = shapes.map(|shape| shape.rank().concretize());
        if ranks[0].is_none() || ranks[0] != ranks[1] {
            return fact;
        }
        let axes = std::iter::zip(shapes[0].dims(), shapes[1].dims()).enumerate();
        let dims = axes.map(
            |(axis, (one, other))| match (one.concretize(), other.concretize()) {
                (Some(one), Some(other)) => {
                    let scope = &self.branches[0].body.symbols;
                    DimFact::from(join_size(
                        &mut self.sizes,
                        (output, axis),
                        [&one, &other],
                        scope,
                    ))
                }
                _ => DimFact::default(),
            },
        );
        fact.with_shape(ShapeFactoid::closed(dims.collect()))
    }
}

/// The size if both branches agree; otherwise a symbol, always the same one for a place.
fn join_size(
    sizes: &mut Sizes,
    place: (usize, usize),
    [one, other]: [&TDim; 2],
    scope: &SymbolScope,
) -> TDim {
    if one == other {
        return one.clone();
    }
    let symbol = || scope.new_with_prefix("if_size").to_dim();
    sizes.entry(place).or_insert_with(symbol).clone()
}

impl Op for OnnxIf {
    fn name(&self) -> StaticName {
        "If".into()
    }

    not_a_typed_op!();
}

impl EvalOp for OnnxIf {
    not_out_of_plan!();
}

impl InferenceOp for OnnxIf {
    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(
        TVec<InferenceFact>,
        TVec<InferenceFact>,
        TVec<InferenceFact>,
    )> {
        let mut inputs: TVec<InferenceFact> = inputs.into_iter().cloned().collect();
        let mut outputs: TVec<InferenceFact> = outputs.into_iter().cloned().collect();
        let observed = observed.into_iter().cloned().collect();
        inputs[0]
            .datum_type
            .unify_with(&bool::datum_type().into())?;
        let found = match Self::taken(&inputs[0])? {
            Some(taken) => self.branches[taken].infer(&inputs, Some(&outputs))?,
            None => {
                let found = self.branches.each_mut().map(|it| it.infer(&inputs, None));
                // An inconsistent branch may be the one not taken.
                let [Ok(then), Ok(other)] = found else {
                    return Ok((inputs, outputs, observed));
                };
                let pairs = std::iter::zip(&then, &other).enumerate();
                pairs
                    .map(|(output, (then, other))| self.join(output, [then, other]))
                    .collect()
            }
        };
        for (output, mut found) in std::iter::zip(&mut outputs, found) {
            output.unify_with_mut(&mut found)?;
        }
        Ok((inputs, outputs, observed))
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.branches[0].body.outputs.len())
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let first = target.nodes().len();
        let typed = |branch: &Branch| branch.body.clone().into_typed();
        let known = target.outlet_fact(inputs[0])?.konst.clone();
        let known = match known {
            Some(value) => Some(usize::from(!value.cast_to_scalar::<bool>()?)),
            None => Self::taken(source.outlet_fact(node.inputs[0])?)?,
        };
        if let Some(taken) = known {
            let branch = &self.branches[taken];
            let outlets = wire_taken(target, &node.name, &typed(branch)?, &branch.feeds, &inputs)?;
            free_names(source, node, target, first);
            return Ok(outlets);
        }
        let facts = node
            .inputs
            .iter()
            .map(|it| source.outlet_fact(*it).cloned());
        let facts: TVec<InferenceFact> = facts.collect::<TractResult<_>>()?;
        // Either branch may be taken, so inconsistencies are errors.
        let mut branches = self.branches.clone();
        for branch in &mut branches {
            branch.infer(&facts, None)?;
        }
        let [then, other] = &branches;
        let bodies = IfThenElse {
            then_body: typed(then)?,
            then_input_mapping: then.feeds.clone(),
            else_body: typed(other)?,
            else_input_mapping: other.feeds.clone(),
        };
        let mut sizes = self.sizes.clone();
        output_facts(&bodies, &mut sizes).with_context(|| format!("If {:?}", node.name))?;
        let op = Branches { bodies, sizes };
        let name = target.unique_name(&*node.name).into_owned();
        let outlets = target.wire_node(name, op, &inputs)?;
        free_names(source, node, target, first);
        Ok(outlets)
    }

    as_op!();
}

/// Inlines a branch in place of its node.
fn wire_taken(
    target: &mut TypedModel,
    name: &str,
    body: &TypedModel,
    feeds: &[usize],
    inputs: &[OutletId],
) -> TractResult<TVec<OutletId>> {
    let mut mapping: HashMap<OutletId, OutletId> = HashMap::new();
    for (outlet, &feed) in std::iter::zip(body.input_outlets()?, feeds) {
        mapping.insert(*outlet, inputs[feed]);
    }
    for id in body.eval_order()? {
        let inner = body.node(id);
        if mapping.contains_key(&OutletId::new(id, 0)) {
            continue;
        }
        let inputs: TVec<OutletId> = inner.inputs.iter().map(|it| mapping[it]).collect();
        let name = target
            .unique_name(format!("{name}/{}", inner.name))
            .into_owned();
        let outlets = target.wire_node(name, &inner.op, &inputs)?;
        for (slot, outlet) in outlets.into_iter().enumerate() {
            mapping.insert(OutletId::new(id, slot), outlet);
        }
    }
    body.output_outlets()?
        .iter()
        .map(|outlet| {
            mapping
                .get(outlet)
                .copied()
                .context("a branch has its outputs")
        })
        .collect()
}

/// tract's IfThenElse, except that outputs become known only with the condition. tract takes a
/// constant output of the first branch for both, and rejects branches of different sizes.
#[derive(Clone, Debug)]
pub(crate) struct Branches {
    pub(crate) bodies: IfThenElse,
    sizes: Sizes,
}

never_equal!(Branches);

impl Op for Branches {
    fn name(&self) -> StaticName {
        "If".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Branches {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.bodies.eval(ctx, inputs)
    }
}

impl TypedOp for Branches {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        output_facts(&self.bodies, &mut self.sizes.clone())
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        self.bodies.declutter(model, node)
    }

    as_op!();
}

/// The outputs' facts for either branch.
fn output_facts(bodies: &IfThenElse, sizes: &mut Sizes) -> TractResult<TVec<TypedFact>> {
    let mut facts = tvec!();
    for output in 0..bodies.then_body.outputs.len() {
        let then = bodies.then_body.output_fact(output)?;
        let other = bodies.else_body.output_fact(output)?;
        ensure!(
            then.datum_type == other.datum_type && then.rank() == other.rank(),
            "its branches output {} and {}; which one is taken has to be known before it runs",
            described(then),
            described(other)
        );
        let scope = &bodies.then_body.symbols;
        let axes = std::iter::zip(then.shape.iter(), other.shape.iter()).enumerate();
        let shape: TVec<TDim> = axes
            .map(|(axis, (one, other))| join_size(sizes, (output, axis), [one, other], scope))
            .collect();
        facts.push(then.datum_type.fact(shape));
    }
    Ok(facts)
}

/// A type and a rank in words.
fn described(fact: &TypedFact) -> String {
    let axes = if fact.rank() == 1 { "axis" } else { "axes" };
    format!("{:?} of {} {axes}", fact.datum_type, fact.rank())
}
