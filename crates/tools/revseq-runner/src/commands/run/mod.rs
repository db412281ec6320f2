//! `revseq run`.

mod report;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::data_set::Recording;
use super::destination::Destination;
use super::inputs::{Sources, in_model, list};
use super::{Outcome, say_loops, say_nan, trial};
use crate::backend::ort::Placement;
use crate::backend::profile::Profile;
use crate::backend::{Engine, Runs, Session, Timed};
use crate::cli::{Format, RunArguments};
use crate::file;
use crate::interrupt::Watch;
use crate::memory;
use crate::model::{Model, read};
use crate::note::detail;
use crate::progress::Progress;
use crate::tensor::{self, Tensor, Tensors, npz};
use crate::units::time;

/// Runs a model and prints or writes its outputs.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome> {
    if arguments.warmup > 0 && arguments.repeat.is_none() && arguments.seconds.is_none() {
        bail!("--warmup is for timed runs: add --repeat or --seconds");
    }
    let located = read::locate(&arguments.model)?;
    let start = Instant::now();
    let sizes = arguments.inputs.sizes.all();
    let (model, bindings) = Model::load_with(&located.model, &sizes)?;
    let read = start.elapsed();
    detail(format!(
        "{}: read in {}",
        located.model.display(),
        time(read)
    ));
    let files = OutputFiles::new(arguments, model.output_names())?;
    let engine = Engine::open(&arguments.on)?;
    // A data set tells what the outputs are computed from.
    let model = match arguments.save_test_data {
        Some(_) => model,
        None => engine.needed_of(model),
    };
    let sources = Sources {
        data_set: located.data_sets.first().map(|set| set.inputs.as_slice()),
        ..Sources::new(&arguments.inputs.values)
    };
    let run = || -> Result<_> {
        let start = Instant::now();
        let mut session = engine.ready(&model)?;
        let loaded = read + start.elapsed();
        trial::run(trial::FEW, &model, &sources, &bindings, |tensors| {
            execute(arguments, &engine, &mut session, tensors, loaded)
        })
    };
    let (tensors, mut results) = run().with_context(in_model(&located.model))?;
    say_nan(&engine, &model, &tensors, &Tensors::new(), &results.outputs);
    files.write(&results.outputs)?;
    let trace = results.profile.as_mut().and_then(|it| it.trace.take());
    if let (Some(file), Some(trace)) = (&arguments.trace, trace) {
        file::write(file, &trace)?;
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
    let mut destination = Destination::StandardOutput;
    match arguments.format {
        Format::Text => {
            destination.text(|out| {
                report::print_outputs(out, &files, &results)?;
                report::print_times(out, &results)
            })?;
            report::say(&results);
        }
        Format::Json => {
            let json = report::as_json(&files, &engine, &located.model, &results);
            destination.json("run", json)?;
        }
    }
    say_loops([&engine], &model)?;
    Ok(match results.is_interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    })
}

/// The files that outputs are written to.
struct OutputFiles<'a> {
    /// The outputs' names.
    names: Vec<String>,
    /// The files of single outputs, by the output's index.
    by_output: BTreeMap<usize, &'a Path>,
    /// The file of all outputs.
    archive: Option<&'a Path>,
}

impl<'a> OutputFiles<'a> {
    /// The files that the arguments name for outputs of these names.
    ///
    /// # Errors
    /// There is no such output, or the file cannot be written or is not to be overwritten.
    fn new(arguments: &'a RunArguments, names: Vec<String>) -> Result<Self> {
        let mut files = Self {
            names,
            by_output: BTreeMap::new(),
            archive: None,
        };
        let names = &files.names;
        if let Some(trace) = &arguments.trace {
            file::refuse_existing("--trace", trace, arguments.overwrite.overwrite)?;
        }
        for named in &arguments.outputs {
            let (name, file) = named.split(|name| names.iter().any(|output| output == name));
            file::refuse_existing("--output", file, arguments.overwrite.overwrite)?;
            if name.is_none() && npz::has_ending(file) {
                ensure!(
                    files.archive.replace(file).is_none(),
                    "--output {}: all outputs have a file already",
                    file.display()
                );
                continue;
            }
            let index = match name {
                Some(name) => {
                    let place = names.iter().position(|output| output == name);
                    place.with_context(|| {
                        let names = list(names);
                        format!("--output {name}: there is no output of that name; the outputs are {names}")
                    })?
                }
                None if names.len() == 1 => 0,
                None => bail!(
                    "--output {}: which output is it for? the outputs are {}; say it with --output \
                     NAME=FILE, or write all to an .npz file",
                    file.display(),
                    list(names)
                ),
            };
            let name = &names[index];
            tensor::check_ending(file).with_context(|| format!("--output {name}"))?;
            ensure!(
                files.by_output.insert(index, file).is_none(),
                "--output {name}: it is given twice"
            );
        }
        Ok(files)
    }

