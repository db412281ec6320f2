//! Blocks in memory, along axes with sizes and strides: read, written, and added up.

/// Reads elements in order. The size of the first axis is `count`.
#[inline(always)]
pub(super) fn read<T: Copy>(
    from: &[T],
    at: isize,
    count: usize,
    axes: &[(usize, isize)],
    to: &mut [T],
) {
    match *axes {
        [] => to.fill(from[at as usize]),
        [(_, stride)] => read_row(from, at, stride, to),
        [(_, outer), (size, stride)] => {
            for (index, to) in to.chunks_exact_mut(size).enumerate().take(count) {
                read_row(from, at + index as isize * outer, stride, to);
            }
        }
        _ => read_all(from, at, count, axes, to),
    }
}

/// The same for any number of axes.
fn read_all<T: Copy>(from: &[T], at: isize, count: usize, axes: &[(usize, isize)], to: &mut [T]) {
    match *axes {
        [(_, stride), (size, _), ..] => {
            let len = to.len() / count.max(1);
            for (index, to) in to.chunks_exact_mut(len.max(1)).enumerate() {
                read_all(from, at + index as isize * stride, size, &axes[1..], to);
            }
        }
        [(_, stride)] => read_row(from, at, stride, to),
        [] => to.fill(from[at as usize]),
    }
}

#[inline(always)]
pub(super) fn read_row<T: Copy>(from: &[T], at: isize, stride: isize, to: &mut [T]) {
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
pub(super) fn write<T: Copy>(
    to: &mut [T],
    at: isize,
    count: usize,
    axes: &[(usize, isize)],
    from: &[T],
) {
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
        [(_, stride), (size, _), ..] => {
            let len = from.len() / count.max(1);
            for (index, from) in from.chunks_exact(len.max(1)).enumerate() {
                write(to, at + index as isize * stride, size, &axes[1..], from);
            }
        }
    }
}

pub(super) fn fill<T: Copy>(to: &mut [T], at: isize, axes: &[(usize, isize)], value: T) {
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
pub(super) trait Reduce<T> {
    /// Of an element that is there and another.
    fn two(&self, one: T, other: T) -> T;
    /// Of many.
    fn row(&self, row: &[T]) -> T;
}

/// The sum of 16 numbers, by halves.
#[inline(always)]
pub(super) fn halves(mut sums: [f32; 16]) -> f32 {
    let mut width = 8;
    while width > 0 {
        for index in 0..width {
            sums[index] += sums[index + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Sums of floats: 16 at a time, which vectors add up.
pub(super) struct Sum;

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
        halves(sums) + rest
    }
}

/// A function of two, one after another.
pub(super) struct Each<F>(pub(super) F);

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
pub(super) fn reduce<T: Copy>(
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
        _ => reduce_all(to, at, count, axes, from, with),
    }
}

/// The same for any number of axes.
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
