//! Data sets: inputs and outputs of a model, in the layout of ONNX's backend tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value as Json, json};

use super::inputs::{self, read_data_set};
use super::tolerance::is_exact;
use crate::backend::Engine;
use crate::file::{self, NewFolder};
use crate::model::read::{self, DataSet};
use crate::model::{Bindings, Model};
use crate::snapshot::Snapshot;
use crate::tensor::compare::Tolerance;
use crate::tensor::fill::Fill;
use crate::tensor::{Tensor, Tensors, pb};

/// The file of a data set with the backend that recorded it and the tolerances of outputs.
const RECORD: &str = "snapshot.json";

/// The file of a data set that shows its outputs to those who review a change of it.
const SHOWN: &str = "snapshot.txt";

/// The way to get one of these two files again.
const ANEW: &str = "`revseq verify --update` writes it anew";

/// The inputs of a data set, checked against the model's declarations, and the sizes that they
/// bind.
pub(super) fn inputs(model: &Model, set: &DataSet) -> Result<Tensors> {
    let declared = model.inputs();
    let names = inputs::names(&declared);
    let given = read_data_set(&set.inputs, &names)?;
    let mut required = declared.iter().filter(|input| !input.optional);
    if let Some(missing) = required.find(|input| !given.contains_key(&input.name)) {
        bail!("it has no data for input {:?}", missing.name);
    }
    inputs::bind(&declared, &given, &mut Bindings::new())?;
    Ok(given)
}

/// The expected outputs of a data set.
pub(super) fn outputs(model: &Model, set: &DataSet) -> Result<Tensors> {
    let names = model.output_names();
    let expected = read_data_set(&set.outputs, &names)?;
    if let Some(missing) = names.iter().find(|name| !expected.contains_key(*name)) {
        bail!("it has no data for output {missing:?}");
    }
    Ok(expected)
}

/// The inputs of a data set for a model that has changed since: those that still fit, by name
/// or else by place, and others made up.
pub(super) fn adapted_inputs(model: &Model, set: &DataSet) -> Result<Tensors> {
    let declared = model.inputs();
    let names = inputs::names(&declared);
    let mut recorded: Vec<Option<(String, Tensor)>> = set
        .inputs
        .iter()
        .map(|file| Tensor::read_named(file).map(Some))
        .collect::<Result<_>>()?;
    let mut kept = Tensors::new();
    let mut bindings = Bindings::new();
    for by_name in [true, false] {
        for (index, slot) in recorded.iter_mut().enumerate() {
            let own = slot.as_ref().map(|(own, _)| own);
            let name = match by_name {
                true => own.filter(|it| names.contains(it)),
                false => names.get(index).filter(|it| !kept.contains_key(*it)),
            };
            if let Some(name) = name.cloned()
                && let Some((_, tensor)) = slot.take()
            {
                let one = Tensors::from([(name, tensor)]);
                let mut bound = bindings.clone();
                if inputs::bind(&declared, &one, &mut bound).is_ok() {
                    bindings = bound;
                    kept.extend(one);
                }
            }
        }
    }
    let sources = inputs::Sources {
        tensors: kept,
        fill: Some(Fill::Random(0)),
        ..inputs::Sources::default()
    };
    inputs::gather(model, &sources, &mut bindings).with_context(|| {
        format!(
            "the model has other inputs now; remove {} and record it with `revseq snapshot`",
            set.path.display()
        )
    })
}

/// The record of a data set.
#[derive(Default)]
pub(super) struct Record {
    /// The backend that computed the outputs, as it describes itself.
    pub(super) recorded_on: Option<String>,
    /// The recorded tolerances, by output.
    pub(super) tolerances: BTreeMap<String, Tolerance>,
    /// The outputs in order, by name, and from what each was computed; `None` in older records.
    outputs: Option<Vec<(String, u32)>>,
    /// Whether a text shows the outputs, which older records lack.
    is_shown: bool,
}

impl Record {
    /// The tolerances for a data set that is recorded anew.
    ///
    /// # Errors
    /// Its record is there and cannot be read.
    pub(super) fn kept_tolerances(set: &DataSet) -> Result<BTreeMap<String, Tolerance>> {
        match set.path.join(RECORD).exists() {
            true => Ok(Self::read(set)?.tolerances),
            false => Ok(BTreeMap::new()),
        }
    }

