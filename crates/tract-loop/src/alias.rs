//! The same value under another name.

use tract_onnx::tract_hir::internal::*;

use crate::fusion;

/// Gives what it takes, and is gone from an optimised model.
#[derive(Clone, Debug)]
pub(crate) enum Alias {
    /// tract 0.23 panics in decluttering a Scan whose body reads an element of what is
    /// scanned twice in one node, as in `x + x`: there, the second reads this.
    SecondRead,
    /// A state before the step. When code is made of the body, its small operators
    /// are fused: tract has no other place where a Scan's body can be reached then.
    State,
    /// What a step gives out. tract would take the last operators on single elements out of
    /// the body, to run for all steps at once, which costs more than fused ones do.
    Kept,
    /// What a Scan gives out: where the Scan itself is looked at once its body is fused.
    Scanned,
}

impl Alias {
    /// Whether what is around it may be fused across it.
    pub(crate) fn is_inner(&self) -> bool {
        matches!(self, Self::SecondRead | Self::Kept)
    }

    /// The outputs of a Scan as they are to be read.
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
}

/// No two are the same: tract would make them one.
impl PartialEq for Alias {
    fn eq(&self, _other: &Self) -> bool {
        false
    }
}

impl Eq for Alias {}

impl Op for Alias {
    fn name(&self) -> StaticName {
        "Alias".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Alias {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Alias {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].clone()))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self {
            Self::Kept => AxesMapping::disconnected(inputs, outputs),
            _ => AxesMapping::natural(inputs, outputs),
        }
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
    }

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        match self {
            Self::Scanned => return Ok(None),
            Self::State => {
                let inputs = model.inputs.iter().map(|input| model.outlet_fact(*input));
                let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
                if let Some(patch) = fusion::fuse(model, &fusion::symbols(inputs))? {
                    return Ok(Some(patch));
                }
            }
            Self::SecondRead | Self::Kept => {}
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
        if let Some(patch) = fusion::fuse_scan(model)? {
            return Ok(Some(patch));
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}
