//! A layer's packed weights, and the computation of a step.
//!
//! A step is one phase, or two for a GRU that resets before its product: after each, every unit
//! needs the results of all others. Within a phase, units are independent, and each thread computes
//! its own (`team.rs`). Numbers are summed in the same order however units are split. The operator
//! has checked all sizes (`op.rs`).

use std::ops::Range;

use tract_onnx::tract_hir::internal::*;

use super::activation::{Activation, Functions, GateFunction};
use super::cell::Cell;
use super::product::{Panels, panel_columns};
use super::quantized;

/// A layer with known weights.
#[derive(Clone, Debug)]
pub(super) struct PackedLayer {
    pub(super) cell: Cell,
    pub(super) clip: Option<f32>,
    pub(super) units: usize,
    pub(super) features: usize,
    pub(super) directions: Vec<Direction>,
    pub(super) functions: Functions,
    /// Whether products take the state h as it is quantised.
    pub(super) quantizes: bool,
}

/// The weights of one direction.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) is_backward: bool,
    activations: Vec<Activation>,
    /// For all gates.
    input: Panels,
    /// For all gates, or for those before the reset.
    recurrent: Panels,
    /// For the last gate of a GRU that resets before the product.
    late: Option<Panels>,
    /// The bias of the products with the inputs: [gates, units].
    bias: Vec<f32>,
    /// The bias of the last gate's recurrent product alone, in a GRU that resets after the product:
    /// [units].
    own_bias: Vec<f32>,
    /// For the gates i, o and f: [3, units].
    peepholes: Option<Vec<f32>>,
}

/// The node's constants for one direction: [gates * units, features], [gates * units, units], [2 *
/// gates * units] and [3 * units].
pub(super) struct Constants<'a> {
    pub(super) w: &'a [f32],
    pub(super) r: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) peepholes: Option<&'a [f32]>,
}

impl Direction {
    pub(super) fn pack(
        cell: Cell,
        is_backward: bool,
        activations: Vec<Activation>,
        units: usize,
        features: usize,
        of: &Constants<'_>,
    ) -> Self {
        let gates = cell.gates();
        let early = gates - usize::from(cell.resets_before_product());
        let mut bias = vec![0.0; gates * units];
        let mut own_bias = vec![0.0; units];
        if let Some(all) = of.bias {
            let (of_w, of_r) = all.split_at(gates * units);
            bias.copy_from_slice(of_w);
            let own = if cell.has_recurrent_bias() {
                (gates - 1) * units
            } else {
                gates * units
            };
            for (to, from) in std::iter::zip(&mut bias, &of_r[..own]) {
                *to += from;
            }
            for (to, from) in std::iter::zip(&mut own_bias, &of_r[own..]) {
                *to = *from;
            }
        }
        Self {
            is_backward,
            activations,
            input: Panels::pack(of.w, 0..gates, units, features),
            recurrent: Panels::pack(of.r, 0..early, units, units),
            late: (early < gates).then(|| Panels::pack(of.r, early..gates, units, units)),
            bias,
            own_bias,
            peepholes: of.peepholes.map(<[_]>::to_vec),
        }
    }
}

/// The operands of all steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence<'a> {
    /// [steps, batch, features].
    pub(super) x: &'a [f32],
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) counts: Counts<'a>,
}

/// The valid steps; at others, states do not change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counts<'a> {
    All,
    /// The first steps of each sequence.
    Lengths(&'a [usize]),
    /// Steps that are true in [steps, batch]; see [`Counted`](super::op::Counted).
    Masked {
        mask: &'a [bool],
        blends: bool,
        repeats: bool,
    },
}

