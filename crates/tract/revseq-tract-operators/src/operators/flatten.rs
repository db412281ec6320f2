//! Flatten of a value without elements, in which tract takes a size of 0 for one that is copied.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::operator::{Parsed, Wiring, over_parsed, over_tract};

/// Parses a Flatten.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let axis: i64 = node.get_attr_opt("axis")?.unwrap_or(1);
    let of_nothing = move |node: &mut Wiring<'_>| {
        let shape = &node.input(0)?.shape;
        rule_if!(shape.contains(&0.to_dim()));
        let (shape, rank) = (shape.to_tvec(), shape.rank() as i64);
        let axis = if axis < 0 { axis + rank } else { axis };
        ensure!(
            (0..=rank).contains(&axis),
            "its axis is {axis}, expected -{rank} to {rank}"
        );
        let (front, back) = shape.split_at(axis as usize);
        let flat = [front, back].map(|sizes| sizes.iter().product::<TDim>());
        node.whole(AxisOp::Reshape(
            0,
            shape.clone(),
            flat.into_iter().collect(),
        ))
    };
    over_parsed(over_tract(ctx, node, OrNothing), of_nothing)
}
