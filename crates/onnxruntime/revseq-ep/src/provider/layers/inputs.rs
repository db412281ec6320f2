//! The inputs of a layer's node, by their places.

use std::borrow::Cow;

use super::super::error::Error;
use super::operands::{OwnedBytes, Plain, bytes, check, elements, owned, truths, words};
use crate::plugin::error::Error as HostError;
use crate::plugin::tensor::{Tensor, collect};

// The places of the inputs; GRU and RNN end with the state h.
pub(super) const X: usize = 0;
pub(super) const W: usize = 1;
pub(super) const R: usize = 2;
pub(super) const B: usize = 3;
pub(super) const LENGTHS: usize = 4;
pub(super) const INITIAL_H: usize = 5;
pub(super) const INITIAL_C: usize = 6;
pub(super) const P: usize = 7;
/// The scales and the zero points of W, and those of R.
pub(super) const SCALES: [[usize; 2]; 2] = [[8, 9], [10, 11]];

pub(super) const NAMES: [&str; 12] = [
    "X",
    "W",
    "R",
    "B",
    "sequence_lens",
    "initial_h",
    "initial_c",
    "P",
    "W_scale",
    "W_zero_point",
    "R_scale",
    "R_zero_point",
];
/// The scales of quantised weights, and their zero points.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) scales: Vec<f32>,
    pub(super) zero_points: OwnedBytes,
}

/// The sizes of a run.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
}

/// Inputs that are at hand, by their places.
pub(super) type Tensors<'a> = [Option<Tensor<'a>>; NAMES.len()];

impl Scales {
    /// Scales and zero points, if both are at hand.
    pub(super) fn of(
        tensors: &Tensors<'_>,
        [scales, zero_points]: [usize; 2],
    ) -> Result<Option<Self>, Error> {
        let (Some(scale), Some(zero_point)) = (tensors[scales], tensors[zero_points]) else {
            return Ok(None);
        };
        Ok(Some(Self {
            scales: owned(elements(NAMES[scales], scale)?)?,
            zero_points: OwnedBytes::of(bytes(NAMES[zero_points], zero_point)?)?,
        }))
    }
}

/// The inputs of a run that are there and not packed.
pub(super) struct Given<'a> {
    pub(super) tensors: Tensors<'a>,
}

impl<'a> Given<'a> {
    /// An input that has to be there.
    pub(super) fn input(&self, input: usize) -> Result<Tensor<'a>, Error> {
        let missing = HostError::argument("Compute", "a required input is missing");
        Ok(self.tensors[input].ok_or(missing)?)
    }

    pub(super) fn numbers<T: Plain>(&self, input: usize) -> Result<Option<Cow<'a, [T]>>, Error> {
        self.tensors[input]
            .map(|tensor| elements(NAMES[input], tensor))
            .transpose()
    }

    /// The lengths, each 0 to the number of steps.
    pub(super) fn lengths(&self, sizes: Sizes) -> Result<Option<Vec<usize>>, Error> {
        let Some(tensor) = self.tensors[LENGTHS] else {
            return Ok(None);
        };
        let name = NAMES[LENGTHS];
        check(name, tensor, &[sizes.batch], || sizes.batch.to_string())?;
        let read = elements::<i32>(name, tensor)?;
        let lengths = read.iter().map_while(|&length| {
            let length = usize::try_from(length).ok();
            length.filter(|length| *length <= sizes.steps)
        });
        let lengths = collect(sizes.batch, lengths)?;
        match lengths.len() == sizes.batch {
            true => Ok(Some(lengths)),
            false => Err(Error::LayerLengths { steps: sizes.steps }),
        }
    }

    /// The mask of valid steps.
    pub(super) fn mask(&self, sizes: Sizes) -> Result<Option<Vec<bool>>, Error> {
        let Some(tensor) = self.tensors[LENGTHS] else {
            return Ok(None);
        };
        let expected = [sizes.steps, sizes.batch];
        check("mask", tensor, &expected, || words(&expected))?;
        truths("mask", tensor).map(Some)
    }
}
