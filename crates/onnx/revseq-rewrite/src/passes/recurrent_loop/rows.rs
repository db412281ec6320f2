//! Rows of states and of masks beside an input of one sequence.
//!
//! A loop broadcasts such an input to them, and its output has as many rows. A layer does not: where they
//! are not provably those of the input, or one, its input is broadcast before it.

use crate::emit::Emit;
use crate::scope::Scope;
use crate::sizes::{self, Size};

/// The rows of a value to which a loop broadcasts an input of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BroadcastRows<'a> {
    value: &'a str,
    axis: usize,
    /// Their number, if it is the same in every run.
    count: Option<i64>,
}

impl<'a> BroadcastRows<'a> {
    /// The rows of a value along an axis; `None` if there provably is one for each sequence, or one for
    /// all.
    pub(crate) fn beside(
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

/// A sequence, once it is broadcast to some rows.
pub(super) fn broadcast(
    emit: &Emit<'_>,
    value: &str,
    time: usize,
    rows: &[BroadcastRows<'_>],
) -> String {
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
