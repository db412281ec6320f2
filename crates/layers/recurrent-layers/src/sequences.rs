//! The sequences of a run: their inputs, and which of their steps are valid.

use crate::element::Element;
use crate::layer::ValidSteps;
use crate::place::{self, Place};
use crate::product::Rows;
use crate::quantized::Quantization;

/// The operands of all steps, for some sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences<'a, T> {
    /// The inputs of all sequences: the features of a step lie together.
    pub(crate) x: &'a [T],
    /// The quantisation of all of `x`, if that is quantised.
    pub(crate) of_x: Option<Quantization>,
    /// The elements of `x` from one step to the next, and from one sequence to the next.
    pub(crate) strides: [usize; 2],
    pub(crate) steps: usize,
    pub(crate) all: usize,
    pub(crate) first: usize,
    /// The number of sequences from the first on.
    pub(crate) batch: usize,
    pub(crate) valid: ValidSteps<'a>,
    /// W and R of all directions, if they are those of a run.
    pub(crate) weights: [&'a [T]; 2],
}

impl<T: Element> Sequences<'_, T> {
    fn is_valid(&self, step: usize, item: usize) -> bool {
        match self.valid {
            ValidSteps::All => true,
            ValidSteps::Lengths(lengths) => step < lengths[self.first + item],
            ValidSteps::Mask { mask, .. } => mask[step * self.all + self.first + item],
        }
    }

    /// Whether the states of a sequence are those after its steps. Without any, ONNX Runtime outputs
    /// zeros.
    pub(crate) fn has_steps(&self, item: usize) -> bool {
        match self.valid {
            ValidSteps::Lengths(lengths) => lengths[self.first + item] > 0,
            ValidSteps::All | ValidSteps::Mask { .. } => true,
        }
    }

    /// Change of the state of a sequence in a step.
    #[inline(always)]
    pub(crate) fn change(&self, step: usize, item: usize) -> Change {
        let is_valid = self.is_valid(step, item);
        match self.valid {
            ValidSteps::Mask { blends: true, .. } => Change::Blended(is_valid),
            _ if is_valid => Change::New,
            _ => Change::None,
        }
    }

    /// Writes the outputs of a step from the state after it. The slices hold the rows of units of
    /// one sequence after another, for each step or for each sequence and step.
    pub(crate) fn write<P: Place<T>>(
        &self,
        step: usize,
        state: Rows<'_, T>,
        units: usize,
        y: &mut [&mut [P]],
    ) {
        let slices = y.iter_mut().skip(step).step_by(self.steps);
        let rows = slices.flat_map(|rows| rows.chunks_exact_mut(units));
        for (item, to) in rows.enumerate() {
            let state = &state.elements[item * state.stride..][..units];
            match self.valid {
                ValidSteps::Mask { repeats: true, .. } => place::copy(to, state),
                _ if self.is_valid(step, item) => place::copy(to, state),
                // Keras multiplies outputs with the mask, so infinity becomes NaN.
                ValidSteps::Mask { blends: true, .. } => {
                    for (to, state) in std::iter::zip(to, state) {
                        to.set(T::zero() * *state);
                    }
                }
                _ => place::fill(to, T::zero()),
            }
        }
    }

    /// Whether the features of so many steps lie together.
    pub(crate) fn are_dense(&self, steps: usize, features: usize) -> bool {
        let [of_step, of_item] = self.strides;
        let batch = self.batch;
        (batch == 1 || of_item == features) && (steps == 1 || of_step == batch * features)
    }
}

/// Change of a state in a step.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    None,
    New,
    /// Sum of both states' products with 0 and 1, the new one's with 1 if true.
    Blended(bool),
}
