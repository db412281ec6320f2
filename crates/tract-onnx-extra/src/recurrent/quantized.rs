//! ONNX Runtime's `DynamicQuantizeLSTM`: an `LSTM` whose weights are integers, and whose products
//! take its input and its state h as they are quantised to uint8.
//!
//! The crate recurrent-layers says how it computes.

use recurrent_layers::{Bytes, Quantized as Weights};
use tract_onnx::tract_hir::internal::*;

use crate::operator::Wiring;
use crate::typed_op::{Stateless, Typed};

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

    /// Replaces W and R by the floats that they stand for, in the layout of an LSTM.
    pub(super) fn wire(&self, to: &mut Wiring<'_>, inputs: &mut [OutletId]) -> TractResult<()> {
        let datum_type = to.fact(inputs[0])?.datum_type;
        ensure!(
            datum_type.is::<f32>(),
            "its X is {datum_type:?}, expected F32"
        );
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
                _ => to.op(name, Typed(op), &operands)?,
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
    /// Checks the type of the weights, or of what is named after them.
    fn check_type(&self, kind: &str, datum_type: DatumType) -> TractResult<()> {
        let bytes = [i8::datum_type(), u8::datum_type()];
        ensure!(
            bytes.contains(&datum_type),
            "its {}{kind} is {datum_type:?}, expected I8 or U8",
            self.name
        );
        Ok(())
    }

    fn apply(&self, weights: &Tensor, scales: &Tensor, zeros: &Tensor) -> TractResult<Tensor> {
        let &[directions, inputs, rows] = weights.shape() else {
            bail!("its {} has {} axes, expected 3", self.name, weights.rank());
        };
        self.check_type("", weights.datum_type())?;
        self.check_type("_zero_point", zeros.datum_type())?;
        for (kind, tensor) in [("scale", scales), ("zero_point", zeros)] {
            ensure!(
                tensor.shape() == [directions] || tensor.shape() == [directions, rows],
                "its {}_{kind} has shape {:?}, expected [{directions}] or [{directions}, {rows}]",
                self.name,
                tensor.shape()
            );
        }
        let scales = scales.cast_to::<f32>()?;
        let [weights, scales, zeros] = [weights, &*scales, zeros].map(Tensor::try_as_plain_ram);
        let (weights, scales, zeros) = (weights?, scales?, zeros?);
        let weights = Weights {
            weights: of_bytes(&weights)?,
            scales: scales.as_slice()?,
            zero_points: of_bytes(&zeros)?,
        };
        let floats = weights.to_floats(self.name, [directions, inputs, rows])?;
        Tensor::from_shape(&[directions, rows, inputs], &floats)
    }
}

/// The elements of a tensor of int8 or uint8.
fn of_bytes<'a>(plain: &'a PlainView<'_>) -> TractResult<Bytes<'a>> {
    if plain.datum_type() == i8::datum_type() {
        plain.as_slice().map(Bytes::I8)
    } else {
        plain.as_slice().map(Bytes::U8)
    }
}

impl Stateless for Dequantize {
    const NAME: &str = "DequantizeWeights";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (weights, scales, zeros) = args_3!(inputs);
        let weights = self.apply(&weights, &scales, &zeros)?;
        Ok(tvec![weights.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.check_type("", inputs[0].datum_type)?;
        let mut sizes = inputs[0].shape.to_tvec();
        sizes.swap(1, 2);
        Ok(tvec![f32::fact(sizes)])
    }
}
