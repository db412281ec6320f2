//! Layers with large weights, as one operator.
//!
//! Weights, biases and peepholes have to be constants in float32 when the layer is wired; they are
//! then packed once, for all runs. `layer.rs` asks here first, and wires Scans for any other layer.

use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::Wiring;
use super::activation::Functions;
use super::layer::Layer;
use super::op::{Counted, PackedRecurrent, Slots};
use super::packed::{Constants, Direction, PackedLayer};

/// The fewest recurrent weights of a direction; with fewer, a step is faster as a fused program.
pub(super) const MINIMUM_WEIGHTS: usize = 1 << 12;

impl Layer {
    /// The layer with packed weights, if they are known, and large or quantised.
    pub(super) fn packed(
        &self,
        to: &Wiring<'_>,
        inputs: &[OutletId],
    ) -> TractResult<Option<PackedLayer>> {
        let x = to.fact(inputs[0])?;
        rule_if!(
            inputs[..3]
                .iter()
                .all(|it| to.fact(*it).is_ok_and(|it| it.datum_type.is::<f32>()))
        );
        let known = |input: Option<usize>| -> TractResult<Option<Arc<Tensor>>> {
            Ok(match input {
                Some(input) => to.fact(inputs[input])?.konst.clone(),
                None => None,
            })
        };
        rule_if_some!(w = known(Some(1))?);
        rule_if_some!(r = known(Some(2))?);
        let (bias, peepholes) = (known(self.inputs.bias)?, known(self.inputs.peepholes)?);
        rule_if!(bias.is_some() == self.inputs.bias.is_some());
        rule_if!(peepholes.is_some() == self.inputs.peepholes.is_some());
        let (units, features) = (r.shape()[2], w.shape()[2]);
        // A step that quantises is no fused program.
        let is_worth = units * r.shape()[1] >= MINIMUM_WEIGHTS || self.quantized.is_some();
        rule_if!(is_worth && x.shape[2] == features.to_dim());
        let mut directions = vec![];
        for (index, &is_backward) in self.directions.iter().enumerate() {
            let of_direction = |of: &Arc<Tensor>| -> TractResult<Vec<f32>> {
                let of = of.slice(0, index, index + 1)?;
                Ok(of.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
            };
            let (w, r) = (of_direction(&w)?, of_direction(&r)?);
            let bias = bias.as_ref().map(of_direction).transpose()?;
            let peepholes = peepholes.as_ref().map(of_direction).transpose()?;
            directions.push(Direction::pack(
                self.cell,
                is_backward,
                self.activations[index].clone(),
                units,
                features,
                &Constants {
                    w: &w,
                    r: &r,
                    bias: bias.as_deref(),
                    peepholes: peepholes.as_deref(),
                },
            ));
        }
        Ok(Some(PackedLayer {
            cell: self.cell,
            clip: self.clip,
            units,
            features,
            directions,
            functions: Functions::new()?,
            quantizes: self.quantized.is_some(),
        }))
    }

    /// Wires a packed layer. The outputs have ONNX's layout with the time axis first.
    pub(super) fn wire_packed(
        &self,
        to: &mut Wiring<'_>,
        layer: PackedLayer,
        x: OutletId,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let mut operands = tvec![x];
        operands.extend(self.inputs.lengths.map(|input| inputs[input]));
        let initial = [self.inputs.initial_h, self.inputs.initial_c];
        for input in initial.into_iter().flatten() {
            let mut state = inputs[input];
            if self.is_batch_first {
                state = to.op("initial", AxisOp::Move(1, 0), &[state])?;
            }
            operands.push(state);
        }
        let op = PackedRecurrent {
            layer: Arc::new(layer),
            counted: match self.inputs.lengths {
                Some(_) => Counted::Lengths,
                None => Counted::All,
            },
            slots: Slots {
                initial_h: self.inputs.initial_h.is_some(),
                initial_c: self.inputs.initial_c.is_some(),
                y: self.outputs.y.is_some(),
                y_h: self.outputs.y_h.is_some(),
                y_c: self.outputs.y_c.is_some(),
            },
        };
        let name = to.prefix.clone();
        to.model.wire_node(name, op, &operands)
    }
}