impl Sequence<'_> {
    fn counts(&self, step: usize, item: usize) -> bool {
        match self.counts {
            Counts::All => true,
            Counts::Lengths(lengths) => step < lengths[item],
            Counts::Masked { mask, .. } => mask[step * self.batch + item],
        }
    }

    /// Updates a state, whose rows are as long as those of `new`.
    fn update(&self, step: usize, state: &mut [f32], new: &[f32]) {
        if self.batch == 0 {
            return;
        }
        let width = state.len() / self.batch;
        let rows = std::iter::zip(state.chunks_exact_mut(width), new.chunks_exact(width));
        for (item, (state, new)) in rows.enumerate() {
            let counts = self.counts(step, item);
            if let Counts::Masked { blends: true, .. } = self.counts {
                let (of_new, of_old) = if counts { (1.0, 0.0) } else { (0.0, 1.0) };
                for (state, new) in std::iter::zip(state, new) {
                    *state = of_new * new + of_old * *state;
                }
            } else if counts {
                state.copy_from_slice(new);
            }
        }
    }

    /// Writes the outputs of a step, which start as zeros, from the state after it; both are
    /// [batch, units].
    pub(super) fn write(&self, step: usize, state: &[f32], to: &mut [f32]) {
        if self.batch == 0 {
            return;
        }
        let width = state.len() / self.batch;
        let rows = std::iter::zip(to.chunks_exact_mut(width), state.chunks_exact(width));
        for (item, (to, state)) in rows.enumerate() {
            match self.counts {
                Counts::Masked { repeats: true, .. } => to.copy_from_slice(state),
                _ if self.counts(step, item) => to.copy_from_slice(state),
                // Keras multiplies outputs with the mask, so infinity becomes NaN.
                Counts::Masked { blends: true, .. } => {
                    for (to, state) in std::iter::zip(to, state) {
                        *to = 0.0 * state;
                    }
                }
                _ => {}
            }
        }
    }
}

/// The fewest rows, if available, of the products of inputs with weights: enough that weights are
/// read rarely, and few enough that the products stay in a cache until their steps.
const ROWS_AT_ONCE: usize = 128;

/// Some units of a direction and their states. Rows are sequences, as wide as the blocks of units.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    blocks: Range<usize>,
    /// The units in the blocks.
    range: Range<usize>,
    width: usize,
    batch: usize,
    /// The number of steps whose products with the inputs are computed at once.
    steps_at_once: usize,
    /// The first step with computed products.
    first: usize,
    /// The products with the weights, [gates, steps at once, batch, width], then the reset operand
    /// of a GRU that resets after the product, [batch, width].
    products: Vec<f32>,
    pub(super) h: Vec<f32>,
    c: Vec<f32>,
}

impl PackedLayer {
    pub(super) fn blocks(&self) -> usize {
        self.units.div_ceil(panel_columns())
    }

    /// The number of consecutive products in a step.
    pub(super) fn phases(&self) -> usize {
        1 + usize::from(self.cell.resets_before_product())
    }

    /// Prepares some blocks of units for a run, with zero states.
    pub(super) fn prepare(&self, units: &mut Units, blocks: Range<usize>, of: &Sequence<'_>) {
        let columns = panel_columns();
        units.range = blocks.start * columns..self.units.min(blocks.end * columns);
        units.width = blocks.len() * columns;
        units.blocks = blocks;
        units.batch = of.batch;
        units.steps_at_once = ROWS_AT_ONCE.div_ceil(of.batch.max(1)).min(of.steps);
        let row = of.batch * units.width;
        let products = self.cell.gates() * units.steps_at_once + 1;
        units.products.clear();
        units.products.resize(products * row, 0.0);
        for state in [&mut units.h, &mut units.c] {
            state.clear();
            state.resize(row, 0.0);
        }
    }

