//! The tiles that a plan's columns are cut into.

use std::ops::Range;

use super::scratch::CAPACITY;
use crate::Plan;
use crate::cpu::simd::LANE;
use crate::cpu::write::CACHE_LINE;

/// The widest tile, in bytes.
///
/// Each row of a tile lies in another page, so narrow tiles wait for address translations;
/// wider ones than this gain nothing. [M31]
pub(super) const WIDEST_TILE: usize = 512;

/// Cut of a plan's columns into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// The bytes of a tile's rows.
    pub(crate) bytes: usize,
    /// The bytes of the first tile's rows, at whose end the others start.
    first: usize,
    /// The elements that a row is made of, in bytes: 1, 2, 4, 8 or 16.
    pub(crate) element: usize,
    /// The bytes from a column to the next in the scratch memory.
    pub(super) pitch: usize,
}

impl Tiling {
    /// Whether a plan has columns that are packed and have lengths of their own, and the scratch
    /// memory holds a lane of them.
    pub(crate) fn takes(plan: &Plan) -> bool {
        let row = plan.row_bytes;
        let packed = plan.loops.last().is_some_and(|columns| {
            (columns.input, columns.output) == (row, row) && columns.lengths != 0
        });
        packed && row < CACHE_LINE && plan.time.size > 1 && held(plan) >= LANE
    }

    /// The tiles of a plan whose output is at `output`; `None` if it does not [take](Self::takes)
    /// it.
    pub(crate) fn new(plan: &Plan, output: *const u8) -> Option<Self> {
        let (columns, outer) = plan.loops.split_last().filter(|_| Self::takes(plan))?;
        let (element, pitch) = element_and_pitch(plan);
        let most = (columns.size * plan.row_bytes).next_multiple_of(CACHE_LINE);
        let held = match held(plan) {
            held @ CACHE_LINE.. => held / CACHE_LINE * CACHE_LINE,
            held => held / LANE * LANE,
        };
        let bytes = most.min(WIDEST_TILE).min(held);
        // The first tile ends where a cache line of the output does, if that is one place in all
        // rows: non-temporal stores write whole lines. [M36]
        let before = CACHE_LINE - output.addr() % CACHE_LINE;
        let rows = outer.iter().chain([&plan.time]);
        let places = rows.fold(bytes, |all, row| all | row.output);
        let ends_lines = places.is_multiple_of(CACHE_LINE) && before.is_multiple_of(element);
        let first = match ends_lines && before < CACHE_LINE {
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

    /// Returns the bytes of the widest tile in the scratch memory, which holds a lane of columns at
    /// least.
    pub(super) fn scratch(self) -> usize {
        self.bytes.max(LANE) / self.element * self.pitch
    }

    /// Returns the number of tiles in all columns of a plan.
    pub(crate) fn tiles(self, plan: &Plan) -> usize {
        let columns = plan.loops.last().map_or(1, |columns| columns.size);
        let rest = (columns * plan.row_bytes).saturating_sub(self.first);
        1 + rest.div_ceil(self.bytes)
    }

    /// The bytes of a tile in the rows of all columns, which are `bytes` bytes.
    #[inline(always)]
    pub(super) fn tile(self, index: usize, bytes: usize) -> Range<usize> {
        let start = match index {
            0 => 0,
            _ => self.first + (index - 1) * self.bytes,
        };
        start..bytes.min(self.first + index * self.bytes)
    }
}

/// The bytes of the elements that a row is made of, and those from a column of them to the next in
/// the scratch memory.
fn element_and_pitch(plan: &Plan) -> (usize, usize) {
    let element = 1 << plan.row_bytes.trailing_zeros().min(LANE.ilog2());
    // Whole blocks of time steps, and an odd number of lines, so that neighbouring columns do not
    // meet in one set of the cache.
    let steps = plan.time.size.next_multiple_of(LANE / element);
    (
        element,
        ((steps * element).div_ceil(CACHE_LINE) | 1) * CACHE_LINE,
    )
}

/// The bytes of a row of columns that the scratch memory holds.
fn held(plan: &Plan) -> usize {
    let (element, pitch) = element_and_pitch(plan);
    CAPACITY / pitch * element
}
