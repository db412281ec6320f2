//! ONNX Runtime's `DynamicQuantizeLSTM`: an `LSTM` whose weights are integers, and whose products
//! take its input and its state h as they are quantised to uint8.
//!
//! The crate recurrent-layers says how it computes.

use recurrent_layers::Quantized as Weights;
use tract_onnx::tract_hir::internal::*;

use crate::operators::quantize::bytes_of;

/// The inputs that hold the scales and the zero points of the weights W and R.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized(pub(super) [usize; 4]);

impl Quantized {
    /// Reads the inputs W_scale, W_zero_point, R_scale and R_zero_point.
    pub(super) fn read(inputs: [Option<usize>; 4]) -> TractResult<Self> {
        let [Some(w_scale), Some(w_zero), Some(r_scale), Some(r_zero)] = inputs else {
            bail!("it lacks W_scale, W_zero_point, R_scale or R_zero_point");
        };
        Ok(Self([w_scale, w_zero, r_scale, r_zero]))
    }

    /// The number of inputs.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Packs weights, [directions, inputs, gates * units]. Scales and zero points are each for a direction, or
/// for each gate of each unit, too.
pub(super) fn packed<T>(
    name: &str,
    weights: &Tensor,
    [scales, zeros]: [&Tensor; 2],
    pack: impl FnOnce(&Weights<'_>) -> Result<T, recurrent_layers::Error>,
) -> TractResult<T> {
    let &[directions, _, rows] = weights.shape() else {
        bail!("its {name} has {} axes, expected 3", weights.rank());
    };
    for (kind, tensor) in [("", weights), ("_zero_point", zeros)] {
        let datum_type = tensor.datum_type();
        ensure!(
            [i8::datum_type(), u8::datum_type()].contains(&datum_type),
            "its {name}{kind} is {datum_type:?}, expected I8 or U8"
        );
    }
    for (kind, tensor) in [("scale", scales), ("zero_point", zeros)] {
        ensure!(
            tensor.shape() == [directions] || tensor.shape() == [directions, rows],
            "its {name}_{kind} has shape {:?}, expected [{directions}] or [{directions}, {rows}]",
            tensor.shape()
        );
    }
    let scales = scales.cast_to::<f32>()?;
    let [weights, scales, zeros] = [weights, &*scales, zeros].map(Tensor::try_as_plain_ram);
    let (weights, scales, zeros) = (weights?, scales?, zeros?);
    Ok(pack(&Weights {
        weights: bytes_of(&weights)?,
        scales: scales.as_slice()?,
        zero_points: bytes_of(&zeros)?,
    })?)
}