    /// Computes a phase of a step.
    ///
    /// `shared` holds the results of all units after the previous phase: [batch, units]. The
    /// results of these units for the next phase go to `published`.
    pub(super) fn compute(
        &self,
        direction: &Direction,
        units: &mut Units,
        of: &Sequence<'_>,
        phase: usize,
        shared: &[f32],
        published: &mut [f32],
    ) -> TractResult<()> {
        let count = phase / self.phases();
        let is_late = !phase.is_multiple_of(self.phases());
        let step = if direction.is_backward {
            of.steps - 1 - count
        } else {
            count
        };
        if !is_late && count.is_multiple_of(units.steps_at_once) {
            self.add_inputs(direction, units, of, count);
        }
        let mut quantized = vec![];
        let shared = if self.quantizes {
            quantized.extend_from_slice(shared);
            quantized::by_row(&mut quantized, self.units);
            &quantized
        } else {
            shared
        };
        let row = units.batch * units.width;
        let plane = units.steps_at_once * row;
        let at = (step - units.first) * row;
        let starts: TVec<usize> = (0..self.cell.gates()).map(|it| it * plane + at).collect();
        let ranges = |start: usize| start..start + row;
        match self.cell {
            Cell::Lstm {
                couples_input_and_forget,
            } => {
                let products = &mut units.products;
                let blocks = units.blocks.clone();
                (direction.recurrent).add_products(blocks, shared, products, &starts);
                self.lstm(
                    direction,
                    units,
                    of,
                    step,
                    &starts,
                    couples_input_and_forget,
                )?;
            }
            Cell::Gru {
                resets_after_product,
            } => {
                let last = starts[2];
                let extra = 3 * plane;
                let blocks = units.blocks.clone();
                let products = &mut units.products;
                if resets_after_product {
                    for to in products[ranges(extra)].chunks_exact_mut(units.width) {
                        let own = &direction.own_bias[units.range.clone()];
                        to[..own.len()].copy_from_slice(own);
                    }
                    let starts = [starts[0], starts[1], extra];
                    (direction.recurrent).add_products(blocks, shared, products, &starts);
                    self.gates(direction, 0, &mut products[ranges(starts[0])])?;
                    self.gates(direction, 0, &mut products[ranges(starts[1])])?;
                    let [r, new, seen] = products.get_disjoint_mut([
                        ranges(starts[1]),
                        ranges(last),
                        ranges(extra),
                    ])?;
                    for (new, (r, seen)) in std::iter::zip(new, std::iter::zip(r, seen)) {
                        *new += *r * *seen;
                    }
                    self.gru(direction, units, of, step, &[starts[0], last])?;
                } else if is_late {
                    let late = direction.late.as_ref().context("its last gate is late")?;
                    late.add_products(blocks, shared, products, &[last]);
                    self.gru(direction, units, of, step, &[starts[0], last])?;
                } else {
                    let starts = &starts[..2];
                    (direction.recurrent).add_products(blocks, shared, products, starts);
                    self.gates(direction, 0, &mut products[ranges(starts[0])])?;
                    let r = &mut products[ranges(starts[1])];
                    self.gates(direction, 0, r)?;
                    for (to, (r, h)) in std::iter::zip(published, std::iter::zip(r, &units.h)) {
                        *to = *r * h;
                    }
                    return Ok(());
                }
            }
            Cell::Rnn => {
                let products = &mut units.products;
                let blocks = units.blocks.clone();
                (direction.recurrent).add_products(blocks, shared, products, &starts);
                let new = &mut products[ranges(starts[0])];
                self.gates(direction, 0, new)?;
                of.update(step, &mut units.h, new);
            }
        }
        published.copy_from_slice(&units.h);
        Ok(())
    }

    /// Computes the products of inputs with weights for some steps, biases included.
    fn add_inputs(
        &self,
        direction: &Direction,
        units: &mut Units,
        of: &Sequence<'_>,
        count: usize,
    ) {
        let steps = units.steps_at_once.min(of.steps - count);
        units.first = if direction.is_backward {
            of.steps - count - steps
        } else {
            count
        };
        let row = units.batch * units.width;
        let plane = units.steps_at_once * row;
        for gate in 0..self.cell.gates() {
            let bias = &direction.bias[gate * self.units..][units.range.clone()];
            let to = &mut units.products[gate * plane..][..steps * row];
            for to in to.chunks_exact_mut(units.width) {
                to[..bias.len()].copy_from_slice(bias);
                to[bias.len()..].fill(0.0);
            }
        }
        let of_step = of.batch * self.features;
        let x = &of.x[units.first * of_step..][..steps * of_step];
        let starts: TVec<usize> = (0..self.cell.gates()).map(|gate| gate * plane).collect();
        let (blocks, products) = (units.blocks.clone(), &mut units.products);
        direction.input.add_products(blocks, x, products, &starts);
    }

    /// Applies an activation to gates.
    fn gates(&self, direction: &Direction, function: usize, x: &mut [f32]) -> TractResult<()> {
        let function = GateFunction {
            clip: self.clip,
            activation: direction.activations[function],
        };
        function.apply(&self.functions, x)
    }

