//! Wires a layer, which is one operator.
//!
//! This is the node in both of its forms: its rules infer shapes, and its wiring checks the inputs
//! (`checked.rs`), packs weights that are constants, and makes the operator (`op.rs`). Within, time
//! comes first and half floats are floats; both are undone at the outputs.

use recurrent_layers::{Element, Layout};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::expandable::Expansion;

use super::layer::{Layer, Size};
use super::op::{Recurrent, ValidityInput, WeightInputs, Weights};
use super::quantized::Quantized;
use super::{checked, floats};
use crate::operator::Wiring;

/// Sets a size unless it is known. A known one may be another symbol for the same size, and is
/// [checked](checked::wire) otherwise.
fn fill<'r, A>(s: &mut Solver<'r>, proxy: A, size: TDim) -> InferenceResult
where
    A: IntoExp<DimFact> + Copy + 'r,
{
    s.with(proxy, move |s, size_fact: DimFact| {
        match size_fact.concretize() {
            None => s.equals(proxy, size.clone()),
            Some(_) => Ok(()),
        }
    })
}

/// Sets a size to another one, whichever is known.
fn alike<'r, A>(s: &mut Solver<'r>, a: A, b: A) -> InferenceResult
where
    A: IntoExp<DimFact> + Copy + 'r,
{
    s.given(a, move |s, size: TDim| fill(s, b, size))?;
    s.given(b, move |s, size: TDim| fill(s, a, size))
}

/// Says how many axes an input has.
fn has_axes<'r, 'p: 'r>(
    s: &mut Solver<'r>,
    input: &'p TensorProxy,
    name: &'static str,
    expected: usize,
) -> InferenceResult {
    s.given(&input.rank, move |_, rank| {
        let is_right = rank == expected as i64;
        ensure!(is_right, "its {name} has {rank} axes, expected {expected}");
        Ok(())
    })?;
    s.equals(&input.rank, expected as i64)
}

impl Layer {
    /// Wires the operator. The outputs have ONNX's layout with the time axis first.
    fn wire_layer<T: Element + Datum>(
        &self,
        to: &mut Wiring<'_>,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let form = &self.form.layer;
        let weights = WeightInputs {
            w: inputs[1],
            r: inputs[2],
            quantization: self.quantized.map(|it| it.0.map(|input| inputs[input])),
            bias: self.inputs.bias.map(|input| inputs[input]),
            peepholes: self.inputs.peepholes.map(|input| inputs[input]),
        };
        let mut operands = tvec![x];
        let layer = match weights.constants(|outlet| Ok(to.fact(*outlet)?.konst.clone()))? {
            Some(known) => Weights::<T>::Packed(Arc::new(known.pack(form, usize::MAX)?)),
            None => {
                operands.extend(weights.iter().copied());
                Weights::Inputs {
                    form: form.clone(),
                    bias: weights.bias.is_some(),
                    peepholes: weights.peepholes.is_some(),
                }
            }
        };
        operands.extend(self.inputs.lengths.map(|input| inputs[input]));
        let initial = [self.inputs.initial_h, self.inputs.initial_c];
        for input in initial.into_iter().flatten() {
            let mut state = inputs[input];
            if self.form.layout == Layout::BatchFirst {
                state = to.op("initial", AxisOp::Move(1, 0), &[state])?;
            }
            operands.push(state);
        }
        let op = Recurrent {
            layer,
            counted: match (self.inputs.lengths, self.form.mask) {
                (Some(_), Some(mask)) => ValidityInput::Masked(mask),
                (Some(_), None) => ValidityInput::Lengths,
                (None, _) => ValidityInput::All,
            },
            initial: initial.map(|input| input.is_some()),
            outputs: self.outputs.all().map(|output| output.is_some()),
        };
        to.model.wire_node(to.name, op, &operands)
    }
}

impl Expansion for Layer {
    fn name(&self) -> StaticName {
        self.form.layer.cell.name().into()
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
        let directions = self.form.layer.directions.len().to_dim();
        let (x, r) = (&inputs[0], &inputs[2]);
        has_axes(s, x, "X", 3)?;
        for (input, expected) in self.expected() {
            let input = &inputs[input];
            has_axes(s, input, expected.name, expected.sizes.len())?;
            let is_mask = expected.name == "mask";
            let is_integer = expected.name == "sequence_lens"
                || self.quantized.is_some() && ["W", "R"].contains(&expected.name);
            if is_mask {
                s.equals(&input.datum_type, bool::datum_type())?;
            } else if !is_integer {
                s.equals(&input.datum_type, &x.datum_type)?;
            }
            for (axis, size) in expected.sizes.into_iter().enumerate() {
                let dim = &input.shape[axis];
                match size {
                    Size::Known(size) => fill(s, dim, size.to_dim())?,
                    Size::Steps => alike(s, dim, &x.shape[axes.time])?,
                    Size::Batch => alike(s, dim, &x.shape[axes.batch])?,
                    Size::Features => alike(s, dim, &x.shape[2])?,
                    Size::Units(1) => alike(s, dim, &r.shape[axes.units])?,
                    Size::Units(times) => {
                        s.given(&r.shape[axes.units], move |s, units| {
                            fill(s, dim, units * times)
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
        let mut to = Wiring::alone(prefix, model, inputs);
        let datum_type = to.fact(inputs[0])?.datum_type;
        let is_half = datum_type == f16::datum_type();
        if is_half {
            to.replace_inputs(floats)?;
        }
        let inputs = to.inputs.clone();
        let inputs = checked::wire(&mut to, self, &inputs)?;
        ensure!(
            self.quantized.is_none() || to.fact(inputs[0])?.datum_type.is::<f32>(),
            "its X is {datum_type:?}, expected F32"
        );
        let mut x = inputs[0];
        if self.form.layout == Layout::BatchFirst {
            x = to.op("x", AxisOp::Move(1, 0), &[x])?;
        }
        let is_double = datum_type == f64::datum_type();
        let mut outputs = if is_double {
            self.wire_layer::<f64>(&mut to, x, &inputs)?
        } else {
            self.wire_layer::<f32>(&mut to, x, &inputs)?
        };
        if self.form.layout == Layout::BatchFirst {
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
