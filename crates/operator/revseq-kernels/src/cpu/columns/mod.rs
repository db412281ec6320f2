//! Neighbouring columns of lengths of their own: narrow rows along a strided axis.
//!
//! Row by row, each element comes from another row, so that a whole cache line is read for each. A
//! tile of columns is transposed into scratch memory instead, where every column is a line;
//! reversed there; and transposed back. That costs the same for any lengths.

mod scratch;
mod tiling;

use std::mem::MaybeUninit;
use std::ops::Range;

use scratch::Scratch;
pub(crate) use tiling::Tiling;
use tiling::WIDEST_TILE;

use super::choice::Tier;
use super::lines::{MAX_BYTES_IN_PLACE, Reverse};
use super::simd::{LANE, Lane, SimdTask, Vector, fence, few, run_at, transpose};
use super::walk::{Band, Job, longest};
use super::write::{CACHE_LINE, Span, prefetch_l2, write};
use crate::plan::Loop;

/// Distance in bytes at which the rows after the current ones are prefetched: into the second level
/// of the cache, as rows a power of two apart share so few sets of the first that they evict each
/// other before they are read.
const AHEAD: usize = 4 << 10;

/// Moves the rows of some tiles to their place, or reverses their columns in place.
///
/// # Safety
/// `tiles` are items of the job's walk, which is that of the tiling of the plan; the CPU has the
/// instructions of the job's choice.
pub(crate) unsafe fn run(job: &Job<'_>, tiling: Tiling, tiles: Range<usize>) {
    // SAFETY: this function's conditions; `R` elements of `W` bytes are a lane.
    unsafe {
        match tiling.element {
            1 => run_elements::<1, 16>(job, tiling, tiles),
            2 => run_elements::<2, 8>(job, tiling, tiles),
            4 => run_elements::<4, 4>(job, tiling, tiles),
            8 => run_elements::<8, 2>(job, tiling, tiles),
            _ => run_elements::<16, 1>(job, tiling, tiles),
        }
    }
}

/// Runs like [`run`], for elements of `W` bytes, of which `R` are a lane.
///
/// # Safety
/// As [`run`].
unsafe fn run_elements<const W: usize, const R: usize>(
    job: &Job<'_>,
    tiling: Tiling,
    tiles: Range<usize>,
) {
    let choice = job.choice;
    let mut scratch = Scratch::lend(tiling.scratch());
    let scratch = scratch.start();
    let mut lengths = [0; WIDEST_TILE];
    job.for_each_band(tiles, 1, |band| {
        let tile = Tile::new(job, tiling, &band, scratch, &mut lengths);
        if choice.in_place && tile.steps <= 1 {
            return;
        }
        let simd = choice.simd.narrowed(tile.bytes);
        let columns = Reverse::<W, false> {
            first: scratch,
            step: tile.pitch,
            bytes: tile.pitch,
            before: MAX_BYTES_IN_PLACE,
            lengths: tile.lengths,
        };
        // SAFETY: a tile is some columns and all of time (see `Job`). The scratch memory holds it,
        // with room before the first column; it is read, reversed and written in turn.
        unsafe {
            run_at(simd, In::<W, R>(tile));
            run_at(choice.simd, columns);
            run_at(simd, Out::<W, R>(tile));
            if !choice.in_place {
                run_at(simd, Rest(tile));
            }
        }
    });
    if choice.tier == Tier::Streamed {
        fence();
    }
}

/// A tile: all time steps of some columns.
#[derive(Clone, Copy)]
struct Tile<'a> {
    /// The start of the tile in the input; `to` is that in the output.
    from: *const u8,
    to: *mut u8,
    /// The bytes of its rows.
    bytes: usize,
    time: Loop,
    /// The lengths of its columns of elements.
    lengths: &'a [usize],
    /// The time steps that a length reaches.
    steps: usize,
    scratch: *mut u8,
    /// The bytes from a column to the next in the scratch memory.
    pitch: usize,
    /// Whether its rows are written past the caches.
    streams: bool,
}

