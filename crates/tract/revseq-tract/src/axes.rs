//! The relations between an op's axes, and the changes of the op when tract moves them.

use revseq_graph::Operator;
use tract_onnx::tract_hir::internal::*;

use crate::ReverseSubsequences;

/// The lengths' axis for an axis of the data.
pub(crate) fn of_lengths(operator: Operator, axis: usize) -> Option<usize> {
    match operator.axes() {
        (_, Some(batch)) => (axis == batch).then_some(0),
        (_, None) => Some(axis),
    }
}

/// Maps every axis except the reversed one to itself, and to the lengths' axis if there is one,
/// since its positions are independent.
pub(crate) fn mapping(
    time: usize,
    lengths_axis: impl Fn(usize) -> Option<usize>,
    inputs: &[&TypedFact],
    outputs: &[&TypedFact],
) -> TractResult<AxesMapping> {
    let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
    for (axis, name) in (0..inputs[0].rank()).zip('a'..) {
        if axis == time {
            continue;
        }
        mapping = mapping
            .renaming((InOut::In(0), axis), name)?
            .linking(name, (InOut::Out(0), axis))?;
        if let Some(lengths_axis) = lengths_axis(axis) {
            mapping = mapping.linking(name, (InOut::In(1), lengths_axis))?;
        }
    }
    Ok(mapping)
}

/// The changes of the op and its tensors when an axis of one tensor moves.
///
/// For ReverseSequence, a change of the data passes to the output and leaves the lengths alone. The
/// lengths of ReverseSubsequences have the data's axes, so they change along. A change that removes
/// one of the op's own axes is refused.
pub(crate) fn change(
    op: &ReverseSubsequences,
    io: InOut,
    change: &AxisOp,
) -> Option<AxisChangeConsequence> {
    let moved = |axis: usize| change.transform_axis(axis).map(|axis| axis as i64);
    let (time, batch) = op.operator.axes();
    let (operator, with_data) = match batch {
        Some(_) if io == InOut::In(1) => return None,
        Some(batch) => {
            let operator = Operator::ReverseSequence {
                batch_axis: moved(batch)?,
                time_axis: moved(time)?,
            };
            (operator, [InOut::In(0), InOut::Out(0)].as_slice())
        }
        None => {
            let operator = Operator::ReverseSubsequences { axis: moved(time)? };
            (
                operator,
                [InOut::In(0), InOut::In(1), InOut::Out(0)].as_slice(),
            )
        }
    };
    let substitute = ReverseSubsequences {
        operator,
        ..op.clone()
    };
    Some(AxisChangeConsequence {
        substitute_op: Some(Box::new(substitute)),
        wire_changes: with_data.iter().map(|io| (*io, change.clone())).collect(),
    })
}
