//! Walking the lines of a plan, out of place and in place.

use std::ops::Range;

use super::nest::{Nest, Position};
use super::row::{Bytes, Element, Row};
use super::threads::Threads;
use crate::{Plan, SequenceLengths};

/// Runs `$body` with `$row` bound to the row that moves `$bytes` bytes fastest.
macro_rules! with_row {
    ($bytes:expr, $row:ident => $body:expr) => {
        match $bytes {
            1 => {
                let $row = Element::<1>;
                $body
            }
            2 => {
                let $row = Element::<2>;
                $body
            }
            4 => {
                let $row = Element::<4>;
                $body
            }
            8 => {
                let $row = Element::<8>;
                $body
            }
            16 => {
                let $row = Element::<16>;
                $body
            }
            bytes => {
                let $row = Bytes(bytes);
                $body
            }
        }
    };
}

/// A buffer that several threads work on, each on bytes of its own.
#[derive(Clone, Copy)]
struct Shared<P>(P);

// SAFETY: threads get disjoint ranges of items, and distinct items write
// distinct bytes and read none that another writes (see the two walks).
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Shared<P> {}

impl<P: Copy> Shared<P> {
    fn get(&self) -> P {
        self.0
    }
}

/// Moves every row from its place in `input` to its place in `output`.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its
/// `output_bytes`, and they do not overlap.
pub(super) unsafe fn out_of_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
    threads: Threads<'_>,
) {
    if plan.empty {
        return;
    }
    let nest = Nest::new(plan, plan.time.size);
    let (input, output) = (Shared(input), Shared(output));
    threads.for_each_piece(nest.items(), plan.row_bytes, |items| {
        let (input, output) = (input.get(), output.get());
        with_row!(plan.row_bytes, row => {
            // SAFETY: the caller's. One item writes one row, and the plan's
            // output has no two rows that share a byte, so pieces are disjoint.
            unsafe { copy_items(plan, &nest, lengths, row, input, output, items) }
        });
    });
}

/// # Safety
/// As [`out_of_place`]; `items` are items of the nest.
#[inline(always)]
unsafe fn copy_items<R: Row>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    row: R,
    input: *const u8,
    output: *mut u8,
    items: Range<usize>,
) {
    let (time, line) = (plan.time, nest.line());
    // The time step that step `t` of a subsequence of this length reads.
    let source = |length: usize, t: usize| if t < length { length - 1 - t } else { t };
    if !nest.along_time {
        nest.for_each_line(items, |at, steps| {
            for step in steps {
                let length = lengths.get(at.lengths + step * line.lengths);
                let from = at.input + step * line.input + source(length, at.time) * time.input;
                let to = at.output + step * line.output + at.time * time.output;
                // SAFETY: every offset is a sum of coordinates times strides, so inside
                // the extents that the plan computed from the same sizes and strides;
                // `source` is less than the axis size as `length` is at most that.
                unsafe { row.copy(input.add(from), output.add(to)) };
            }
        });
        return;
    }
    let packed = (time.input, time.output) == (row.bytes(), row.bytes());
    nest.for_each_line(items, |at, steps| {
        let length = lengths.get(at.lengths).min(time.size);
        let reversed = steps.start.min(length)..steps.end.min(length);
        let kept = steps.start.max(length)..steps.end.max(length);
        // SAFETY: as above. Packed rows from one time step to another are one run of bytes.
        unsafe {
            let (input, output) = (input.add(at.input), output.add(at.output));
            if packed {
                row.copy_reversed(
                    input.add((length - reversed.end) * row.bytes()),
                    output.add(reversed.start * row.bytes()),
                    reversed.len(),
                );
                std::ptr::copy_nonoverlapping(
                    input.add(kept.start * row.bytes()),
                    output.add(kept.start * row.bytes()),
                    kept.len() * row.bytes(),
                );
            } else {
                for t in reversed.chain(kept) {
                    let from = source(length, t) * time.input;
                    row.copy(input.add(from), output.add(t * time.output));
                }
            }
        }
    });
}

/// Exchanges every row of a reversed prefix with its mirror image.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout.
pub(super) unsafe fn in_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    threads: Threads<'_>,
) {
    let nest = pairs(plan, lengths);
    let data = Shared(data);
    threads.for_each_piece(nest.items(), 2 * plan.row_bytes, |items| {
        let data = data.get();
        with_row!(plan.row_bytes, row => {
            // SAFETY: the caller's. One item swaps two rows that no other item
            // touches: it is the only pair of its subsequence with that first step.
            unsafe { swap_items(plan, &nest, lengths, row, data, items) }
        });
    });
}

/// The nest whose time steps are the first steps of pairs that may have to swap.
pub(super) fn pairs(plan: &Plan, lengths: &SequenceLengths<'_>) -> Nest {
    let mut longest = 0;
    if !plan.empty && plan.time.size > 1 {
        plan.for_each_length(|index| longest = longest.max(lengths.get(index)));
    }
    Nest::new(plan, longest / 2)
}

/// Calls `swap` with the output offsets of all pairs of rows among `items`.
#[inline(always)]
pub(super) fn for_each_pair(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    items: Range<usize>,
    mut swap: impl FnMut(usize, usize),
) {
    let (time, line) = (plan.time, nest.line());
    nest.for_each_line(items, |at: Position, steps| {
        if nest.along_time {
            let length = lengths.get(at.lengths);
            for t in steps.start..steps.end.min(length / 2) {
                swap(
                    at.output + t * time.output,
                    at.output + (length - 1 - t) * time.output,
                );
            }
        } else {
            for step in steps {
                let length = lengths.get(at.lengths + step * line.lengths);
                if at.time < length / 2 {
                    let column = at.output + step * line.output;
                    swap(
                        column + at.time * time.output,
                        column + (length - 1 - at.time) * time.output,
                    );
                }
            }
        }
    });
}

/// # Safety
/// As [`in_place`]; `items` are items of the nest.
#[inline(always)]
unsafe fn swap_items<R: Row>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    row: R,
    data: *mut u8,
    items: Range<usize>,
) {
    for_each_pair(plan, nest, lengths, items, |one, other| {
        // SAFETY: both time steps are less than the axis size and differ, so the
        // offsets are those of two rows inside the plan's output.
        unsafe { row.swap(data.add(one), data.add(other)) };
    });
}
