//! Chooses how convolutions are computed, by their sizes.
//!
//! tract filters rows directly, or multiplies the weights by the windows of an image. It writes all of
//! these first, out of the caches, and has the channels in the rows of a kernel's tiles, whose numbers
//! it then stores one by one. Here windows are packed where a product needs them (`packed.rs`), and are
//! the rows, so that a tile is stored as it is; also where the filter would take longer:
//!
//! ```text
//! Conv, EinSum of an image's points   become   ConvWindows, OptMatMul
//! ```
//!
//! Where each group has a single input channel, windows are summed tap by tap (`sliding.rs`).

use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::conv::DirectSpatialConv;
use tract_onnx::tract_core::ops::cnn::{Conv, PaddingSpec, PoolSpec};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::Add;
use tract_onnx::tract_core::ops::matmul::ModePicker;
use tract_onnx::tract_core::ops::matmul::optimized::{
    AddMatMulGeometry, MapOutputAxisToInput, MatMulOperand, OptMatMul, ProtoFusedSpec,
};
use tract_onnx::tract_core::ops::nn::DataFormat;
use tract_onnx::tract_core::tract_linalg::cache::cache_info;
use tract_onnx::tract_core::tract_linalg::mmm::{
    MatMatMul, OutputStoreSpec, PackedMatrixStorage, Query,
};
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;
use tract_onnx::tract_core::tract_linalg::{BinOp, MmmDispatch};
use tract_onnx::tract_hir::internal::*;

use crate::typed_op::Typed;
use packed::ConvWindows;
use sliding::ConvSliding;

mod packed;
mod sliding;
pub(crate) mod windows;

/// The fewest output channels, and inputs of an output, from which on a product beats the filter at
/// every size of image. [M53]
const MIN_CHANNELS: usize = 32;
const MIN_INPUTS: usize = 256;

/// The most inputs of an output from which on a product of several outputs of one channel beats
/// sums.
const MAX_TAPS: usize = 32;

/// The kernel whose tiles have two vectors of windows. That of AVX2 is slower for single points.
const WIDE: &str = "avx512_mmm_f32_32x6";

/// The most windows of an image that are multiplied together with those of the others. [M53]
const JOINED_WINDOWS: usize = 256;

/// The most bytes of windows that are packed for that at once. [M53]
const MAX_PACKED: usize = 16 << 20;

/// A convolution as a product of its windows, or as their sums.
pub(crate) fn chosen(model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
    // It was measured for AVX2 and AVX-512 alone.
    rule_if!(cfg!(target_arch = "x86_64"));
    if let Some(conv) = node.op_as::<Conv>() {
        chosen_for_conv(conv, model, node)
    } else if let Some(sum) = node.op_as::<EinSum>() {
        product_of_points(sum, model, node)
    } else {
        Ok(None)
    }
}

/// Whether tract would filter a convolution directly that a product computes faster, or compute a
/// product itself.
fn prefers_product(conv: &Conv, model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
    let Some(of_tract) = conv.codegen(model, node)? else {
        return Ok(false);
    };
    let window: usize = conv.pool_spec.kernel_shape.iter().product();
    let inputs = conv.input_channels() / conv.group * window;
    let is_large = conv.output_channels() >= MIN_CHANNELS && inputs >= MIN_INPUTS;
    Ok(of_tract.nodes().iter().any(|node| {
        node.op_is::<DirectSpatialConv>() && is_large || node.op.name().ends_with("m2col")
    }))
}

/// Whether windows of single channels are summed faster than multiplied.
fn is_sliding(conv: &Conv) -> bool {
    let taps: usize = conv.pool_spec.kernel_shape.iter().product();
    let outputs = conv.output_channels() / conv.group;
    conv.input_channels() == conv.group && (outputs == 1 || taps <= MAX_TAPS)
}

