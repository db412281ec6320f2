//! Aliases: nodes that output their input.
//!
//! They stand where tract's passes would break a Scan's body. All are gone once a model is optimised.

use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use crate::wire::reads;

/// Outputs its first input, and is removed from optimised models.
#[derive(Clone, Debug)]
pub(crate) enum Alias {
    /// A repeated read. tract 0.23 panics when it declutters a Scan whose body reads an element of
    /// a scan input twice in one node, as in `x + x`.
    Distinct,
    /// An output of a Scan's body. Further inputs are an element of a scan input and, for a state,
    /// its value before the step.
    ///
    /// tract's Scan breaks if a state or a scan output folds into a constant, if a state loses its
    /// last reader, or if its last scan input is unread. This node blocks folding and reads both.
    Barrier,
}

impl Alias {
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
            Self::Distinct => Some(inputs),
        })
    }
}

impl TypedOp for Alias {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(match self {
            Self::Barrier => inputs[0].without_value(),
            Self::Distinct => inputs[0].clone(),
        }))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self {
            Self::Barrier => AxesMapping::disconnected(inputs, outputs),
            Self::Distinct => AxesMapping::natural(inputs, outputs),
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
        remove(model, node).map(Some)
    }

    as_op!();
}
