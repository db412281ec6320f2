//! A slab as one dispatch: its kernel, bindings and parameters.

use std::ops::Range;

use super::shader::{Kernel, WORKGROUP_SIZE};
use super::slabs::{Excess, ExcessKind, LengthsLayout, Motion, Nest, Slab};

/// The loops that the shader has room for.
///
/// Elements of the output are distinct and one binding has less than 2^31
/// bytes, so at most 30 loops have more than one iteration; the row makes 31.
const MAXIMUM_LOOPS: usize = 32;

/// The words of the shader's `Params` before its loops.
const HEADER_WORDS: usize = 28;

/// The bytes of columns with lengths of their own that are moved together: what memory
/// moves at once.
const SECTOR: u64 = 32;

/// The time steps of an invocation, for which it computes one address.
const STEPS_OF_UNITS: u64 = 4;

/// The same of words, or the words along time.
const STEPS_OF_WORDS: u64 = 8;

/// The invocations that fill a device, from which on they have several time steps.
const MANY: u64 = 1 << 17;

/// The bytes of the shader's `Params`.
const PARAMS_BYTES: usize = 4 * (HEADER_WORDS + 4 * MAXIMUM_LOOPS);

/// The limits of one dispatch on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most bytes of a binding.
    binding_bytes: u64,
    /// The alignment of a binding's offset.
    alignment: u64,
    /// The most workgroups in each dimension.
    workgroups: u64,
}

impl Limits {
    pub(super) fn new(limits: &wgpu::Limits) -> Self {
        Self {
            // Offsets in bytes stay in 32 bits.
            binding_bytes: limits.max_storage_buffer_binding_size.min((1 << 31) - 4),
            // At least a unit, so that a slab's start in its binding keeps its alignment.
            alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(16),
            workgroups: u64::from(limits.max_compute_workgroups_per_dimension),
        }
    }

    /// The most invocations; 2^31 is all that the bytes of a binding can need.
    fn items(&self) -> u64 {
        (self.workgroups * self.workgroups * u64::from(WORKGROUP_SIZE)).min(1 << 31)
    }
}

/// The starts of the tensors in their buffers, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) input: u64,
    pub(super) lengths: u64,
    pub(super) output: u64,
}

/// A range of a buffer that is bound, from an aligned offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// The binding's offset in the buffer, in bytes.
    pub(super) offset: u64,
    /// The binding's size in bytes, whole words.
    pub(super) bytes: u64,
    /// The start of the slab in the binding, in bytes.
    base: u64,
}

impl Window {
    /// The window of a part of a tensor, or its excess.
    fn new(
        kind: ExcessKind,
        tensor: u64,
        part: Range<u64>,
        limits: &Limits,
    ) -> Result<Self, Excess> {
        let [start, end] = [tensor + part.start, tensor + part.end];
        let offset = start / limits.alignment * limits.alignment;
        let bytes = (end - offset).next_multiple_of(4);
        Excess::check(kind, bytes, limits.binding_bytes)?;
        Ok(Self {
            offset,
            bytes,
            base: start - offset,
        })
    }
}

/// One dispatch.
#[derive(Clone, Debug)]
pub(super) struct Dispatch {
    pub(super) kernel: Kernel,
    /// The bytes that move together.
    pub(super) unit_bytes: u64,
    /// Whether the two halves of pairs are bound apart.
    pub(super) apart: bool,
    pub(super) input: Window,
    pub(super) lengths: Window,
    pub(super) output: Window,
    /// The shader's `Params`.
    pub(super) params: Vec<u32>,
    /// The workgroups in each dimension.
    pub(super) workgroups: (u32, u32, u32),
}

/// A loop of the shader, in bytes.
#[derive(Clone, Copy)]
struct Level {
    size: u64,
    input: u64,
    output: u64,
    lengths: u64,
    is_time: bool,
}

/// Work of a kernel on the levels of a slab.
struct Work {
    kernel: Kernel,
    levels: Vec<Level>,
    /// The bytes that offsets count in.
    scale: u64,
    /// The bytes of a row, as the shader has them.
    row_bytes: u64,
    /// The first level of a block, what is in it, and the items of that.
    block_loop: usize,
    block_size: u64,
    block_items: u64,
    /// The items of a block that are in one layer of the dispatch; 0 for all.
    group: u64,
    /// The time steps or words of an item, and how far apart they are.
    steps: u64,
    stride: u64,
}

impl Work {
    /// The items of a layer of the dispatch, and the layers.
    fn items(&self) -> (u64, u64) {
        let rounds = items(&self.levels[..self.block_loop]);
        match self.group {
            0 => (rounds * self.block_items, 1),
            group => (rounds * group, self.block_items.div_ceil(group)),
        }
    }

    /// The same with the levels from one on as a block.
    fn with_block(self, block_loop: usize, block_size: u64) -> Self {
        Self {
            block_loop,
            block_size,
            block_items: block_size,
            ..self
        }
    }

