//! Data sets: what a model was given and what it gave, as ONNX's backend tests have them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};

use super::inputs::{self, read_data_set};
use crate::backend::Engine;
use crate::model::read::{self, DataSet};
use crate::model::{Bindings, Model};
use crate::tensor::compare::Tolerance;
use crate::tensor::{Tensor, Tensors, pb};

/// The file of a data set that says what recorded it and how far outputs may be off.
const RECORD: &str = "snapshot.json";

/// The inputs of a data set, checked against what the model declares; the sizes that they
/// have are bound.
pub(super) fn inputs(model: &Model, set: &DataSet) -> Result<(Tensors, Bindings)> {
    let declared = model.inputs();
    let names = inputs::names(&declared);
    let given = read_data_set(&set.inputs, &names)?;
    let mut required = declared.iter().filter(|input| !input.optional);
    if let Some(missing) = required.find(|input| !given.contains_key(&input.name)) {
        bail!("it has no data for input {:?}", missing.name);
    }
    let mut bindings = Bindings::new();
    inputs::bind(&declared, &given, &mut bindings)?;
    Ok((given, bindings))
}

/// What a data set expects of each output.
pub(super) fn outputs(model: &Model, set: &DataSet) -> Result<Tensors> {
    let names = model.output_names();
    let expected = read_data_set(&set.outputs, &names)?;
    if let Some(missing) = names.iter().find(|name| !expected.contains_key(*name)) {
        bail!("it has no data for output {missing:?}");
    }
    Ok(expected)
}

/// How far the outputs of a data set may be off, as far as it says so.
pub(super) fn tolerances(set: &DataSet) -> Result<BTreeMap<String, Tolerance>> {
    let path = set.path.join(RECORD);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let read = || -> Result<BTreeMap<String, Tolerance>> {
        let json: Json = serde_json::from_slice(&read::file(&path)?)?;
        let Some(all) = json.get("tolerances") else {
            return Ok(BTreeMap::new());
        };
        let all = all
            .as_object()
            .context("its tolerances are not an object")?;
        all.iter()
            .map(|(output, told)| {
                let number = |key: &str| {
                    told.get(key)
                        .and_then(Json::as_f64)
                        .filter(|tolerance| *tolerance >= 0.0)
                        .with_context(|| format!("output {output:?} has no {key} of 0 or more"))
                };
                let tolerance = Tolerance::Within {
                    relative: number("rtol")?,
                    absolute: number("atol")?,
                };
                Ok((output.clone(), tolerance))
            })
            .collect()
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// What is to be recorded.
pub(super) struct Recording<'a> {
    pub(super) model: &'a Model,
    pub(super) inputs: &'a Tensors,
    pub(super) outputs: &'a [Tensor],
}

impl Recording<'_> {
    /// Writes the next data set below a folder, all of it or nothing: its path.
    pub(super) fn write(
        &self,
        folder: &Path,
        engine: &Engine,
        tolerances: &BTreeMap<String, Tolerance>,
    ) -> Result<PathBuf> {
        let set = read::next_data_set(folder)?;
        let partial = set.with_extension("partial");
        let write = || -> Result<()> {
            fs::create_dir_all(&partial)?;
            let names = inputs::names(&self.model.inputs());
            let given = names
                .iter()
                .filter_map(|name| Some((name, self.inputs.get(name)?)));
            for (index, (name, tensor)) in given.enumerate() {
                fs::write(
                    partial.join(format!("input_{index}.pb")),
                    pb::encode(tensor, name),
                )?;
            }
            write_outputs(&partial, self.model, self.outputs)?;
            let told: serde_json::Map<String, Json> = tolerances
                .iter()
                .filter_map(|(output, tolerance)| match tolerance {
                    Tolerance::Exact => None,
                    Tolerance::Within { relative, absolute } => Some((
                        output.clone(),
                        json!({ "rtol": relative, "atol": absolute }),
                    )),
                })
                .collect();
            let record = json!({
                "revseq": env!("CARGO_PKG_VERSION"),
                "recorded_on": engine.to_string(),
                "tolerances": told,
            });
            let text = serde_json::to_string_pretty(&record)? + "\n";
            fs::write(partial.join(RECORD), text)?;
            Ok(fs::rename(&partial, &set)?)
        };
        write().with_context(|| format!("cannot write {}", set.display()))?;
        Ok(set)
    }
}

fn write_outputs(folder: &Path, model: &Model, outputs: &[Tensor]) -> Result<()> {
    for (index, (name, tensor)) in std::iter::zip(model.output_names(), outputs).enumerate() {
        let path = folder.join(format!("output_{index}.pb"));
        let partial = path.with_extension("partial");
        fs::write(&partial, pb::encode(tensor, &name))?;
        fs::rename(&partial, &path)?;
    }
    Ok(())
}

/// Makes other outputs the expected ones of a data set.
pub(super) fn update(set: &DataSet, model: &Model, outputs: &[Tensor]) -> Result<()> {
    write_outputs(&set.path, model, outputs)
        .with_context(|| format!("cannot write to {}", set.path.display()))
}
