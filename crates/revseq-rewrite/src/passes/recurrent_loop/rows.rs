//! Rows of states and of masks beside an input of one sequence.
//!
//! A loop broadcasts such an input to them, and its output has as many rows. A layer does not: where they
//! are not provably those of the input, or one, its input is broadcast before it.

use crate::emit::Emit;
use crate::scope::Scope;
use crate::sizes::{self, Size};

use super::body::Body;
use super::layer::{Input, Layer, Layers, Steps, Update};
use super::shape::may_begin;

/// The rows of a value to which a loop broadcasts an input of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::passes) struct Rows<'a> {
    value: &'a str,
    axis: usize,
    /// Their number, if it is the same in every run.
    count: Option<i64>,
}

impl<'a> Rows<'a> {
    /// The rows of a value along an axis; `None` if there provably is one for each sequence, or one for
    /// all.
    pub(in crate::passes) fn beside(
        scope: &Scope<'_>,
        value: &'a str,
        axis: usize,
        batch: Size<'_>,
    ) -> Option<Self> {
        let size = sizes::axis(scope, value, axis);
        let fits = size.is_some_and(|size| size == batch || size == Size::Known(1));
        let count = size.and_then(Size::number);
        (!fits).then_some(Self { value, axis, count })
    }
}

impl<'a> Layers<'a> {
    /// Whether all layers and their mask have a row for each sequence of the batch, and no others.
    pub(super) fn are_of_batch(&self) -> bool {
        let is_of_batch = match self.steps {
            Some(Steps::Mask(mask)) => mask.is_of_batch && mask.is_of_steps,
            _ => true,
        };
        is_of_batch && self.layers.iter().all(|layer| layer.rows.is_empty())
    }

    /// Whether a layer has a row for each sequence of the batch, and no others.
    pub(super) fn is_of_batch(&self, index: usize) -> bool {
        let layer = &self.layers[index];
        layer.rows.is_empty()
            && match layer.input {
                Input::Sequence { .. } => true,
                Input::Layer(before) => self.is_of_batch(before),
            }
    }

    /// Proves that the initial value of a layer's state, or of a repeated output, is one row of
    /// units for each sequence or for all. An input of one sequence may be broadcast to a state.
    pub(super) fn begins(
        &mut self,
        body: &Body<'a>,
        updates: &[Update<'a>],
        update: &Update<'a>,
        batch: Size<'a>,
    ) -> Result<(), String> {
        let Update { state, counts, .. } = update;
        let is_state = |layer: &Layer<'_>| {
            layer.cell.hidden == state.carried
                || layer.cell.memory.is_some_and(|(it, _)| it == state.carried)
        };
        let is_own = |layer: &Layer<'_>| {
            is_state(layer) || layer.cell.output == update.new && counts.is_some()
        };
        let Some(place) = self.layers.iter().position(is_own) else {
            return Ok(());
        };
        let is_alone = self.layers.len() == 1;
        let layer = &mut self.layers[place];
        let rows = Rows::beside(body.outer, state.initial, 0, batch);
        let is_broadcast = match is_state(layer) {
            // With a mask, all layers have the same rows.
            true => is_alone || counts.is_none(),
            // A repeated output, which has no more rows than the state.
            false => updates.iter().any(|it| {
                let rows = |update: &Update<'_>| sizes::axis(body.outer, update.state.initial, 0);
                it.state.carried == layer.cell.hidden
                    && rows(it).is_some()
                    && rows(it) == rows(update)
            }),
        };
        if !may_begin(body.outer, state.initial, batch, layer.cell.units())
            || rows.is_some() && !is_broadcast
        {
            return Err(format!(
                "its state {} does not provably begin with a row of units for each sequence",
                state.initial
            ));
        }
        layer.rows.extend(rows.filter(|_| is_state(layer)));
        Ok(())
    }

    /// Lets the loop broadcast its inputs to the rows of a mask, or of lengths.
    pub(super) fn broadcast(
        &mut self,
        body: &Body<'a>,
        value: &'a str,
        axis: usize,
        batch: Size<'a>,
    ) {
        // The states of a Scan keep their rows.
        if body.is_scan() {
            return;
        }
        let rows = Rows::beside(body.outer, value, axis, batch);
        for layer in &mut self.layers {
            if matches!(layer.input, Input::Sequence { .. }) {
                layer.rows.extend(rows);
            }
        }
    }
}

/// A sequence, once it is broadcast to some rows.
pub(super) fn broadcast(emit: &Emit<'_>, value: &str, time: usize, rows: &[Rows<'_>]) -> String {
    rows.iter().fold(value.to_owned(), |value, rows| {
        let mut sizes = [1; 3];
        let place = 1 - time;
        if let Some(count) = rows.count {
            sizes[place] = count;
            return emit.op("Expand", (value, sizes));
        }
        let count = emit.sizes(rows.value, rows.axis as i64, rows.axis as i64 + 1);
        let sizes = match place {
            0 => emit.concat((count, [1, 1]), 0),
            _ => emit.concat(([1], count, [1]), 0),
        };
        emit.op("Expand", (value, sizes))
    })
}