fn chosen_for_conv(
    conv: &Conv,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if!(conv.q_params.is_none() && !conv.pool_spec.data_format.c_is_last());
    let [image, weights, bias] = *model.node_input_facts(node.id)? else {
        return Ok(None);
    };
    rule_if!(image.datum_type == f32::datum_type());
    rule_if_some!(weights = numbers(weights));
    rule_if_some!(bias = numbers(bias));
    rule_if!(weights.len() > 0);
    let pool = conv.pool_spec.clone();
    let by_channel = || conv.kernel_fmt.kernel_as_group_o_ihw(&weights, conv.group);
    if is_sliding(conv) {
        let op = ConvSliding {
            pool,
            weights: by_channel()?.into_arc_tensor(),
            bias,
        };
        return TypedModelPatch::replace_single_op(model, node, &node.inputs[..1], Typed(op))
            .map(Some);
    }
    rule_if!(prefers_product(conv, model, node)?);
    let product = Product {
        pool,
        weights: by_channel()?,
        bias: Some(bias),
    };
    product.wire(model, node, node)
}

/// A convolution of single points, which tract has as a sum of products.
fn product_of_points(
    sum: &EinSum,
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    let [image, weights] = *model.node_input_facts(node.id)? else {
        return Ok(None);
    };
    rule_if!(sum.q_params.is_none() && image.datum_type == f32::datum_type());
    rule_if_some!(weights = numbers(weights));
    let axes = |slot| {
        let axes = sum.axes.axes(slot);
        axes.map(|axis| axis.repr).collect::<Vec<_>>()
    };
    let (from, by, to) = (axes(InOut::In(0)), axes(InOut::In(1)), axes(InOut::Out(0)));
    // The axes of an image are those of the output, but for the channels.
    let channel = usize::from(from.first() == to.first());
    rule_if!(from.len() == to.len() && from.len() > channel + 1 && by.len() == 2);
    rule_if!(from[..channel] == to[..channel] && from[channel + 1..] == to[channel + 1..]);
    let (inputs, outputs) = (from[channel], to[channel]);
    rule_if!(inputs != outputs && by.contains(&inputs) && by.contains(&outputs));
    let is_reversed = by[0] == inputs;
    let mut weights = weights.into_tensor();
    if is_reversed {
        weights = weights.permute_axes(&[1, 0])?;
    }
    let (output_channels, input_channels) = (weights.shape()[0], weights.shape()[1]);
    rule_if!(weights.len() > 0 && image.shape[channel] == input_channels.to_dim());
    weights.insert_axis(0)?;
    let (last, bias) = match bias(model, node, channel)? {
        Some((last, bias)) => (last, Some(bias)),
        None => (node, None),
    };
    let product = Product {
        pool: PoolSpec {
            data_format: [DataFormat::CHW, DataFormat::NCHW][channel],
            kernel_shape: tvec!(1; from.len() - channel - 1),
            padding: PaddingSpec::Valid,
            input_channels,
            output_channels,
            ..PoolSpec::default()
        },
        weights,
        bias,
    };
    product.wire(model, node, last)
}

/// The numbers of a constant, if they are floats.
fn numbers(fact: &TypedFact) -> Option<Arc<Tensor>> {
    let is_plain = fact.datum_type == f32::datum_type() && !fact.is_exotic();
    fact.konst.clone().filter(|_| is_plain)
}

/// The node that adds a number for each channel to the value of a node, which nothing else reads.
fn bias<'m>(
    model: &'m TypedModel,
    node: &TypedNode,
    channel: usize,
) -> TractResult<Option<(&'m TypedNode, Arc<Tensor>)>> {
    rule_if!(!model.outputs.contains(&node.id.into()));
    rule_if_let!([reader] = &*node.outputs[0].successors);
    let adds = model.node(reader.node);
    rule_if!(
        adds.op_as::<TypedBinOp>()
            .is_some_and(|op| op.0.is::<Add>())
    );
    rule_if_some!(bias = numbers(model.outlet_fact(adds.inputs[1 - reader.slot])?));
    let channels = &model.outlet_fact(node.id.into())?.shape[channel];
    rule_if!(bias.shape()[channel] == bias.len() && channels == &bias.len().to_dim());
    Ok(Some((adds, bias)))
}

