//! Wires a layer: the products with all inputs, the directions and the lengths.
//!
//! This is the node in both of its forms: its rules infer shapes, and its wiring checks the inputs
//! (`checked.rs`), then makes one operator (`large.rs`) or a Scan for each direction. Within, time
//! comes first and half floats are floats; both are undone at the outputs.

use std::ops::Range;

use tract_onnx::tract_core::ops::array::{Slice, TypedConcat};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::Expansion;

use super::Wiring;
use super::activation::Activation;
use super::cell::Cell;
use super::checked::{self, Expected, Size, alike, fill};
use super::lengths::Lengths;
use super::quantized::Quantized;
use crate::LengthsPolicy;

/// The node's optional inputs.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) bias: Option<usize>,
    pub(super) lengths: Option<usize>,
    pub(super) initial_h: Option<usize>,
    pub(super) initial_c: Option<usize>,
    pub(super) peepholes: Option<usize>,
}

/// The node's outputs that are present.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    pub(super) y: Option<usize>,
    pub(super) y_h: Option<usize>,
    pub(super) y_c: Option<usize>,
}

impl Outputs {
    pub(super) fn count(&self) -> usize {
        [self.y, self.y_h, self.y_c].iter().flatten().count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) cell: Cell,
    /// Whether each direction runs backwards.
    pub(super) directions: TVec<bool>,
    /// The activations of each direction.
    pub(super) activations: Vec<Vec<Activation>>,
    pub(super) clip: Option<f32>,
    /// Whether the batch axis comes before the time axis.
    pub(super) is_batch_first: bool,
    /// What becomes of lengths out of range.
    pub(super) lengths: LengthsPolicy,
    pub(super) inputs: Inputs,
    pub(super) outputs: Outputs,
    /// For weights that are quantised, as are then X and the state h.
    pub(super) quantized: Option<Quantized>,
}

/// The places of the node's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Axes {
    pub(super) batch: usize,
    pub(super) time: usize,
    /// The axis of units in R.
    pub(super) units: usize,
    /// The axes of directions and batch in states.
    states: [usize; 2],
    /// The axes of time, directions and batch in `Y`.
    y: [usize; 3],
}

impl Layer {
    pub(super) fn axes(&self) -> Axes {
        let units = 2 - usize::from(self.quantized.is_some());
        if self.is_batch_first {
            Axes {
                batch: 0,
                time: 1,
                units,
                states: [1, 0],
                y: [1, 2, 0],
            }
        } else {
            Axes {
                batch: 1,
                time: 0,
                units,
                states: [0, 1],
                y: [0, 1, 2],
            }
        }
    }

    /// The sizes that inputs other than X have to have.
    pub(super) fn expected(&self) -> TVec<(usize, Expected)> {
        let directions = Size::Known(self.directions.len());
        let gates = self.cell.gates();
        let state = if self.is_batch_first {
            tvec![Size::Batch, directions, Size::Units(1)]
        } else {
            tvec![directions, Size::Batch, Size::Units(1)]
        };
        let Inputs {
            bias,
            lengths,
            initial_h,
            initial_c,
            peepholes,
        } = self.inputs;
        let mut w = tvec![directions, Size::Units(gates), Size::Features];
        let mut r = tvec![directions, Size::Units(gates), Size::Units(1)];
        if self.quantized.is_some() {
            w.swap(1, 2);
            r.swap(1, 2);
        }
        let all = [
            (Some(1), "W", w),
            (Some(2), "R", r),
            (bias, "B", tvec![directions, Size::Units(2 * gates)]),
            (lengths, "sequence_lens", tvec![Size::Batch]),
            (initial_h, "initial_h", state.clone()),
            (initial_c, "initial_c", state),
            (peepholes, "P", tvec![directions, Size::Units(3)]),
        ];
        let all = all.into_iter();
        all.filter_map(|(input, name, sizes)| Some((input?, Expected { name, sizes })))
            .collect()
    }