    /// The same with several time steps an item if there are enough items, and with layers
    /// of columns that have lengths of their own and share a sector.
    fn in_steps(mut self, steps: u64, item_bytes: u64, row_bytes: u64) -> Self {
        let steps = if self.items().0 < MANY { 1 } else { steps };
        let (outside, block) = self.levels.split_at_mut(self.block_loop);
        let parted = match outside.iter_mut().find(|level| level.is_time) {
            Some(time) => &mut time.size,
            None => &mut self.block_items,
        };
        self.steps = steps.min(*parted);
        self.stride = parted.div_ceil(self.steps);
        *parted = self.stride;
        let has_time = outside.iter().any(|level| level.is_time);
        let has_lengths = block.iter().any(|level| level.lengths > 0);
        if has_time && has_lengths && row_bytes < SECTOR {
            self.group = SECTOR / item_bytes;
        }
        self
    }
}

/// Makes dispatches of slabs.
pub(super) struct Builder<'a> {
    pub(super) nest: &'a Nest,
    pub(super) limits: Limits,
    pub(super) offsets: Offsets,
    pub(super) layout: LengthsLayout,
    /// The most that a length can be.
    pub(super) axis_size: u32,
    /// The bytes that move together: 1, 2, 4, 8 or 16.
    pub(super) unit_bytes: u64,
}

impl Builder<'_> {
    /// The dispatch of a slab, or the part that exceeds one.
    pub(super) fn dispatch(&self, slab: &Slab) -> Result<Dispatch, Excess> {
        let (nest, offsets, limits) = (self.nest, &self.offsets, &self.limits);
        let lengths = slab.lengths(nest, self.layout);
        let indices = lengths.start / self.layout.bytes()..lengths.end / self.layout.bytes();
        let lengths = Window::new(ExcessKind::Lengths, offsets.lengths, lengths, limits)?;
        let (mut input, mut output) = (Window::default(), Window::default());
        if nest.motion != Motion::Check {
            input = Window::new(ExcessKind::Input, offsets.input, slab.input(nest), limits)?;
            output = Window::new(
                ExcessKind::Output,
                offsets.output,
                slab.output(nest),
                limits,
            )?;
        }
        let work = self.work(slab, output.base);
        let (items, layers) = work.items();
        let is_too_large = items > self.limits.items() || layers > self.limits.workgroups;
        if is_too_large || work.levels.len() > MAXIMUM_LOOPS {
            return Err(Excess {
                kind: ExcessKind::Items,
                actual: items * layers,
                maximum: self.limits.items(),
            });
        }
        // Full rows of workgroups, as few as possible.
        let workgroups = items.div_ceil(u64::from(WORKGROUP_SIZE));
        let height = workgroups.div_ceil(self.limits.workgroups);
        let width = workgroups.div_ceil(height);
        let dispatch_width = width * u64::from(WORKGROUP_SIZE);

        let levels = &work.levels;
        let time_loop = levels.iter().position(|level| level.is_time);
        let time_input = if slab.from.len() > 1 {
            self.nest.time.input as u64 / work.scale
        } else {
            0
        };
        let block_size = match self.nest.motion {
            Motion::Check => indices.end - indices.start,
            Motion::Copy | Motion::Swap => work.block_size,
        };
        // Everything here is an offset in a binding, a number of items or a time step.
        let mut params: Vec<u32> = [
            items,
            dispatch_width,
            levels.len() as u64,
            time_loop.unwrap_or(levels.len()) as u64,
            input.base / work.scale,
            output.base / work.scale,
            lengths.base / 4,
            self.layout.words.into(),
            self.layout.signed.into(),
            self.axis_size.into(),
            slab.to.start as u64,
            slab.to.end as u64,
            slab.from.start as u64,
            slab.from.end as u64,
            time_input,
            work.row_bytes,
            self.unit_bytes,
            work.block_loop as u64,
            block_size,
            indices.start,
            work.block_items,
            work.group,
            work.steps,
            work.stride,
            self.nest.time.output as u64 / work.scale,
            0,
            0,
            0,
        ]
        .map(|value| value as u32)
        .to_vec();
        for level in levels {
            let steps = [
                level.size,
                level.input / work.scale,
                level.output / work.scale,
            ];
            params.extend(steps.map(|value| value as u32));
            params.push(level.lengths as u32);
        }
        params.resize(PARAMS_BYTES / 4, 0);
        Ok(Dispatch {
            kernel: work.kernel,
            unit_bytes: self.unit_bytes,
            apart: slab.is_apart(self.nest),
            input,
            lengths,
            output,
            params,
            workgroups: (width as u32, height as u32, layers as u32),
        })
    }

    /// The kernel that a slab needs, whose output starts `base` bytes into its binding.
    fn work(&self, slab: &Slab, base: u64) -> Work {
        let (nest, unit) = (self.nest, self.unit_bytes);
        let row = slab.row.len() as u64;
        // An axis whose steps are neighbours: pairs along it mirror whole words.
        let along_time = row == unit && nest.time.output as u64 == unit;
        let words = |bytes: u64| (bytes + 4 - unit).div_ceil(4);
        let plain = |kernel, levels: Vec<Level>, scale| Work {
            kernel,
            block_loop: levels.len(),
            levels,
            scale,
            row_bytes: 0,
            block_size: 1,
            block_items: 1,
            group: 0,
            steps: 1,
            stride: 1,
        };
        // Units within a time step.
        let units = |kernel| {
            let work = plain(kernel, self.levels(slab, true, true), unit);
            match work.levels.iter().position(|level| level.is_time) {
                Some(time) => {
                    let size = items(&work.levels[time + 1..]);
                    work.with_block(time + 1, size)
                        .in_steps(STEPS_OF_UNITS, unit, row)
                }
                None => work,
            }
        };
        match nest.motion {
            Motion::Check => plain(Kernel::CheckLengths, self.levels(slab, false, false), 1),
            Motion::Copy if unit >= 4 => units(Kernel::CopyUnits),
            Motion::Copy => {
                let levels = self.levels(slab, true, true);
                match block(&levels, unit, base % 4) {
                    Some((first, size)) => plain(Kernel::CopyWords, levels, 1)
                        .with_block(first, size)
                        .in_steps(STEPS_OF_WORDS, 4, row),
                    None => plain(Kernel::CopyGranules, levels, 1),
                }
            }
            Motion::Swap if unit >= 4 => units(Kernel::SwapUnits),
            Motion::Swap => {
                let levels = self.levels(slab, !along_time, false);
                if let Some(columns) = columns(&levels, unit) {
                    let first = levels.len() - 1;
                    return plain(Kernel::SwapColumns, levels, 1)
                        .with_block(first, (columns * unit).div_ceil(4))
                        .in_steps(STEPS_OF_WORDS, 4, row);
                }
                let (row_bytes, size) = if along_time {
                    (0, words(nest.written_steps(&slab.to) as u64 * unit))
                } else {
                    (row, words(row))
                };
                let first = levels.len();
                Work {
                    row_bytes,
                    ..plain(Kernel::SwapWords, levels, 1).with_block(first, size)
                }
            }
        }
    }

    /// The loops of a slab with more than one iteration, from the largest
    /// output stride to the smallest.
    fn levels(&self, slab: &Slab, with_time: bool, with_row: bool) -> Vec<Level> {
        let nest = self.nest;
        let mut levels: Vec<_> = slab
            .rounds
            .iter()
            .zip(&nest.loops)
            .map(|(rounds, round)| Level {
                size: rounds.len() as u64,
                input: round.input as u64,
                output: round.output as u64,
                lengths: round.lengths as u64,
                is_time: false,
            })
            .collect();
        if with_time {
            let time = Level {
                size: nest.written_steps(&slab.to) as u64,
                input: 0,
                output: nest.time.output as u64,
                lengths: 0,
                is_time: true,
            };
            levels.insert(nest.outside_time, time);
        }
        if with_row {
            levels.push(Level {
                size: slab.row.len() as u64 / self.unit_bytes,
                input: self.unit_bytes,
                output: self.unit_bytes,
                lengths: 0,
                is_time: false,
            });
        }
        levels.retain(|level| level.size > 1);
        levels
    }
}

