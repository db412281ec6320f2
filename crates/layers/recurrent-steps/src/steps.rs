//! Loops, and their runs.

use std::sync::{Arc, Mutex, PoisonError};

use recurrent_layers::Threads;
use revseq_onnx::proto::NodeProto;

use crate::body::{Around, Body};
use crate::elements::{Kind, Outputs, Tensor};
use crate::error::{Error, values};
use crate::limits::{Limits, bytes_of};
use crate::plan::{Plan, Planner, Run, RunInput, count};
use crate::run::{Carried, Running};

/// The most programs of a loop that are kept.
const MOST_PLANS: usize = 4;

/// The most programs of single steps that are kept beside them: where each step has other sizes, as a list of
/// tokens grows, later runs find those of earlier ones.
const MOST_OF_STEPS: usize = 128;

/// A Loop or Scan of ONNX's that runs as a program.
///
/// A program is made for the sizes of a run's inputs, and for the elements of small integers among them,
/// when the first run has them; later ones find it.
#[derive(Debug)]
pub struct Steps {
    body: Body,
    plans: Mutex<Plans>,
}

/// The programs of a loop, each behind what it is for.
#[derive(Debug, Default)]
struct Plans {
    /// The latest ones.
    latest: Vec<(Key, Arc<Plan>)>,
    /// Those of single steps behind others.
    of_steps: Vec<(Key, Arc<Plan>)>,
}

/// What a program is for.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    sizes: Vec<Vec<usize>>,
    /// The elements of inputs that it depends on, by their index.
    known: Vec<(usize, Vec<i64>)>,
    first: usize,
    states: Option<Vec<Vec<usize>>>,
}

impl Steps {
    /// Reads a Loop or a Scan, of this version of ONNX's operators.
    ///
    /// # Errors
    /// What of the loop no program has.
    pub fn read(node: &NodeProto, opset: i64, around: &dyn Around) -> Result<Self, String> {
        Ok(Self {
            body: Body::read(node, opset, around)?,
            plans: Mutex::default(),
        })
    }

    /// The names and types of what a run reads: the loop's inputs and what its body reads of the graphs
    /// around it, each once, but for constants.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.body.inputs.iter().map(|(name, kind)| (&**name, *kind))
    }

    /// The type of each output of the loop, if it is made.
    #[must_use]
    pub fn outputs(&self) -> &[Option<Kind>] {
        &self.body.outputs
    }

    /// Runs the loop. Inputs are in the order of [`inputs`](Self::inputs); threads share large products.
    ///
    /// # Errors
    /// If inputs do not fit the loop, a step reads outside of a value, memory is lacking, or the run is
    /// stopped. Outputs may hold some results.
    pub fn run<'a>(
        &self,
        inputs: &[Tensor<'a>],
        outputs: &mut dyn Outputs<'a>,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        self.run_within(Limits::default(), inputs, outputs, threads)
            .map(drop)
    }

    /// Runs the loop within limits, and returns the number of its steps.
    ///
    /// # Errors
    /// Those of [`run`](Self::run); [`Error::Steps`] or [`Error::Bytes`] if the loop takes more.
    pub fn run_within<'a>(
        &self,
        limits: Limits,
        inputs: &[Tensor<'a>],
        outputs: &mut dyn Outputs<'a>,
        threads: &dyn Threads,
    ) -> Result<u64, Error> {
        if inputs.len() != self.body.inputs.len() {
            return values(format!(
                "{} inputs, expected {}",
                inputs.len(),
                self.body.inputs.len()
            ));
        }
        let mut first = 0;
        let mut carried: Option<Carried> = None;
        let mut made = 0;
        loop {
            let states = carried.as_ref().map(Carried::sizes);
            let plan = self.plan(inputs, first, states, (limits, &mut made))?;
            limits.allow_steps(first.saturating_add(plan.steps.unwrap_or(0)))?;
            limits.allow_bytes(bytes_of(&plan.buffers))?;
            let mut running = Running::new(&plan, inputs, outputs, carried)?;
            let is_over = running.run(threads, limits, first)?;
            first += running.steps();
            // A step that changes sizes is the only one of its program.
            if is_over || !plan.is_single {
                running.finish(&self.body, first, outputs)?;
                return Ok(first as u64);
            }
            carried = Some(running.carry()?);
        }
    }

    /// The program for these inputs, which is made if there is none; `made` is the number of those that the run
    /// has made.
    fn plan(
        &self,
        inputs: &[Tensor<'_>],
        first: usize,
        states: Option<Vec<Vec<usize>>>,
        (limits, made): (Limits, &mut usize),
    ) -> Result<Arc<Plan>, Error> {
        let fits = |key: &Key| {
            let sizes = inputs.iter().map(|input| input.sizes);
            let known = |(index, all): &(usize, Vec<i64>)| {
                inputs[*index].elements.integers().as_ref() == Some(all)
            };
            key.first == first
                && key.states == states
                && sizes.eq(key.sizes.iter().map(|it| &**it))
                && key.known.iter().all(known)
        };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.of_steps.len() >= MOST_OF_STEPS {
            limits.allow_another(usize::MAX)?;
        }
        let mut known = plans.latest.iter().chain(&plans.of_steps);
        if let Some((_, plan)) = known.find(|(key, _)| fits(key)) {
            return Ok(Arc::clone(plan));
        }
        limits.allow_another(*made)?;
        *made += 1;
        let mut run_inputs = Vec::with_capacity(inputs.len());
        for (Tensor { sizes, elements }, (_, kind)) in std::iter::zip(inputs, &self.body.inputs) {
            if elements.kind() != *kind || elements.len() != count(sizes)? {
                return values(format!(
                    "an input has {} elements of {:?}, expected {sizes:?} of {kind:?}",
                    elements.len(),
                    elements.kind()
                ));
            }
            run_inputs.push(RunInput {
                kind: *kind,
                sizes,
                elements: Some(*elements),
            });
        }
        let run = Run {
            inputs: &run_inputs,
            first,
            states: states.as_deref(),
        };
        let (plan, keyed) = Planner::plan(&self.body, run)?;
        let plan = Arc::new(plan);
        let known = keyed.into_iter().map(|index| {
            let elements = inputs[index].elements.integers();
            (index, elements.unwrap_or_default())
        });
        let is_of_step = plan.is_single && states.is_some();
        let key = Key {
            sizes: inputs.iter().map(|input| input.sizes.to_vec()).collect(),
            known: known.collect(),
            first,
            states,
        };
        let (all, most) = match is_of_step {
            true => (&mut plans.of_steps, MOST_OF_STEPS),
            false => (&mut plans.latest, MOST_PLANS),
        };
        if all.len() >= most {
            all.remove(0);
        }
        all.push((key, Arc::clone(&plan)));
        Ok(plan)
    }
}
