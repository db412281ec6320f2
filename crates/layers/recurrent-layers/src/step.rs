//! The computation of a step, for some units of a direction.
//!
//! A step is one phase, or two for a GRU that resets before its product: after each, every unit
//! needs the results of all others. Within a phase, units are independent, and each thread computes
//! its own (`team/`). Numbers are summed in the same order however units are split. All sizes have
//! been checked (`run.rs`).

use std::ops::Range;

use crate::activation::GateFunction;
use crate::bytes::QuantizedRows;
use crate::cell::Cell;
use crate::element::Element;
use crate::packed::{Direction, Matrix, PackedLayer, part};
use crate::panels::block_units;
use crate::product::{Rows, Sums};
use crate::sequences::{Change, Sequences};
use crate::units::Units;
use crate::unpacked::AddDots;
use rten_simd::{Isa, SimdOp};

/// A batch of at most this many sequences, of more units than these, is not shared among threads in
/// ONNX Runtime.
const FEW_SEQUENCES: usize = 4;
const FEW_UNITS: usize = 256;

impl<T: Element> PackedLayer<T> {
    pub(crate) fn blocks(&self) -> usize {
        self.units.div_ceil(block_units(self.units))
    }

    /// The number of consecutive products in a step.
    pub(crate) fn phases(&self) -> usize {
        1 + usize::from(self.cell.resets_before_product())
    }

    /// Computes a phase of a step.
    ///
    /// `shared` holds the results of all units after the previous phase: [batch, units]. The
    /// results of these units for the next phase go to `published`.
    pub(crate) fn compute(
        &self,
        direction: &Direction<T>,
        units: &mut Units<T>,
        sequence: &Sequences<'_, T>,
        phase: usize,
        shared: Rows<'_, T>,
        published: &mut [T],
    ) {
        let (count, is_late) = match self.phases() {
            1 => (phase, false),
            _ => (phase / 2, phase % 2 == 1),
        };
        let step = if direction.is_backward {
            sequence.steps - 1 - count
        } else {
            count
        };
        if !units.ready.contains(&step) {
            self.add_inputs(direction, units, sequence, count);
        }
        let stride = self.cell.slots() * units.width;
        let of_step = units.batch * stride;
        let products = &mut units.products[(step - units.ready.start) * of_step..][..of_step];
        let (panels, slot) = match &direction.late {
            Some(late) if is_late => (late, 0),
            _ => (&direction.recurrent, self.cell.first_recurrent_slot()),
        };
        // Few first steps have another state than 0, which they need not multiply.
        let adds_zero = count == 0 && panels.is_finite() && shared.are_zero(self.units);
        if !adds_zero {
            let sums = Sums {
                elements: &mut *products,
                first: slot * units.width,
                width: units.width,
                stride,
            };
            match panels {
                Matrix::Floats(panels) => {
                    panels.add_products(units.blocks.clone(), shared, sums);
                }
                Matrix::Bytes(panels) => {
                    self.quantize_state(&mut units.quantized, sequence, shared);
                    panels.add_products(units.blocks.clone(), &units.quantized, sums);
                }
                Matrix::OfRun { direction, gates } => {
                    let weights = self.of_run(sequence.weights[1], *direction);
                    self.add_dots(weights, gates, units.range.clone(), shared, sums);
                }
            }
        }
        Update {
            layer: self,
            direction,
            sequence,
            step,
            is_late,
            range: units.range.clone(),
            width: units.width,
            products,
            h: &mut units.h,
            c: &mut units.c,
            published,
        }
        .dispatch();
    }

    /// Quantises the state h of all units.
    fn quantize_state(
        &self,
        to: &mut QuantizedRows,
        sequence: &Sequences<'_, T>,
        state: Rows<'_, T>,
    ) {
        let Some(quantizing) = self.quantizing else {
            return;
        };
        // ONNX Runtime shares a batch among threads, and each quantises its own sequences at once.
        let is_shared = sequence.all > FEW_SEQUENCES || self.units <= FEW_UNITS;
        let together = if is_shared { 1 } else { state.count };
        to.clear();
        for part in state.elements.chunks(together * state.stride) {
            let rows = || part.chunks(state.stride).map(|row| &row[..self.units]);
            let by = quantizing.of(rows());
            rows().for_each(|row| to.push(quantizing, by, row));
        }
        to.pack(self.units);
    }