impl<'a> Tile<'a> {
    /// The tile that a band is, with room for the lengths of the widest.
    fn new(
        job: &Job<'a>,
        tiling: Tiling,
        band: &Band<'_>,
        scratch: *mut u8,
        lengths: &'a mut [usize; WIDEST_TILE],
    ) -> Self {
        let (time, row) = (job.plan.time, job.plan.row_bytes);
        let columns = job.plan.loops[job.plan.loops.len() - 1];
        let Range { start, end } = tiling.tile(band.first, columns.size * row);
        let (first, last) = (start / row, end.div_ceil(row));
        let of_rows = &mut lengths[..last - first];
        let place = band.first_length + first * columns.lengths;
        job.lengths.read(place, columns.lengths, of_rows);
        let element = tiling.element;
        if row > element {
            // From the last on, as no element comes before its row.
            for index in (0..last - first).rev() {
                let of_row = (first + index) * row..(first + index + 1) * row;
                let in_tile = of_row.start.max(start) - start..of_row.end.min(end) - start;
                let length = lengths[index];
                lengths[in_tile.start / element..in_tile.end / element].fill(length);
            }
        }
        let (bytes, to) = (end - start, band.output.wrapping_add(start));
        let lengths = &lengths[..bytes / element];
        // Only whole cache lines are streamed: memory writes others in parts.
        let whole = (to.addr() | bytes | time.output).is_multiple_of(CACHE_LINE);
        Self {
            from: band.input.wrapping_add(start),
            to,
            bytes,
            time,
            lengths,
            steps: longest(lengths),
            scratch,
            pitch: tiling.pitch,
            streams: job.choice.tier == Tier::Streamed && whole,
        }
    }

    /// Returns the distance, in rows, from those at `t` to those that are prefetched with them; 0
    /// if fewer of `steps` are left.
    #[inline(always)]
    fn ahead<const R: usize>(&self, t: usize, steps: usize) -> usize {
        let ahead = (AHEAD / self.bytes).max(R);
        if t + R + ahead <= steps { ahead } else { 0 }
    }

    /// Returns the starts of a row's vectors, in bytes: the last one overlaps the one before. [M37]
    #[inline(always)]
    fn places<V: Vector>(&self) -> impl Iterator<Item = usize> + use<V> {
        let last = self.bytes.saturating_sub(V::BYTES);
        (0..self.bytes)
            .step_by(V::BYTES)
            .map(move |at| at.min(last))
    }
}

/// Rows on the stack: those that are streamed as soon as they are complete, or that are less than a
/// vector.
#[repr(align(64))]
struct Rows([[MaybeUninit<u8>; WIDEST_TILE]; LANE]);

impl Rows {
    const NONE: Self = Self([[MaybeUninit::uninit(); WIDEST_TILE]; LANE]);
}

/// Transposes the first rows of a tile into the scratch memory.
///
/// This and [`Out`] are separate functions, so that each has all registers. [M39]
struct In<'a, const W: usize, const R: usize>(Tile<'a>);

impl<const W: usize, const R: usize> SimdTask for In<'_, W, R> {
    /// # Safety
    /// The scratch memory holds the tile and a vector of columns.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let tile = self.0;
        let mut narrow = Rows::NONE;
        let is_narrow = tile.bytes < LANE;
        let pitch = if is_narrow {
            WIDEST_TILE
        } else {
            tile.time.input
        };
        for t in (0..tile.steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, tile.steps) * tile.time.input;
            let mut from = tile.from.wrapping_add(t * tile.time.input);
            // Rows after the last are taken to be the last, which is inside the tile.
            let last = R.min(tile.steps - t) - 1;
            if is_narrow {
                for (row, lane) in narrow.0.iter_mut().take(last + 1).enumerate() {
                    // SAFETY: the row is readable, and the lane holds it.
                    unsafe {
                        let from = from.add(row * tile.time.input);
                        let row = few::load(from, tile.bytes).to_le_bytes();
                        Lane::<V>::load(row.as_ptr()).store(lane.as_mut_ptr().cast());
                    }
                }
                from = narrow.0.as_ptr().cast();
            }
            for start in tile.places::<V>() {
                // SAFETY: the row is a vector at least, as is a narrow one with the bytes after it;
                // the scratch memory has room for whole blocks.
                unsafe {
                    let first = from.add(start);
                    prefetch_l2(first.wrapping_add(ahead));
                    let mut rows = [V::load(first); R];
                    for (row, vector) in rows.iter_mut().enumerate().skip(1) {
                        let row = first.add(row.min(last) * pitch);
                        prefetch_l2(row.wrapping_add(ahead));
                        *vector = V::load(row);
                    }
                    let to = tile.scratch.add(start / W * tile.pitch + t * W);
                    for (column, vector) in transpose::<V, W, R>(rows).iter().enumerate() {
                        vector.store_lanes(to.add(column * tile.pitch), R * tile.pitch);
                    }
                }
            }
        }
    }
}

