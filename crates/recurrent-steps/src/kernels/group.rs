//! Functions of elements, fused: blocks that the nearest cache holds go through all of them.
//!
//! A block is read from memory as it lies there, or gathered into a register of the program; each
//! instruction writes a register, and stores write memory again, or add to it what a sum makes of the
//! block. The order of sums depends on the sizes alone.

use rten_simd::{Isa, SimdOp, SimdUnaryOp};
use rten_vecmath::{Cos, Erf, Exp, Sin};

use super::Kernel;
use super::log::log;
use super::memory::Memory;
use crate::elements::Lane;
use crate::function::{Float1, Float2, Function, Int1, Reduction};
use crate::known::{Comparison, Fold, modulo};

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

#[inline(always)]
pub(crate) fn truth(truth: bool) -> f32 {
    f32::from(u8::from(truth))
}

/// Reads elements in order. The size of the first axis is `count`.
#[inline(always)]
fn read<T: Copy>(from: &[T], at: isize, count: usize, axes: &[(usize, isize)], to: &mut [T]) {
    match *axes {
        [] => to.fill(from[at as usize]),
        [(_, stride)] => read_row(from, at, stride, to),
        [(_, outer), (size, stride)] => {
            for (index, to) in to.chunks_exact_mut(size).enumerate().take(count) {
                read_row(from, at + index as isize * outer, stride, to);
            }
        }
        [(_, stride), ref inner @ ..] => {
            let len = to.len() / count.max(1);
            for (index, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
                read_all(from, at + index as isize * stride, inner, to);
            }
        }
    }
}

fn read_all<T: Copy>(from: &[T], at: isize, axes: &[(usize, isize)], to: &mut [T]) {
    match *axes {
        [] => to.fill(from[at as usize]),
        [(_, stride)] => read_row(from, at, stride, to),
        [(size, stride), ref inner @ ..] => {
            let len = to.len() / size.max(1);
            for (index, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
                read_all(from, at + index as isize * stride, inner, to);
            }
        }
    }
}

#[inline(always)]
fn read_row<T: Copy>(from: &[T], at: isize, stride: isize, to: &mut [T]) {
    match stride {
        0 => to.fill(from[at as usize]),
        1 => to.copy_from_slice(&from[at as usize..at as usize + to.len()]),
        2.. => {
            let from = from[at as usize..].iter().step_by(stride as usize);
            for (to, from) in std::iter::zip(to, from) {
                *to = *from;
            }
        }
        _ => {
            for (index, to) in to.iter_mut().enumerate() {
                *to = from[(at + index as isize * stride) as usize];
            }
        }
    }
}

/// Writes elements in order. The size of the first axis is `count`.
fn write<T: Copy>(to: &mut [T], at: isize, count: usize, axes: &[(usize, isize)], from: &[T]) {
    match *axes {
        [] => {
            if let [from] = *from {
                to[at as usize] = from;
            }
        }
        [(_, 1)] => to[at as usize..at as usize + from.len()].copy_from_slice(from),
        [(_, stride)] => {
            for (index, from) in from.iter().enumerate() {
                to[(at + index as isize * stride) as usize] = *from;
            }
        }
        [(_, stride), (size, inner), ref rest @ ..] => {
            let len = from.len() / count.max(1);
            for (index, from) in from.chunks_exact(len.max(1)).enumerate() {
                let at = at + index as isize * stride;
                let axes = &axes[1..];
                debug_assert_eq!(axes.len(), rest.len() + 1, "an axis of {inner}");
                write(to, at, size, axes, from);
            }
        }
    }
}

fn fill<T: Copy>(to: &mut [T], at: isize, axes: &[(usize, isize)], value: T) {
    match *axes {
        [] => to[at as usize] = value,
        [(size, 1)] => to[at as usize..at as usize + size].fill(value),
        [(size, stride), ref inner @ ..] => {
            for index in 0..size {
                fill(to, at + index as isize * stride, inner, value);
            }
        }
    }
}

/// How a reduction adds up.
trait Reduce<T> {
    /// Of an element that is there and another.
    fn two(&self, one: T, other: T) -> T;
    /// Of many.
    fn row(&self, row: &[T]) -> T;
}

/// Sums of floats: 16 at a time, which vectors add up.
struct Sum;

impl Reduce<f32> for Sum {
    #[inline(always)]
    fn two(&self, one: f32, other: f32) -> f32 {
        one + other
    }

