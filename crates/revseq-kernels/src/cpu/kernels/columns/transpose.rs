//! Tiles that are transposed, reversed column by column, and transposed back.

use std::marker::PhantomData;

use super::tile::Tile;
use crate::cpu::kernels::blended_lines::ReverseLines;
use crate::cpu::memory::direction::{Backward, Direction};
use crate::cpu::memory::non_temporal::stream_line;
use crate::cpu::memory::prefetch::prefetch_l2;
use crate::cpu::memory::{LINE, Line};
use crate::cpu::simd::{LANE, SimdTask, Vector, transpose};

/// Moves the first rows of a tile, which all lengths end in, by way of the scratch memory.
#[derive(Clone, Copy)]
pub(super) struct TransposeReverse<'a, const W: usize, const R: usize> {
    pub(super) tile: Tile<'a>,
    pub(super) scratch: *mut u8,
    pub(super) steps: usize,
    pub(super) streams: bool,
}

impl<const W: usize, const R: usize> SimdTask for TransposeReverse<'_, W, R> {
    /// # Safety
    /// The scratch memory holds the tile, which is read before it is written, and
    /// is a vector wide at least or a vector a lane; `R` elements of `W` bytes are a lane.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the scratch memory holds the tile, whose width is that of the split.
        unsafe {
            // A constant by itself: wider vectors have nothing for such tiles.
            if const { V::BYTES == LANE } && self.tile.bytes < LANE {
                self.by_split::<V, Partial>();
            } else if self.tile.bytes.is_multiple_of(V::BYTES) {
                self.by_split::<V, Whole>();
            } else {
                self.by_split::<V, Overlapping>();
            }
        }
    }
}

/// How the rows of a tile are cut into vectors.
///
/// Known to the compiler, as loops that can do more keep fewer rows under way: parts of vectors
/// have a loop of their own [M35], and the last vector of a row overlaps the one before. [M37]
trait RowSplit {
    /// Where the vector starts that would start at `start`.
    #[inline(always)]
    fn place<V: Vector>(start: usize, _bytes: usize) -> usize {
        start
    }

    /// How many of the first bytes of a row are in one vector alone.
    #[inline(always)]
    fn disjoint<V: Vector>(bytes: usize) -> usize {
        bytes
    }

    /// Whether there are fewer columns than the rows of a lane.
    const PARTIAL: bool = false;

    /// Loads a vector of a row of `bytes` bytes.
    ///
    /// # Safety
    /// See [`Vector`]; the row is readable from `from` on, for a vector or its end.
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _bytes: usize) -> V {
        // SAFETY: `from` is readable for a vector of the row.
        unsafe { V::load(from) }
    }

    /// Stores a vector of a row of `bytes` bytes.
    ///
    /// # Safety
    /// As [`load`](Self::load), writable.
    #[inline(always)]
    unsafe fn store<V: Vector>(vector: V, to: *mut u8, _bytes: usize) {
        // SAFETY: `to` is writable for a vector of the row.
        unsafe { vector.store(to) };
    }
}

/// A number of vectors.
struct Whole;

/// The last vector lies over the one before.
struct Overlapping;

/// Less than a vector.
struct Partial;

impl RowSplit for Whole {}

impl RowSplit for Overlapping {
    #[inline(always)]
    fn place<V: Vector>(start: usize, bytes: usize) -> usize {
        start.min(bytes - V::BYTES)
    }

    #[inline(always)]
    fn disjoint<V: Vector>(bytes: usize) -> usize {
        bytes - V::BYTES
    }
}

impl RowSplit for Partial {
    const PARTIAL: bool = true;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, bytes: usize) -> V {
        // SAFETY: `from` is readable for the row, less than a lane.
        unsafe { V::load_partial(from, bytes) }
    }

    #[inline(always)]
    unsafe fn store<V: Vector>(vector: V, to: *mut u8, bytes: usize) {
        // SAFETY: `to` is writable for the row, less than a lane.
        unsafe { vector.store_partial(to, bytes) };
    }
}

impl<const W: usize, const R: usize> TransposeReverse<'_, W, R> {
    /// As [`run`](SimdTask::run), of a tile that is cut so.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn by_split<V: Vector, C: RowSplit>(self) {
        // SAFETY: the scratch memory holds the tile, which is read, reversed and written in turn.
        unsafe {
            V::run_outlined(TransposeIn::<W, R, C>(self, PhantomData));
            self.reverse::<V>();
            V::run_outlined(TransposeOut::<W, R, C>(self, PhantomData));
        }
    }

    /// Reverses the columns in the scratch memory.
    ///
    /// # Safety
    /// The scratch memory holds the tile as [`TransposeIn`] left it.
    #[inline(always)]
    unsafe fn reverse<V: Vector>(&self) {
        let tile = self.tile;
        let (first, pitch) = (self.scratch, tile.pitch);
        let columns = ReverseLines::<W>::new(first, pitch, tile.lengths, self.steps, false);
        // SAFETY: a column has as many elements as the longest length; before the
        // first one lies as much as a short one is.
        unsafe {
            if columns.are_short::<V>() {
                columns.reverse::<V>();
                return;
            }
            for (column, &length) in tile.lengths.iter().enumerate() {
                Backward::<W>::reverse_in_place::<V>(
                    self.scratch.add(column * tile.pitch),
                    length * W,
                );
            }
        }
    }
}

