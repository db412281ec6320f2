//! A layer's packed weights.
//!
//! The products of a step lie in *slots*, one for each gate. Gates whose weights are multiplied
//! together are neighbours, so that their panels may be one, and so are those of one activation:
//!
//! ```text
//! LSTM: i, o, f, c    RNN: h
//! GRU: h, z, r, with the input; z, r, with the state; then h, with the reset state, or beside them
//! ```

use rten_simd::{Isa, SimdOp};

use crate::activation::Activation;

use crate::bytes::BytePanels;
use crate::cell::Cell;
use crate::element::Element;
use crate::error::{Error, check};
use crate::layer::Layer;
use crate::memory;
use crate::panels::Panels;
use crate::quantized::{Quantized, Quantizing};
use crate::unpacked::AddDots;

/// The weights of a layer, in ONNX's layouts.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a, T> {
    /// The weights of the input: [directions, gates * units, features].
    pub w: &'a [T],
    /// The weights of the state h: [directions, gates * units, units].
    pub r: &'a [T],
    /// The biases of both, those of W before those of R: [directions, 2 * gates * units].
    pub b: Option<&'a [T]>,
    /// The peepholes of an LSTM, of the gates i, o and f: [directions, 3 * units].
    pub p: Option<&'a [T]>,
}

/// The packed weights of some gates, or those that each run reads.
#[derive(Clone, Debug)]
pub(crate) enum Matrix<T> {
    Floats(Panels<T>),
    Bytes(BytePanels),
    /// Those of a direction.
    OfRun {
        direction: usize,
        gates: &'static [usize],
    },
}

impl<T: Element> Matrix<T> {
    /// Whether products with 0 are 0.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Self::Floats(panels) => panels.is_finite(),
            Self::Bytes(panels) => panels.is_finite(),
            // To know it costs as much as the product.
            Self::OfRun { .. } => false,
        }
    }
}

impl<T: Element> SimdOp for AddDots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        T::add_dots(isa, self);
    }
}

/// The packed weights W of a layer's input, or that each run [reads them](crate::Inputs::w). A clone shares their memory.
#[derive(Clone, Debug)]
pub struct PackedInput<T> {
    /// Those of each direction.
    panels: Vec<Matrix<T>>,
    of: [usize; 3],
    cell: Cell,
}

/// The packed weights R of a layer's state, or that each run [reads them](crate::Inputs::r). A clone shares their memory.
#[derive(Clone, Debug)]
pub struct PackedState<T> {
    /// Those of each direction: for all gates, or for those before the reset, and those after it.
    panels: Vec<(Matrix<T>, Option<Matrix<T>>)>,
    of: [usize; 3],
    cell: Cell,
}

/// A layer with its weights, as they are multiplied. A clone shares the memory of W and R.
#[derive(Clone, Debug)]
pub struct PackedLayer<T> {
    pub(crate) cell: Cell,
    pub(crate) clip: Option<f32>,
    pub(crate) units: usize,
    pub(crate) features: usize,
    pub(crate) directions: Vec<Direction<T>>,
    /// How the input is quantised, all of it at once, and the state h before it is multiplied.
    pub(crate) quantizing: Option<Quantizing<T>>,
}

/// One direction, with its weights.
#[derive(Clone, Debug)]
pub(crate) struct Direction<T> {
    pub(crate) is_backward: bool,
    pub(crate) activations: Vec<Activation>,
    /// Weights of the input for all gates.
    pub(crate) input: Matrix<T>,
    /// Weights of the state for all gates, or for those before the reset.
    pub(crate) recurrent: Matrix<T>,
    /// Weights of the state for the last gate of a GRU that resets before the product.
    pub(crate) late: Option<Matrix<T>>,
    /// Contents of the slots before any product: [slots, units].
    pub(crate) bias: Vec<T>,
    /// Peepholes of the gates i, o and f: [3, units].
    pub(crate) peepholes: Option<Vec<T>>,
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
    pub(crate) fn slots(self) -> usize {
        self.gates() + usize::from(self.has_recurrent_bias())
    }

    /// The slot of the first product with the state.
    pub(crate) fn first_recurrent_slot(self) -> usize {
        self.recurrent().1
    }
}

/// The part of a direction, of equal parts.
pub(crate) fn part<T>(all: &[T], index: usize, count: usize) -> &[T] {
    let len = all.len() / count;
    &all[index * len..][..len]
}