    #[inline(always)]
    fn row(&self, row: &[f32]) -> f32 {
        let mut sums = [0.0_f32; 16];
        let chunks = row.chunks_exact(16);
        let mut rest = 0.0;
        for term in chunks.remainder() {
            rest += term;
        }
        for chunk in chunks {
            for (sum, term) in std::iter::zip(&mut sums, chunk) {
                *sum += term;
            }
        }
        let mut width = 8;
        while width > 0 {
            for index in 0..width {
                sums[index] += sums[index + width];
            }
            width /= 2;
        }
        sums[0] + rest
    }
}

/// A function of two, one after another.
struct Each<F>(F);

impl<T: Copy, F: Fn(T, T) -> T> Reduce<T> for Each<F> {
    #[inline(always)]
    fn two(&self, one: T, other: T) -> T {
        self.0(one, other)
    }

    #[inline(always)]
    fn row(&self, row: &[T]) -> T {
        let mut items = row.iter().copied();
        let first = items.next().unwrap_or(row[0]);
        items.fold(first, &self.0)
    }
}

/// Adds elements up where they lie: along axes without a stride they become one.
#[inline(always)]
fn reduce<T: Copy>(
    to: &mut [T],
    at: isize,
    count: usize,
    axes: &[(usize, isize)],
    from: &[T],
    with: &impl Reduce<T>,
) {
    match *axes {
        [] => {
            let to = &mut to[at as usize];
            *to = with.two(*to, with.row(from));
        }
        [(_, stride)] => reduce_row(to, at, stride, from, with),
        [(_, outer), (size, stride)] => {
            for (index, from) in from.chunks_exact(size.max(1)).enumerate() {
                reduce_row(to, at + index as isize * outer, stride, from, with);
            }
        }
        [(_, stride), (size, _), ..] => {
            let len = from.len() / count.max(1);
            for (index, from) in from.chunks_exact(len.max(1)).enumerate() {
                reduce_all(
                    to,
                    at + index as isize * stride,
                    size,
                    &axes[1..],
                    from,
                    with,
                );
            }
        }
    }
}

fn reduce_all<T: Copy>(
    to: &mut [T],
    at: isize,
    count: usize,
    axes: &[(usize, isize)],
    from: &[T],
    with: &impl Reduce<T>,
) {
    match *axes {
        [] | [_] => {
            let stride = axes.first().map_or(0, |axis| axis.1);
            reduce_row(to, at, stride, from, with);
        }
        [(_, stride), (size, _), ..] => {
            let len = from.len() / count.max(1);
            for (index, from) in from.chunks_exact(len.max(1)).enumerate() {
                reduce_all(
                    to,
                    at + index as isize * stride,
                    size,
                    &axes[1..],
                    from,
                    with,
                );
            }
        }
    }
}

#[inline(always)]
fn reduce_row<T: Copy>(to: &mut [T], at: isize, stride: isize, from: &[T], with: &impl Reduce<T>) {
    match stride {
        0 => {
            let to = &mut to[at as usize];
            *to = with.two(*to, with.row(from));
        }
        1 => {
            let to = &mut to[at as usize..at as usize + from.len()];
            for (to, from) in std::iter::zip(to, from) {
                *to = with.two(*to, *from);
            }
        }
        _ => {
            for (index, from) in from.iter().enumerate() {
                let to = &mut to[(at + index as isize * stride) as usize];
                *to = with.two(*to, *from);
            }
        }
    }
}

#[inline(always)]
fn each<A: Copy, B>(from: &[A], to: &mut [B], function: impl Fn(A) -> B) {
    for (to, from) in std::iter::zip(to, from) {
        *to = function(*from);
    }
}

#[inline(always)]
fn both<A: Copy, B>(one: &[A], other: &[A], to: &mut [B], function: impl Fn(A, A) -> B) {
    for (to, (one, other)) in std::iter::zip(to, std::iter::zip(one, other)) {
        *to = function(*one, *other);
    }
}

#[inline(always)]
fn compare<T: PartialOrd + Copy>(comparison: Comparison, one: &[T], other: &[T], to: &mut [f32]) {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    match comparison {
        Equal => both(one, other, to, |a, b| truth(a == b)),
        NotEqual => both(one, other, to, |a, b| truth(a != b)),
        Less => both(one, other, to, |a, b| truth(a < b)),
        LessOrEqual => both(one, other, to, |a, b| truth(a <= b)),
        Greater => both(one, other, to, |a, b| truth(a > b)),
        GreaterOrEqual => both(one, other, to, |a, b| truth(a >= b)),
    }
}

