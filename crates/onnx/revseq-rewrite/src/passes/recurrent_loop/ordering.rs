//! Moves the valid steps to the front.
//!
//! A layer that skips invalid steps equals the layer over the valid ones. The output at a step is
//! found by the number of valid steps up to it.

use crate::emit::Emit;
use crate::model::{INT32, TensorProto, int};

/// A constant int32 scalar.
pub(super) fn int32(emit: &Emit<'_>, value: i32) -> String {
    emit.tensor(TensorProto {
        data_type: Some(INT32),
        raw_data: Some(value.to_le_bytes().to_vec()),
        ..TensorProto::default()
    })
}

/// The places of the valid steps under a mask, as int32.
pub(super) struct Ordering {
    /// The mask, `[time, batch]`.
    mask: String,
    /// The number of valid steps before each step, and up to it.
    before: String,
    up_to: String,
    /// The number of valid steps, `[batch]`.
    pub(super) count: String,
    /// The original step at each place.
    order: String,
    /// The number of sequences, `[time, 1]`, and the index of each, `[time, batch]`.
    batch: String,
    rows: String,
}

impl Ordering {
    /// Writes the order for a mask `[time, batch, 1]`.
    pub(super) fn write(emit: &Emit<'_>, mask: &str) -> Self {
        let mask = emit.squeeze(mask, &[2]);
        let numbers = emit.cast(&mask, INT32);
        let (zero, one) = (int32(emit, 0), int32(emit, 1));
        let up_to = emit.op("CumSum", (&numbers, &zero));
        let before = emit.op("Sub", (&up_to, &numbers));
        let count = emit.sum(&numbers, &[0]);
        // Steps and sequences are counted instead of read from the mask's shape, which has another
        // type in tract.
        let nothing = emit.op("Mul", (&numbers, &zero));
        let ones = emit.op("Add", (nothing, &one));
        let [times, rows] =
            [&zero, &one].map(|axis| emit.op("Sub", (emit.op("CumSum", (&ones, axis)), &ones)));
        let batch = emit.unsqueeze(&emit.sum(&ones, &[1]), &[1]);
        // Invalid steps follow in their order.
        let others = emit.op("Sub", (&times, &before));
        let behind = emit.op("Add", (&count, others));
        let place = emit.op("Where", (&mask, &before, behind));
        let order = emit.with("ScatterElements", (numbers, place, times), [int("axis", 0)]);
        Self {
            mask,
            before,
            up_to,
            count,
            order,
            batch,
            rows,
        }
    }

    /// Writes a sequence `[time, batch, features]` with the valid steps in front.
    pub(super) fn ordered(&self, emit: &Emit<'_>, value: &str, features: usize) -> String {
        self.at(emit, value, &self.order, features)
    }

    /// Gathers rows of a sequence by a step index for each step.
    fn at(&self, emit: &Emit<'_>, value: &str, step: &str, features: usize) -> String {
        let start = emit.op("Mul", (step, &self.batch));
        let row = emit.op("Add", (start, &self.rows));
        let matrix = emit.op("Reshape", (value, [-1, features as i64]));
        emit.gather(&matrix, row, 0)
    }

    /// Writes the output at each step of a layer over the ordered sequence: at invalid steps, the
    /// output of the last valid step in the layer's direction, or `first` before any.
    pub(super) fn repeated(
        &self,
        emit: &Emit<'_>,
        value: &str,
        units: usize,
        backwards: bool,
        first: &str,
    ) -> String {
        let (zero, one) = (int32(emit, 0), int32(emit, 1));
        // Backwards, the last valid step is the next one in time.
        let (any, last) = if backwards {
            let any = emit.op("Less", (&self.before, &self.count));
            (any, self.before.clone())
        } else {
            let any = emit.op("Greater", (&self.up_to, &zero));
            (any, emit.op("Sub", (&self.up_to, one)))
        };
        let at = emit.op("Where", (&any, last, zero));
        self.chosen(emit, value, units, [&any, &at, first])
    }

    /// The same with 0 at invalid steps.
    pub(super) fn zeroed(&self, emit: &Emit<'_>, value: &str, units: usize, zero: &str) -> String {
        let at = emit.op("Where", (&self.mask, &self.before, int32(emit, 0)));
        self.chosen(emit, value, units, [&self.mask, &at, zero])
    }

    fn chosen(
        &self,
        emit: &Emit<'_>,
        value: &str,
        units: usize,
        [any, at, otherwise]: [&str; 3],
    ) -> String {
        let read = self.at(emit, value, at, units);
        emit.op("Where", (emit.unsqueeze(any, &[2]), read, otherwise))
    }
}
