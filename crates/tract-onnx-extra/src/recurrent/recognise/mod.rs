//! Recognises loops that are recurrent layers.
//!
//! `values` reads masks and single values of a Scan's body, `activation` tract's forms of
//! functions, and `step` shows them to the crate recurrent-cells. `layers` finds the cells that make
//! up the Scan; they are wired as one operator each.

mod activation;
mod layers;
mod step;
mod values;

use recurrent_cells::{Gate, Kind, Matrix};
use recurrent_layers::{Cell, PackedLayer, Weights};
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::op::{Counted, Of, Recurrent, Slots};
use layers::{Input, Layer, Layers, Output};
use step::Body;
pub(crate) use values::Scanned;

/// Wires a Scan as layers, if it is one or more. Returns an outlet for each slot.
pub(crate) fn wire(
    scan: &Scanned<'_>,
    target: &mut TypedModel,
    name: &str,
) -> TractResult<Option<TVec<OutletId>>> {
    rule_if_some!(layers = Layers::of(&Body::new(scan), target));
    let mut wiring = Wiring {
        scan,
        target,
        name,
        layers: &layers,
        made: vec![],
    };
    wiring.wire().map(Some)
}

/// The outlets of a layer: those that are wanted of Y, Y_h and Y_c.
type Made = [Option<OutletId>; 3];

struct Wiring<'a> {
    scan: &'a Scanned<'a>,
    target: &'a mut TypedModel,
    name: &'a str,
    layers: &'a Layers,
    made: Vec<Made>,
}

impl Wiring<'_> {
    fn wire(&mut self) -> TractResult<TVec<OutletId>> {
        let layers = self.layers;
        for (index, layer) in layers.layers.iter().enumerate() {
            let made = self.layer(index, layer)?;
            self.made.push(made);
        }
        let outputs = layers.slots.iter().map(|slot| {
            let made = self.made[slot.layer][slot.output as usize];
            let mut outlet = made.context("a layer has the outputs that are wanted")?;
            for _ in 0..slot.axes {
                let axis = usize::from(slot.output == Output::Steps);
                outlet = self.axes("as", AxisOp::Add(axis), outlet)?;
            }
            Ok(outlet)
        });
        outputs.collect()
    }

    /// Wires an operator that changes axes.
    fn axes(&mut self, name: &str, op: AxisOp, input: OutletId) -> TractResult<OutletId> {
        let name = self.target.unique_name(format!("{}.{name}", self.name));
        let name = name.into_owned();
        Ok(self.target.wire_node(name, op, &[input])?[0])
    }

    /// A scanned value with the time axis first.
    fn time_major(&mut self, name: &str, outlet: OutletId, axis: usize) -> TractResult<OutletId> {
        match axis {
            0 => Ok(outlet),
            _ => self.axes(name, AxisOp::Move(axis, 0), outlet),
        }
    }

    fn layer(&mut self, index: usize, layer: &Layer) -> TractResult<Made> {
        let (scan, layers) = (self.scan, self.layers);
        let mut operands = tvec![match layer.input {
            Input::Scanned(x, axis) => self.time_major("scanned", scan.outer[x], axis)?,
            Input::Layer(before) => self.made[before][0].context("a layer reads one before it")?,
        }];
        let mut counted = Counted::All;
        if let Some(otherwise) = layer.next.otherwise {
            counted = Counted::Masked {
                blends: otherwise.blends,
                repeats: layers.repeats[index].unwrap_or(true),
            };
            let info = scan.inputs[otherwise.mask].as_scan();
            let axis = info.context("a mask is scanned")?.axis;
            let mut mask = self.time_major("mask", scan.outer[otherwise.mask], axis)?;
            if self.target.outlet_fact(mask)?.rank() == 3 {
                mask = self.axes("mask", AxisOp::Rm(2), mask)?;
            }
            operands.push(mask);
        }
        for state in std::iter::once(layer.hidden).chain(layer.memory) {
            operands.push(self.axes("initial", AxisOp::Add(0), scan.outer[state])?);
        }
        let is_read = layers
            .layers
            .iter()
            .any(|it| it.input == Input::Layer(index));
        let slots = layers.slots.iter();
        let wants = |output: Output| {
            let mut slots = slots.clone();
            slots.any(|slot| (slot.layer, slot.output) == (index, output))
        };
        let wanted = [
            wants(Output::Steps) || is_read,
            wants(Output::Hidden),
            wants(Output::Memory),
        ];
        let op = Recurrent {
            layer: Of::Packed(Arc::new(pack(&layer.cell)?)),
            counted,
            slots: Slots {
                initial_h: true,
                initial_c: layer.memory.is_some(),
                y: wanted[0],
                y_h: wanted[1],
                y_c: wanted[2],
            },
        };
        let name = self.target.unique_name(self.name).into_owned();
        let mut outlets = self.target.wire_node(name, op, &operands)?.into_iter();
        let mut made = [None; 3];
        for (output, made) in made.iter_mut().enumerate().filter(|it| wanted[it.0]) {
            let outlet = outlets.next().context("an operator has its outputs")?;
            // Removes the axis of directions.
            let axis = usize::from(output == Output::Steps as usize);
            *made = Some(self.axes("of", AxisOp::Rm(axis), outlet)?);
        }
        Ok(made)
    }
}

/// Packs the constants of a cell.
fn pack(cell: &recurrent_cells::Cell<OutletId>) -> TractResult<PackedLayer<f32>> {
    let (units, features) = (cell.units(), cell.features());
    let weights = |field: fn(&Gate) -> &Matrix| -> Vec<f32> {
        let gates = cell.gates.iter();
        gates.flat_map(|gate| field(gate).by_columns()).collect()
    };
    let zeros = vec![0.0; units];
    let vectors = |field: fn(&Gate) -> &Option<Vec<f32>>| -> Vec<f32> {
        let gates = cell.gates.iter();
        let vectors = gates.flat_map(|gate| field(gate).as_ref().unwrap_or(&zeros));
        vectors.copied().collect()
    };
    let mut bias = vectors(|gate| &gate.bias);
    bias.extend(vectors(|gate| &gate.state_bias));
    let mut peepholes = vectors(|gate| &gate.peephole);
    peepholes.truncate(3 * units);
    let has_peepholes = cell.gates.iter().any(|gate| gate.peephole.is_some());
    let kind = match cell.kind {
        Kind::Lstm => Cell::Lstm {
            couples_input_and_forget: false,
        },
        Kind::Gru {
            resets_after_product,
        } => Cell::Gru {
            resets_after_product,
        },
        Kind::Rnn => Cell::Rnn,
    };
    let mut layer = recurrent_layers::Layer::new(kind, features, units, &[false]);
    for direction in &mut layer.directions {
        direction.activations.clone_from(&cell.activations);
    }
    let weights = Weights {
        w: &weights(|gate| &gate.input),
        r: &weights(|gate| &gate.state),
        b: Some(&bias),
        p: has_peepholes.then_some(&*peepholes),
    };
    Ok(layer.pack(&weights)?)
}
