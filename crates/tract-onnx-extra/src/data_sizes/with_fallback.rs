//! Operators that tract reads but for some inputs, such as sizes that come from data.

use std::fmt;

use tract_onnx::tract_hir::internal::*;

use crate::node::Facts;
use crate::wire::to_typed_without_facts;

/// A node that tract may read.
pub(crate) trait Override: Clone + fmt::Debug + Send + Sync + 'static {
    /// The operator's name; `upstream` is tract's version of it.
    fn name(&self, upstream: &dyn InferenceOp) -> StaticName;

    /// Infers facts; `None` to infer like tract.
    fn infer(
        &self,
        upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>>;

    /// Checks what tract may make while it infers with values.
    fn check(
        &self,
        _upstream: &mut dyn InferenceOp,
        _inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<()> {
        Ok(())
    }

    /// Wires the node; `None` to wire it like tract.
    fn wire(
        &self,
        upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>>;
}

/// A node before it is known whether tract reads it.
#[derive(Clone, Debug)]
pub(crate) struct WithFallback<T> {
    /// tract's version of it.
    pub(crate) upstream: Box<dyn InferenceOp>,
    pub(crate) op: T,
}

never_equal!(WithFallback<T>, T);

impl<T: Override> Op for WithFallback<T> {
    fn name(&self) -> StaticName {
        self.op.name(&*self.upstream)
    }

    not_a_typed_op!();
}

impl<T: Override> EvalOp for WithFallback<T> {
    not_out_of_plan!();
}

impl<T: Override> InferenceOp for WithFallback<T> {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        match self.op.infer(&mut *self.upstream, &inputs, &outputs)? {
            Some(facts) => Ok(facts),
            None => {
                self.op.check(&mut *self.upstream, &inputs, &outputs)?;
                self.upstream.infer(inputs, outputs, observed)
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
        match self.op.infer(&mut *self.upstream, &inputs, &outputs)? {
            Some(facts) => Ok(facts),
            None => self.upstream.infer_facts(inputs, outputs, observed),
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
        match self.op.wire(&*self.upstream, &node.name, target, &inputs)? {
            Some(outlets) => Ok(outlets),
            None => to_typed_without_facts(&*self.upstream, source, node, target, mapping),
        }
    }

    as_op!();
}
