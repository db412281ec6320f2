//! Convolutions of which each group has a single input channel.
//!
//! There is nothing to multiply as matrices: each output is a sum of few elements of one plane.

use tract_onnx::tract_core::ops::cnn::PoolSpec;
use tract_onnx::tract_hir::internal::*;

use crate::sliding::{Axis, Fold, slide};

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

impl Op for ConvSliding {
    fn name(&self) -> StaticName {
        "ConvSliding".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.pool.info())
    }

    op_as_typed_op!();
}

impl EvalOp for ConvSliding {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let image = args_1!(inputs);
        let sizes = self.pool.output_shape(image.shape())?.shape;
        let shape = self.pool.data_format.shape(image.shape())?;
        let axes = Axis::all(&self.pool, shape.hw_dims());
        let (weights, bias) = (
            self.weights.try_as_plain_ram()?,
            self.bias.try_as_plain_ram()?,
        );
        let sum = Sum {
            weights: weights.as_slice()?,
            taps: self.pool.kernel_shape.iter().product(),
            bias: bias.as_slice()?,
        };
        let mut sums = Tensor::zero::<f32>(&sizes)?;
        let mut to = sums.try_as_plain_ram_mut()?;
        let from = image.try_as_plain_ram()?;
        slide(&axes, from.as_slice()?, to.as_slice_mut()?, &sum)?;
        Ok(tvec!(sums.into_tvalue()))
    }
}

impl TypedOp for ConvSliding {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.pool.output_facts(inputs)
    }

    as_op!();
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
