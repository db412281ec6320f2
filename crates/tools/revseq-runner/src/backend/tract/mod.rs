//! Models on tract: a shell over [`revseq_tract::Session`].

mod convert;
mod shapes;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use revseq_kernels::LengthsPolicy;
use revseq_tract::{
    ErrorKind, Execution, Inputs, Limits, LoadOptions, NodeCall, Plan, Session, Sizes,
};
use tract_onnx::prelude::*;

use crate::backend::TimedRuns;
use crate::backend::outputs::{self, Declared};
use crate::backend::profile::{Call, NodeTimes, Profile, Trace};
use crate::cli::{EngineArguments, Lengths};
use crate::fence::quietly;
use crate::model::Model;
use crate::model::values::ValueType;
use crate::tensor::{MAXIMUM_BYTES, Tensor, Tensors};
use convert::{from_tract, to_tract};
pub(crate) use shapes::{Shapes, shapes};

/// The variable of the environment with which tract's own words are shown.
const BACKTRACE: &str = "REVSEQ_BACKTRACE";

/// A way around what tract does not support.
const ADVICE: &str = "--backend ort may run it";

/// Number of steps that a loop may take. Fuzzers have less time.
const MAXIMUM_STEPS: u64 = if cfg!(fuzzing) { 1 << 10 } else { 1 << 20 };

/// The limits of a model: it may contain a loop that never ends.
const LIMITS: Limits = Limits::none()
    .with_steps(MAXIMUM_STEPS)
    .with_bytes(MAXIMUM_BYTES);

/// tract, and how our nodes run there.
#[derive(Debug, Default)]
pub(crate) struct Tract {
    lengths: Option<LengthsPolicy>,
    /// The most time of a run.
    timeout: Option<Duration>,
}

impl Tract {
    /// tract with these arguments.
    pub(crate) fn new(arguments: &EngineArguments) -> Self {
        Self {
            lengths: arguments.lengths.map(Lengths::policy),
            timeout: arguments.timeout,
        }
    }

    /// A model on tract, or the feature that tract lacks for it.
    ///
    /// Only the model decides this: an error on the way never counts as a missing feature.
    pub(crate) fn read(&self, model: &Model) -> Result<Result<Loaded, String>> {
        let proto = model.messages();
        let session = quietly(|| Session::from_messages(proto, &self.options()));
        if let Err(error) = &session
            && matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Type)
        {
            return Ok(Err(in_words(error).to_string()));
        }
        Ok(Ok(Loaded {
            session: session.map_err(|error| in_words(&error))?,
            outputs: outputs::declared(model),
        }))
    }

    /// Reports how a model runs that is prepared for all sizes that it leaves open, or why it is not.
    pub(crate) fn planned(&self, model: Model) -> Result<Planned, Refusal> {
        let names = model.input_symbols();
        let proto = Arc::unwrap_or_clone(model.proto);
        let options = self.options().with_sizes(Sizes::Symbolic);
        let refusal = |error: &revseq_tract::Error, may_fit_sizes| Refusal {
            why: words(error),
            advice: advice(error),
            may_fit_sizes,
        };
        let session = quietly(|| Session::from_messages(proto, &options));
        let session = session.map_err(|error| refusal(&error, false))?;
        let plan = quietly(|| session.symbolic_plan());
        let plan = plan.map_err(|error| refusal(&error, true))?;
        Ok(Planned {
            executions: plan.executions(),
            outputs: shapes::of_outputs(plan.runnable().model(), &names),
        })
    }

    /// The options of models: the command has the data, and plans for its sizes.
    fn options(&self) -> LoadOptions {
        let mut options = options();
        if let Some(time) = self.timeout {
            options = options.with_limits(LIMITS.with_time(time));
        }
        if let Some(policy) = self.lengths {
            options = options.with_lengths(policy);
        }
        // tract works on one thread by default; to a pool of one it would only
        // hand work over.
        #[cfg(feature = "multithread")]
        if rayon::current_num_threads() > 1 {
            multithread::set_default_executor(multithread::Executor::RayonGlobal);
        }
        options
    }
}

/// A model that is prepared for all sizes that it leaves open.
pub(crate) struct Planned {
    /// The way in which loops and recurrent layers run.
    pub(crate) executions: Vec<Execution>,
    /// The types of the outputs, in order.
    pub(crate) outputs: Vec<ValueType>,
}

/// Reason why tract does not take a model.
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// A way around it.
    pub(crate) advice: Option<&'static str>,
    /// Whether it may take the model if all sizes are given.
    pub(crate) may_fit_sizes: bool,
}

/// The options of any model.
fn options() -> LoadOptions {
    LoadOptions::new()
        .with_limits(LIMITS)
        .with_sizes(Sizes::OfData)
}

/// A model on tract.
pub(crate) struct Loaded {
    session: Session,
    outputs: Vec<Declared>,
}

