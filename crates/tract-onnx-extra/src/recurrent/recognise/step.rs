//! Recognises the cells of LSTM, GRU and RNN.

use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use super::sum::Sum;
use super::values::Scanned;
use crate::recurrent::activation::{Activation, Functions};
use crate::recurrent::cell::Cell;
use crate::recurrent::packed::{Constants, Direction, PackedLayer};

/// The update of a state, without its mask.
pub(super) struct Step {
    pub(super) cell: Cell,
    pub(super) activations: Vec<Activation>,
    /// In ONNX's order, each with the products with the input and the state.
    pub(super) gates: Vec<Gate>,
    pub(super) x: OutletId,
    pub(super) own_bias: Option<Vec<f32>>,
}

/// The argument of a gate's activation: weights and biases.
pub(super) struct Gate {
    w: Vec<f32>,
    r: Vec<f32>,
    bias: Vec<f32>,
}

impl Scanned<'_> {
    /// Reads sums of one product with the input, one with the state, and biases as gates.
    pub(super) fn gates(&self, sums: Vec<Sum>, h: OutletId) -> Option<(Vec<Gate>, OutletId)> {
        let mut x = None;
        let mut gates = vec![];
        for sum in sums {
            let (mut w, mut r) = (None, None);
            for (of, weights) in sum.products {
                if of == h {
                    r.replace(weights).is_none().then_some(())?;
                } else {
                    w.replace(weights).is_none().then_some(())?;
                    (*x.get_or_insert(of) == of).then_some(())?;
                }
            }
            sum.others.is_empty().then_some(())?;
            gates.push(Gate {
                w: w?,
                r: r?,
                bias: sum.bias,
            });
        }
        Some((gates, x?))
    }

    pub(super) fn lstm(
        &self,
        new_h: OutletId,
        new_c: OutletId,
        h: OutletId,
        c: OutletId,
        units: usize,
    ) -> Option<Step> {
        let sigmoid = |outlet: OutletId| match self.activation(outlet)? {
            (Activation::Sigmoid, of) => Some(of),
            _ => None,
        };
        let (o, shown) = self.either::<math::Mul>(new_h).find_map(|[o, shown]| {
            let (shown, of) = self.activation(shown)?;
            (of == new_c).then_some((sigmoid(o)?, shown))
        })?;
        let (f, i, new, function) = self.either::<math::Add>(new_c).find_map(|[kept, added]| {
            let mut kept = self.either::<math::Mul>(kept);
            let f = kept.find_map(|[f, of]| (self.strip(of) == c).then(|| sigmoid(f))?)?;
            let mut added = self.either::<math::Mul>(added);
            added.find_map(|[i, new]| {
                let (function, new) = self.activation(new)?;
                Some((f, sigmoid(i)?, new, function))
            })
        })?;
        let sums = [i, o, f, new].map(|gate| self.sum(gate, units));
        let (gates, x) = self.gates(sums.into_iter().collect::<Option<_>>()?, h)?;
        Some(Step {
            cell: Cell::Lstm {
                couples_input_and_forget: false,
            },
            activations: vec![Activation::Sigmoid, function, shown],
            gates,
            x,
            own_bias: None,
        })
    }

    pub(super) fn gru(&self, new_h: OutletId, h: OutletId, units: usize) -> Option<Step> {
        // z h + (1 - z) new.
        let (z, new) = self.either::<math::Add>(new_h).find_map(|[kept, added]| {
            let mut kept = self.either::<math::Mul>(kept);
            let z = kept.find_map(|[z, of]| (self.strip(of) == h).then(|| self.strip(z)))?;
            let mut added = self.either::<math::Mul>(added);
            added.find_map(|[rest, new]| {
                let [one, of] = self.binary::<math::Sub>(rest)?;
                let is_rest = self.number(one)? == 1.0 && self.strip(of) == z;
                is_rest.then_some((z, new))
            })
        })?;
        let (gate, z) = self.activation(z)?;
        let (function, new) = self.activation(new)?;
        let mut sum = self.sum(new, units)?;
        let mut own_bias = None;
        // r (h R + b), or (r h) R.
        let (resets_after_product, r) = if let [other] = *sum.others {
            let (r, mut seen) = self.either::<math::Mul>(other).find_map(|[r, seen]| {
                let (found, r) = self.activation(r)?;
                Some((r, self.sum(seen, units)?)).filter(|_| found == gate)
            })?;
            let is_h = seen.products.len() == 1 && seen.products[0].0 == h;
            (is_h && seen.others.is_empty()).then_some(())?;
            sum.others.clear();
            sum.products.append(&mut seen.products);
            own_bias = Some(seen.bias);
            (true, r)
        } else {
            let reset = sum.products.iter_mut().find_map(|(of, _)| {
                let r = self.either::<math::Mul>(*of).find_map(|[r, of]| {
                    let (found, r) = self.activation(r)?;
                    (found == gate && self.strip(of) == h).then_some(r)
                })?;
                *of = h;
                Some(r)
            })?;
            (false, reset)
        };
        let sums = vec![self.sum(z, units)?, self.sum(r, units)?, sum];
        let (gates, x) = self.gates(sums, h)?;
        Some(Step {
            cell: Cell::Gru {
                resets_after_product,
            },
            activations: vec![gate, function],
            gates,
            x,
            own_bias,
        })
    }

    pub(super) fn rnn(&self, new_h: OutletId, h: OutletId, units: usize) -> Option<Step> {
        let (function, of) = self.activation(new_h)?;
        let (gates, x) = self.gates(vec![self.sum(of, units)?], h)?;
        Some(Step {
            cell: Cell::Rnn,
            activations: vec![function],
            gates,
            x,
            own_bias: None,
        })
    }
}

impl Step {
    pub(super) fn pack(self, units: usize, features: usize) -> TractResult<PackedLayer> {
        let (mut w, mut r, mut bias) = (vec![], vec![], vec![]);
        for gate in &self.gates {
            w.extend_from_slice(&gate.w);
            r.extend_from_slice(&gate.r);
            bias.extend_from_slice(&gate.bias);
        }
        let gates = self.gates.len();
        ensure!(w.len() == gates * units * features && r.len() == gates * units * units);
        // The recurrent biases; only the last gate's is used.
        let own = self.own_bias.unwrap_or_else(|| vec![0.0; units]);
        bias.resize((2 * gates - 1) * units, 0.0);
        bias.extend_from_slice(&own);
        let direction = Direction::pack(
            self.cell,
            false,
            self.activations,
            units,
            features,
            &Constants {
                w: &w,
                r: &r,
                bias: Some(&bias),
                peepholes: None,
            },
        );
        Ok(PackedLayer {
            cell: self.cell,
            clip: None,
            units,
            features,
            directions: vec![direction],
            functions: Functions::new()?,
            quantizes: false,
        })
    }
}