/// A convolution whose weights are known: [group, channels, window].
struct Product {
    pool: PoolSpec,
    weights: Tensor,
    bias: Option<Arc<Tensor>>,
}

impl Product {
    /// Computes the value of a node from the input of another.
    fn wire(
        self,
        model: &TypedModel,
        first: &TypedNode,
        last: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let [group, channels, k] = *self.weights.shape() else {
            return Ok(None);
        };
        let output = self
            .pool
            .output_shape(&model.outlet_fact(first.inputs[0])?.shape)?;
        let of_image: TDim = output.hw_dims().iter().product();
        let batch = output.n().cloned().unwrap_or_else(|| 1.to_dim());
        // Where the weights leave the cache, tract has tiles in an order that needs windows again
        // and again.
        let cache = cache_info().l2;
        let is_lazy = cache == 0 || self.weights.len() * size_of::<f32>() <= cache;
        // Together the weights are read once for all images, and tiles are full.
        let is_small = of_image.to_usize().is_ok_and(|it| it <= JOINED_WINDOWS);
        let packed = (batch.clone() * &of_image * (k * size_of::<f32>())).to_usize();
        let has_room = is_lazy || packed.is_ok_and(|bytes| bytes <= MAX_PACKED);
        let is_joined = is_small && has_room && group == 1 && !batch.is_one();
        let (images, windows) = match is_joined {
            true => (1.to_dim(), batch.clone() * &of_image),
            false => (batch.clone(), of_image.clone()),
        };
        rule_if_some!(tiles = Tiles::new(&windows, k, channels, is_lazy));
        let Tiles { kernel, are_rows } = tiles;
        let (of_rows, of_columns) = &kernel.packings()[0];
        let (of_windows, of_weights) = match are_rows {
            true => (of_rows, of_columns),
            false => (of_columns, of_rows),
        };
        rule_if_some!(format = of_windows.downcast_ref::<PackedFormat>());
        rule_if!(of_weights.is::<PackedFormat>());
        let name = &last.name;
        let mut patch = TypedModelPatch::default();
        let image = patch.tap_model(model, first.inputs[0])?;
        let op = ConvWindows {
            pool: self.pool.clone(),
            group,
            is_joined,
            format: format.clone(),
            is_lazy,
        };
        let mut inputs = tvec!(patch.wire_node(format!("{name}.windows"), Typed(op), &[image])?[0]);
        let packed = (0..group).map(|group| {
            of_weights.prepare_one_view(&self.weights.view_at_prefix(&[group])?, 1, 0)
        });
        let packed =
            PackedMatrixStorage::new_batched(&[group], packed.collect::<TractResult<_>>()?);
        let packed = packed.into_tensor(f32::datum_type());
        inputs.push(patch.add_const(format!("{name}.weights"), packed)?);
        let by_group = MapOutputAxisToInput(if group > 1 { tvec!((1, 0)) } else { tvec!() });
        let by_image = MapOutputAxisToInput(tvec!((0, 0), (1, 1)));
        let operands = [(0, 3, by_image), (1, 2, by_group.clone())];
        let [
            (a, m_axis, c_to_a_axis_mapping),
            (b, n_axis, c_to_b_axis_mapping),
        ] = match are_rows {
            true => operands,
            false => {
                let [windows, weights] = operands;
                [weights, windows]
            }
        };
        let mut ops = vec![ProtoFusedSpec::AddMatMul {
            geo: AddMatMulGeometry {
                k: k.to_dim(),
                c_to_a_axis_mapping,
                c_to_b_axis_mapping,
            },
            a: MatMulOperand::Input(a),
            b: MatMulOperand::Input(b),
            packings: vec![(0, None)],
        }];
        if let Some(bias) = self.bias {
            let is_one = bias.len() == 1;
            let shape: &[usize] = if is_one {
                &[]
            } else {
                &[group, channels][usize::from(group == 1)..]
            };
            let bias = bias.into_tensor().into_shape(shape)?;
            inputs.push(patch.add_const(format!("{name}.bias"), bias)?);
            ops.push(match (is_one, are_rows) {
                (true, _) => ProtoFusedSpec::BinScalar(2, BinOp::Add),
                (false, true) => ProtoFusedSpec::BinPerCol(2, BinOp::Add, by_group),
                (false, false) => ProtoFusedSpec::BinPerRow(2, BinOp::Add, by_group),
            });
        }
        ops.push(ProtoFusedSpec::Store(vec![OutputStoreSpec::View {
            m_axis: Some(m_axis),
            n_axis: Some(n_axis),
            mr: kernel.mr(),
            nr: kernel.nr(),
        }]));
        let shape = [images, group.to_dim(), channels.to_dim(), windows.clone()];
        let op = OptMatMul::new(
            vec![kernel],
            ModePicker::Single,
            f32::fact(shape),
            Some(m_axis),
            Some(n_axis),
            ops,
            group == 1,
        )?;
        let mut sums = patch.wire_node(format!("{name}.product"), op, &inputs)?[0];
        let both = tvec!(group.to_dim(), channels.to_dim());
        let channel = usize::from(self.pool.data_format.has_n());
        let mut shapes = vec![match group {
            1 => AxisOp::Rm(1),
            _ => AxisOp::Reshape(1, both, tvec!((group * channels).to_dim())),
        }];
        shapes.extend((channel == 0 || is_joined).then_some(AxisOp::Rm(0)));
        if is_joined {
            let apart = tvec!(batch, of_image.clone());
            shapes.push(AxisOp::Reshape(1, tvec!(windows), apart));
            shapes.push(AxisOp::Move(1, 0));
        }
        let sizes = output.hw_dims().iter().cloned().collect();
        shapes.push(AxisOp::Reshape(channel + 1, tvec!(of_image), sizes));
        for (index, shape) in shapes.into_iter().enumerate() {
            sums = patch.wire_node(format!("{name}.shape.{index}"), shape, &[sums])?[0];
        }
        patch.node_mut(sums.node).name = name.clone();
        patch.shunt_outside(model, last.id.into(), sums)?;
        Ok(Some(patch))
    }
}

