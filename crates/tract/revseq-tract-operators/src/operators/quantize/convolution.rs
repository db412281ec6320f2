//! Convolutions of bytes: ConvInteger and QLinearConv.
//!
//! The weights of a group are the rows of a product, and the windows of an image its columns, which are
//! packed where they are multiplied.

use integer_products::{Bytes, Dense, Matrix, PackedColumns, PackedRows, Sink, WIDTH, ZeroPoints};
use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::cnn::{Conv, PoolSpec};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use super::scaled::{OutputQuantization, Parameter, Scaled};
use super::{bytes_of, check_bytes, with_parameters, work};
use crate::faster::convolutions::windows::Windows;
use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};
use crate::typed_op::{Stateless, Typed};

/// Parses a ConvInteger or a QLinearConv.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let mut inputs = optional_inputs(node);
    let mut inputs: [Option<usize>; 9] = std::array::from_fn(|_| inputs.next().flatten());
    let is_scaled = node.op_type == "QLinearConv";
    if is_scaled {
        // The image, its scale and zero point, those of the weights and of the output, and the bias.
        let [x, of_x, zero_x, w, of_w, zero_w, of_y, zero_y, bias] = inputs;
        inputs = [x, w, zero_x, zero_w, of_x, of_w, of_y, zero_y, bias];
    }
    over_tract(ctx, node, OfImages { inputs, is_scaled })
}

/// A node before types and shapes are known.
#[derive(Clone, Debug)]
struct OfImages {
    /// The places of the image, the weights, their zero points and their scales, the scale and the zero
    /// point of the output, and the bias.
    inputs: [Option<usize>; 9],
    is_scaled: bool,
}

impl Operator for OfImages {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let (pool, group) = convolution(node)?;
        let [x, w, rest @ ..] = self.inputs.map(|place| Some(node.inputs[place?]));
        let (x, w) = x.zip(w).context("it lacks an operand")?;
        let parameters = &rest[..if self.is_scaled { 7 } else { 2 }];
        let inputs = with_parameters(node, x, parameters, w)?;
        let op = ByteConv {
            pool,
            group,
            is_scaled: self.is_scaled,
            rows: None,
        };
        node.last(Typed(op), &inputs)
    }
}

/// The windows and the groups of a convolution, as tract reads them.
fn convolution(node: &mut Wiring<'_>) -> TractResult<(PoolSpec, usize)> {
    let mut alone = TypedModel {
        symbols: node.model.symbols.clone(),
        ..TypedModel::default()
    };
    let facts = node.facts()?.into_iter().enumerate();
    let inputs =
        facts.map(|(index, fact)| alone.add_source(format!("input {index}"), fact.clone()));
    let inputs = inputs.collect::<TractResult<TVec<OutletId>>>()?;
    let outlets = node.within(&mut alone, &inputs).by_upstream()?;
    let conv = alone.node(outlets[0].node).op_as::<Conv>();
    let conv = conv.context("tract reads it as no convolution")?;
    Ok((conv.pool_spec.clone(), conv.group))
}

/// A convolution of bytes. Its inputs are the images, their zero point and those of the weights, their
/// scales, those of the output and the bias if it is scaled, and the weights unless they are packed.
#[derive(Clone, Debug)]
struct ByteConv {
    pool: PoolSpec,
    group: usize,
    is_scaled: bool,
    /// The weights of each group.
    rows: Option<Arc<Vec<PackedRows>>>,
}

never_equal!(ByteConv);

/// The operands of a convolution.
struct ConvOperands<'a> {
    rows: &'a [PackedRows],
    windows: &'a Windows,
    images: Bytes<'a>,
    zeros: [Parameter<i32>; 2],
    /// The channels of a group, and the windows in each.
    channels: usize,
    /// Where the numbers of a window of a group lie, from the first.
    numbers: &'a [usize],
}

impl ConvOperands<'_> {
    /// Multiplies the weights of each group with the windows of each image, on the threads of a run. An
    /// output has the channels of the group for the group's image.
    fn each_part<T: Send>(
        &self,
        to: &mut [T],
        multiply: impl Fn(&mut GroupOfImage<'_>, &mut [T]) + Sync + Send,
    ) -> TractResult<()> {
        let groups = self.rows.len();
        let count = self.windows.count();
        let Some([outputs, k]) = self.rows.first().map(PackedRows::shape) else {
            return Ok(());
        };
        if to.is_empty() {
            return Ok(());
        }
        let of_part = outputs * count;
        let work = work([to.len() / count, k, count]);
        par_chunks_mut(to, of_part, work, |first, to| {
            let mut part = GroupOfImage {
                operands: self,
                columns: PackedColumns::default(),
                image: 0,
                group: 0,
            };
            for (index, to) in (first..).zip(to.chunks_exact_mut(of_part)) {
                (part.image, part.group) = (index / groups, index % groups);
                multiply(&mut part, to);
            }
            Ok(())
        })
    }
}

/// The channels of a group of an image.
struct GroupOfImage<'a> {
    operands: &'a ConvOperands<'a>,
    /// The windows that are multiplied, whose memory serves the next part of the thread.
    columns: PackedColumns,
    image: usize,
    group: usize,
}

