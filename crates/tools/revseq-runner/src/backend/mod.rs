//! The runtimes that models run on.

pub(crate) mod ort;
mod outputs;
pub(crate) mod profile;
pub(crate) mod tract;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};

use crate::cli::{Backend, BackendArguments, EngineArguments};
use crate::model::Model;
use crate::note::note;
use crate::progress::Progress;
use crate::tensor::{Tensor, Tensors};
use ort::{Ort, Placement, Runtime, library};
use profile::Profile;
use tract::Tract;

/// A runtime, opened, with how models are to run on it.
pub(crate) enum Engine {
    Tract(Tract),
    Ort(Ort),
}

/// Number of runs of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    /// Number of runs before any time is taken.
    pub(crate) warmup: u32,
    pub(crate) timed: Timed,
}

/// Number of runs that are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timed {
    Runs(u32),
    /// Runs until this time has passed, and one at least.
    For(Duration),
}

impl Runs {
    /// Returns the time of each run, as `run` returns it, except for those that warm up; calls
    /// `step` after each, which may end them.
    ///
    /// # Errors
    /// The error of a run.
    fn times(
        self,
        mut run: impl FnMut() -> Result<Duration>,
        mut step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for _ in 0..self.warmup {
            run()?;
            if step().is_break() {
                return Ok(times);
            }
        }
        let start = Instant::now();
        loop {
            times.push(run()?);
            let is_enough = match self.timed {
                Timed::Runs(runs) => times.len() >= runs as usize,
                Timed::For(time) => start.elapsed() >= time,
            };
            if step().is_break() || is_enough {
                return Ok(times);
            }
        }
    }
}

impl Engine {
    /// Opens the backend that the arguments name.
    ///
    /// # Errors
    /// If it is not available, or does not support the arguments.
    pub(crate) fn open(arguments: &BackendArguments) -> Result<Self> {
        let mut engines = Self::open_all(&arguments.engine, &[arguments.backend])?;
        engines.pop().context("one backend is asked for")
    }

    /// Opens several backends with the same arguments.
    ///
    /// # Errors
    /// If one of them is not available, or does not support the arguments.
    pub(crate) fn open_all(arguments: &EngineArguments, all: &[Backend]) -> Result<Vec<Self>> {
        arguments.check(all)?;
        Self::open_each(arguments, all)?.into_iter().collect()
    }

    /// Opens those of several backends that are available, with arguments that were checked.
    ///
    /// # Errors
    /// The number of threads cannot be set.
    pub(crate) fn open_each(
        arguments: &EngineArguments,
        all: &[Backend],
    ) -> Result<Vec<Result<Self>>> {
        if let Some(threads) = arguments.threads {
            set_threads(threads.into(), all)?;
        }
        // There can be one in a process.
        let mut runtime: Option<Rc<Runtime>> = None;
        let mut on_ort = |with_provider| -> Result<Self> {
            let runtime = match &runtime {
                Some(runtime) => runtime,
                None => runtime.insert(Rc::new(Runtime::load(arguments.ort.ort_lib.as_deref())?)),
            };
            if with_provider {
                runtime.register(library::ep(arguments.ort.ep_lib.as_deref())?)?;
            }
            Ok(Self::Ort(Ort::new(
                Rc::clone(runtime),
                with_provider,
                arguments,
            )))
        };
        let engines = all.iter().map(|backend| match backend {
            Backend::Tract => Ok(Self::Tract(Tract::new(arguments))),
            Backend::Ort => on_ort(true),
            Backend::OrtPlain => on_ort(false),
        });
        Ok(engines.collect())
    }

    /// The name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        self.backend().name()
    }

    /// The backend that this is.
    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Tract(_) => Backend::Tract,
            Self::Ort(ort) if ort.with_ep => Backend::Ort,
            Self::Ort(_) => Backend::OrtPlain,
        }
    }

    /// Whether a backend that described itself so is this one, of any version.
    pub(crate) fn is_described_by(&self, description: &str) -> bool {
        match self {
            Self::Tract(_) => description.starts_with("tract"),
            Self::Ort(ort) => ort.is_described_by(description),
        }
    }

    /// The parts of a model that a single session on this backend needs, to save memory.
    pub(crate) fn needed_of(&self, model: Model) -> Model {
        match self {
            Self::Tract(_) => model.for_one_session(),
            Self::Ort(_) => model.without_constants(),
        }
    }

    /// Prepares a model as far as possible without its inputs.
    ///
    /// # Errors
    /// If the model is invalid, or another provider would silently run one of our nodes.
    pub(crate) fn load<'a>(&'a self, model: &'a Model) -> Result<Loaded<Session<'a>>> {
        let _progress = Progress::of(format!("preparing {}", model.path.display()));
        Ok(match self {
            Self::Tract(tract) => {
                let loaded = tract.read(model).inspect(|_| note_opset(model))?;
                loaded.map(Session::Tract)
            }
            Self::Ort(ort) => {
                let prepared = ort.prepare(model)?;
                prepared.inspect(ort::Executable::say).map(Session::Ort)
            }
        })
    }

    /// The same; that it is refused is an error, too.
    pub(crate) fn ready<'a>(&'a self, model: &'a Model) -> Result<Session<'a>> {
        self.load(model)?.map_err(Error::msg)
    }
}