    /// Reads the record of a data set; empty if this program did not record it.
    ///
    /// # Errors
    /// It cannot be read, or is missing in a folder of snapshots.
    pub(super) fn read(set: &DataSet) -> Result<Self> {
        let path = set.path.join(RECORD);
        if !path.exists() {
            ensure!(
                !is_snapshot(set),
                "{RECORD} is missing, which has the tolerances and what the outputs were computed from; {ANEW}"
            );
            return Ok(Self::default());
        }
        let read = || -> Result<Self> {
            let json: Json = serde_json::from_slice(&read::file(&path)?)?;
            Ok(Self {
                recorded_on: json["recorded_on"].as_str().map(str::to_owned),
                tolerances: tolerances(&json)?,
                outputs: recorded_outputs(&json)?,
                is_shown: json["shown"] == SHOWN,
            })
        };
        read().with_context(|| format!("cannot read {}", path.display()))
    }

    /// Describes what is wrong with the text that shows the recorded outputs; `None` if nothing is, or an
    /// older record has none.
    pub(super) fn shown(&self, set: &DataSet, recorded: &Tensors) -> Result<Option<String>> {
        let Some(outputs) = self.outputs.as_ref().filter(|_| self.is_shown) else {
            return Ok(None);
        };
        if !set.path.join(SHOWN).exists() {
            return Ok(Some(format!("{SHOWN} is missing; {ANEW}")));
        }
        let found = read::file(&set.path.join(SHOWN));
        let found = found.with_context(|| format!("cannot read {SHOWN}"))?;
        // Git may have changed the ends of lines.
        let found = String::from_utf8_lossy(&found).replace("\r\n", "\n");
        // The model may compute now what it moved before.
        let is_shown = [false, true].into_iter().any(|is_exact| {
            let names = outputs.iter().map(|(name, _)| name);
            let outputs = names.filter_map(|name| Some((name.clone(), recorded.get(name)?)));
            Snapshot::of(outputs, is_exact).to_string() == found
        });
        Ok((!is_shown).then(|| format!("{SHOWN} does not show the recorded outputs; {ANEW}")))
    }

    /// Describes the outputs that have changed places since under the same names: in the model's
    /// list, or because each is computed as another one was. Their values may be equal for the
    /// recorded inputs.
    pub(super) fn moved(&self, model: &Model) -> Vec<String> {
        let Some(recorded) = &self.outputs else {
            return Vec::new();
        };
        let after = model.output_names();
        let now: Vec<(&String, u32)> = after.iter().zip(model.origins()).collect();
        let before: Vec<&str> = recorded.iter().map(|(name, _)| &**name).collect();
        let is_same_set = before.iter().copied().collect::<BTreeSet<&str>>()
            == after.iter().map(|name| &**name).collect();
        let mut moved = Vec::new();
        if before != after && is_same_set {
            moved.push(format!(
                "the outputs are in the order {}, recorded as {}",
                after.join(", "),
                before.join(", ")
            ));
        }
        let recorded: BTreeMap<&String, u32> = recorded
            .iter()
            .map(|(name, origin)| (name, *origin))
            .collect();
        // Those that are not computed as they were.
        let is_changed = |(name, origin): &&(&String, u32)| {
            let was = recorded.get(name);
            was.is_some_and(|was| was != origin)
        };
        let changed: Vec<_> = now.iter().filter(is_changed).collect();
        for (name, origin) in &changed {
            let mut others = changed.iter();
            if let Some((other, _)) = others.find(|(other, _)| recorded.get(other) == Some(origin))
            {
                moved.push(format!("output {name} is computed as output {other} was"));
            }
        }
        moved
    }
}

/// Whether `revseq snapshot` recorded a data set, so that it has a record.
fn is_snapshot(set: &DataSet) -> bool {
    let folder = set.path.parent().and_then(Path::extension);
    folder.is_some_and(|ending| ending == "snapshots")
}

/// The outputs of a record.
fn recorded_outputs(record: &Json) -> Result<Option<Vec<(String, u32)>>> {
    let Some(all) = record.get("outputs") else {
        return Ok(None);
    };
    let all = all.as_array().context("its outputs are not a list")?;
    let outputs = all.iter().map(|output| {
        let name = output["name"].as_str().context("an output has no name")?;
        let origin = output["origin"].as_str();
        let origin = origin.and_then(|it| u32::from_str_radix(it, 16).ok());
        let origin = origin.with_context(|| format!("output {name:?} has no origin"))?;
        Ok((name.to_owned(), origin))
    });
    outputs.collect::<Result<_>>().map(Some)
}

