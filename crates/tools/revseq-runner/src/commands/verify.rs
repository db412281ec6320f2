//! `revseq verify`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use walkdir::WalkDir;

use super::destination::Destination;
use super::results::{INTERRUPTED, Results, Tested, Verdict};
use super::tolerance::Tolerances;
use super::{Outcome, data_set, junit, say_nan};
use crate::backend::ort::Placement;
use crate::backend::{Engine, Session};
use crate::chain;
use crate::cli::{VerifyArguments, VerifyFormat};
use crate::escape::printable;
use crate::interrupt::Watch;
use crate::model::Model;
use crate::model::read::{self, DataSet};
use crate::note::{is_quiet, note};
use crate::progress::Progress;
use crate::style::{CYAN, FAILED, GREEN, YELLOW};
use crate::tensor::compare::compare;
use crate::tensor::{Tensor, Tensors};
use crate::units::{self, Time};

/// Number of models without a snapshot that are named in text.
const WITHOUT_SHOWN: usize = 8;

/// A model and its data sets.
#[derive(Debug)]
struct Test {
    /// The path that is shown.
    path: PathBuf,
    model: PathBuf,
    /// The folder of the data sets.
    data: PathBuf,
}

/// Runs every test below the paths, until Ctrl-C is pressed.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<Outcome> {
    let Found {
        tests,
        failures,
        without_snapshot,
        ..
    } = find(&arguments.paths, arguments.require_snapshots)?;
    let mut destination = Destination::open(&arguments.report)?;
    let engine = Engine::open(&arguments.on)?;
    let watch = Watch::new();
    let progress = Progress::new(tests.len() as u64);
    let mut tested: Vec<Tested> = Vec::new();
    let mut show = |one: &Tested| match arguments.format {
        VerifyFormat::Text => progress.suspend(|| destination.text(|out| print_verdict(out, one))),
        VerifyFormat::Json | VerifyFormat::Junit => Ok(()),
    };
    let mut interrupted = false;
    let mut unknown: BTreeSet<&str> = arguments.tolerance.names().collect();
    for test in &tests {
        if watch.is_interrupted() {
            interrupted = true;
            break;
        }
        let path = test.path.display().to_string();
        progress.message(path.clone());
        let start = Instant::now();
        let mut placements = Vec::new();
        let unknown = (tests.len() > 1).then_some(&mut unknown);
        let verdict = run_test(test, &engine, arguments, unknown, &mut placements)
            .unwrap_or_else(|error| Verdict::Failed(chain(&error)));
        tested.push(Tested {
            path,
            verdict,
            time: Time(start.elapsed()),
            placements,
        });
        show(&tested[tested.len() - 1])?;
        progress.step();
    }
    let failures = failures.into_iter();
    let mut failures: Vec<Tested> = failures
        .map(|(path, why)| Tested::failure(path.display().to_string(), why))
        .collect();
    let nothing = tested
        .iter()
        .chain(&failures)
        .all(|tested| matches!(tested.verdict, Verdict::Skipped(_)));
    if nothing && !interrupted && !arguments.allow_skips {
        let why = "every test was skipped; --allow-skips accepts that";
        failures.push(Tested::failure("all tests".to_owned(), why.to_owned()));
    }
    // A model that cannot be read may have them, and one alone says so itself.
    let has_failed = |tested: &Tested| matches!(tested.verdict, Verdict::Failed(_));
    if tests.len() > 1 && !interrupted && !tested.iter().any(has_failed) {
        failures.extend(unknown.into_iter().map(|name| {
            let why = format!("no model has an output {name:?} to set a tolerance for");
            Tested::failure("all tests".to_owned(), why)
        }));
    }
    failures.iter().try_for_each(&mut show)?;
    tested.extend(failures);
    drop(progress);
    let results = Results {
        tested,
        without_snapshot,
        interrupted,
    };
    match arguments.format {
        VerifyFormat::Text => {
            destination.text(|out| print_counts(out, &results))?;
            say_where(&results);
        }
        VerifyFormat::Json => destination.json("verify", as_json(&engine, &results))?,
        VerifyFormat::Junit => destination.bytes(junit::render(&results).as_bytes())?,
    }
    destination.complete()?;
    Ok(if interrupted {
        Outcome::Interrupted
    } else if count(&results.tested, "failed") > 0 {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// Counts the tests with a result of this name.
fn count(results: &[Tested], name: &str) -> usize {
    let results = results.iter();
    results
        .filter(|tested| tested.verdict.name() == name)
        .count()
}

/// The tests found below some paths.
#[derive(Default)]
struct Found {
    /// The tests, each once, in order.
    tests: Vec<Test>,
    /// The paths that fail without being run, and why.
    failures: Vec<(PathBuf, String)>,
    /// Models without a snapshot that do not need one.
    without_snapshot: Vec<PathBuf>,
    /// The files and folders that are among these.
    places: HashSet<PathBuf>,
}

impl Found {
    /// Whether a file or folder is met for the first time: several paths may lead to it. A link to a model
    /// has snapshots of its own.
    fn is_new(&mut self, path: &Path) -> bool {
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => path,
        };
        let folder = parent.canonicalize();
        let folder = folder.unwrap_or_else(|_| parent.to_owned());
        self.places
            .insert(folder.join(path.file_name().unwrap_or_default()))
    }

    fn add(&mut self, test: Test) {
        if self.is_new(&test.model) {
            self.tests.push(test);
        }
    }

    fn fail(&mut self, path: PathBuf, why: String) {
        if self.is_new(&path) {
            self.failures.push((path, why));
        }
    }
}

/// Searches paths for tests.
fn find(paths: &[PathBuf], require_snapshots: bool) -> Result<Found> {
    let mut found = Found::default();
    for path in paths {
        ensure!(
            !read::is_standard_input(path),
            "standard input has no data sets: give a folder, or a model's file"
        );
        read::refuse_address(path)?;
        let mut is_empty = true;
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let is_named = error.depth() == 0;
                    let (at, why) = read::unsearched(error, path);
                    ensure!(!is_named, "cannot search {}: {why}", at.display());
                    is_empty = false;
                    found.fail(at, format!("cannot be searched: {why}"));
                    continue;
                }
            };
            // An argument itself, not found in a folder.
            let is_named = entry.depth() == 0;
            let path = entry.into_path();
            let ends_in = |ending| path.extension().is_some_and(|found| found == ending);
            if path.is_dir() && read::is_backend_test(&path) {
                is_empty = false;
                found.add(Test {
                    model: path.join("model.onnx"),
                    data: path.clone(),
                    path,
                });
            } else if path.is_dir() && ends_in("snapshots") && read::has_data_sets(&path) {
                let model = path.with_extension("onnx");
                if !model.exists() {
                    is_empty = false;
                    let why = format!("it is a snapshot of {}, which is missing", model.display());
                    found.fail(path, why);
                }
            } else if !path.is_dir() && ends_in("onnx") {
                let data = read::data_folder(&path);
                // A model.onnx that is found is its folder's test.
                let is_folder_s = path.file_name().is_some_and(|name| name == "model.onnx");
                if !read::has_data_sets(&data) {
                    if require_snapshots {
                        is_empty = false;
                        let why = "it has no snapshot; `revseq snapshot` records one";
                        found.fail(path, why.to_owned());
                    } else if found.is_new(&path) {
                        found.without_snapshot.push(path);
                    }
                } else if is_named || !is_folder_s {
                    is_empty = false;
                    found.add(Test {
                        model: path.clone(),
                        data,
                        path,
                    });
                }
            }
        }
        ensure!(
            !is_empty,
            "{}: there is no test in or below it: neither a folder with a model.onnx and \
             test_data_set_<n>, nor a NAME.onnx with a NAME.snapshots that has some; \
             `revseq snapshot` records one",
            path.display()
        );
    }
    Ok(found)
}

