//! A plain version of ONNX's equations, one number at a time, in `f64`.

use recurrent_layers::{Activation, Cell, Layer, Layout};

/// Pseudorandom numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 >> 56
    }

    /// Numbers between -1 and 1, smaller if more of them are summed, that floats can represent.
    fn floats(&mut self, count: usize, summed: usize) -> Vec<f64> {
        let scale = (summed.max(1).next_power_of_two() as f64).sqrt().round();
        let mut next = || (self.next() as f64 / 128.0 - 1.0) / scale.log2().exp2();
        (0..count).map(|_| f64::from(next() as f32)).collect()
    }

    pub(crate) fn lengths(mut self, batch: usize, steps: usize) -> Vec<usize> {
        (0..batch)
            .map(|_| self.next() as usize % (steps + 1))
            .collect()
    }

    pub(crate) fn mask(mut self, count: usize) -> Vec<bool> {
        (0..count).map(|_| !self.next().is_multiple_of(3)).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) layer: Layer,
    pub(crate) steps: usize,
    pub(crate) batch: usize,
    pub(crate) layout: Layout,
    pub(crate) has_bias: bool,
    pub(crate) has_peepholes: bool,
    pub(crate) has_initial: bool,
    pub(crate) lengths: Option<Vec<usize>>,
    pub(crate) mask: Option<Vec<bool>>,
    pub(crate) blends: bool,
    pub(crate) repeats: bool,
    pub(crate) seed: u64,
}

/// The operands of a step of a direction.
struct Gates<'a> {
    case: &'a Case,
    activations: &'a [Activation],
    w: &'a [f64],
    r: &'a [f64],
    b: &'a [f64],
    p: &'a [f64],
}

impl Case {
    /// X, W, R, B, P, initial_h and initial_c, whether used or not.
    pub(crate) fn operands(&self) -> [Vec<f64>; 7] {
        let mut numbers = Numbers(self.seed);
        let Layer {
            features, units, ..
        } = self.layer;
        let directions = self.layer.directions.len();
        let rows = directions * self.layer.cell.gates() * units;
        let states = directions * self.batch * units;
        [
            numbers.floats(self.steps * self.batch * features, 1),
            numbers.floats(rows * features, features),
            numbers.floats(rows * units, units),
            numbers.floats(2 * rows, 1),
            numbers.floats(directions * 3 * units, 1),
            numbers.floats(states, 1),
            numbers.floats(states, 1),
        ]
    }

    /// The outputs Y, Y_h and Y_c; the last is empty unless it is an LSTM.
    pub(crate) fn by_definition(&self) -> [Vec<f64>; 3] {
        self.of(&self.operands())
    }

    /// The same of other operands.
    pub(crate) fn of(&self, [x, w, r, b, p, h0, c0]: &[Vec<f64>; 7]) -> [Vec<f64>; 3] {
        let units = self.layer.units;
        let directions = self.layer.directions.len();
        let states = directions * self.batch * units;
        let [mut y, mut last_h, mut last_c] =
            [self.steps * states, states, states].map(|count| vec![0.0; count]);
        for (index, direction) in self.layer.directions.iter().enumerate() {
            let part = |all: &'_ [f64]| {
                let len = all.len() / directions;
                index * len..(index + 1) * len
            };
            let gates = Gates {
                case: self,
                activations: &direction.activations,
                w: &w[part(w)],
                r: &r[part(r)],
                b: &b[part(b)],
                p: &p[part(p)],
            };
            for item in 0..self.batch {
                let state = self.state_at(index, item);
                let initial = |from: &[f64]| match self.has_initial {
                    true => from[state..][..units].to_vec(),
                    false => vec![0.0; units],
                };
                let (mut h, mut c) = (initial(h0), initial(c0));
                let length = self.lengths.as_ref().map_or(self.steps, |it| it[item]);
                for count in 0..self.steps {
                    let step = match direction.is_backward {
                        true => self.steps - 1 - count,
                        false => count,
                    };
                    let is_valid = match &self.mask {
                        Some(mask) => mask[step * self.batch + item],
                        None => step < length,
                    };
                    if is_valid {
                        let features = self.layer.features;
                        let x = &x[self.x_at(step, item)..][..features];
                        (h, c) = gates.step(x, &h, &c);
                    }
                    let to = &mut y[self.y_at(step, index, item)..][..units];
                    if is_valid || self.mask.is_some() && self.repeats {
                        to.copy_from_slice(&h);
                    }
                }
                if self.lengths.is_none() || length > 0 {
                    last_h[state..][..units].copy_from_slice(&h);
                    last_c[state..][..units].copy_from_slice(&c);
                }
            }
        }
        if !matches!(self.layer.cell, Cell::Lstm { .. }) {
            last_c.clear();
        }
        [y, last_h, last_c]
    }

    fn x_at(&self, step: usize, item: usize) -> usize {
        self.layer.features
            * match self.layout {
                Layout::TimeFirst => step * self.batch + item,
                Layout::BatchFirst => item * self.steps + step,
            }
    }

    fn y_at(&self, step: usize, direction: usize, item: usize) -> usize {
        let directions = self.layer.directions.len();
        self.layer.units
            * match self.layout {
                Layout::TimeFirst => (step * directions + direction) * self.batch + item,
                Layout::BatchFirst => (item * self.steps + step) * directions + direction,
            }
    }

    fn state_at(&self, direction: usize, item: usize) -> usize {
        let directions = self.layer.directions.len();
        self.layer.units
            * match self.layout {
                Layout::TimeFirst => direction * self.batch + item,
                Layout::BatchFirst => item * directions + direction,
            }
    }
}

