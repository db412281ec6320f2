//! The numbers of `DynamicQuantizeLSTM`: weights that are integers, and floats that are quantised to
//! uint8 before they are multiplied.
//!
//! ONNX Runtime multiplies integers. The floats that these stand for have the same products up to
//! rounding, so the layer computes like any other one, with its input and its state h rounded.

use std::iter;

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};

use crate::error::{Error, check};
use crate::memory;

/// The quantisation of floats to uint8, as DynamicQuantizeLinear computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    /// The difference of neighbouring numbers.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero_point: u8,
}

impl Quantization {
    /// Returns the quantisation for the range of some floats and 0. NaN is ignored.
    #[must_use]
    pub fn of(floats: &[f32]) -> Self {
        let (least, most) = SpanOf(floats).dispatch();
        let scale = if least == most {
            1.0
        } else {
            (most - least) / f32::from(u8::MAX)
        };
        let zero = (0.0 - least / scale).clamp(0.0, u8::MAX.into());
        Self {
            scale,
            zero_point: zero.round_ties_even() as u8,
        }
    }

    /// Quantises floats, and dequantises them. NaN stays NaN.
    pub fn round(self, floats: &mut [f32]) {
        Round {
            data: floats,
            by: self,
        }
        .dispatch();
    }
}

/// The rounding of numbers of a type.
#[derive(Clone, Copy, Debug)]
pub struct Rounding<T> {
    /// The quantisation for the range of some numbers.
    pub(crate) of: fn(&[T]) -> Quantization,
    /// Rounds numbers by a quantisation.
    pub(crate) round: fn(Quantization, &mut [T]),
}

impl<T> Rounding<T> {
    /// Rounds numbers by the quantisation for their own range.
    pub(crate) fn round_alone(self, numbers: &mut [T]) {
        (self.round)((self.of)(numbers), numbers);
    }
}

/// The least and the most of floats and 0, without NaN.
struct SpanOf<'a>(&'a [f32]);

impl SimdOp for SpanOf<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> Self::Output {
        let ops = isa.f32();
        let (mut least, mut most) = (ops.zero(), ops.zero());
        let mut vectors = self.0.chunks_exact(ops.len());
        for vector in &mut vectors {
            let x = ops.load(vector);
            let x = ops.select(x, ops.zero(), ops.eq(x, x));
            (least, most) = (ops.min(least, x), ops.max(most, x));
        }
        let (least, most) = (least.to_array(), most.to_array());
        let rest = vectors.remainder();
        let least = least.as_ref().iter().chain(rest);
        let most = most.as_ref().iter().chain(rest);
        (
            least.fold(0.0, |all, it| all.min(*it)),
            most.fold(0.0, |all, it| all.max(*it)),
        )
    }
}

struct Round<'a> {
    data: &'a mut [f32],
    by: Quantization,
}

impl SimdOp for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Quantization { scale, zero_point } = self.by;
        let ops = isa.f32();
        let bounds = bounds(zero_point);
        let [least, most] = bounds.map(|it| ops.splat(it));
        let by = ops.splat(scale);
        let mut vectors = self.data.chunks_exact_mut(ops.len());
        for vector in &mut vectors {
            let x = ops.load(vector);
            // The same steps as those of one number: infinity by infinity is the lower bound.
            let quotient = ops.div(x, by);
            let quotient = ops.select(quotient, least, ops.eq(quotient, quotient));
            let bounded = ops.clamp(quotient, least, most);
            // No -0 is left by the sum.
            let rounded = ops.add(ops.round_ties_even(bounded), ops.zero());
            let made = ops.mul(rounded, by);
            ops.store(ops.select(made, x, ops.eq(x, x)), vector);
        }
        let rest = vectors.into_remainder().iter_mut();
        for x in rest.filter(|it| !it.is_nan()) {
            *x = rounded(*x, scale, bounds);
        }
    }
}

/// The integers of uint8, less the zero point.
fn bounds(zero_point: u8) -> [f32; 2] {
    let zero = f32::from(zero_point);
    [-zero, f32::from(u8::MAX) - zero]
}

/// A number, rounded. Of NaN, `max` makes the lower bound, as ONNX Runtime's does.
fn rounded(x: f32, scale: f32, [least, most]: [f32; 2]) -> f32 {
    let bounded = (x / scale).max(least).min(most);
    (bounded.round_ties_even() + 0.0) * scale
}

