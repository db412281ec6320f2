//! Models on ONNX Runtime, with the execution provider of this project.

mod convert;
#[cfg(unix)]
mod crash;
mod deadline;
mod image;
pub(crate) mod library;
mod loader;
mod message;
mod placement;
mod profile;
mod version;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::DynValue;
use revseq_kernels::Device as KernelDevice;
use revseq_onnx::model::type_name;
use serde::Serialize;

use crate::backend::outputs::{self, Declared};
use crate::backend::profile::Profile;
use crate::backend::{Loaded, Runs};
use crate::chain;
use crate::cli::{EngineArguments, LibraryArguments, Optimization};
use crate::fence;
use crate::model::element_types::element_types;
use crate::model::{Input, Model, walk};
use crate::note::{detail, note};
use crate::tensor::{Tensor, Tensors};
use convert::{from_ort, has_type, to_ort};
use library::Found;
use placement::Log;

pub(crate) use placement::Placement;

/// The provider's name.
pub(crate) const EP: &str = "RevSeqExecutionProvider";

/// The name of ONNX Runtime's own provider.
const CPU_EP: &str = "CPUExecutionProvider";

/// The name under which its library is registered.
const REGISTRATION: &str = "revseq";

/// ONNX Runtime, loaded, with the provider's library if that is asked for.
///
/// There can be one in a process.
pub(crate) struct Runtime {
    environment: Environment,
    pub(crate) library: Found,
    /// Version number, such as `1.31.1`.
    version: String,
    pub(crate) ep: Option<Found>,
}

impl Runtime {
    /// Loads ONNX Runtime, and the provider's library if that is asked for.
    ///
    /// # Errors
    /// One of them is not there, or does not load; ONNX Runtime is too old.
    pub(crate) fn open(arguments: &LibraryArguments, with_ep: bool) -> Result<Self> {
        let mut runtime = Self::load(arguments.ort_lib.as_deref())?;
        if with_ep {
            runtime.register(library::ep(arguments.ep_lib.as_deref())?)?;
        }
        Ok(runtime)
    }

    /// Loads ONNX Runtime alone.
    pub(crate) fn load(option: Option<&Path>) -> Result<Self> {
        let library = library::onnxruntime(option)?;
        let loaded = fenced(|| {
            image::check(&library.path)?;
            // ONNX Runtime's own lines would go to standard error; its errors come back.
            let silence = Arc::new(|_: LogLevel, _: &str, _: &str, _: &str, _: &str| {});
            let environment = ort::init_from(&library.path)
                .map_err(|error| match error {
                    ort::LoadDynamicError::BadVersion { version_str, .. } => anyhow!(
                        "it is ONNX Runtime {version_str}, and 1.{} or later is needed",
                        ort::MINOR_VERSION
                    ),
                    error => match loader::refusal(&library.path) {
                        Some(why) => anyhow!(why),
                        None => error.into(),
                    },
                })?
                .with_logger(silence)
                .with_telemetry(false)
                .build()?;
            Ok((environment, version::of(&library.path)?))
        });
        let (environment, version) = loaded.map_err(|error| {
            anyhow!(
                "cannot use {} (from {}) as ONNX Runtime: {}; {}",
                library.path.display(),
                library.how,
                chain(&error),
                library::HOW_TO_GET
            )
        })?;
        let runtime = Self {
            environment,
            library,
            version,
            ep: None,
        };
        let Found { path, how } = &runtime.library;
        detail(format!("{runtime}: {} (from {how})", path.display()));
        Ok(runtime)
    }

    /// Registers the provider's library.
    pub(crate) fn register(&mut self, ep: Found) -> Result<()> {
        let register = || -> Result<()> {
            image::check(&ep.path)?;
            fenced(|| {
                self.environment
                    .register_ep_library(REGISTRATION, &ep.path)?;
                Ok(())
            })?;
            ensure!(
                self.devices()?.iter().any(|device| device.ep == EP),
                "it has no device for {EP}"
            );
            Ok(())
        };
        register().with_context(|| {
            format!(
                "{self} cannot use {} (from {}) as an execution provider",
                ep.path.display(),
                ep.how
            )
        })?;
        detail(format!("{EP}: {} (from {})", ep.path.display(), ep.how));
        self.ep = Some(ep);
        Ok(())
    }

    /// The environment of all sessions.
    #[cfg(feature = "bench")]
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The version number, such as `1.31.1`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The devices of all providers.
    pub(crate) fn devices(&self) -> Result<Vec<Device>> {
        fenced(|| {
            self.environment
                .devices()
                .map(|device| {
                    let hardware = device.hardware_device();
                    Ok(Device {
                        ep: device.ep()?.to_owned(),
                        ep_vendor: device.ep_vendor()?.to_owned(),
                        kind: format!("{:?}", hardware.ty()),
                        vendor: hardware.vendor()?.to_owned(),
                    })
                })
                .collect()
        })
    }
}

impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ONNX Runtime {}", self.version())
    }
}

/// A device of a provider.
#[derive(Debug, Serialize)]
pub(crate) struct Device {
    #[serde(skip)]
    pub(crate) ep: String,
    /// CPU, GPU or NPU.
    pub(crate) kind: String,
    pub(crate) vendor: String,
    #[serde(rename = "provider_vendor")]
    ep_vendor: String,
}

