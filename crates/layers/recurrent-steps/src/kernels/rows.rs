//! Sums and products of matrices with what is the same along their rows or columns: `S ← a S + k vᵀ`, `Sᵀ q`.
//!
//! A matrix is gone through once, some columns of a row at a time. Numbers of a row stay numbers, and what
//! is the same in all rows is read once.

use rten_simd::{Isa, SimdOp};

use super::memory::Memory;
use super::strided::halves;
use crate::function::Float2;

/// The most arrays and numbers of a program.
pub(crate) const MOST: usize = 16;

/// The rows whose numbers are read at once.
const TABLE: usize = 32;

/// Where the elements of a row, or the number of it, lie.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) buffer: usize,
    pub(crate) offset: isize,
    pub(crate) step: isize,
    /// Along the outer axes.
    pub(crate) outer: Vec<isize>,
    pub(crate) row: isize,
}

/// What happens for some columns of each row, in arrays of so many and in numbers of the row.
#[derive(Clone, Debug)]
pub(crate) enum RowOp {
    /// Reads a row of a matrix.
    Load { to: usize, line: usize },
    /// The function of two numbers.
    Numbers(Float2, usize, [usize; 2]),
    /// The function of two arrays.
    Arrays(Float2, usize, [usize; 2]),
    /// The function of an array and a number.
    Mixed(Float2, usize, usize, usize),
    /// An array times a number, plus an array.
    ScaleAdd {
        to: usize,
        scaled: (usize, usize),
        added: usize,
    },
    /// The sum of two arrays times numbers.
    ScaleBoth {
        to: usize,
        one: (usize, usize),
        other: (usize, usize),
    },
    /// Writes a row of a matrix.
    Store { from: usize, line: usize },
    /// Adds an array to the sum of rows.
    Sum { to: usize, from: usize },
    /// Adds an array times a number to the sum of rows.
    ScaleSum {
        to: usize,
        from: usize,
        number: usize,
    },
    /// Adds the sum of an array to the number of the row.
    Total { from: usize, line: usize },
    /// Adds the sum of the products of two arrays to the number of the row.
    Dot { from: [usize; 2], line: usize },
}

/// `s = a m + x y` for each row `m` of a matrix, and what is made of `s`: the program of most matrix states.
/// Numbers are 1 and arrays 0 where there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    /// The line of the matrix, and the number `a`.
    pub(crate) matrix: (usize, Option<usize>),
    /// The array `y`, and the number `x`.
    pub(crate) outer: Option<(usize, usize)>,
    /// The line that `s` is written to.
    pub(crate) store: Option<usize>,
    /// The array that `q s` is added to, and `q`.
    pub(crate) sum: Option<(usize, Option<usize>)>,
    /// The line that the sum of `c s` is added to, and the array `c`.
    pub(crate) dot: Option<(usize, Option<usize>)>,
}

/// A program for rows of matrices.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) outer: Vec<usize>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) lines: Vec<Line>,
    /// The numbers of each row: which they are, and the line they are read from.
    pub(crate) numbers: Vec<(usize, usize)>,
    /// The arrays that are the same in all rows.
    pub(crate) columns_in: Vec<(usize, usize)>,
    /// What happens once for some columns, to arrays that are the same in all rows.
    pub(crate) before: Vec<RowOp>,
    pub(crate) code: Vec<RowOp>,
    /// The same as one operation behind those of numbers, if it is one.
    pub(crate) update: Option<Update>,
    /// The sums of rows: which arrays they are, and where they go.
    pub(crate) sums: Vec<(usize, usize)>,
    /// What sums of a row go to, which begins with 0.
    pub(crate) totals: Vec<usize>,
}

