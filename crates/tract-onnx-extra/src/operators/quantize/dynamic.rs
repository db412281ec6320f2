//! DynamicQuantizeLinear.

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::linear::{Real, bytes};
use crate::data_sizes::{CustomNode, CustomOp};
use crate::node::check_domain;

/// Parses a DynamicQuantizeLinear.
pub(super) fn parse(
    _ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    Ok((Box::new(CustomOp(Dynamic)), vec![]))
}

/// Returns the scale and the zero point of the range of floats, which includes 0.
fn parameters(data: &[f32]) -> (f32, u8) {
    let (least, most) = SpanOf(data).dispatch();
    let scale = if least == most {
        1.0
    } else {
        (most - least) / f32::from(u8::MAX)
    };
    let zero = (0.0 - least / scale).clamp(0.0, u8::MAX.into());
    (scale, zero.round_ties_even() as u8)
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

/// Quantises floats like [`Dynamic`], and dequantises them. NaN stays NaN.
pub(crate) fn fake_quantize(data: &mut [f32]) {
    let (scale, zero) = parameters(data);
    FakeQuantize { data, scale, zero }.dispatch();
}

struct FakeQuantize<'a> {
    data: &'a mut [f32],
    scale: f32,
    zero: u8,
}

impl SimdOp for FakeQuantize<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Self { data, scale, zero } = self;
        let ops = isa.f32();
        let whole = i32::from(zero);
        let bounds = [-whole, i32::from(u8::MAX) - whole].map(|it| ops.splat(it as f32));
        let by = ops.splat(scale);
        let mut vectors = data.chunks_exact_mut(ops.len());
        for vector in &mut vectors {
            let x = ops.load(vector);
            // The same steps as those of one number: infinity by infinity is the lower bound.
            let quotient = ops.div(x, by);
            let quotient = ops.select(quotient, bounds[0], ops.eq(quotient, quotient));
            let bounded = ops.clamp(quotient, bounds[0], bounds[1]);
            // No -0 is left by the sum.
            let rounded = ops.add(ops.round_ties_even(bounded), ops.zero());
            let made = ops.mul(rounded, by);
            ops.store(ops.select(made, x, ops.eq(x, x)), vector);
        }
        let rest = vectors.into_remainder().iter_mut();
        for it in rest.filter(|it| !it.is_nan()) {
            let quantized = it.quantized(scale, whole, 0, u8::MAX.into());
            *it = scale.times_small(quantized - whole);
        }
    }
}

/// Quantises floats to uint8 by [`parameters`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dynamic;

impl CustomNode for Dynamic {
    type Typed = Self;

    fn name(&self) -> StaticName {
        "DynamicQuantizeLinear".into()
    }

    fn arity(&self) -> (usize, usize) {
        (1, 3)
    }

    fn typed(&self, _inputs: &[&TypedFact]) -> TractResult<Self> {
        Ok(self.clone())
    }
}

impl Op for Dynamic {
    fn name(&self) -> StaticName {
        "DynamicQuantizeLinear".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Dynamic {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = inputs[0].try_as_plain_ram()?;
        let (scale, zero) = parameters(data.as_slice::<f32>()?);
        let quantized = bytes(&inputs[0], scale, zero)?;
        Ok(tvec![
            quantized.into_tvalue(),
            tensor0(scale).into_tvalue(),
            tensor0(zero).into_tvalue(),
        ])
    }
}

impl TypedOp for Dynamic {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let datum_type = inputs[0].datum_type;
        ensure!(
            datum_type == f32::datum_type(),
            "its data is {datum_type:?}, expected floats"
        );
        let quantized = u8::fact(inputs[0].shape.clone());
        Ok(tvec![quantized, f32::scalar_fact(), u8::scalar_fact()])
    }

    as_op!();
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
                let (scale, zero) = parameters(data);
                let expected = data.iter().map(|it| {
                    let quantized = it.quantized(scale, zero.into(), 0, u8::MAX.into());
                    scale.times_small(quantized - i32::from(zero))
                });
                let mut found = data.to_vec();
                fake_quantize(&mut found);
                for ((found, expected), x) in found.iter().zip(expected).zip(data) {
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
}
