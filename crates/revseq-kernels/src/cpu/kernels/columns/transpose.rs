//! Tiles that are transposed, reversed column by column, and transposed back.

use std::marker::PhantomData;

use super::tile::Tile;
use crate::cpu::kernels::elements::short_lines::LinesInPlace;
use crate::cpu::memory::direction::{Backward, Direction};
use crate::cpu::memory::prefetch::prefetch_far;
use crate::cpu::memory::store_policy::stream_line;
use crate::cpu::memory::{LINE, Line};
use crate::cpu::simd::{LANE, Task, Vector, transpose};

/// Moves the first rows of a tile, which all lengths end in, by way of the scratch memory.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a, const W: usize, const R: usize> {
    pub(super) tile: Tile<'a>,
    pub(super) scratch: *mut u8,
    pub(super) steps: usize,
    pub(super) streams: bool,
}

impl<const W: usize, const R: usize> Task for Turn<'_, W, R> {
    /// # Safety
    /// The scratch memory holds the tile, which is read before it is written, and
    /// is a vector wide at least or a vector a lane; `R` elements of `W` bytes are a lane.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller's.
        unsafe {
            // A constant by itself: wider vectors have nothing for such tiles.
            if const { V::BYTES == LANE } && self.tile.bytes < LANE {
                self.turn::<V, Narrow>();
            } else if self.tile.bytes.is_multiple_of(V::BYTES) {
                self.turn::<V, Whole>();
            } else {
                self.turn::<V, Overlapping>();
            }
        }
    }
}

/// How the rows of a tile are cut into vectors.
///
/// Known to the compiler, as loops that can do more keep fewer rows under way:
/// parts of vectors in the same loop took AVX2 twice as long, and to move a part
/// at the end of a row instead of what lies over the vector before four times.
trait Cut {
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
    const NARROW: bool = false;

    /// Loads a vector of a row of `bytes` bytes.
    ///
    /// # Safety
    /// See [`Vector`]; the row is readable from `from` on, for a vector or its end.
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, _bytes: usize) -> V {
        // SAFETY: the caller's.
        unsafe { V::load(from) }
    }

    /// Stores a vector of a row of `bytes` bytes.
    ///
    /// # Safety
    /// As [`load`](Self::load), writable.
    #[inline(always)]
    unsafe fn store<V: Vector>(vector: V, to: *mut u8, _bytes: usize) {
        // SAFETY: the caller's.
        unsafe { vector.store(to) };
    }
}

/// A number of vectors.
struct Whole;

/// The last vector lies over the one before.
struct Overlapping;

/// Less than a vector.
struct Narrow;

impl Cut for Whole {}

impl Cut for Overlapping {
    #[inline(always)]
    fn place<V: Vector>(start: usize, bytes: usize) -> usize {
        start.min(bytes - V::BYTES)
    }

    #[inline(always)]
    fn disjoint<V: Vector>(bytes: usize) -> usize {
        bytes - V::BYTES
    }
}

impl Cut for Narrow {
    const NARROW: bool = true;

    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8, bytes: usize) -> V {
        // SAFETY: the caller's.
        unsafe { V::load_few(from, bytes) }
    }

    #[inline(always)]
    unsafe fn store<V: Vector>(vector: V, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { vector.store_few(to, bytes) };
    }
}

impl<const W: usize, const R: usize> Turn<'_, W, R> {
    /// As [`run`](Task::run), of a tile that is cut so.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn turn<V: Vector, C: Cut>(self) {
        // SAFETY: the caller's.
        unsafe {
            V::apart(Read::<W, R, C>(self, PhantomData));
            self.reverse::<V>();
            V::apart(Write::<W, R, C>(self, PhantomData));
        }
    }

    /// Reverses the columns in the scratch memory.
    ///
    /// # Safety
    /// The scratch memory holds the tile as [`Read`] left it.
    #[inline(always)]
    unsafe fn reverse<V: Vector>(&self) {
        let tile = self.tile;
        let (first, pitch) = (self.scratch, tile.pitch);
        let columns = LinesInPlace::<W>::new(first, pitch, tile.lengths, self.steps, false);
        // SAFETY: a column has as many elements as the longest length; before the
        // first one lies as much as a short one is.
        unsafe {
            if columns.are_short::<V>() {
                columns.reverse::<V>();
                return;
            }
            for (column, &length) in tile.lengths.iter().enumerate() {
                Backward::<W>::turn::<V>(self.scratch.add(column * tile.pitch), length * W);
            }
        }
    }
}

/// The first stage of a turn: transposes the rows into the scratch memory.
///
/// This and the last are functions of their own for the sake of registers: with all
/// in one f32 took AVX-512 1.25 times as long.
struct Read<'a, const W: usize, const R: usize, C>(Turn<'a, W, R>, PhantomData<C>);

impl<const W: usize, const R: usize, C: Cut> Task for Read<'_, W, R, C> {
    /// # Safety
    /// As that of [`Turn`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Turn {
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
                    prefetch_far(first.wrapping_add(ahead));
                    let mut rows = [C::load::<V>(first, tile.bytes); R];
                    for (row, vector) in rows.iter_mut().enumerate().skip(1) {
                        let row = first.add(row.min(steps - 1 - t) * pitch);
                        prefetch_far(row.wrapping_add(ahead));
                        *vector = C::load::<V>(row, tile.bytes);
                    }
                    let columns = transpose::<V, W, R>(rows);
                    let to = scratch.add(start / W * tile.pitch + t * W);
                    for (column, vector) in columns.iter().enumerate() {
                        if C::NARROW && column * W >= tile.bytes {
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
struct Write<'a, const W: usize, const R: usize, C>(Turn<'a, W, R>, PhantomData<C>);

impl<const W: usize, const R: usize, C: Cut> Task for Write<'_, W, R, C> {
    /// # Safety
    /// As that of [`Turn`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Turn {
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
                        if C::NARROW && column * W >= tile.bytes {
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
                            prefetch_far(to.wrapping_add(ahead));
                            C::store(*vector, to, tile.bytes);
                        }
                    }
                }
            }
        }
    }
}
