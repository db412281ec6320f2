//! Models on ONNX Runtime, with the execution provider of this project.

mod convert;
pub(crate) mod library;
mod placement;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::DynValue;
use revseq_graph::Operator;
use revseq_kernels::Device as KernelDevice;

use crate::cli::{Ep, OrtArguments};
use crate::fence;
use crate::model::check::canonical_domain;
use crate::model::values::{ValueType, element_types};
use crate::model::{Bindings, Model, walk};
use crate::tensor::{Tensor, pb};
use convert::{from_ort, has_type, to_ort};
use library::Found;
use placement::{Log, ModelNode};

pub(crate) use placement::Placement;

/// The provider's name.
pub(crate) const EP: &str = "RevSeqExecutionProvider";

/// The name under which its library is registered.
const REGISTRATION: &str = "revseq";

/// ONNX Runtime, loaded, with the provider's library if that is asked for.
///
/// There can be one in a process.
pub(crate) struct Runtime {
    environment: Environment,
    pub(crate) library: Found,
    /// As in `1.31.1`; `None` if the library's file does not tell.
    version: Option<String>,
    pub(crate) ep: Option<Found>,
    /// What the provider is to run on.
    device: KernelDevice,
}

impl Runtime {
    /// Loads ONNX Runtime and the provider's library.
    ///
    /// # Errors
    /// One of them is not there, or does not load; ONNX Runtime is too old;
    /// there is no provider to run on a device.
    pub(crate) fn open(arguments: &OrtArguments, device: &KernelDevice) -> Result<Self> {
        ensure!(
            arguments.ep() == Ep::Revseq || *device == KernelDevice::Cpu,
            "--device {device} is for this project's provider, and --ep none leaves it out; \
             ONNX Runtime's own kernels run on the CPU"
        );
        let mut runtime = Self::load(arguments.ort_lib.as_deref())?;
        runtime.device = device.clone();
        if arguments.ep() == Ep::Revseq {
            runtime.register(library::ep(arguments.ep_lib.as_deref())?)?;
        }
        Ok(runtime)
    }

    /// Loads ONNX Runtime alone.
    pub(crate) fn load(option: Option<&Path>) -> Result<Self> {
        let library = library::onnxruntime(option)?;
        let version = library::version(&library.path);
        let loaded = fenced(|| {
            // ONNX Runtime's own lines would go to standard error; its errors come back.
            let silence = Arc::new(|_: LogLevel, _: &str, _: &str, _: &str, _: &str| {});
            let environment = ort::init_from(&library.path)
                .map_err(|error| match error {
                    ort::LoadDynamicError::BadVersion { version_str, .. } => anyhow!(
                        "it is ONNX Runtime {version_str}, and 1.{} or later is needed",
                        ort::MINOR_VERSION
                    ),
                    error => error.into(),
                })?
                .with_logger(silence)
                .with_telemetry(false)
                .build()?;
            Ok(environment)
        });
        let environment = loaded.with_context(|| {
            format!(
                "cannot use {} (from {}) as ONNX Runtime; {}",
                library.path.display(),
                library.how,
                library::HOW_TO_GET
            )
        })?;
        Ok(Self {
            environment,
            library,
            version,
            ep: None,
            device: KernelDevice::Cpu,
        })
    }

