//! Models on ONNX Runtime, with the execution provider of this project.

mod convert;
#[cfg(unix)]
mod crash;
mod deadline;
mod image;
pub(crate) mod library;
mod message;
mod placement;
mod profile;
mod runtime;
mod version;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ort::logging::LogLevel;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::DynValue;
use revseq_onnx::model::type_name;
use revseq_ort::Report;

use crate::backend::outputs::{self, Declared};
use crate::backend::profile::Profile;
use crate::backend::{Loaded, TimedRuns};
use crate::cli::{EngineArguments, Optimization};
use crate::fence;
use crate::model::element_types::element_types;
use crate::model::{Input, Model, walk};
use crate::note::{detail, note};
use crate::tensor::{Tensor, Tensors};
use convert::{from_ort, has_type, to_ort};

pub(crate) use placement::Placement;
pub(crate) use runtime::Runtime;

/// The provider's name.
pub(crate) const EP: &str = "RevSeqExecutionProvider";

/// The name of ONNX Runtime's own provider.
const CPU_EP: &str = "CPUExecutionProvider";

/// ONNX Runtime, and how models are to run on it.
#[derive(Clone)]
pub(crate) struct Ort {
    runtime: Rc<Runtime>,
    /// Whether our nodes are meant for this project's provider.
    pub(super) with_ep: bool,
    threads: Option<usize>,
    /// The most time of a run.
    timeout: Option<Duration>,
    optimization: Option<Optimization>,
    session_options: Vec<(String, String)>,
    provider_options: Vec<(String, String)>,
}

impl Ort {
    /// ONNX Runtime with these arguments, with the provider or without.
    pub(crate) fn new(runtime: Rc<Runtime>, with_ep: bool, arguments: &EngineArguments) -> Self {
        // A provider that is older than an option need not know it.
        let lengths = arguments.lengths.into_iter();
        let own = lengths.map(|lengths| ("lengths".to_owned(), lengths.name().to_owned()));
        let provider_options = own.chain(arguments.ort.provider_options.iter().cloned());
        Self {
            runtime,
            with_ep,
            threads: arguments.threads.map(usize::from),
            timeout: arguments.timeout,
            optimization: arguments.ort.optimization,
            session_options: arguments.ort.session_options.clone(),
            provider_options: provider_options
                .map(|(key, value)| (format!("{EP}.{key}"), value))
                .collect(),
        }
    }

    /// The same with an option of the provider besides, or without the provider.
    pub(crate) fn with_option(&self, option: Option<(&str, &str)>) -> Self {
        let mut with = self.clone();
        with.with_ep = option.is_some();
        let option = option.map(|(key, value)| (format!("{EP}.{key}"), value.to_owned()));
        with.provider_options.extend(option);
        with
    }

    /// Whether an ONNX Runtime of any version described itself so, with the same provider.
    pub(crate) fn is_described_by(&self, description: &str) -> bool {
        description.starts_with("ONNX Runtime") && description.ends_with(EP) == self.with_ep
    }

    /// The feature that ONNX Runtime itself lacks for a model; `None` if none is known.
    ///
    /// Only the model decides this: an error on the way never counts as a missing feature.
    fn lacks(&self, model: &Model) -> Result<Option<String>> {
        let mut lacking: Vec<String> = Vec::new();
        if !self.with_ep {
            let ours = walk::ours(model)?.into_iter();
            for site in ours.filter(|site| !site.node.domain().is_empty()) {
                if !lacking.contains(&site.operator()) {
                    lacking.push(site.operator());
                }
            }
        }
        let types = element_types(model)?.into_iter();
        lacking.extend(types.filter(|&code| !has_type(code)).map(type_name));
        for Input {
            name, value_type, ..
        } in model.inputs()
        {
            ensure!(
                value_type.element_type.is_some(),
                "input {name:?} is not a tensor, and revseq gives only tensors"
            );
        }
        let runtime = &self.runtime;
        Ok((!lacking.is_empty()).then(|| format!("{runtime} has no {}", lacking.join(", "))))
    }
}

impl std::fmt::Display for Ort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runtime = &self.runtime;
        match self.with_ep {
            true => write!(f, "{runtime} with {EP}"),
            false => write!(f, "{runtime}"),
        }
    }
}

/// A prepared model.
pub(crate) struct Executable<'a> {
    ort: &'a Ort,
    model: &'a Model,
    session: Session,
    outputs: Vec<Declared>,
    /// The placements of our nodes.
    pub(crate) placements: Vec<Placement>,
    /// The number of nodes that each provider has.
    pub(crate) providers: BTreeMap<String, usize>,
    /// What became of loops and layers, if the provider is to run them.
    pub(crate) report: Option<Report>,
    /// Whether constants had to be left as they are.
    is_unfolded: bool,
}

