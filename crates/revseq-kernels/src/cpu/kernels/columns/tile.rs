//! A tile, and what moves of it without being transposed.

use std::ops::Range;

use super::tiling::{Tiling, WIDEST_TILE};
use crate::Plan;
use crate::cpu::loop_nest::Position;
use crate::cpu::loop_nest::job::{Job, source};
use crate::cpu::memory::LINE;
use crate::cpu::memory::direction::{Forward, copy_inline};
use crate::cpu::memory::non_temporal::stream_line;
use crate::cpu::memory::prefetch::prefetch_l2;
use crate::cpu::memory::width::{Element, Width};
use crate::cpu::simd::{SimdTask, Vector};

/// How far ahead of the rows that are moved the next are prefetched, in bytes:
/// into the second level of the cache, as rows a power of two apart meet in so
/// few sets of the first that they drive out each other before they are read.
const AHEAD: usize = 4 << 10;

/// A tile: all time steps of some columns.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pitch: usize,
    /// Where it starts in the input, and in the output.
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    /// The bytes of the tile's rows.
    pub(super) bytes: usize,
    /// The lengths of its columns of elements.
    pub(super) lengths: &'a [usize],
}

impl<'a> Tile<'a> {
    /// That of an index on a line of tiles, with room for the lengths of the widest.
    pub(super) fn new(
        job: &Job<'a>,
        tiling: Tiling,
        at: Position,
        index: usize,
        lengths: &'a mut [usize; WIDEST_TILE],
    ) -> Self {
        let plan = job.plan;
        let (columns, row) = (plan.loops[plan.loops.len() - 1], plan.row_bytes);
        let Range { start, end } = tiling.tile(index, columns.size * row);
        let (first, last) = (start / row, end.div_ceil(row));
        let place = at.lengths + first * columns.lengths;
        let of_rows = &mut lengths[..last - first];
        job.lengths.read(place, columns.lengths, of_rows);
        let elements = (end - start) / tiling.element;
        if row > tiling.element {
            // From the last on, as no element comes before its row.
            for index in (0..last - first).rev() {
                let of_row = (first + index) * row..(first + index + 1) * row;
                let in_tile = of_row.start.max(start) - start..of_row.end.min(end) - start;
                let (element, length) = (tiling.element, lengths[index]);
                lengths[in_tile.start / element..in_tile.end / element].fill(length);
            }
        }
        Self {
            plan,
            pitch: tiling.pitch,
            from: job.input.wrapping_add(at.input + start),
            to: job.output.wrapping_add(at.output + start),
            bytes: end - start,
            lengths: &lengths[..elements],
        }
    }

    /// Copies element by element, with a cache line for each column at hand.
    ///
    /// # Safety
    /// The tile is readable and writable and at most a cache line wide, and the
    /// two places do not overlap.
    pub(super) unsafe fn copy<const W: usize>(&self) {
        let time = self.plan.time;
        for t in 0..time.size {
            for (element, &length) in self.lengths.iter().enumerate() {
                // SAFETY: the element lies in the tile at both time steps, which are less than the
                // axis size.
                unsafe {
                    let from = self.from.add(source(length, t) * time.input + element * W);
                    Element::<W>.copy(from, self.to.add(t * time.output + element * W));
                }
            }
        }
    }

    /// Exchanges element by element.
    ///
    /// # Safety
    /// The tile is readable and writable and at most a cache line wide; no length
    /// is more than `longest`.
    pub(super) unsafe fn swap<const W: usize>(&self, longest: usize) {
        let pitch = self.plan.time.output;
        for t in 0..longest / 2 {
            for (element, &length) in self.lengths.iter().enumerate() {
                if t < length / 2 {
                    // SAFETY: both time steps of the pair lie in the tile, and differ.
                    unsafe {
                        let data = self.to.add(element * W);
                        let mirror = data.add((length - 1 - t) * pitch);
                        Element::<W>.swap(data.add(t * pitch), mirror);
                    }
                }
            }
        }
    }

    /// Whether every row starts a cache line of the output.
    #[inline(always)]
    pub(super) fn starts_lines(&self) -> bool {
        (self.to.addr() | self.plan.time.output).is_multiple_of(LINE)
    }

    /// How many rows ahead of those from `t` on the next are prefetched, of `steps`.
    #[inline(always)]
    pub(super) fn ahead<const R: usize>(&self, t: usize, steps: usize) -> usize {
        let ahead = (AHEAD / self.bytes).max(R);
        if t + R + ahead <= steps { ahead } else { 0 }
    }
}

/// Copies the rows of a tile from `first` on, which no length reaches.
pub(super) struct CopyTail<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) first: usize,
    pub(super) streams: bool,
}

impl SimdTask for CopyTail<'_> {
    /// # Safety
    /// The two places do not overlap.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Tile { plan, from, to, .. } = self.tile;
        let (time, tile) = (plan.time, self.tile);
        let streams = self.streams && tile.starts_lines();
        for t in self.first..time.size {
            let ahead = tile.ahead::<1>(t, time.size) * time.input;
            // SAFETY: every row of the tile is readable and writable for its bytes.
            unsafe {
                let (from, to) = (from.add(t * time.input), to.add(t * time.output));
                let mut at = 0;
                while streams && at + LINE <= tile.bytes {
                    prefetch_l2(from.wrapping_add(ahead + at));
                    stream_line::<V>(from.add(at), to.add(at));
                    at += LINE;
                }
                copy_inline::<V, Forward>(from.add(at), to.add(at), tile.bytes - at);
            }
        }
    }
}
