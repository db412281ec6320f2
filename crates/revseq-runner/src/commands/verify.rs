//! `revseq verify`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value as Json, json};
use walkdir::WalkDir;

use super::inputs::{self, Tensors};
use super::{Outcome, print_json};
use crate::backend::gpu::Gpu;
use crate::backend::ort::{self, Placement, Preparation, Runtime};
use crate::backend::tract;
use crate::chain;
use crate::cli::{Format, VerifyArguments};
use crate::model::read::{self, DataSet};
use crate::model::{Bindings, Model, walk};
use crate::progress::Progress;
use crate::tensor::compare::compare;

/// The operators whose results are exact: they move elements, pick among them,
/// flip a sign, or round as IEEE 754 tells. Everything else computes.
const EXACT: [&str; 44] = [
    "Abs",
    "And",
    "Cast",
    "CastLike",
    "Compress",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "DepthToSpace",
    "Equal",
    "Expand",
    "EyeLike",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "If",
    "Less",
    "LessOrEqual",
    "Loop",
    "Neg",
    "NonZero",
    "Not",
    "OneHot",
    "Or",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "ReverseSubsequences",
    "Scan",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
    "Xor",
];

/// What came of a test.
enum Verdict {
    Ok,
    /// With the first difference, or the error.
    Failed(String),
    /// With what the backend lacks.
    Skipped(String),
}

/// Runs every backend test below the paths.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<Outcome> {
    let tests = find(&arguments.paths)?;
    let runtime = super::runtime(arguments.backend, &arguments.on.device, &arguments.ort)?;
    let gpu = super::gpu(arguments.backend, &arguments.on.device)?;
    let progress = Progress::new(tests.len() as u64);
    let mut results = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut providers: BTreeMap<String, usize> = BTreeMap::new();
    for test in &tests {
        let path = test.display().to_string();
        progress.message(path.clone());
        let mut placements = Vec::new();
        let verdict = run_test(test, runtime.as_ref(), gpu.as_ref(), &mut placements);
        for placement in &placements {
            *providers.entry(placement.provider.clone()).or_default() += 1;
        }
        match verdict {
            Verdict::Ok => passed += 1,
            Verdict::Failed(_) => failed += 1,
            Verdict::Skipped(_) => skipped += 1,
        }
        match arguments.format {
            Format::Text => progress.suspend(|| print_verdict(&path, &verdict))?,
            Format::Json => {
                let mut json = as_json(&path, &verdict);
                if runtime.is_some() {
                    json["nodes"] = placements.iter().map(super::placement_json).collect();
                }
                results.push(json);
            }
        }
        progress.step();
    }
    drop(progress);
    let gpu_name = super::gpu_name(runtime.as_ref(), gpu.as_ref());
    match arguments.format {
        Format::Text => {
            let mut out = anstream::stdout().lock();
            writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped")?;
            out.flush()?;
            super::say_gpu(gpu_name.as_deref())?;
            for (provider, count) in &providers {
                let nodes = if *count == 1 { "node" } else { "nodes" };
                writeln!(
                    anstream::stderr(),
                    "{provider}: {count} {nodes} of ReverseSequence or ReverseSubsequences"
                )?;
            }
        }
        Format::Json => {
            let mut json = json!({
                "backend": arguments.backend.name(),
                "tests": results,
                "passed": passed,
                "failed": failed,
                "skipped": skipped,
            });
            if let Some(name) = gpu_name {
                json["device"] = name.into();
            }
            print_json(&json)?;
        }
    }
    Ok(if failed > 0 {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// The tests below some paths, each once, in order.
fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut tests: Vec<PathBuf> = Vec::new();
    for path in paths {
        let mut found = false;
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot search {}", path.display()))?;
            if entry.path().is_dir() && read::is_backend_test(entry.path()) {
                found = true;
                if !tests.iter().any(|test| test == entry.path()) {
                    tests.push(entry.into_path());
                }
            }
        }
        ensure!(
            found,
            "{}: there is no test in or below it: no folder with a model.onnx and test_data_set_<n>",
            path.display()
        );
    }
    Ok(tests)
}

/// Runs a test; tells the placements of its nodes in ONNX Runtime.
fn run_test(
    folder: &Path,
    runtime: Option<&Runtime>,
    gpu: Option<&Gpu>,
    placements: &mut Vec<Placement>,
) -> Verdict {
    match try_test(folder, runtime, gpu, placements) {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Failed(chain(&error)),
    }
}

