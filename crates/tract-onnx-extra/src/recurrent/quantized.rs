//! ONNX Runtime's `DynamicQuantizeLSTM`: an `LSTM` whose weights are integers, and whose products
//! take its input and its state h as they are quantised to uint8.
//!
//! ONNX Runtime multiplies integers. The floats that these stand for have the same products up to
//! rounding, so the layer computes like any other one, with its input and states rounded.

use tract_onnx::tract_hir::internal::*;

use super::Wiring;
use crate::operators::quantize::fake_quantize;

pub(super) const OPERATOR: &str = "DynamicQuantizeLSTM";

/// The inputs that hold the scales and the zero points of the weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized {
    /// Quantisations of W and R.
    scales: [usize; 2],
    zeros: [usize; 2],
}

impl Quantized {
    /// Reads the inputs W_scale, W_zero_point, R_scale and R_zero_point.
    pub(super) fn read(inputs: [Option<usize>; 4]) -> TractResult<Self> {
        let [Some(w_scale), Some(w_zero), Some(r_scale), Some(r_zero)] = inputs else {
            bail!("it lacks W_scale, W_zero_point, R_scale or R_zero_point");
        };
        Ok(Self {
            scales: [w_scale, r_scale],
            zeros: [w_zero, r_zero],
        })
    }

    /// The number of inputs.
    pub(super) fn count(&self) -> usize {
        self.scales.len() + self.zeros.len()
    }

    /// Replaces X, W and R by the floats that they stand for, the weights in the layout of an LSTM.
    pub(super) fn wire(&self, to: &mut Wiring<'_>, inputs: &mut [OutletId]) -> TractResult<()> {
        let datum_type = to.fact(inputs[0])?.datum_type;
        ensure!(datum_type.is::<f32>(), "X is {datum_type:?}, expected F32");
        // ONNX Runtime quantises the whole sequence at once.
        inputs[0] = to.op("quantized", FakeQuantize, &[inputs[0]])?;
        for (index, name) in ["W", "R"].into_iter().enumerate() {
            let operands = [
                inputs[1 + index],
                inputs[self.scales[index]],
                inputs[self.zeros[index]],
            ];
            let known = operands.map(|it| to.fact(it).ok()?.konst.clone());
            let op = Dequantize { name };
            inputs[1 + index] = match known {
                [Some(weights), Some(scales), Some(zeros)] => {
                    to.constant(name, op.apply(&weights, &scales, &zeros)?)?
                }
                _ => to.op(name, op, &operands)?,
            };
        }
        Ok(())
    }
}

/// Dequantises weights, [directions, inputs, gates * units], and transposes them to [directions,
/// gates * units, inputs]. The other operands are scales and zero points, each for a direction, or
/// for each gate of each unit, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dequantize {
    name: &'static str,
}

impl Dequantize {
    fn check_type(&self, datum_type: DatumType) -> TractResult<()> {
        let bytes = [i8::datum_type(), u8::datum_type()];
        ensure!(
            bytes.contains(&datum_type),
            "{} is {datum_type:?}, expected I8 or U8",
            self.name
        );
        Ok(())
    }

    fn apply(&self, weights: &Tensor, scales: &Tensor, zeros: &Tensor) -> TractResult<Tensor> {
        let &[directions, inputs, rows] = weights.shape() else {
            bail!("{} has {} axes, expected 3", self.name, weights.rank());
        };
        self.check_type(weights.datum_type())?;
        for (kind, tensor) in [("scale", scales), ("zero_point", zeros)] {
            ensure!(
                tensor.shape() == [directions] || tensor.shape() == [directions, rows],
                "{}_{kind} has shape {:?}, expected [{directions}] or [{directions}, {rows}]",
                self.name,
                tensor.shape()
            );
        }
        let [weights, scales, zeros] = [weights, scales, zeros].map(|it| it.cast_to::<f32>());
        let (weights, scales, zeros) = (weights?, scales?, zeros?);
        let weights = weights.to_plain_array_view::<f32>()?;
        let (scales, zeros) = (scales.try_as_plain_ram()?, zeros.try_as_plain_ram()?);
        let (scales, zeros) = (scales.as_slice::<f32>()?, zeros.as_slice::<f32>()?);
        let at = |all: &[f32], direction: usize, row: usize| match all.len() == directions {
            true => all[direction],
            false => all[direction * rows + row],
        };
        let made = tract_ndarray::Array3::from_shape_fn(
            (directions, rows, inputs),
            |(direction, row, input)| {
                let weight = weights[[direction, input, row]] - at(zeros, direction, row);
                weight * at(scales, direction, row)
            },
        );
        Ok(made.into_tensor())
    }
}

impl Op for Dequantize {
    fn name(&self) -> StaticName {
        "DequantizeWeights".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Dequantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (weights, scales, zeros) = args_3!(inputs);
        let weights = self.apply(&weights, &scales, &zeros)?;
        Ok(tvec![weights.into_tvalue()])
    }
}

impl TypedOp for Dequantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.check_type(inputs[0].datum_type)?;
        let mut sizes = inputs[0].shape.to_tvec();
        sizes.swap(1, 2);
        Ok(tvec![f32::fact(sizes)])
    }

    as_op!();
}

/// Quantises floats to uint8 by the range of all, and dequantises them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FakeQuantize;

impl Op for FakeQuantize {
    fn name(&self) -> StaticName {
        "FakeQuantize".into()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for FakeQuantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut data = args_1!(inputs).into_tensor();
        let mut plain = data.try_as_plain_ram_mut()?;
        fake_quantize(plain.as_slice_mut::<f32>()?);
        Ok(tvec![data.into_tvalue()])
    }
}

impl TypedOp for FakeQuantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![inputs[0].without_value()])
    }

    as_op!();
}