impl Gates<'_> {
    fn step(&self, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let layer = &self.case.layer;
        let units = layer.units;
        let rows = layer.cell.gates() * units;
        let bias = |at: usize| if self.case.has_bias { self.b[at] } else { 0.0 };
        let product = |weights: &[f64], row: usize, of: &[f64]| -> f64 {
            let weights = &weights[row * of.len()..][..of.len()];
            std::iter::zip(weights, of).map(|(a, b)| a * b).sum()
        };
        let input = |row: usize| product(self.w, row, x) + bias(row);
        let state = |row: usize, h: &[f64]| product(self.r, row, h) + bias(rows + row);
        let gate = |gate: usize, unit: usize| {
            let row = gate * units + unit;
            input(row) + state(row, h)
        };
        let see = |index: usize, unit: usize, c: f64| match self.case.has_peepholes {
            true => self.p[index * units + unit] * c,
            false => 0.0,
        };
        let f = |index: usize, x: f64| {
            let clip = layer.clip.map_or(f64::INFINITY, f64::from);
            function(self.activations[index], x.clamp(-clip, clip))
        };
        match layer.cell {
            Cell::Rnn => (
                (0..units).map(|unit| f(0, gate(0, unit))).collect(),
                vec![0.0; units],
            ),
            Cell::Gru {
                resets_after_product,
            } => {
                let r: Vec<f64> = (0..units).map(|unit| f(0, gate(1, unit))).collect();
                let reset: Vec<f64> = std::iter::zip(&r, h).map(|(r, h)| r * h).collect();
                let new = |unit: usize| {
                    let row = 2 * units + unit;
                    let seen = match resets_after_product {
                        true => r[unit] * state(row, h),
                        false => state(row, &reset),
                    };
                    let (z, new) = (f(0, gate(0, unit)), f(1, input(row) + seen));
                    (1.0 - z) * new + z * h[unit]
                };
                ((0..units).map(new).collect(), vec![0.0; units])
            }
            Cell::Lstm {
                couples_input_and_forget,
            } => {
                let next = |unit: usize| {
                    let i = f(0, gate(0, unit) + see(0, unit, c[unit]));
                    let forget = match couples_input_and_forget {
                        true => 1.0 - i,
                        false => f(0, gate(2, unit) + see(2, unit, c[unit])),
                    };
                    let c = forget * c[unit] + i * f(1, gate(3, unit));
                    let o = f(0, gate(1, unit) + see(1, unit, c));
                    (o * function(self.activations[2], c), c)
                };
                (0..units).map(next).unzip()
            }
        }
    }
}

fn function(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Affine { alpha, beta } => f64::from(alpha) * x + f64::from(beta),
        Activation::Elu { alpha } if x < 0.0 => f64::from(alpha) * (x.exp() - 1.0),
        Activation::HardSigmoid { alpha, beta } => {
            (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0)
        }
        Activation::LeakyRelu { alpha } if x < 0.0 => f64::from(alpha) * x,
        // What is no number stays so, except below a threshold.
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Activation::ScaledTanh { alpha, beta } => f64::from(alpha) * (f64::from(beta) * x).tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Tanh => x.tanh(),
        Activation::ThresholdedRelu { alpha } => {
            if x >= f64::from(alpha) {
                x
            } else {
                0.0
            }
        }
        Activation::Elu { .. } | Activation::LeakyRelu { .. } => x,
    }
}
