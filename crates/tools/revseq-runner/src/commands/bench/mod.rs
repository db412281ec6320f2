//! `revseq bench`.

mod output;
mod peak;
mod ways;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use revseq_tract::How;
use serde::Serialize;

use super::destination::Destination;
use super::inputs::{self, in_model};
use super::tolerance::Tolerances;
use super::{Outcome, is_loop, say_unoptimised, trial};
use crate::backend::profile::median;
use crate::backend::{Engine, Session};
use crate::chain;
use crate::cli::{Backend, BenchArguments, BenchFormat};
use crate::interrupt::Watch;
use crate::memory;
use crate::model::read::{self, Located};
use crate::model::{Bindings, Model, walk};
use crate::note::note;
use crate::progress::Progress;
use crate::tensor::{Tensor, Tensors};
use crate::units::Time;
use ways::{Choice, On, WAYS, Way};

/// The number of turns of each way, if its runs are short.
const TURNS: u32 = 8;

/// The part of ONNX Runtime's time above which a way gains nothing that is worth a change.
const GAIN: f64 = 0.97;

/// Measures the ways to run each model, until all are measured or Ctrl-C is pressed.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome> {
    if let Some((model, way)) = peak::asked()? {
        return peak::print(arguments, model, way);
    }
    // What was measured is worth printing.
    let watch = Watch::new();
    let mut destination = Destination::open(&arguments.report)?;
    let located = arguments.models.iter().map(|path| read::locate(path));
    let located: Vec<Located> = located.collect::<Result<_>>()?;
    let ways = Ways::open(arguments, &WAYS)?;
    let mut all = Vec::new();
    for (index, located) in located.iter().enumerate() {
        let peak = |way: &Way| peak::in_process(index, way, &watch);
        let measured = measure(arguments, &ways, located, &watch, peak)?;
        match arguments.format {
            BenchFormat::Text => destination.text(|out| {
                if !all.is_empty() {
                    writeln!(out)?;
                }
                output::text(out, &measured)
            })?,
            BenchFormat::Markdown => destination.text(|out| output::markdown(out, &measured))?,
            BenchFormat::Json => {}
        }
        let is_interrupted = measured.is_interrupted;
        all.push(measured);
        if is_interrupted {
            break;
        }
    }
    if arguments.format == BenchFormat::Json {
        destination.json("bench", serde_json::json!({ "models": all }))?;
    }
    destination.complete()?;
    say_unoptimised();
    let mut ways = all.iter().flat_map(|it| &it.ways);
    Ok(match all.iter().any(|it| it.is_interrupted) {
        true => Outcome::Interrupted,
        false if ways.any(|it| it.is_different()) => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// The ways that there are here, each with its runtime.
struct Ways {
    all: Vec<(&'static Way, Engine)>,
    /// ONNX Runtime with its version, if it is there.
    onnxruntime: Option<String>,
}

impl Ways {
    /// Opens the runtimes of some ways. One that the arguments name has to be there.
    fn open(arguments: &BenchArguments, ways: &'static [Way]) -> Result<Self> {
        let ort = &arguments.engine.ort;
        let set = |(key, _): &&(String, String)| key == "loops" || key == "layers";
        if let Some((key, _)) = ort.provider_options.iter().find(set) {
            bail!("--provider-option {key}: each of its values is measured, so none is to be set");
        }
        let mut backends = vec![Backend::OrtPlain, Backend::Ort, Backend::Tract];
        arguments.engine.check(&backends)?;
        backends.retain(|&it| ways.iter().any(|way| way.on.needs(it)));
        let opened = Engine::open_each(&arguments.engine, &backends)?;
        let mut opened = std::iter::zip(backends, opened).peekable();
        let mut next = |backend| Some(opened.next_if(|(it, _)| *it == backend)?.1);
        let available = |what: &str, is_named: bool, engine: Option<Result<Engine>>| match engine {
            Some(Ok(Engine::Ort(ort))) => Ok(Some(ort)),
            Some(Err(error)) if is_named => Err(error),
            Some(Err(error)) => {
                note(format!("{what} is not measured: {}", chain(&error)));
                Ok(None)
            }
            Some(Ok(Engine::Tract(_))) | None => Ok(None),
        };
        let plain = next(Backend::OrtPlain);
        let plain = available("ONNX Runtime", ort.ort_lib.is_some(), plain)?;
        // Where there is no ONNX Runtime, it is said once.
        let provider = next(Backend::Ort).filter(|_| plain.is_some());
        let provider = available("the provider", ort.ep_lib.is_some(), provider)?;
        let mut tract = next(Backend::Tract).transpose()?;
        let mut engine = |way: &Way| match way.on {
            On::Plain => plain.as_ref().map(|it| Engine::Ort(it.with_option(None))),
            On::Provider(key, value) => {
                let provider = provider.as_ref();
                provider.map(|it| Engine::Ort(it.with_option(Some((key, value)))))
            }
            On::Tract => tract.take(),
        };
        Ok(Self {
            all: ways
                .iter()
                .filter_map(|way| Some((way, engine(way)?)))
                .collect(),
            onnxruntime: plain.map(|it| it.to_string()),
        })
    }
}

/// The times of a model.
#[derive(Serialize)]
struct Measured {
    model: String,
    /// The types and shapes of the inputs, by name.
    inputs: BTreeMap<String, String>,
    threads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime: Option<String>,
    ways: Vec<Row>,
    /// The fastest way of all, and the fastest that Python has; `None` if ONNX Runtime as it is is no slower.
    rust: Option<Choice>,
    python: Option<Choice>,
    #[serde(rename = "interrupted")]
    is_interrupted: bool,
}

/// A way, and its times.
#[derive(Serialize)]
struct Row {
    #[serde(rename = "way", serialize_with = "ways::name")]
    way: &'static Way,
    #[serde(flatten)]
    ran: Option<Ran>,
    /// The reason why there are no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Each loop or layer that stays, and why.
    left: Vec<String>,
}

/// The times of a way.
#[derive(Serialize)]
struct Ran {
    runs: usize,
    median_seconds: Time,
    min_seconds: Time,
    /// The median as a part of that of ONNX Runtime as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    load_seconds: Time,
    /// The most memory that a process has which loads the model and runs it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes: Option<u64>,
    #[serde(flatten)]
    takes: Takes,
    /// The outputs that differ by more than the tolerance, and by how much.
    different: Vec<String>,
}

/// The loops and layers that a way takes, of those that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Takes {
    /// The number of loops, on tract of loops and layers, that run as something else.
    taken: usize,
    /// The number of those that do, or stay.
    of: usize,
    /// The number of layers of the model itself that the provider runs.
    layers: usize,
    /// The number of reversals that it runs.
    reversals: usize,
}

impl Row {
    fn is_different(&self) -> bool {
        self.ran.as_ref().is_some_and(|it| !it.different.is_empty())
    }
}

/// A way, prepared.
struct Prepared {
    way: &'static Way,
    /// Each loop or layer that stays, and why.
    left: Vec<String>,
    /// The session, or why it is not timed.
    ready: Result<Ready, String>,
}

/// A session that is ready to be timed.
struct Ready {
    load: Duration,
    outputs: Vec<Tensor>,
    takes: Takes,
    run: Box<dyn FnMut() -> Result<Duration>>,
    times: Vec<Duration>,
}

/// Reads a model, and has each way run it once; returns it with its inputs.
fn run_once(
    arguments: &BenchArguments,
    ways: &Ways,
    located: &Located,
) -> Result<(Model, Tensors, Vec<Prepared>)> {
    let sizes = arguments.inputs.sizes.all();
    let (model, bindings) = Model::load_with(&located.model, &sizes)?;
    let rewritten = match ways.all.iter().any(|(way, _)| way.is_rewritten) {
        true => Rewritten::new(&model).map_err(|error| chain(&error)),
        false => Err(String::new()),
    };
    let sources = inputs::Sources::of(&arguments.inputs.values, located);
    let prepare = |inputs: &Tensors| prepare(ways, &model, &rewritten, inputs);
    let ran = trial::run(trial::MANY, &model, &sources, &bindings, prepare);
    let (tensors, prepared) = ran.with_context(in_model(&located.model))?;
    Ok((model, tensors, prepared))
}

/// Measures the ways to run a model; `peak` tells the memory of one.
fn measure(
    arguments: &BenchArguments,
    ways: &Ways,
    located: &Located,
    watch: &Watch,
    peak: impl Fn(&Way) -> Option<u64>,
) -> Result<Measured> {
    let progress = Progress::of_unknown_length();
    progress.message("preparing");
    let (model, tensors, mut prepared) = run_once(arguments, ways, located)?;
    let tolerances = Tolerances::new(&arguments.tolerance, &model)?;
    memory::keep();
    progress.message("running in turns");
    let is_interrupted = in_turns(&mut prepared, arguments.seconds, watch);
    progress.message("measuring memory");
    let names = model.output_names();
    let ran = prepared
        .iter()
        .filter_map(|it| Some((it.way, it.ready.as_ref().ok()?)));
    let expected = ran.clone().next().map(|(_, ready)| ready.outputs.clone());
    let expected = expected.unwrap_or_default();
    let plain = ran.clone().find(|(way, _)| way.is_plain());
    let plain = plain.map(|(_, ready)| median(&ready.times));
    let rows = prepared.into_iter().map(|Prepared { way, left, ready }| {
        let ran = |ready: Ready| Ran {
            runs: ready.times.len(),
            median_seconds: Time(median(&ready.times)),
            min_seconds: Time(ready.times.iter().min().copied().unwrap_or_default()),
            ratio: plain.map(|plain| median(&ready.times).as_secs_f64() / plain.as_secs_f64()),
            load_seconds: Time(ready.load),
            peak_bytes: peak(way),
            takes: ready.takes,
            different: tolerances
                .differences(&names, &expected, &ready.outputs)
                .into_iter()
                .map(|(name, difference)| format!("output {name:?}: {difference}"))
                .collect(),
        };
        let (ran, reason) = match ready {
            Ok(ready) => (Some(ran(ready)), None),
            Err(reason) => (None, Some(reason)),
        };
        Row {
            way,
            ran,
            reason,
            left,
        }
    });
    let rows: Vec<Row> = rows.collect();
    drop(progress);
    let choice = |has_python: bool| fastest(&rows, &located.model, has_python);
    Ok(Measured {
        model: located.model.display().to_string(),
        inputs: tensors
            .iter()
            .map(|(name, value)| (name.clone(), value.type_and_shape()))
            .collect(),
        threads: rayon::current_num_threads(),
        onnxruntime: ways.onnxruntime.clone(),
        rust: choice(false),
        python: choice(true),
        ways: rows,
        is_interrupted,
    })
}

/// The model as `revseq rewrite --fast` makes it.
struct Rewritten {
    model: Model,
    /// The number of loops that it had before.
    loops: usize,
    /// The time that it took.
    time: Duration,
}

impl Rewritten {
    /// # Errors
    /// Nothing is rewritten.
    fn new(model: &Model) -> Result<Self> {
        let start = Instant::now();
        let mut messages = revseq_onnx::decode(&model.bytes)?;
        let options = revseq_rewrite::Options {
            fast: true,
            ..revseq_rewrite::Options::default()
        };
        let report = revseq_rewrite::rewrite_messages(&mut messages, &options)?;
        ensure!(
            report.rewritten().next().is_some(),
            "`revseq rewrite --fast` changes nothing"
        );
        let bytes = revseq_onnx::encode(&messages)?;
        let time = start.elapsed();
        Ok(Self {
            model: Model::parse(model.path.clone(), bytes)?.with_data()?,
            loops: loops(model)?,
            time,
        })
    }
}

/// Prepares each way, and runs it once.
///
/// # Errors
/// None runs the model.
fn prepare(
    ways: &Ways,
    model: &Model,
    rewritten: &Result<Rewritten, String>,
    inputs: &Tensors,
) -> Result<Vec<Prepared>> {
    let mut all: Vec<Prepared> = Vec::new();
    for (way, engine) in &ways.all {
        let mut left = Vec::new();
        let ready = match (way.is_rewritten, rewritten) {
            (false, _) => ready(way, engine, model, inputs, &all, &mut left),
            (true, Ok(rewritten)) => {
                let ready = ready(way, engine, &rewritten.model, inputs, &all, &mut left);
                ready.map(|it| Ready {
                    load: it.load + rewritten.time,
                    ..it
                })
            }
            (true, Err(why)) => Err(why.clone()),
        };
        all.push(Prepared { way, left, ready });
    }
    if all.iter().all(|it| it.ready.is_err()) {
        let why = all.into_iter();
        let why = why.filter_map(|it| Some(format!("{}: {}", it.way.name, it.ready.err()?)));
        bail!(why.collect::<Vec<_>>().join("; "));
    }
    // Loops that a rewrite took are no longer there to be counted.
    if let Ok(Rewritten {
        model,
        loops: before,
        ..
    }) = rewritten
    {
        let after = loops(model)?;
        let rewritten = all.iter_mut().filter(|it| it.way.is_rewritten);
        for ready in rewritten.filter_map(|it| it.ready.as_mut().ok()) {
            ready.takes.of = after.max(*before);
            ready.takes.taken += ready.takes.of - after;
        }
    }
    Ok(all)
}

/// The number of loops of a model.
fn loops(model: &Model) -> Result<usize> {
    let mut loops = 0;
    walk::walk(model, &Bindings::new(), |site| {
        loops += usize::from(is_loop(&site.operator()));
    })?;
    Ok(loops)
}

/// Prepares a way and runs it once, unless it takes what an earlier one takes.
fn ready(
    way: &Way,
    engine: &Engine,
    model: &Model,
    inputs: &Tensors,
    earlier: &[Prepared],
    left: &mut Vec<String>,
) -> Result<Ready, String> {
    let mut ready = || -> Result<Ready> {
        let start = Instant::now();
        let mut session = match engine {
            // The table says what it leaves.
            Engine::Ort(ort) => Session::Ort(ort.prepare(model)?.map_err(Error::msg)?),
            Engine::Tract(_) => engine.ready(model)?,
        };
        session.prepare(inputs)?;
        let load = start.elapsed();
        let takes = takes(&session, inputs, left)?;
        let is_same = |it: &&Prepared| {
            let same = it.ready.as_ref().is_ok_and(|it| it.takes.is_same(takes));
            same && it.way.is_rewritten == way.is_rewritten
        };
        let is_provider = matches!(way.on, On::Provider(..));
        if let Some(same) = earlier.iter().find(is_same).filter(|_| is_provider) {
            bail!("it runs as {} does", same.way.name);
        }
        let outputs = session.run(inputs)?;
        let timed = session.timed(inputs)?;
        Ok(Ready {
            load: timed.made.unwrap_or(load),
            outputs,
            takes,
            run: timed.run,
            times: Vec::new(),
        })
    };
    ready().map_err(|error| chain(&error))
}

/// What a session takes, and what stays.
fn takes(session: &Session<'_>, inputs: &Tensors, left: &mut Vec<String>) -> Result<Takes> {
    Ok(match session {
        Session::Ort(prepared) => {
            let Some(report) = &prepared.report else {
                return Ok(Takes::default());
            };
            let stay = report.left.iter();
            let stay = stay.filter(|it| !it.operator.starts_with("Reverse"));
            left.extend(stay.clone().map(ToString::to_string));
            let loops = stay.filter(|it| is_loop(&it.operator)).count();
            Takes {
                taken: report.taken.len(),
                of: report.taken.len() + loops,
                layers: report.layers,
                reversals: report.reversals,
            }
        }
        Session::Tract(loaded) => {
            let executions = loaded.plan(inputs)?.0.executions();
            let slow = executions.iter();
            let slow = slow.filter(|it| matches!(it.how, How::StepByStep { .. }));
            left.extend(slow.map(|it| format!("{}: {}", it.node, it.how)));
            Takes {
                taken: executions.len() - left.len(),
                of: executions.len(),
                ..Takes::default()
            }
        }
    })
}

impl Takes {
    fn is_same(self, other: Self) -> bool {
        let counts = |it: Self| (it.taken, it.layers, it.reversals);
        counts(self) == counts(other)
    }
}

/// Times the ways in turns until a time has passed; returns whether that was interrupted.
fn in_turns(prepared: &mut [Prepared], time: Duration, watch: &Watch) -> bool {
    let count = prepared.iter().filter(|it| it.ready.is_ok()).count();
    let turn = time / (TURNS * count as u32).max(1);
    let start = Instant::now();
    let is_enough = || watch.is_interrupted() || start.elapsed() >= time;
    loop {
        for way in prepared.iter_mut() {
            if let Ok(ready) = &mut way.ready
                && !watch.is_interrupted()
                && let Err(error) = ready.take_turn(turn)
            {
                way.ready = Err(chain(&error));
            }
        }
        if is_enough() {
            break;
        }
    }
    for way in prepared.iter_mut() {
        if way.ready.as_ref().is_ok_and(|it| it.times.is_empty()) {
            way.ready = Err("it was interrupted".to_owned());
        }
    }
    watch.is_interrupted()
}

impl Ready {
    /// Runs for some time, once at least. Short runs have an untimed one first: others ran in between.
    fn take_turn(&mut self, time: Duration) -> Result<()> {
        let start = Instant::now();
        let first = (self.run)()?;
        if first >= time / 2 {
            self.times.push(first);
        }
        while start.elapsed() < time {
            self.times.push((self.run)()?);
        }
        Ok(())
    }
}

/// The fastest way, if it gains something, with its line of code.
fn fastest(rows: &[Row], model: &Path, is_python: bool) -> Option<Choice> {
    let rows = rows.iter().filter(|it| !it.is_different());
    let rows = rows.filter(|it| !is_python || it.way.on != On::Tract);
    let ran = rows.filter_map(|it| Some((it.way, it.ran.as_ref()?)));
    let (way, ran) = ran.min_by_key(|(_, ran)| ran.median_seconds.0)?;
    let gains = !way.is_plain() && ran.ratio.is_none_or(|ratio| ratio < GAIN);
    gains.then(|| Choice {
        way: way.name,
        ratio: ran.ratio,
        code: way.code(&model.display().to_string(), is_python),
    })
}
