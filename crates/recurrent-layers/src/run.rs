//! A run of a layer: its operands are checked, and split for the threads.

use crate::cell::Cell;
use crate::element::Element;
use crate::error::{Error, check};
use crate::layer::ValidSteps;
use crate::packed::PackedLayer;
use crate::product::Rows;
use crate::step::Sequences;
use crate::team::{self, Memory, Part, States};
use crate::threads::Threads;

/// The order of the axes of inputs and outputs: ONNX's attribute `layout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// X is [steps, batch, features], Y [steps, directions, batch, units], and states are
    /// [directions, batch, units]: `layout = 0`.
    #[default]
    TimeFirst,
    /// X is [batch, steps, features], Y [batch, steps, directions, units], and states are [batch,
    /// directions, units]: `layout = 1`.
    BatchFirst,
}

/// What a run reads, in the shapes of its [`Layout`].
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    /// The input X.
    pub x: &'a [T],
    /// The number of steps. There may be none: the last states are then the initial ones.
    pub steps: usize,
    /// The number of sequences. There may be none.
    pub batch: usize,
    /// The order of the axes.
    pub layout: Layout,
    /// The valid steps.
    pub valid: ValidSteps<'a>,
    /// The state h before the first step; 0 if it is not given.
    pub initial_h: Option<&'a [T]>,
    /// The state c of an LSTM before the first step; 0 if it is not given.
    pub initial_c: Option<&'a [T]>,
}

impl<'a, T> Inputs<'a, T> {
    /// All steps of some sequences, time first, from states of 0.
    #[must_use]
    pub fn new(x: &'a [T], steps: usize, batch: usize) -> Self {
        Self {
            x,
            steps,
            batch,
            layout: Layout::TimeFirst,
            valid: ValidSteps::All,
            initial_h: None,
            initial_c: None,
        }
    }
}

/// What a run writes, in the shapes of its [`Layout`]. Every element is written.
#[derive(Debug)]
pub struct Outputs<'a, T> {
    /// The output of each step, Y.
    pub y: Option<&'a mut [T]>,
    /// The state h after the last step, `Y_h`.
    pub last_h: Option<&'a mut [T]>,
    /// The state c of an LSTM after the last step, `Y_c`.
    pub last_c: Option<&'a mut [T]>,
}

// Derived, it would ask for `T: Default`.
impl<T> Default for Outputs<'_, T> {
    fn default() -> Self {
        Self {
            y: None,
            last_h: None,
            last_c: None,
        }
    }
}

impl<T: Element> PackedLayer<T> {
    /// Runs the layer.
    ///
    /// Runs of a layer may be in progress at the same time, each with its own memory, which a run of
    /// the same sizes uses again without allocating all anew. Nothing is written unless all checks
    /// pass.
    ///
    /// # Errors
    /// If an operand has another size than its shape, a sequence is longer than there are steps, a
    /// state c is given that the cell does not have, or [`Threads::stop`] ends the run.
    ///
    /// # Panics
    /// If a thread panics.
    pub fn run(
        &self,
        inputs: &Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        memory: &mut Memory<T>,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        self.check(inputs, &outputs)?;
        let Inputs { steps, batch, .. } = *inputs;
        let wanted = [&outputs.y, &outputs.last_h, &outputs.last_c];
        if batch == 0 || self.units == 0 || wanted.iter().all(|it| it.is_none()) {
            return Ok(());
        }
        let strides = match inputs.layout {
            Layout::TimeFirst => [batch * self.features, self.features],
            Layout::BatchFirst => [self.features, steps * self.features],
        };
        let mut rounded = std::mem::take(&mut memory.x);
        let x = match self.quantize {
            Some(round) => {
                rounded.clear();
                rounded.extend_from_slice(inputs.x);
                round(&mut rounded);
                &*rounded
            }
            None => inputs.x,
        };
        let sequences = Sequences {
            x,
            strides,
            steps,
            all: batch,
            first: 0,
            batch,
            valid: inputs.valid,
        };
        let available = team::worthwhile(self, [steps, batch], threads);
        let mut parts = team::parts(self, sequences, available);
        let Outputs { y, last_h, last_c } = outputs;
        self.split(inputs, y, steps, &mut parts, |it| &mut it.y);
        self.split(inputs, last_h, 1, &mut parts, |it| &mut it.last[0]);
        self.split(inputs, last_c, 1, &mut parts, |it| &mut it.last[1]);
        for part in &mut parts {
            let initial = [inputs.initial_h, inputs.initial_c];
            part.states.initial = initial.map(|it| Some(self.rows(inputs, part, it?)));
        }
        let result = team::run(self, parts, memory, available, threads);
        memory.x = rounded;
        result
    }