impl GroupOfImage<'_> {
    /// The output channels of the group.
    fn outputs(&self) -> std::ops::Range<usize> {
        let [outputs, _] = self.operands.rows[self.group].shape();
        self.group * outputs..(self.group + 1) * outputs
    }

    /// Multiplies, one panel of windows after another.
    fn multiply(&mut self, to: &mut impl Sink) {
        let ConvOperands {
            windows,
            numbers,
            channels,
            ..
        } = *self.operands;
        let group = windows.plane(self.group * channels);
        let images = self.operands.images;
        let images = images.from(self.image * windows.image() + group);
        let rows = &self.operands.rows[self.group];
        let zeros = ZeroPoints {
            rows: self.operands.zeros[1].of_rows(self.outputs()),
            columns: self.operands.zeros[0].of_rows(0..1),
        };
        for first in (0..windows.count()).step_by(WIDTH) {
            let runs = windows.runs(first, WIDTH);
            self.columns.set_panel(images, numbers, &runs);
            self.columns
                .multiply(rows, zeros, &mut Behind { first, to });
        }
    }
}

/// Takes the sums of columns behind those of others.
struct Behind<'a, S> {
    first: usize,
    to: &'a mut S,
}

impl<S: Sink> Sink for Behind<'_, S> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, sums: &[i32]) {
        self.to.put(row, self.first + first, sums);
    }
}

impl ByteConv {
    /// Packs weights, [output channels, channels of a group, window].
    fn pack(&self, weights: &Tensor) -> TractResult<Vec<PackedRows>> {
        let plain = weights.try_as_plain_ram()?;
        let bytes = bytes_of(&plain)?;
        let outputs = self.pool.output_channels / self.group;
        let k = self.pool.input_channels / self.group
            * self.pool.kernel_shape.iter().product::<usize>();
        let of_group = |group| Matrix::dense(bytes.from(group * outputs * k), [outputs, k]);
        Ok((0..self.group)
            .map(|group| PackedRows::pack(of_group(group)))
            .collect())
    }

    fn images(&self, images: TValue, windows: &Windows, zero: i32) -> TractResult<TValue> {
        let batch = images.shape()[0];
        match images.datum_type() {
            DatumType::I8 => windows.lay_out(images, batch, zero as i8),
            _ => windows.lay_out(images, batch, zero as u8),
        }
    }
}

impl Stateless for ByteConv {
    const NAME: &str = "ByteConv";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.pool.info())
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let rows = match &self.rows {
            Some(rows) => Arc::clone(rows),
            None => Arc::new(self.pack(inputs.last().context("it lacks an operand")?)?),
        };
        let shape = self.pool.output_shape(inputs[0].shape())?;
        let windows = Windows::new(&self.pool, inputs[0].shape(), false)?;
        let channels = self.pool.output_channels;
        let zeros = [
            Parameter::read("zero point", &inputs[1], [1, 1])?,
            Parameter::read("zero point of weights", &inputs[2], [channels, 1])?,
        ];
        let images = self.images(inputs[0].clone(), &windows, zeros[0].of_rows(0..1)[0])?;
        let plain = images.try_as_plain_ram()?;
        let group = self.pool.input_channels / self.group;
        let numbers = (0..group).flat_map(|channel| {
            let plane = windows.plane(channel);
            windows.taps().iter().map(move |tap| plane + tap)
        });
        let numbers: Vec<usize> = numbers.collect();
        let operands = ConvOperands {
            rows: &rows,
            windows: &windows,
            images: bytes_of(&plain)?,
            zeros,
            channels: group,
            numbers: &numbers,
        };
        let columns = windows.count();
        if !self.is_scaled {
            let mut made = Tensor::zero::<i32>(&shape.shape)?;
            let mut plain = made.try_as_plain_ram_mut()?;
            operands.each_part(plain.as_slice_mut::<i32>()?, |part, elements| {
                part.multiply(&mut Dense { elements, columns });
            })?;
            return Ok(tvec![made.into_tvalue()]);
        }
        let of_image: Parameter<f32> = Parameter::read("scale", &inputs[3], [1, 1])?;
        let of_weights: Parameter<f32> =
            Parameter::read("scale of weights", &inputs[4], [channels, 1])?;
        let output = OutputQuantization::read(&inputs[5], &inputs[6])?;
        let bias: Parameter<i32> = Parameter::read("bias", &inputs[7], [channels, 1])?;
        let made = output.tensor(&shape.shape, |to| {
            operands.each_part(to, |part, to| {
                let outputs = part.outputs();
                let scales = [of_weights.of_rows(outputs.clone()), of_image.of_rows(0..1)];
                let scaled = Scaled::new(to, columns, scales, &output);
                part.multiply(&mut scaled.with_bias(bias.of_rows(outputs)));
            })
        })?;
        Ok(tvec![made.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        check_bytes("X", inputs[0].datum_type)?;
        if let (None, Some(weights)) = (&self.rows, inputs.last()) {
            check_bytes("W", weights.datum_type)?;
        }
        let shape = self.pool.output_shape(&inputs[0].shape)?;
        let datum_type = match self.is_scaled {
            true => inputs[6].datum_type,
            false => i32::datum_type(),
        };
        Ok(tvec![datum_type.fact(shape.shape)])
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if!(self.rows.is_none());
        rule_if_let!([others @ .., weights] = &*node.inputs);
        rule_if_some!(constant = &model.outlet_fact(*weights)?.konst);
        let op = Self {
            rows: Some(Arc::new(self.pack(constant)?)),
            ..self.clone()
        };
        TypedModelPatch::replace_single_op(model, node, others, Typed(op)).map(Some)
    }
}
