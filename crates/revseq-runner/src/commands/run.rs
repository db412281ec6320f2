//! `revseq run`.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::Style;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};

use super::data_set::Recording;
use super::inputs::{self, Sources, in_model, list};
use super::{Outcome, print_json};
use crate::backend::ort::Placement;
use crate::backend::profile::{NodeTime, Profile, median};
use crate::backend::{Engine, Runs, Session};
use crate::cli::{Format, RunArguments};
use crate::escape::printable;
use crate::model::{Bindings, Model, check_dims, read};
use crate::progress::Progress;
use crate::tensor::{self, Tensor, Tensors, npz, print};

/// How many nodes a profile names in text.
const NODES_TOLD: usize = 5;

/// Runs a model and prints or writes its outputs.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome> {
    let located = read::locate(&arguments.model)?;
    let model = Model::load(&located.model)?;
    let names = model.output_names();
    check_outputs(arguments, &names)?;
    let mut bindings = super::bindings(&arguments.inputs.dims)?;
    check_dims(&bindings, &model.input_symbols())?;
    let engine = Engine::open(&arguments.on)?;
    let model = engine.needed_of(model);
    let sources = Sources {
        data_set: located.data_sets.first().map(|set| set.inputs.as_slice()),
        ..Sources::new(&arguments.inputs)
    };
    let mut run = || -> Result<_> {
        let mut session = engine.load(&model)?.ready()?;
        let tensors = inputs::gather(&model, &sources, &mut bindings)?;
        let results = execute(arguments, &engine, &mut session, &tensors, &bindings)?;
        Ok((tensors, results))
    };
    let (tensors, mut results) = run().with_context(in_model(&located.model))?;
    for (name, file) in &arguments.outputs {
        if let Some(index) = names.iter().position(|output| output == name) {
            results.outputs[index].write(file, name)?;
        }
    }
    if let Some(archive) = &arguments.output_archive {
        let all = std::iter::zip(&names, &results.outputs);
        npz::write(archive, all.map(|(name, output)| (name.as_str(), output)))?;
    }
    if let Some(folder) = &arguments.save_test_data {
        let recording = Recording {
            model: &model,
            inputs: &tensors,
            outputs: &results.outputs,
            engine: &engine,
            tolerances: &BTreeMap::new(),
        };
        results.data_set = Some(recording.add_to(folder)?);
    }
    match arguments.format {
        Format::Text => print_text(arguments, &names, &results),
        Format::Json => print_json(&as_json(
            arguments,
            &engine,
            &located.model,
            &names,
            &results,
        )),
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
    if let Some(archive) = &arguments.output_archive {
        npz::check_ending(archive).context("--outputs")?;
    }
    Ok(())
}

/// The results of running a model.
struct Results {
    outputs: Vec<Tensor>,
    /// How long each run took, if that was asked for.
    times: Vec<Duration>,
    /// How long each node took, if that was asked for.
    profile: Option<Profile>,
    /// The provider of ONNX Runtime that ran each of our nodes.
    placements: Option<Vec<Placement>>,
    /// The GPU on which our nodes ran.
    gpu: Option<String>,
    /// The data set that was written.
    data_set: Option<PathBuf>,
}

/// Runs the model as often as asked.
fn execute(
    arguments: &RunArguments,
    engine: &Engine,
    session: &mut Session<'_>,
    tensors: &Tensors,
    bindings: &Bindings,
) -> Result<Results> {
    let runs = Runs {
        warmup: arguments.warmup,
        timed: arguments.repeat.unwrap_or(1),
    };
    let progress = Progress::new(runs.timed.into());
    progress.message("preparing");
    let placements = session.placements().map(<[Placement]>::to_vec);
    let mut prepared = session.prepare(tensors, bindings)?;
    let outputs = prepared.run(tensors)?;
    let mut times = Vec::new();
    if arguments.repeat.is_some() {
        progress.message("running");
        times = prepared.repeat(tensors, runs, || progress.step())?;
    }
    let mut profile = None;
    if arguments.profile {
        progress.message("profiling");
        profile = Some(prepared.profile(tensors, runs.timed, || progress.step())?);
    }
    Ok(Results {
        outputs,
        times,
        profile,
        placements,
        gpu: engine.gpu_name(),
        data_set: None,
    })
}

/// The times of several runs.
struct Summary {
    median: Duration,
    minimum: Duration,
    maximum: Duration,
    /// The 90th and 99th percentiles.
    p90: Duration,
    p99: Duration,
}

fn summary(times: &[Duration]) -> Option<Summary> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let percentile = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
    Some(Summary {
        minimum: *sorted.first()?,
        maximum: *sorted.last()?,
        median: median(times),
        p90: percentile(90),
        p99: percentile(99),
    })
}

/// An operator's share of a profile.
struct OperatorTime<'a> {
    operator: &'a str,
    nodes: usize,
    /// In each run.
    times: Vec<Duration>,
}

/// The operators of a profile, the slowest first.
fn by_operator(nodes: &[NodeTime]) -> Vec<OperatorTime<'_>> {
    let mut operators: BTreeMap<&str, OperatorTime<'_>> = BTreeMap::new();
    for node in nodes {
        let sum = operators.entry(&node.operator).or_insert(OperatorTime {
            operator: &node.operator,
            nodes: 0,
            times: vec![Duration::ZERO; node.times.len()],
        });
        sum.nodes += 1;
        for (sum, time) in std::iter::zip(&mut sum.times, &node.times) {
            *sum += *time;
        }
    }
    let mut operators: Vec<_> = operators.into_values().collect();
    operators.sort_by_cached_key(|operator| std::cmp::Reverse(median(&operator.times)));
    operators
}

