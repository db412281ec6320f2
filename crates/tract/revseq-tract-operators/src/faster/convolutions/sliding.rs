//! Convolutions of which each group has a single input channel.
//!
//! There is nothing to multiply as matrices: each output is a sum of few elements of one plane.

use tract_onnx::tract_core::ops::cnn::PoolSpec;
use tract_onnx::tract_hir::internal::*;

use crate::faster::sliding::{Fold, slide_floats, window_facts};
use crate::typed_op::Stateless;

/// A convolution of single channels, [`batch`, `channels`, ...] floats.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConvSliding {
    pub(super) pool: PoolSpec,
    /// The weights of a window, for each output channel.
    pub(super) weights: Arc<Tensor>,
    /// A number for each output channel, or one for all.
    pub(super) bias: Arc<Tensor>,
}

impl Eq for ConvSliding {}

impl Stateless for ConvSliding {
    const NAME: &str = "ConvSliding";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.pool.info())
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let image = args_1!(inputs);
        let weights = self.weights.try_as_plain_ram()?.as_slice()?;
        let bias = self.bias.try_as_plain_ram()?.as_slice()?;
        let taps = self.pool.kernel_shape.iter().product();
        let sums = slide_floats(&self.pool, &image, |_| Sum {
            weights,
            taps,
            bias,
        })?;
        Ok(tvec!(sums.into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        window_facts(&self.pool, inputs)
    }
}

/// The bias, and the products of a window with the weights.
struct Sum<'a> {
    weights: &'a [f32],
    taps: usize,
    bias: &'a [f32],
}

impl Fold<f32> for Sum<'_> {
    const PADDING: f32 = 0.0;

    fn first(&self, plane: usize) -> f32 {
        self.bias[plane % self.bias.len()]
    }

    fn taps(&self, plane: usize) -> impl Iterator<Item = impl Fn(f32, f32) -> f32> + Clone {
        let channel = plane % (self.weights.len() / self.taps);
        let weights = &self.weights[channel * self.taps..][..self.taps];
        let products = weights.iter();
        products.map(|weight| move |sum: f32, element: f32| sum + weight * element)
    }
}