    /// Computes the products of inputs with weights for some steps, biases included.
    fn add_inputs(
        &self,
        direction: &Direction<T>,
        units: &mut Units<T>,
        sequence: &Sequences<'_, T>,
        count: usize,
    ) {
        let steps = units.steps_at_once.min(sequence.steps - count);
        let first = if direction.is_backward {
            sequence.steps - count - steps
        } else {
            count
        };
        units.ready = first..first + steps;
        let stride = units.bias.len();
        let rows = units.products.chunks_exact_mut(stride);
        for row in rows.take(steps * sequence.batch) {
            row.copy_from_slice(&units.bias);
        }
        let [of_step, of_item] = sequence.strides;
        let start = first * of_step + sequence.first * of_item;
        let (batch, features) = (sequence.batch, self.features);
        let rows = (0..steps * batch).map(|row| {
            let from = start + row / batch * of_step + row % batch * of_item;
            &sequence.x[from..][..features]
        });
        let sums = Sums {
            elements: &mut units.products,
            first: 0,
            width: units.width,
            stride,
        };
        if let Matrix::Bytes(panels) = &direction.input {
            let Some((quantizing, of_x)) = self.quantizing.zip(sequence.of_x) else {
                return;
            };
            units.quantized.clear();
            rows.for_each(|row| units.quantized.push(quantizing, of_x, row));
            units.quantized.pack(features);
            return panels.add_products(units.blocks.clone(), &units.quantized, sums);
        }
        let elements = if sequence.are_dense(steps, features) {
            &sequence.x[start..][..steps * batch * features]
        } else {
            units.inputs.clear();
            rows.for_each(|row| units.inputs.extend_from_slice(row));
            &units.inputs
        };
        let x = Rows {
            elements,
            count: steps * batch,
            stride: features,
        };
        match &direction.input {
            Matrix::Floats(panels) => panels.add_products(units.blocks.clone(), x, sums),
            Matrix::OfRun { direction, gates } => {
                let weights = self.of_run(sequence.weights[0], *direction);
                self.add_dots(weights, gates, units.range.clone(), x, sums);
            }
            Matrix::Bytes(_) => {}
        }
    }

    /// The weights of a direction that a run reads.
    fn of_run<'a>(&self, weights: &'a [T], direction: usize) -> &'a [T] {
        part(weights, direction, self.directions.len())
    }

    /// Adds the products of rows with weights as ONNX lays them: [gates * units, inputs].
    fn add_dots(
        &self,
        weights: &[T],
        gates: &'static [usize],
        range: Range<usize>,
        rows: Rows<'_, T>,
        to: Sums<'_, T>,
    ) {
        AddDots {
            weights,
            gates,
            units: self.units,
            range,
            inputs: weights.len() / (self.cell.gates() * self.units),
            rows,
            to,
        }
        .dispatch();
    }
}

/// The update of states, with the instructions of a processor.
struct Update<'a, T> {
    layer: &'a PackedLayer<T>,
    direction: &'a Direction<T>,
    sequence: &'a Sequences<'a, T>,
    step: usize,
    is_late: bool,
    range: Range<usize>,
    width: usize,
    /// [batch, slots, width].
    products: &'a mut [T],
    h: &'a mut [T],
    c: &'a mut [T],
    published: &'a mut [T],
}

impl<T: Element> SimdOp for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let width = self.width;
        let stride = self.layer.cell.slots() * width;
        for item in 0..self.sequence.batch {
            let part = item * width..(item + 1) * width;
            let row = Row {
                layer: self.layer,
                direction: self.direction,
                change: self.sequence.change(self.step, item),
                range: self.range.clone(),
                width,
                h: &mut self.h[part.clone()],
                c: &mut self.c[part.clone()],
                published: &mut self.published[part],
            };
            let products = &mut self.products[item * stride..][..stride];
            match self.layer.cell {
                Cell::Lstm {
                    couples_input_and_forget,
                } => row.lstm(isa, products, couples_input_and_forget),
                Cell::Gru { .. } => row.gru(isa, products, self.is_late),
                Cell::Rnn => {
                    row.activate(isa, 0, products);
                    set::<T, I>(isa, row.change, row.h, products, row.published);
                }
            }
        }
    }
}

/// The update of a sequence.
struct Row<'a, T> {
    layer: &'a PackedLayer<T>,
    direction: &'a Direction<T>,
    change: Change,
    range: Range<usize>,
    width: usize,
    h: &'a mut [T],
    c: &'a mut [T],
    published: &'a mut [T],
}

