//! `revseq snapshot`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::json;
use walkdir::WalkDir;

use super::data_set::Recording;
use super::destination::Destination;
use super::inputs::{self, in_model};
use super::ranges;
use super::tolerance::Tolerances;
use super::{Outcome, say_nan, trial};
use crate::backend::Engine;
use crate::chain;
use crate::cli::{Format, InputArguments, SnapshotArguments, ToleranceArguments};
use crate::file;
use crate::model::{Bindings, Model, read};
use crate::note::note;
use crate::progress::Progress;
use crate::tensor::compare::{Tolerance, compare};
use crate::tensor::fill::{Accepted, Fill};
use crate::tensor::{Data, Tensor, Tensors};

/// Records a data set of each model.
pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<Outcome> {
    let mut destination = Destination::StandardOutput;
    let engine = Engine::open(&arguments.on)?;
    let models = models(arguments)?;
    // All of them before the first is recorded.
    let own = check(arguments, &models)?;
    let progress = Progress::new(models.len() as u64);
    let mut recorded: Vec<(&Path, PathBuf)> = Vec::new();
    let mut failed = Vec::new();
    for (model, own) in std::iter::zip(&models, &own) {
        progress.message(model.display().to_string());
        let set = match record(own, model, &engine) {
            Ok(set) => set,
            // The others of a folder are recorded all the same.
            Err(error) if models.len() > 1 => {
                failed.push(chain(&error));
                progress.step();
                continue;
            }
            Err(error) => return Err(error),
        };
        if arguments.format == Format::Text {
            progress.suspend(|| {
                destination
                    .text(|out| Ok(writeln!(out, "{}: recorded on {engine}", set.display())?))
            })?;
        }
        recorded.push((model, set));
        progress.step();
    }
    drop(progress);
    if let Some(first) = failed.first() {
        failed.iter().skip(1).for_each(note);
        let (count, all) = (failed.len(), models.len());
        bail!("{count} of {all} models were not recorded: {first}");
    }
    if arguments.format == Format::Json {
        let recorded = recorded.iter().map(|(model, set)| {
            json!({
                "model": model.display().to_string(),
                "data_set": set.display().to_string(),
            })
        });
        let json = json!({
            "backend": engine.name(),
            "recorded_on": engine.to_string(),
            "snapshots": recorded.collect::<Vec<_>>(),
        });
        destination.json("snapshot", json)?;
    }
    Ok(Outcome::Done)
}

/// The models that are named, and those without a data set in folders that are none of a model's.
fn models(arguments: &SnapshotArguments) -> Result<Vec<PathBuf>> {
    let mut models = Vec::new();
    for path in &arguments.models {
        if !path.is_dir() || path.join("model.onnx").exists() {
            models.push(path.clone());
            continue;
        }
        let before = models.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.map_err(|error| {
                let (at, why) = read::unsearched(error, path);
                anyhow!("cannot search {}: {why}", at.display())
            })?;
            let found = entry.into_path();
            let is_model = found.extension().is_some_and(|it| it == "onnx") && found.is_file();
            if is_model && (arguments.add || !read::has_data_sets(&read::data_folder(&found))) {
                models.push(found);
            }
        }
        ensure!(
            models.len() > before,
            "{}: there is no model without a data set in or below it",
            path.display()
        );
    }
    Ok(models)
}

/// The arguments that are for a model: of several, some may have a size, an input or an output of a
/// name, and others not.
struct Own {
    inputs: InputArguments,
    tolerance: ToleranceArguments,
}

impl Own {
    /// Leaves out what a model has not, and returns that.
    fn leave_out(&mut self, model: &Model) -> BTreeSet<String> {
        let mut missing = BTreeSet::new();
        let mut keep = |flag: &str, name: &str, has: bool| {
            if !has {
                missing.insert(format!("{flag} {name}"));
            }
            has
        };
        let (declared, outputs) = (model.inputs(), model.output_names());
        let is_input = |name: &str| declared.iter().any(|input| input.name == name);
        let is_output = |name: &str| outputs.iter().any(|output| output == name);
        let InputArguments { values, sizes } = &mut self.inputs;
        sizes.retain(|name| keep("--dim", name, model.has_size(name)));
        values.inputs.retain(|file| match file.split(is_input) {
            (Some(name), _) => keep("--input", name, is_input(name)),
            (None, _) => true,
        });
        values.fill.retain(|(name, _)| match name {
            Some(name) => keep("--fill", name, is_input(name)),
            None => true,
        });
        let tolerance = &mut self.tolerance;
        tolerance.retain(|name| keep("a tolerance for", name, is_output(name)));
        missing
    }
}

