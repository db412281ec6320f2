//! Products of matrices that steps make.

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, SimdOp};

use super::memory::Memory;
use super::others::{At, take};
use super::strided::{halves, read_row};

/// The rows from which on the columns of a tile are copied for them.
const PACKED_ROWS: usize = 16;

/// The vectors of a tile whose columns are copied.
const PACKED_VECTORS: usize = 3;

/// The columns of such a tile with the widest vectors.
pub(crate) const LEAST_COLUMNS: usize = PACKED_VECTORS * 16;

/// Products of matrices that steps make. Outputs are contiguous.
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    /// The sizes of what there is a product for, and the strides of both operands.
    pub(crate) batch: Vec<(usize, [isize; 2])>,
    /// Rows, terms and columns.
    pub(crate) sizes: [usize; 3],
    /// Strides of rows and terms.
    pub(crate) one: (At, [isize; 2]),
    /// Terms and columns.
    pub(crate) other: (At, Other),
    pub(crate) to: At,
}

/// Where the elements of the second matrix lie.
#[derive(Clone, Debug)]
pub(crate) enum Other {
    /// The strides of terms and columns.
    Matrix([isize; 2]),
    /// Each term starts at a place; its columns are rows of one length, which start at places behind that.
    /// A product has at least `LEAST_COLUMNS`.
    Rows {
        terms: Vec<isize>,
        rows: Vec<isize>,
        len: usize,
        stride: isize,
    },
}

