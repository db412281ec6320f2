//! ONNX's `If`, whatever the names in its branches are.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_hir::internal::*;

use crate::graph::self_contained;
use crate::node::{check_domain, tracts};
use crate::wire::free_names;

/// Reads an If: tract's, of branches that tract can read, with a name of its own.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let mut node = node.clone();
    for attribute in &mut node.attribute {
        attribute.g = attribute.g.take().map(|graph| self_contained(&graph, &[]));
    }
    let (op, captured) = tracts("If", ctx, &node)?;
    Ok((Box::new(OnnxIf(op)), captured))
}

/// tract's own, before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxIf(Box<dyn InferenceOp>);

never_equal!(OnnxIf);

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
        self.0.infer_facts(inputs, outputs, observed)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.0.nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        // tract gives each of them the same name, so it is wired on its own first.
        let mut alone = TypedModel {
            symbols: target.symbols.clone(),
            ..TypedModel::default()
        };
        let mut taps = HashMap::new();
        for (index, input) in node.inputs.iter().enumerate() {
            let fact = target.outlet_fact(mapping[input])?.without_value();
            taps.insert(*input, alone.add_source(format!("input{index}"), fact)?);
        }
        let outlets = self.0.to_typed(source, node, &mut alone, &taps)?;
        let made = outlets.first().context("an If has outputs")?.node;
        let op = alone.node(made).op_as::<IfThenElse>();
        let op = Branches(op.context("tract makes it that")?.clone());

        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        let first = target.nodes().len();
        let name = target.unique_name(&*node.name).into_owned();
        let outlets = target.wire_node(name, op, &inputs)?;
        free_names(source, node, target, first);
        Ok(outlets)
    }

    as_op!();
}

/// tract's own, whose outputs are known only once the condition is: tract takes a constant of
/// the first branch for that of both.
#[derive(Clone, Debug)]
pub(crate) struct Branches(pub(crate) IfThenElse);

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
        self.0.eval(ctx, inputs)
    }
}

impl TypedOp for Branches {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let facts = self.0.output_facts(inputs)?.into_iter();
        Ok(facts.map(|fact| fact.without_value()).collect())
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        self.0.declutter(model, node)
    }

    as_op!();
}
