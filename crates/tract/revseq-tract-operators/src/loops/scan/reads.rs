//! Values around a loop of which its body reads one element at each step.
//!
//! The index of such a read is known for each step (`induction.rs`), or counts the steps of a
//! symbolic loop. Elements in order, forwards or backwards, are scanned as they lie; any other
//! order is gathered once, before the loop.
//!
//! ```text
//! positions 2, 3, 4  →  x[2:5], forwards;  4, 3, 2  →  x[2:5], backwards;  0, 2, 4  →  Gather(x)
//! ```

use tract_onnx::tract_core::ops::array::{Gather, Slice};
use tract_onnx::tract_core::ops::scan::{InputMapping, ScanInfo};
use tract_onnx::tract_hir::internal::*;

use crate::dims::scalar;
use crate::loops::spec::{Feed, Spec};
use crate::loops::trips;

/// A Gather in the body from an outer value.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromOuter {
    /// The op's input that is read.
    pub(super) input: usize,
    pub(super) axis: usize,
    pub(super) index: OutletId,
}

/// The Gathers that read one element along an axis of an outer value.
pub(super) fn gathers(spec: &Spec) -> HashMap<usize, FromOuter> {
    let body = &spec.body;
    let gathers = body.nodes().iter().filter_map(|node| {
        let gather = node.op_as::<Gather>()?;
        let source = body.inputs.iter().position(|it| *it == node.inputs[0])?;
        let Feed::Outer(input) = spec.feeds[source] else {
            return None;
        };
        let index = node.inputs[1];
        let is_one = body.outlet_fact(index).ok()?.rank() == 0;
        (is_one && gather.output_type.is_none()).then_some((
            node.id,
            FromOuter {
                input,
                axis: gather.axis,
                index,
            },
        ))
    });
    gathers.collect()
}

/// The positions of a Gather at each step.
#[derive(Clone, Debug)]
pub(super) enum Positions {
    At(Vec<i64>),
    /// The whole axis in order.
    All,
}

/// The positions of a Gather whose index counts the steps, if these span the axis.
pub(super) fn all_positions(
    spec: &Spec,
    gather: &FromOuter,
    inputs: &[TypedFact],
    steps: &TDim,
) -> Option<Positions> {
    let size = &inputs[gather.input].shape[gather.axis];
    let is_all = trips::offset(spec, inputs, gather.index) == Some(0) && size == steps;
    is_all.then_some(Positions::All)
}

/// The positions of a Gather, if all are within the axis.
pub(super) fn positions(
    values: &[TValue],
    gather: &FromOuter,
    inputs: &[TypedFact],
) -> Option<Positions> {
    let size = inputs[gather.input].shape[gather.axis].to_i64().ok()?;
    let position = |value: &TValue| {
        let index = scalar::<i64>(value).ok()?;
        let index = if index < 0 { index + size } else { index };
        (0..size).contains(&index).then_some(index)
    };
    let positions: Option<Vec<i64>> = values.iter().map(position).collect();
    positions.map(Positions::At)
}

/// Wires the elements at these positions along an axis as a scan input. There is at least one: a
/// loop without steps is no Scan.
pub(super) fn wire_positions(
    target: &mut TypedModel,
    name: &str,
    data: OutletId,
    axis: usize,
    positions: &[i64],
) -> TractResult<(OutletId, InputMapping)> {
    let first = positions[0];
    let last = positions[positions.len() - 1];
    let along = |by: i64| positions.windows(2).all(|pair| pair[1] - pair[0] == by);
    let (data, chunk) = if along(1) || along(-1) {
        let (start, end) = (first.min(last), first.max(last) + 1);
        let size = target.outlet_fact(data)?.shape[axis].clone();
        let data = if start == 0 && end.to_dim() == size {
            data
        } else {
            let name = target.unique_name(format!("{name}.slice")).into_owned();
            target.wire_node(name, Slice::new(axis, start, end), &[data])?[0]
        };
        (data, if along(1) { 1 } else { -1 })
    } else {
        let indices = target.unique_name(format!("{name}.indices")).into_owned();
        let indices = target.add_const(indices, tensor1(positions))?;
        let name = target.unique_name(format!("{name}.gather")).into_owned();
        let data = target.wire_node(name, Gather::new(axis), &[data, indices])?[0];
        (data, 1)
    };
    Ok((data, InputMapping::Scan(ScanInfo { axis, chunk })))
}
