//! `revseq verify`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use walkdir::WalkDir;

use super::destination::Destination;
use super::results::{Counts, INTERRUPTED, Results, Tested, Verdict};
use super::tolerance::Tolerances;
use super::{Outcome, data_set, junit, say_nan};
use crate::backend::{Engine, Session};
use crate::chain;
use crate::cli::{VerifyArguments, VerifyFormat};
use crate::escape::printable;
use crate::file;
use crate::interrupt::Watch;
use crate::model::Model;
use crate::model::read::{self, DataSet};
use crate::note::{is_quiet, note};
use crate::progress::Progress;
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
    let mut found = find(&arguments.paths, arguments.require_snapshots)?;
    let mut destination = Destination::open(&arguments.report)?;
    let engine = Engine::open(&arguments.on)?;
    let watch = Watch::new();
    let progress = Progress::new(found.tests.len() as u64);
    let mut show = |one: &Tested| match arguments.format {
        VerifyFormat::Text => progress.suspend(|| destination.text(|out| print_tested(out, one))),
        VerifyFormat::Json | VerifyFormat::Junit => Ok(()),
    };
    let mut results = Results {
        without_snapshot: std::mem::take(&mut found.without_snapshot),
        ..Results::default()
    };
    let mut unknown: BTreeSet<&str> = arguments.tolerance.names().collect();
    for test in &found.tests {
        if watch.is_interrupted() {
            results.interrupted = true;
            break;
        }
        progress.message(test.path.display().to_string());
        let unknown = (found.tests.len() > 1).then_some(&mut unknown);
        let tested = run_test(test, &engine, arguments, unknown);
        show(&tested)?;
        results.tested.push(tested);
        progress.step();
    }
    let failures = failures(arguments, found, &results, unknown);
    failures.iter().try_for_each(&mut show)?;
    results.tested.extend(failures);
    drop(progress);
    match arguments.format {
        VerifyFormat::Text => {
            destination.text(|out| print_counts(out, &results))?;
            say_where(&results);
        }
        VerifyFormat::Json => destination.json("verify", as_json(&engine, &results))?,
        VerifyFormat::Junit => destination.bytes(junit::render(&results).as_bytes())?,
    }
    destination.complete()?;
    Ok(match results.interrupted {
        true => Outcome::Interrupted,
        false if results.counts().failed > 0 => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// What fails beside the tests that were run; `unknown` are outputs of no model that have a tolerance.
fn failures(
    arguments: &VerifyArguments,
    found: Found,
    results: &Results,
    unknown: BTreeSet<&str>,
) -> Vec<Tested> {
    let failures = found.failures.into_iter();
    let mut failures: Vec<Tested> = failures
        .map(|(path, why)| Tested::failure(path.display(), why))
        .collect();
    if results.interrupted {
        return failures;
    }
    let mut all = results.tested.iter().chain(&failures);
    let is_nothing = all.all(|it| matches!(it.verdict, Verdict::Skipped { .. }));
    if is_nothing && !arguments.allow_skips {
        let why = "every test was skipped; --allow-skips accepts that";
        failures.push(Tested::failure("all tests", why.to_owned()));
    }
    // A model that cannot be read may have them, and one alone says so itself.
    if found.tests.len() > 1 && results.counts().failed == 0 {
        failures.extend(unknown.into_iter().map(|name| {
            let why = format!("no model has an output {name:?} to set a tolerance for");
            Tested::failure("all tests", why)
        }));
    }
    failures
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

impl Found {
    /// Adds what is at a path, and returns whether that is a test, or fails as one. `is_named` tells of an
    /// argument itself, which was not found in a folder.
    fn visit(&mut self, path: PathBuf, is_named: bool, require_snapshots: bool) -> bool {
        let ends_in = |ending| path.extension().is_some_and(|found| found == ending);
        if path.is_dir() {
            let model = path.with_extension("onnx");
            if read::is_backend_test(&path) {
                self.add(Test {
                    model: path.join("model.onnx"),
                    data: path.clone(),
                    path,
                });
                return true;
            }
            let is_left = ends_in("snapshots") && read::has_data_sets(&path) && !model.exists();
            if is_left {
                let why = format!("it is a snapshot of {}, which is missing", model.display());
                self.fail(path, why);
            }
            return is_left;
        }
        if !ends_in("onnx") {
            return false;
        }
        let data = read::data_folder(&path);
        if read::has_data_sets(&data) {
            // A model.onnx that is found is its folder's test.
            let is_test = is_named || path.file_name().is_none_or(|name| name != "model.onnx");
            if is_test {
                self.add(Test {
                    model: path.clone(),
                    data,
                    path,
                });
            }
            return is_test;
        }
        if require_snapshots {
            let why = "it has no snapshot; `revseq snapshot` records one";
            self.fail(path, why.to_owned());
        } else if self.is_new(&path) {
            self.without_snapshot.push(path);
        }
        require_snapshots
    }
}

/// Searches paths for tests.
fn find(paths: &[PathBuf], require_snapshots: bool) -> Result<Found> {
    let mut found = Found::default();
    for path in paths {
        ensure!(
            !file::is_standard(path),
            "standard input has no data sets: give a folder, or a model's file"
        );
        read::refuse_address(path)?;
        let mut is_empty = true;
        for entry in WalkDir::new(path).sort_by_file_name() {
            is_empty &= !match entry {
                Ok(entry) => {
                    let is_named = entry.depth() == 0;
                    found.visit(entry.into_path(), is_named, require_snapshots)
                }
                Err(error) => {
                    let is_named = error.depth() == 0;
                    let (at, why) = read::unsearched(error, path);
                    ensure!(!is_named, "cannot search {}: {why}", at.display());
                    found.fail(at, format!("cannot be searched: {why}"));
                    true
                }
            };
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

/// Runs a test. Of several models, one may lack an output that has a tolerance: those that it has are taken
/// out of the unknown ones.
fn run_test(
    test: &Test,
    engine: &Engine,
    arguments: &VerifyArguments,
    unknown: Option<&mut BTreeSet<&str>>,
) -> Tested {
    let start = Instant::now();
    let mut placements = Vec::new();
    let run = || -> Result<Verdict> {
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
        for set in &sets {
            let run = RunSet {
                engine,
                model: &model,
                set,
                tolerances: &tolerances,
            };
            let differ = run.run(&mut session, arguments.update);
            let differ = differ.with_context(|| set.name.clone())?.into_iter();
            differences.extend(differ.map(|difference| format!("{}: {difference}", set.name)));
        }
        let reason = differences.join("; ");
        Ok(match arguments.update {
            _ if reason.is_empty() => Verdict::Ok { note: None },
            true => Verdict::Updated { reason },
            false => Verdict::Failed { reason },
        })
    };
    let verdict = run().unwrap_or_else(|error| Verdict::Failed {
        reason: chain(&error),
    });
    Tested {
        path: test.path.display().to_string(),
        verdict,
        time: Time(start.elapsed()),
        placements,
    }
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
            let reason = format!("{reason}; {set} was recorded on {on}");
            return Ok(Verdict::Failed { reason });
        }
    }
    Ok(Verdict::Skipped { reason })
}

/// A model to run on a data set.
struct RunSet<'a> {
    engine: &'a Engine,
    model: &'a Model,
    set: &'a DataSet,
    tolerances: &'a Tolerances<'a>,
}

impl RunSet<'_> {
    /// Describes the difference of each output that differs. An update accepts the outputs; a data set that is
    /// not for such a model is recorded anew.
    ///
    /// # Errors
    /// The data set is not for such a model, or it cannot be run.
    fn run(&self, session: &mut Session<'_>, is_update: bool) -> Result<Vec<String>> {
        let (inputs, expected, record) = match self.read() {
            Err(why) if is_update => {
                self.record_anew(session)?;
                return Ok(vec![format!("recorded anew: {}", chain(&why))]);
            }
            read => read?,
        };
        let got = session.run(&inputs)?;
        say_nan(self.engine, self.model, &inputs, &expected, &got);
        let differences = self.differences(&record, &expected, &got)?;
        if is_update && !differences.is_empty() {
            data_set::update(self.set, self.model, &got)?;
        }
        Ok(differences)
    }

    fn record_anew(&self, session: &mut Session<'_>) -> Result<()> {
        let Self { model, set, .. } = self;
        let inputs = data_set::adapted_inputs(model, set)?;
        let outputs = session.run(&inputs)?;
        say_nan(self.engine, model, &inputs, &Tensors::new(), &outputs);
        let recording = data_set::Recording {
            model,
            inputs: &inputs,
            outputs: &outputs,
            engine: self.engine,
            tolerances: &data_set::Record::kept_tolerances(set)?,
        };
        recording.write(&set.path)
    }

    /// The inputs, the expected outputs and the record.
    fn read(&self) -> Result<(Tensors, Tensors, data_set::Record)> {
        let inputs = data_set::inputs(self.model, self.set)?;
        let expected = data_set::outputs(self.model, self.set)?;
        Ok((inputs, expected, data_set::Record::read(self.set)?))
    }

    fn differences(
        &self,
        recorded: &data_set::Record,
        expected: &Tensors,
        got: &[Tensor],
    ) -> Result<Vec<String>> {
        let outputs = std::iter::zip(self.model.output_names(), got);
        let differ = outputs.filter_map(|(name, got)| {
            let tolerance = self
                .tolerances
                .of(&name, recorded.tolerances.get(&name).copied());
            let difference = compare(&expected[&name], got, tolerance).err()?;
            Some(format!("output {}", difference.of(&name)))
        });
        let differ = differ.chain(recorded.moved(self.model));
        Ok(differ.chain(recorded.shown(self.set, expected)?).collect())
    }
}

/// Prints a line; of a test that did not fail, none with `--quiet`.
fn print_tested(out: &mut dyn Write, tested: &Tested) -> Result<()> {
    if is_quiet() && !tested.verdict.is_failed() {
        return Ok(());
    }
    write!(out, "{}", printable(&tested.path))?;
    tested.verdict.print(out)
}

fn print_counts(out: &mut dyn Write, results: &Results) -> Result<()> {
    let Counts {
        passed,
        updated,
        failed,
        skipped,
    } = results.counts();
    let updated = match updated {
        0 => String::new(),
        updated => format!("{updated} updated, "),
    };
    writeln!(
        out,
        "{passed} passed, {updated}{failed} failed, {skipped} skipped"
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
    let counts = results.counts();
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
        "passed": counts.passed,
        "updated": counts.updated,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "without_snapshot": results
            .without_snapshot
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Json>(),
        "interrupted": results.interrupted,
    })
}