/// The outputs of a model for a record.
fn outputs_record(model: &Model) -> Json {
    let outputs = std::iter::zip(model.output_names(), model.origins());
    let outputs =
        outputs.map(|(name, origin)| json!({ "name": name, "origin": format!("{origin:08x}") }));
    outputs.collect()
}

fn tolerances(record: &Json) -> Result<BTreeMap<String, Tolerance>> {
    let Some(all) = record.get("tolerances") else {
        return Ok(BTreeMap::new());
    };
    let all = all
        .as_object()
        .context("its tolerances are not an object")?;
    all.iter()
        .map(|(output, recorded)| {
            let number = |key: &str| {
                recorded
                    .get(key)
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
}

/// The data to record.
pub(super) struct Recording<'a> {
    pub(super) model: &'a Model,
    pub(super) inputs: &'a Tensors,
    pub(super) outputs: &'a [Tensor],
    pub(super) engine: &'a Engine,
    pub(super) tolerances: &'a BTreeMap<String, Tolerance>,
}

impl Recording<'_> {
    /// Writes the next data set below a folder, all of it or nothing: its path.
    pub(super) fn add_to(&self, folder: &Path) -> Result<PathBuf> {
        let set = read::next_data_set(folder)?;
        self.write(&set)?;
        Ok(set)
    }

    /// Writes a data set, atomically replacing the previous one.
    pub(super) fn write(&self, set: &Path) -> Result<()> {
        let write = || -> Result<()> {
            let folder = NewFolder::create(set)?;
            let names = inputs::names(&self.model.inputs());
            let given = names
                .iter()
                .filter_map(|name| Some((name, self.inputs.get(name)?)));
            for (index, (name, tensor)) in given.enumerate() {
                let path = folder.path().join(format!("input_{index}.pb"));
                fs::write(path, pb::encode(tensor, name)?)?;
            }
            for encoded in encoded_outputs(self.model, self.outputs) {
                let (file, bytes) = encoded?;
                fs::write(folder.path().join(file), bytes)?;
            }
            let outputs = self.model.output_names();
            let tolerances: serde_json::Map<String, Json> = self
                .tolerances
                .iter()
                .filter(|(output, _)| outputs.contains(output))
                .filter_map(|(output, tolerance)| match tolerance {
                    Tolerance::Exact | Tolerance::Computed => None,
                    Tolerance::Within { relative, absolute } => Some((
                        output.clone(),
                        json!({ "rtol": relative, "atol": absolute }),
                    )),
                })
                .collect();
            let record = json!({
                "revseq": env!("CARGO_PKG_VERSION"),
                "recorded_on": self.engine.to_string(),
                "outputs": outputs_record(self.model),
                "shown": SHOWN,
                "tolerances": tolerances,
            });
            fs::write(folder.path().join(SHOWN), shown(self.model, self.outputs)?)?;
            let text = serde_json::to_string_pretty(&record)? + "\n";
            fs::write(folder.path().join(RECORD), text)?;
            folder.complete()
        };
        write().with_context(|| format!("cannot write {}", set.display()))
    }
}

/// The text that shows a model's outputs.
fn shown(model: &Model, outputs: &[Tensor]) -> Result<String> {
    let outputs = std::iter::zip(model.output_names(), outputs);
    Ok(Snapshot::of(outputs, is_exact(model)?).to_string())
}

/// The files of a data set's outputs by their names.
fn encoded_outputs(
    model: &Model,
    outputs: &[Tensor],
) -> impl Iterator<Item = Result<(String, Vec<u8>)>> {
    let outputs = std::iter::zip(model.output_names(), outputs).enumerate();
    outputs.map(|(index, (name, tensor))| {
        Ok((format!("output_{index}.pb"), pb::encode(tensor, &name)?))
    })
}

/// Makes other outputs the expected ones of a data set.
pub(super) fn update(set: &DataSet, model: &Model, outputs: &[Tensor]) -> Result<()> {
    for encoded in encoded_outputs(model, outputs) {
        let (file, bytes) = encoded?;
        file::write(&set.path.join(file), &bytes)?;
    }
    let path = set.path.join(RECORD);
    if !path.exists() {
        return Ok(());
    }
    file::write(&set.path.join(SHOWN), shown(model, outputs)?.as_bytes())?;
    let mut record: serde_json::Map<String, Json> = serde_json::from_slice(&read::file(&path)?)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let outputs = outputs_record(model);
    record.insert("outputs".to_owned(), outputs);
    record.insert("shown".to_owned(), SHOWN.into());
    file::write(
        &path,
        (serde_json::to_string_pretty(&record)? + "\n").as_bytes(),
    )
}