/// The columns of one granule each that lie side by side within the time steps.
fn columns(levels: &[Level], granule: u64) -> Option<u64> {
    let (last, outside) = levels.split_last()?;
    let is_column = [last.input, last.output] == [granule; 2] && granule < 4;
    (is_column && outside.iter().any(|level| level.is_time)).then_some(last.size)
}

fn items(levels: &[Level]) -> u64 {
    levels.iter().map(|level| level.size).product()
}

/// The levels that are resolved by address, and the words that they cover.
///
/// A block is the range that the innermost levels reach from one place. Blocks
/// start at whole words and share none, and inside a block every address has
/// at most one coordinate: each level's step exceeds the reach of all inside it.
/// `None` if the output is not laid out like that, or has mostly gaps.
fn block(levels: &[Level], granule: u64, start: u64) -> Option<(usize, u64)> {
    // The levels out here move by whole words.
    let whole_words = levels
        .iter()
        .take_while(|level| level.output % 4 == 0)
        .count();
    let mut first = levels.len();
    let mut reach = granule;
    while let Some(level) = levels[..first].last() {
        let words = (start + reach).div_ceil(4);
        if first <= whole_words && level.output >= 4 * words {
            break;
        }
        if level.output < reach {
            return None;
        }
        reach += (level.size - 1) * level.output;
        first -= 1;
    }
    let words = (start + reach).div_ceil(4);
    let mut span = 4 * words;
    for level in levels[..first].iter().rev() {
        if level.output < span {
            return None;
        }
        span += (level.size - 1) * level.output;
    }
    (words <= items(&levels[first..])).then_some((first, words))
}
