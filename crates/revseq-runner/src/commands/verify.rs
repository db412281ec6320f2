//! `revseq verify`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use walkdir::WalkDir;

use super::tolerance::Tolerances;
use super::{Outcome, data_set, junit, print_json};
use crate::backend::ort::Placement;
use crate::backend::{Engine, Loaded, Session};
use crate::chain;
use crate::cli::{VerifyArguments, VerifyFormat};
use crate::model::Model;
use crate::model::read::{self, DataSet};
use crate::progress::Progress;
use crate::tensor::compare::compare;

/// A model and its data sets.
#[derive(Clone, Debug, PartialEq)]
struct Test {
    /// What is shown of it.
    path: PathBuf,
    model: PathBuf,
    /// The folder of the data sets.
    data: PathBuf,
}

/// What came of a test.
pub(super) enum Verdict {
    Ok,
    /// With what differed, and is expected from now on.
    Updated(String),
    /// With the differences, or the error.
    Failed(String),
    /// With what the backend lacks.
    Skipped(String),
}

impl Verdict {
    fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Updated(_) => "updated",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Ok => None,
            Self::Updated(why) | Self::Failed(why) | Self::Skipped(why) => Some(why),
        }
    }
}

/// A test that was run.
pub(super) struct Tested {
    pub(super) path: String,
    pub(super) verdict: Verdict,
    pub(super) time: Duration,
    placements: Vec<Placement>,
}

/// Runs every test below the paths.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<Outcome> {
    let tests = find(&arguments.paths)?;
    let engine = Engine::open(&arguments.on)?;
    let progress = Progress::new(tests.len() as u64);
    let mut results = Vec::new();
    for test in &tests {
        let path = test.path.display().to_string();
        progress.message(path.clone());
        let start = Instant::now();
        let mut placements = Vec::new();
        let verdict = run_test(test, &engine, arguments, &mut placements)
            .unwrap_or_else(|error| Verdict::Failed(chain(&error)));
        if arguments.format == VerifyFormat::Text {
            progress.suspend(|| print_verdict(&path, &verdict))?;
        }
        results.push(Tested {
            path,
            verdict,
            time: start.elapsed(),
            placements,
        });
        progress.step();
    }
    drop(progress);
    match arguments.format {
        VerifyFormat::Text => print_counts(&engine, &results)?,
        VerifyFormat::Json => print_json(&as_json(&engine, &results))?,
        VerifyFormat::Junit => {
            let mut out = std::io::stdout().lock();
            out.write_all(junit::render(&results).as_bytes())?;
            out.flush()?;
        }
    }
    Ok(if count(&results, "failed") > 0 {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// How many tests had a result of this name.
fn count(results: &[Tested], name: &str) -> usize {
    let results = results.iter();
    results
        .filter(|tested| tested.verdict.name() == name)
        .count()
}

/// The tests below some paths, each once, in order.
fn find(paths: &[PathBuf]) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = Vec::new();
    for path in paths {
        let mut found = false;
        let mut add = |test: Test| {
            found = true;
            if !tests.contains(&test) {
                tests.push(test);
            }
        };
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot search {}", path.display()))?;
            // What is named itself, not found in a folder.
            let is_named = entry.depth() == 0;
            let path = entry.into_path();
            if path.is_dir() && read::is_backend_test(&path) {
                add(Test {
                    model: path.join("model.onnx"),
                    data: path.clone(),
                    path,
                });
            } else if path.extension().is_some_and(|ending| ending == "onnx") {
                let data = read::data_folder(&path);
                // A model.onnx that is found is its folder's test.
                let is_folder_s = path.file_name().is_some_and(|name| name == "model.onnx");
                if (is_named || !is_folder_s) && read::has_data_sets(&data) {
                    add(Test {
                        model: path.clone(),
                        data,
                        path,
                    });
                }
            }
        }
        ensure!(
            found,
            "{}: there is no test in or below it: neither a folder with a model.onnx and \
             test_data_set_<n>, nor a NAME.onnx with a NAME.snapshots that has some; \
             `revseq snapshot` records one",
            path.display()
        );
    }
    Ok(tests)
}

