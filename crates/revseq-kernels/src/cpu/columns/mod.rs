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
use super::simd::{LANE, SimdTask, Vector, fence, run_at, sub_lane, transpose};
use super::walk::{Band, Job, longest};
use super::write::{LINE, Run, prefetch_l2, write};
use crate::Plan;

/// How far ahead of the rows that are moved the next are prefetched, in bytes: into the second
/// level of the cache, as rows a power of two apart meet in so few sets of the first that they
/// drive out each other before they are read.
const AHEAD: usize = 4 << 10;

/// Moves the rows of some tiles to their place, or reverses their columns in place.
///
/// # Safety
/// `tiles` are items of the job's walk, which is that of the tiling of the plan; the CPU has the
/// instructions of the job's choice.
pub(crate) unsafe fn run(job: &Job<'_>, tiling: Tiling, tiles: Range<usize>) {
    // SAFETY: this function's conditions; so many elements are a lane.
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

/// As [`run`], for elements of `W` bytes, of which `R` are a lane.
///
/// # Safety
/// As there.
unsafe fn run_elements<const W: usize, const R: usize>(
    job: &Job<'_>,
    tiling: Tiling,
    tiles: Range<usize>,
) {
    let mut scratch = Scratch::lend();
    let scratch = scratch.start();
    let mut lengths = [0; WIDEST_TILE];
    job.for_each_band(tiles, 1, |band| {
        let tile = Tile::new(job, tiling, &band, &mut lengths);
        // SAFETY: see `Job`: a tile is a part of the columns and all of time.
        unsafe {
            tile.transposed::<W, R>(job, scratch);
        }
    });
    if job.choice.tier == Tier::Streamed {
        fence();
    }
}

/// A tile: all time steps of some columns.
#[derive(Clone, Copy)]
struct Tile<'a> {
    plan: &'a Plan,
    /// The bytes from a column to the next in the scratch memory.
    pitch: usize,
    /// Where it starts in the input, and in the output.
    from: *const u8,
    to: *mut u8,
    /// The bytes of the tile's rows.
    bytes: usize,
    /// The lengths of its columns of elements.
    lengths: &'a [usize],
}

impl<'a> Tile<'a> {
    /// The tile that a band is, with room for the lengths of the widest.
    fn new(
        job: &Job<'a>,
        tiling: Tiling,
        band: &Band<'_>,
        lengths: &'a mut [usize; WIDEST_TILE],
    ) -> Self {
        let plan = job.plan;
        let (columns, row) = (plan.loops[plan.loops.len() - 1], plan.row_bytes);
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
        Self {
            plan,
            pitch: tiling.pitch,
            from: band.input.wrapping_add(start),
            to: band.output.wrapping_add(start),
            bytes: end - start,
            lengths: &lengths[..(end - start) / element],
        }
    }

    /// Moves the rows that a length reaches by way of the scratch memory, and then the others.
    ///
    /// # Safety
    /// As [`run`]; the scratch memory holds the tile.
    unsafe fn transposed<const W: usize, const R: usize>(self, job: &Job<'_>, scratch: *mut u8) {
        let (tile, choice, steps) = (self, job.choice, longest(self.lengths));
        if choice.in_place && steps <= 1 {
            return;
        }
        let simd = choice.simd.narrowed(self.bytes);
        let columns = Reverse::<W, false> {
            first: scratch,
            step: self.pitch,
            bytes: self.pitch,
            before: MAX_BYTES_IN_PLACE,
            lengths: self.lengths,
        };
        // What is streamed has to be whole lines at once, or memory writes each in parts.
        let lines = self.to.addr() | self.bytes | self.plan.time.output;
        let streams = choice.tier == Tier::Streamed && lines.is_multiple_of(LINE);
        // SAFETY: the scratch memory holds the tile, with as many bytes before the first column;
        // it is read, reversed and written in turn.
        unsafe {
            run_at(
                simd,
                In::<W, R> {
                    tile,
                    scratch,
                    steps,
                },
            );
            run_at(choice.simd, columns);
            match streams {
                true => run_at(
                    simd,
                    Out::<W, R, true> {
                        tile,
                        scratch,
                        steps,
                    },
                ),
                false => run_at(
                    simd,
                    Out::<W, R, false> {
                        tile,
                        scratch,
                        steps,
                    },
                ),
            }
            match streams {
                _ if choice.in_place => {}
                true => run_at(simd, Rest::<true> { tile, steps }),
                false => run_at(simd, Rest::<false> { tile, steps }),
            }
        }
    }