/// Integers of one of two types.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    /// Signed ones.
    I8(&'a [i8]),
    /// Unsigned ones.
    U8(&'a [u8]),
}

impl Bytes<'_> {
    /// The number of integers.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::I8(all) => all.len(),
            Self::U8(all) => all.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn float(&self, at: usize) -> f32 {
        match self {
            Self::I8(all) => all[at].into(),
            Self::U8(all) => all[at].into(),
        }
    }
}

/// The weights W or R of a `DynamicQuantizeLSTM`.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    /// The weights, transposed beside those of an LSTM: [directions, inputs, gates * units].
    pub weights: Bytes<'a>,
    /// The scales: `[directions]`, or `[directions, gates * units]`.
    pub scales: &'a [f32],
    /// The zero points: `[directions]`, or `[directions, gates * units]`.
    pub zero_points: Bytes<'a>,
}

impl Quantized<'_> {
    /// Returns the floats that the weights stand for, in the layout of an LSTM: [directions, rows,
    /// inputs], with a row for each gate and unit.
    ///
    /// # Errors
    /// If the weights have another size than [directions, inputs, rows], scales and zero points are
    /// neither one for each direction nor one for each row, or memory is lacking.
    pub fn to_floats(
        &self,
        operand: &'static str,
        [directions, inputs, rows]: [usize; 3],
    ) -> Result<Vec<f32>, Error> {
        check(operand, self.weights.len(), &[directions, inputs, rows])?;
        let lens = [self.scales.len(), self.zero_points.len()];
        for len in lens.into_iter().filter(|len| *len != directions) {
            check(operand, len, &[directions, rows])?;
        }
        let at = |len: usize, direction: usize, row: usize| match len == directions {
            true => direction,
            false => direction * rows + row,
        };
        let mut floats = memory::collect(self.weights.len(), iter::empty())?;
        for direction in 0..directions {
            for row in 0..rows {
                let scale = self.scales[at(lens[0], direction, row)];
                let zero = self.zero_points.float(at(lens[1], direction, row));
                let weights = (0..inputs).map(|input| (direction * inputs + input) * rows + row);
                floats.extend(weights.map(|it| (self.weights.float(it) - zero) * scale));
            }
        }
        Ok(floats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_quantised_like_single_numbers() {
        let plain = (0..200).map(|it| (it as f32 * 0.7).sin() * 3.0 - 0.5);
        let plain: Vec<f32> = plain.collect();
        let special = [0.0, -0.0, 1e-9, -1e-9, f32::NAN, 2.5, 0.5, 1.5];
        let infinite = [f32::INFINITY, f32::NEG_INFINITY, 1.0, f32::NAN];
        for data in [
            &plain[..],
            &special.repeat(9),
            &infinite.repeat(17),
            &[],
            &[3.0],
        ] {
            for len in [data.len(), data.len() / 3] {
                let data = &data[..len];
                let least = data.iter().fold(0_f32, |all, it| all.min(*it));
                let most = data.iter().fold(0_f32, |all, it| all.max(*it));
                assert_eq!(SpanOf(data).dispatch(), (least, most));
                let by = Quantization::of(data);
                let mut found = data.to_vec();
                by.round(&mut found);
                for (found, x) in found.iter().zip(data) {
                    let expected = rounded(*x, by.scale, bounds(by.zero_point));
                    let is_same = found.to_bits() == expected.to_bits();
                    assert!(
                        is_same || x.is_nan() && found.is_nan(),
                        "{x}: {found}, {expected}"
                    );
                    assert!(!x.is_nan() || found.is_nan());
                }
            }
        }
    }

    #[test]
    fn weights_are_transposed_and_have_scales_of_directions_or_rows() {
        let quantized = |scales| Quantized {
            weights: Bytes::I8(&[1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6]),
            scales,
            zero_points: Bytes::U8(&[0, 1]),
        };
        let floats = quantized(&[0.5, 2.0]).to_floats("W", [2, 3, 2]).unwrap();
        let of_second = [-4.0, -8.0, -12.0, -6.0, -10.0, -14.0];
        assert_eq!(
            floats,
            [&[0.5, 1.5, 2.5, 1.0, 2.0, 3.0][..], &of_second].concat()
        );
        let floats = quantized(&[1.0, 10.0, 1.0, 10.0]).to_floats("W", [2, 3, 2]);
        assert_eq!(floats.unwrap()[..6], [1.0, 3.0, 5.0, 20.0, 40.0, 60.0]);
        let error = quantized(&[1.0; 3]).to_floats("W", [2, 3, 2]).unwrap_err();
        assert_eq!(error.to_string(), "W has 3 elements, expected 4: [2,2]");
    }
}