    /// Wires the weights of a direction, and the products with all inputs.
    pub(super) fn wire_weights(
        &self,
        to: &mut Wiring<'_>,
        direction: usize,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<Weights> {
        let of_direction = |to: &mut Wiring<'_>, name: &str, input: usize| {
            to.op(
                name,
                Slice::new(0, direction, direction + 1),
                &[inputs[input]],
            )
        };
        let w = of_direction(to, "w", 1)?;
        let w = to.op("w", AxisOp::Rm(0), &[w])?;
        let r = of_direction(to, "r", 2)?;
        let r = to.op("r", AxisOp::Rm(0), &[r])?;
        let hidden = to.fact(r)?.shape[1].clone();
        let product = EinSum::new("tbi,gi->tbg".parse()?, to.fact(x)?.datum_type);
        let mut x = to.op("product", product, &[x, w])?;
        let part = |to: &mut Wiring<'_>, name: &str, all: OutletId, gates: Range<usize>| {
            let (start, end) = (hidden.clone() * gates.start, hidden.clone() * gates.end);
            to.op(name, Slice::new(2, start, end), &[all])
        };
        let mut own_bias = None;
        if let Some(bias) = self.inputs.bias {
            let bias = of_direction(to, "bias", bias)?;
            let bias = to.op("bias", AxisOp::Add(0), &[bias])?;
            let gates = self.cell.gates();
            // The biases of the input products, then those of the recurrent products.
            let of_w = part(to, "bias.w", bias, 0..gates)?;
            let mut of_r = part(to, "bias.r", bias, gates..2 * gates)?;
            if self.cell.has_recurrent_bias() {
                own_bias = Some(part(to, "bias.own", bias, 2 * gates - 1..2 * gates)?);
                let added = part(to, "bias.added", bias, gates..2 * gates - 1)?;
                let sizes = tvec![1.to_dim(), 1.to_dim(), hidden.clone()];
                let none = to.zeros("bias.none", added, sizes)?;
                of_r = to.op("bias.r", TypedConcat::new(2), &[added, none])?;
            }
            let bias = to.op("bias", math::add(), &[of_w, of_r])?;
            x = to.op("biased", math::add(), &[x, bias])?;
        }
        let peepholes = match self.inputs.peepholes {
            Some(peepholes) => {
                let all = of_direction(to, "peepholes", peepholes)?;
                let all = to.op("peepholes", AxisOp::Add(0), &[all])?;
                Some([
                    part(to, "peephole.i", all, 0..1)?,
                    part(to, "peephole.o", all, 1..2)?,
                    part(to, "peephole.f", all, 2..3)?,
                ])
            }
            None => None,
        };
        Ok(Weights {
            x,
            r,
            own_bias,
            peepholes,
            hidden,
        })
    }

    /// The initial states of a direction, [1, batch, hidden] each.
    pub(super) fn wire_initial(
        &self,
        to: &mut Wiring<'_>,
        direction: usize,
        weights: &Weights,
        lengths: Option<&Lengths>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut given = tvec![self.inputs.initial_h];
        if self.cell.has_cell_state() {
            given.push(self.inputs.initial_c);
        }
        let batch = to.fact(weights.x)?.shape[1].clone();
        let states = given.into_iter().map(|input| {
            let Some(input) = input else {
                let sizes = tvec![1.to_dim(), batch.clone(), weights.hidden.clone()];
                return to.zeros("initial", weights.x, sizes);
            };
            let mut state = inputs[input];
            if self.is_batch_first {
                state = to.op("initial", AxisOp::Move(1, 0), &[state])?;
            }
            state = to.op("initial", Slice::new(0, direction, direction + 1), &[state])?;
            // Without steps, ONNX Runtime outputs zeros as final states.
            if let Some(lengths) = lengths {
                let none = to.number("none", state, 0.0)?;
                state = to.math("initial", Iff, &[lengths.is_any, state, none])?;
            }
            Ok(state)
        });
        states.collect()
    }

    /// Wires a Scan for each direction. The requested outputs have ONNX's layout with the time axis
    /// first.
    fn wire_scans(
        &self,
        to: &mut Wiring<'_>,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let lengths = self.wire_lengths(to, x, inputs)?;
        let prefix = to.prefix.clone();
        let mut made = vec![];
        for direction in 0..self.directions.len() {
            to.prefix = format!("{prefix}.{direction}");
            made.push(self.wire_direction(to, direction, x, lengths.as_ref(), inputs)?);
        }
        to.prefix = prefix;
        let mut outputs = tvec![];
        for (index, name) in ["y", "y_h", "y_c"].into_iter().enumerate() {
            let sides = made.iter().filter_map(|it| it[index]);
            let mut sides: TVec<OutletId> = sides.collect();
            if index == 0 {
                for side in &mut sides {
                    *side = to.op(name, AxisOp::Add(1), &[*side])?;
                }
            }
            let axis = usize::from(index == 0);
            outputs.extend(match *sides {
                [] => None,
                [side] => Some(side),
                _ => Some(to.op(name, TypedConcat::new(axis), &sides)?),
            });
        }
        Ok(outputs)
    }
}