/// Runs a test and reports the placements of its nodes in ONNX Runtime. Of several models, one may lack an
/// output that has a tolerance: those that it has are taken out of the unknown ones.
fn run_test(
    test: &Test,
    engine: &Engine,
    arguments: &VerifyArguments,
    unknown: Option<&mut BTreeSet<&str>>,
    placements: &mut Vec<Placement>,
) -> Result<Verdict> {
    let model = Model::load(&test.model)?;
    let mut given = arguments.tolerance.clone();
    if let Some(unknown) = unknown {
        let outputs = model.output_names();
        given.retain(|name| outputs.iter().any(|output| output == name));
        unknown.retain(|name| !outputs.iter().any(|output| output == name));
    }
    let sets = read::data_sets(&test.data)?;
    let mut session = match engine.load(&model)? {
        Ok(session) => session,
        Err(reason) => return refused(reason, engine, &sets, arguments.allow_skips),
    };
    placements.extend_from_slice(session.placements().unwrap_or_default());
    let tolerances = Tolerances::new(&given, &model)?;
    let mut differences = Vec::new();
    for set in sets {
        let run = RunSet {
            engine,
            model: &model,
            set: &set,
            tolerances: &tolerances,
        };
        let differ = match arguments.update {
            false => run.compare(&mut session),
            true => run.update(&mut session),
        };
        let differ = differ.with_context(|| set.name.clone())?.into_iter();
        differences.extend(differ.map(|difference| format!("{}: {difference}", set.name)));
    }
    Ok(match (differences.join("; "), arguments.update) {
        (all, _) if all.is_empty() => Verdict::Ok,
        (all, true) => Verdict::Updated(all),
        (all, false) => Verdict::Failed(all),
    })
}

