//! Chooses how convolutions are computed, by their sizes.
//!
//! tract filters rows directly wherever they are long enough, although the product of matrices is up to
//! three times as fast with enough channels. It computes the images of a batch in one product, for which
//! it writes the windows of all images first, out of the caches; a convolution of single points even
//! changes the layout of its input and output. Here large images are convolved one after another:
//!
//! ```text
//! Conv([8, 64, 32, 128])   becomes   8 times Conv([1, 64, 32, 128])
//! ```

use tract_onnx::tract_core::knobs::KnobScope;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::optim::{OptimizerSession, TypedPass};
use tract_onnx::tract_hir::internal::*;

use crate::profile;

/// The fewest output channels, and inputs of an output, from which on a product beats the filter at
/// every size of image. With fewer, it may take twice as long for large images, whose panels are
/// written and read for too few operations. [M53]
const MIN_CHANNELS: usize = 32;
const MIN_INPUTS: usize = 256;

/// The fewest multiplications of an image that is worth a run of its own.
const MIN_PRODUCTS: usize = 1 << 20;

/// The fewest bytes of the windows of one image that do not stay in the caches with those of others.
const MIN_WINDOWS: usize = 1 << 20;

/// The pass, which comes before the choices of tract.
#[derive(Clone, Debug, Default)]
pub(super) struct Convolutions {
    next: usize,
}

impl TypedPass for Convolutions {
    fn reset(&mut self) -> TractResult<()> {
        self.next = 0;
        Ok(())
    }

    fn next(
        &mut self,
        _session: &mut OptimizerSession<'_>,
        model: &TypedModel,
    ) -> TractResult<Option<TypedModelPatch>> {
        while let Some(node) = model.nodes.get(self.next) {
            self.next += 1;
            let patch = if let Some(conv) = node.op_as::<Conv>() {
                match images_of_conv(conv, model, node)? {
                    None if prefers_product(conv) => without_filter(conv, model, node)?,
                    patch => patch,
                }
            } else if let Some(sum) = node.op_as::<EinSum>() {
                images_of_points(sum, model, node)?
            } else {
                None
            };
            if patch.is_some() {
                return Ok(patch);
            }
        }
        Ok(None)
    }
}

/// The inputs of an output of a convolution.
fn inputs_of(conv: &Conv) -> usize {
    let window: usize = conv.pool_spec.kernel_shape.iter().product();
    conv.input_channels() / conv.group * window
}

/// Whether a product of matrices is faster than tract's filter, which was measured for AVX2 and
/// AVX-512 alone.
fn prefers_product(conv: &Conv) -> bool {
    cfg!(target_arch = "x86_64")
        && conv.output_channels() >= MIN_CHANNELS
        && inputs_of(conv) >= MIN_INPUTS
}

/// tract's choice for a convolution, without the filter.
fn without_filter(
    conv: &Conv,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let scope = KnobScope::new([("TRACT_DISABLE_DIRECT_SPATIAL", "true")])?;
    scope.enter(|| conv.codegen(model, node))
}

/// A convolution as one for each image.
fn images_of_conv(
    conv: &Conv,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let output = model.outlet_fact(node.id.into())?;
    rule_if!(
        conv.q_params.is_none() && conv.pool_spec.data_format.has_n() && prefers_product(conv)
    );
    rule_if_some!(sizes = sizes_of_image(output));
    let points = sizes.iter().product::<usize>() / conv.output_channels().max(1);
    let windows = points * inputs_of(conv) * conv.group * output.datum_type.size_of();
    rule_if!(windows >= MIN_WINDOWS);
    images(model, node, node)
}

/// A convolution of single points, which tract has as a sum of products, as one for each image.
fn images_of_points(
    sum: &EinSum,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(sum.q_params.is_none() && node.inputs.len() == 2);
    let axes = |slot| {
        sum.axes
            .axes(slot)
            .map(|axis| axis.repr)
            .collect::<Vec<_>>()
    };
    let (image, weights, output) = (axes(InOut::In(0)), axes(InOut::In(1)), axes(InOut::Out(0)));
    // The axes of an image are those of the output, but for the channels.
    let [batch, channels, points @ ..] = &*image else {
        return Ok(None);
    };
    let [batch_out, _, points_out @ ..] = &*output else {
        return Ok(None);
    };
    rule_if!(batch == batch_out && points == points_out && !points.is_empty());
    rule_if!(weights.len() == 2 && weights.contains(channels) && !output.contains(channels));
    rule_if_some!(sizes = sizes_of_image(model.outlet_fact(node.id.into())?));
    rule_if_some!(inputs = model.outlet_fact(node.inputs[0])?.shape[1].as_i64());
    rule_if!(sizes.iter().product::<usize>() * inputs as usize >= MIN_PRODUCTS);
    let last = bias(model, node)?.unwrap_or(node);
    images(model, node, last)
}