/// Looks at each call of a node.
type Observer = Box<dyn FnMut(NodeCall<'_>) + Send>;

impl Loaded {
    /// Returns the plan for inputs of these types and shapes, and the inputs as tract takes them. The
    /// session keeps its latest plans.
    ///
    /// # Errors
    /// The error of tract, or of one of our operators.
    pub(crate) fn plan(&self, inputs: &Tensors) -> Result<(Arc<Plan>, Inputs)> {
        let inputs = values(inputs)?;
        let plan = call(|| self.session.plan(&inputs))?;
        Ok((plan, inputs))
    }

    /// Runs the model and returns each output, in order, or why it is no tensor.
    ///
    /// # Errors
    /// The error of tract, or of one of our operators.
    pub(crate) fn run(&self, inputs: &Tensors) -> Result<Vec<Result<Tensor>>> {
        let (plan, inputs) = self.plan(inputs)?;
        let outputs = call(|| plan.run_each(&inputs))?;
        let outputs = std::iter::zip(outputs, &self.outputs).map(|(output, declared)| {
            let output = from_tract(&*output.map_err(|error| in_words(&error))?)?;
            declared.check(output, "tract")
        });
        Ok(outputs.collect())
    }

    /// Returns what runs the model on these inputs again and again.
    pub(crate) fn timed(&self, inputs: &Tensors) -> Result<TimedRuns> {
        let (plan, inputs) = self.plan(inputs)?;
        let values = call(|| plan.values(&inputs))?;
        let run = move || {
            let values = values.clone();
            let start = Instant::now();
            let outputs = call(|| plan.run_values(values))?;
            let time = start.elapsed();
            drop(outputs);
            Ok(time)
        };
        Ok(TimedRuns {
            made: None,
            run: Box::new(run),
        })
    }

    /// Returns the time of each node in some runs. A loop that runs as a program is one node.
    pub(crate) fn profile(
        &self,
        inputs: &Tensors,
        runs: usize,
        with_trace: bool,
        mut step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Profile> {
        let (plan, inputs) = self.plan(inputs)?;
        let values = call(|| plan.values(&inputs))?;
        // The observer outlives this call as far as the compiler knows.
        let gathered = Arc::new(Mutex::new((
            NodeTimes::default(),
            with_trace.then(Trace::default),
        )));
        let mut all = Vec::new();
        let first = Instant::now();
        let mut state = call(|| plan.fenced(|| plan.runnable().spawn()))?;
        let mut observed = |observer: Observer| {
            let values = values.clone();
            let run = || revseq_tract::run_observed(&mut state, values, observer);
            call(|| plan.fenced(run))
        };
        // The first run allocates.
        observed(Box::new(|_| {}))?;
        for run in 0..runs {
            let begin = Instant::now();
            let gathered = Arc::clone(&gathered);
            observed(Box::new(move |observed| {
                let (times, trace) = &mut *lock(&gathered);
                let call = Call {
                    operator: &observed.node.op.name(),
                    node: &observed.node.name,
                    provider: None,
                    time: observed.time,
                    time_with_inner: observed.time_with_inner,
                };
                times.add(run, call);
                if let Some(trace) = trace {
                    trace.add(&call, observed.start - first);
                }
            }))?;
            all.push(begin.elapsed());
            if step().is_break() {
                break;
            }
        }
        let (times, trace) = std::mem::take(&mut *lock(&gathered));
        Ok(times.of(all, trace.map(Trace::into_json)))
    }
}

/// Inputs as tract takes them.
fn values(inputs: &Tensors) -> Result<Inputs> {
    let values = inputs
        .iter()
        .map(|(name, value)| Ok((name.clone(), to_tract(value)?.into_tvalue())));
    values.collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the library, whose panics are errors; nothing is printed of them.
fn call<T>(run: impl FnOnce() -> Result<T, revseq_tract::Error>) -> Result<T> {
    quietly(run).map_err(|error| in_words(&error))
}

/// An error of the library, with a way around it.
fn in_words(error: &revseq_tract::Error) -> anyhow::Error {
    match advice(error) {
        Some(advice) => anyhow!("{}; {advice}", words(error)),
        None => anyhow!(words(error)),
    }
}

/// An error of the library, in tract's own words if the environment asks for them.
fn words(error: &revseq_tract::Error) -> String {
    match tract_error(error) {
        Some(cause) => format!("{cause:?}"),
        None => error.to_string(),
    }
}

fn advice(error: &revseq_tract::Error) -> Option<&'static str> {
    let is_asked = tract_error(error).is_none() && error.may_run_elsewhere();
    is_asked.then_some(ADVICE)
}

/// tract's error, if the environment asks for it.
fn tract_error(error: &revseq_tract::Error) -> Option<&TractError> {
    std::env::var_os(BACKTRACE).and_then(|_| error.tract())
}