    /// Whether there are none, so that the outputs are printed.
    fn is_empty(&self) -> bool {
        self.by_output.is_empty() && self.archive.is_none()
    }

    fn write(&self, outputs: &[Tensor]) -> Result<()> {
        for (index, file) in &self.by_output {
            outputs[*index].write(file, &self.names[*index])?;
        }
        if let Some(archive) = self.archive {
            let all = std::iter::zip(&self.names, outputs);
            npz::write(archive, all.map(|(name, output)| (name.as_str(), output)))?;
        }
        Ok(())
    }
}

/// The results of running a model.
#[derive(Default)]
struct Results {
    outputs: Vec<Tensor>,
    /// The time of each run, if that was asked for.
    times: Vec<Duration>,
    /// The time that it took to read and prepare the model.
    load: Duration,
    /// The time of each node, if that was asked for.
    profile: Option<Profile>,
    /// The provider of ONNX Runtime that ran each of our nodes.
    placements: Option<Vec<Placement>>,
    /// The number of nodes that each of them ran.
    providers: Option<BTreeMap<String, usize>>,
    /// The data set that was written.
    data_set: Option<PathBuf>,
    /// Whether Ctrl-C ended the timed runs early.
    is_interrupted: bool,
}

/// The times after which no more runs are profiled: ONNX Runtime's profiler makes those of loops many times
/// as long, and keeps a million events.
const LEAST_PROFILED: Duration = Duration::from_secs(1);
const MOST_PROFILED: Duration = Duration::from_secs(3);

/// Runs the model as often as asked.
fn execute(
    arguments: &RunArguments,
    engine: &Engine,
    session: &mut Session<'_>,
    tensors: &Tensors,
    loaded: Duration,
) -> Result<Results> {
    let timed = match (arguments.repeat, arguments.seconds) {
        (Some(runs), _) => Some(Timed::Runs(runs)),
        (None, seconds) => seconds.map(Timed::For),
    };
    let progress = match timed {
        Some(Timed::Runs(runs)) => Progress::new(runs.into()),
        _ => Progress::of_unknown_length(),
    };
    progress.message("preparing");
    let mut results = Results {
        placements: session.placements().map(<[Placement]>::to_vec),
        providers: session.providers().cloned(),
        ..Results::default()
    };
    let start = Instant::now();
    session.prepare(tensors)?;
    results.load = loaded + start.elapsed();
    detail(format!("{engine}: prepared in {}", time(results.load)));
    memory::keep();
    results.outputs = session.run(tensors)?;
    // What was measured is worth printing.
    let watch = Watch::new();
    let step = |is_enough: bool| {
        progress.step();
        match is_enough || watch.is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    if let Some(timed) = timed {
        progress.message("running");
        let runs = Runs {
            warmup: arguments.warmup,
            timed,
        };
        results.times = session.repeat(tensors, runs, || step(false))?;
    }
    if arguments.profile && !watch.is_interrupted() {
        progress.message("profiling");
        let times = &results.times;
        let most = times.iter().sum::<Duration>();
        let most = most.clamp(LEAST_PROFILED, MOST_PROFILED);
        let (runs, with_trace) = (times.len().max(1), arguments.trace.is_some());
        let start = Instant::now();
        let step = || step(start.elapsed() >= most);
        results.profile = Some(session.profile(tensors, runs, with_trace, step)?);
    }
    results.is_interrupted = watch.is_interrupted();
    Ok(results)
}
