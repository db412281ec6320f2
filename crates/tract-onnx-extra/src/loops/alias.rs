//! Aliases: nodes that output their input.
//!
//! They stand where tract's passes would break a Scan's body, or where this crate needs a hook in
//! them: tract asks each node of a body in turn, and an alias answers for the whole model around
//! it. All are gone once a model is optimised.

use tract_onnx::tract_core::ops::scan::{OptScan, Scan};
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use crate::fusion;
use crate::repairs::optimize::scans;
use crate::wire::reads;

/// Outputs its first input, and is removed from optimised models.
#[derive(Clone, Debug)]
pub(crate) enum Alias {
    /// A repeated read. tract 0.23 panics when it declutters a Scan whose body reads an element of
    /// a scan input twice in one node, as in `x + x`.
    Distinct,
    /// A state before the step. During codegen, this is the hook that fuses the body's small
    /// operators: tract offers no other access to a Scan's body at that point.
    State,
    /// An output of a Scan's body. Further inputs are an element of a scan input and, for a state,
    /// its value before the step.
    ///
    /// tract's Scan breaks if a state or a scan output folds into a constant, if a state loses its
    /// last reader, or if its last scan input is unread. This node blocks folding and reads both.
    /// It also keeps the last elementwise operators in the body, where they are fused: tract would
    /// run them for all steps at once.
    Barrier,
    /// An output of a Scan: the hook that optimises the Scan itself once its body is fused.
    Scanned,
}

impl Alias {
    /// Wraps the outputs of a Scan.
    pub(crate) fn scanned(
        model: &mut TypedModel,
        name: &str,
        outputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let aliases = outputs.iter().map(|output| {
            let name = model.unique_name(format!("{name}.out")).into_owned();
            Ok(model.wire_node(name, Self::Scanned, &[*output])?[0])
        });
        aliases.collect()
    }

    /// A scan input that does not fold. tract 0.23 takes a single element for the whole value if
    /// that is a constant.
    pub(crate) fn unfolded(
        model: &mut TypedModel,
        name: &str,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let is_known = model.outlet_fact(outlet)?.konst.is_some();
        let is_source = |it: OutletId| model.node(it.node).op_is::<TypedSource>();
        if !is_known && reads(model, outlet, is_source) {
            return Ok(outlet);
        }
        let name = model.unique_name(format!("{name}.constant")).into_owned();
        Ok(model.wire_node(name, Self::Barrier, &[outlet])?[0])
    }

    /// Removes the first alias that would block fusion.
    pub(crate) fn release(model: &TypedModel) -> TractResult<Option<TypedModelPatch>> {
        let is_barrier = |alias: &Self| matches!(alias, Self::Barrier | Self::Distinct);
        let mut nodes = model.nodes().iter();
        rule_if_some!(node = nodes.find(|node| node.op_as().is_some_and(is_barrier)));
        remove(model, node).map(Some)
    }
}

/// Replaces an alias by its first input.
fn remove(model: &TypedModel, node: &TypedNode) -> TractResult<TypedModelPatch> {
    TypedModelPatch::rewire(
        model,
        &node.inputs[..1],
        &[node.id.into()],
        &|_patch, inputs| Ok(inputs.into()),
    )
}

never_equal!(Alias);

impl Op for Alias {
    fn name(&self) -> StaticName {
        "Alias".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Alias {
    fn eval(&self, _ctx: &EvalContext<'_>, mut inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        inputs.truncate(1);
        Ok(inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        Ok(match self {
            Self::Barrier => None,
            Self::Distinct | Self::State | Self::Scanned => Some(inputs),
        })
    }
}

impl TypedOp for Alias {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(match self {
            Self::Barrier => inputs[0].without_value(),
            Self::Distinct | Self::State | Self::Scanned => inputs[0].clone(),
        }))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self {
            Self::Barrier => AxesMapping::disconnected(inputs, outputs),
            Self::Distinct | Self::State | Self::Scanned => AxesMapping::natural(inputs, outputs),
        }
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        let (substitute_op, changed): (Option<Box<dyn TypedOp>>, TVec<InOut>) = match io {
            // The element stays as scanned.
            InOut::In(1) => return Ok(None),
            // tract rewires only nodes that it replaces.
            InOut::In(2..) => (Some(Box::new(self.clone())), tvec![io]),
            _ => (None, tvec![InOut::In(0), InOut::Out(0)]),
        };
        let wire_changes = changed.into_iter().map(|io| (io, change.clone()));
        Ok(Some(AxisChangeConsequence {
            substitute_op,
            wire_changes: wire_changes.collect(),
        }))
    }

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        match self {
            Self::Scanned => return Ok(None),
            Self::State => {
                if let Some(patch) = Self::release(model)? {
                    return Ok(Some(patch));
                }
                let inputs = model.inputs.iter().map(|input| model.outlet_fact(*input));
                let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
                if let Some(patch) = fusion::fuse(model, &fusion::symbols(inputs))? {
                    return Ok(Some(patch));
                }
            }
            Self::Distinct | Self::Barrier => {}
        }
        remove(model, node).map(Some)
    }

    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
        if let Some(patch) = fusion::fuse_scan(model)? {
            return Ok(Some(patch));
        }
        if let Some(patch) = without_unread_inputs(model)? {
            return Ok(Some(patch));
        }
        remove(model, node).map(Some)
    }

    as_op!();
}

/// Replaces the first Scan with unread inputs, whose elements would be copied for nothing.
fn without_unread_inputs(model: &TypedModel) -> TractResult<Option<TypedModelPatch>> {
    for node in model.nodes() {
        let Some(scan) = node.op_as::<OptScan>() else {
            continue;
        };
        let body = scan.plan.model();
        let is_scanned = |input: &usize| scan.input_mapping[*input].is_scan();
        let is_read = |input: &usize| {
            let outlet = body.inputs[*input];
            let successors = &body.node(outlet.node).outputs[outlet.slot].successors;
            scan.input_mapping[*input].is_state()
                || !successors.is_empty()
                || body.outputs.contains(&outlet)
        };
        let all = 0..body.inputs.len();
        let mut kept: Vec<usize> = all.clone().filter(is_read).collect();
        if !kept.iter().any(is_scanned) {
            // A scan input determines the number of steps.
            kept.extend(all.clone().rev().find(is_scanned));
        }
        if kept.len() == all.len() {
            continue;
        }
        let mut body = body.clone();
        body.inputs = kept.iter().map(|input| body.inputs[*input]).collect();
        body.compact()?;
        let mapping = kept.iter().map(|input| scan.input_mapping[*input].clone());
        let mapping = mapping.collect();
        let mut op = Scan::new(body, mapping, scan.output_mapping.clone(), scan.skip)?;
        op.reset_every_turn = scan.reset_every_turn;
        let op = scans::with_plan(&op)?;
        let inputs: TVec<OutletId> = kept.iter().map(|input| node.inputs[*input]).collect();
        return TypedModelPatch::replace_single_op(model, node, &inputs, op).map(Some);
    }
    Ok(None)
}
