//! `revseq snapshot`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Outcome;
use super::data_set::Recording;
use super::inputs::{self, in_model};
use super::tolerance::Tolerances;
use crate::backend::Engine;
use crate::cli::SnapshotArguments;
use crate::model::{Model, check_dims, read};
use crate::tensor::compare::Tolerance;
use crate::tensor::fill::Fill;

/// Records a data set of each model.
pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<Outcome> {
    let engine = Engine::open(&arguments.on)?;
    for model in &arguments.models {
        record(arguments, model, &engine)?;
    }
    Ok(Outcome::Done)
}

fn record(arguments: &SnapshotArguments, path: &Path, engine: &Engine) -> Result<()> {
    let located = read::locate(path)?;
    let folder = read::data_folder(&located.model);
    ensure!(
        arguments.add || !read::has_data_sets(&folder),
        "{}: it has a data set already; `revseq verify --update` accepts new outputs, and --add \
         records another data set",
        folder.display()
    );
    let model = Model::load(&located.model)?;
    let mut bindings = super::bindings(&arguments.inputs.dims)?;
    check_dims(&bindings, &model.input_symbols())?;
    Tolerances::new(&arguments.tolerance, &model)?;
    let given = &arguments.tolerance;
    let tolerances: BTreeMap<String, Tolerance> = model
        .output_names()
        .into_iter()
        .filter_map(|output| Some((output.clone(), given.of(&output)?)))
        .collect();
    let mut run = || -> Result<_> {
        let mut session = engine.load(&model)?.ready()?;
        let sources = inputs::Sources {
            fill: arguments.inputs.fill().or(Some(Fill::Random(0))),
            ..inputs::Sources::new(&arguments.inputs)
        };
        let inputs = inputs::gather(&model, &sources, &mut bindings)?;
        let outputs = session.run(&inputs, &bindings)?;
        Ok((inputs, outputs))
    };
    let (inputs, outputs) = run().with_context(in_model(&located.model))?;
    let recording = Recording {
        model: &model,
        inputs: &inputs,
        outputs: &outputs,
        engine,
        tolerances: &tolerances,
    };
    let set = recording.add_to(&folder)?;
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}: recorded on {engine}", set.display())?;
    Ok(out.flush()?)
}
