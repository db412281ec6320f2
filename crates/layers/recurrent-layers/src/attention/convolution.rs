//! `CausalConvWithState`: a convolution of each channel with the elements before, of which the last are kept.
//!
//! ```text
//! y[t] = activation(bias + Σ weight[j] x[t - (taps - 1 - j) * dilation]),  x[-1] is the last of the state
//! ```

use rten_simd::{Isa, SimdOp, SimdUnaryOp};
use rten_vecmath::Silu;

use super::packing::Packing;
use super::{Inputs, Shapes, share, silu, taken, window};
use crate::attributes::{Attributes, wrong};
use crate::error::Error;
use crate::memory::{clear_to_zeros, collect};
use crate::place::{Place, copy, fill};
use crate::threads::Threads;

const INPUT: usize = 0;
const WEIGHT: usize = 1;
const BIAS: usize = 2;
const PAST_STATE: usize = 3;

pub(super) const INPUTS: [&str; 4] = ["input", "weight", "bias", "past_state"];

/// ONNX's `CausalConvWithState`, and ONNX Runtime's of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausalConvolution {
    /// Whether outputs go through SiLU.
    pub silu: bool,
    /// Whether channels are the last axes, of the input, the states and the output.
    pub channels_last: bool,
    /// The steps from one element of the kernel to the next, at least 1.
    pub dilation: usize,
    /// `state_window`: how many states past and present ones hold, on an axis of their own in front; 0 for one
    /// without this axis.
    pub window: usize,
}

/// The sizes of a run.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    batch: usize,
    channels: usize,
    steps: usize,
    taps: usize,
    /// The elements of a channel that a state holds.
    state: usize,
    window: usize,
    outputs: [Vec<usize>; 2],
}

impl Sizes {
    pub(super) fn outputs(&self) -> &[Vec<usize>; 2] {
        &self.outputs
    }
}

/// The attributes of which one value is computed, and that value: all but the first are of ONNX Runtime 1.32 for
/// CUDA.
const ONLY: [(&str, i64, &str); 6] = [
    ("ndim", 1, "1"),
    ("input_channel_offset", 0, "0"),
    ("input_channels", 0, "0"),
    ("state_channels_last", -1, "-1"),
    ("state_length", 0, "0"),
    ("state_update_capacity", 0, "0"),
];

