//! `revseq run`.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anstyle::Style;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value as Json, json};

use super::inputs::{self, Sources, Tensors, in_model, list};
use super::{Outcome, print_json};
use crate::backend::gpu::Gpu;
use crate::backend::ort::Placement;
use crate::backend::{ort, tract};
use crate::cli::{Format, RunArguments};
use crate::model::{Bindings, Model, check_dims, read};
use crate::progress::Progress;
use crate::tensor::{self, Tensor, print};

/// Runs a model and prints or writes its outputs.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome> {
    let located = read::locate(&arguments.model)?;
    let model = Model::load(&located.model)?;
    let names: Vec<String> = model
        .graph()
        .output
        .iter()
        .map(|output| output.name.clone())
        .collect();
    check_outputs(arguments, &names)?;
    let mut bindings = super::bindings(&arguments.dims)?;
    check_dims(&bindings, &model.input_symbols())?;
    let runtime = super::runtime(arguments.backend, &arguments.on.device, &arguments.ort)?;
    let gpu = super::gpu(arguments.backend, &arguments.on.device)?;
    let lacks = match &runtime {
        None => tract::lacks(&model, gpu.as_ref()),
        Some(runtime) => ort::lacks(runtime, &model),
    };
    let lacks = lacks.with_context(in_model(&located.model))?;
    if let Some(reason) = lacks {
        bail!("{}: {reason}", located.model.display());
    }
    let sources = Sources {
        files: &arguments.inputs,
        fill: arguments.fill,
        data_set: located.data_sets.first().map(|set| set.inputs.as_slice()),
    };
    let tensors =
        inputs::gather(&model, &sources, &mut bindings).with_context(in_model(&located.model))?;
    let results = execute(
        arguments,
        (runtime.as_ref(), gpu.as_ref()),
        &model,
        &tensors,
        &bindings,
    )
    .with_context(in_model(&located.model))?;
    for (name, file) in &arguments.outputs {
        if let Some(index) = names.iter().position(|output| output == name) {
            results.outputs[index].write(file, name)?;
        }
    }
    match arguments.format {
        Format::Text => print_text(arguments, &names, &results),
        Format::Json => print_json(&as_json(arguments, &located.model, &names, &results)),
    }?;
    Ok(Outcome::Done)
}

fn check_outputs(arguments: &RunArguments, names: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    for (name, file) in &arguments.outputs {
        ensure!(
            names.contains(name),
            "--output {name}: there is no output of that name; the outputs are {}",
            list(names)
        );
        ensure!(seen.insert(name), "--output {name}: it is given twice");
        tensor::check_ending(file).with_context(|| format!("--output {name}"))?;
    }
    Ok(())
}

/// What running a model gives.
struct Results {
    outputs: Vec<Tensor>,
    /// How long each run took, if that was asked for.
    times: Vec<Duration>,
    /// Which provider of ONNX Runtime ran each node of ours.
    placements: Option<Vec<Placement>>,
    /// The GPU on which the nodes of ours ran.
    gpu: Option<String>,
}

/// Runs the model as often as asked.
fn execute(
    arguments: &RunArguments,
    (runtime, gpu): (Option<&ort::Runtime>, Option<&Gpu>),
    model: &Model,
    tensors: &Tensors,
    bindings: &Bindings,
) -> Result<Results> {
    let runs = arguments.repeat.unwrap_or(1);
    let progress = Progress::new(runs.into());
    progress.message("preparing");
    let mut times = Vec::new();
    match runtime {
        None => {
            let prepared = tract::prepare(model, tensors, bindings, gpu)?;
            let outputs = prepared.run(tensors)?;
            if arguments.repeat.is_some() {
                progress.message("running");
                let values = prepared.values(tensors)?;
                for _ in 0..runs {
                    let values = values.clone();
                    let start = Instant::now();
                    let outputs = prepared.run_values(values)?;
                    times.push(start.elapsed());
                    drop(outputs);
                    progress.step();
                }
            }
            Ok(Results {
                outputs,
                times,
                placements: None,
                gpu: super::gpu_name(None, gpu),
            })
        }
        Some(runtime) => {
            let mut prepared = ort::prepare(runtime, model)?.ready()?;
            let outputs = prepared.run(tensors)?;
            if arguments.repeat.is_some() {
                progress.message("running");
                let values = ort::values(tensors)?;
                let mut timed = prepared.without_log(runtime, model)?;
                // The first run of a session allocates.
                timed.run_values(&values)?;
                for _ in 0..runs {
                    let start = Instant::now();
                    timed.run_values(&values)?;
                    times.push(start.elapsed());
                    progress.step();
                }
            }
            Ok(Results {
                outputs,
                times,
                placements: Some(prepared.placements),
                gpu: super::gpu_name(Some(runtime), None),
            })
        }
    }
}