impl<T: Element> Row<'_, T> {
    /// Applies an activation to gates.
    #[inline(always)]
    fn activate<I: Isa>(&self, isa: I, function: usize, gates: &mut [T]) {
        let function = GateFunction {
            clip: self.layer.clip,
            activation: self.direction.activations[function],
        };
        function.apply(isa, gates);
    }

    /// Adds the products of a cell state with peepholes to a gate.
    #[inline(always)]
    fn see(&self, gate: &mut [T], c: &[T], index: usize) {
        if let Some(peepholes) = &self.direction.peepholes {
            let weights = &peepholes[index * self.layer.units..][self.range.clone()];
            for (gate, (weight, c)) in std::iter::zip(gate, std::iter::zip(weights, c)) {
                *gate = *gate + *weight * *c;
            }
        }
    }

    /// Updates the states of an LSTM, from its gates in the order i, o, f, c.
    #[inline(always)]
    fn lstm<I: Isa>(self, isa: I, gates: &mut [T], couples_input_and_forget: bool) {
        let width = self.width;
        // Otherwise the gates are alike.
        let is_special = couples_input_and_forget || self.direction.peepholes.is_some();
        if !is_special {
            self.activate(isa, 0, &mut gates[..3 * width]);
        }
        let (i, gates) = gates.split_at_mut(width);
        let (o, gates) = gates.split_at_mut(width);
        let (f, new) = gates.split_at_mut(width);
        if is_special {
            self.see(i, self.c, 0);
            self.activate(isa, 0, i);
            if couples_input_and_forget {
                for (f, i) in std::iter::zip(&mut *f, &*i) {
                    *f = T::one() - *i;
                }
            } else {
                self.see(f, self.c, 2);
                self.activate(isa, 0, f);
            }
        }
        self.activate(isa, 1, new);
        // The new cell state takes the place of the gate f, and its function that of the gate c.
        let lanes = T::lanes(isa);
        let gates = std::iter::zip(i.chunks_exact(lanes), new.chunks_exact_mut(lanes));
        let states = std::iter::zip(f.chunks_exact_mut(lanes), self.c.chunks_exact(lanes));
        for ((i, new), (f, c)) in std::iter::zip(gates, states) {
            let kept = T::product(isa, T::load(isa, f), T::load(isa, c));
            let added = T::product(isa, T::load(isa, i), T::load(isa, new));
            let c = T::sum(isa, kept, added);
            T::store(isa, c, f);
            T::store(isa, c, new);
        }
        if is_special {
            self.see(o, f, 1);
            self.activate(isa, 0, o);
        }
        let of_shown = GateFunction {
            clip: None,
            activation: self.direction.activations[2],
        };
        of_shown.apply(isa, new);
        for (o, shown) in std::iter::zip(o.chunks_exact_mut(lanes), new.chunks_exact(lanes)) {
            let h = T::product(isa, T::load(isa, o), T::load(isa, shown));
            T::store(isa, h, o);
        }
        // Nobody else reads the cell state.
        set::<T, I>(isa, self.change, self.c, f, new);
        set::<T, I>(isa, self.change, self.h, o, self.published);
    }

    /// Updates the state of a GRU, from its gates in the order h, z, r, and the operand of the
    /// reset; or publishes the reset state, before its product.
    #[inline(always)]
    fn gru<I: Isa>(self, isa: I, gates: &mut [T], is_late: bool) {
        let lanes = T::lanes(isa);
        let (new, gates) = gates.split_at_mut(self.width);
        let (gates, seen) = gates.split_at_mut(2 * self.width);
        if !is_late {
            self.activate(isa, 0, gates);
        }
        let (z, r) = gates.split_at(self.width);
        if self.layer.cell.resets_before_product() && !is_late {
            let reset = std::iter::zip(r.chunks_exact(lanes), self.h.chunks_exact(lanes));
            for (to, (r, h)) in std::iter::zip(self.published.chunks_exact_mut(lanes), reset) {
                let reset = T::product(isa, T::load(isa, r), T::load(isa, h));
                T::store(isa, reset, to);
            }
            return;
        }
        // There is nothing to see if the state was reset before.
        let reset = std::iter::zip(r.chunks_exact(lanes), seen.chunks_exact(lanes));
        for (new, (r, seen)) in std::iter::zip(new.chunks_exact_mut(lanes), reset) {
            let reset = T::product(isa, T::load(isa, r), T::load(isa, seen));
            T::store(isa, T::sum(isa, T::load(isa, new), reset), new);
        }
        self.activate(isa, 1, new);
        let states = std::iter::zip(z.chunks_exact(lanes), self.h.chunks_exact(lanes));
        for (new, (z, h)) in std::iter::zip(new.chunks_exact_mut(lanes), states) {
            // (1 - z) new + z h. The form with one product less, new + z (h - new), does not return
            // h where z is 1.
            let z = T::load(isa, z);
            let rest = T::difference(isa, T::splat(isa, T::one()), z);
            let added = T::product(isa, rest, T::load(isa, new));
            let kept = T::product(isa, z, T::load(isa, h));
            T::store(isa, T::sum(isa, added, kept), new);
        }
        set::<T, I>(isa, self.change, self.h, new, self.published);
    }
}

/// Changes a state, and copies the result.
#[inline(always)]
fn set<T: Element, I: Isa>(isa: I, change: Change, state: &mut [T], new: &[T], copy: &mut [T]) {
    let lanes = T::lanes(isa);
    let states = std::iter::zip(state.chunks_exact_mut(lanes), new.chunks_exact(lanes));
    for (copy, (state, new)) in std::iter::zip(copy.chunks_exact_mut(lanes), states) {
        let (old, new) = (T::load(isa, state), T::load(isa, new));
        let now = match change {
            Change::None => old,
            Change::New => new,
            Change::Blended(counts) => {
                let (of_new, of_old) = if counts {
                    (T::one(), T::zero())
                } else {
                    (T::zero(), T::one())
                };
                let new = T::product(isa, T::splat(isa, of_new), new);
                T::sum(isa, new, T::product(isa, T::splat(isa, of_old), old))
            }
        };
        T::store(isa, now, state);
        T::store(isa, now, copy);
    }
}
