//! The cells' steps, by ONNX's equations, as nodes of a Scan's body.
//!
//! `layer.rs` has wired what comes before: the products with the inputs, biases included. Small
//! operators of a step are fused later (`fusion/`); `packed.rs` computes the same equations for
//! layers with large weights.
//!
//! ```text
//! GRU: z, r = σ(x + h·R), new = tanh(x + (r∘h)·R), h' = new + z∘(h - new)
//! ```

use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use super::Wiring;
use super::activation::{Activation, GateFunction};
use super::quantized::FakeQuantize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm { couples_input_and_forget: bool },
    Gru { resets_after_product: bool },
    Rnn,
}

/// The operands of a step. Sizes: [1, batch, gates * hidden] of `x` and [1, batch, hidden] of
/// states.
pub(super) struct Step<'a> {
    /// The products of the inputs with the weights, plus biases that apply to the sum of both
    /// products.
    pub(super) x: OutletId,
    pub(super) h: OutletId,
    pub(super) c: Option<OutletId>,
    /// The recurrent weights, [gates * hidden, hidden].
    pub(super) r: OutletId,
    /// The bias of the recurrent product alone, [1, 1, hidden]: for the last gate of a GRU that
    /// resets after the product.
    pub(super) bias: Option<OutletId>,
    /// [1, 1, hidden] each, for the gates i, o and f.
    pub(super) peepholes: Option<[OutletId; 3]>,
    pub(super) hidden: TDim,
    pub(super) activations: &'a [Activation],
    pub(super) clip: Option<f32>,
    /// Whether products take a state as it is quantised.
    pub(super) quantizes: bool,
}

impl Cell {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lstm { .. } => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::Rnn => "RNN",
        }
    }

    /// The number of gates.
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Lstm { .. } => 4,
            Self::Gru { .. } => 3,
            Self::Rnn => 1,
        }
    }

    pub(super) fn has_cell_state(self) -> bool {
        matches!(self, Self::Lstm { .. })
    }

    /// Whether the last gate's recurrent bias is added on its own, before the reset.
    pub(super) fn has_recurrent_bias(self) -> bool {
        self == Self::Gru {
            resets_after_product: true,
        }
    }

    /// Whether a step has a second product, of the first one's result.
    pub(super) fn resets_before_product(self) -> bool {
        self == Self::Gru {
            resets_after_product: false,
        }
    }

    pub(super) fn default_activations(self) -> &'static [Activation] {
        match self {
            Self::Lstm { .. } => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Self::Gru { .. } => &[Activation::Sigmoid, Activation::Tanh],
            Self::Rnn => &[Activation::Tanh],
        }
    }

    /// The states after the step: `h`, and `c` if present.
    pub(super) fn wire(self, to: &mut Wiring<'_>, step: &Step<'_>) -> TractResult<TVec<OutletId>> {
        match self {
            Self::Lstm {
                couples_input_and_forget,
            } => step.lstm(to, couples_input_and_forget),
            Self::Gru {
                resets_after_product,
            } => Ok(tvec![step.gru(to, resets_after_product)?]),
            Self::Rnn => {
                let product = step.product(to, step.h, 0..1)?;
                let sum = to.op("sum", math::add(), &[step.x, product])?;
                Ok(tvec![step.activate(to, "h", 0, sum)?])
            }
        }
    }
}

