//! A whole layer as one operator.
//!
//! It checks the sizes that are known only now, splits inputs and outputs into those of each
//! direction, and leaves the steps to `team.rs`. Lengths were checked by an operator before it
//! (`checked.rs`); a mask comes from a loop that was recognised as a layer.

use std::sync::Mutex;

use tract_onnx::tract_hir::internal::*;

use super::packed::{Counts, PackedLayer, Sequence};
use super::team::{self, Memory, States, Threads};

/// The optional inputs and outputs, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub(super) initial_h: bool,
    pub(super) initial_c: bool,
    pub(super) y: bool,
    pub(super) y_h: bool,
    pub(super) y_c: bool,
}

/// The valid steps; at others, states do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    All,
    /// Steps below an input's lengths, int64 of [batch], each 0 to the number of steps. Other
    /// outputs are zeros, and so are final states without steps.
    Lengths,
    /// Steps that are true in an input, [steps, batch].
    Masked {
        /// Whether states are sums of products with the mask, so that non-finite values spread.
        blends: bool,
        /// Whether outputs of other steps repeat the state; otherwise they are zeros.
        repeats: bool,
    },
}

/// LSTM, GRU or RNN with known weights.
///
/// The inputs are X, [steps, batch, features], then, if present, the lengths or mask, and the
/// initial states, [directions, batch, units]. The outputs are Y, [steps, directions, batch,
/// units], and the final states, as requested.
#[derive(Clone, Debug)]
pub(super) struct PackedRecurrent {
    pub(super) layer: Arc<PackedLayer>,
    pub(super) counted: Counted,
    pub(super) slots: Slots,
}

never_equal!(PackedRecurrent);

impl Op for PackedRecurrent {
    fn name(&self) -> StaticName {
        format!("Packed{}", self.layer.cell.name()).into()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for PackedRecurrent {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::<Kept>::default()))
    }
}

impl TypedOp for PackedRecurrent {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = &inputs[0].shape;
        let (steps, batch) = (shape[0].clone(), shape[1].clone());
        let directions = self.layer.directions.len().to_dim();
        let units = self.layer.units.to_dim();
        let state = [directions.clone(), batch.clone(), units.clone()];
        let y = [steps, directions, batch, units];
        let mut facts = tvec![];
        if self.slots.y {
            facts.push(f32::fact(y));
        }
        for _ in [self.slots.y_h, self.slots.y_c].iter().filter(|it| **it) {
            facts.push(f32::fact(state.clone()));
        }
        Ok(facts)
    }

    as_op!();
}