/// Runs the program at a step.
impl Rows {
    pub(crate) fn run(&self, memory: &mut [Memory<'_>], step: usize) {
        struct Run<'a, 'b> {
            rows: &'a Rows,
            memory: &'a mut [Memory<'b>],
            step: isize,
        }
        impl SimdOp for Run<'_, '_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, _isa: I) {
                self.rows.all(self.memory, self.step);
            }
        }
        let step = step as isize;
        Run {
            rows: self,
            memory,
            step,
        }
        .dispatch();
    }

    #[inline(always)]
    fn all(&self, memory: &mut [Memory<'_>], step: isize) {
        let count: usize = self.outer.iter().product();
        let mut starts = [0_isize; 2 * MOST];
        for number in 0..count {
            for (start, line) in std::iter::zip(&mut starts, &self.lines) {
                *start = line.offset + line.step * step;
                let mut rest = number;
                for (size, stride) in std::iter::zip(&self.outer, &line.outer).rev() {
                    *start += (rest % size) as isize * stride;
                    rest /= size;
                }
            }
            for &total in &self.totals {
                let line = &self.lines[total];
                let to = memory[line.buffer].floats_mut();
                for row in 0..self.rows as isize {
                    to[(starts[total] + row * line.row) as usize] = 0.0;
                }
            }
            let mut column = 0;
            while column + 64 <= self.columns {
                self.some::<64>(memory, &starts, column, 64);
                column += 64;
            }
            while column < self.columns {
                let len = (self.columns - column).min(16);
                self.some::<16>(memory, &starts, column, len);
                column += len;
            }
        }
    }

    /// Runs the program for some columns from one on.
    #[inline(always)]
    fn some<const W: usize>(
        &self,
        memory: &mut [Memory<'_>],
        starts: &[isize; 2 * MOST],
        column: usize,
        len: usize,
    ) {
        let mut arrays = [[0.0_f32; W]; MOST];
        let mut numbers = [[0.0_f32; TABLE]; MOST];
        for &(to, line) in &self.columns_in {
            let start = starts[line] as usize + column;
            let from = memory[self.lines[line].buffer].floats();
            load(&mut arrays[to], from, start, len);
        }
        for op in &self.before {
            apply(op, &mut arrays, &mut numbers, 0);
        }
        for first in (0..self.rows).step_by(TABLE) {
            let count = TABLE.min(self.rows - first);
            for &(to, line) in &self.numbers {
                let at = &self.lines[line];
                let start = starts[line] + first as isize * at.row;
                let from = memory[at.buffer].floats();
                for (index, to) in numbers[to][..count].iter_mut().enumerate() {
                    *to = from[(start + index as isize * at.row) as usize];
                }
            }
            let place = Part {
                starts,
                column,
                len,
                first,
                count,
            };
            match &self.update {
                Some(update) => self.update(update, memory, (&mut arrays, &mut numbers), place),
                None => self.interpret(memory, (&mut arrays, &mut numbers), place),
            }
        }
        for &(from, line) in &self.sums {
            let start = starts[line] as usize + column;
            let to = memory[self.lines[line].buffer].floats_mut();
            store(&arrays[from], to, start, len);
        }
    }

    /// Runs the program for some columns of some rows, an operation at a time.
    #[inline(always)]
    fn interpret<const W: usize>(
        &self,
        memory: &mut [Memory<'_>],
        (arrays, numbers): Held<'_, W>,
        place: Part<'_>,
    ) {
        let Part {
            starts,
            column,
            len,
            ..
        } = place;
        for entry in 0..place.count {
            let row = (place.first + entry) as isize;
            for op in &self.code {
                match *op {
                    RowOp::Load { to, line } => {
                        let at = &self.lines[line];
                        let start = (starts[line] + row * at.row) as usize + column;
                        load(&mut arrays[to], memory[at.buffer].floats(), start, len);
                    }
                    RowOp::Store { from, line } => {
                        let at = &self.lines[line];
                        let start = (starts[line] + row * at.row) as usize + column;
                        let to = memory[at.buffer].floats_mut();
                        store(&arrays[from], to, start, len);
                    }
                    RowOp::Total { from, line } => {
                        let at = &self.lines[line];
                        let place = (starts[line] + row * at.row) as usize;
                        memory[at.buffer].floats_mut()[place] += total(&arrays[from], len);
                    }
                    RowOp::Dot {
                        from: [one, other],
                        line,
                    } => {
                        let mut products = arrays[one];
                        for (product, other) in std::iter::zip(&mut products, &arrays[other]) {
                            *product *= other;
                        }
                        let at = &self.lines[line];
                        let place = (starts[line] + row * at.row) as usize;
                        memory[at.buffer].floats_mut()[place] += total(&products, len);
                    }
                    _ => apply(op, arrays, numbers, entry),
                }
            }
        }
    }

    /// Runs the program for some columns of some rows as one operation.
    #[inline(always)]
    fn update<const W: usize>(
        &self,
        update: &Update,
        memory: &mut [Memory<'_>],
        (arrays, numbers): Held<'_, W>,
        place: Part<'_>,
    ) {
        for op in &self.code {
            if let RowOp::Numbers(..) = op {
                for entry in 0..place.count {
                    apply(op, arrays, numbers, entry);
                }
            }
        }
        let held = (arrays, numbers);
        match (
            update.store.is_some(),
            update.sum.is_some(),
            update.dot.is_some(),
        ) {
            (true, true, false) => {
                self.each_row::<W, true, true, false>(update, memory, held, place)
            }
            (true, false, true) => {
                self.each_row::<W, true, false, true>(update, memory, held, place)
            }
            (false, true, false) => {
                self.each_row::<W, false, true, false>(update, memory, held, place)
            }
            (false, false, true) => {
                self.each_row::<W, false, false, true>(update, memory, held, place)
            }
            (true, false, false) => {
                self.each_row::<W, true, false, false>(update, memory, held, place)
            }
            _ => self.each_row::<W, true, true, true>(update, memory, held, place),
        }
    }

    #[inline(always)]
    fn each_row<const W: usize, const STORE: bool, const SUM: bool, const DOT: bool>(
        &self,
        update: &Update,
        memory: &mut [Memory<'_>],
        (arrays, numbers): Held<'_, W>,
        place: Part<'_>,
    ) {
        let Part {
            starts,
            column,
            len,
            first,
            count,
        } = place;
        let ones = [1.0_f32; TABLE];
        let number = |index: Option<usize>| match index {
            Some(index) => numbers[index],
            None => ones,
        };
        let scales = number(update.matrix.1);
        let (y, factors) = match update.outer {
            Some((array, number)) => (arrays[array], numbers[number]),
            None => ([0.0; W], [0.0; TABLE]),
        };
        let (sum, asked) = update.sum.unwrap_or_default();
        let asked = number(asked);
        let (dot, c) = update.dot.unwrap_or_default();
        let c = c.map_or([1.0; W], |array| arrays[array]);
        let at =
            |line: usize, row: usize| starts[line] + (first + row) as isize * self.lines[line].row;
        let from = update.matrix.0;
        let to = update.store.unwrap_or_default();
        let mut sums = if SUM { arrays[sum] } else { [0.0; W] };
        for row in 0..count {
            let (a, x, q) = (scales[row], factors[row], asked[row]);
            let mut s = [0.0_f32; W];
            let start = at(from, row) as usize + column;
            load(&mut s, memory[self.lines[from].buffer].floats(), start, len);
            for (s, y) in std::iter::zip(&mut s, &y) {
                *s = *s * a + y * x;
            }
            if STORE && update.store.is_some() {
                let start = at(to, row) as usize + column;
                store(&s, memory[self.lines[to].buffer].floats_mut(), start, len);
            }
            if SUM {
                for (sum, s) in std::iter::zip(&mut sums, &s) {
                    *sum += s * q;
                }
            }
            if DOT && update.dot.is_some() {
                for (s, c) in std::iter::zip(&mut s, &c) {
                    *s *= c;
                }
                memory[self.lines[dot].buffer].floats_mut()[at(dot, row) as usize] +=
                    total(&s, len);
            }
        }
        if SUM && update.sum.is_some() {
            arrays[sum] = sums;
        }
    }
}

/// The arrays and numbers of a program for rows.
type Held<'a, const W: usize> = (&'a mut [[f32; W]; MOST], &'a mut [[f32; TABLE]; MOST]);

/// Some columns of some rows.
#[derive(Clone, Copy)]
struct Part<'a> {
    starts: &'a [isize; 2 * MOST],
    column: usize,
    len: usize,
    first: usize,
    count: usize,
}

#[inline(always)]
fn load<const W: usize>(to: &mut [f32; W], from: &[f32], start: usize, len: usize) {
    match from[start..].first_chunk::<W>() {
        Some(from) if len == W => *to = *from,
        _ => to[..len].copy_from_slice(&from[start..start + len]),
    }
}

#[inline(always)]
fn store<const W: usize>(from: &[f32; W], to: &mut [f32], start: usize, len: usize) {
    match to[start..].first_chunk_mut::<W>() {
        Some(to) if len == W => *to = *from,
        _ => to[start..start + len].copy_from_slice(&from[..len]),
    }
}

/// The sum of an array's first elements, by halves.
#[inline(always)]
fn total<const W: usize>(from: &[f32; W], len: usize) -> f32 {
    let mut sums = [0.0_f32; 16];
    for chunk in from[..len].chunks(16) {
        for (sum, term) in std::iter::zip(&mut sums, chunk) {
            *sum += term;
        }
    }
    halves(sums)
}

/// Computes arrays and numbers.
#[inline(always)]
fn apply<const W: usize>(
    op: &RowOp,
    arrays: &mut [[f32; W]; MOST],
    numbers: &mut [[f32; TABLE]; MOST],
    entry: usize,
) {
    match *op {
        RowOp::Numbers(function, to, [one, other]) => {
            numbers[to][entry] = two(function, numbers[one][entry], numbers[other][entry]);
        }
        RowOp::Arrays(function, to, [one, other]) => {
            let (one, other) = (arrays[one], arrays[other]);
            let made = &mut arrays[to];
            match function {
                Float2::Add => each(made, |it| one[it] + other[it]),
                Float2::Sub => each(made, |it| one[it] - other[it]),
                _ => each(made, |it| one[it] * other[it]),
            }
        }
        RowOp::Mixed(function, to, one, number) => {
            let (one, number) = (arrays[one], numbers[number][entry]);
            let made = &mut arrays[to];
            match function {
                Float2::Add => each(made, |it| one[it] + number),
                Float2::Sub => each(made, |it| one[it] - number),
                _ => each(made, |it| one[it] * number),
            }
        }
        RowOp::ScaleAdd {
            to,
            scaled: (one, number),
            added,
        } => {
            let (one, number, added) = (arrays[one], numbers[number][entry], arrays[added]);
            each(&mut arrays[to], |it| one[it] * number + added[it]);
        }
        RowOp::ScaleBoth { to, one, other } => {
            let (a, b) = (arrays[one.0], arrays[other.0]);
            let (x, y) = (numbers[one.1][entry], numbers[other.1][entry]);
            each(&mut arrays[to], |it| a[it] * x + b[it] * y);
        }
        RowOp::Sum { to, from } => {
            let from = arrays[from];
            for (to, from) in std::iter::zip(&mut arrays[to], from) {
                *to += from;
            }
        }
        RowOp::ScaleSum { to, from, number } => {
            let (from, number) = (arrays[from], numbers[number][entry]);
            for (to, from) in std::iter::zip(&mut arrays[to], from) {
                *to += from * number;
            }
        }
        RowOp::Load { .. } | RowOp::Store { .. } | RowOp::Total { .. } | RowOp::Dot { .. } => {}
    }
}

#[inline(always)]
fn each<const W: usize>(made: &mut [f32; W], function: impl Fn(usize) -> f32) {
    for (index, made) in made.iter_mut().enumerate() {
        *made = function(index);
    }
}

#[inline(always)]
fn two(function: Float2, one: f32, other: f32) -> f32 {
    match function {
        Float2::Add => one + other,
        Float2::Sub => one - other,
        _ => one * other,
    }
}
