//! A run of a layer: its operands are checked, and split for the threads.

use crate::cell::Cell;
use crate::element::Element;
use crate::error::{Error, check};
use crate::layer::ValidSteps;
use crate::memory;
use crate::packed::PackedLayer;
use crate::place::Place;
use crate::product::Rows;
use crate::sequences::Sequences;
use crate::team::{self, Memory, Part, States};
use crate::threads::Threads;

/// The most steps of an X without features, which takes no memory: nothing else bounds them.
const MAXIMUM_EMPTY_STEPS: usize = 1 << 24;

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
    /// The weights W, [directions, gates * units, features], if they are [of a run](crate::Layer::input_of_run).
    pub w: Option<&'a [T]>,
    /// The weights R, [directions, gates * units, units], if they are [of a run](crate::Layer::state_of_run).
    pub r: Option<&'a [T]>,
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
            w: None,
            r: None,
            initial_h: None,
            initial_c: None,
        }
    }
}

/// What a run writes, in the shapes of its [`Layout`]: numbers, or [places](Place) for them. A run that
/// does not fail writes all.
#[derive(Debug)]
pub struct Outputs<'a, P> {
    /// The output of each step, Y.
    pub y: Option<&'a mut [P]>,
    /// The state h after the last step, `Y_h`.
    pub last_h: Option<&'a mut [P]>,
    /// The state c of an LSTM after the last step, `Y_c`.
    pub last_c: Option<&'a mut [P]>,
}

// Derived, it would ask for `P: Default`.
impl<P> Default for Outputs<'_, P> {
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
    /// state c is given that the cell does not have, an X without features has more than 2^24 steps,
    /// memory is lacking, or [`Threads::stop`] ends the run.
    ///
    /// # Panics
    /// If a thread panics.
    pub fn run<P: Place<T>>(
        &self,
        inputs: &Inputs<'_, T>,
        outputs: Outputs<'_, P>,
        memory: &mut Memory<T>,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        self.check(inputs, &outputs)?;
        let Inputs { steps, batch, .. } = *inputs;
        let wanted = [&outputs.y, &outputs.last_h, &outputs.last_c];
        if batch == 0 || self.units == 0 || wanted.iter().all(|it| it.is_none()) {
            return Ok(());
        }
        if self.features == 0 && steps > MAXIMUM_EMPTY_STEPS {
            let most = MAXIMUM_EMPTY_STEPS;
            return Err(Error::Steps { steps, most });
        }
        memory.make_room(batch, self.units)?;
        let strides = match inputs.layout {
            Layout::TimeFirst => [batch * self.features, self.features],
            Layout::BatchFirst => [self.features, steps * self.features],
        };
        let sequences = Sequences {
            x: inputs.x,
            of_x: self.quantizing.map(|it| it.of([inputs.x].into_iter())),
            strides,
            steps,
            all: batch,
            first: 0,
            batch,
            valid: inputs.valid,
            weights: [inputs.w, inputs.r].map(Option::unwrap_or_default),
        };
        let available = team::worthwhile(self, [steps, batch], threads);
        let mut parts = team::parts(self, sequences, available);
        let Outputs { y, last_h, last_c } = outputs;
        self.split(inputs, y, steps, &mut parts, |it| &mut it.y)?;
        self.split(inputs, last_h, 1, &mut parts, |it| &mut it.last[0])?;
        self.split(inputs, last_c, 1, &mut parts, |it| &mut it.last[1])?;
        for part in &mut parts {
            let initial = [inputs.initial_h, inputs.initial_c];
            part.states.initial = initial.map(|it| Some(self.rows(inputs, part, it?)));
        }
        team::run(self, parts, memory, available, threads)
    }

    /// Checks all sizes.
    fn check<P>(&self, inputs: &Inputs<'_, T>, outputs: &Outputs<'_, P>) -> Result<(), Error> {
        let Inputs { steps, batch, .. } = *inputs;
        let (directions, units) = (self.directions.len(), self.units);
        check("X", inputs.x.len(), &[steps, batch, self.features])?;
        let [reads_w, reads_r] = self.reads();
        for (operand, reads, given, inputs) in [
            ("W", reads_w, inputs.w, self.features),
            ("R", reads_r, inputs.r, units),
        ] {
            if reads {
                let given = given.ok_or(Error::Missing { operand })?;
                check(
                    operand,
                    given.len(),
                    &[directions, self.cell.gates() * units, inputs],
                )?;
            }
        }
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
    fn split<'a, P>(
        &self,
        inputs: &Inputs<'_, T>,
        output: Option<&'a mut [P]>,
        steps: usize,
        parts: &mut [Part<'a, T, P>],
        slices: impl for<'b> Fn(&'b mut States<'a, T, P>) -> &'b mut Vec<&'a mut [P]>,
    ) -> Result<(), Error> {
        let Some(mut rest) = output else {
            return Ok(());
        };
        for part in &mut *parts {
            let of_step = match inputs.layout {
                Layout::TimeFirst => 1,
                Layout::BatchFirst => part.sequences.batch,
            };
            memory::clear(slices(&mut part.states), &[steps, of_step])?;
        }
        let mut next = |rows: usize| {
            let (next, others) = std::mem::take(&mut rest).split_at_mut(rows * self.units);
            rest = others;
            next
        };
        match inputs.layout {
            // Parts are in the order of directions and sequences.
            Layout::TimeFirst => {
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
        Ok(())
    }

    /// The rows of states that a part begins with.
    fn rows<'a, P>(
        &self,
        inputs: &Inputs<'_, T>,
        part: &Part<'_, T, P>,
        states: &'a [T],
    ) -> Rows<'a, T> {
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
