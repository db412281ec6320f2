//! The numbers of `DynamicQuantizeLSTM`: weights that are integers, and floats that are quantised to
//! uint8 before they are multiplied.
//!
//! `bytes.rs` multiplies them.

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};

use integer_products::Bytes;

use crate::error::{Error, check};

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
        Self::for_span(SpanOf(floats).dispatch())
    }

    /// Returns the quantisation for numbers from the least to the most one, 0 among them.
    pub(crate) fn for_span((least, most): (f32, f32)) -> Self {
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

    /// Appends floats as integers. NaN becomes the least one, as in ONNX Runtime.
    pub fn quantize(self, floats: &[f32], to: &mut Vec<u8>) {
        Quantize {
            data: floats,
            by: self,
            to,
        }
        .dispatch();
    }
}

/// The quantisation of numbers of a type.
#[derive(Clone, Copy, Debug)]
pub struct Quantizing<T> {
    /// The least and the most of some numbers and 0.
    pub(crate) span: fn(&[T]) -> (f32, f32),
    /// Appends numbers as integers.
    pub(crate) quantize: fn(Quantization, &[T], &mut Vec<u8>),
}

impl Quantizing<f32> {
    /// That of floats.
    pub(crate) const FLOATS: Self = Self {
        span: |floats| SpanOf(floats).dispatch(),
        quantize: Quantization::quantize,
    };
}

impl<T> Quantizing<T> {
    /// Returns the quantisation for the range of some rows.
    pub(crate) fn of<'a>(self, rows: impl Iterator<Item = &'a [T]>) -> Quantization
    where
        T: 'a,
    {
        let spans = rows.map(self.span);
        let span = spans.fold((0_f32, 0_f32), |all, it| (all.0.min(it.0), all.1.max(it.1)));
        Quantization::for_span(span)
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

struct Quantize<'a> {
    data: &'a [f32],
    by: Quantization,
    to: &'a mut Vec<u8>,
}

/// The floats that are quantised at once: whole vectors of any processor.
const AT_ONCE: usize = 64;

impl SimdOp for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Quantization { scale, zero_point } = self.by;
        let (ops, integers) = (isa.f32(), isa.i32());
        let zero = f32::from(zero_point);
        let [least, most] = [-zero, f32::from(u8::MAX) - zero].map(|it| ops.splat(it));
        let by = ops.splat(scale);
        let mut padded = [0.0; AT_ONCE];
        for part in self.data.chunks(AT_ONCE) {
            let floats = match <&[f32; AT_ONCE]>::try_from(part) {
                Ok(whole) => whole,
                Err(_) => {
                    padded[..part.len()].copy_from_slice(part);
                    &padded
                }
            };
            let mut whole = [0; AT_ONCE];
            let vectors = floats.chunks_exact(ops.len());
            for (x, to) in vectors.zip(whole.chunks_exact_mut(ops.len())) {
                let quotient = ops.div(ops.load(x), by);
                // Of infinity by infinity, too, `max` of ONNX Runtime makes the lower bound.
                let quotient = ops.select(quotient, least, ops.eq(quotient, quotient));
                let bounded = ops.clamp(quotient, least, most);
                integers.store(ops.to_int_round(bounded), to);
            }
            let mut bytes = [0; AT_ONCE];
            for (to, it) in bytes.iter_mut().zip(whole) {
                *to = (it + i32::from(zero_point)) as u8;
            }
            self.to.extend_from_slice(&bytes[..part.len()]);
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
    /// Checks that the weights have the size [directions, inputs, rows], and that scales and zero points are
    /// one for each direction or one for each row.
    pub(crate) fn check(
        &self,
        operand: &'static str,
        [directions, rows, inputs]: [usize; 3],
    ) -> Result<(), Error> {
        check(operand, self.weights.len(), &[directions, inputs, rows])?;
        let lens = [self.scales.len(), self.zero_points.len()];
        for len in lens.into_iter().filter(|len| *len != directions) {
            check(operand, len, &[directions, rows])?;
        }
        Ok(())
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
                let zero = f32::from(by.zero_point);
                let mut found = vec![7];
                by.quantize(data, &mut found);
                assert_eq!(found.len(), 1 + data.len());
                for (found, x) in found[1..].iter().zip(data) {
                    let bounded = (x / by.scale).max(-zero).min(255.0 - zero);
                    let expected = bounded.round_ties_even() + zero;
                    assert_eq!(f32::from(*found), expected, "{x}");
                }
            }
        }
    }

    #[test]
    fn scales_are_those_of_directions_or_rows() {
        let quantized = |scales| Quantized {
            weights: Bytes::I8(&[1; 12]),
            scales,
            zero_points: Bytes::U8(&[0, 1]),
        };
        assert_eq!(quantized(&[0.5, 2.0]).check("W", [2, 2, 3]), Ok(()));
        assert_eq!(quantized(&[1.0; 4]).check("W", [2, 2, 3]), Ok(()));
        let error = quantized(&[1.0; 3]).check("W", [2, 2, 3]).unwrap_err();
        assert_eq!(error.to_string(), "W has 3 elements, expected 4: [2,2]");
        assert!(quantized(&[1.0; 2]).check("W", [2, 2, 4]).is_err());
    }
}