impl Ort {
    /// The provider that our nodes are meant for.
    fn provider(&self) -> &'static str {
        if self.with_ep { EP } else { CPU_EP }
    }

    /// Prepares a model.
    ///
    /// # Errors
    /// The error of ONNX Runtime or the provider, or one of our nodes runs on another
    /// provider than the requested one, unless it is one of strings.
    pub(crate) fn prepare<'a>(&'a self, model: &'a Model) -> Result<Loaded<Executable<'a>>> {
        if let Some(reason) = self.lacks(model)? {
            return Ok(Err(reason));
        }
        let runtime = &self.runtime;
        #[cfg(unix)]
        crash::name(&runtime.to_string(), &model.path);
        let nodes = walk::ours(model)?.len();
        let mut is_unfolded = false;
        loop {
            let session = match self.session(model, is_unfolded, None) {
                Ok(session) => session,
                Err(error) => {
                    return match message::refusal(model, &error.to_string()) {
                        Some(reason) => Ok(Err(format!("{runtime} refuses {reason}"))),
                        None => Err(error.context(format!("{runtime} refuses the model"))),
                    };
                }
            };
            let assigned = fenced(|| Ok(revseq_ort::assigned(&session)?))?;
            let report = match self.with_ep {
                true => fenced(|| Ok(revseq_ort::report(&runtime.environment, &session)?))?,
                false => Report::default(),
            };
            let mut placements = placement::of(&assigned, &report);
            let checked = placement::check(&placements, self.provider());
            // ONNX Runtime folds constants with its own kernels before it asks any
            // provider. Our nodes must not be folded that way.
            let is_folded = self.with_ep && (placements.len() != nodes || checked.is_err());
            if is_folded && !is_unfolded {
                is_unfolded = true;
                continue;
            }
            checked?;
            let report = self.takes_loops().then_some(report);
            if let Some(report) = &report {
                placements.extend(placement::of_loops(report, &assigned));
            }
            let mut providers = BTreeMap::new();
            for node in assigned {
                *providers.entry(node.provider).or_default() += 1;
            }
            return Ok(Ok(Executable {
                ort: self,
                model,
                session,
                outputs: outputs::declared(model),
                placements,
                providers,
                report,
                is_unfolded,
            }));
        }
    }

    /// Whether the provider is to run loops or layers.
    pub(crate) fn takes_loops(&self) -> bool {
        let is_asked = |(key, value): &(String, String)| {
            let option = key.strip_prefix(EP).unwrap_or_default();
            matches!(
                (option, &**value),
                (".loops", "layers" | "steps") | (".layers", "on")
            )
        };
        self.with_ep && self.provider_options.iter().any(is_asked)
    }

    /// A session, which writes a profile into a file whose name begins as the path, if there is one.
    fn session(&self, model: &Model, is_unfolded: bool, profile: Option<&Path>) -> Result<Session> {
        let make = || -> ort::Result<Session> {
            let environment = &self.runtime.environment;
            let mut builder =
                Session::builder(environment)?.with_config_entry(revseq_ort::RECORD, "1")?;
            if let Some(path) = profile {
                builder = builder.with_profiling(path)?;
            }
            // Always by name: a session that names no device takes those of any provider that
            // is registered, by the policy that `ort` sets for all sessions.
            let devices = environment
                .devices()
                .filter(|device| device.ep().is_ok_and(|ep| ep == self.provider()));
            builder = builder.with_devices(devices, Some(&self.provider_options))?;
            if let Some(threads) = self.threads {
                builder = builder.with_intra_threads(threads)?;
            }
            if let Some(level) = self.optimization {
                builder = builder.with_optimization_level(match level {
                    Optimization::None => GraphOptimizationLevel::Disable,
                    Optimization::Basic => GraphOptimizationLevel::Level1,
                    Optimization::Extended => GraphOptimizationLevel::Level2,
                    Optimization::All => GraphOptimizationLevel::All,
                })?;
            }
            for (key, value) in &self.session_options {
                builder = builder.with_config_entry(key, value)?;
            }
            if is_unfolded {
                builder = builder.with_disabled_optimizers("ConstantFolding")?;
            }
            // The bytes that were checked, whatever the file holds by now.
            if let Some(folder) = folder(&model.path) {
                builder = builder.with_config_entry(EXTERNAL_DATA_FOLDER, folder)?;
            }
            builder.commit_from_memory(&model.bytes)
        };
        fenced(|| Ok(make()?))
    }
}

/// The session's option for where data in files beside the model is.
const EXTERNAL_DATA_FOLDER: &str = "session.model_external_initializers_file_folder_path";

/// The folder of a model, if ONNX Runtime takes its name.
fn folder(model: &Path) -> Option<&str> {
    match model.parent()?.to_str()? {
        "" => Some("."),
        folder => Some(folder),
    }
}