impl Multiply {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) {
        struct Run<'a> {
            multiply: &'a Multiply,
            one: &'a [f32],
            other: &'a [f32],
            to: &'a mut [f32],
            starts: [isize; 2],
        }
        impl SimdOp for Run<'_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                let count: usize = self.multiply.batch.iter().map(|axis| axis.0).product();
                let [rows, _, columns] = self.multiply.sizes;
                for index in 0..count {
                    let (mut rest, mut starts) = (index, self.starts);
                    for (size, strides) in self.multiply.batch.iter().rev() {
                        for (start, stride) in std::iter::zip(&mut starts, strides) {
                            *start += (rest % size) as isize * stride;
                        }
                        rest /= size;
                    }
                    let to = &mut self.to[index * rows * columns..][..rows * columns];
                    self.multiply
                        .one_product(isa, self.one, self.other, starts, to);
                }
            }
        }
        let mut taken = take(memory, self.to.buffer);
        Run {
            multiply: self,
            one: memory[self.one.0.buffer].floats(),
            other: memory[self.other.0.buffer].floats(),
            to: &mut taken.floats_mut()[self.to.start(step) as usize..],
            starts: [self.one.0.start(step), self.other.0.start(step)],
        }
        .dispatch();
        memory[self.to.buffer] = taken;
    }

    #[inline(always)]
    fn one_product<I: Isa>(
        &self,
        isa: I,
        one: &[f32],
        other: &[f32],
        starts: [isize; 2],
        to: &mut [f32],
    ) {
        let [_, terms, columns] = self.sizes;
        let [row, term] = self.one.1;
        let lanes = isa.f32().len();
        let Other::Matrix([other_term, column]) = self.other.1 else {
            return match lanes > 8 {
                true => self.by_tiles::<I, PACKED_VECTORS>(isa, one, other, starts, to),
                false => self.by_tiles::<I, 2>(isa, one, other, starts, to),
            };
        };
        // The sums of a row wait for each other, unless they are many.
        if column == 1 && columns >= 8 * lanes && self.sizes[0] < 4 {
            return self.by_tiles::<I, 8>(isa, one, other, starts, to);
        }
        let is_packed = lanes > 8 && self.sizes[0] >= PACKED_ROWS;
        if column == 1 && columns >= PACKED_VECTORS * lanes && is_packed {
            return self.by_tiles::<I, PACKED_VECTORS>(isa, one, other, starts, to);
        }
        if column == 1 && columns >= 2 * lanes {
            return self.by_tiles::<I, 2>(isa, one, other, starts, to);
        }
        if column == 1 && columns >= lanes {
            return self.by_tiles::<I, 1>(isa, one, other, starts, to);
        }
        for (index, to) in to.chunks_exact_mut(columns.max(1)).enumerate() {
            let first = starts[0] + row * index as isize;
            for (number, to) in to.iter_mut().enumerate() {
                let start = starts[1] + column * number as isize;
                *to = if (term, other_term) == (1, 1) {
                    let one = &one[first as usize..first as usize + terms];
                    dot(one, &other[start as usize..start as usize + terms])
                } else {
                    let mut sum = 0.0_f32;
                    for number in 0..terms {
                        let one = one[(first + term * number as isize) as usize];
                        let place = start + other_term * number as isize;
                        sum += one * other[place as usize];
                    }
                    sum
                };
            }
        }
    }

    /// Computes so many vectors of four rows at a time, which stay in registers.
    #[inline(always)]
    fn by_tiles<I: Isa, const VECTORS: usize>(
        &self,
        isa: I,
        one: &[f32],
        other: &[f32],
        starts: [isize; 2],
        to: &mut [f32],
    ) {
        let [rows, terms, columns] = self.sizes;
        let width = VECTORS * isa.f32().len();
        // Rows that lie far apart share the places of a cache, so that many rows read a copy.
        let (apart, is_packed) = match self.other.1 {
            Other::Matrix([apart, _]) => (apart, rows >= PACKED_ROWS && apart as usize > width),
            Other::Rows { .. } => (0, true),
        };
        let mut packed = vec![0.0; if is_packed { terms * width } else { 0 }];
        for column in (0..columns).step_by(width) {
            // The last tile has some columns of the one before.
            let column = column.min(columns - width);
            let start = starts[1] + column as isize;
            self.pack(&mut packed, width, other, (starts[1], column));
            let part = match is_packed {
                true => (&*packed, 0, width as isize),
                false => (other, start, apart),
            };
            let mut row = 0;
            while row < rows {
                let first = starts[0] + self.one.1[0] * row as isize;
                let to = &mut to[row * columns + column..];
                let of_rows = (one, first);
                row += if VECTORS > 3 || rows - row < 4 {
                    self.tile::<I, VECTORS, 1>(isa, of_rows, part, to)
                } else if isa.f32().len() > 8 && rows - row >= 8 {
                    // Processors with such vectors have twice as many of them.
                    self.tile::<I, VECTORS, 8>(isa, of_rows, part, to)
                } else if VECTORS == 2 && rows - row >= 6 {
                    self.tile::<I, VECTORS, 6>(isa, of_rows, part, to)
                } else {
                    self.tile::<I, VECTORS, 4>(isa, of_rows, part, to)
                };
            }
        }
    }

    /// Copies the columns of a tile.
    fn pack(&self, to: &mut [f32], width: usize, from: &[f32], (start, column): (isize, usize)) {
        let tile = to.chunks_exact_mut(width);
        match &self.other.1 {
            Other::Matrix([apart, _]) => {
                for (index, to) in tile.enumerate() {
                    let start = (start + column as isize + apart * index as isize) as usize;
                    to.copy_from_slice(&from[start..start + width]);
                }
            }
            Other::Rows {
                terms,
                rows,
                len,
                stride,
            } => {
                let (first, skipped) = (column / len, column % len);
                for (mut to, term) in std::iter::zip(tile, terms) {
                    let mut skipped = skipped;
                    for row in &rows[first..] {
                        let count = (len - skipped).min(to.len());
                        let (part, rest) = to.split_at_mut(count);
                        let at = start + term + row + stride * skipped as isize;
                        read_row(from, at, *stride, part);
                        (to, skipped) = (rest, 0);
                        if to.is_empty() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Computes a tile, and returns the number of its rows.
    #[inline(always)]
    fn tile<I: Isa, const VECTORS: usize, const ROWS: usize>(
        &self,
        isa: I,
        (one, first): (&[f32], isize),
        (other, start, apart): (&[f32], isize, isize),
        to: &mut [f32],
    ) -> usize {
        let terms = self.sizes[1];
        let [row, term] = self.one.1;
        let ops = isa.f32();
        let width = VECTORS * ops.len();
        let mut sums = [[ops.zero(); VECTORS]; ROWS];
        if term == 1 && terms > 0 {
            // Rows of one length need no checks in the loop.
            let ones: [&[f32]; ROWS] = std::array::from_fn(|index| {
                let first = (first + row * index as isize) as usize;
                &one[first..first + terms]
            });
            for number in 0..terms {
                let start = (start + apart * number as isize) as usize;
                let b = ops.load_many::<VECTORS>(&other[start..start + width]);
                for (one, sums) in std::iter::zip(&ones, &mut sums) {
                    let a = ops.splat(one[number]);
                    for (sum, b) in std::iter::zip(sums, b) {
                        *sum = ops.mul_add(a, b, *sum);
                    }
                }
            }
            return self.store(isa, sums, to);
        }
        for number in 0..terms as isize {
            let start = (start + apart * number) as usize;
            let b = ops.load_many::<VECTORS>(&other[start..start + width]);
            for (index, sums) in sums.iter_mut().enumerate() {
                let a = one[(first + row * index as isize + term * number) as usize];
                let a = ops.splat(a);
                for (sum, b) in std::iter::zip(sums, b) {
                    *sum = ops.mul_add(a, b, *sum);
                }
            }
        }
        self.store(isa, sums, to)
    }

    /// Writes the rows of a tile, and returns their number.
    #[inline(always)]
    fn store<I: Isa<F32 = S>, S, const VECTORS: usize, const ROWS: usize>(
        &self,
        isa: I,
        sums: [[S; VECTORS]; ROWS],
        to: &mut [f32],
    ) -> usize {
        let (ops, columns) = (isa.f32(), self.sizes[2]);
        let width = VECTORS * ops.len();
        for (index, sums) in sums.into_iter().enumerate() {
            let to = &mut to[index * columns..][..width];
            for (to, sum) in std::iter::zip(to.chunks_exact_mut(ops.len()), sums) {
                ops.store(sum, to);
            }
        }
        ROWS
    }
}

/// The sum of products, 16 at a time, which vectors add up.
#[inline(always)]
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (ones, others) = (one.chunks_exact(16), other.chunks_exact(16));
    let rest = std::iter::zip(ones.remainder(), others.remainder());
    let rest = rest.fold(0.0_f32, |sum, (a, b)| sum + a * b);
    for (one, other) in std::iter::zip(ones, others) {
        for (sum, (a, b)) in std::iter::zip(&mut sums, std::iter::zip(one, other)) {
            *sum += a * b;
        }
    }
    halves(sums) + rest
}