/// Returns whether to pack so many weights for one run of so many rows, steps by sequences, rather than to
/// [read](Layer::input_of_run) them in it: packing takes as long as 4 rows of a few thousand weights, and as 50 of
/// a million, which no near cache holds.
#[must_use]
pub fn is_worth_packing(weights: usize, rows: usize) -> bool {
    rows > (weights / 4096).clamp(4, 48)
}

impl Layer {
    /// Packs all weights.
    ///
    /// # Errors
    /// If the layer has no directions, or others than it says, a slice has another size, or memory is
    /// lacking.
    pub fn pack<T: Element>(&self, weights: &Weights<'_, T>) -> Result<PackedLayer<T>, Error> {
        let (w, r) = (self.pack_input(weights.w)?, self.pack_state(weights.r)?);
        self.packed(&w, &r, weights.b, weights.p)
    }

    /// Packs the weights W of the input: [directions, gates * units, features].
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_input<T: Element>(&self, w: &[T]) -> Result<PackedInput<T>, Error> {
        let of = self.shape_of_w();
        self.check_weights("W", w.len(), &of)?;
        self.input_of(|direction, gates| {
            let w = part(w, direction, of[0]);
            Panels::pack(w, gates, self.units, self.features).map(Matrix::Floats)
        })
    }

    /// Packs the weights R of the state: [directions, gates * units, units].
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_state<T: Element>(&self, r: &[T]) -> Result<PackedState<T>, Error> {
        let of = self.shape_of_r();
        self.check_weights("R", r.len(), &of)?;
        self.state_of(|direction, gates| {
            let r = part(r, direction, of[0]);
            Panels::pack(r, gates, self.units, self.units).map(Matrix::Floats)
        })
    }

    /// Returns what stands for weights W that each run [reads](crate::Inputs::w), as ONNX lays them. For few rows, steps
    /// by sequences, that costs less than to pack them.
    ///
    /// # Errors
    /// If the layer has no directions, or others than it says.
    pub fn input_of_run<T>(&self) -> Result<PackedInput<T>, Error> {
        self.check()?;
        self.input_of(|direction, gates| Ok(Matrix::OfRun { direction, gates }))
    }

    /// Returns what stands for weights R that each run [reads](crate::Inputs::r), as ONNX lays them.
    ///
    /// # Errors
    /// As [`input_of_run`](Self::input_of_run).
    pub fn state_of_run<T>(&self) -> Result<PackedState<T>, Error> {
        self.check()?;
        self.state_of(|direction, gates| Ok(Matrix::OfRun { direction, gates }))
    }