impl Step<'_> {
    /// A range of gates of a value with all gates along an axis.
    fn gates(
        &self,
        to: &mut Wiring<'_>,
        of: OutletId,
        axis: usize,
        gates: std::ops::Range<usize>,
    ) -> TractResult<OutletId> {
        let start = self.hidden.clone() * gates.start;
        let end = self.hidden.clone() * gates.end;
        if start == 0.to_dim() && to.fact(of)?.shape[axis] == end {
            return Ok(of);
        }
        to.op("gate", Slice::new(axis, start, end), &[of])
    }

    /// The product of a state with the recurrent weights of a range of gates.
    fn product(
        &self,
        to: &mut Wiring<'_>,
        state: OutletId,
        gates: std::ops::Range<usize>,
    ) -> TractResult<OutletId> {
        let of = to.fact(state)?.datum_type;
        let weights = self.gates(to, self.r, 0, gates)?;
        let state = match self.quantizes {
            true => to.op("quantized", FakeQuantize::Rows, &[state])?,
            false => state,
        };
        let product = EinSum::new("abh,gh->abg".parse()?, of);
        to.op("product", product, &[state, weights])
    }

    fn activate(
        &self,
        to: &mut Wiring<'_>,
        name: &str,
        function: usize,
        x: OutletId,
    ) -> TractResult<OutletId> {
        let function = GateFunction {
            clip: self.clip,
            activation: self.activations[function],
        };
        to.op(name, function.op(), &[x])
    }

    fn lstm(
        &self,
        to: &mut Wiring<'_>,
        couples_input_and_forget: bool,
    ) -> TractResult<TVec<OutletId>> {
        let before = self.c.context("an LSTM has a cell state")?;
        let product = self.product(to, self.h, 0..4)?;
        let sum = to.op("sum", math::add(), &[self.x, product])?;
        // Gates in the order i, o, f, c.
        let gate = |to: &mut Wiring<'_>, index: usize, peephole: Option<(usize, OutletId)>| {
            let gate = self.gates(to, sum, 2, index..index + 1)?;
            match (self.peepholes, peephole) {
                (Some(weights), Some((peephole, c))) => {
                    let seen = to.op("peephole", math::mul(), &[c, weights[peephole]])?;
                    to.op("gate", math::add(), &[gate, seen])
                }
                _ => Ok(gate),
            }
        };
        let i = gate(to, 0, Some((0, before)))?;
        let i = self.activate(to, "i", 0, i)?;
        let f = if couples_input_and_forget {
            let one = to.number("one", i, 1.0)?;
            to.math("f", math::sub(), &[one, i])?
        } else {
            let f = gate(to, 2, Some((2, before)))?;
            self.activate(to, "f", 0, f)?
        };
        let new = gate(to, 3, None)?;
        let new = self.activate(to, "new", 1, new)?;
        let kept = to.op("kept", math::mul(), &[f, before])?;
        let added = to.op("added", math::mul(), &[i, new])?;
        let c = to.op("c", math::add(), &[kept, added])?;
        let o = gate(to, 1, Some((1, c)))?;
        let o = self.activate(to, "o", 0, o)?;
        let shown = GateFunction {
            clip: None,
            activation: self.activations[2],
        };
        let shown = to.op("shown", shown.op(), &[c])?;
        let h = to.op("h", math::mul(), &[o, shown])?;
        Ok(tvec![h, c])
    }

    fn gru(&self, to: &mut Wiring<'_>, resets_after_product: bool) -> TractResult<OutletId> {
        // Gates in the order z, r, h.
        let together = if resets_after_product { 3 } else { 2 };
        let product = self.product(to, self.h, 0..together)?;
        let gate = |to: &mut Wiring<'_>, index: usize| {
            let x = self.gates(to, self.x, 2, index..index + 1)?;
            let product = self.gates(to, product, 2, index..index + 1)?;
            let sum = to.op("sum", math::add(), &[x, product])?;
            self.activate(to, "gate", 0, sum)
        };
        let (z, r) = (gate(to, 0)?, gate(to, 1)?);
        let x = self.gates(to, self.x, 2, 2..3)?;
        let seen = if resets_after_product {
            let mut seen = self.gates(to, product, 2, 2..3)?;
            if let Some(bias) = self.bias {
                seen = to.op("biased", math::add(), &[seen, bias])?;
            }
            to.op("seen", math::mul(), &[r, seen])?
        } else {
            let reset = to.op("reset", math::mul(), &[r, self.h])?;
            self.product(to, reset, 2..3)?
        };
        let sum = to.op("sum", math::add(), &[x, seen])?;
        let new = self.activate(to, "new", 1, sum)?;
        // (1 - z) new + z h, with one product less.
        let change = to.op("change", math::sub(), &[self.h, new])?;
        let kept = to.op("kept", math::mul(), &[z, change])?;
        to.op("h", math::add(), &[new, kept])
    }
}