    /// Updates the states of an LSTM, from its gates in the order i, o, f, c.
    fn lstm(
        &self,
        direction: &Direction,
        units: &mut Units,
        of: &Sequence<'_>,
        step: usize,
        starts: &[usize],
        couples_input_and_forget: bool,
    ) -> TractResult<()> {
        let Units {
            range,
            width,
            products,
            h,
            c,
            ..
        } = units;
        let row = of.batch * *width;
        let gates = [0, 1, 2, 3].map(|gate| starts[gate]..starts[gate] + row);
        let [i, o, f, new] = products.get_disjoint_mut(gates)?;
        let see = |gate: &mut [f32], c: &[f32], index: usize| {
            if let Some(peepholes) = &direction.peepholes {
                let weights = &peepholes[index * self.units..][range.clone()];
                let rows = std::iter::zip(gate.chunks_exact_mut(*width), c.chunks_exact(*width));
                for (gate, c) in rows {
                    for (gate, (weight, c)) in std::iter::zip(gate, std::iter::zip(weights, c)) {
                        *gate += weight * c;
                    }
                }
            }
        };
        see(i, c, 0);
        self.gates(direction, 0, i)?;
        if couples_input_and_forget {
            for (f, i) in std::iter::zip(&mut *f, &*i) {
                *f = 1.0 - i;
            }
        } else {
            see(f, c, 2);
            self.gates(direction, 0, f)?;
        }
        self.gates(direction, 1, new)?;
        // The new cell state, in place of the gate f.
        for (f, c) in std::iter::zip(&mut *f, &*c) {
            *f *= c;
        }
        for (f, (i, new)) in std::iter::zip(&mut *f, std::iter::zip(&*i, &*new)) {
            *f += i * new;
        }
        see(o, f, 1);
        self.gates(direction, 0, o)?;
        let shown = new;
        shown.copy_from_slice(f);
        let of_shown = GateFunction {
            clip: None,
            activation: direction.activations[2],
        };
        of_shown.apply(&self.functions, shown)?;
        for (o, shown) in std::iter::zip(&mut *o, &*shown) {
            *o *= shown;
        }
        of.update(step, c, f);
        of.update(step, h, o);
        Ok(())
    }

    /// Updates the state of a GRU, from its gate z and the sum of its last gate.
    fn gru(
        &self,
        direction: &Direction,
        units: &mut Units,
        of: &Sequence<'_>,
        step: usize,
        starts: &[usize; 2],
    ) -> TractResult<()> {
        let Units {
            width, products, h, ..
        } = units;
        let row = of.batch * *width;
        let [z, new] = products.get_disjoint_mut(starts.map(|start| start..start + row))?;
        self.gates(direction, 1, new)?;
        // (1 - z) new + z h, with one product less.
        for (new, (z, h)) in std::iter::zip(&mut *new, std::iter::zip(&*z, &*h)) {
            *new += z * (h - *new);
        }
        of.update(step, h, new);
        Ok(())
    }
}

impl Units {
    /// The range of these units, and the width of a row.
    pub(super) fn place(&self) -> (Range<usize>, usize) {
        (self.range.clone(), self.width)
    }

    /// Sets the given states, each [batch, units] for all units.
    pub(super) fn start(&mut self, initial: [Option<&[f32]>; 2], units: usize) {
        for (state, initial) in std::iter::zip([&mut self.h, &mut self.c], initial) {
            let rows = state.chunks_exact_mut(self.width);
            for (to, from) in std::iter::zip(rows, initial.unwrap_or_default().chunks_exact(units))
            {
                to[..self.range.len()].copy_from_slice(&from[self.range.clone()]);
            }
        }
    }

    /// Writes the cell state to its part of all units, [batch, units].
    pub(super) fn store_cell(&self, units: usize, to: &mut [f32]) {
        let rows = std::iter::zip(to.chunks_exact_mut(units), self.c.chunks_exact(self.width));
        for (to, from) in rows {
            to[self.range.clone()].copy_from_slice(&from[..self.range.len()]);
        }
    }
}