/// ONNX Runtime, and how models are to run on it.
pub(crate) struct Ort {
    runtime: Rc<Runtime>,
    /// Whether our nodes are meant for this project's provider.
    pub(super) with_ep: bool,
    /// The device of the provider.
    device: KernelDevice,
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
        let given = [
            arguments.gpu().map(|device| ("device", device.to_string())),
            arguments
                .lengths
                .map(|lengths| ("lengths", lengths.name().to_owned())),
        ];
        let own = given.into_iter().flatten();
        let own = own.map(|(key, value)| (key.to_owned(), value));
        let provider_options = own.chain(arguments.ort.provider_options.iter().cloned());
        Self {
            runtime,
            with_ep,
            device: arguments.device.clone(),
            threads: arguments.threads.map(usize::from),
            timeout: arguments.timeout,
            optimization: arguments.ort.optimization,
            session_options: arguments.ort.session_options.clone(),
            provider_options: provider_options
                .map(|(key, value)| (format!("{EP}.{key}"), value))
                .collect(),
        }
    }

    /// The device that the provider is to run on, if it is not the CPU.
    pub(crate) fn gpu(&self) -> Option<&KernelDevice> {
        (self.with_ep && self.device != KernelDevice::Cpu).then_some(&self.device)
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
        #[cfg(unix)]
        crash::name(&self.runtime.to_string(), &model.path);
        let mut prepared = self.place(model)?;
        if let Ok(prepared) = &mut prepared {
            placement::check(&prepared.placements, self.provider())?;
            prepared.placements.extend(self.loops(&prepared.session)?);
            for placement in &prepared.placements {
                let line = format!("{}: {placement}", model.path.display());
                match placement {
                    Placement {
                        reason: Some(_), ..
                    } => note(line),
                    Placement { to: Some(_), .. } => detail(line),
                    _ => {}
                }
            }
        }
        Ok(prepared)
    }

    /// The placements of loops and layers, if the provider is to run them.
    fn loops(&self, session: &Session) -> Result<Vec<Placement>> {
        let is_asked = |(key, value): &(String, String)| {
            let option = key.strip_prefix(EP).unwrap_or_default();
            matches!(
                (option, &**value),
                (".loops", "layers" | "steps") | (".layers", "on")
            )
        };
        if !self.with_ep || !self.provider_options.iter().any(is_asked) {
            return Ok(Vec::new());
        }
        fenced(|| {
            let report = revseq_ort::report(&self.runtime.environment, session)?;
            Ok(placement::of_loops(report, &revseq_ort::assigned(session)?))
        })
    }

    /// Prepares a model, whichever provider runs its nodes.
    ///
    /// # Errors
    /// The error of ONNX Runtime or the provider.
    fn place<'a>(&'a self, model: &'a Model) -> Result<Loaded<Executable<'a>>> {
        let runtime = &self.runtime;
        let nodes = walk::ours(model)?.len();
        let mut prepared = None;
        // ONNX Runtime folds constants with its own kernels before it asks any
        // provider. Our nodes must not be folded that way.
        for is_unfolded in [false, true] {
            let log = Log::default();
            let session = match self.session(model, is_unfolded, Observer::Log(&log)) {
                Ok(session) => session,
                Err(error) => {
                    return match message::refusal(model, &error.to_string()) {
                        Some(reason) => Ok(Err(format!("{runtime} refuses {reason}"))),
                        None => Err(error.context(format!("{runtime} refuses the model"))),
                    };
                }
            };
            let assigned = fenced(|| Ok(revseq_ort::assigned(&session)?))?;
            let mut providers = BTreeMap::new();
            for node in &assigned {
                *providers.entry(node.provider.clone()).or_default() += 1;
            }
            let placements = placement::of(assigned, &log.take());
            let is_complete = !self.with_ep
                || (placements.len() == nodes && placement::check(&placements, EP).is_ok());
            prepared = Some(Executable {
                ort: self,
                model,
                session,
                outputs: outputs::declared(model),
                placements,
                providers,
                is_unfolded,
            });
            if is_complete {
                break;
            }
        }
        let prepared = prepared.context("ONNX Runtime made no session")?;
        Ok(Ok(prepared))
    }

    /// A session.
    fn session(&self, model: &Model, is_unfolded: bool, observer: Observer<'_>) -> Result<Session> {
        let make = || -> ort::Result<Session> {
            let environment = &self.runtime.environment;
            let mut builder = Session::builder(environment)?;
            match observer {
                Observer::None => {}
                Observer::Log(log) => {
                    builder = builder
                        .with_logger(log.logger())?
                        .with_log_level(LogLevel::Verbose)?
                        .with_config_entry(revseq_ort::RECORD, "1")?;
                }
                Observer::Profile(path) => builder = builder.with_profiling(path)?,
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

/// Observes a session while it is created or run.
enum Observer<'a> {
    None,
    Log(&'a Log),
    /// Writes a profile into a file whose name begins so.
    Profile(&'a Path),
}

impl Executable<'_> {
    /// Another session of the model.
    fn observed(&self, observer: Observer<'_>) -> Result<Session> {
        self.ort.session(self.model, self.is_unfolded, observer)
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
        let mut session = self.observed(Observer::Profile(&path))?;
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
        let profile = profile::read(&text).context("cannot read ONNX Runtime's profile")?;
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

    /// Returns the time of each of some runs, after others that are not timed. They write to no log.
    pub(crate) fn repeat(
        &self,
        inputs: &Tensors,
        runs: Runs,
        step: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Duration>> {
        let values = values(inputs)?;
        let mut session = self.observed(Observer::None)?;
        let run = || {
            let options = fenced(|| Ok(RunOptions::new()?))?;
            let start = Instant::now();
            fenced(|| {
                deadline::within(self.ort.timeout, &options, || {
                    session.run_with_options(borrowed(&values), &options)?;
                    Ok(())
                })
            })?;
            Ok(start.elapsed())
        };
        // Once for all runs: it takes the time of a small model.
        #[cfg(unix)]
        let _watch = crash::Watch::new();
        // The first run of a session allocates.
        let warmup = runs.warmup.max(1);
        Runs { warmup, ..runs }.times(run, step)
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