fn try_test(
    folder: &Path,
    runtime: Option<&Runtime>,
    gpu: Option<&Gpu>,
    placements: &mut Vec<Placement>,
) -> Result<Verdict> {
    let model = Model::load(&folder.join("model.onnx"))?;
    let lacks = match runtime {
        None => tract::lacks(&model, gpu)?,
        Some(runtime) => ort::lacks(runtime, &model)?,
    };
    if let Some(reason) = lacks {
        return Ok(Verdict::Skipped(reason));
    }
    let exact = is_exact(&model)?;
    let mut prepared = match runtime
        .map(|runtime| ort::prepare(runtime, &model))
        .transpose()?
    {
        None => None,
        Some(Preparation::Refused(reason)) => return Ok(Verdict::Skipped(reason)),
        Some(Preparation::Ready(prepared)) => Some(prepared),
    };
    if let Some(prepared) = &prepared {
        placements.clone_from(&prepared.placements);
    }
    for set in read::data_sets(folder)? {
        run_set(&model, &set, exact, prepared.as_deref_mut(), gpu)
            .with_context(|| set.name.clone())?;
    }
    Ok(Verdict::Ok)
}

/// Whether every output has to be the expected one bit for bit.
fn is_exact(model: &Model) -> Result<bool> {
    let mut exact = true;
    walk::walk(model, &Bindings::new(), |site| {
        let integral = || {
            site.outputs.iter().all(|output| {
                output
                    .known_element_type()
                    .is_some_and(|element_type| !is_float(element_type))
            })
        };
        if !site.is_call && !EXACT.contains(&site.node.op_type.as_str()) && !integral() {
            exact = false;
        }
    })?;
    Ok(exact)
}

fn is_float(element_type: revseq_graph::ElementType) -> bool {
    use revseq_kernels::DataType;
    match element_type {
        revseq_graph::ElementType::String => false,
        revseq_graph::ElementType::Fixed(data_type) => matches!(
            data_type,
            DataType::Float16
                | DataType::Bfloat16
                | DataType::Float32
                | DataType::Float64
                | DataType::Complex64
                | DataType::Complex128
        ),
    }
}

/// Runs a model on a data set: in ONNX Runtime if it is prepared there.
fn run_set(
    model: &Model,
    set: &DataSet,
    exact: bool,
    prepared: Option<&mut ort::Prepared>,
    gpu: Option<&Gpu>,
) -> Result<()> {
    let declared = model.inputs();
    let names: Vec<String> = declared
        .iter()
        .filter(|input| !input.optional)
        .map(|input| input.name.clone())
        .collect();
    let given = inputs::read_data_set(&set.inputs, &names)?;
    if let Some(missing) = names.iter().find(|name| !given.contains_key(*name)) {
        bail!("it has nothing for input {missing:?}");
    }
    let outputs: Vec<String> = model
        .graph()
        .output
        .iter()
        .map(|output| output.name.clone())
        .collect();
    let expected = inputs::read_data_set(&set.outputs, &outputs)?;
    if let Some(missing) = outputs.iter().find(|name| !expected.contains_key(*name)) {
        bail!("it does not say what to expect of output {missing:?}");
    }
    let mut bindings = Bindings::new();
    inputs::bind(&declared, &given, &mut bindings)?;
    let got = match prepared {
        None => tract::prepare(model, &given, &bindings, gpu)?.run(&given)?,
        Some(prepared) => prepared.run(&given)?,
    };
    let got: Tensors = std::iter::zip(outputs.iter().cloned(), got).collect();
    for name in &outputs {
        if let (Some(expected), Some(got)) = (expected.get(name), got.get(name))
            && let Err(difference) = compare(expected, got, exact)
        {
            bail!("output {name}{difference}");
        }
    }
    Ok(())
}

fn print_verdict(path: &str, verdict: &Verdict) -> Result<()> {
    let style = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let mut out = anstream::stdout().lock();
    match verdict {
        Verdict::Ok => {
            let green = style(AnsiColor::Green);
            writeln!(out, "{path}: {green}ok{green:#}")?;
        }
        Verdict::Failed(why) => {
            let red = style(AnsiColor::Red).bold();
            writeln!(out, "{path}: {red}FAILED{red:#}: {why}")?;
        }
        Verdict::Skipped(why) => {
            let yellow = style(AnsiColor::Yellow);
            writeln!(out, "{path}: {yellow}skipped{yellow:#}: {why}")?;
        }
    }
    Ok(out.flush()?)
}

fn as_json(path: &str, verdict: &Verdict) -> Json {
    match verdict {
        Verdict::Ok => json!({ "path": path, "result": "ok" }),
        Verdict::Failed(why) => json!({ "path": path, "result": "failed", "reason": why }),
        Verdict::Skipped(why) => json!({ "path": path, "result": "skipped", "reason": why }),
    }
}