#[inline(always)]
fn select<T: Copy>(condition: &[f32], one: &[T], other: &[T], to: &mut [T]) {
    let operands = std::iter::zip(condition, std::iter::zip(one, other));
    for (to, (condition, (one, other))) in std::iter::zip(to, operands) {
        *to = if *condition == 0.0 { *other } else { *one };
    }
}

#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    // If one is NaN, so is the sum.
    if a > b {
        a
    } else if a <= b {
        b
    } else {
        a + b
    }
}

#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if a < b {
        a
    } else if a >= b {
        b
    } else {
        a + b
    }
}

#[inline(always)]
fn float2(function: Float2, one: &[f32], other: &[f32], to: &mut [f32]) {
    match function {
        Float2::Add => both(one, other, to, |a, b| a + b),
        Float2::Sub => both(one, other, to, |a, b| a - b),
        Float2::Mul => both(one, other, to, |a, b| a * b),
        Float2::Div => both(one, other, to, |a, b| a / b),
        Float2::Max => both(one, other, to, max),
        Float2::Min => both(one, other, to, min),
        Float2::Pow => both(one, other, to, f32::powf),
        Float2::Rest => both(one, other, to, |a, b| a % b),
    }
}

#[inline(always)]
fn float1(function: Float1, from: &[f32], to: &mut [f32]) {
    /// Applies a function of vectors, which finds the processor's by itself.
    macro_rules! vectors {
        ($operation:expr) => {{
            to.copy_from_slice(from);
            $operation.map_mut(to);
        }};
    }
    match function {
        Float1::Abs => each(from, to, f32::abs),
        Float1::Activation(activation) => {
            to.copy_from_slice(from);
            recurrent_layers::activate(activation, to);
        }
        Float1::Ceil => each(from, to, f32::ceil),
        Float1::Cos => vectors!(Cos::new()),
        Float1::Erf => vectors!(Erf {}),
        Float1::Exp => vectors!(Exp {}),
        Float1::Floor => each(from, to, f32::floor),
        Float1::IsNan => each(from, to, |it| truth(it.is_nan())),
        Float1::Log => each(from, to, log),
        Float1::Neg => each(from, to, |it| -it),
        Float1::Not => each(from, to, |it| truth(it == 0.0)),
        Float1::Reciprocal => each(from, to, |it| 1.0 / it),
        Float1::Round => each(from, to, f32::round_ties_even),
        Float1::Sign => each(from, to, |it| {
            if it > 0.0 {
                1.0
            } else if it < 0.0 {
                -1.0
            } else {
                it * 0.0
            }
        }),
        Float1::Sin => vectors!(Sin::new()),
        Float1::Sqrt => each(from, to, f32::sqrt),
    }
}

#[inline(always)]
fn int1(function: Int1, from: &[i64], to: &mut [i64]) {
    match function {
        Int1::Abs => each(from, to, i64::wrapping_abs),
        Int1::Neg => each(from, to, i64::wrapping_neg),
        Int1::Sign => each(from, to, i64::signum),
        Int1::Wrap => each(from, to, |it| i64::from(it as i32)),
    }
}

#[inline(always)]
fn int2(function: Fold, one: &[i64], other: &[i64], to: &mut [i64]) {
    match function {
        Fold::Add => both(one, other, to, i64::wrapping_add),
        Fold::Sub => both(one, other, to, i64::wrapping_sub),
        Fold::Mul => both(one, other, to, i64::wrapping_mul),
        Fold::Div => both(one, other, to, |a, b| match b {
            0 => 0,
            _ => a.wrapping_div(b),
        }),
        Fold::Mod { of_dividend } => both(one, other, to, |a, b| {
            modulo(a, b, of_dividend).unwrap_or_default()
        }),
        Fold::Min => both(one, other, to, i64::min),
        Fold::Max => both(one, other, to, i64::max),
        Fold::And => both(one, other, to, |a, b| a & b),
        Fold::Or => both(one, other, to, |a, b| a | b),
        Fold::Xor => both(one, other, to, |a, b| a ^ b),
        Fold::Compare(comparison) => {
            both(one, other, to, |a, b| comparison.holds(a, b).into());
        }
    }
}
