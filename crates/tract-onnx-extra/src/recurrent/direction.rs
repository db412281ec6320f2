//! A direction of a layer, as a Scan over the products of all inputs with the weights.
//!
//! The weights and the initial states are wired by then (`layer.rs`), and lengths are truth values,
//! one for each step (`lengths.rs`): where it is false, states stay and the output is zero. Backwards,
//! the Scan reads and writes from the last step on.

use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_onnx::tract_hir::internal::*;

use super::Wiring;
use super::cell::Step;
use super::layer::{Layer, Weights};
use super::lengths::Lengths;
use crate::loops::alias::Alias;
use crate::loops::last::LastOrInitial;

impl Layer {
    /// Wires one direction. Returns Y, [time, batch, hidden], and the final states, [1, batch,
    /// hidden], if requested.
    pub(super) fn wire_direction(
        &self,
        to: &mut Wiring<'_>,
        direction: usize,
        x: OutletId,
        lengths: Option<&Lengths>,
        inputs: &[OutletId],
    ) -> TractResult<[Option<OutletId>; 3]> {
        let weights = self.wire_weights(to, direction, x, inputs)?;
        let initial = self.wire_initial(to, direction, &weights, lengths, inputs)?;
        if to.fact(weights.x)?.shape[..2].contains(&0.to_dim()) {
            return self.wire_nothing(to, &weights, x, lengths, initial);
        }
        let chunk = if self.directions[direction] { -1 } else { 1 };
        let along = ScanInfo { axis: 0, chunk };
        let body = self.wire_body(to, direction, along, &weights, lengths, &initial)?;
        self.wire_scan(to, along, body, weights.x, initial)
    }

    /// The outputs if nothing is computed: tract's Scan requires a step, and elements in its states.
    fn wire_nothing(
        &self,
        to: &mut Wiring<'_>,
        weights: &Weights,
        x: OutletId,
        lengths: Option<&Lengths>,
        initial: TVec<OutletId>,
    ) -> TractResult<[Option<OutletId>; 3]> {
        let mut sizes = to.fact(weights.x)?.shape.to_tvec();
        sizes[2] = weights.hidden.clone();
        let states = match lengths {
            // Zeros, but read from the lengths, so that these are checked.
            Some(lengths) => {
                let of = to.fact(x)?.datum_type;
                let none = to.op("none", cast(of), &[lengths.is_any])?;
                let sizes = tvec![1.to_dim(), sizes[1].clone(), sizes[2].clone()];
                let broadcast = MultiBroadcastTo::new(ShapeFact::from_dims(sizes));
                tvec![to.op("last", broadcast, &[none])?; initial.len()]
            }
            None => initial,
        };
        let y = to.zeros("y", x, sizes)?;
        let state = |index: usize| states.get(index).copied();
        Ok([
            self.outputs.y.and(Some(y)),
            self.outputs.y_h.and(state(0)),
            self.outputs.y_c.and(state(1)),
        ])
    }

    /// Wires a step as the body of the Scan.
    fn wire_body(
        &self,
        to: &Wiring<'_>,
        direction: usize,
        along: ScanInfo,
        weights: &Weights,
        lengths: Option<&Lengths>,
        initial: &[OutletId],
    ) -> TractResult<Body> {
        let mut sources = Sources {
            model: TypedModel {
                symbols: to.model.symbols.clone(),
                ..TypedModel::default()
            },
            outside: to,
            outer: tvec![],
            mapping: vec![],
        };
        let x = sources.add("x", weights.x, InputMapping::Scan(along))?;
        let goes_on = match lengths {
            Some(lengths) => {
                let along = InputMapping::Scan(along);
                Some(sources.add("goes_on", lengths.goes_on, along)?)
            }
            None => None,
        };
        let mut before: TVec<OutletId> = tvec![];
        for (name, state) in std::iter::zip(["h", "c"], initial) {
            before.push(sources.add(name, *state, InputMapping::State)?);
        }
        let r = sources.add("r", weights.r, InputMapping::Full)?;
        let bias = match weights.own_bias {
            Some(bias) => Some(sources.add("bias", bias, InputMapping::Full)?),
            None => None,
        };
        let peepholes = match weights.peepholes {
            Some([i, o, f]) => Some([
                sources.add("peephole.i", i, InputMapping::Full)?,
                sources.add("peephole.o", o, InputMapping::Full)?,
                sources.add("peephole.f", f, InputMapping::Full)?,
            ]),
            None => None,
        };
        let Sources {
            mut model,
            outer,
            mapping,
            ..
        } = sources;

        let mut body = Wiring {
            model: &mut model,
            prefix: "step".to_owned(),
        };
        for state in &mut before {
            *state = body.op("state", Alias::State, &[*state])?;
        }
        let step = Step {
            x,
            h: before[0],
            c: before.get(1).copied(),
            r,
            bias,
            peepholes,
            hidden: weights.hidden.clone(),
            activations: &self.activations[direction],
            clip: self.clip,
            quantizes: self.quantized.is_some(),
        };
        let mut after = self.cell.wire(&mut body, &step)?;
        let mut y = after[0];
        if let Some(goes_on) = goes_on {
            for (before, after) in std::iter::zip(before, &mut after) {
                *after = body.op("state", Iff, &[goes_on, *after, before])?;
            }
            let none = body.number("none", y, 0.0)?;
            y = body.math("y", Iff, &[goes_on, y, none])?;
        }
        let y = body.op("y", Alias::Barrier, &[y])?;
        Ok(Body {
            model,
            outer,
            mapping,
            y,
            after: after.into_iter().collect(),
        })
    }

