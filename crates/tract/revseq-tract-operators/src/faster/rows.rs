//! Reductions of floats, by vectors.
//!
//! Axes that lie side by side are one axis. If it is the last one, the elements of an output's one are a
//! row, of which many are joined side by side. Otherwise rows of what lies behind it are joined, element
//! by element:
//!
//! ```text
//! Max over axis 1 of [8, 100, 256]   joins 100 rows of 256 elements, 8 times
//! ```

use std::ops::{Add, Mul, Neg};

use rten_simd::{Isa, SimdOp};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

/// A float or a double.
pub(crate) trait Real:
    Datum + Copy + PartialOrd + From<f32> + Add<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
}

impl Real for f32 {}
impl Real for f64 {}

/// What elements are joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Magnitudes,
    Squares,
    Product,
    /// The greatest, or NaN if there is one.
    Max,
    /// The least, or NaN if there is one.
    Min,
}

/// An axis with what lies before and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) outer: usize,
    pub(crate) along: usize,
    pub(crate) inner: usize,
}

impl Layout {
    /// The axes in order as few, the last one first, of which each has size 1 for the next.
    pub(crate) fn each(sizes: &[usize], axes: &[usize]) -> TVec<Self> {
        let mut layouts = tvec![];
        let (mut inner, mut axis) = (1, sizes.len());
        while axis > 0 {
            axis -= 1;
            if !axes.contains(&axis) {
                inner *= sizes[axis];
                continue;
            }
            let mut along = sizes[axis];
            while axis > 0 && (axes.contains(&(axis - 1)) || sizes[axis - 1] == 1) {
                axis -= 1;
                along *= sizes[axis];
            }
            let outer = sizes[..axis].iter().product();
            layouts.push(Self {
                outer,
                along,
                inner,
            });
        }
        if layouts.is_empty() {
            // Each element is joined to nothing.
            layouts.push(Self {
                outer: inner,
                along: 1,
                inner: 1,
            });
        }
        layouts
    }
}

impl Fold {
    /// Joins the elements along axes, of which there are some.
    pub(crate) fn reduce<T: Real>(self, input: &Tensor, axes: &[usize]) -> TractResult<Tensor> {
        let mut shape: TVec<usize> = input.shape().into();
        let layouts = Layout::each(&shape, axes);
        let plain = input.try_as_plain_ram()?;
        let mut values = Cow::Borrowed(plain.as_slice::<T>()?);
        let mut fold = self;
        for layout in layouts {
            let mut joined = vec![T::from(0.0); layout.outer * layout.inner];
            fold.along(&values, layout, &mut joined)?;
            values = Cow::Owned(joined);
            // What becomes of an element has become of it.
            fold = match fold {
                Self::Magnitudes | Self::Squares => Self::Sum,
                other => other,
            };
        }
        axes.iter().for_each(|axis| shape[*axis] = 1);
        Tensor::from_shape(&shape, &values)
    }

    fn along<T: Real>(self, values: &[T], layout: Layout, to: &mut [T]) -> TractResult<()> {
        let part = layout.along * layout.inner;
        // A single part is divided by its columns.
        let columns = if layout.outer == 1 { 1 } else { layout.inner };
        let step = if layout.outer == 1 { 1 } else { part };
        par_chunks_mut(to, columns, values.len(), |first, to| {
            let values = &values[first * step..];
            Folding {
                fold: self,
                layout,
                values,
                to,
            }
            .dispatch();
            Ok(())
        })
    }
}

/// What one thread joins.
struct Folding<'a, T> {
    fold: Fold,
    layout: Layout,
    values: &'a [T],
    to: &'a mut [T],
}