/// Checks all that can be without running a model, and returns the arguments that are for each.
fn check(arguments: &SnapshotArguments, models: &[PathBuf]) -> Result<Vec<Own>> {
    let mut all = Vec::new();
    let mut missing: Option<BTreeSet<String>> = None;
    for path in models {
        let model = unrecorded(arguments, path)?;
        let mut own = Own {
            inputs: arguments.inputs.clone(),
            tolerance: arguments.tolerance.clone(),
        };
        let its = match models.len() {
            // It says itself what there is.
            1 => BTreeSet::new(),
            _ => own.leave_out(&model),
        };
        let check = || -> Result<()> {
            model.sizes(&own.inputs.sizes.all())?;
            Tolerances::new(&own.tolerance, &model).map(drop)
        };
        check().with_context(in_model(&model.path))?;
        missing = Some(match missing {
            Some(missing) => &missing & &its,
            None => its,
        });
        all.push(own);
    }
    match missing.into_iter().flatten().next() {
        Some(what) => bail!("{what}: none of the models has that name"),
        None => Ok(all),
    }
}

/// Reads a model that has no data set, unless it may get another one.
fn unrecorded(arguments: &SnapshotArguments, path: &Path) -> Result<Model> {
    ensure!(
        !file::is_standard(path),
        "a model on standard input has no folder for its data sets: give its file"
    );
    let located = read::locate(path)?;
    let folder = read::data_folder(&located.model);
    ensure!(
        arguments.add || !read::has_data_sets(&folder),
        "{}: it has a data set already; `revseq verify --update` accepts new outputs, and --add \
         records another data set",
        folder.display()
    );
    Model::read(&located.model)
}

/// Records a data set of a model, and returns its folder.
fn record(arguments: &Own, path: &Path, engine: &Engine) -> Result<PathBuf> {
    let located = read::locate(path)?;
    let folder = read::data_folder(&located.model);
    let sizes = arguments.inputs.sizes.all();
    let (model, bindings) = Model::load_with(&located.model, &sizes)?;
    let given = &arguments.tolerance;
    let tolerances: BTreeMap<String, Tolerance> = model
        .output_names()
        .into_iter()
        .filter_map(|output| Some((output.clone(), given.of(&output)?)))
        .collect();
    let run = || -> Result<_> {
        let mut session = engine.ready(&model)?;
        let sources = inputs::Sources {
            fill: arguments.inputs.values.fill().or(Some(Fill::Random(0))),
            ..inputs::Sources::new(&arguments.inputs.values)
        };
        trial::run(trial::FEW, &model, &sources, &bindings, |inputs| {
            session.run(inputs)
        })
    };
    let (inputs, outputs) = run().with_context(in_model(&located.model))?;
    say_nan(engine, &model, &inputs, &Tensors::new(), &outputs);
    say_untested(engine, &model, &inputs, &outputs)?;
    let recording = Recording {
        model: &model,
        inputs: &inputs,
        outputs: &outputs,
        engine,
        tolerances: &tolerances,
    };
    recording.add_to(&folder)
}

/// Notes why a data set may test nothing: all lengths are 0, or the outputs are the same without weights.
fn say_untested(
    engine: &Engine,
    model: &Model,
    inputs: &Tensors,
    outputs: &[Tensor],
) -> Result<()> {
    let path = model.path.display();
    for (name, accepted) in ranges::accepted(model, &Bindings::new()) {
        let lengths = inputs.get(&name);
        let lengths = lengths.filter(|_| matches!(accepted, Accepted::Lengths(_)));
        let is_zero = |tensor: &&Tensor| match tensor.data() {
            Data::Fixed(_, bytes) => !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0),
            Data::Strings(_) => false,
        };
        if lengths.filter(is_zero).is_some() {
            note(format!(
                "{path}: the lengths {name:?} are all 0, so that no step counts: give others with --input"
            ));
        }
    }
    let same = Tolerance::Within {
        relative: 0.0,
        absolute: 0.0,
    };
    let is_same = |(one, other)| compare(one, other, same).is_ok();
    if let Some(weightless) = model.without_weights()?
        && let Ok(without) = engine.ready(&weightless).and_then(|mut it| it.run(inputs))
        && std::iter::zip(outputs, &without).all(is_same)
    {
        note(format!(
            "{path}: its outputs are the same with weights of 0, so that this tests none of them: give other \
             inputs or sizes"
        ));
    }
    Ok(())
}
