//! Functions of elements, fused: blocks that the nearest cache holds go through all of them.
//!
//! A block is read from memory as it lies there, or gathered into a register of the program; each
//! instruction writes a register, and stores write memory again, or add to it what a sum makes of the
//! block. The order of sums depends on the sizes alone.

use rten_simd::{Isa, SimdOp};

use super::Kernel;
use super::functions::{compare, each, float1, float2, int1, int2, max, min, select, truth};
use super::memory::Memory;
use super::strided::{Each, Sum, fill, read, reduce, write};
use crate::elements::Lane;
use crate::function::{Function, Reduction};

/// The most elements of a block.
pub(crate) const BLOCK: usize = 512;

/// The place of an operand or a result in memory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) buffer: usize,
    pub(crate) lane: Lane,
    pub(crate) offset: isize,
    pub(crate) step: isize,
    /// Along the axes that blocks are taken from, the one that is cut into blocks last.
    pub(crate) outer: Vec<isize>,
    /// The axes of a block, merged: sizes and strides. The size of the first is that of a whole block.
    pub(crate) block: Vec<(usize, isize)>,
    /// The elements of the first axis for each element of the axis that is cut.
    pub(crate) unit: usize,
}

impl Place {
    /// Whether the elements of a block lie one after another.
    fn is_contiguous(&self) -> bool {
        matches!(self.block[..], [] | [(_, 1)])
    }
}

/// Where an instruction reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A load, as it lies in memory.
    Direct(usize),
    Register(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) function: Function,
    pub(crate) operands: [Operand; 3],
    /// The register of the result, which no operand is in.
    pub(crate) to: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) place: Place,
    /// The register, unless instructions read memory.
    pub(crate) register: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) from: Operand,
    pub(crate) place: Place,
    pub(crate) reduction: Option<Reduction>,
}

/// Fused functions of elements.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The axes that blocks are taken from, outermost first.
    pub(crate) outer: Vec<usize>,
    /// The size of the axis that is cut into blocks, and how many of it a block has.
    pub(crate) cut: (usize, usize),
    /// The elements of a block for each of the cut axis.
    pub(crate) inner: usize,
    pub(crate) loads: Vec<Load>,
    pub(crate) code: Vec<Instruction>,
    pub(crate) stores: Vec<Store>,
}

/// Registers of a program.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    floats: Vec<Vec<f32>>,
    ints: Vec<Vec<i64>>,
    /// The places of loads in a block, and of stores.
    at: Vec<isize>,
}

impl Registers {
    /// Makes room for a kernel.
    pub(crate) fn fit(&mut self, kernel: &Kernel) {
        let Kernel::Group(group) = kernel else {
            return;
        };
        for instruction in &group.code {
            self.fit_one(instruction.function.lanes().1, instruction.to);
        }
        for load in &group.loads {
            if let Some(register) = load.register {
                self.fit_one(load.place.lane, register);
            }
        }
        let places = group.loads.len() + group.stores.len();
        self.at.resize(self.at.len().max(places), 0);
    }

    fn fit_one(&mut self, lane: Lane, register: usize) {
        match lane {
            Lane::Float if self.floats.len() <= register => {
                self.floats.resize(register + 1, vec![0.0; BLOCK]);
            }
            Lane::Int if self.ints.len() <= register => {
                self.ints.resize(register + 1, vec![0; BLOCK]);
            }
            _ => {}
        }
    }
}