fn print_profile(out: &mut impl Write, profile: &Profile) -> Result<()> {
    let bold = Style::new().bold();
    let operators = by_operator(&profile.nodes);
    let total: Duration = operators.iter().map(|it| median(&it.times)).sum();
    let share = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-12);
    let width = operators
        .iter()
        .map(|it| printable(it.operator).len())
        .max();
    let width = width.unwrap_or(0).max("operator".len());
    writeln!(
        out,
        "profiled runs: median {:.3?}, of which operators take {total:.3?}",
        median(&profile.runs)
    )?;
    writeln!(
        out,
        "{bold}{:width$}  nodes  time of a run  share{bold:#}",
        "operator"
    )?;
    for operator in &operators {
        let OperatorTime {
            operator,
            nodes,
            times,
        } = operator;
        let time = median(times);
        let (each, share) = (format!("{time:.3?}"), share(time));
        let operator = printable(operator);
        writeln!(
            out,
            "{operator:width$}  {nodes:>5}  {each:>13}  {share:>4.1}%"
        )?;
    }
    writeln!(out, "{bold}slowest nodes{bold:#}")?;
    for node in profile.nodes.iter().take(NODES_TOLD) {
        let time = node.median();
        let (each, share) = (format!("{time:.3?}"), share(time));
        let provider = node.provider.as_deref().map(|name| format!(" on {name}"));
        let provider = provider.unwrap_or_default();
        let whole = median(&node.times_with_inner);
        let inner = match whole > time {
            true => format!(", {whole:.3?} with the nodes in it"),
            false => String::new(),
        };
        writeln!(
            out,
            "  {each} {share:.1}%  {} {:?}{provider}{inner}",
            printable(&node.operator),
            node.node
        )?;
    }
    Ok(())
}

/// Whether outputs are printed, as nothing else becomes of them.
fn prints_outputs(arguments: &RunArguments) -> bool {
    arguments.outputs.is_empty() && arguments.output_archive.is_none()
}

fn print_text(arguments: &RunArguments, names: &[String], results: &Results) -> Result<()> {
    let Results {
        outputs,
        times,
        profile,
        placements,
        gpu,
        data_set,
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
                    "{bold}{}{bold:#}: {} -> {}",
                    printable(name),
                    output.type_and_shape(),
                    file.display()
                )?;
            }
            None if prints_outputs(arguments) => {
                let name = printable(name);
                writeln!(out, "{bold}{name}{bold:#}: {}", output.type_and_shape())?;
                writeln!(out, "{}", print::values(output, "  "))?;
            }
            None => {}
        }
    }
    if let Some(archive) = &arguments.output_archive {
        writeln!(out, "{} outputs -> {}", outputs.len(), archive.display())?;
    }
    out.flush()?;
    if let Some(set) = data_set {
        writeln!(anstream::stderr(), "recorded in {}", set.display())?;
    }
    super::say_gpu(gpu.as_deref())?;
    for placement in placements.iter().flatten() {
        writeln!(anstream::stderr(), "{placement}")?;
    }
    if let Some(Summary {
        median,
        minimum,
        maximum,
        p90,
        p99,
    }) = summary(times)
    {
        let plural = if times.len() == 1 { "run" } else { "runs" };
        writeln!(
            anstream::stderr(),
            "{} {plural}: median {median:.3?}, min {minimum:.3?}, max {maximum:.3?}, p90 {p90:.3?}, \
             p99 {p99:.3?}",
            times.len()
        )?;
        if cfg!(debug_assertions) {
            writeln!(
                anstream::stderr(),
                "a development build, many times slower: time one built with --release"
            )?;
        }
    }
    if let Some(profile) = profile {
        print_profile(&mut anstream::stderr().lock(), profile)?;
    }
    Ok(())
}

fn as_json(
    arguments: &RunArguments,
    engine: &Engine,
    model: &Path,
    names: &[String],
    results: &Results,
) -> Json {
    let Results {
        outputs,
        times,
        profile,
        placements,
        gpu,
        data_set,
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
                None if prints_outputs(arguments) => {
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
        "backend": engine.name(),
        "outputs": outputs,
    });
    if let Some(gpu) = gpu {
        json["device"] = gpu.as_str().into();
    }
    if let Some(placements) = placements {
        json["nodes"] = placements.iter().map(super::placement_json).collect();
    }
    if let Some(archive) = &arguments.output_archive {
        json["file"] = archive.display().to_string().into();
    }
    if let Some(set) = data_set {
        json["data_set"] = set.display().to_string().into();
    }
    if let Some(profile) = profile {
        let nodes = profile.nodes.iter().map(|node| {
            json!({
                "operator": node.operator,
                "node": node.node,
                "provider": node.provider,
                "calls": node.calls,
                "median_seconds": node.median().as_secs_f64(),
                "median_seconds_with_inner": median(&node.times_with_inner).as_secs_f64(),
                "seconds": node.times.iter().sum::<Duration>().as_secs_f64(),
            })
        });
        json["profile"] = json!({
            "runs": profile.runs.len(),
            "median_seconds": median(&profile.runs).as_secs_f64(),
            "nodes": nodes.collect::<Json>(),
        });
    }
    if let Some(Summary {
        median,
        minimum,
        maximum,
        p90,
        p99,
    }) = summary(times)
    {
        json["timing"] = json!({
            "runs": times.len(),
            "median_seconds": median.as_secs_f64(),
            "min_seconds": minimum.as_secs_f64(),
            "max_seconds": maximum.as_secs_f64(),
            "p90_seconds": p90.as_secs_f64(),
            "p99_seconds": p99.as_secs_f64(),
        });
    }
    json
}
