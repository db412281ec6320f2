//! Dropout before opset 12, whose mask is of zeros, as in ONNX Runtime, and before opset 10 of the data's
//! type. tract's has the truth values of later ones.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::delegate::Delegate;
use crate::node::{check_domain, parse_with_tract};

/// The first version whose mask has truth values, and the first that marks what is kept.
const OF_TRUTHS: i64 = 10;
const OF_KEPT: i64 = 12;

/// Parses a Dropout.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let version = ctx.onnx_operator_set_version;
    let (upstream, captured) = match version < OF_KEPT && node.output.len() > 1 {
        true => {
            let has_truths = version >= OF_TRUTHS;
            (expand(WithZeros { has_truths }), vec![])
        }
        false => parse_with_tract(&node.op_type, ctx, node)?,
    };
    Ok((Delegate::boxed(upstream, OrNothing), captured))
}

/// The data, and a mask of zeros.
#[derive(Clone, Debug)]
struct WithZeros {
    has_truths: bool,
}

impl Expansion for WithZeros {
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
        let [data, mask] = outputs else {
            bail!("it has {} outputs, expected 2", outputs.len());
        };
        s.equals(&inputs[0].datum_type, &data.datum_type)?;
        match self.has_truths {
            true => s.equals(&mask.datum_type, bool::datum_type())?,
            false => s.equals(&inputs[0].datum_type, &mask.datum_type)?,
        }
        s.equals(&inputs[0].shape, &data.shape)?;
        s.equals(&inputs[0].shape, &mask.shape)?;
        Ok(())
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let fact = model.outlet_fact(inputs[0])?.clone();
        let datum_type = match self.has_truths {
            true => bool::datum_type(),
            false => fact.datum_type,
        };
        let zero = Tensor::zero_dt(datum_type, &tvec![1; fact.rank()])?;
        let zero = model.add_const(format!("{prefix}.zero"), zero)?;
        let to = MultiBroadcastTo::new(fact.shape);
        let mask = model.wire_node(format!("{prefix}.mask"), to, &[zero])?[0];
        Ok(tvec![inputs[0], mask])
    }
}