/// The tiles of a product of windows and weights.
struct Tiles {
    kernel: Box<dyn MatMatMul>,
    /// Whether the windows are a tile's rows; otherwise, its columns.
    are_rows: bool,
}

impl Tiles {
    /// Chooses one of tract's kernels that multiply plain numbers.
    ///
    /// With AVX-512 two vectors of windows are the fastest for all channels; tract's choice is fitted
    /// to products whose tiles are stored number by number. [M53]
    fn new(windows: &TDim, k: usize, channels: usize, is_lazy: bool) -> Option<Self> {
        let windows = windows.to_usize().ok();
        let dispatch = MmmDispatch::native();
        let query = Query {
            allow_extractor: false,
            ..Query::plain(f32::datum_type(), windows, Some(k), Some(channels))
        };
        let (chosen, packing, _) = dispatch.pick(&query)?;
        let rows = |kernel| Self {
            kernel,
            are_rows: true,
        };
        let chosen = (packing == 0).then_some(chosen);
        let wide = dispatch.runnable().iter().find(|it| it.name() == WIDE);
        let Some(wide) = wide.cloned() else {
            return chosen.map(rows);
        };
        let Some(windows) = windows else {
            return Some(rows(wide));
        };
        let area = |rows: usize, columns: usize| {
            rows.next_multiple_of(wide.mr()) * columns.next_multiple_of(wide.nr())
        };
        // Windows are packed for each row of tiles, unless they are at once.
        if !is_lazy && 10 * area(channels, windows) < 9 * area(windows, channels) {
            return Some(Self {
                kernel: wide,
                are_rows: false,
            });
        }
        let whole = windows.next_multiple_of(wide.mr());
        if windows < 2 * wide.mr() && 4 * windows < 3 * whole {
            return chosen.map(rows);
        }
        Some(rows(wide))
    }
}