impl CausalConvolution {
    pub(super) fn of(attributes: &dyn Attributes) -> Result<Self, Error> {
        let silu = silu(attributes)?;
        only(attributes, &ONLY)?;
        Ok(Self {
            silu,
            channels_last: attributes.is_set("channels_last")?,
            dilation: attributes.count("dilation")?.unwrap_or(1),
            window: window(attributes)?,
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
        shapes.check(BIAS, &[channels])?;
        let input = shapes.required(INPUT)?;
        let state = (taps - 1)
            .checked_mul(self.dilation)
            .ok_or(Error::OutOfMemory { bytes: usize::MAX })?;
        // The sizes of a state, and those of the input but for channels.
        let (batch, steps, of_state) = match (self.channels_last, input) {
            (false, &[batch, of_input, steps]) if of_input == channels => {
                (batch, steps, vec![batch, channels, state])
            }
            (true, &[batch, steps, ref of_input @ ..])
                if !of_input.is_empty() && of_input.iter().product::<usize>() == channels =>
            {
                (batch, steps, [&[batch, state], of_input].concat())
            }
            (true, _) => {
                let expected = format!("[batch, steps, {channels}]");
                return Err(shapes.wrong(INPUT, expected));
            }
            (false, _) => {
                let expected = format!("[batch, {channels}, steps]");
                return Err(shapes.wrong(INPUT, expected));
            }
        };
        let window = (self.window > 0).then_some(self.window);
        let present: Vec<usize> = window.into_iter().chain(of_state).collect();
        shapes.check(PAST_STATE, &present)?;
        Ok(Sizes {
            batch,
            channels,
            steps,
            taps,
            state,
            window: self.window,
            outputs: [input.to_vec(), present],
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
            batch,
            channels,
            steps,
            state,
            ..
        } = *sizes;
        // A row is what a convolution goes along: a channel, or all of them at once.
        let (rows, unit) = match self.channels_last {
            false => (batch * channels, 1),
            true => (batch, channels),
        };
        let (of_row, of_state) = (steps * unit, state * unit);
        let input = inputs.floats(INPUT);
        let before = sizes.window.saturating_sub(1) * rows * of_state;
        let past = inputs.optional(PAST_STATE).map(|past| &past[before..]);
        let [output, present, _] = taken(outputs);
        if let Some(present) = present.filter(|it| !it.is_empty()) {
            let slots = sizes.window.max(1);
            for (slot, to) in present.chunks_mut(rows * of_state).enumerate() {
                // The number of steps that its states are behind; it is 0 without steps alone.
                match (steps + 1 + slot).checked_sub(slots) {
                    Some(after) if after > 0 || steps == 0 => {
                        let after = after * unit;
                        // All rows but their ends at once, as most states are a few elements.
                        let moved = after.min(of_state);
                        let (kept, _) = to.split_at_mut(to.len() - moved);
                        match past {
                            Some(past) => copy(kept, &past[moved..][..kept.len()]),
                            None => fill(kept, 0.0),
                        }
                        for (index, to) in to.chunks_exact_mut(of_state).enumerate() {
                            let input = &input[index * of_row..][after - moved..after];
                            copy(&mut to[of_state - moved..], input);
                        }
                    }
                    _ => fill(to, 0.0),
                }
            }
        }
        let convolved = Convolved {
            packing: Packing::Even { batch, steps },
            channels,
            channels_last: self.channels_last,
            silu: self.silu,
            taps: sizes.taps,
            dilation: self.dilation,
            input,
            weight: inputs.floats(WEIGHT),
            bias: inputs.optional(BIAS),
            past,
        };
        output.map_or(Ok(()), |output| convolved.run(output, threads))
    }
}

/// Checks attributes of which one value is computed alone.
pub(super) fn only(
    attributes: &dyn Attributes,
    values: &[(&'static str, i64, &'static str)],
) -> Result<(), Error> {
    for (name, only, expected) in values {
        if let Some(other) = attributes.integer(name)?.filter(|it| it != only) {
            return wrong(name, other, expected);
        }
    }
    Ok(())
}

/// The operands of a convolution.
pub(super) struct Convolved<'a> {
    /// Of as many steps each, unless channels are last.
    pub(super) packing: Packing<'a>,
    pub(super) channels: usize,
    pub(super) channels_last: bool,
    pub(super) silu: bool,
    pub(super) taps: usize,
    pub(super) dilation: usize,
    pub(super) input: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    /// The elements before those of each sequence, of which channels are where those of the input are.
    pub(super) past: Option<&'a [f32]>,
}

impl Convolved<'_> {
    pub(super) fn run<P: Place<f32>>(
        &self,
        output: &mut [P],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let Self {
            packing,
            channels,
            channels_last,
            taps,
            dilation,
            input,
            past,
            ..
        } = *self;
        if output.is_empty() {
            return Ok(());
        }
        let state = (taps - 1) * dilation;
        let weights = match channels_last {
            false => None,
            true => Some(transposed(self.weight, [channels, taps])?),
        };
        let kernel = Kernel {
            taps,
            dilation,
            weights: weights.as_deref().unwrap_or(self.weight),
            bias: self.bias,
        };
        // Tasks are some channels of a sequence, or some of its steps.
        let at_once = |steps: usize| match channels_last {
            false => (ELEMENTS / steps).clamp(1, channels) * steps,
            true => (ELEMENTS / channels).clamp(1, steps) * channels,
        };
        let filled = |sequence: &usize| !packing.tokens(*sequence).is_empty();
        let filled = || (0..packing.sequences()).filter(filled);
        let parts = |sequence| {
            let steps = packing.tokens(sequence).len();
            (steps * channels).div_ceil(at_once(steps))
        };
        let mut tasks = collect(filled().map(parts).sum(), std::iter::empty())?;
        let mut output = output;
        for sequence in filled() {
            let steps = packing.tokens(sequence).len();
            let of_sequence = output.split_off_mut(..steps * channels).unwrap_or_default();
            let parts = of_sequence.chunks_mut(at_once(steps)).enumerate();
            tasks.extend(parts.map(|(part, made)| (sequence, part * at_once(steps), made)));
        }
        let work = input.len().saturating_mul(taps);
        share(
            tasks,
            work,
            threads,
            |(sequence, first, output), (made, padded): &mut (Vec<f32>, Vec<f32>)| {
                clear_to_zeros(made, &[output.len()])?;
                let tokens = packing.tokens(sequence);
                let steps = tokens.len();
                let input = &input[tokens.start * channels..][..steps * channels];
                let of_state = state * channels;
                let past = past.map(|past| &past[sequence * of_state..][..of_state]);
                match channels_last {
                    false => {
                        clear_to_zeros(padded, &[state + steps])?;
                        let first = first / steps;
                        Channels {
                            kernel: &kernel,
                            first,
                            steps,
                            past: past.map(|past| &past[first * state..]),
                            input: &input[first * steps..],
                            padded,
                            made,
                        }
                        .dispatch();
                    }
                    true => kernel.tokens(Row { past, input }, first / channels, made),
                }
                if self.silu {
                    Silu {}.map_mut(made);
                }
                copy(output, made);
                Ok(())
            },
        )
    }
}

/// The elements of an output that are made at once.
const ELEMENTS: usize = 1 << 13;

/// The elements that a convolution goes along, and those before.
#[derive(Clone, Copy)]
struct Row<'a> {
    past: Option<&'a [f32]>,
    input: &'a [f32],
}