    /// Packs the weights W of a layer that [quantizes](Self::quantizes) its input.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_quantized_input<T: Element>(
        &self,
        w: &Quantized<'_>,
    ) -> Result<PackedInput<T>, Error> {
        self.check()?;
        w.check("W", self.shape_of_w())?;
        self.input_of(|direction, gates| self.bytes(w, direction, gates, self.features))
    }

    /// Packs the weights R of a layer that [quantizes](Self::quantizes) its state.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_quantized_state<T: Element>(
        &self,
        r: &Quantized<'_>,
    ) -> Result<PackedState<T>, Error> {
        self.check()?;
        r.check("R", self.shape_of_r())?;
        self.state_of(|direction, gates| self.bytes(r, direction, gates, self.units))
    }

    fn bytes<T>(
        &self,
        weights: &Quantized<'_>,
        direction: usize,
        gates: &[usize],
        inputs: usize,
    ) -> Result<Matrix<T>, Error> {
        let sizes = [self.directions.len(), self.units, inputs, self.cell.gates()];
        BytePanels::pack(weights, direction, gates, sizes).map(Matrix::Bytes)
    }

    fn check_weights(&self, operand: &'static str, len: usize, of: &[usize]) -> Result<(), Error> {
        self.check()?;
        check(operand, len, of)
    }

    /// The weights of the input, of some gates of each direction.
    fn input_of<T>(
        &self,
        pack: impl Fn(usize, &'static [usize]) -> Result<Matrix<T>, Error>,
    ) -> Result<PackedInput<T>, Error> {
        let directions = 0..self.directions.len();
        let panels = directions.map(|direction| pack(direction, self.cell.of_slots()));
        Ok(PackedInput {
            panels: panels.collect::<Result<_, _>>()?,
            of: self.shape_of_w(),
            cell: self.cell,
        })
    }

    /// The weights of the state, of some gates of each direction.
    fn state_of<T>(
        &self,
        pack: impl Fn(usize, &'static [usize]) -> Result<Matrix<T>, Error>,
    ) -> Result<PackedState<T>, Error> {
        let panels = (0..self.directions.len()).map(|direction| {
            let late = self.cell.resets_before_product();
            let late = late.then(|| pack(direction, &[2]));
            let all = pack(direction, self.cell.recurrent().0);
            Ok((all?, late.transpose()?))
        });
        Ok(PackedState {
            panels: panels.collect::<Result<_, _>>()?,
            of: self.shape_of_r(),
            cell: self.cell,
        })
    }

    /// Returns the layer with weights that were packed for it, and its biases and peepholes, whose
    /// sizes [`Weights`] has.
    ///
    /// # Errors
    /// As [`pack`](Self::pack), and if weights were packed for another layer.
    pub fn packed<T: Element>(
        &self,
        w: &PackedInput<T>,
        r: &PackedState<T>,
        b: Option<&[T]>,
        p: Option<&[T]>,
    ) -> Result<PackedLayer<T>, Error> {
        self.check()?;
        let count = self.directions.len();
        for (operand, is_other) in [
            ("W", (w.of, w.cell) != (self.shape_of_w(), self.cell)),
            ("R", (r.of, r.cell) != (self.shape_of_r(), self.cell)),
        ] {
            if is_other {
                return Err(Error::OtherLayer { operand });
            }
        }
        if let Some(b) = b {
            check("B", b.len(), &[count, 2 * self.cell.gates() * self.units])?;
        }
        if let Some(p) = p {
            if !matches!(self.cell, Cell::Lstm { .. }) {
                let cell = self.cell.name();
                return Err(Error::Unexpected { operand: "P", cell });
            }
            check("P", p.len(), &[count, 3 * self.units])?;
        }
        let quantizing = match self.quantizes {
            true => Some(T::QUANTIZING.ok_or(Error::QuantizedType)?),
            false => None,
        };
        let is_other = |matrix: &Matrix<T>| matches!(matrix, Matrix::Bytes(_)) != self.quantizes;
        for (operand, is_other) in [
            ("W", w.panels.iter().any(is_other)),
            ("R", r.panels.iter().any(|(all, _)| is_other(all))),
        ] {
            if is_other {
                return Err(Error::OtherLayer { operand });
            }
        }
        let directions = self.directions.iter().enumerate();
        let directions = directions.map(|(index, direction)| {
            let (recurrent, late) = &r.panels[index];
            let peepholes = p.map(|p| part(p, index, count));
            let peepholes = peepholes.map(|it| memory::collect(it.len(), it.iter().copied()));
            Ok(Direction {
                is_backward: direction.is_backward,
                activations: direction.activations.clone(),
                input: w.panels[index].clone(),
                recurrent: recurrent.clone(),
                late: late.clone(),
                bias: bias(self.cell, self.units, b.map(|b| part(b, index, count)))?,
                peepholes: peepholes.transpose()?,
            })
        });
        Ok(PackedLayer {
            cell: self.cell,
            clip: self.clip,
            units: self.units,
            features: self.features,
            directions: directions.collect::<Result<_, _>>()?,
            quantizing,
        })
    }
}

/// The contents of a direction's slots before any product, from its biases, [2 * gates * units].
fn bias<T: Element>(cell: Cell, units: usize, biases: Option<&[T]>) -> Result<Vec<T>, Error> {
    let gates = cell.gates();
    let mut bias = memory::zeros(&[cell.slots(), units])?;
    let Some(all) = biases else {
        return Ok(bias);
    };
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
    Ok(bias)
}

impl<T> PackedInput<T> {
    /// The number of features of the input.
    #[must_use]
    pub fn features(&self) -> usize {
        self.of[2]
    }
}

impl<T> PackedState<T> {
    /// The number of units.
    #[must_use]
    pub fn units(&self) -> usize {
        self.of[2]
    }
}

impl<T> PackedLayer<T> {
    /// Whether each run reads W, and R.
    #[must_use]
    pub fn reads(&self) -> [bool; 2] {
        let of_run = |matrix: &Matrix<T>| matches!(matrix, Matrix::OfRun { .. });
        let any =
            |of: fn(&Direction<T>) -> &Matrix<T>| self.directions.iter().any(|it| of_run(of(it)));
        [any(|it| &it.input), any(|it| &it.recurrent)]
    }

    /// The cell.
    #[must_use]
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// The number of directions.
    #[must_use]
    pub fn directions(&self) -> usize {
        self.directions.len()
    }

    /// The number of features of the input.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// The number of units of a direction.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }
}
