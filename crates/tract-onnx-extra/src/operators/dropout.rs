//! Dropout before opset 10, whose mask has the type of the data. tract's is one of truth values.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::delegate::Delegate;
use crate::node::{check_domain, parse_with_tract};

/// The first version whose mask has truth values.
const OF_TRUTHS: i64 = 10;

/// Parses a Dropout.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let has_mask = node.output.len() > 1;
    let (upstream, captured) = match ctx.onnx_operator_set_version < OF_TRUTHS && has_mask {
        true => (expand(WithNumbers), vec![]),
        false => parse_with_tract(&node.op_type, ctx, node)?,
    };
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}

/// The data, and a mask of ones.
#[derive(Clone, Debug)]
struct WithNumbers;

impl Expansion for WithNumbers {
    fn name(&self) -> StaticName {
        "Dropout".into()
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(2)
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, 2)?;
        for output in outputs {
            s.equals(&inputs[0].datum_type, &output.datum_type)?;
            s.equals(&inputs[0].shape, &output.shape)?;
        }
        Ok(())
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let fact = model.outlet_fact(inputs[0])?.clone();
        let one = tensor0(1_i64).cast_to_dt(fact.datum_type)?.into_owned();
        let one = one.into_shape(&tvec![1; fact.rank()])?;
        let one = model.add_const(format!("{prefix}.one"), one)?;
        let to = MultiBroadcastTo::new(fact.shape);
        let mask = model.wire_node(format!("{prefix}.mask"), to, &[one])?[0];
        Ok(tvec![inputs[0], mask])
    }
}