/// A model on a runtime, or the feature that the runtime lacks.
pub(crate) type Loaded<T> = Result<T, String>;

/// The newest version of ONNX's operators that the tests have.
const NEWEST_OPSET: i64 = 28;

/// Notes that a model's opset is newer than those tried on tract, which ignores unknown versions.
fn note_opset(model: &Model) {
    let imports = model.proto.opset_import.iter();
    let mut versions = imports.filter(|import| import.domain().is_empty());
    if let Some(import) = versions.find(|import| import.version() > NEWEST_OPSET) {
        note(format!(
            "{}: it is of opset {} of ONNX; {NEWEST_OPSET} is the newest that was tried on tract",
            model.path.display(),
            import.version()
        ));
    }
}

/// tract by its version, or ONNX Runtime by its version and the provider in it.
impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tract(_) => f.write_str("tract"),
            Self::Ort(ort) => ort.fmt(f),
        }
    }
}

/// Sets the number of threads of tract, the kernels and ONNX Runtime.
fn set_threads(threads: usize, backends: &[Backend]) -> Result<()> {
    #[cfg(not(feature = "multithread"))]
    anyhow::ensure!(
        threads == 1 || !backends.contains(&Backend::Tract),
        "--threads {threads}: this revseq was built without tract on more than one thread; \
         `cargo install --path crates/tools/revseq-runner --features full` builds all of it"
    );
    #[cfg(feature = "multithread")]
    let _ = backends;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .with_context(|| format!("--threads {threads}"))
}

/// A model on a runtime.
pub(crate) enum Session<'a> {
    Tract(tract::Loaded),
    Ort(ort::Executable<'a>),
}

/// Runs of a model that are timed.
pub(crate) struct TimedRuns {
    /// The time that it took to make a session for them alone, if one was made.
    pub(crate) made: Option<Duration>,
    /// Runs the model, and returns how long that took.
    pub(crate) run: Box<dyn FnMut() -> Result<Duration>>,
}

impl Session<'_> {
    /// The provider of ONNX Runtime that runs each of our nodes.
    pub(crate) fn placements(&self) -> Option<&[Placement]> {
        match self {
            Self::Tract(_) => None,
            Self::Ort(prepared) => Some(&prepared.placements),
        }
    }

    /// The number of nodes that each provider of ONNX Runtime runs.
    pub(crate) fn providers(&self) -> Option<&BTreeMap<String, usize>> {
        match self {
            Self::Tract(_) => None,
            Self::Ort(prepared) => Some(&prepared.providers),
        }
    }

    /// Prepares the model for inputs of these types and shapes, unless it is.
    ///
    /// # Errors
    /// The error of the runtime.
    pub(crate) fn prepare(&self, inputs: &Tensors) -> Result<()> {
        match self {
            Self::Tract(loaded) => loaded.plan(inputs).map(drop),
            Self::Ort(_) => Ok(()),
        }
    }

    /// Runs the model and returns its outputs, in order.
    ///
    /// # Errors
    /// The error of the runtime, or of one of our operators.
    pub(crate) fn run(&mut self, inputs: &Tensors) -> Result<Vec<Tensor>> {
        self.run_each(inputs)?.into_iter().collect()
    }

    /// Runs the model and returns each output, in order, or why it is no tensor.
    ///
    /// # Errors
    /// The error of the runtime, or of one of our operators.
    pub(crate) fn run_each(&mut self, inputs: &Tensors) -> Result<Vec<Result<Tensor>>> {
        let _progress = Progress::of("running");
        match self {
            Self::Tract(loaded) => loaded.run(inputs),
            Self::Ort(prepared) => prepared.run(inputs),
        }
    }

    /// Returns what runs the model on these inputs again and again, which it did once.
    pub(crate) fn timed(&self, inputs: &Tensors) -> Result<TimedRuns> {
        match self {
            Self::Tract(loaded) => loaded.timed(inputs),
            Self::Ort(prepared) => prepared.timed(inputs),
        }
    }

    /// Returns the time of each run; calls `step` after each, and after those that warm up. It ends
    /// them with a break.
    pub(crate) fn repeat(
        &self,
        inputs: &Tensors,
        runs: Runs,
        step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Duration>> {
        runs.times(self.timed(inputs)?.run, step)
    }

    /// Measures the time that each node takes in some runs, which `step` ends with a break.
    pub(crate) fn profile(
        &self,
        inputs: &Tensors,
        runs: usize,
        with_trace: bool,
        step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Profile> {
        match self {
            Self::Tract(loaded) => loaded.profile(inputs, runs, with_trace, step),
            Self::Ort(prepared) => prepared.profile(inputs, runs, with_trace, step),
        }
    }
}