    /// Wires the Scan around a body, and returns its outputs among Y, Y_h and Y_c.
    fn wire_scan(
        &self,
        to: &mut Wiring<'_>,
        along: ScanInfo,
        body: Body,
        x: OutletId,
        initial: TVec<OutletId>,
    ) -> TractResult<[Option<OutletId>; 3]> {
        let wanted = [self.outputs.y, self.outputs.y_h, self.outputs.y_c];
        let mut count = 0;
        let slots = wanted.map(|output| {
            count += usize::from(output.is_some());
            output.map(|_| count - 1)
        });
        let mut outputs: TVec<OutletId> = tvec![];
        let mut output_mapping = vec![];
        if let Some(slot) = slots[0] {
            outputs.push(body.y);
            output_mapping.push(OutputMapping {
                scan: Some((slot, along)),
                ..OutputMapping::default()
            });
        }
        for (state, slot) in std::iter::zip(body.after, &slots[1..]) {
            outputs.push(state);
            output_mapping.push(OutputMapping {
                state: true,
                last_value_slot: *slot,
                ..OutputMapping::default()
            });
        }
        let mut model = body.model;
        model.select_output_outlets(&outputs)?;
        let mut scan = Scan::new(model, body.mapping, output_mapping, 0)?;
        scan.reset_every_turn = true;
        let name = to.name("scan");
        let made = to.model.wire_node(&name, scan, &body.outer)?;
        let mut made = Alias::scanned(to.model, &name, &made)?;
        // An unknown number of steps may be 0.
        if to.fact(x)?.shape[0].to_i64().is_err() {
            for (initial, slot) in std::iter::zip(initial, &slots[1..]) {
                if let Some(slot) = *slot {
                    let either = [made[slot], initial, x];
                    made[slot] = to.op("last", LastOrInitial { axis: 0 }, &either)?;
                }
            }
        }
        Ok(slots.map(|slot| slot.map(|slot| made[slot])))
    }
}

/// The body of a Scan, and the values around it that it takes.
struct Body {
    model: TypedModel,
    outer: TVec<OutletId>,
    mapping: Vec<InputMapping>,
    /// The output of the step.
    y: OutletId,
    /// The states after the step.
    after: TVec<OutletId>,
}

/// The inputs of a Scan and of its body, in the order of insertion.
struct Sources<'a, 'b> {
    outside: &'a Wiring<'b>,
    model: TypedModel,
    outer: TVec<OutletId>,
    mapping: Vec<InputMapping>,
}

impl Sources<'_, '_> {
    fn add(&mut self, name: &str, from: OutletId, how: InputMapping) -> TractResult<OutletId> {
        let fact = self.outside.fact(from)?;
        let mut shape = fact.shape.clone();
        if let Some(info) = how.as_scan() {
            shape.set(info.axis, 1.to_dim());
        }
        self.outer.push(from);
        self.mapping.push(how);
        self.model.add_source(name, fact.datum_type.fact(shape))
    }
}