    /// How many rows ahead of those from `t` on the next are prefetched, of `steps`.
    #[inline(always)]
    fn ahead<const R: usize>(&self, t: usize, steps: usize) -> usize {
        let ahead = (AHEAD / self.bytes).max(R);
        if t + R + ahead <= steps { ahead } else { 0 }
    }

    /// Where the vector starts that would start at `start`: the last one of a row lies over the one
    /// before. [M37]
    #[inline(always)]
    fn place<V: Vector>(&self, start: usize) -> usize {
        start.min(self.bytes.saturating_sub(V::BYTES))
    }
}

/// Whether there are fewer bytes of columns than a vector has: than a lane, as no wider vectors
/// are chosen for them.
#[inline(always)]
fn is_partial<V: Vector>(bytes: usize) -> bool {
    // A constant by itself: wider vectors have no code for such tiles. [M35]
    (const { V::BYTES == LANE }) && bytes < LANE
}

/// Transposes the first rows of a tile into the scratch memory.
///
/// This and [`Out`] are functions of their own, so that each has all registers. [M39]
#[derive(Clone, Copy)]
struct In<'a, const W: usize, const R: usize> {
    tile: Tile<'a>,
    scratch: *mut u8,
    steps: usize,
}

impl<const W: usize, const R: usize> SimdTask for In<'_, W, R> {
    /// # Safety
    /// The scratch memory holds the tile, which is a vector wide at least or a vector a lane.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the tile is as wide as the constant says.
        unsafe {
            match is_partial::<V>(self.tile.bytes) {
                true => self.transpose::<V, true>(),
                false => self.transpose::<V, false>(),
            }
        }
    }
}

impl<const W: usize, const R: usize> In<'_, W, R> {
    /// # Safety
    /// As [`run`](SimdTask::run); `PARTIAL` if the tile is less than a lane wide.
    #[inline(always)]
    unsafe fn transpose<V: Vector, const PARTIAL: bool>(self) {
        let Self {
            tile,
            scratch,
            steps,
        } = self;
        let pitch = tile.plan.time.input;
        // SAFETY: `from` is readable for a vector, or for the row.
        let load = |from: *const u8| unsafe {
            match PARTIAL {
                true => V::load(sub_lane::load(from, tile.bytes).to_le_bytes().as_ptr()),
                false => V::load(from),
            }
        };
        for t in (0..steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, steps) * pitch;
            for start in (0..tile.bytes).step_by(V::BYTES) {
                let start = tile.place::<V>(start);
                // SAFETY: rows beyond the last are taken to be the last, which is inside the tile;
                // the scratch memory has room for whole blocks.
                unsafe {
                    let first = tile.from.add(t * pitch + start);
                    prefetch_l2(first.wrapping_add(ahead));
                    let mut rows = [load(first); R];
                    for (row, vector) in rows.iter_mut().enumerate().skip(1) {
                        let row = first.add(row.min(steps - 1 - t) * pitch);
                        prefetch_l2(row.wrapping_add(ahead));
                        *vector = load(row);
                    }
                    let columns = transpose::<V, W, R>(rows);
                    let to = scratch.add(start / W * tile.pitch + t * W);
                    for (column, vector) in columns.iter().enumerate() {
                        if PARTIAL && column * W >= tile.bytes {
                            break;
                        }
                        vector.store_lanes(to.add(column * tile.pitch), R * tile.pitch);
                    }
                }
            }
        }
    }
}

/// Transposes the first rows of a tile back; past the caches if `STREAM`.
struct Out<'a, const W: usize, const R: usize, const STREAM: bool> {
    tile: Tile<'a>,
    scratch: *mut u8,
    steps: usize,
}

