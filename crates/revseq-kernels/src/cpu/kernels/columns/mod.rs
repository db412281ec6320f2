//! Neighbouring columns of lengths of their own: narrow rows along a strided axis.
//!
//! Row by row, each element comes from another row, so that a whole cache line
//! is read for each. A tile of columns is transposed into scratch memory
//! instead, where every column is contiguous; reversed there; and transposed
//! back. That costs the same for any lengths.

mod scratch;
mod tile;
mod tiling;
mod transpose;

use std::ops::Range;

use scratch::Scratch;
use tile::{CopyTail, Tile};
pub(crate) use tiling::Tiling;
use tiling::WIDEST_TILE;
use transpose::TransposeReverse;

use crate::cpu::loop_nest::Rounds;
use crate::cpu::loop_nest::job::{Job, longest};
use crate::cpu::simd::{Vector, fence, run_outlined_by_width};

/// Moves the rows of some tiles from their place in the input to their place in the output.
///
/// # Safety
/// The nest is the plan's for the tiling, and `tiles` are items of it; `R` elements
/// of `W` bytes are a lane.
#[inline(always)]
pub(crate) unsafe fn copy_tiles<V: Vector, const W: usize, const R: usize>(
    job: &Job<'_>,
    tiling: Tiling,
    tiles: Range<usize>,
    streams: bool,
) {
    let mut scratch = Scratch::lend();
    let scratch = scratch.start();
    let mut lengths = [0; WIDEST_TILE];
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(tiles, &mut rounds) {
        for step in steps {
            let tile = Tile::new(job, tiling, at, step, &mut lengths);
            // SAFETY: see `Job`: a tile is a part of the columns and all of time.
            unsafe {
                if tiling.pitch == 0 {
                    tile.copy::<W>();
                    continue;
                }
                let steps = longest(tile.lengths);
                let task = TransposeReverse::<W, R> {
                    tile,
                    scratch,
                    steps,
                    streams,
                };
                run_outlined_by_width::<V, _>(task, tile.bytes);
                V::run_outlined(CopyTail {
                    tile,
                    first: steps,
                    streams,
                });
            }
        }
    }
    if streams {
        fence();
    }
}

/// Reverses the columns of some tiles where they lie.
///
/// # Safety
/// As [`copy_tiles`], and the job is in place.
#[inline(always)]
pub(crate) unsafe fn swap_tiles<V: Vector, const W: usize, const R: usize>(
    job: &Job<'_>,
    tiling: Tiling,
    tiles: Range<usize>,
) {
    let mut scratch = Scratch::lend();
    let scratch = scratch.start();
    let mut lengths = [0; WIDEST_TILE];
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(tiles, &mut rounds) {
        for step in steps {
            let tile = Tile::new(job, tiling, at, step, &mut lengths);
            let steps = longest(tile.lengths);
            if steps <= 1 {
                continue;
            }
            // SAFETY: as in `copy_tiles`.
            unsafe {
                if tiling.pitch == 0 {
                    tile.swap::<W>(steps);
                    continue;
                }
                let task = TransposeReverse::<W, R> {
                    tile,
                    scratch,
                    steps,
                    streams: false,
                };
                run_outlined_by_width::<V, _>(task, tile.bytes);
            }
        }
    }
}
