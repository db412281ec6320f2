//! Products with constants, and what looks elements up.

use std::cmp::Ordering;

use recurrent_layers::{PackedMatrix, Threads};

use super::functions::{max, min};
use super::memory::Memory;
use crate::elements::Lane;
use crate::error::Error;
use crate::function::Reduction;

/// Where elements start in a buffer, and how far that moves with a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) buffer: usize,
    pub(crate) offset: isize,
    pub(crate) step: isize,
}

impl At {
    pub(crate) fn start(self, step: usize) -> isize {
        self.offset + self.step * step as isize
    }
}

/// Products of rows with constant matrices, one for each part of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) matrices: Vec<PackedMatrix<f32>>,
    /// The elements of the rows of a matrix, and of their products.
    pub(crate) lens: [usize; 2],
    pub(crate) from: At,
    pub(crate) to: At,
}

impl Product {
    pub(crate) fn run(
        &self,
        memory: &mut [Memory<'_>],
        step: usize,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let mut taken = take(memory, self.to.buffer);
        let from = self.from.start(step) as usize;
        let to = self.to.start(step) as usize;
        let [rows, products] = self.lens;
        let mut run = || {
            for (index, matrix) in self.matrices.iter().enumerate() {
                let from = &memory[self.from.buffer].floats()[from + index * rows..][..rows];
                let to = &mut taken.floats_mut()[to + index * products..][..products];
                matrix.multiply(from, to, threads)?;
            }
            Ok(())
        };
        let done = run();
        memory[self.to.buffer] = taken;
        done
    }
}

/// Takes a buffer out, so that others can be read while it is written.
pub(super) fn take<'a>(memory: &mut [Memory<'a>], buffer: usize) -> Memory<'a> {
    std::mem::replace(&mut memory[buffer], Memory::Floats(Vec::new()))
}

/// Elements at indices that a step computes. The output is contiguous.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    /// The sizes of the output, and the strides of indices and of what they are looked up in.
    pub(crate) axes: Vec<(usize, [isize; 2])>,
    pub(crate) indices: At,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) lane: Lane,
    /// The size and the stride of the axis that indices are of.
    pub(crate) axis: (usize, isize),
}

/// Checks an index, and counts one from the end.
fn normal(index: i64, size: usize) -> Result<usize, Error> {
    let from_end = if index < 0 { size as i64 } else { 0 };
    let place = index.checked_add(from_end);
    let place = place.and_then(|place| usize::try_from(place).ok());
    let place = place.filter(|&place| place < size);
    place.ok_or(Error::Index { index, size })
}

impl Pick {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) -> Result<(), Error> {
        let mut taken = take(memory, self.to.buffer);
        let places = [self.indices.start(step), self.from.start(step)];
        let to = self.to.start(step) as usize;
        let indices = memory[self.indices.buffer].ints();
        let from = &memory[self.from.buffer];
        let done = match self.lane {
            Lane::Float => self.pick(
                indices,
                from.floats(),
                places,
                &mut taken.floats_mut()[to..],
            ),
            Lane::Int => self.pick(indices, from.ints(), places, &mut taken.ints_mut()[to..]),
        };
        memory[self.to.buffer] = taken;
        done
    }

    fn pick<T: Copy>(
        &self,
        indices: &[i64],
        from: &[T],
        starts: [isize; 2],
        to: &mut [T],
    ) -> Result<(), Error> {
        // A row of one index is copied at once.
        let (row, outer) = match self.axes.split_last() {
            Some((&(size, [0, stride]), outer)) => ((size, stride), outer),
            _ => ((1, 1), &self.axes[..]),
        };
        let count: usize = outer.iter().map(|axis| axis.0).product();
        if row.0 == 0 {
            return Ok(());
        }
        for (number, to) in to.chunks_exact_mut(row.0).take(count).enumerate() {
            let (mut rest, mut places) = (number, starts);
            for (size, strides) in outer.iter().rev() {
                for (place, stride) in std::iter::zip(&mut places, strides) {
                    *place += (rest % size) as isize * stride;
                }
                rest /= size;
            }
            let index = normal(indices[places[0] as usize], self.axis.0)?;
            let start = places[1] + index as isize * self.axis.1;
            if row.1 == 1 {
                to.copy_from_slice(&from[start as usize..start as usize + row.0]);
            } else {
                for (number, to) in to.iter_mut().enumerate() {
                    *to = from[(start + number as isize * row.1) as usize];
                }
            }
        }
        Ok(())
    }
}

/// Writes elements to places that a step computes, of a buffer that holds the others.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    /// The sizes of the updates, and the strides of indices, updates and the output.
    pub(crate) axes: Vec<(usize, [isize; 3])>,
    pub(crate) indices: At,
    pub(crate) updates: At,
    pub(crate) to: At,
    pub(crate) lane: Lane,
    /// The sizes and strides of the axes that indices are of, and the distance of indices of one element.
    pub(crate) targets: Vec<(usize, isize)>,
    pub(crate) apart: isize,
    /// What becomes of an element and its update, if not the update.
    pub(crate) reduction: Option<Reduction>,
}

