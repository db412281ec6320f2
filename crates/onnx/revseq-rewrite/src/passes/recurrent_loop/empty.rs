//! Keeps layers that get nothing from ending the process of ONNX Runtime, as its LSTM and GRU do up to
//! version 1.32: they are an error.

use crate::emit::{Emit, SHAPE_IN_PART};
use crate::model::int;
use crate::passes::cells::{Cell, CellKind};
use crate::report::REFUSES_EMPTY;
use crate::sizes::Size;

use super::form::Form;
use super::layer::Layers;

impl Layers<'_> {
    /// What the report says if a layer refuses an empty input.
    pub(crate) fn says_empty(&self, form: Form<'_>) -> &'static str {
        let refusing = (0..self.layers.len()).filter(|&index| self.refuses_empty(index, form));
        let kinds: Vec<CellKind> = refusing.map(|index| self.layers[index].cell.kind).collect();
        match kinds.iter().all(|kind| *kind == CellKind::Lstm) {
            _ if kinds.is_empty() => "",
            true => REFUSES_EMPTY[0],
            false => REFUSES_EMPTY[1],
        }
    }

    /// Whether a layer refuses an empty input, with which ONNX Runtime would end the process: LSTM and GRU
    /// of no sequences, and GRU of no steps.
    pub(super) fn refuses_empty(&self, index: usize, form: Form<'_>) -> bool {
        let layer = &self.layers[index];
        let is_known = |size: Option<Size<'_>>| matches!(size, Some(Size::Known(1..)));
        let is_of_batch = self.is_of_batch(index) && is_known(self.batch);
        let may_be_empty = match layer.cell.kind {
            CellKind::Rnn => false,
            CellKind::Lstm => !is_of_batch,
            CellKind::Gru { .. } => !is_of_batch || !is_known(self.length),
        };
        matches!(form, Form::Lengths { needs_batch: true }) && may_be_empty
    }
}

/// The number of sequences that a layer reads, as a vector of one element. A Reshape that copies the sizes
/// which must not be 0 fails if one is: no size is right for -1 then.
pub(super) fn batch_of(emit: &Emit<'_>, input: &str, cell: &Cell<'_>) -> String {
    let shape = match cell.kind {
        CellKind::Gru { .. } => [0, 0, -1],
        _ => [-1, 0, cell.features() as i64],
    };
    let sized = emit.name("not_empty:0");
    emit.write_of(("", "not_empty"), &[&sized], "Reshape", (input, shape), []);
    match emit.opset() >= SHAPE_IN_PART {
        // It saves a Slice, which takes as long as the Reshape.
        true => emit.with("Shape", &sized, [int("start", 1), int("end", 2)]),
        false => emit.sizes(&sized, 1, 2),
    }
}
