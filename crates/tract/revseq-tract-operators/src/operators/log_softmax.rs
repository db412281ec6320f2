//! LogSoftmax. tract computes the logarithm of a Softmax, of whose small elements it makes infinity.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::nn::{Softmax, SoftmaxKind};

use crate::data_sizes::axis;
use crate::operator::{Parsed, Wiring, own};
use crate::operators::along_axes;

/// The first version for which it normalises along one axis, and not along all from one on.
const ALONG_ONE_AXIS: i64 = 13;

/// Parses a LogSoftmax.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let is_along_one = ctx.onnx_operator_set_version >= ALONG_ONE_AXIS;
    let default = if is_along_one { -1 } else { 1 };
    let first: i64 = node.get_attr_opt("axis")?.unwrap_or(default);
    own(node, [1, 1], move |node: &mut Wiring<'_>| {
        let rank = node.input(0)?.rank();
        let axis = axis(first, rank)?;
        let end = if is_along_one { axis + 1 } else { rank };
        let op = Softmax::new((axis..end).collect(), None, SoftmaxKind::LogSoftmax);
        let first = node.model.nodes().len();
        let outlets = node.whole(op)?;
        along_axes::wrap(node.model, first);
        Ok(outlets)
    })
}