impl Scatter {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) -> Result<(), Error> {
        let mut taken = take(memory, self.to.buffer);
        let starts = [
            self.indices.start(step),
            self.updates.start(step),
            self.to.start(step),
        ];
        let indices = memory[self.indices.buffer].ints();
        let updates = &memory[self.updates.buffer];
        let done = match self.lane {
            Lane::Float => {
                let both = (updates.floats(), taken.floats_mut());
                match self.reduction {
                    None => self.scatter(indices, both, starts, |_, update| update),
                    Some(Reduction::Sum) => self.scatter(indices, both, starts, |a, b| a + b),
                    Some(Reduction::Product) => self.scatter(indices, both, starts, |a, b| a * b),
                    Some(Reduction::Max) => self.scatter(indices, both, starts, max),
                    Some(Reduction::Min) => self.scatter(indices, both, starts, min),
                }
            }
            Lane::Int => {
                let both = (updates.ints(), taken.ints_mut());
                match self.reduction {
                    None => self.scatter(indices, both, starts, |_, update| update),
                    Some(Reduction::Sum) => self.scatter(indices, both, starts, i64::wrapping_add),
                    Some(Reduction::Product) => {
                        self.scatter(indices, both, starts, i64::wrapping_mul)
                    }
                    Some(Reduction::Max) => self.scatter(indices, both, starts, i64::max),
                    Some(Reduction::Min) => self.scatter(indices, both, starts, i64::min),
                }
            }
        };
        memory[self.to.buffer] = taken;
        done
    }

    fn scatter<T: Copy>(
        &self,
        indices: &[i64],
        (updates, to): (&[T], &mut [T]),
        starts: [isize; 3],
        with: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        // A row of one index is written at once.
        let ((row, apart, along), outer) = match self.axes.split_last() {
            Some((&(size, [0, apart, along]), outer)) => ((size, apart, along), outer),
            _ => ((1, 1, 1), &self.axes[..]),
        };
        let count: usize = outer.iter().map(|axis| axis.0).product();
        let count = if row == 0 { 0 } else { count };
        for number in 0..count {
            let (mut rest, mut places) = (number, starts);
            for (size, strides) in outer.iter().rev() {
                for (place, stride) in std::iter::zip(&mut places, strides) {
                    *place += (rest % size) as isize * stride;
                }
                rest /= size;
            }
            let [index, update, mut place] = places;
            for (number, (size, stride)) in self.targets.iter().enumerate() {
                let index = indices[(index + number as isize * self.apart) as usize];
                place += normal(index, *size)? as isize * stride;
            }
            if (apart, along) == (1, 1) {
                let updates = &updates[update as usize..update as usize + row];
                let to = &mut to[place as usize..place as usize + row];
                for (to, update) in std::iter::zip(to, updates) {
                    *to = with(*to, *update);
                }
                continue;
            }
            for number in 0..row as isize {
                let to = &mut to[(place + number * along) as usize];
                *to = with(*to, updates[(update + number * apart) as usize]);
            }
        }
        Ok(())
    }
}

/// The indices of largest or smallest elements along an axis. The output is contiguous.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    pub(crate) axes: Vec<(usize, isize)>,
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) lane: Lane,
    /// The size and the stride of the axis.
    pub(crate) axis: (usize, isize),
    pub(crate) is_least: bool,
    /// Whether the last of equal elements counts.
    pub(crate) takes_last: bool,
    /// How many of them, of which the best is first.
    pub(crate) count: usize,
}

/// Numbers in an order that has a place for each.
trait Ordered: Copy + PartialOrd {
    fn order(self, other: Self) -> Ordering;
}

impl Ordered for f32 {
    fn order(self, other: Self) -> Ordering {
        // Both zeros are one.
        (self + 0.0).total_cmp(&(other + 0.0))
    }
}

impl Ordered for i64 {
    fn order(self, other: Self) -> Ordering {
        self.cmp(&other)
    }
}

impl Best {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) {
        let mut taken = take(memory, self.to.buffer);
        let start = self.from.start(step);
        let to = &mut taken.ints_mut()[self.to.start(step) as usize..];
        let from = &memory[self.from.buffer];
        match self.lane {
            Lane::Float => self.find(from.floats(), start, to),
            Lane::Int => self.find(from.ints(), start, to),
        }
        memory[self.to.buffer] = taken;
    }

    fn find<T: Ordered>(&self, from: &[T], start: isize, to: &mut [i64]) {
        let count: usize = self.axes.iter().map(|axis| axis.0).product();
        let rows = to.chunks_exact_mut(self.count.max(1)).take(count);
        for (number, to) in rows.enumerate() {
            let (mut rest, mut place) = (number, start);
            for (size, stride) in self.axes.iter().rev() {
                place += (rest % size) as isize * stride;
                rest /= size;
            }
            let at = |index: usize| from[(place + index as isize * self.axis.1) as usize];
            let [to] = to else {
                self.find_all(at, to);
                continue;
            };
            let mut best = 0;
            for index in 1..self.axis.0 {
                let (one, other) = (at(index), at(best));
                let is_better = match (self.is_least, self.takes_last) {
                    (false, false) => one > other,
                    (false, true) => one >= other,
                    (true, false) => one < other,
                    (true, true) => one <= other,
                };
                if is_better {
                    best = index;
                }
            }
            *to = best as i64;
        }
    }

    /// Finds several: of equal elements the first is the best.
    fn find_all<T: Ordered>(&self, at: impl Fn(usize) -> T, to: &mut [i64]) {
        let is_better = |one: T, other: T| match self.is_least {
            true => one.order(other).is_lt(),
            false => one.order(other).is_gt(),
        };
        for index in 0..self.axis.0 {
            let element = at(index);
            let mut place = index.min(to.len());
            // Most are no better than the last.
            while place > 0 && is_better(element, at(to[place - 1] as usize)) {
                place -= 1;
            }
            if place < to.len() {
                let end = index.min(to.len() - 1);
                to.copy_within(place..end, place + 1);
                to[place] = index as i64;
            }
        }
    }
}

/// Numbers that follow the step's number.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    pub(crate) lines: Vec<crate::known::Line>,
    pub(crate) to: At,
}

impl Count {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) {
        let start = self.to.start(step) as usize;
        let to = &mut memory[self.to.buffer].ints_mut()[start..];
        for (to, line) in std::iter::zip(to, &self.lines) {
            *to = line.at(step as i64);
        }
    }
}
