//! A layer's packed weights.
//!
//! The products of a step lie in *slots*, one for each gate. Gates whose weights are multiplied
//! together are neighbours, so that their panels may be one, and so are those of one activation:
//!
//! ```text
//! LSTM: i, o, f, c    RNN: h
//! GRU: h, z, r, with the input; z, r, with the state; then h, with the reset state, or beside them
//! ```

use std::borrow::Borrow;

use tract_onnx::tract_hir::internal::*;

use super::activation::{Activation, Functions};
use super::cell::Cell;
use super::element::Element;
use super::product::Panels;

/// Form of a layer without its weights.
#[derive(Clone, Debug)]
pub(super) struct Form<T> {
    pub(super) cell: Cell,
    pub(super) clip: Option<f32>,
    /// Whether each direction runs backwards, and its activations.
    pub(super) directions: Vec<(bool, Vec<Activation>)>,
    /// Rounding of the state h before it is multiplied, each sequence by itself.
    pub(super) quantize: Option<fn(&mut [T])>,
}

/// The inputs W and R, and B and P if they are present.
pub(super) struct Weights<V> {
    pub(super) w: V,
    pub(super) r: V,
    pub(super) bias: Option<V>,
    pub(super) peepholes: Option<V>,
}

impl<T: Element> Form<T> {
    /// Packs the weights of all directions, whose sizes have been checked.
    pub(super) fn pack<V: Borrow<Tensor>>(
        &self,
        weights: &Weights<V>,
    ) -> TractResult<PackedLayer<T>> {
        fn all<T: Datum, V: Borrow<Tensor>>(tensor: &V) -> TractResult<Vec<T>> {
            Ok(tensor
                .borrow()
                .try_as_plain_ram()?
                .as_slice::<T>()?
                .to_vec())
        }
        let (units, features) = (weights.r.borrow().shape()[2], weights.w.borrow().shape()[2]);
        let (w, r) = (all::<T, V>(&weights.w)?, all::<T, V>(&weights.r)?);
        let bias = weights.bias.as_ref().map(all::<T, V>).transpose()?;
        let peepholes = weights.peepholes.as_ref().map(all::<T, V>).transpose()?;
        let count = self.directions.len();
        let directions = self.directions.iter().enumerate();
        let directions = directions.map(|(index, (is_backward, activations))| {
            let part = |all: &[T]| {
                let len = all.len() / count;
                index * len..(index + 1) * len
            };
            Direction::pack(
                self.cell,
                *is_backward,
                activations.clone(),
                units,
                features,
                &Constants {
                    w: &w[part(&w)],
                    r: &r[part(&r)],
                    bias: bias.as_ref().map(|all| &all[part(all)]),
                    peepholes: peepholes.as_ref().map(|all| &all[part(all)]),
                },
            )
        });
        Ok(PackedLayer {
            cell: self.cell,
            clip: self.clip,
            units,
            features,
            directions: directions.collect(),
            functions: Functions::new()?,
            quantize: self.quantize,
        })
    }
}

/// A layer with known weights.
#[derive(Clone, Debug)]
pub(super) struct PackedLayer<T> {
    pub(super) cell: Cell,
    pub(super) clip: Option<f32>,
    pub(super) units: usize,
    pub(super) features: usize,
    pub(super) directions: Vec<Direction<T>>,
    pub(super) functions: Functions,
    /// Rounding of the state h before it is multiplied, each sequence by itself.
    pub(super) quantize: Option<fn(&mut [T])>,
}

/// The weights of one direction.
#[derive(Clone, Debug)]
pub(super) struct Direction<T> {
    pub(super) is_backward: bool,
    pub(super) activations: Vec<Activation>,
    /// Weights of the input for all gates.
    pub(super) input: Panels<T>,
    /// Weights of the state for all gates, or for those before the reset.
    pub(super) recurrent: Panels<T>,
    /// Weights of the state for the last gate of a GRU that resets before the product.
    pub(super) late: Option<Panels<T>>,
    /// Contents of the slots before any product: [slots, units].
    pub(super) bias: Vec<T>,
    /// Peepholes of the gates i, o and f: [3, units].
    pub(super) peepholes: Option<Vec<T>>,
}

/// The node's constants for one direction: [gates * units, features], [gates * units, units], [2 *
/// gates * units] and [3 * units].
pub(super) struct Constants<'a, T> {
    pub(super) w: &'a [T],
    pub(super) r: &'a [T],
    pub(super) bias: Option<&'a [T]>,
    pub(super) peepholes: Option<&'a [T]>,
}

impl Cell {
    /// The gates in the order of their slots, the first ones.
    fn of_slots(self) -> &'static [usize] {
        match self {
            Self::Lstm { .. } => &[0, 1, 2, 3],
            Self::Gru { .. } => &[2, 0, 1],
            Self::Rnn => &[0],
        }
    }

    /// The gates whose weights are multiplied with the state, and the slot of the first.
    fn recurrent(self) -> (&'static [usize], usize) {
        match self {
            Self::Lstm { .. } => (&[0, 1, 2, 3], 0),
            Self::Gru {
                resets_after_product: true,
            } => (&[0, 1, 2], 1),
            Self::Gru {
                resets_after_product: false,
            } => (&[0, 1], 1),
            Self::Rnn => (&[0], 0),
        }
    }

    /// The number of slots: the last gate's product with the state, that is reset, has its own.
    pub(super) fn slots(self) -> usize {
        self.gates() + usize::from(self.has_recurrent_bias())
    }

    /// The slot of the first product with the state.
    pub(super) fn first_recurrent_slot(self) -> usize {
        self.recurrent().1
    }
}

impl<T: Element> Direction<T> {
    pub(super) fn pack(
        cell: Cell,
        is_backward: bool,
        activations: Vec<Activation>,
        units: usize,
        features: usize,
        constants: &Constants<'_, T>,
    ) -> Self {
        let gates = cell.gates();
        let (recurrent, _) = cell.recurrent();
        let mut bias = vec![T::zero(); cell.slots() * units];
        if let Some(all) = constants.bias {
            let (of_w, of_r) = all.split_at(gates * units);
            let own = cell.has_recurrent_bias().then_some(gates - 1);
            let of_gates = cell.of_slots().iter().chain(&own);
            for (slot, gate) in of_gates.enumerate() {
                let range = gate * units..(gate + 1) * units;
                let to = &mut bias[slot * units..][..units];
                if slot < gates {
                    to.copy_from_slice(&of_w[range.clone()]);
                }
                if slot == gates || own != Some(*gate) {
                    for (to, from) in std::iter::zip(to, &of_r[range]) {
                        *to = *to + *from;
                    }
                }
            }
        }
        let last = [gates - 1];
        Self {
            is_backward,
            activations,
            input: Panels::pack(constants.w, cell.of_slots(), units, features),
            recurrent: Panels::pack(constants.r, recurrent, units, units),
            late: (cell.resets_before_product())
                .then(|| Panels::pack(constants.r, &last, units, units)),
            bias,
            peepholes: constants.peepholes.map(<[_]>::to_vec),
        }
    }
}