/// Memory that is kept from run to run.
#[derive(Debug, Default)]
struct Kept(Mutex<Memory>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl OpState for Kept {
    fn eval(
        &mut self,
        _ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<PackedRecurrent>().context("its own op")?;
        let memory = self
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        op.run(&inputs, memory)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}

/// The inputs of a run, which have the sizes that they should have.
struct Given<'a> {
    x: &'a TValue,
    /// Lengths or a mask.
    counted: Option<&'a TValue>,
    /// The states h and c before the first step.
    initial: [Option<&'a TValue>; 2],
}

impl Given<'_> {
    fn steps(&self) -> usize {
        self.x.shape()[0]
    }

    fn batch(&self) -> usize {
        self.x.shape()[1]
    }
}

impl PackedRecurrent {
    /// Runs the layer, and returns the outputs that are wanted.
    fn run(&self, inputs: &[TValue], memory: &mut Memory) -> TractResult<TVec<TValue>> {
        let (layer, slots) = (&*self.layer, self.slots);
        let given = self.given(inputs)?;
        let counted = given.counted.map(|it| it.try_as_plain_ram()).transpose()?;
        let mut lengths: Vec<usize> = vec![];
        let counts = match (self.counted, &counted) {
            (Counted::Lengths, Some(of)) => {
                let steps_of = |length: &i64| usize::try_from(*length).unwrap_or(0);
                lengths.extend(of.as_slice::<i64>()?.iter().map(steps_of));
                Counts::Lengths(&lengths)
            }
            (Counted::Masked { blends, repeats }, Some(mask)) => Counts::Masked {
                mask: mask.as_slice::<bool>()?,
                blends,
                repeats,
            },
            _ => Counts::All,
        };
        let sizes = [layer.directions.len(), given.batch(), layer.units];
        let steps = if slots.y { given.steps() } else { 0 };
        let mut y = Tensor::zero::<f32>(&[steps, sizes[0], sizes[1], sizes[2]])?;
        let count: usize = sizes.iter().product();
        let wanted = [slots.y_h, slots.y_c];
        let mut last = wanted.map(|is_wanted| vec![0.0_f32; if is_wanted { count } else { 0 }]);
        self.run_steps(&given, counts, &mut y, &mut last, memory)?;
        // Without steps, ONNX Runtime outputs zeros as final states. Chunks have elements: a packed
        // layer has units, and there is a length only if there is a batch.
        let (units, of_direction) = (layer.units, layer.units * given.batch());
        for (item, _) in lengths.iter().enumerate().filter(|it| *it.1 == 0) {
            let states = last.iter_mut();
            for state in states.flat_map(|it| it.chunks_exact_mut(of_direction)) {
                state[item * units..][..units].fill(0.0);
            }
        }
        let mut outputs = tvec![];
        if slots.y {
            outputs.push(y.into_tvalue());
        }
        for (last, is_wanted) in std::iter::zip(last, wanted) {
            if is_wanted {
                outputs.push(Tensor::from_shape(&sizes, &last)?.into_tvalue());
            }
        }
        Ok(outputs)
    }

    /// Reads the inputs, and checks the sizes that are known only now.
    fn given<'a>(&self, inputs: &'a [TValue]) -> TractResult<Given<'a>> {
        let (layer, slots) = (&*self.layer, self.slots);
        let mut inputs = inputs.iter();
        let mut input = |is_there: bool| if is_there { inputs.next() } else { None };
        let given = Given {
            x: input(true).context("a layer has an input")?,
            counted: input(self.counted != Counted::All),
            initial: [input(slots.initial_h), input(slots.initial_c)],
        };
        let (steps, batch) = (given.steps(), given.batch());
        ensure!(
            given.x.shape()[2] == layer.features,
            "its input has {} features, expected {}",
            given.x.shape()[2],
            layer.features
        );
        if let Some(counted) = given.counted {
            let (what, expected) = match self.counted {
                Counted::Masked { .. } => ("mask has", tvec![steps, batch]),
                _ => ("lengths have", tvec![batch]),
            };
            ensure!(
                counted.shape() == &*expected,
                "its {what} sizes {:?}, expected {expected:?}",
                counted.shape()
            );
        }
        let sizes = [layer.directions.len(), batch, layer.units];
        for initial in given.initial.iter().flatten() {
            ensure!(
                initial.shape() == sizes,
                "an initial state has sizes {:?}, expected {sizes:?}",
                initial.shape()
            );
        }
        Ok(given)
    }

    /// Runs all steps of all directions into `y` and the last states, of which one may be empty if
    /// it is not wanted.
    fn run_steps(
        &self,
        given: &Given<'_>,
        counts: Counts<'_>,
        y: &mut Tensor,
        last: &mut [Vec<f32>; 2],
        memory: &mut Memory,
    ) -> TractResult<()> {
        let layer = &*self.layer;
        let directions = layer.directions.len();
        let of_direction = given.batch() * layer.units;
        let mut plain = [None, None];
        for (plain, initial) in std::iter::zip(&mut plain, given.initial) {
            *plain = initial.map(|it| it.try_as_plain_ram()).transpose()?;
        }
        let [h, c] = last;
        let mut h = h.chunks_exact_mut(of_direction.max(1));
        let mut c = c.chunks_exact_mut(of_direction.max(1));
        let mut states = vec![];
        for direction in 0..directions {
            let mut initial = [None, None];
            for (initial, plain) in std::iter::zip(&mut initial, &plain) {
                if let Some(plain) = plain {
                    let all = plain.as_slice::<f32>()?;
                    *initial = Some(&all[direction * of_direction..][..of_direction]);
                }
            }
            states.push(States {
                initial,
                last: [h.next(), c.next()],
                y: vec![],
            });
        }
        let mut y = y.try_as_plain_ram_mut()?;
        let y = y.as_slice_mut::<f32>()?;
        let y = y.chunks_exact_mut(of_direction.max(1));
        for (index, y) in y.enumerate() {
            states[index % directions].y.push(y);
        }
        let x = given.x.try_as_plain_ram()?;
        let sequence = Sequence {
            x: x.as_slice::<f32>()?,
            steps: given.steps(),
            batch: given.batch(),
            counts,
        };
        team::run(layer, sequence, states, memory, &Threads::current())
    }
}