/// Transposes the first rows of a tile back.
struct Out<'a, const W: usize, const R: usize>(Tile<'a>);

impl<const W: usize, const R: usize> SimdTask for Out<'_, W, R> {
    /// # Safety
    /// As for [`In`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let tile = self.0;
        let time = tile.time.output;
        let mut rows = Rows::NONE;
        // Where rows are less than a vector, or would be streamed in parts, they are completed
        // on the stack.
        let together = tile.bytes < LANE || tile.streams && R > 1;
        let pitch = if together { WIDEST_TILE } else { time };
        for t in (0..tile.steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, tile.steps) * time;
            let count = R.min(tile.steps - t);
            let out = tile.to.wrapping_add(t * time);
            let (to, ahead) = match together {
                true => (rows.0.as_mut_ptr().cast::<u8>(), 0),
                false => (out, ahead),
            };
            for start in tile.places::<V>() {
                // SAFETY: only rows of the tile are written, each a vector at least. The scratch
                // memory has room for whole blocks, and the widest tile is whole vectors.
                unsafe {
                    let from = tile.scratch.add(start / W * tile.pitch + t * W);
                    let mut columns = [V::load_lanes(from, R * tile.pitch); R];
                    for (column, vector) in columns.iter_mut().enumerate().skip(1) {
                        *vector = V::load_lanes(from.add(column * tile.pitch), R * tile.pitch);
                    }
                    let rows = transpose::<V, W, R>(columns);
                    for (row, vector) in rows.into_iter().take(count).enumerate() {
                        let to = to.add(row * pitch + start);
                        if R == 1 && tile.streams {
                            vector.stream(to);
                            continue;
                        }
                        prefetch_l2(to.wrapping_add(ahead));
                        vector.store(to);
                    }
                }
            }
            if !together {
                continue;
            }
            for (row, from) in rows.0.iter().take(count).enumerate() {
                let (from, to) = (from.as_ptr().cast::<u8>(), out.wrapping_add(row * time));
                // SAFETY: the row is complete; only whole cache lines are streamed.
                unsafe {
                    if tile.bytes < LANE {
                        few::copy(from, to, tile.bytes);
                        continue;
                    }
                    for at in (0..tile.bytes).step_by(V::BYTES) {
                        V::load(from.add(at)).stream(to.add(at));
                    }
                }
            }
        }
    }
}

/// Copies the rows of a tile that no length reaches.
struct Rest<'a>(Tile<'a>);

impl SimdTask for Rest<'_> {
    /// # Safety
    /// The tile's rows are readable and writable, in two places that do not overlap.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Tile { time, bytes, .. } = self.0;
        for t in self.0.steps..time.size {
            let ahead = self.0.ahead::<1>(t, time.size) * time.input;
            let from = self.0.from.wrapping_add(t * time.input);
            for at in (0..bytes).step_by(CACHE_LINE) {
                prefetch_l2(from.wrapping_add(ahead + at));
            }
            let (row, to) = (Span::<1, false>::new(from, bytes, from), self.0.to);
            // SAFETY: every row of the tile is readable and writable for its bytes.
            unsafe {
                match self.0.streams {
                    true => write::<V, _, true, false>(row, to.add(t * time.output), bytes),
                    false => write::<V, _, false, false>(row, to.add(t * time.output), bytes),
                }
            }
        }
    }
}
