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
use super::vector::{LANE, Vector, copy_bytes, fence, prefetch_far, transpose};
use super::walk::{Element, Width};
use crate::Plan;
use crate::plan::Loop;

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
    /// are so many time steps that it does not hold a tile.
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
            LANE.. => (LANE, pitch),
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
struct Tile<'a> {
    job: &'a Job<'a>,
    columns: Loop,
    pitch: usize,
    at: Position,
    /// The first byte of the tile in a row of all columns.
    start: usize,
    /// The bytes of the tile's rows.
    bytes: usize,
}

/// Moves the rows of some tiles from their place in the input to their place in the output.
///
/// # Safety
/// The nest is the plan's for the tiling, whose tiles are whole vectors wide,
/// and `tiles` are items of it; `R` elements of `W` bytes are a lane.
#[inline(always)]
pub(super) unsafe fn copy_tiles<V: Vector, const W: usize, const R: usize>(
    job: &Job<'_>,
    tiling: Tiling,
    tiles: Range<usize>,
    streams: bool,
) {
    let mut scratch = Scratch::lend();
    let scratch = scratch.start();
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(tiles, &mut rounds) {
        for step in steps {
            let tile = Tile::new(job, tiling, at, step);
            // SAFETY: see `Job`: a tile is a part of the columns and all of time.
            unsafe {
                let input = job.input.add(at.input + tile.start);
                let output = job.output.add(at.output + tile.start);
                if tiling.pitch == 0 {
                    tile.copy::<W>(input, output);
                    continue;
                }
                let longest = tile.longest::<W>();
                tile.turn::<V, W, R>((input, output), scratch, longest, streams);
                tile.keep::<V>(input, output, longest, streams);
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
    let mut rounds = Rounds::default();
    for (at, steps) in job.nest.lines(tiles, &mut rounds) {
        for step in steps {
            let tile = Tile::new(job, tiling, at, step);
            let longest = tile.longest::<W>();
            if longest <= 1 {
                continue;
            }
            // SAFETY: as in `copy_tiles`.
            unsafe {
                let data = job.output.add(at.output + tile.start);
                if tiling.pitch == 0 {
                    tile.swap::<W>(data, longest);
                    continue;
                }
                tile.turn::<V, W, R>((data, data), scratch, longest, false);
            }
        }
    }
}

impl<'a> Tile<'a> {
    #[inline(always)]
    fn new(job: &'a Job<'a>, tiling: Tiling, at: Position, step: usize) -> Self {
        let columns = job.plan.loops[job.plan.loops.len() - 1];
        let place = tiling.tile(step, columns.size * job.plan.row_bytes);
        Self {
            job,
            columns,
            pitch: tiling.pitch,
            at,
            start: place.start,
            bytes: place.len(),
        }
    }

    /// The length of a column of elements, of which a row may have several.
    #[inline(always)]
    fn length<const W: usize>(&self, column: usize) -> usize {
        let row = (self.start + column * W) / self.job.plan.row_bytes;
        let length = self
            .job
            .lengths
            .get(self.at.lengths + row * self.columns.lengths);
        length.min(self.job.plan.time.size)
    }

    /// The longest length of the tile.
    #[inline(always)]
    fn longest<const W: usize>(&self) -> usize {
        (0..self.bytes / W).fold(0, |longest, column| longest.max(self.length::<W>(column)))
    }

    /// The lengths of all columns of elements.
    #[inline(always)]
    fn lengths<const W: usize>(&self) -> [usize; LINE] {
        let mut lengths = [0; LINE];
        for (column, length) in lengths[..self.bytes / W].iter_mut().enumerate() {
            *length = self.length::<W>(column);
        }
        lengths
    }

    /// Copies element by element, with a cache line for each column at hand.
    ///
    /// # Safety
    /// The tile starts at `from` and `to`, is at most a cache line wide, and the
    /// two do not overlap.
    #[inline(always)]
    unsafe fn copy<const W: usize>(&self, from: *const u8, to: *mut u8) {
        let time = self.job.plan.time;
        let lengths = self.lengths::<W>();
        for t in 0..time.size {
            for (column, &length) in lengths[..self.bytes / W].iter().enumerate() {
                // SAFETY: the caller's; both time steps are inside the tile.
                unsafe {
                    let from = from.add(source(length, t) * time.input + column * W);
                    Element::<W>.copy(from, to.add(t * time.output + column * W));
                }
            }
        }
    }

    /// Exchanges element by element.
    ///
    /// # Safety
    /// The tile starts at `data` and is at most a cache line wide; no length is
    /// more than `longest`.
    #[inline(always)]
    unsafe fn swap<const W: usize>(&self, data: *mut u8, longest: usize) {
        let pitch = self.job.plan.time.output;
        let lengths = self.lengths::<W>();
        for t in 0..longest / 2 {
            for (column, &length) in lengths[..self.bytes / W].iter().enumerate() {
                if t < length / 2 {
                    // SAFETY: the caller's; the two time steps differ and are
                    // inside the tile.
                    unsafe {
                        let data = data.add(column * W);
                        let mirror = data.add((length - 1 - t) * pitch);
                        Element::<W>.swap(data.add(t * pitch), mirror);
                    }
                }
            }
        }
    }

    /// Moves the first `steps` rows, which all lengths end in.
    ///
    /// # Safety
    /// The tile starts at both `places`, where it is read and where it is
    /// written; the scratch memory holds a tile.
    #[inline(always)]
    unsafe fn turn<V: Vector, const W: usize, const R: usize>(
        &self,
        places: (*const u8, *mut u8),
        scratch: *mut u8,
        steps: usize,
        streams: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match self.bytes.is_multiple_of(V::BYTES) {
                true => self.turn_by::<V, W, R, true>(places, scratch, steps, streams),
                false => self.turn_by::<V, W, R, false>(places, scratch, steps, streams),
            }
        }
    }

    /// As [`turn`](Self::turn), by whole vectors alone if `WHOLE`.
    ///
    /// What moves parts of vectors is so much more that only few rows are under
    /// way at a time: with it in the same loop AVX2 took twice as long.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn turn_by<V: Vector, const W: usize, const R: usize, const WHOLE: bool>(
        &self,
        (from, to): (*const u8, *mut u8),
        scratch: *mut u8,
        steps: usize,
        streams: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            self.read::<V, W, R, WHOLE>(from, scratch, steps);
            self.reverse::<V, W>(scratch);
            self.write::<V, W, R, WHOLE>(scratch, to, steps, streams);
        }
    }

    /// Transposes the first `steps` rows into the scratch memory.
    ///
    /// # Safety
    /// `from` is where the tile starts; the scratch memory holds a tile, and the
    /// tile is a number of vectors wide if `WHOLE`.
    #[inline(always)]
    unsafe fn read<V: Vector, const W: usize, const R: usize, const WHOLE: bool>(
        &self,
        from: *const u8,
        scratch: *mut u8,
        steps: usize,
    ) {
        let pitch = self.job.plan.time.input;
        for t in (0..steps).step_by(R) {
            let ahead = self.ahead::<R>(t, steps) * pitch;
            for start in (0..self.bytes).step_by(V::BYTES) {
                let part = match WHOLE {
                    true => V::BYTES,
                    false => (self.bytes - start).min(V::BYTES),
                };
                // SAFETY: rows beyond the last are taken to be the last, which
                // is inside the tile; the scratch memory has room for whole blocks.
                unsafe {
                    let first = from.add(t * pitch + start);
                    prefetch_far(first.wrapping_add(ahead));
                    let mut rows = [load::<V>(first, part); R];
                    for (row, vector) in rows.iter_mut().enumerate().skip(1) {
                        let row = first.add(row.min(steps - 1 - t) * pitch);
                        prefetch_far(row.wrapping_add(ahead));
                        *vector = load::<V>(row, part);
                    }
                    let columns = transpose::<V, W, R>(rows);
                    let to = scratch.add(start / W * self.pitch + t * W);
                    for (column, vector) in columns.iter().enumerate() {
                        vector.store_lanes(to.add(column * self.pitch), R * self.pitch);
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
    unsafe fn reverse<V: Vector, const W: usize>(&self, scratch: *mut u8) {
        for column in 0..self.bytes / W {
            let length = self.length::<W>(column);
            // SAFETY: a column has as many elements as the longest length.
            unsafe { reverse::<V, W>(scratch.add(column * self.pitch), length) };
        }
    }

    /// Transposes the first `steps` rows back.
    ///
    /// # Safety
    /// `to` is where the tile starts; the scratch memory holds the tile, and that
    /// is a number of vectors wide if `WHOLE`.
    #[inline(always)]
    unsafe fn write<V: Vector, const W: usize, const R: usize, const WHOLE: bool>(
        &self,
        scratch: *const u8,
        to: *mut u8,
        steps: usize,
        streams: bool,
    ) {
        let pitch = self.job.plan.time.output;
        let streams = streams && self.starts_lines(to);
        // What is streamed has to be whole lines at once, or memory writes each in parts.
        let gathers = streams && V::BYTES < LINE;
        let mut lines = [Line([0; LINE]); R];
        for t in (0..steps).step_by(R) {
            let ahead = self.ahead::<R>(t, steps) * pitch;
            for start in (0..self.bytes).step_by(V::BYTES) {
                let part = match WHOLE {
                    true => V::BYTES,
                    false => (self.bytes - start).min(V::BYTES),
                };
                // SAFETY: only rows and bytes of the tile are written; a vector
                // is streamed to a multiple of its bytes, as start, place and
                // pitch all are. The scratch memory has room for whole blocks.
                unsafe {
                    let from = scratch.add(start / W * self.pitch + t * W);
                    let mut columns = [V::load_lanes(from, R * self.pitch); R];
                    for (column, vector) in columns.iter_mut().enumerate().skip(1) {
                        let from = from.add(column * self.pitch);
                        *vector = V::load_lanes(from, R * self.pitch);
                    }
                    let rows = transpose::<V, W, R>(columns);
                    let to = to.add(t * pitch + start);
                    if gathers {
                        for (vector, line) in rows.iter().zip(&mut lines) {
                            vector.store(line.0.as_mut_ptr().add(start % LINE));
                        }
                        let filled = start % LINE + part;
                        if filled == LINE || start + part == self.bytes {
                            let rows = &lines[..R.min(steps - t)];
                            stream_lines::<V>(rows, to.sub(start % LINE), pitch, filled);
                        }
                        continue;
                    }
                    for (row, vector) in rows.iter().take(steps - t).enumerate() {
                        let to = to.add(row * pitch);
                        match part == V::BYTES {
                            true if streams => vector.stream(to),
                            true => {
                                prefetch_far(to.wrapping_add(ahead));
                                vector.store(to);
                            }
                            false => vector.store_part(to, part),
                        }
                    }
                }
            }
        }
    }

    /// Copies the rows from `first` on, which no length reaches.
    ///
    /// # Safety
    /// The tile starts at `from` and `to`, and the two do not overlap.
    #[inline(always)]
    unsafe fn keep<V: Vector>(&self, from: *const u8, to: *mut u8, first: usize, streams: bool) {
        let time = self.job.plan.time;
        let streams = streams && self.starts_lines(to);
        for t in first..time.size {
            let ahead = self.ahead::<1>(t, time.size) * time.input;
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.add(t * time.input), to.add(t * time.output));
                let mut at = 0;
                while streams && at + LINE <= self.bytes {
                    prefetch_far(from.wrapping_add(ahead + at));
                    stream_line::<V>(from.add(at), to.add(at));
                    at += LINE;
                }
                copy_inline::<V, Forward>(from.add(at), to.add(at), self.bytes - at);
            }
        }
    }

    /// Whether every row starts a cache line of the output, where the tile starts at `to`.
    #[inline(always)]
    fn starts_lines(&self, to: *mut u8) -> bool {
        (to.addr() | self.job.plan.time.output).is_multiple_of(LINE)
    }

    /// How many rows ahead of those from `t` on the next are asked for, of `steps`.
    #[inline(always)]
    fn ahead<const R: usize>(&self, t: usize, steps: usize) -> usize {
        let ahead = (AHEAD / self.bytes).max(R);
        if t + R + ahead <= steps { ahead } else { 0 }
    }
}

/// Writes `filled` bytes of each row past the caches, unless they are less than a line.
///
/// # Safety
/// `to` is the start of a line, `pitch` a number of lines, and the rows are writable.
#[inline(always)]
unsafe fn stream_lines<V: Vector>(rows: &[Line], to: *mut u8, pitch: usize, filled: usize) {
    for (row, line) in rows.iter().enumerate() {
        let (line, to) = (line.0.as_ptr(), to.wrapping_add(row * pitch));
        // SAFETY: the caller's.
        unsafe {
            match filled == LINE {
                true => stream_line::<V>(line, to),
                false => copy_bytes(line, to, filled),
            }
        }
    }
}

/// Loads a vector, or a part of one at the end of a row.
///
/// # Safety
/// See [`Vector`]; `from` is readable for `bytes`, at most a vector's.
#[inline(always)]
unsafe fn load<V: Vector>(from: *const u8, bytes: usize) -> V {
    // SAFETY: the caller's.
    unsafe {
        match bytes == V::BYTES {
            true => V::load(from),
            false => V::load_part(from, bytes),
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
