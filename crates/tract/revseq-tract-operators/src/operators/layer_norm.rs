//! LayerNormalization of floats, row by row. tract's is ten operators, of which five read and write all of
//! its input.
//!
//! ```text
//! y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias, of each row of the axes from `axis` on
//! ```

use rten_simd::{Isa, SimdOp};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use super::empty::OrNothing;
use crate::data_sizes::{agreed, axis};
use crate::faster::rows::join_row;
use crate::operator::{Parsed, Wired, Wiring, over_parsed, over_tract};
use crate::typed_op::{Stateless, Typed};

/// Parses a LayerNormalization.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let parsed = over_tract(ctx, node, with_rows);
    if node.output.iter().skip(1).any(|output| !output.is_empty()) {
        return over_parsed(parsed, OrNothing);
    }
    let first = node.get_attr_opt("axis")?.unwrap_or(-1_i64);
    let epsilon = node.get_attr_opt("epsilon")?.unwrap_or(1e-5_f32).to_bits();
    let op = move |node: &mut Wiring<'_>| {
        let facts = node.facts()?;
        rule_if!(facts.iter().all(|fact| fact.datum_type.is::<f32>()));
        let axis = axis(first, facts[0].rank())?;
        let row: ShapeFact = facts[0].shape[axis..].iter().collect();
        rule_if!(facts[1..].iter().all(|fact| fact.rank() <= row.rank()));
        for slot in 1..node.inputs.len() {
            node.inputs[slot] = of_row(node, node.inputs[slot], &row)?;
        }
        node.whole(Typed(LayerNorm { axis, epsilon }))
    };
    over_parsed(parsed, op)
}

/// Parses an RMSNormalization, and what else tract computes of rows with a scale.
pub(crate) fn parse_rms(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_parsed(over_tract(ctx, node, with_rows), OrNothing)
}

/// Makes what scales or shifts rows agree on their sizes, unless it broadcasts.
fn agreed_with_rows(
    node: &mut Wiring<'_>,
    input: OutletId,
    rows: &ShapeFact,
) -> TractResult<OutletId> {
    let mut shape = node.fact(input)?.shape.to_tvec();
    for (size, of_row) in std::iter::zip(shape.iter_mut().rev(), rows.iter().rev()) {
        if !size.is_one() {
            *size = of_row.clone();
        }
    }
    agreed(node.model, &format!("{}.agreed", node.name), input, shape)
}

/// A scale or a bias with an element for each of a row.
fn of_row(node: &mut Wiring<'_>, input: OutletId, row: &ShapeFact) -> TractResult<OutletId> {
    let operand = agreed_with_rows(node, input, row)?;
    if node.fact(operand)?.shape == *row {
        return Ok(operand);
    }
    node.op("row", MultiBroadcastTo::new(row.clone()), &[operand])
}

/// Wires a normalisation of tract's with a scale and a bias of the sizes of its rows.
fn with_rows(node: &mut Wiring<'_>) -> Wired {
    let rows = node.input(0)?.shape.clone();
    node.replace_inputs(|node, input| agreed_with_rows(node, input, &rows).map(Some))?;
    Ok(None)
}

/// Normalises the rows of the axes from one on: a value, its scale, and perhaps its bias.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct LayerNorm {
    axis: usize,
    /// The bits of the float.
    epsilon: u32,
}

impl Stateless for LayerNorm {
    const NAME: &str = "LayerNorm";

    fn eval(&self, _ctx: &EvalContext<'_>, mut inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut value = inputs.remove(0).into_tensor();
        let row: usize = value.shape()[self.axis..].iter().product();
        let [scale, bias] = [0, 1].map(|index| match inputs.get(index) {
            Some(input) => input.try_as_plain_ram()?.as_slice::<f32>().map(Some),
            None => Ok(None),
        });
        let (scale, bias) = (scale?.context("it has a scale")?, bias?);
        if value.len() > 0 {
            let epsilon = f32::from_bits(self.epsilon);
            let work = value.len();
            let mut elements = value.try_as_plain_ram_mut()?;
            par_chunks_mut(elements.as_slice_mut()?, row, work, |_, rows| {
                LayerNormRows {
                    rows,
                    row,
                    scale,
                    bias,
                    epsilon,
                }
                .dispatch();
                Ok(())
            })?;
        }
        Ok(tvec![value.into_tvalue()])
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
        for axis in 0..self.axis {
            mapping = mapping.linking((InOut::Out(0), axis), (InOut::In(0), axis))?;
        }
        Ok(mapping)
    }

    fn with_axes(&self, _inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        let axis = match change {
            AxisOp::Add(at) if *at <= self.axis => self.axis + 1,
            AxisOp::Rm(at) if *at < self.axis => self.axis - 1,
            AxisOp::Move(from, to) if (*from).max(*to) < self.axis => self.axis,
            _ => return None,
        };
        Some(Self {
            axis,
            ..self.clone()
        })
    }
}

/// Rows of a thread.
struct LayerNormRows<'a> {
    rows: &'a mut [f32],
    row: usize,
    scale: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f32,
}

impl SimdOp for LayerNormRows<'_> {
    type Output = ();

    // Everything is inlined, so that it is compiled for the instructions of the processor.
    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        for row in self.rows.chunks_exact_mut(self.row) {
            let count = self.row as f32;
            let add = |a, b| a + b;
            let mean = join_row(row, 0.0, |it| it, add) / count;
            let variance = join_row(row, 0.0, |it| (it - mean) * (it - mean), add) / count;
            let factor = (variance + self.epsilon).sqrt().recip();
            let scaled = std::iter::zip(&mut *row, self.scale);
            match self.bias {
                Some(bias) => {
                    for ((element, scale), bias) in std::iter::zip(scaled, bias) {
                        *element = (*element - mean) * factor * scale + bias;
                    }
                }
                None => scaled.for_each(|(it, scale)| *it = (*it - mean) * factor * scale),
            }
        }
    }
}