/// The first stage of a turn: transposes the rows into the scratch memory.
///
/// This and the last are functions of their own, so that each has all registers. [M39]
struct TransposeIn<'a, const W: usize, const R: usize, C>(
    TransposeReverse<'a, W, R>,
    PhantomData<C>,
);

impl<const W: usize, const R: usize, C: RowSplit> SimdTask for TransposeIn<'_, W, R, C> {
    /// # Safety
    /// As that of [`TransposeReverse`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let TransposeReverse {
            tile,
            scratch,
            steps,
            ..
        } = self.0;
        let (from, pitch) = (tile.from, tile.plan.time.input);
        for t in (0..steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, steps) * pitch;
            for start in (0..tile.bytes).step_by(V::BYTES) {
                let start = C::place::<V>(start, tile.bytes);
                // SAFETY: rows beyond the last are taken to be the last, which
                // is inside the tile; the scratch memory has room for whole blocks.
                unsafe {
                    let first = from.add(t * pitch + start);
                    prefetch_l2(first.wrapping_add(ahead));
                    let mut rows = [C::load::<V>(first, tile.bytes); R];
                    for (row, vector) in rows.iter_mut().enumerate().skip(1) {
                        let row = first.add(row.min(steps - 1 - t) * pitch);
                        prefetch_l2(row.wrapping_add(ahead));
                        *vector = C::load::<V>(row, tile.bytes);
                    }
                    let columns = transpose::<V, W, R>(rows);
                    let to = scratch.add(start / W * tile.pitch + t * W);
                    for (column, vector) in columns.iter().enumerate() {
                        if C::PARTIAL && column * W >= tile.bytes {
                            break;
                        }
                        vector.store_lanes(to.add(column * tile.pitch), R * tile.pitch);
                    }
                }
            }
        }
    }
}

/// The last stage of a turn: transposes the rows back.
struct TransposeOut<'a, const W: usize, const R: usize, C>(
    TransposeReverse<'a, W, R>,
    PhantomData<C>,
);

impl<const W: usize, const R: usize, C: RowSplit> SimdTask for TransposeOut<'_, W, R, C> {
    /// # Safety
    /// As that of [`TransposeReverse`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let TransposeReverse {
            tile,
            scratch,
            steps,
            streams,
        } = self.0;
        let (to, pitch) = (tile.to, tile.plan.time.output);
        // What is streamed has to be whole lines at once, or memory writes each in parts,
        // and is not written again before a fence.
        let streamed = match streams && tile.starts_lines() {
            true => C::disjoint::<V>(tile.bytes) / LINE * LINE,
            false => 0,
        };
        let mut lines = [Line([0; LINE]); R];
        for t in (0..steps).step_by(R) {
            let ahead = tile.ahead::<R>(t, steps) * pitch;
            for start in (0..tile.bytes).step_by(V::BYTES) {
                let start = C::place::<V>(start, tile.bytes);
                // SAFETY: only rows and bytes of the tile are written; a vector
                // is streamed to a multiple of its bytes, as start, place and
                // pitch all are. The scratch memory has room for whole blocks.
                unsafe {
                    let from = scratch.add(start / W * tile.pitch + t * W);
                    let mut columns = [V::load_lanes(from, R * tile.pitch); R];
                    for (column, vector) in columns.iter_mut().enumerate().skip(1) {
                        if C::PARTIAL && column * W >= tile.bytes {
                            break;
                        }
                        let from = from.add(column * tile.pitch);
                        *vector = V::load_lanes(from, R * tile.pitch);
                    }
                    let rows = transpose::<V, W, R>(columns);
                    let to = to.add(t * pitch + start);
                    let streams = start + V::BYTES <= streamed;
                    // One row goes on where its last vector ended.
                    if streams && V::BYTES < LINE && R > 1 {
                        for (vector, line) in rows.iter().zip(&mut lines) {
                            vector.store(line.0.as_mut_ptr().add(start % LINE));
                        }
                        if (start + V::BYTES).is_multiple_of(LINE) {
                            let to = to.sub(start % LINE);
                            for (row, line) in lines.iter().take(steps - t).enumerate() {
                                stream_line::<V>(line.0.as_ptr(), to.add(row * pitch));
                            }
                        }
                        continue;
                    }
                    for (row, vector) in rows.iter().take(steps - t).enumerate() {
                        let to = to.add(row * pitch);
                        if streams {
                            vector.stream(to);
                        } else {
                            prefetch_l2(to.wrapping_add(ahead));
                            C::store(*vector, to, tile.bytes);
                        }
                    }
                }
            }
        }
    }
}