impl<T: Real> SimdOp for Folding<'_, T> {
    type Output = ();

    // Everything is inlined, so that it is compiled for the instructions of the processor.
    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        let add = |a: T, b: T| a + b;
        let magnitude = |it: T| if it < T::from(0.0) { -it } else { it };
        match self.fold {
            Fold::Sum => self.join(0.0, |it| it, add),
            Fold::Magnitudes => self.join(0.0, magnitude, add),
            Fold::Squares => self.join(0.0, |it| it * it, add),
            Fold::Product => self.join(1.0, |it| it, |a, b| a * b),
            Fold::Max if self.layout.inner == 1 => self.rows(|row| greatest_of_row(row, |it| it)),
            Fold::Min if self.layout.inner == 1 => {
                self.rows(|row| -greatest_of_row(row, |it: T| -it));
            }
            Fold::Max => self.join(f32::NEG_INFINITY, |it| it, greater),
            Fold::Min => self.join(f32::INFINITY, |it| it, |a, b| -greater(-a, -b)),
        }
    }
}

/// The greater of two numbers, or NaN.
#[inline(always)]
pub(crate) fn greater<T: Real>(a: T, b: T) -> T {
    #[expect(clippy::eq_op, reason = "NaN differs from itself")]
    if (b > a) | (b != b) { b } else { a }
}

/// The columns whose results stay in the nearest cache.
const COLUMNS: usize = 2048;

impl<T: Real> Folding<'_, T> {
    #[inline(always)]
    fn rows(self, joined: impl Fn(&[T]) -> T) {
        let rows = self.values.chunks_exact(self.layout.along);
        for (row, to) in std::iter::zip(rows, self.to) {
            *to = joined(row);
        }
    }

    #[inline(always)]
    fn join(self, start: f32, term: impl Fn(T) -> T + Copy, join: impl Fn(T, T) -> T + Copy) {
        let Layout { along, inner, .. } = self.layout;
        let start = T::from(start);
        if inner == 1 {
            self.rows(|row| join_row(row, start, term, join));
            return;
        }
        for (part, to) in
            std::iter::zip(self.values.chunks(along * inner), self.to.chunks_mut(inner))
        {
            for (block, to) in to.chunks_mut(COLUMNS).enumerate() {
                to.fill(start);
                for row in 0..along {
                    let row = &part[row * inner + block * COLUMNS..];
                    for (to, element) in std::iter::zip(&mut *to, row) {
                        *to = join(*to, term(*element));
                    }
                }
            }
        }
    }
}

/// The elements that are joined side by side: two vectors of AVX-512.
const LANES: usize = 32;

/// Joins what becomes of each element of a row.
#[inline(always)]
pub(crate) fn join_row<T: Real>(
    row: &[T],
    start: T,
    term: impl Fn(T) -> T + Copy,
    join: impl Fn(T, T) -> T + Copy,
) -> T {
    let (blocks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for block in blocks {
        for (lane, element) in std::iter::zip(&mut lanes, block) {
            *lane = join(*lane, term(*element));
        }
    }
    let rest = rest.iter().map(|it| term(*it)).fold(start, join);
    match blocks {
        [] => rest,
        _ => join(joined(lanes, join), rest),
    }
}

#[inline(always)]
fn joined<T: Real>(mut lanes: [T; LANES], join: impl Fn(T, T) -> T) -> T {
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for at in 0..count {
            lanes[at] = join(lanes[at], lanes[at + count]);
        }
    }
    lanes[0]
}