    /// Checks all sizes.
    fn check(&self, inputs: &Inputs<'_, T>, outputs: &Outputs<'_, T>) -> Result<(), Error> {
        let Inputs { steps, batch, .. } = *inputs;
        let (directions, units) = (self.directions.len(), self.units);
        check("X", inputs.x.len(), &[steps, batch, self.features])?;
        let state = [directions, batch, units];
        for (operand, len) in [
            ("initial_h", inputs.initial_h.map(<[T]>::len)),
            ("initial_c", inputs.initial_c.map(<[T]>::len)),
            ("Y_h", outputs.last_h.as_ref().map(|it| it.len())),
            ("Y_c", outputs.last_c.as_ref().map(|it| it.len())),
        ] {
            let Some(len) = len else { continue };
            if operand.ends_with('c') && !matches!(self.cell, Cell::Lstm { .. }) {
                let cell = self.cell.name();
                return Err(Error::Unexpected { operand, cell });
            }
            check(operand, len, &state)?;
        }
        if let Some(y) = &outputs.y {
            check("Y", y.len(), &[steps, directions, batch, units])?;
        }
        match inputs.valid {
            ValidSteps::All => Ok(()),
            ValidSteps::Mask { mask, .. } => check("mask", mask.len(), &[steps, batch]),
            ValidSteps::Lengths(lengths) => {
                check("sequence_lens", lengths.len(), &[batch])?;
                let wrong = lengths.iter().position(|length| *length > steps);
                wrong.map_or(Ok(()), |index| {
                    Err(Error::SequenceLength {
                        index,
                        length: lengths[index],
                        steps,
                    })
                })
            }
        }
    }

    /// Gives each part its slices of an output that has so many steps.
    fn split<'a>(
        &self,
        inputs: &Inputs<'_, T>,
        output: Option<&'a mut [T]>,
        steps: usize,
        parts: &mut [Part<'a, T>],
        slices: impl for<'b> Fn(&'b mut States<'a, T>) -> &'b mut Vec<&'a mut [T]>,
    ) {
        let Some(mut rest) = output else { return };
        let mut next = |rows: usize| {
            let (next, others) = std::mem::take(&mut rest).split_at_mut(rows * self.units);
            rest = others;
            next
        };
        match inputs.layout {
            // Parts are in the order of directions and sequences.
            Layout::TimeFirst => {
                for part in &mut *parts {
                    slices(&mut part.states).reserve_exact(steps);
                }
                for _ in 0..steps {
                    for part in &mut *parts {
                        let next = next(part.sequences.batch);
                        slices(&mut part.states).push(next);
                    }
                }
            }
            Layout::BatchFirst => {
                for item in 0..inputs.batch {
                    for _ in 0..steps {
                        let mut parts = parts.iter_mut().filter(|part| part.has(item));
                        for _ in 0..self.directions.len() {
                            let next = next(1);
                            if let Some(part) = parts.next() {
                                slices(&mut part.states).push(next);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The rows of states that a part begins with.
    fn rows<'a>(&self, inputs: &Inputs<'_, T>, part: &Part<'_, T>, states: &'a [T]) -> Rows<'a, T> {
        let (first, directions) = (part.sequences.first, self.directions.len());
        let (start, apart) = match inputs.layout {
            Layout::TimeFirst => (part.index * inputs.batch + first, 1),
            Layout::BatchFirst => (first * directions + part.index, directions),
        };
        Rows {
            elements: &states[start * self.units..],
            count: part.sequences.batch,
            stride: apart * self.units,
        }
    }
}
