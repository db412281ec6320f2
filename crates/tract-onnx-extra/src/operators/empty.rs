//! Operators whose outputs are known to be empty.
//!
//! tract takes a value without elements for a constant, and then refuses or panics in operators
//! that it would run. Here they become constants themselves.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::node::{Facts, names, parse_with_tract};

/// Replaces all of tract's operators in its ONNX loader.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    // A constant is one already.
    for name in names().filter(|name| *name != "Constant") {
        onnx.op_register.0.insert(name.to_owned(), parse);
    }
}

fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let (upstream, captured) = parse_with_tract(&node.op_type, ctx, node)?;
    Ok((Box::new(OrNothing { upstream }), captured))
}

/// An operator of tract's, or nothing.
#[derive(Clone, Debug)]
pub(crate) struct OrNothing {
    pub(crate) upstream: Box<dyn InferenceOp>,
}

never_equal!(OrNothing);

/// A value without elements, if it is known to have none.
fn nothing(fact: &InferenceFact) -> Option<TractResult<Tensor>> {
    let of = fact.datum_type.concretize()?;
    let shape = fact.shape.concretize()?;
    let shape = shape.iter().map(|size| size.to_usize().ok());
    let shape = shape.collect::<Option<TVec<usize>>>()?;
    shape.contains(&0).then(|| Tensor::zero_dt(of, &shape))
}

impl Op for OrNothing {
    fn name(&self) -> StaticName {
        self.upstream.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.upstream.info()
    }

    fn validation(&self) -> Validation {
        self.upstream.validation()
    }

    not_a_typed_op!();
}

impl EvalOp for OrNothing {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.upstream.eval(ctx, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.upstream.eval_out_of_plan(inputs)
    }

    fn state(&self, ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        self.upstream.state(ctx)
    }
}

impl InferenceOp for OrNothing {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.upstream.infer(inputs, outputs, observed)
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<Facts> {
        self.upstream.infer_facts(inputs, outputs, observed)
    }

    fn observe_outlets(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Vec<OutletId>> {
        self.upstream.observe_outlets(model, node)
    }

    fn incorporate(
        &self,
        model: &InferenceModel,
        node: &InferenceNode,
    ) -> TractResult<Option<InferenceModelPatch>> {
        self.upstream.incorporate(model, node)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.upstream.nboutputs()
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let outputs = node.outputs.iter().map(|output| nothing(&output.fact));
        let Some(outputs) = outputs.collect::<Option<TVec<_>>>() else {
            return self.upstream.to_typed(source, node, target, mapping);
        };
        let outputs = outputs.into_iter().map(|output| {
            let name = target.unique_name(&*node.name).into_owned();
            target.add_const(name, output?)
        });
        outputs.collect()
    }

    as_op!();
}