/// The greatest of what becomes of each element of a row, or NaN. A sum beside it finds NaN, as a maximum
/// that keeps it takes four times as long.
#[inline(always)]
pub(crate) fn greatest_of_row<T: Real>(row: &[T], term: impl Fn(T) -> T + Copy) -> T {
    let of_two = |a: T, b: T| if b > a { b } else { a };
    let (blocks, rest) = row.as_chunks::<LANES>();
    let (mut lanes, mut sums) = ([T::from(f32::NEG_INFINITY); LANES], [T::from(0.0); LANES]);
    for block in blocks {
        for ((lane, sum), element) in std::iter::zip(&mut lanes, &mut sums).zip(block) {
            let element = term(*element);
            *lane = of_two(*lane, element);
            *sum = *sum + element;
        }
    }
    let mut most = T::from(f32::NEG_INFINITY);
    let mut sum = T::from(0.0);
    if !blocks.is_empty() {
        most = joined(lanes, of_two);
        sum = joined(sums, |a, b| a + b);
    }
    for element in rest {
        most = of_two(most, term(*element));
        sum = sum + term(*element);
    }
    // Infinities of both signs have no sum, either.
    let is_nan = |it: &T| it.partial_cmp(it).is_none();
    match is_nan(&sum) {
        true => row.iter().copied().find(is_nan).unwrap_or(most),
        false => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reduction of one element after the other.
    fn expected(fold: Fold, sizes: [usize; 3], values: &[f32], axes: &[usize]) -> Vec<f64> {
        let start = match fold {
            Fold::Product => 1.0,
            Fold::Max => f64::NEG_INFINITY,
            Fold::Min => f64::INFINITY,
            Fold::Sum | Fold::Magnitudes | Fold::Squares => 0.0,
        };
        let kept = |axis: usize| if axes.contains(&axis) { 1 } else { sizes[axis] };
        let mut results = vec![start; kept(0) * kept(1) * kept(2)];
        for (index, value) in values.iter().enumerate() {
            let at = [
                index / sizes[2] / sizes[1],
                index / sizes[2] % sizes[1],
                index % sizes[2],
            ];
            let place = (0..3).fold(0, |place, axis| {
                place * kept(axis) + if axes.contains(&axis) { 0 } else { at[axis] }
            });
            let value = f64::from(*value);
            let result = &mut results[place];
            *result = match fold {
                _ if value.is_nan() || result.is_nan() => f64::NAN,
                Fold::Sum => *result + value,
                Fold::Magnitudes => *result + value.abs(),
                Fold::Squares => *result + value * value,
                Fold::Product => *result * value,
                Fold::Max => result.max(value),
                Fold::Min => result.min(value),
            };
        }
        results
    }

    #[test]
    fn elements_along_any_axes_are_joined() {
        let folds = [
            Fold::Sum,
            Fold::Magnitudes,
            Fold::Squares,
            Fold::Product,
            Fold::Max,
            Fold::Min,
        ];
        let every_axes: [&[usize]; 8] =
            [&[], &[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]];
        for sizes in [
            [1, 1, 1],
            [2, 3, 5],
            [3, 1, 67],
            [1, 7, 2500],
            [5, 70, 1],
            [2, 33, 97],
        ] {
            let count: usize = sizes.iter().product();
            let mut values: Vec<f32> = (0..count)
                .map(|it| ((it * 7919 + 13) % 2001) as f32 / 1000.0 - 1.0)
                .collect();
            for special in [0.5, f32::NEG_INFINITY, f32::NAN] {
                values[count / 2] = special;
                let input = Tensor::from_shape(&sizes, &values).unwrap();
                for (fold, axes) in folds
                    .iter()
                    .flat_map(|fold| every_axes.map(|it| (*fold, it)))
                {
                    if fold == Fold::Product && special.is_infinite() {
                        // Its product with what vanishes depends on the order.
                        continue;
                    }
                    let found = fold.reduce::<f32>(&input, axes).unwrap();
                    let plain = found.try_as_plain_ram().unwrap();
                    let found = plain.as_slice::<f32>().unwrap();
                    let expected = expected(fold, sizes, &values, axes);
                    assert_eq!(found.len(), expected.len());
                    for (found, expected) in std::iter::zip(found, expected) {
                        let found = f64::from(*found);
                        let is_near = (found - expected).abs() <= 1e-4 * expected.abs().max(1.0);
                        assert!(
                            is_near || found == expected || found.is_nan() && expected.is_nan(),
                            "{fold:?} of {sizes:?} along {axes:?}: {found}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}