impl Executable<'_> {
    /// Notes each node, loop or layer that stays with another provider, and why.
    pub(crate) fn say(&self) {
        for placement in &self.placements {
            let line = format!("{}: {placement}", self.model.path.display());
            match placement {
                Placement {
                    reason: Some(_), ..
                } => note(line),
                Placement { to: Some(_), .. } => detail(line),
                _ => {}
            }
        }
    }

    /// Another session of the model.
    fn another(&self, profile: Option<&Path>) -> Result<Session> {
        self.ort.session(self.model, self.is_unfolded, profile)
    }

    /// Measures the time that each node takes in some runs.
    pub(crate) fn profile(
        &self,
        inputs: &Tensors,
        runs: usize,
        with_trace: bool,
        mut step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Profile> {
        let values = values(inputs)?;
        // ONNX Runtime adds the time to the name.
        let name = format!("revseq-profile-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut session = self.another(Some(&path))?;
        let written = fenced(|| {
            session.run(borrowed(&values))?;
            for _ in 0..runs {
                session.run(borrowed(&values))?;
                if step().is_break() {
                    break;
                }
            }
            Ok(session.end_profiling()?)
        })?;
        let text = std::fs::read(&written).with_context(|| {
            let folder = std::env::temp_dir();
            format!("ONNX Runtime left no profile in {}", folder.display())
        });
        // A temporary file of this run.
        let _ = std::fs::remove_file(&written);
        let text = text?;
        let profile = profile::read(&text).with_context(|| {
            let (bytes, folder) = (text.len(), std::env::temp_dir());
            format!(
                "cannot read ONNX Runtime's profile of {bytes} bytes, which is cut off if {} is full: TMPDIR \
                 names another folder",
                folder.display()
            )
        })?;
        Ok(Profile {
            is_coarse: true,
            trace: with_trace.then_some(text),
            ..profile
        })
    }

    /// Runs the model and returns each output, in order, or why it is no tensor.
    ///
    /// # Errors
    /// The error of ONNX Runtime, or of one of our operators.
    pub(crate) fn run(&mut self, inputs: &Tensors) -> Result<Vec<Result<Tensor>>> {
        let values = values(inputs)?;
        let (session, timeout) = (&mut self.session, self.ort.timeout);
        fenced(|| {
            let mut options = RunOptions::new()?;
            options.set_log_level(LogLevel::Warning)?;
            let (values, options) = (borrowed(&values), &options);
            let got = deadline::within(timeout, options, move || {
                Ok(session.run_with_options(values, options)?)
            })?;
            let outputs = self.outputs.iter().map(|declared| {
                let name = &declared.name;
                let value = got
                    .get(name)
                    .with_context(|| format!("ONNX Runtime gives no output {name:?}"))?;
                let output = from_ort(value).with_context(|| format!("output {name:?}"))?;
                declared.check(output, "ONNX Runtime")
            });
            Ok(outputs.collect())
        })
    }

    /// Returns what runs the model on these inputs again and again, in a session of its own.
    pub(crate) fn timed(&self, inputs: &Tensors) -> Result<TimedRuns> {
        let values = values(inputs)?;
        let start = Instant::now();
        let mut session = self.another(None)?;
        let made = start.elapsed();
        let timeout = self.ort.timeout;
        // Once for all runs: it takes the time of a small model.
        #[cfg(unix)]
        let watch = crash::Watch::new();
        let mut run = move || {
            #[cfg(unix)]
            let _watch = &watch;
            let options = fenced(|| Ok(RunOptions::new()?))?;
            let start = Instant::now();
            fenced(|| {
                deadline::within(timeout, &options, || {
                    session.run_with_options(borrowed(&values), &options)?;
                    Ok(())
                })
            })?;
            Ok(start.elapsed())
        };
        // The first run of a session allocates.
        run()?;
        Ok(TimedRuns {
            made: Some(made),
            run: Box::new(run),
        })
    }
}

/// Inputs as ONNX Runtime takes them, by name.
type Values = Vec<(String, DynValue)>;

/// The inputs as ONNX Runtime takes them.
fn values(inputs: &Tensors) -> Result<Values> {
    fenced(|| {
        inputs
            .iter()
            .map(|(name, input)| {
                let value = to_ort(input).with_context(|| format!("input {name:?}"))?;
                Ok((name.clone(), value))
            })
            .collect()
    })
}

fn borrowed(values: &Values) -> Vec<(&str, SessionInputValue<'_>)> {
    let values = values.iter();
    values
        .map(|(name, value)| (name.as_str(), value.into()))
        .collect()
}

/// Runs ONNX Runtime; a panic in its binding is an error, and a crash the process' last one.
fn fenced<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    #[cfg(unix)]
    let _watch = crash::Watch::new();
    let result = fence::catch(run);
    let result = result.map_err(|why| anyhow!("ort panicked, which is a defect: {why}"))?;
    result.map_err(message::readable)
}
