//! Sums of products that become bytes: times their scales, over that of the output.

use std::ops::Range;

use integer_products::{Sink, WIDTH};
use tract_onnx::tract_hir::internal::*;

use super::check_bytes;

/// Zero points or scales of a side of a product: one, or one of each row or column, of one matrix or of all.
pub(super) struct Parameter<T>(Vec<T>);

impl<T: Datum + Copy> Parameter<T> {
    /// Reads those for so many rows or columns of so many matrices.
    pub(super) fn read(
        name: &str,
        parameter: &Tensor,
        [size, matrices]: [usize; 2],
    ) -> TractResult<Self> {
        let numbers = parameter.cast_to::<T>()?;
        let mut numbers = numbers.try_as_plain_ram()?.as_slice::<T>()?.to_vec();
        let len = numbers.len();
        ensure!(
            len == 1 || len == size || len == size * matrices,
            "its {name} has the shape {:?}, expected one element or {size}",
            parameter.shape()
        );
        if len > 1 && len < size * matrices {
            numbers = numbers.repeat(matrices);
        }
        Ok(Self(numbers))
    }

    /// Those of some rows of all matrices.
    pub(super) fn of_rows(&self, rows: Range<usize>) -> &[T] {
        if self.0.len() == 1 {
            &self.0
        } else {
            &self.0[rows]
        }
    }

    /// Those of the columns of a matrix.
    pub(super) fn of_matrix(&self, size: usize, matrix: usize) -> &[T] {
        self.of_rows(matrix * size..(matrix + 1) * size)
    }
}

/// The quantisation of bytes to be made.
pub(super) struct OutputQuantization {
    datum_type: DatumType,
    scale: f32,
    zero: i32,
}

impl OutputQuantization {
    pub(super) fn read(scale: &Tensor, zero: &Tensor) -> TractResult<Self> {
        for (name, parameter) in [("scale", scale), ("zero point", zero)] {
            ensure!(
                parameter.len() == 1,
                "the {name} of its output has the shape {:?}, expected one element",
                parameter.shape()
            );
        }
        check_bytes("output", zero.datum_type())?;
        Ok(Self {
            datum_type: zero.datum_type(),
            scale: scale
                .cast_to::<f32>()?
                .try_as_plain_ram()?
                .as_slice::<f32>()?[0],
            zero: zero
                .cast_to::<i32>()?
                .try_as_plain_ram()?
                .as_slice::<i32>()?[0],
        })
    }

    /// Makes a tensor of bytes, whose bits `write` sets.
    pub(super) fn tensor(
        &self,
        shape: &[usize],
        write: impl FnOnce(&mut [u8]) -> TractResult<()>,
    ) -> TractResult<Tensor> {
        let mut made = Tensor::zero_dt(self.datum_type, shape)?;
        let mut plain = made.try_as_plain_ram_mut()?;
        match self.datum_type {
            DatumType::I8 => write(bytemuck::cast_slice_mut(plain.as_slice_mut::<i8>()?))?,
            _ => write(plain.as_slice_mut::<u8>()?)?,
        }
        Ok(made)
    }

    /// The least and the most integer.
    fn bounds(&self) -> [i32; 2] {
        match self.datum_type {
            DatumType::I8 => [i8::MIN.into(), i8::MAX.into()],
            _ => [u8::MIN.into(), u8::MAX.into()],
        }
    }
}

/// What sums are multiplied with.
enum Factors<'a> {
    Columns(Vec<f32>),
    Rows(Vec<f32>),
    /// The scales of rows and columns.
    Each([&'a [f32]; 2]),
}

/// Sums of rows that lie one after another as bytes.
pub(super) struct Scaled<'a> {
    to: &'a mut [u8],
    columns: usize,
    factors: Factors<'a>,
    scale: f32,
    /// Less the zero point.
    bounds: [f32; 2],
    zero: i32,
    /// A number that is added to sums: one, or one for each row.
    bias: &'a [i32],
}

impl<'a> Scaled<'a> {
    /// Takes the sums of rows of so many columns, whose operands have one scale or one of each.
    pub(super) fn new(
        to: &'a mut [u8],
        columns: usize,
        scales: [&'a [f32]; 2],
        output: &OutputQuantization,
    ) -> Self {
        let scale = output.scale;
        let factors = match scales {
            [&[one], all] => Factors::Columns(all.iter().map(|it| one * it / scale).collect()),
            [all, &[one]] => Factors::Rows(all.iter().map(|it| it * one / scale).collect()),
            scales => Factors::Each(scales),
        };
        Self {
            to,
            columns,
            factors,
            scale,
            bounds: output.bounds().map(|it| (it - output.zero) as f32),
            zero: output.zero,
            bias: &[0],
        }
    }

    /// The same with a number that is added to sums: one, or one for each row.
    pub(super) fn with_bias(self, bias: &'a [i32]) -> Self {
        Self { bias, ..self }
    }
}

/// The sum with a number of less than 2^22 has no place for fractions, and the integer in its last bits.
const ROUNDS: f32 = 1.5 * (1_u64 << 23) as f32;

impl Sink for Scaled<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, sums: &[i32]) {
        let mut factors = [0.0; WIDTH];
        let factors = &mut factors[..sums.len()];
        match &self.factors {
            Factors::Columns(all) if all.len() == 1 => factors.fill(all[0]),
            Factors::Columns(all) => factors.copy_from_slice(&all[first..][..sums.len()]),
            Factors::Rows(all) => factors.fill(all[row]),
            Factors::Each([rows, columns]) => {
                for (factor, column) in factors.iter_mut().zip(&columns[first..]) {
                    *factor = rows[row] * column / self.scale;
                }
            }
        }
        let [least, most] = self.bounds;
        let bias = self.bias[if self.bias.len() == 1 { 0 } else { row }];
        let to = &mut self.to[row * self.columns + first..][..sums.len()];
        for (to, (sum, factor)) in to.iter_mut().zip(sums.iter().zip(factors)) {
            // Of NaN, `max` makes the lower bound, as ONNX Runtime's does.
            let value = (sum.wrapping_add(bias) as f32 * *factor)
                .max(least)
                .min(most);
            let whole = (value + ROUNDS).to_bits().wrapping_sub(ROUNDS.to_bits());
            *to = (whole as i32).wrapping_add(self.zero) as u8;
        }
    }
}

/// Sums of rows that lie one after another as floats.
pub(super) struct Floats<'a> {
    pub(super) to: &'a mut [f32],
    pub(super) columns: usize,
    /// What sums are multiplied with: one number, or one for each column.
    pub(super) factors: &'a [f32],
    /// What is added to them, likewise.
    pub(super) bias: Option<&'a [f32]>,
}

impl Sink for Floats<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, sums: &[i32]) {
        let of_columns = |all: &[f32]| {
            let mut some = [0.0; WIDTH];
            match all {
                [one] => some.fill(*one),
                all => some[..sums.len()].copy_from_slice(&all[first..][..sums.len()]),
            }
            some
        };
        let factors = of_columns(self.factors);
        let to = &mut self.to[row * self.columns + first..][..sums.len()];
        for (to, (sum, factor)) in to.iter_mut().zip(sums.iter().zip(factors)) {
            *to = *sum as f32 * factor;
        }
        if let Some(bias) = self.bias {
            for (to, bias) in to.iter_mut().zip(of_columns(bias)) {
                *to += bias;
            }
        }
    }
}