    /// Registers the provider's library.
    pub(crate) fn register(&mut self, ep: Found) -> Result<()> {
        let register = || -> Result<()> {
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
        self.ep = Some(ep);
        Ok(())
    }

    /// The environment of all sessions.
    #[cfg(feature = "bench")]
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The device that the provider is to run on, if it is not the CPU.
    pub(crate) fn gpu(&self) -> Option<&KernelDevice> {
        (self.device != KernelDevice::Cpu).then_some(&self.device)
    }

    /// The version, or that it is not known.
    pub(crate) fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("of unknown version")
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
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ep: String,
    pub(crate) ep_vendor: String,
    /// CPU, GPU or NPU.
    pub(crate) kind: String,
    pub(crate) vendor: String,
}

/// What ONNX Runtime itself lacks for a model; `None` if nothing is known.
///
/// Found by looking at the model alone: an error on the way is never a lack.
pub(crate) fn lacks(runtime: &Runtime, model: &Model) -> Result<Option<String>> {
    let mut lacking: Vec<String> = Vec::new();
    if runtime.ep.is_none() {
        walk::walk(model, &Bindings::new(), |site| {
            let operator = site.operator();
            let is_ours = Operator::is_known(&site.node.domain, &site.node.op_type)
                && !canonical_domain(&site.node.domain).is_empty();
            if is_ours && !site.is_dead && !site.is_call && !lacking.contains(&operator) {
                lacking.push(operator);
            }
        })?;
    }
    let types = element_types(model)?.into_iter();
    lacking.extend(types.filter(|&code| !has_type(code)).map(pb::type_name));
    if let Some(input) = model
        .inputs()
        .into_iter()
        .find(|input| input.value_type.element_type.is_none())
    {
        bail!(
            "input {:?} is no tensor, and only tensors can be given",
            input.name
        );
    }
    Ok((!lacking.is_empty()).then(|| format!("{runtime} has no {}", lacking.join(", "))))
}

/// A model made ready.
pub(crate) struct Prepared {
    session: Session,
    /// The outputs' names and types, as far as the model declares them.
    outputs: Vec<(String, ValueType)>,
    /// Where the nodes of ours are.
    pub(crate) placements: Vec<Placement>,
    /// Whether constants had to be left as they are.
    is_unfolded: bool,
}

/// What comes of making a model ready.
pub(crate) enum Preparation {
    Ready(Box<Prepared>),
    /// This ONNX Runtime takes no model of this opset or IR version.
    Refused(String),
}

impl Preparation {
    /// The model, or as an error that it is refused.
    pub(crate) fn ready(self) -> Result<Box<Prepared>> {
        match self {
            Self::Ready(prepared) => Ok(prepared),
            Self::Refused(reason) => bail!(reason),
        }
    }
}

/// Makes a model ready.
///
/// # Errors
/// What ONNX Runtime or the provider refuses, and a node of ours that the
/// provider does not run, unless it is one of strings or there is no provider.
pub(crate) fn prepare(runtime: &Runtime, model: &Model) -> Result<Preparation> {
    let prepared = place(runtime, model)?;
    if let Preparation::Ready(prepared) = &prepared
        && runtime.ep.is_some()
    {
        placement::check(&prepared.placements)?;
    }
    Ok(prepared)
}

/// Makes a model ready, wherever its nodes are run.
///
/// # Errors
/// What ONNX Runtime or the provider refuses.
pub(crate) fn place(runtime: &Runtime, model: &Model) -> Result<Preparation> {
    let nodes = nodes(model)?;
    let mut prepared = None;
    // ONNX Runtime computes what depends on constants alone with its own
    // kernels, before it asks any provider. A node of ours is not to be lost so.
    for is_unfolded in [false, true] {
        let log = Log::default();
        let session = match session(runtime, model, is_unfolded, Some(&log)) {
            Ok(session) => session,
            Err(error) => {
                return match refusal(model, &error.to_string()) {
                    Some(reason) => Ok(Preparation::Refused(format!("{runtime} refuses {reason}"))),
                    None => Err(error.context(format!("{runtime} refuses the model"))),
                };
            }
        };
        let placements = placement::read(&log.take(), &nodes)?;
        let is_complete = runtime.ep.is_none()
            || (placements.len() == nodes.len() && placement::check(&placements).is_ok());
        prepared = Some(Prepared {
            session,
            outputs: declared_outputs(model),
            placements,
            is_unfolded,
        });
        if is_complete {
            break;
        }
    }
    let prepared = prepared.context("ONNX Runtime made no session")?;
    Ok(Preparation::Ready(Box::new(prepared)))
}

/// The nodes of ours that can run.
fn nodes(model: &Model) -> Result<Vec<ModelNode>> {
    let mut nodes = Vec::new();
    walk::walk(model, &Bindings::new(), |site| {
        let node = site.node;
        if Operator::is_known(&node.domain, &node.op_type) && !site.is_dead && !site.is_call {
            nodes.push((node.op_type.clone(), node.name.clone()));
        }
    })?;
    Ok(nodes)
}

fn declared_outputs(model: &Model) -> Vec<(String, ValueType)> {
    let outputs = model.graph().output.iter();
    outputs
        .map(|output| (output.name.clone(), ValueType::declared(output)))
        .collect()
}

/// A session; with a log, one that tells its placements there.
fn session(
    runtime: &Runtime,
    model: &Model,
    is_unfolded: bool,
    log: Option<&Log>,
) -> Result<Session> {
    let make = || -> ort::Result<Session> {
        let environment = &runtime.environment;
        let mut builder = Session::builder(environment)?;
        if let Some(log) = log {
            builder = builder
                .with_logger(log.logger())?
                .with_log_level(LogLevel::Verbose)?;
        }
        if runtime.ep.is_some() {
            let devices = environment
                .devices()
                .filter(|device| device.ep().is_ok_and(|ep| ep == EP));
            // A provider that is older than the option need not know it.
            let options: Vec<_> = runtime
                .gpu()
                .map(|device| (format!("{EP}.device"), device.to_string()))
                .into_iter()
                .collect();
            builder = builder.with_devices(devices, Some(&options))?;
        }
        if is_unfolded {
            builder = builder.with_disabled_optimizers("ConstantFolding")?;
        }
        builder.commit_from_file(&model.path)
    };
    fenced(|| Ok(make()?))
}

/// What of a model's versions ONNX Runtime does not take, if an error is about
/// that (onnxruntime/core/graph/model.cc) and the model is so indeed.
fn refusal(model: &Model, error: &str) -> Option<String> {
    let number = |start: &str| -> Option<i64> {
        let (_, rest) = error.split_once(start)?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    let opset = model
        .proto
        .opset_import
        .iter()
        .find(|import| canonical_domain(&import.domain).is_empty())
        .map_or(0, |import| import.version);
    if let Some(highest) = number("Current official support for domain ai.onnx is till opset ")
        && opset > highest
    {
        return Some(format!("opset {opset} of ONNX, it takes {highest} at most"));
    }
    let ir_version = model.proto.ir_version;
    if let Some(highest) = number("max supported IR version: ")
        && ir_version > highest
    {
        return Some(format!(
            "IR version {ir_version}, it takes {highest} at most"
        ));
    }
    None
}

impl Prepared {
    /// The same without a log that runs would write to, for taking times.
    pub(crate) fn without_log(&self, runtime: &Runtime, model: &Model) -> Result<Self> {
        Ok(Self {
            session: session(runtime, model, self.is_unfolded, None)?,
            outputs: self.outputs.clone(),
            placements: self.placements.clone(),
            is_unfolded: self.is_unfolded,
        })
    }

    /// Runs the model: its outputs, in order.
    ///
    /// # Errors
    /// What ONNX Runtime, or an operator of ours, refuses.
    pub(crate) fn run(&mut self, inputs: &BTreeMap<String, Tensor>) -> Result<Vec<Tensor>> {
        let values = values(inputs)?;
        let Self {
            session, outputs, ..
        } = self;
        fenced(|| {
            let mut options = RunOptions::new()?;
            options.set_log_level(LogLevel::Warning)?;
            let got = session.run_with_options(borrowed(&values), &options)?;
            outputs
                .iter()
                .map(|(name, declared)| {
                    let in_output = || format!("output {name:?}");
                    let value = got
                        .get(name)
                        .with_context(|| format!("ONNX Runtime gives no output {name:?}"))?;
                    let output = from_ort(value).with_context(in_output)?;
                    let code = output.element_type().onnx_code();
                    ensure!(
                        declared
                            .element_type
                            .is_none_or(|declared| declared == code),
                        "output {name:?} is {} in ONNX Runtime, but the model declares {declared}",
                        output.type_and_shape()
                    );
                    Ok(output)
                })
                .collect()
        })
    }

    /// Runs the model on inputs that [`values`] made; its outputs are dropped.
    pub(crate) fn run_values(&mut self, values: &Values) -> Result<()> {
        fenced(|| {
            self.session.run(borrowed(values))?;
            Ok(())
        })
    }
}

/// Inputs as ONNX Runtime takes them, by name.
pub(crate) type Values = Vec<(String, DynValue)>;

/// The inputs as ONNX Runtime takes them.
pub(crate) fn values(inputs: &BTreeMap<String, Tensor>) -> Result<Values> {
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

/// Runs ONNX Runtime; a panic in its binding is an error.
fn fenced<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    fence::catch(run).map_err(|message| anyhow!("ort panicked, which is a defect: {message}"))?
}