/// The times of several runs.
struct Summary {
    median: Duration,
    minimum: Duration,
    maximum: Duration,
}

fn summary(times: &[Duration]) -> Option<Summary> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => (*sorted.get(middle.checked_sub(1)?)? + *sorted.get(middle)?) / 2,
        _ => sorted[middle],
    };
    Some(Summary {
        median,
        minimum: *sorted.first()?,
        maximum: *sorted.last()?,
    })
}

fn print_text(arguments: &RunArguments, names: &[String], results: &Results) -> Result<()> {
    let Results {
        outputs,
        times,
        placements,
        gpu,
    } = results;
    let bold = Style::new().bold();
    let mut out = anstream::stdout().lock();
    for (name, output) in std::iter::zip(names, outputs) {
        let file = arguments
            .outputs
            .iter()
            .find(|(written, _)| written == name);
        match file {
            Some((_, file)) => {
                writeln!(
                    out,
                    "{bold}{name}{bold:#}: {} -> {}",
                    output.type_and_shape(),
                    file.display()
                )?;
            }
            None if arguments.outputs.is_empty() => {
                writeln!(out, "{bold}{name}{bold:#}: {}", output.type_and_shape())?;
                writeln!(out, "{}", print::values(output, "  "))?;
            }
            None => {}
        }
    }
    out.flush()?;
    super::say_gpu(gpu.as_deref())?;
    for placement in placements.iter().flatten() {
        writeln!(anstream::stderr(), "{placement}")?;
    }
    if let Some(Summary {
        median,
        minimum,
        maximum,
    }) = summary(times)
    {
        let plural = if times.len() == 1 { "run" } else { "runs" };
        writeln!(
            anstream::stderr(),
            "{} {plural}: median {median:.3?}, min {minimum:.3?}, max {maximum:.3?}",
            times.len()
        )?;
    }
    Ok(())
}

fn as_json(arguments: &RunArguments, model: &Path, names: &[String], results: &Results) -> Json {
    let Results {
        outputs,
        times,
        placements,
        gpu,
    } = results;
    let outputs: Vec<Json> = std::iter::zip(names, outputs)
        .filter_map(|(name, output)| {
            let mut json = json!({
                "name": name,
                "type": output.element_type().name(),
                "shape": output.shape(),
            });
            let file = arguments
                .outputs
                .iter()
                .find(|(written, _)| written == name);
            match file {
                Some((_, file)) => json["file"] = file.display().to_string().into(),
                None if arguments.outputs.is_empty() => {
                    json["values"] = (0..output.len())
                        .map(|index| output.value(index).json())
                        .collect();
                }
                None => return None,
            }
            Some(json)
        })
        .collect();
    let mut json = json!({
        "model": model.display().to_string(),
        "backend": arguments.backend.name(),
        "outputs": outputs,
    });
    if let Some(gpu) = gpu {
        json["device"] = gpu.as_str().into();
    }
    if let Some(placements) = placements {
        json["nodes"] = placements.iter().map(super::placement_json).collect();
    }
    if let Some(Summary {
        median,
        minimum,
        maximum,
    }) = summary(times)
    {
        json["timing"] = json!({
            "runs": times.len(),
            "median_seconds": median.as_secs_f64(),
            "min_seconds": minimum.as_secs_f64(),
            "max_seconds": maximum.as_secs_f64(),
        });
    }
    json
}
