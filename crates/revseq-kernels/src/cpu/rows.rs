//! Rows of many bytes: each is copied or exchanged whole.

use std::ops::Range;

use super::ahead::Ahead;
use super::nest::Nest;
use super::sink::{LINE, Sink};
use super::vector::{Vector, prefetch};
use super::walk::{Bytes, Width};
use crate::{Plan, SequenceLengths};

/// Moves the rows of some items from their place in `input` to their place in the output.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, the sink writes to an
/// output of the plan's `output_bytes`, and they do not overlap. `items` are
/// items of the nest, which is the plan's with all its time steps.
#[inline(always)]
pub(super) unsafe fn copy_items<S: Sink>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    sink: &mut S,
    items: Range<usize>,
) {
    let bytes = plan.row_bytes;
    let mut queue = Ahead::of(bytes);
    // SAFETY: see `nest::Row`.
    unsafe {
        for (at, steps) in nest.lines(items) {
            for step in steps {
                let row = nest.row(lengths, at, step);
                let from = input.add(row.input + row.source() * plan.time.input);
                let to = row.output + row.time * plan.time.output;
                if !S::BEYOND_CACHES {
                    sink.seek(to);
                    sink.copy(from, bytes, from);
                } else if let Some((oldest, to)) = queue.push((from, to)) {
                    sink.seek(to);
                    sink.copy(oldest, bytes, from);
                }
            }
        }
        while let Some((from, to)) = queue.pop() {
            sink.seek(to);
            sink.copy(from, bytes, from);
        }
    }
}

/// Exchanges the rows of some pairs.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout. `items` are items of the nest, whose
/// time steps are the first ones of pairs.
#[inline(always)]
pub(super) unsafe fn swap_items<V: Vector>(
    plan: &Plan,
    nest: &Nest,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    items: Range<usize>,
) {
    let bytes = plan.row_bytes;
    let mut queue = Ahead::of(2 * bytes);
    // SAFETY: see `nest::Row`. The two time steps of a pair differ, so the rows
    // do not overlap.
    unsafe {
        for (at, steps) in nest.lines(items) {
            for step in steps {
                let row = nest.row(lengths, at, step);
                if row.time >= row.length / 2 {
                    continue;
                }
                let column = data.add(row.output);
                let pair = (
                    column.add(row.time * plan.time.output),
                    column.add(row.source() * plan.time.output),
                );
                if let Some(oldest) = queue.push(pair) {
                    swap::<V>(oldest, bytes, pair);
                }
            }
        }
        while let Some(pair) = queue.pop() {
            swap::<V>(pair, bytes, pair);
        }
    }
}

/// Exchanges two rows and asks for those of `ahead`.
///
/// # Safety
/// Both rows are readable and writable for `bytes`, and they do not overlap.
#[inline(always)]
unsafe fn swap<V: Vector>(
    (one, other): (*mut u8, *mut u8),
    bytes: usize,
    ahead: (*mut u8, *mut u8),
) {
    let mut at = 0;
    // SAFETY: every line and the rest end within `bytes`.
    unsafe {
        while at + LINE <= bytes {
            prefetch(ahead.0.wrapping_add(at));
            prefetch(ahead.1.wrapping_add(at));
            for part in (at..at + LINE).step_by(V::BYTES) {
                let (one, other) = (one.add(part), other.add(part));
                let (first, second) = (V::load(one), V::load(other));
                second.store(one);
                first.store(other);
            }
            at += LINE;
        }
        Bytes(bytes - at).swap(one.add(at), other.add(at));
    }
}
