//! What the command line does.

#[cfg(feature = "bench")]
mod bench;
mod completions;
mod devices;
mod dot;
pub(crate) mod inputs;
pub(crate) mod inspect;
mod report;
#[cfg(feature = "rewrite")]
mod rewrite;
mod run;
mod verify;

use std::io::Write;

use anyhow::{Result, ensure};
use revseq_kernels::Device;
use serde_json::{Value as Json, json};

use crate::backend::gpu::Gpu;
use crate::backend::ort::{Placement, Runtime};
use crate::cli::{Arguments, Backend, Command, OrtArguments};
use crate::model::Bindings;

/// How a command ended, if not with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Done,
    /// A comparison failed.
    Failed,
}

/// Runs a command.
pub(crate) fn run(arguments: Arguments) -> Result<Outcome> {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        #[cfg(feature = "rewrite")]
        Command::Rewrite(arguments) => rewrite::rewrite(&arguments),
        #[cfg(not(feature = "rewrite"))]
        Command::Rewrite(_) => anyhow::bail!(crate::not_built("rewriting")),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        #[cfg(feature = "bench")]
        Command::Bench(arguments) => bench::bench(&arguments),
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => anyhow::bail!(crate::not_built("benchmarks")),
        Command::Devices(arguments) => devices::devices(&arguments),
        Command::Completions { shell } => completions::completions(shell),
    }
}

/// The values of `--dim`.
fn bindings(dims: &[(String, u64)]) -> Result<Bindings> {
    let mut bindings = Bindings::new();
    for (name, size) in dims {
        ensure!(
            bindings.insert(name.clone(), *size).is_none(),
            "--dim {name}: it is given twice"
        );
    }
    Ok(bindings)
}

/// ONNX Runtime, if that is what models are to run on.
fn runtime(backend: Backend, device: &Device, arguments: &OrtArguments) -> Result<Option<Runtime>> {
    arguments.check(backend)?;
    match backend {
        Backend::Tract => Ok(None),
        Backend::Ort => Runtime::open(arguments, device).map(Some),
    }
}

/// The GPU for the nodes of ours in tract; in ONNX Runtime the provider opens its own.
fn gpu(backend: Backend, device: &Device) -> Result<Option<Gpu>> {
    match (backend, device) {
        (Backend::Tract, Device::Gpu(choice)) => Gpu::open(choice).map(Some),
        _ => Ok(None),
    }
}

/// The GPU that the nodes of ours run on, if it is one: an adapter in tract; in
/// ONNX Runtime what the provider is asked for, which opens that or fails.
fn gpu_name(runtime: Option<&Runtime>, gpu: Option<&Gpu>) -> Option<String> {
    match (runtime, gpu) {
        (Some(runtime), _) => runtime.gpu().map(ToString::to_string),
        (None, gpu) => gpu.map(ToString::to_string),
    }
}

/// Says which GPU the nodes of ours ran on, if one did.
fn say_gpu(name: Option<&str>) -> Result<()> {
    if let Some(name) = name {
        writeln!(
            anstream::stderr(),
            "ReverseSequence and ReverseSubsequences: on {name}"
        )?;
    }
    Ok(())
}

/// Which provider runs a node, as JSON.
fn placement_json(placement: &Placement) -> Json {
    let mut json = json!({
        "operator": placement.op_type,
        "name": placement.name,
        "provider": placement.provider,
    });
    if let Some(reason) = &placement.reason {
        json["reason"] = reason.as_str().into();
    }
    json
}

/// Prints JSON, indented, to standard output.
fn print_json(json: &Json) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string_pretty(json)?)?;
    Ok(out.flush()?)
}
