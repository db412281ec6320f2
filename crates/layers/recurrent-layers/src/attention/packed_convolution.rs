//! `VarlenCausalConvWithState`: the convolution of sequences of any lengths beside each other.
//!
//! Channels are the last axis of the input and of the output, and the first one of a state.

use std::iter::zip;

use super::convolution::{Convolved, only, transposed};
use super::packing::Packing;
use super::states::Captured;
use super::{Inputs, Shapes, capacity, silu, taken};
use crate::attributes::Attributes;
use crate::error::Error;
use crate::memory::collect;
use crate::place::{Place, copy, fill};
use crate::threads::Threads;

const INPUT: usize = 0;
const WEIGHT: usize = 1;
const OFFSETS: usize = 2;
const BIAS: usize = 3;
const INITIAL_STATE: usize = 4;
const CAPTURE_COUNT: usize = 5;

pub(super) const INPUTS: [&str; 6] = [
    "input",
    "weight",
    "cumulative_sequence_length",
    "bias",
    "initial_state",
    "capture_count",
];

/// The attributes of weights that change with the token, which ONNX Runtime computes on CUDA.
const ONLY: [(&str, i64, &str); 2] = [("group_size", 1, "1"), ("delta_offset", 0, "0")];

/// ONNX Runtime's `VarlenCausalConvWithState`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedConvolution {
    /// Whether outputs go through SiLU.
    pub silu: bool,
    /// The steps from one element of the kernel to the next, at least 1.
    pub dilation: usize,
    /// `state_update_capacity`: how many of the first steps of a sequence are output for being done again.
    pub capacity: usize,
}

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    tokens: usize,
    sequences: usize,
    channels: usize,
    taps: usize,
    /// The elements of a channel that a state holds.
    state: usize,
    capacity: usize,
}

impl Sizes {
    pub(super) fn outputs(&self) -> Vec<Vec<usize>> {
        vec![
            vec![self.tokens, self.channels],
            vec![self.sequences, self.channels, self.state],
            vec![self.sequences, self.capacity, self.channels],
        ]
    }
}

impl PackedConvolution {
    pub(super) fn of(attributes: &dyn Attributes) -> Result<Self, Error> {
        only(attributes, &ONLY)?;
        Ok(Self {
            silu: silu(attributes)?,
            dilation: attributes.count("dilation")?.unwrap_or(1),
            capacity: capacity(attributes)?,
        })
    }

    pub(super) fn sizes(&self, sizes: &[Option<&[usize]>]) -> Result<Sizes, Error> {
        let shapes = Shapes {
            names: &INPUTS,
            sizes,
        };
        let [channels, one, taps] = shapes.axes(WEIGHT, "[channels, 1, taps]")?;
        if one != 1 || taps == 0 {
            return Err(shapes.wrong(WEIGHT, format!("[{channels}, 1, taps]")));
        }
        let [tokens, _] = shapes.axes(INPUT, "[tokens, channels]")?;
        shapes.check(INPUT, &[tokens, channels])?;
        shapes.check(BIAS, &[channels])?;
        let sequences = match shapes.required(OFFSETS)? {
            [offsets] if *offsets >= 2 => offsets - 1,
            _ => return Err(shapes.wrong(OFFSETS, "[sequences + 1]".to_owned())),
        };
        let state = (taps - 1)
            .checked_mul(self.dilation)
            .ok_or(Error::OutOfMemory { bytes: usize::MAX })?;
        shapes.required(INITIAL_STATE)?;
        shapes.check(INITIAL_STATE, &[sequences, channels, state])?;
        shapes.used(CAPTURE_COUNT, self.capacity > 0, "state_update_capacity")?;
        shapes.check(CAPTURE_COUNT, &[sequences])?;
        Ok(Sizes {
            tokens,
            sequences,
            channels,
            taps,
            state,
            capacity: self.capacity,
        })
    }

    pub(super) fn run<P: Place<f32>>(
        &self,
        sizes: &Sizes,
        inputs: Inputs<'_>,
        outputs: &mut [Option<&mut [P]>],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let Sizes {
            tokens,
            channels,
            taps,
            state,
            capacity,
            ..
        } = *sizes;
        let offsets = inputs.integers(OFFSETS).unwrap_or_default();
        let packing = Packing::of(INPUTS[OFFSETS], offsets, tokens)?;
        let (input, initial) = (inputs.floats(INPUT), inputs.floats(INITIAL_STATE));
        let of_sequence = |sequence: usize| {
            let tokens = packing.tokens(sequence);
            &input[tokens.start * channels..tokens.end * channels]
        };
        let [output, last, captured] = taken(outputs);
        if let Some(last) = last.filter(|it| !it.is_empty()) {
            let states = zip(last.chunks_mut(state), initial.chunks(state));
            for (index, (to, from)) in states.enumerate() {
                let (sequence, channel) = (index / channels, index % channels);
                let steps = packing.tokens(sequence).len();
                let (kept, new) = to.split_at_mut(state.saturating_sub(steps));
                copy(kept, &from[state - kept.len()..]);
                let tokens = of_sequence(sequence)
                    .chunks(channels)
                    .skip(steps - new.len());
                zip(new, tokens).for_each(|(to, token)| to.set(token[channel]));
            }
        }
        if let Some(captured) = captured.filter(|it| !it.is_empty()) {
            let counts = inputs.integers(CAPTURE_COUNT);
            let counted = Captured { capacity, counts };
            for (sequence, to) in captured.chunks_mut(capacity * channels).enumerate() {
                let input = of_sequence(sequence);
                let count = counted.of(sequence, packing.tokens(sequence).len());
                let (first, others) = to.split_at_mut(count * channels);
                copy(first, &input[..first.len()]);
                fill(others, 0.0);
            }
        }
        let Some(output) = output else { return Ok(()) };
        // Channels last, as the tokens have them.
        let mut past = collect(initial.len(), std::iter::empty())?;
        for initial in initial.chunks((channels * state).max(1)) {
            past.extend(transposed(initial, [channels, state])?);
        }
        Convolved {
            packing,
            channels,
            channels_last: true,
            silu: self.silu,
            taps,
            dilation: self.dilation,
            input,
            weight: inputs.floats(WEIGHT),
            bias: inputs.optional(BIAS),
            past: Some(&past),
        }
        .run(output, threads)
    }
}
