//! The lengths of the axes of a node's outputs.

use super::reshape::reshape_axis;
use super::window::window_axis;
use super::{
    Size, axis_of_input, branches, broadcast_axis, einsum, expand_axis, kept_axis, loops, matmul,
    reduced, shape_range, slice_axis,
};
use crate::constant;
use crate::model::NodeProto;
use crate::operators::{Sizes, sizes_of};
use crate::scope::Scope;
use crate::sizes;

pub(super) fn node_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    output: usize,
    axis: usize,
) -> Option<Size<'a>> {
    let of_input = |axis: usize| sizes::axis(scope, node.input(0)?, axis);
    let rank = |index: usize| sizes::rank(scope, node.input(index)?);
    match (node.domain(), node.op(), output) {
        ("revseq", "ReverseSubsequences", 0) => of_input(axis),
        // Y is [time, directions, batch, units], the states are [directions, batch, units].
        ("", "LSTM" | "GRU" | "RNN", _)
        | ("revseq", "MaskedLSTM" | "MaskedGRU" | "MaskedRNN", _)
            if node.int("layout").or(0) == Some(0) =>
        {
            match axis + usize::from(output != 0) {
                0 => of_input(0),
                1 if node.text("direction").or("forward")? == "bidirectional" => {
                    Some(Size::Known(2))
                }
                1 => Some(Size::Known(1)),
                2 => of_input(1),
                _ => node.int("hidden_size").value().map(Size::Known),
            }
        }
        ("", "TopK", _) => {
            let chosen = constant::normal_axis(node.int("axis").or(-1)?, rank(0)?)?;
            match axis == chosen {
                true => sizes::scalar(scope, node.input(1)?),
                false => of_input(axis),
            }
        }
        ("", "Loop", output) => loops::axis_of_output(scope, node, output, axis),
        ("", "If", output) => branches::axis_of_output(scope, node, output, axis),
        ("", "Split", _) => {
            let split = constant::normal_axis(node.int("axis").or(0)?, rank(0)?)?;
            let size = of_input(axis)?;
            if axis != split {
                return Some(size);
            }
            let size = usize::try_from(size.number()?).ok()?;
            let (_, length) = constant::split_part(scope, node, output, size)?;
            Some(Size::Known(length as i64))
        }
        ("", _, 0) => first_output_axis(scope, node, axis),
        _ => None,
    }
}

/// The length of an axis of the first output of one of ONNX's own operators.
fn first_output_axis<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    axis: usize,
) -> Option<Size<'a>> {
    let of_input = |axis: usize| sizes::axis(scope, node.input(0)?, axis);
    let rank = |index: usize| sizes::rank(scope, node.input(index)?);
    match node.op() {
        "Constant" => Some(Size::Known(*constant::constant_sizes(node)?.get(axis)?)),
        "Unsqueeze" if sizes::unsqueezed(scope, node)?.0.contains(&axis) => Some(Size::Known(1)),
        "Squeeze" | "Transpose" | "Unsqueeze" => of_input(axis_of_input(scope, node, axis)?),
        "Slice" => slice_axis(scope, node, axis),
        "Shape" => {
            let (start, end) = shape_range(scope, node)?;
            (axis == 0).then_some(Size::Known((end - start).max(0)))
        }
        "ConstantOfShape" => sizes::element_at(scope, node.input(0)?, &[axis]),
        "Range" if axis == 0 => {
            let is = |input, number| Some(constant::int(scope, node.input(input)?)? == number);
            // A range from 0 by 1, empty up to a negative number.
            match sizes::scalar(scope, node.input(1)?)? {
                _ if !is(0, 0)? || !is(2, 1)? => None,
                Size::Known(end) => Some(Size::Known(end.max(0))),
                end => Some(end),
            }
        }
        "Reshape" => reshape_axis(scope, node, axis),
        "Expand" => expand_axis(scope, node, axis),
        "MatMul" => matmul::axis_of(scope, node, axis),
        "Gemm" => matmul::axis_of_gemm(scope, node, axis),
        "Einsum" => einsum::axis_of(scope, node, axis),
        "GatherElements" => sizes::axis(scope, node.input(1)?, axis),
        "ArgMax" | "ArgMin" => {
            let reduced = constant::normal_axis(node.int("axis").or(0)?, rank(0)?)?;
            if node.int("keepdims").or(1)? == 0 {
                of_input(axis + usize::from(axis >= reduced))
            } else if axis == reduced {
                Some(Size::Known(1))
            } else {
                of_input(axis)
            }
        }
        "Concat" => {
            let joined = constant::normal_axis(node.int("axis").value()?, rank(0)?)?;
            if axis != joined {
                return of_input(axis);
            }
            let mut parts = node.inputs();
            let total = parts.try_fold(0_i64, |total, part| {
                total.checked_add(sizes::axis(scope, part, axis)?.number()?)
            });
            total.map(Size::Known)
        }
        "Gather" => {
            let gathered = constant::normal_axis(node.int("axis").or(0)?, rank(0)?)?;
            let indices = rank(1)?;
            match axis.checked_sub(gathered) {
                None => of_input(axis),
                Some(place) if place < indices => sizes::axis(scope, node.input(1)?, place),
                Some(place) => of_input(gathered + place - indices + 1),
            }
        }
        op => match sizes_of(op) {
            Sizes::Elementwise | Sizes::OfInput => of_input(axis),
            Sizes::Windowed => window_axis(scope, node, axis),
            Sizes::Broadcast => broadcast_axis(scope, node, axis),
            Sizes::Reduced => {
                let reduced = reduced(scope, node)?;
                if node.int("keepdims").or(1)? == 0 {
                    of_input(kept_axis(rank(0)?, &reduced, axis)?)
                } else if reduced.contains(&axis) {
                    Some(Size::Known(1))
                } else {
                    of_input(axis)
                }
            }
            Sizes::RankOfInput | Sizes::Other => None,
        },
    }
}
