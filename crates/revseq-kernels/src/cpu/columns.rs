//! Neighbouring columns of lengths of their own: narrow rows along a strided axis.
//!
//! Row by row, each element comes from another row, so that a whole cache line
//! is read for each. A tile of columns is transposed into scratch memory
//! instead, where every column is contiguous; reversed there; and transposed
//! back. That costs the same for any lengths.

use std::cell::Cell;
use std::ops::Range;

use super::direction::{Forward, copy_inline};
use super::elements::reverse;
use super::job::{Job, source};
use super::nest::{Position, Rounds};
use super::sink::{LINE, Line, stream_line};
use super::vector::{LANE, Task, Vector, apart, fence, prefetch_far, transpose};
use super::walk::{Element, Width};
use crate::Plan;

/// The scratch memory of a thread, in bytes.
const SCRATCH_BYTES: usize = 1 << 20;

/// The widest tile, in bytes.
///
/// Each row of a tile lies in a page of its own, so that narrow tiles wait for
/// translations: a copy through tiles of 64, 128, 192, 256 and 512 bytes took
/// 6.7, 4.3, 2.5, 2.1 and 1.7 times a plain one, and wider ones no less.
const WIDEST_TILE: usize = 512;

/// How far ahead of the rows that are moved the next are asked for, in bytes:
/// into the second level of the cache, as rows a power of two apart meet in so
/// few sets of the first that they drive out each other before they are read.
const AHEAD: usize = 4 << 10;

/// How a plan's columns are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The bytes of a tile's rows.
    pub(super) bytes: usize,
    /// Those of the first tile's, from which on the others start.
    first: usize,
    /// The elements that a row is made of, in bytes: 1, 2, 4, 8 or 16.
    pub(super) element: usize,
    /// The bytes from a column to the next in the scratch memory, or 0 if there
    /// are so many time steps that it does not hold a lane of them.
    pitch: usize,
}

impl Tiling {
    /// The tiles of a plan with packed columns, whose output is at `output`;
    /// `None` if it has none.
    pub(super) fn new(plan: &Plan, output: *const u8) -> Option<Self> {
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
        let held = SCRATCH_BYTES / pitch * element;
        let (bytes, pitch) = match held {
            LINE.. => (most.min(held / LINE * LINE), pitch),
            LANE.. => (most.min(held / LANE * LANE), pitch),
            _ => (LINE, 0),
        };
        // The first tile ends where a cache line of the output does, if that is
        // one place in all rows: as streaming stores write lines, tiles that
        // start in one took 1.5 times as long.
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
    pub(super) fn tiles(self, plan: &Plan) -> usize {
        let columns = plan.loops.last().map_or(1, |columns| columns.size);
        let rest = (columns * plan.row_bytes).saturating_sub(self.first);
        1 + rest.div_ceil(self.bytes)
    }

    /// Where in the rows of all columns a tile lies, if they are so many bytes.
    #[inline(always)]
    fn tile(self, index: usize, bytes: usize) -> Range<usize> {
        let start = match index {
            0 => 0,
            _ => self.first + (index - 1) * self.bytes,
        };
        start..bytes.min(self.first + index * self.bytes)
    }
}

/// A tile: all time steps of some columns.
#[derive(Clone, Copy)]
struct Tile<'a> {
    plan: &'a Plan,
    pitch: usize,
    /// Where it starts in the input, and in the output.
    from: *const u8,
    to: *mut u8,
    /// The first byte of the tile in a row of all columns.
    start: usize,
    /// The bytes of the tile's rows.
    bytes: usize,
    /// Those of its columns.
    lengths: &'a [usize],
}