/// Runs a test; tells the placements of its nodes in ONNX Runtime.
fn run_test(
    test: &Test,
    engine: &Engine,
    arguments: &VerifyArguments,
    placements: &mut Vec<Placement>,
) -> Result<Verdict> {
    let model = Model::load(&test.model)?;
    let mut session = match engine.load(&model)? {
        Loaded::Ready(session) => session,
        Loaded::Refused(reason) => return Ok(Verdict::Skipped(reason)),
    };
    placements.extend_from_slice(session.placements().unwrap_or_default());
    let tolerances = Tolerances::new(&arguments.tolerance, &model)?;
    let mut differences = Vec::new();
    for set in read::data_sets(&test.data)? {
        let differ = run_set(&mut session, &model, &set, &tolerances, arguments.update)
            .with_context(|| set.name.clone())?;
        let differ = differ.into_iter();
        differences.extend(differ.map(|difference| format!("{}: {difference}", set.name)));
    }
    Ok(match (differences.join("; "), arguments.update) {
        (all, _) if all.is_empty() => Verdict::Ok,
        (all, true) => Verdict::Updated(all),
        (all, false) => Verdict::Failed(all),
    })
}

/// Runs a model on a data set: how each output differs that does.
fn run_set(
    session: &mut Session<'_>,
    model: &Model,
    set: &DataSet,
    tolerances: &Tolerances<'_>,
    update: bool,
) -> Result<Vec<String>> {
    let (inputs, bindings) = data_set::inputs(model, set)?;
    let expected = data_set::outputs(model, set)?;
    let recorded = data_set::tolerances(set)?;
    let got = session.run(&inputs, &bindings)?;
    let mut differences = Vec::new();
    for (name, got) in std::iter::zip(model.output_names(), &got) {
        let tolerance = tolerances.of(&name, &recorded);
        if let Err(difference) = compare(&expected[&name], got, tolerance) {
            differences.push(format!("output {name}{difference}"));
        }
    }
    if update && !differences.is_empty() {
        data_set::update(set, model, &got)?;
    }
    Ok(differences)
}

fn print_verdict(path: &str, verdict: &Verdict) -> Result<()> {
    let style = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let (style, name) = match verdict {
        Verdict::Ok => (style(AnsiColor::Green), "ok"),
        Verdict::Updated(_) => (style(AnsiColor::Cyan), "updated"),
        Verdict::Failed(_) => (style(AnsiColor::Red).bold(), "FAILED"),
        Verdict::Skipped(_) => (style(AnsiColor::Yellow), "skipped"),
    };
    let mut out = anstream::stdout().lock();
    write!(out, "{path}: {style}{name}{style:#}")?;
    match verdict.reason() {
        Some(why) => writeln!(out, ": {why}")?,
        None => writeln!(out)?,
    }
    Ok(out.flush()?)
}

fn print_counts(engine: &Engine, results: &[Tested]) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let count = |name| count(results, name);
    let updated = match count("updated") {
        0 => String::new(),
        updated => format!("{updated} updated, "),
    };
    writeln!(
        out,
        "{} passed, {updated}{} failed, {} skipped",
        count("ok"),
        count("failed"),
        count("skipped")
    )?;
    out.flush()?;
    super::say_gpu(engine.gpu_name().as_deref())?;
    let mut providers: BTreeMap<&str, usize> = BTreeMap::new();
    for placement in results.iter().flat_map(|tested| &tested.placements) {
        *providers.entry(&placement.provider).or_default() += 1;
    }
    for (provider, count) in providers {
        let nodes = if count == 1 { "node" } else { "nodes" };
        writeln!(
            anstream::stderr(),
            "{provider}: {count} {nodes} of ReverseSequence or ReverseSubsequences"
        )?;
    }
    Ok(())
}

fn as_json(engine: &Engine, results: &[Tested]) -> Json {
    let tests = results.iter().map(|tested| {
        let mut json = json!({ "path": tested.path, "result": tested.verdict.name() });
        if let Some(why) = tested.verdict.reason() {
            json["reason"] = why.into();
        }
        json["seconds"] = tested.time.as_secs_f64().into();
        if let Engine::Ort(_) = engine {
            let placements = tested.placements.iter();
            json["nodes"] = placements.map(super::placement_json).collect();
        }
        json
    });
    let mut json = json!({
        "backend": engine.name(),
        "tests": tests.collect::<Json>(),
        "passed": count(results, "ok"),
        "updated": count(results, "updated"),
        "failed": count(results, "failed"),
        "skipped": count(results, "skipped"),
    });
    if let Some(name) = engine.gpu_name() {
        json["device"] = name.into();
    }
    json
}