/// The node that adds a bias to the value of a node, which nothing else reads.
fn bias<'m>(model: &'m TypedModel, node: &TypedNode) -> TractResult<Option<&'m TypedNode>> {
    rule_if!(!model.outputs.contains(&node.id.into()));
    rule_if_let!([reader] = &*node.outputs[0].successors);
    let adds = model.node(reader.node);
    rule_if!(adds.op_as::<TypedBinOp>().is_some());
    let other = model.outlet_fact(adds.inputs[1 - reader.slot])?;
    Ok((other.konst.is_some() && other.shape[0].is_one()).then_some(adds))
}

/// The sizes of one of several images, if they are known.
fn sizes_of_image(fact: &TypedFact) -> Option<Vec<usize>> {
    let (batch, image) = fact.shape.split_first()?;
    if batch.is_one() {
        return None;
    }
    image.iter().map(|size| size.to_usize().ok()).collect()
}

/// The nodes from one to another, which may be the same, as a node that runs them for each image.
fn images(
    model: &TypedModel,
    first: &TypedNode,
    last: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let batch = model.outlet_fact(first.inputs[0])?;
    rule_if_some!(image = sizes_of_image(batch));
    let mut body = TypedModel::default();
    let sizes = std::iter::once(1).chain(image);
    let source = batch.datum_type.fact(sizes.collect::<TVec<usize>>());
    let mut value = body.add_source("image", source)?;
    let mut from = first.inputs[0];
    for node in [first, last] {
        if from == node.id.into() {
            break;
        }
        let mut inputs = tvec!();
        for &input in &node.inputs {
            if input == from {
                inputs.push(value);
                continue;
            }
            rule_if_some!(constant = model.outlet_fact(input)?.konst.clone());
            let name = format!("{}.{}", node.name, inputs.len());
            inputs.push(body.add_const(name, constant)?);
        }
        value = body.wire_node(&*node.name, node.op.clone(), &inputs)?[0];
        from = node.id.into();
    }
    body.select_output_outlets(&[value])?;
    let op = Images {
        body: super::optimized(body)?,
    };
    let mut patch = TypedModelPatch::default();
    let input = patch.tap_model(model, first.inputs[0])?;
    let output = patch.wire_node(&*last.name, op, &[input])?[0];
    patch.shunt_outside(model, last.id.into(), output)?;
    Ok(Some(patch))
}

/// A convolution of several images, one after another.
#[derive(Clone, Debug)]
struct Images {
    /// The convolution of one image, optimised.
    body: TypedModel,
}

never_equal!(Images);

impl Op for Images {
    fn name(&self) -> StaticName {
        "ConvImages".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Images {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        let running = SimplePlan::new(self.body.clone())?.spawn()?;
        Ok(Some(Box::new(Running(running))))
    }
}

/// The convolution of one image.
#[derive(Clone, Debug)]
struct Running(TypedSimpleState);

impl OpState for Running {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<Images>().context("its own op")?;
        let fact = op.body.output_fact(0)?;
        let batch = inputs[0].shape()[0];
        let mut shape: TVec<usize> = fact.shape.eval_to_usize(ctx.symbols)?.into_owned();
        shape[0] = batch;
        let mut output = Tensor::zero_dt(fact.datum_type, &shape)?;
        for image in 0..batch {
            let part = image..image + 1;
            let input = inputs[0].slice(0, part.start, part.end)?;
            self.0.set_input(0, input.into_tvalue())?;
            profile::exec(&mut self.0)?;
            output.assign_slice(part, &self.0.outputs()?[0], 0..1, 0)?;
            self.0.reset_turn()?;
        }
        Ok(tvec!(output.into_tvalue()))
    }

    fn reset_lanes(&mut self, lanes: &[LaneId]) -> TractResult<()> {
        self.0.reset_lanes(lanes)
    }
}

impl TypedOp for Images {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut fact = self.body.output_fact(0)?.without_value();
        fact.shape.set(0, inputs[0].shape[0].clone());
        Ok(tvec!(fact))
    }

    as_op!();
}