/// Rows that are put together before they are streamed.
#[repr(align(64))]
struct Rows([[MaybeUninit<u8>; WIDEST_TILE]; LANE]);

impl<const W: usize, const R: usize, const STREAM: bool> SimdTask for Out<'_, W, R, STREAM> {
    /// # Safety
    /// As for [`In`]; every row is whole cache lines if it is streamed.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the tile is as wide as the constant says.
        unsafe {
            match is_partial::<V>(self.tile.bytes) {
                true => self.transpose::<V, true>(),
                false => self.transpose::<V, false>(),
            }
        }
    }
}

impl<const W: usize, const R: usize, const STREAM: bool> Out<'_, W, R, STREAM> {
    /// # Safety
    /// As [`run`](SimdTask::run); `PARTIAL` if the tile is less than a lane wide.
    #[inline(always)]
    unsafe fn transpose<V: Vector, const PARTIAL: bool>(self) {
        let Self {
            tile,
            scratch,
            steps,
        } = self;
        let pitch = tile.plan.time.output;
        let mut together = Rows([[MaybeUninit::uninit(); WIDEST_TILE]; LANE]);
        let together = together
            .0
            .each_mut()
            .map(|row| row.as_mut_ptr().cast::<u8>());
        for t in (0..steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, steps) * pitch;
            let to = tile.to.wrapping_add(t * pitch);
            for start in (0..tile.bytes).step_by(V::BYTES) {
                let start = tile.place::<V>(start);
                // SAFETY: only rows and bytes of the tile are written. The scratch memory has room
                // for whole blocks, and the widest tile is whole vectors.
                unsafe {
                    let from = scratch.add(start / W * tile.pitch + t * W);
                    let mut columns = [V::load_lanes(from, R * tile.pitch); R];
                    for (column, vector) in columns.iter_mut().enumerate().skip(1) {
                        if PARTIAL && column * W >= tile.bytes {
                            break;
                        }
                        *vector = V::load_lanes(from.add(column * tile.pitch), R * tile.pitch);
                    }
                    let rows = transpose::<V, W, R>(columns);
                    for (row, vector) in rows.into_iter().take(steps - t).enumerate() {
                        let to = to.add(row * pitch + start);
                        if STREAM && R > 1 {
                            vector.store(together[row].add(start));
                            continue;
                        } else if STREAM {
                            vector.stream(to);
                            continue;
                        }
                        prefetch_l2(to.wrapping_add(ahead));
                        if PARTIAL {
                            let mut lane = [0; LANE];
                            vector.store(lane.as_mut_ptr());
                            sub_lane::store(u128::from_le_bytes(lane), to, tile.bytes);
                        } else {
                            vector.store(to);
                        }
                    }
                }
            }
            for (row, &from) in together.iter().take(R.min(steps - t)).enumerate() {
                let row = to.wrapping_add(row * pitch);
                for at in (0..tile.bytes)
                    .step_by(V::BYTES)
                    .filter(|_| STREAM && R > 1)
                {
                    // SAFETY: the row was put together, and starts a cache line.
                    unsafe { V::load(from.add(at)).stream(row.add(at)) };
                }
            }
        }
    }
}

/// Copies the rows of a tile that no length reaches, from `steps` on.
struct Rest<'a, const STREAM: bool> {
    tile: Tile<'a>,
    steps: usize,
}

impl<const STREAM: bool> SimdTask for Rest<'_, STREAM> {
    /// # Safety
    /// The two places do not overlap.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let tile = self.tile;
        let time = tile.plan.time;
        for t in self.steps..time.size {
            let ahead = tile.ahead::<1>(t, time.size) * time.input;
            let from = tile.from.wrapping_add(t * time.input);
            for at in (0..tile.bytes).step_by(LINE) {
                prefetch_l2(from.wrapping_add(ahead + at));
            }
            // SAFETY: every row of the tile is readable and writable for its bytes.
            unsafe {
                let to = tile.to.add(t * time.output);
                let row = Run::<1, false>::new(from, tile.bytes, from);
                write::<V, _, STREAM, false>(row, to, tile.bytes);
            }
        }
    }
}
