//! ONNX's `If`: with a known condition, only the taken branch has to be valid.
//!
//! This is the node before types and shapes are known. It holds both branches as models and infers
//! them with the facts around it; while the condition is unknown, an invalid branch says nothing,
//! since it may be the one not taken. When the node is wired, the nodes of a known branch replace
//! it, and otherwise it becomes [`Branches`].
//!
//! ```text
//! If(true) { then: Relu(x), else: Reshape(x, [7]) }  →  Relu(x), whatever x's shape
//! ```

use std::collections::HashMap;

use tract_onnx::model::{ParseResult, ParsingContext};
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_hir::infer::{DimFact, ShapeFactoid};
use tract_onnx::tract_hir::internal::*;

use crate::dims::scalar;
use crate::graph::self_contained;
use crate::loops::branches::{Branches, Sizes, join_size, output_facts};
use crate::node::element_type;
use crate::operator::{Facts, Parsed};
use crate::repairs::typed::typed_body;
use crate::wire::{free_names, wire_cast};

/// Parses an If, with any names in its branches.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let mut captured: Vec<String> = Vec::new();
    let mut branch = |name: &str| -> TractResult<Branch> {
        let graph: &GraphProto = node.get_attr(name)?;
        let ParseResult {
            model,
            unresolved_inputs,
            ..
        } = ctx.parse_graph(&self_contained(graph, &[]))?;
        let feeds = unresolved_inputs.into_iter().map(|name| {
            let index = captured.iter().position(|it| *it == name);
            // Input 0 is the condition.
            1 + index.unwrap_or_else(|| {
                captured.push(name);
                captured.len() - 1
            })
        });
        Ok(Branch {
            feeds: feeds.collect(),
            body: model,
            declared: graph.output.iter().map(element_type).collect(),
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
    /// The types that the branch declares for its outputs.
    declared: Vec<Option<DatumType>>,
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
        let holds = value.map(|value| scalar::<bool>(&value));
        Ok(holds.transpose()?.map(|holds| usize::from(!holds)))
    }

    /// The type of an output of both branches, which may differ in holding an integer as a size. A
    /// size gains nothing where the other branch may be taken, so it becomes a number.
    fn joined_type(&self, output: usize, types: [DatumType; 2]) -> Option<DatumType> {
        let is_size = |datum_type: DatumType| datum_type.is_tdim();
        match types {
            [one, other] if is_size(one) && is_size(other) => {
                let mut declared = self.branches.iter().map(|it| it.declared.get(output));
                let declared = declared.find_map(|it| it.copied().flatten());
                Some(
                    declared
                        .filter(|it| it.is_integer())
                        .unwrap_or(i64::datum_type()),
                )
            }
            [size, number] | [number, size] if is_size(size) && number.is_integer() => Some(number),
            [one, other] => (one == other).then_some(one),
        }
    }

    /// Casts outputs to the type that both branches have.
    fn join_types(&self, bodies: &mut IfThenElse) -> TractResult<()> {
        for output in 0..bodies.then_body.outputs.len() {
            let then = bodies.then_body.output_fact(output)?.datum_type;
            let other = bodies.else_body.output_fact(output)?.datum_type;
            let Some(datum_type) = self.joined_type(output, [then, other]) else {
                continue;
            };
            for body in [&mut bodies.then_body, &mut bodies.else_body] {
                let mut outputs = body.outputs.clone();
                let name = format!("{}.number", body.node(outputs[output].node).name);
                outputs[output] = wire_cast(body, name, outputs[output], datum_type)?;
                body.select_output_outlets(&outputs)?;
            }
        }
        Ok(())
    }

    /// Facts about an output that both branches share.
    fn join(&mut self, output: usize, [one, other]: [&InferenceFact; 2]) -> InferenceFact {
        let mut fact = InferenceFact::default();
        let types = [one, other].map(|fact| fact.datum_type.concretize());
        if let [Some(one), Some(other)] = types
            && let Some(datum_type) = self.joined_type(output, [one, other])
        {
            fact = fact.with_datum_type(datum_type);
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
    ) -> TractResult<Facts> {
        let mut inputs: TVec<InferenceFact> = inputs.into_iter().cloned().collect();
        let mut outputs: TVec<InferenceFact> = outputs.into_iter().cloned().collect();
        let observed = observed.into_iter().cloned().collect();
        inputs[0]
            .datum_type
            .unify_with(&bool::datum_type().into())?;
        let inferred = match Self::taken(&inputs[0])? {
            Some(taken) => self.branches[taken].infer(&inputs, Some(&outputs))?,
            None => {
                let inferred = self.branches.each_mut().map(|it| it.infer(&inputs, None));
                // An inconsistent branch may be the one not taken.
                let [Ok(then), Ok(other)] = inferred else {
                    return Ok((inputs, outputs, observed));
                };
                let pairs = std::iter::zip(&then, &other).enumerate();
                pairs
                    .map(|(output, (then, other))| self.join(output, [then, other]))
                    .collect()
            }
        };
        for (output, mut inferred) in std::iter::zip(&mut outputs, inferred) {
            output.unify_with_mut(&mut inferred)?;
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
        let typed = |branch: &Branch| typed_body(branch.body.clone());
        let condition = target.outlet_fact(inputs[0])?.konst.clone();
        let taken = match condition {
            Some(value) => Some(usize::from(!scalar::<bool>(&value)?)),
            None => Self::taken(source.outlet_fact(node.inputs[0])?)?,
        };
        if let Some(taken) = taken {
            let branch = &self.branches[taken];
            let outlets = wire_taken(target, &node.name, &typed(branch)?, &branch.feeds, &inputs)?;
            free_names(source, node, target, first);
            return Ok(outlets);
        }
        // What was wired may know more than what was inferred.
        let facts = std::iter::zip(&node.inputs, &inputs).map(|(input, wired)| {
            let inferred = source.outlet_fact(*input)?;
            Ok(match TypedFact::try_from(inferred) {
                Ok(_) => inferred.clone(),
                Err(_) => InferenceFact::from(target.outlet_fact(*wired)?),
            })
        });
        let facts: TVec<InferenceFact> = facts.collect::<TractResult<_>>()?;
        // Either branch may be taken, so inconsistencies are errors.
        let mut branches = self.branches.clone();
        for branch in &mut branches {
            branch.infer(&facts, None)?;
        }
        let [then, other] = &branches;
        let mut bodies = IfThenElse {
            then_body: typed(then)?,
            then_input_mapping: then.feeds.clone(),
            else_body: typed(other)?,
            else_input_mapping: other.feeds.clone(),
        };
        self.join_types(&mut bodies)?;
        let mut sizes = self.sizes.clone();
        output_facts(&bodies, &mut sizes).with_context(|| format!("If {:?}", node.name))?;
        let op = Branches::new(bodies, sizes);
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