/// The weights of one direction.
pub(super) struct Weights {
    /// The products of all inputs with the weights, biases included: [time, batch, gates * hidden].
    pub(super) x: OutletId,
    /// [gates * hidden, hidden].
    pub(super) r: OutletId,
    /// [1, 1, hidden] each, as in [`Step`](super::cell::Step).
    pub(super) own_bias: Option<OutletId>,
    pub(super) peepholes: Option<[OutletId; 3]>,
    pub(super) hidden: TDim,
}

impl Expansion for Layer {
    fn name(&self) -> StaticName {
        self.cell.name().into()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.outputs.count())
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let optional = [
            self.inputs.bias,
            self.inputs.lengths,
            self.inputs.initial_h,
            self.inputs.initial_c,
            self.inputs.peepholes,
        ];
        let optional = optional.iter().flatten().count();
        let parameters = self.quantized.as_ref().map_or(0, Quantized::count);
        check_input_arity(inputs, 3 + optional + parameters)?;
        check_output_arity(outputs, self.outputs.count())?;
        let axes = self.axes();
        let directions = self.directions.len().to_dim();
        let (x, r) = (&inputs[0], &inputs[2]);
        s.equals(&x.rank, 3)?;
        for (input, expected) in self.expected() {
            let input = &inputs[input];
            s.equals(&input.rank, expected.sizes.len() as i64)?;
            let is_integer = expected.name == "sequence_lens"
                || self.quantized.is_some() && ["W", "R"].contains(&expected.name);
            if !is_integer {
                s.equals(&input.datum_type, &x.datum_type)?;
            }
            for (axis, size) in expected.sizes.into_iter().enumerate() {
                let of = &input.shape[axis];
                match size {
                    Size::Known(size) => fill(s, of, size.to_dim())?,
                    Size::Batch => alike(s, of, &x.shape[axes.batch])?,
                    Size::Features => alike(s, of, &x.shape[2])?,
                    Size::Units(1) => alike(s, of, &r.shape[axes.units])?,
                    Size::Units(times) => {
                        s.given(&r.shape[axes.units], move |s, units| {
                            fill(s, of, units * times)
                        })?;
                    }
                }
            }
        }
        for output in [self.outputs.y_h, self.outputs.y_c].into_iter().flatten() {
            let state = &outputs[output];
            s.equals(&state.datum_type, &x.datum_type)?;
            s.equals(&state.rank, 3)?;
            s.equals(&state.shape[axes.states[0]], directions.clone())?;
            s.equals(&state.shape[axes.states[1]], &x.shape[axes.batch])?;
            s.equals(&state.shape[2], &r.shape[axes.units])?;
        }
        if let Some(y) = self.outputs.y {
            let y = &outputs[y];
            s.equals(&y.datum_type, &x.datum_type)?;
            s.equals(&y.rank, 4)?;
            s.equals(&y.shape[axes.y[0]], &x.shape[axes.time])?;
            s.equals(&y.shape[axes.y[1]], directions)?;
            s.equals(&y.shape[axes.y[2]], &x.shape[axes.batch])?;
            s.equals(&y.shape[3], &r.shape[axes.units])?;
        }
        Ok(())
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut to = Wiring {
            model,
            prefix: prefix.to_owned(),
        };
        let datum_type = to.fact(inputs[0])?.datum_type;
        let is_half = datum_type == f16::datum_type();
        let inputs = if is_half {
            to.floats(inputs)?
        } else {
            inputs.into()
        };
        let mut inputs = checked::wire(&mut to, self, &inputs)?;
        if let Some(quantized) = &self.quantized {
            quantized.wire(&mut to, &mut inputs)?;
        }
        let mut x = inputs[0];
        if self.is_batch_first {
            x = to.op("x", AxisOp::Move(1, 0), &[x])?;
        }
        let mut outputs = match self.packed(&to, &inputs)? {
            Some(layer) => self.wire_packed(&mut to, layer, x, &inputs)?,
            None => self.wire_scans(&mut to, x, &inputs)?,
        };
        if self.is_batch_first {
            for (index, output) in outputs.iter_mut().enumerate() {
                // [time, directions, batch, hidden] and [directions, batch, hidden].
                let is_y = self.outputs.y == Some(index);
                *output = to.op("first", AxisOp::Move(1 + usize::from(is_y), 0), &[*output])?;
            }
        }
        if is_half {
            for output in &mut outputs {
                *output = to.op("half", cast(datum_type), &[*output])?;
            }
        }
        Ok(outputs)
    }
}
