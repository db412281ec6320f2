//! How a plan's columns are cut into tiles.

use std::ops::Range;

use super::scratch::CAPACITY;
use crate::Plan;
use crate::cpu::memory::LINE;
use crate::cpu::simd::LANE;

/// The widest tile, in bytes.
///
/// Each row of a tile lies in a page of its own, so narrow tiles wait for address translations;
/// wider ones than this gain nothing. [M31]
pub(super) const WIDEST_TILE: usize = 512;

/// How a plan's columns are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// The bytes of a tile's rows.
    pub(crate) bytes: usize,
    /// Those of the first tile's, from which on the others start.
    first: usize,
    /// The elements that a row is made of, in bytes: 1, 2, 4, 8 or 16.
    pub(crate) element: usize,
    /// The bytes from a column to the next in the scratch memory, or 0 if there
    /// are so many time steps that it does not hold a lane of them.
    pub(super) pitch: usize,
}

impl Tiling {
    /// The tiles of a plan with packed columns, whose output is at `output`;
    /// `None` if it has none.
    pub(crate) fn new(plan: &Plan, output: *const u8) -> Option<Self> {
        let (columns, outer) = plan.loops.split_last()?;
        let row = plan.row_bytes;
        let packed = (columns.input, columns.output) == (row, row) && columns.lengths != 0;
        if !packed || row >= LINE || plan.time.size <= 1 {
            return None;
        }
        let element = 1 << row.trailing_zeros().min(LANE.ilog2());
        // Whole blocks of time steps, and an odd number of lines, so that
        // neighbouring columns do not meet in one set of the cache.
        let steps = plan.time.size.next_multiple_of(LANE / element);
        let pitch = ((steps * element).div_ceil(LINE) | 1) * LINE;
        let most = (columns.size * row).next_multiple_of(LINE).min(WIDEST_TILE);
        let held = CAPACITY / pitch * element;
        let (bytes, pitch) = match held {
            LINE.. => (most.min(held / LINE * LINE), pitch),
            LANE.. => (most.min(held / LANE * LANE), pitch),
            _ => (LINE, 0),
        };
        // The first tile ends where a cache line of the output does, if that is one place in all
        // rows: non-temporal stores write whole lines. [M36]
        let before = LINE - output.addr() % LINE;
        let rows = outer.iter().chain([&plan.time]);
        let places = rows.fold(bytes, |all, row| all | row.output);
        let ends_lines = places.is_multiple_of(LINE) && before.is_multiple_of(element);
        let first = match ends_lines && before < LINE {
            true => before,
            false => bytes,
        };
        Some(Self {
            bytes,
            first,
            element,
            pitch,
        })
    }

    /// How many tiles there are in all columns of a plan.
    pub(crate) fn tiles(self, plan: &Plan) -> usize {
        let columns = plan.loops.last().map_or(1, |columns| columns.size);
        let rest = (columns * plan.row_bytes).saturating_sub(self.first);
        1 + rest.div_ceil(self.bytes)
    }

    /// Where in the rows of all columns a tile lies, if they are so many bytes.
    #[inline(always)]
    pub(super) fn tile(self, index: usize, bytes: usize) -> Range<usize> {
        let start = match index {
            0 => 0,
            _ => self.first + (index - 1) * self.bytes,
        };
        start..bytes.min(self.first + index * self.bytes)
    }
}