/// The verdict if a backend refuses a model: skipped, unless that backend once ran it.
fn refused(
    reason: String,
    engine: &Engine,
    sets: &[DataSet],
    allow_skips: bool,
) -> Result<Verdict> {
    for set in sets.iter().filter(|_| !allow_skips) {
        let record = data_set::Record::read(set)?;
        if let Some(on) = record.recorded_on
            && engine.is_described_by(&on)
        {
            let set = &set.name;
            return Ok(Verdict::Failed(format!(
                "{reason}; {set} was recorded on {on}"
            )));
        }
    }
    Ok(Verdict::Skipped(reason))
}

/// A model to run on a data set.
struct RunSet<'a> {
    engine: &'a Engine,
    model: &'a Model,
    set: &'a DataSet,
    tolerances: &'a Tolerances<'a>,
}

impl RunSet<'_> {
    /// Describes the difference of each output that differs.
    ///
    /// # Errors
    /// The data set is not for such a model, or it cannot be run.
    fn compare(&self, session: &mut Session<'_>) -> Result<Vec<String>> {
        let (inputs, expected, record) = self.read()?;
        let got = session.run(&inputs)?;
        self.say_nan(&inputs, &expected, &got);
        self.differences(&record, &expected, &got)
    }

    /// The same, and accepts the outputs. A data set that is not for such a model is recorded anew.
    fn update(&self, session: &mut Session<'_>) -> Result<Vec<String>> {
        let Self { model, set, .. } = self;
        match self.read() {
            Ok((inputs, expected, record)) => {
                let got = session.run(&inputs)?;
                self.say_nan(&inputs, &expected, &got);
                let differences = self.differences(&record, &expected, &got)?;
                if !differences.is_empty() {
                    data_set::update(set, model, &got)?;
                }
                Ok(differences)
            }
            Err(why) => {
                let inputs = data_set::adapted_inputs(model, set)?;
                let outputs = session.run(&inputs)?;
                self.say_nan(&inputs, &Tensors::new(), &outputs);
                let recording = data_set::Recording {
                    model,
                    inputs: &inputs,
                    outputs: &outputs,
                    origins: &model.origins(),
                    engine: self.engine,
                    tolerances: &data_set::Record::kept_tolerances(set)?,
                };
                recording.write(&set.path)?;
                Ok(vec![format!("recorded anew: {}", chain(&why))])
            }
        }
    }

    /// The inputs, the expected outputs and the record.
    fn read(&self) -> Result<(Tensors, Tensors, data_set::Record)> {
        let inputs = data_set::inputs(self.model, self.set)?;
        let expected = data_set::outputs(self.model, self.set)?;
        Ok((inputs, expected, data_set::Record::read(self.set)?))
    }

    fn say_nan(&self, inputs: &Tensors, expected: &Tensors, got: &[Tensor]) {
        let Self { engine, model, .. } = self;
        let names = model.output_names();
        say_nan(engine, model, "input", inputs);
        say_nan(engine, model, "expected output", expected);
        say_nan(engine, model, "output", std::iter::zip(&names, got));
    }

    fn differences(
        &self,
        recorded: &data_set::Record,
        expected: &Tensors,
        got: &[Tensor],
    ) -> Result<Vec<String>> {
        let outputs = std::iter::zip(self.model.output_names(), got);
        let differ = outputs.filter_map(|(name, got)| {
            let tolerance = self.tolerances.of(&name, &recorded.tolerances);
            let difference = compare(&expected[&name], got, tolerance).err()?;
            Some(format!("output {}", difference.of(&name)))
        });
        let differ = differ.chain(recorded.moved(self.model));
        Ok(differ.chain(recorded.shown(self.set, expected)?).collect())
    }
}