impl Group {
    /// Runs the group at a step. Registers fit it.
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], registers: &mut Registers, step: usize) {
        struct Run<'a, 'b> {
            group: &'a Group,
            memory: &'a mut [Memory<'b>],
            registers: &'a mut Registers,
            step: isize,
        }
        impl SimdOp for Run<'_, '_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, _isa: I) {
                self.group.blocks(self.memory, self.registers, self.step);
            }
        }
        let step = step as isize;
        Run {
            group: self,
            memory,
            registers,
            step,
        }
        .dispatch();
    }

    #[inline(always)]
    fn blocks(&self, memory: &mut [Memory<'_>], registers: &mut Registers, step: isize) {
        for store in &self.stores {
            if let Some(reduction) = store.reduction {
                self.clear(&store.place, reduction, memory, step);
            }
        }
        let (size, chunk) = self.cut;
        if size * self.inner == 0 || self.outer.contains(&0) {
            return;
        }
        let mut index = [0_usize; MAXIMUM_AXES];
        loop {
            let mut start = 0;
            while start < size {
                let count = chunk.min(size - start);
                let len = count * self.inner;
                let places = self.loads.iter().map(|load| &load.place);
                let places = places.chain(self.stores.iter().map(|store| &store.place));
                for (at, place) in std::iter::zip(&mut registers.at, places) {
                    let (cut, outer) = place.outer.split_last().unwrap_or((&0, &[]));
                    let mut to = place.offset + place.step * step + cut * start as isize;
                    for (stride, index) in std::iter::zip(outer, &index) {
                        to += stride * *index as isize;
                    }
                    *at = to;
                }
                for (number, load) in self.loads.iter().enumerate() {
                    if let Some(register) = load.register {
                        let at = registers.at[number];
                        let (place, count) = (&load.place, count * load.place.unit);
                        match place.lane {
                            Lane::Float => read(
                                memory[place.buffer].floats(),
                                at,
                                count,
                                &place.block,
                                &mut registers.floats[register][..len],
                            ),
                            Lane::Int => read(
                                memory[place.buffer].ints(),
                                at,
                                count,
                                &place.block,
                                &mut registers.ints[register][..len],
                            ),
                        }
                    }
                }
                for instruction in &self.code {
                    self.instruction(instruction, memory, registers, len);
                }
                for (number, store) in self.stores.iter().enumerate() {
                    let at = registers.at[self.loads.len() + number];
                    self.store(store, at, count, len, memory, registers);
                }
                start += chunk;
            }
            // The next block of the outer axes.
            let mut axis = self.outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < self.outer[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }

    /// Writes the result of no elements where a reduction adds up.
    fn clear(&self, place: &Place, reduction: Reduction, memory: &mut [Memory<'_>], step: isize) {
        let mut axes: Vec<(usize, isize)> = std::iter::zip(
            self.outer.iter().copied().chain([self.cut.0]),
            place.outer.iter().copied(),
        )
        .collect();
        // The cut axis is the first of a block, or a part of it.
        let inner = &place.block;
        match (place.unit, inner.split_first()) {
            (1, Some((_, rest))) => axes.extend(rest),
            (unit, Some((&(_, stride), rest))) => {
                axes.push((unit, stride));
                axes.extend(rest);
            }
            (_, None) => {}
        }
        axes.retain(|axis| axis.1 != 0);
        let at = place.offset + place.step * step;
        match place.lane {
            Lane::Float => fill(
                memory[place.buffer].floats_mut(),
                at,
                &axes,
                reduction.neutral(),
            ),
            Lane::Int => fill(
                memory[place.buffer].ints_mut(),
                at,
                &axes,
                reduction.neutral_int(),
            ),
        }
    }

    #[inline(always)]
    fn floats<'a>(
        &self,
        operand: Operand,
        memory: &'a [Memory<'_>],
        registers: &'a Registers,
        len: usize,
    ) -> &'a [f32] {
        match operand {
            Operand::Direct(load) => {
                let at = registers.at[load] as usize;
                &memory[self.loads[load].place.buffer].floats()[at..at + len]
            }
            Operand::Register(register) => &registers.floats[register][..len],
        }
    }

    #[inline(always)]
    fn ints<'a>(
        &self,
        operand: Operand,
        memory: &'a [Memory<'_>],
        registers: &'a Registers,
        len: usize,
    ) -> &'a [i64] {
        match operand {
            Operand::Direct(load) => {
                let at = registers.at[load] as usize;
                &memory[self.loads[load].place.buffer].ints()[at..at + len]
            }
            Operand::Register(register) => &registers.ints[register][..len],
        }
    }

    #[inline(always)]
    fn instruction(
        &self,
        instruction: &Instruction,
        memory: &[Memory<'_>],
        registers: &mut Registers,
        len: usize,
    ) {
        let [one, two, three] = instruction.operands;
        match instruction.function.lanes().1 {
            Lane::Float => {
                // Taken out so that the other registers can be read; no operand is in it.
                let mut taken = std::mem::take(&mut registers.floats[instruction.to]);
                let to = &mut taken[..len];
                let floats = |operand| self.floats(operand, memory, registers, len);
                let ints = |operand| self.ints(operand, memory, registers, len);
                match instruction.function {
                    Function::Float1(function) => float1(function, floats(one), to),
                    Function::Float2(function) => float2(function, floats(one), floats(two), to),
                    Function::CompareFloats(comparison) => {
                        compare(comparison, floats(one), floats(two), to);
                    }
                    Function::CompareInts(comparison) => {
                        compare(comparison, ints(one), ints(two), to);
                    }
                    Function::Select(_) => select(floats(one), floats(two), floats(three), to),
                    Function::FloatOfInt => each(ints(one), to, |it| it as f32),
                    Function::TruthOfFloat => each(floats(one), to, |it| truth(it != 0.0)),
                    Function::TruthOfInt => each(ints(one), to, |it| truth(it != 0)),
                    Function::Move(_)
                    | Function::Int1(_)
                    | Function::Int2(_)
                    | Function::IntOfFloat => to.copy_from_slice(floats(one)),
                }
                registers.floats[instruction.to] = taken;
            }
            Lane::Int => {
                let mut taken = std::mem::take(&mut registers.ints[instruction.to]);
                let to = &mut taken[..len];
                let floats = |operand| self.floats(operand, memory, registers, len);
                let ints = |operand| self.ints(operand, memory, registers, len);
                match instruction.function {
                    Function::Int1(function) => int1(function, ints(one), to),
                    Function::Int2(function) => int2(function, ints(one), ints(two), to),
                    Function::Select(_) => select(floats(one), ints(two), ints(three), to),
                    Function::IntOfFloat => each(floats(one), to, |it| it as i64),
                    _ => to.copy_from_slice(ints(one)),
                }
                registers.ints[instruction.to] = taken;
            }
        }
    }

    #[inline(always)]
    fn store(
        &self,
        store: &Store,
        at: isize,
        count: usize,
        len: usize,
        memory: &mut [Memory<'_>],
        registers: &Registers,
    ) {
        let place = &store.place;
        let count = count * place.unit;
        match place.lane {
            Lane::Float => {
                let from = match store.from {
                    Operand::Register(register) => &registers.floats[register][..len],
                    Operand::Direct(_) => return,
                };
                let to = memory[place.buffer].floats_mut();
                match store.reduction {
                    None if place.is_contiguous() => {
                        to[at as usize..at as usize + len].copy_from_slice(from);
                    }
                    None => write(to, at, count, &place.block, from),
                    Some(Reduction::Sum) => {
                        reduce(to, at, count, &place.block, from, &Sum);
                    }
                    Some(Reduction::Product) => {
                        reduce(to, at, count, &place.block, from, &Each(|a, b| a * b));
                    }
                    Some(Reduction::Max) => {
                        reduce(to, at, count, &place.block, from, &Each(max));
                    }
                    Some(Reduction::Min) => {
                        reduce(to, at, count, &place.block, from, &Each(min));
                    }
                }
            }
            Lane::Int => {
                let from = match store.from {
                    Operand::Register(register) => &registers.ints[register][..len],
                    Operand::Direct(_) => return,
                };
                let to = memory[place.buffer].ints_mut();
                let function: fn(i64, i64) -> i64 = match store.reduction {
                    None => return write(to, at, count, &place.block, from),
                    Some(Reduction::Sum) => i64::wrapping_add,
                    Some(Reduction::Product) => i64::wrapping_mul,
                    Some(Reduction::Max) => i64::max,
                    Some(Reduction::Min) => i64::min,
                };
                reduce(to, at, count, &place.block, from, &Each(function));
            }
        }
    }
}

/// The most axes that a group has after merging.
pub(crate) const MAXIMUM_AXES: usize = 16;
