//! `revseq compare`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};

use super::inputs::{self, in_model, list};
use super::tolerance::Tolerances;
use super::{Outcome, print_json};
use crate::backend;
use crate::cli::{CompareArguments, Engine, Format};
use crate::model::{Model, check_dims, read};
use crate::tensor::Tensor;
use crate::tensor::compare::{Difference, Tolerance, compare};
use crate::tensor::fill::Fill;

/// A model on a backend, and what it gave.
struct Side {
    name: String,
    outputs: Vec<Tensor>,
}

/// How an output compares with the expected one.
enum Compared {
    Same,
    /// Within the tolerance.
    Close(Difference),
    Different(Difference),
}

/// Runs a model, or two, on each backend and compares the outputs.
pub(crate) fn compare_models(arguments: &CompareArguments) -> Result<Outcome> {
    let located = read::locate(&arguments.model)?;
    let model = Model::load(&located.model)?;
    let other = match &arguments.other {
        Some(path) => Some(Model::load(&read::locate(path)?.model)?),
        None => None,
    };
    let engines = match (arguments.on.as_slice(), &other) {
        ([], None) => &[Engine::Tract, Engine::Ort],
        ([], Some(_)) => [Engine::Tract].as_slice(),
        (given, _) => given,
    };
    ensure!(
        engines.len() > 1 || other.is_some(),
        "there is nothing to compare with: give another model, or two backends, as in --on tract,ort"
    );
    if let Some(other) = &other {
        check_same_values(&model, other)?;
    }
    let mut bindings = super::bindings(&arguments.inputs.dims)?;
    check_dims(&bindings, &model.input_symbols())?;
    let tolerances = Tolerances::new(&arguments.tolerance, &model)?;
    let sources = inputs::Sources::new(&arguments.inputs);
    let fill = match located.data_sets.first() {
        Some(_) => sources.fill,
        None => sources.fill.or(Some(Fill::Random(0))),
    };
    let sources = inputs::Sources {
        fill,
        data_set: located.data_sets.first().map(|set| set.inputs.as_slice()),
        ..sources
    };
    let given =
        inputs::gather(&model, &sources, &mut bindings).with_context(in_model(&located.model))?;
    let mut sides = Vec::new();
    for engine in &backend::Engine::open_all(&arguments.engine, engines)? {
        for model in std::iter::once(&model).chain(&other) {
            let name = format!("{} on {engine}", model.path.display());
            let outputs = engine
                .load(model)
                .and_then(backend::Loaded::ready)
                .and_then(|mut session| session.run(&given, &bindings))
                .with_context(|| name.clone())?;
            sides.push(Side { name, outputs });
        }
    }
    let (expected, others) = sides.split_first().context("there is a side")?;
    let names = model.output_names();
    let results: Vec<(&Side, Vec<Compared>)> = others
        .iter()
        .map(|side| {
            let outputs = std::iter::zip(&expected.outputs, &side.outputs);
            let compared = std::iter::zip(&names, outputs).map(|(name, (expected, got))| {
                let tolerance = tolerances.of(name, &BTreeMap::new());
                match compare(expected, got, Tolerance::Exact) {
                    Ok(()) => Compared::Same,
                    Err(exact) => match compare(expected, got, tolerance) {
                        Ok(()) => Compared::Close(exact),
                        Err(difference) => Compared::Different(difference),
                    },
                }
            });
            (side, compared.collect())
        })
        .collect();
    match arguments.format {
        Format::Text => print_text(&names, expected, &results)?,
        Format::Json => print_json(&as_json(&names, expected, &results))?,
    }
    let differs = results
        .iter()
        .flat_map(|(_, results)| results)
        .any(|result| matches!(result, Compared::Different(_)));
    Ok(if differs {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// Checks that two models take and give values of the same names.
fn check_same_values(model: &Model, other: &Model) -> Result<()> {
    let inputs = |model: &Model| -> Vec<String> {
        let inputs = model.inputs().into_iter().filter(|input| !input.optional);
        let names: BTreeSet<String> = inputs.map(|input| input.name).collect();
        names.into_iter().collect()
    };
    for (what, one, two) in [
        ("inputs", inputs(model), inputs(other)),
        ("outputs", model.output_names(), other.output_names()),
    ] {
        ensure!(
            one == two,
            "{} has the {what} {}, and {} has {}: both models need the same {what}",
            model.path.display(),
            list(&one),
            other.path.display(),
            list(&two)
        );
    }
    Ok(())
}

fn print_text(names: &[String], expected: &Side, results: &[(&Side, Vec<Compared>)]) -> Result<()> {
    let bold = Style::new().bold();
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let mut out = anstream::stdout().lock();
    writeln!(out, "expected: {bold}{}{bold:#}", expected.name)?;
    for (side, results) in results {
        writeln!(out, "{bold}{}{bold:#}", side.name)?;
        for (name, result) in std::iter::zip(names, results) {
            match result {
                Compared::Same => writeln!(out, "  {name}: {green}equal bit for bit{green:#}")?,
                Compared::Close(difference) => writeln!(
                    out,
                    "  {name}: {green}within the tolerance{green:#}: {name}{difference}"
                )?,
                Compared::Different(difference) => {
                    writeln!(out, "  {name}: {red}DIFFERENT{red:#}: {name}{difference}")?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

fn as_json(names: &[String], expected: &Side, results: &[(&Side, Vec<Compared>)]) -> Json {
    let results = results.iter().map(|(side, results)| {
        let outputs = std::iter::zip(names, results).map(|(name, result)| {
            let (told, difference) = match result {
                Compared::Same => ("equal", None),
                Compared::Close(difference) => ("within tolerance", Some(difference)),
                Compared::Different(difference) => ("different", Some(difference)),
            };
            let mut json = json!({ "name": name, "result": told });
            if let Some(difference) = difference {
                json["difference"] = difference.json();
            }
            json
        });
        json!({ "model": side.name, "outputs": outputs.collect::<Json>() })
    });
    json!({ "expected": expected.name, "compared": results.collect::<Json>() })
}