/// Moves the rows of some tiles from their place in the input to their place in the output.
///
/// # Safety
/// The nest is the plan's for the tiling, and `tiles` are items of it; `R` elements of `W` bytes are a lane.
#[inline(always)]
pub(super) unsafe fn copy_tiles<V: Vector, const W: usize, const R: usize>(
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
                let steps = tile.longest();
                let turn = Turn::<W, R> {
                    tile,
                    scratch,
                    steps,
                    streams,
                };
                apart::<V, _>(turn, tile.bytes);
                V::apart(Keep {
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
pub(super) unsafe fn swap_tiles<V: Vector, const W: usize, const R: usize>(
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
            let longest = tile.longest();
            if longest <= 1 {
                continue;
            }
            // SAFETY: as in `copy_tiles`.
            unsafe {
                if tiling.pitch == 0 {
                    tile.swap::<W>(longest);
                    continue;
                }
                let turn = Turn::<W, R> {
                    tile,
                    scratch,
                    steps: longest,
                    streams: false,
                };
                apart::<V, _>(turn, tile.bytes);
            }
        }
    }
}

impl<'a> Tile<'a> {
    /// That of an index on a line of tiles, with room for the lengths of the widest.
    fn new(
        job: &Job<'a>,
        tiling: Tiling,
        at: Position,
        index: usize,
        lengths: &'a mut [usize; WIDEST_TILE],
    ) -> Self {
        let plan = job.plan;
        let (columns, row) = (plan.loops[plan.loops.len() - 1], plan.row_bytes);
        let Range { start, end } = tiling.tile(index, columns.size * row);
        let first = start / row;
        let lengths = &mut lengths[..end.div_ceil(row) - first];
        let place = at.lengths + first * columns.lengths;
        job.lengths.read(place, columns.lengths, lengths);
        Self {
            plan,
            pitch: tiling.pitch,
            from: job.input.wrapping_add(at.input + start),
            to: job.output.wrapping_add(at.output + start),
            start,
            bytes: end - start,
            lengths,
        }
    }

    /// Where in the tile's rows each column lies, of which the first and the last
    /// may be in part, with its length.
    #[inline(always)]
    fn columns(&self) -> impl Iterator<Item = (Range<usize>, usize)> + use<'a> {
        let (bytes, row) = (self.bytes, self.plan.row_bytes);
        let mut start = 0;
        let mut end = row - self.start % row;
        self.lengths.iter().map(move |&length| {
            let column = start..end.min(bytes);
            (start, end) = (end, end + row);
            (column, length)
        })
    }

    /// The longest length of the tile.
    fn longest(&self) -> usize {
        self.lengths
            .iter()
            .fold(0, |longest, &length| longest.max(length))
    }

    /// The length of each element of a row, of a tile that is at most a cache line wide.
    #[inline(always)]
    fn elements<const W: usize>(&self) -> ([usize; LINE], usize) {
        let mut lengths = [0; LINE];
        for (column, length) in self.columns() {
            lengths[column.start / W..column.end / W].fill(length);
        }
        (lengths, self.bytes / W)
    }

    /// Copies element by element, with a cache line for each column at hand.
    ///
    /// # Safety
    /// The tile is readable and writable and at most a cache line wide, and the
    /// two places do not overlap.
    unsafe fn copy<const W: usize>(&self) {
        let time = self.plan.time;
        let (lengths, count) = self.elements::<W>();
        for t in 0..time.size {
            for (element, &length) in lengths[..count].iter().enumerate() {
                // SAFETY: the caller's; both time steps are inside the tile.
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
    unsafe fn swap<const W: usize>(&self, longest: usize) {
        let pitch = self.plan.time.output;
        let (lengths, count) = self.elements::<W>();
        for t in 0..longest / 2 {
            for (element, &length) in lengths[..count].iter().enumerate() {
                if t < length / 2 {
                    // SAFETY: the caller's; the two time steps differ and are
                    // inside the tile.
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
    fn starts_lines(&self) -> bool {
        (self.to.addr() | self.plan.time.output).is_multiple_of(LINE)
    }

    /// How many rows ahead of those from `t` on the next are asked for, of `steps`.
    #[inline(always)]
    fn ahead<const R: usize>(&self, t: usize, steps: usize) -> usize {
        let ahead = (AHEAD / self.bytes).max(R);
        if t + R + ahead <= steps { ahead } else { 0 }
    }
}

/// Moves the first rows of a tile, which all lengths end in, by way of the scratch memory.
struct Turn<'a, const W: usize, const R: usize> {
    tile: Tile<'a>,
    scratch: *mut u8,
    steps: usize,
    streams: bool,
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

    /// How many columns of the scratch memory are transposed with a vector of each
    /// lane, of the `all` that are a lane, by a tile of so many.
    #[inline(always)]
    fn columns(all: usize, _of_tile: usize) -> usize {
        all
    }

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
}

impl Cut for Narrow {
    #[inline(always)]
    fn columns(_all: usize, of_tile: usize) -> usize {
        of_tile
    }

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
    unsafe fn turn<V: Vector, C: Cut>(&self) {
        // SAFETY: the caller's.
        unsafe {
            self.read::<V, C>();
            self.reverse::<V>();
            self.write::<V, C>();
        }
    }

    /// Transposes the first `steps` rows into the scratch memory.
    ///
    /// # Safety
    /// As [`turn`](Self::turn).
    #[inline(always)]
    unsafe fn read<V: Vector, C: Cut>(&self) {
        let Self { tile, steps, .. } = *self;
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
                    let to = self.scratch.add(start / W * tile.pitch + t * W);
                    let count = C::columns(R, tile.bytes / W);
                    for (column, vector) in columns.iter().enumerate().take(count) {
                        vector.store_lanes(to.add(column * tile.pitch), R * tile.pitch);
                    }
                }
            }
        }
    }

    /// Reverses the columns in the scratch memory.
    ///
    /// # Safety
    /// The scratch memory holds the tile as [`read`](Self::read) left it.
    #[inline(always)]
    unsafe fn reverse<V: Vector>(&self) {
        let tile = self.tile;
        for (column, length) in tile.columns() {
            for element in column.step_by(W) {
                let column = self.scratch.wrapping_add(element / W * tile.pitch);
                // SAFETY: a column has as many elements as the longest length.
                unsafe { reverse::<V, W>(column, length) };
            }
        }
    }

    /// Transposes the first `steps` rows back.
    ///
    /// # Safety
    /// As [`turn`](Self::turn).
    #[inline(always)]
    unsafe fn write<V: Vector, C: Cut>(&self) {
        let Self { tile, steps, .. } = *self;
        let (to, pitch) = (tile.to, tile.plan.time.output);
        // What is streamed has to be whole lines at once, or memory writes each in parts.
        let streamed = match self.streams && tile.starts_lines() {
            true => tile.bytes / LINE * LINE,
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
                    let from = self.scratch.add(start / W * tile.pitch + t * W);
                    let mut columns = [V::load_lanes(from, R * tile.pitch); R];
                    let last = C::columns(R, tile.bytes / W) - 1;
                    for (column, vector) in columns.iter_mut().enumerate().skip(1) {
                        let from = from.add(column.min(last) * tile.pitch);
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

/// Copies the rows of a tile from `first` on, which no length reaches.
struct Keep<'a> {
    tile: Tile<'a>,
    first: usize,
    streams: bool,
}

impl Task for Keep<'_> {
    /// # Safety
    /// The two places do not overlap.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Tile { plan, from, to, .. } = self.tile;
        let (time, tile) = (plan.time, self.tile);
        let streams = self.streams && tile.starts_lines();
        for t in self.first..time.size {
            let ahead = tile.ahead::<1>(t, time.size) * time.input;
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.add(t * time.input), to.add(t * time.output));
                let mut at = 0;
                while streams && at + LINE <= tile.bytes {
                    prefetch_far(from.wrapping_add(ahead + at));
                    stream_line::<V>(from.add(at), to.add(at));
                    at += LINE;
                }
                copy_inline::<V, Forward>(from.add(at), to.add(at), tile.bytes - at);
            }
        }
    }
}

/// The scratch memory of a thread, made once and lent to one run at a time.
struct Scratch(Vec<Line>);

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    fn lend() -> Self {
        // A thread that is ending has none left.
        let mut lines = SCRATCH.try_with(Cell::take).unwrap_or_default();
        lines.resize(SCRATCH_BYTES / LINE, Line([0; LINE]));
        Self(lines)
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        let _ = SCRATCH.try_with(|scratch| scratch.set(lines));
    }
}
