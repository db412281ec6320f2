//! LogSoftmax. tract computes the logarithm of a Softmax, of whose small elements it makes infinity.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::nn::{Softmax, SoftmaxKind};
use tract_onnx::tract_hir::internal::*;

use crate::node::check_domain;
use crate::operators::along_axes;

/// The first version for which it normalises along one axis, and not along all from one on.
const ALONG_ONE_AXIS: i64 = 13;

/// Parses a LogSoftmax.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let is_along_one = ctx.onnx_operator_set_version >= ALONG_ONE_AXIS;
    let default = if is_along_one { -1 } else { 1 };
    let op = LogSoftmax {
        axis: node.get_attr_opt("axis")?.unwrap_or(default),
        is_along_one,
    };
    Ok((expand(op), vec![]))
}

#[derive(Clone, Debug)]
struct LogSoftmax {
    axis: i64,
    is_along_one: bool,
}

impl Expansion for LogSoftmax {
    fn name(&self) -> StaticName {
        "LogSoftmax".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, 1)?;
        s.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        s.equals(&inputs[0].shape, &outputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let rank = model.outlet_fact(inputs[0])?.rank();
        let from_first = self.axis + if self.axis < 0 { rank as i64 } else { 0 };
        let axis = usize::try_from(from_first).ok().filter(|it| *it < rank);
        let axis = axis.with_context(|| {
            format!(
                "its axis is {}, expected one of the {rank} of its input",
                self.axis
            )
        })?;
        let end = if self.is_along_one { axis + 1 } else { rank };
        let op = Softmax::new((axis..end).collect(), None, SoftmaxKind::LogSoftmax);
        let first = model.nodes().len();
        let outlets = model.wire_node(prefix, op, inputs)?;
        along_axes::wrap(model, first);
        Ok(outlets)
    }
}