/// Prints a line; of a test that did not fail, none with `--quiet`.
fn print_verdict(out: &mut dyn Write, tested: &Tested) -> Result<()> {
    let Tested { path, verdict, .. } = tested;
    if is_quiet() && !matches!(verdict, Verdict::Failed(_)) {
        return Ok(());
    }
    let (style, name) = match verdict {
        Verdict::Ok => (GREEN, "ok"),
        Verdict::Updated(_) => (CYAN, "updated"),
        Verdict::Failed(_) => (FAILED, "FAILED"),
        Verdict::Skipped(_) => (YELLOW, "skipped"),
    };
    write!(out, "{}: {style}{name}{style:#}", printable(path))?;
    match verdict.reason() {
        Some(why) => writeln!(out, ": {}", printable(why))?,
        None => writeln!(out)?,
    }
    Ok(())
}

fn print_counts(out: &mut dyn Write, results: &Results) -> Result<()> {
    let count = |name| count(&results.tested, name);
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
    let without = results.without_snapshot.iter();
    let without: Vec<String> = without.map(|path| path.display().to_string()).collect();
    if !without.is_empty() {
        let models = units::count(without.len(), "model");
        let shown = units::first_of(&without, WITHOUT_SHOWN);
        let shown = printable(&shown);
        writeln!(out, "{models} without a snapshot: {shown}")?;
    }
    if results.interrupted {
        writeln!(out, "{INTERRUPTED}")?;
    }
    Ok(())
}

/// Says where our nodes ran, and loops and layers if the provider was to run them.
fn say_where(results: &Results) {
    let mut providers: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for placement in results.tested.iter().flat_map(|tested| &tested.placements) {
        let operators = providers.entry(&placement.provider).or_default();
        *operators.entry(&placement.op_type).or_default() += 1;
    }
    for (provider, operators) in providers {
        let operators = operators.into_iter();
        let nodes = operators.map(|(operator, nodes)| format!("{nodes} of {operator}"));
        let nodes: Vec<String> = nodes.collect();
        note(format!("nodes on {provider}: {}", nodes.join(", ")));
    }
}

fn as_json(engine: &Engine, results: &Results) -> Json {
    let count = |name| count(&results.tested, name);
    let tests = results.tested.iter().map(|tested| {
        let mut json = json!(tested);
        if let Engine::Ort(_) = engine {
            json["nodes"] = json!(tested.placements);
        }
        json
    });
    json!({
        "backend": engine.name(),
        "tests": tests.collect::<Json>(),
        "passed": count("ok"),
        "updated": count("updated"),
        "failed": count("failed"),
        "skipped": count("skipped"),
        "without_snapshot": results
            .without_snapshot
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Json>(),
        "interrupted": results.interrupted,
    })
}
