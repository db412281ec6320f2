//! Operators that tract reads but for some inputs, such as sizes that come from data.

use std::fmt;

use tract_onnx::tract_hir::internal::*;

use crate::node::Facts;
use crate::wire::to_typed_without_facts;

/// A node that tract may read.
pub(crate) trait FromData: Clone + fmt::Debug + Send + Sync + 'static {
    /// The operator's name; `tracts` is tract's version of it.
    fn name(&self, tracts: &dyn InferenceOp) -> StaticName;

    /// Infers facts; `None` to infer like tract.
    fn infer(
        &self,
        tracts: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>>;

    /// Checks what tract may make while it infers with values.
    fn check(
        &self,
        _tracts: &mut dyn InferenceOp,
        _inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<()> {
        Ok(())
    }

    /// Wires the node; `None` to wire it like tract.
    fn wire(
        &self,
        tracts: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>>;
}

/// A node before it is known whether tract reads it.
#[derive(Clone, Debug)]
pub(crate) struct OrTracts<T> {
    /// tract's version of it.
    pub(crate) tracts: Box<dyn InferenceOp>,
    pub(crate) op: T,
}

never_equal!(OrTracts<T>, T);

impl<T: FromData> Op for OrTracts<T> {
    fn name(&self) -> StaticName {
        self.op.name(&*self.tracts)
    }

    not_a_typed_op!();
}

impl<T: FromData> EvalOp for OrTracts<T> {
    not_out_of_plan!();
}

impl<T: FromData> InferenceOp for OrTracts<T> {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        match self.op.infer(&mut *self.tracts, &inputs, &outputs)? {
            Some(facts) => Ok(facts),
            None => {
                self.op.check(&mut *self.tracts, &inputs, &outputs)?;
                self.tracts.infer(inputs, outputs, observed)
            }
        }
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        // Without values, which may be large: a caller may limit them before.
        match self.op.infer(&mut *self.tracts, &inputs, &outputs)? {
            Some(facts) => Ok(facts),
            None => self.tracts.infer_facts(inputs, outputs, observed),
        }
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        match self.op.wire(&*self.tracts, &node.name, target, &inputs)? {
            Some(outlets) => Ok(outlets),
            None => to_typed_without_facts(&*self.tracts, source, node, target, mapping),
        }
    }

    as_op!();
}