/// The kernel of each channel.
struct Kernel<'a> {
    taps: usize,
    dilation: usize,
    /// `[channels, taps]`, or `[taps, channels]`.
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl Kernel<'_> {
    /// Convolves an element of each of some channels, with all that is before in the row.
    #[inline(always)]
    fn step(&self, channel: usize, row: Row<'_>, made: &mut [f32]) {
        let weights = self.weights[channel * self.taps..].chunks_exact(self.taps);
        let state = (self.taps - 1) * self.dilation;
        let mut past = row.past.map(|past| past.chunks_exact(state.max(1)));
        let inputs = std::iter::zip(row.input, weights);
        for (index, (made, (input, weights))) in std::iter::zip(made, inputs).enumerate() {
            let bias = self.bias.map_or(0.0, |bias| bias[channel + index]);
            *made = bias + weights[self.taps - 1] * input;
            let past = past.as_mut().and_then(Iterator::next).unwrap_or_default();
            for (tap, weight) in weights[..self.taps - 1].iter().enumerate() {
                *made += weight * past.get(tap * self.dilation).unwrap_or(&0.0);
            }
        }
    }

    /// Convolves a channel, whose elements and those before are padded to one slice.
    #[inline(always)]
    fn channel(&self, channel: usize, row: Row<'_>, padded: &mut [f32], made: &mut [f32]) {
        let weights = &self.weights[channel * self.taps..][..self.taps];
        let bias = self.bias.map_or(0.0, |bias| bias[channel]);
        let (past, input) = padded.split_at_mut(padded.len() - made.len());
        match row.past {
            Some(of_row) => copy(past, of_row),
            None => fill(past, 0.0),
        }
        copy(input, row.input);
        made.fill(bias);
        for (tap, weight) in weights.iter().enumerate() {
            let from = &padded[tap * self.dilation..][..made.len()];
            for (made, from) in std::iter::zip(&mut *made, from) {
                *made += weight * from;
            }
        }
    }

    /// Convolves all channels, for the steps from one on.
    fn tokens(&self, row: Row<'_>, first: usize, made: &mut [f32]) {
        let channels = self.weights.len() / self.taps;
        let state = (self.taps - 1) * self.dilation;
        for (index, made) in made.chunks_mut(channels).enumerate() {
            match self.bias {
                Some(bias) => made.copy_from_slice(bias),
                None => made.fill(0.0),
            }
            let weights = self.weights.chunks(channels).enumerate();
            let terms = weights.filter_map(|(tap, weights)| {
                let at = first + index + tap * self.dilation;
                let from = match at.checked_sub(state) {
                    Some(step) => &row.input[step * channels..],
                    None => &row.past?[at * channels..],
                };
                Some((&from[..channels], weights))
            });
            Products { to: made, terms }.dispatch();
        }
    }
}

/// Convolves some channels, whose rows are beside each other.
struct Channels<'a> {
    kernel: &'a Kernel<'a>,
    first: usize,
    steps: usize,
    past: Option<&'a [f32]>,
    input: &'a [f32],
    padded: &'a mut [f32],
    made: &'a mut [f32],
}

impl SimdOp for Channels<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        let Self {
            kernel,
            first,
            steps,
            past,
            input,
            padded,
            made,
        } = self;
        if steps == 1 {
            return kernel.step(first, Row { past, input }, made);
        }
        let state = padded.len() - steps;
        let rows = std::iter::zip(input.chunks(steps), made.chunks_mut(steps));
        for (index, (input, made)) in rows.enumerate() {
            let past = past.map(|past| &past[index * state..][..state]);
            kernel.channel(first + index, Row { past, input }, padded, made);
        }
    }
}

/// Adds the products of two slices each.
struct Products<'a, T> {
    to: &'a mut [f32],
    terms: T,
}

impl<'b, T: Iterator<Item = (&'b [f32], &'b [f32])>> SimdOp for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        for (from, weights) in self.terms {
            for (to, (from, weight)) in std::iter::zip(&mut *self.to, std::iter::zip(from, weights))
            {
                *to += from * weight;
            }
        }
    }
}

/// A matrix of so many rows and columns with its axes swapped.
pub(super) fn transposed(from: &[f32], [rows, columns]: [usize; 2]) -> Result<Vec<f32>, Error> {
    let count = rows * columns;
    collect(
        count,
        (0..count).map(|at| from[at % rows * columns + at / rows]),
    )
}
