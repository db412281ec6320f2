//! `revseq compare`.

mod inner;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::json;

use inner::{Inner, InnerRow};

use super::destination::Destination;
use super::inputs::{self, in_model, list};
use super::tolerance::Tolerances;
use super::{Outcome, say_loops, trial};
use crate::backend;
use crate::chain;
use crate::cli::{Backend, CompareArguments, Format};
use crate::escape::printable;
use crate::model::{Model, read};
use crate::note::note;
use crate::style::{BOLD, FAILED, GREEN};
use crate::tensor::compare::{Difference, Tolerance, compare};
use crate::tensor::{Tensor, Tensors};

/// A model and a backend.
#[derive(Clone, Serialize)]
struct Name {
    /// Both.
    model: String,
    path: String,
    backend: String,
}

/// A model on a backend.
struct Side {
    name: Name,
    /// Its values, or why there are none.
    ran: Result<Ran, String>,
}

/// The values that a model computed.
struct Ran {
    outputs: Vec<Tensor>,
    /// The values between its nodes, if they are asked for.
    inner: Option<Inner>,
}

/// A side, compared with the expected one.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    name: Name,
    #[serde(flatten)]
    results: Results,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Results {
    Ran {
        outputs: Vec<Output>,
        #[serde(rename = "values", skip_serializing_if = "Option::is_none")]
        inner: Option<InnerRow>,
    },
    Refused {
        #[serde(rename = "refused")]
        why: String,
    },
}

/// An output, compared with the expected one.
#[derive(Serialize)]
struct Output {
    name: String,
    #[serde(flatten)]
    compared: Compared,
}

/// Comparison of a value with the expected one.
#[derive(Serialize)]
#[serde(tag = "result", content = "difference")]
enum Compared {
    #[serde(rename = "equal")]
    Same,
    /// A value within the tolerance.
    #[serde(rename = "within tolerance")]
    Close(Difference),
    #[serde(rename = "different")]
    Different(Difference),
}

impl Compared {
    fn new(expected: &Tensor, got: &Tensor, tolerance: Tolerance) -> Self {
        match compare(expected, got, Tolerance::Exact) {
            Ok(()) => Self::Same,
            Err(exact) => match compare(expected, got, tolerance) {
                Ok(()) => Self::Close(exact),
                Err(difference) => Self::Different(difference),
            },
        }
    }

    fn is_different(&self) -> bool {
        matches!(self, Self::Different(_))
    }
}

/// Runs a model, or two, on each backend and compares the outputs.
pub(crate) fn compare_models(arguments: &CompareArguments) -> Result<Outcome> {
    let mut destination = Destination::open(&arguments.report)?;
    let located = read::locate(&arguments.model)?;
    let model = Model::read(&located.model)?;
    let bindings = model.sizes(&arguments.inputs.sizes.all())?;
    let model = model.with_data()?;
    let other = match &arguments.other {
        Some(path) => Some(Model::load(&read::locate(path)?.model)?),
        None => None,
    };
    let backends = arguments.on.or(match &other {
        None => &[Backend::Tract, Backend::Ort],
        Some(_) => &[Backend::Tract],
    });
    ensure!(
        backends.len() > 1 || other.is_some(),
        "there is nothing to compare with: give another model, or two backends, as in \
         --backend tract,ort"
    );
    if let Some(other) = &other {
        check_same_values(&model, other)?;
    }
    let tolerances = Tolerances::new(&arguments.tolerance, &model)?;
    let sources = inputs::Sources::of(&arguments.inputs.values, &located);
    if sources.data_set.is_some() && located.data_sets.len() > 1 {
        let (first, count) = (&located.data_sets[0].name, located.data_sets.len());
        note(format!(
            "the inputs are those of {first}, one of {count} data sets: `revseq verify` compares all with their outputs"
        ));
    }
    let engines = backend::Engine::open_all(&arguments.on.engine, backends)?;
    let names = model.output_names();
    let compare = |given: &Tensors| {
        let mut sides = Vec::new();
        for engine in &engines {
            for model in std::iter::once(&model).chain(&other) {
                let ran = match arguments.values {
                    false => outputs(engine, model, given),
                    true => inner::run(engine, model, given),
                };
                let (path, backend) = (model.path.display().to_string(), engine.to_string());
                sides.push(Side {
                    name: Name {
                        model: format!("{path} on {backend}"),
                        path,
                        backend,
                    },
                    ran: ran.map_err(|error| chain(&error)),
                });
            }
        }
        compared(&names, sides, &tolerances)
    };
    let (_, (expected, rows)) =
        trial::run(&model, &sources, &bindings, compare).with_context(in_model(&located.model))?;
    match arguments.format {
        Format::Text => destination.text(|out| print_text(out, &expected, &rows))?,
        Format::Json => destination.json(
            "compare",
            json!({
                "expected": expected.model,
                "path": expected.path,
                "backend": expected.backend,
                "compared": rows,
            }),
        )?,
    }
    destination.complete()?;
    say_loops(&engines, &model)?;
    let differs = rows.iter().any(|row| match &row.results {
        Results::Refused { .. } => true,
        Results::Ran { outputs, inner } => {
            outputs.iter().any(|it| it.compared.is_different())
                || inner.as_ref().is_some_and(InnerRow::is_different)
        }
    });
    Ok(if differs {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

/// Runs a model for its outputs alone.
fn outputs(engine: &backend::Engine, model: &Model, given: &Tensors) -> Result<Ran> {
    Ok(Ran {
        outputs: engine.ready(model)?.run(given)?,
        inner: None,
    })
}

/// The name of the first side that ran, with whose values the others are compared; and each
/// other side.
///
/// # Errors
/// No side ran.
fn compared(
    names: &[String],
    sides: Vec<Side>,
    tolerances: &Tolerances<'_>,
) -> Result<(Name, Vec<Row>)> {
    let Some(first) = sides.iter().position(|side| side.ran.is_ok()) else {
        let refused = sides.into_iter().map(|side| match side.ran {
            Err(why) => format!("{}: {why}", side.name.model),
            Ok(_) => side.name.model,
        });
        bail!(refused.collect::<Vec<_>>().join("; "));
    };
    let mut expected = None;
    let mut others = Vec::new();
    for (index, Side { name, ran }) in sides.into_iter().enumerate() {
        match ran {
            Ok(ran) if index == first => expected = Some((name, ran)),
            ran => others.push((name, ran)),
        }
    }
    let (expected_name, expected) = expected.context("a side ran")?;
    let tolerance = |name: &str| tolerances.of(name, &BTreeMap::new());
    let rows = others.into_iter().map(|(name, ran)| {
        let results = match ran {
            Err(why) => Results::Refused { why },
            Ok(ran) => {
                let outputs = std::iter::zip(&expected.outputs, &ran.outputs);
                let outputs = std::iter::zip(names, outputs);
                let outputs = outputs.map(|(name, (expected, got))| Output {
                    name: name.clone(),
                    compared: Compared::new(expected, got, tolerance(name)),
                });
                let inner = expected.inner.as_ref().zip(ran.inner.as_ref());
                Results::Ran {
                    outputs: outputs.collect(),
                    inner: inner.map(|(expected, got)| expected.compare(got, tolerance)),
                }
            }
        };
        Row { name, results }
    });
    let rows = rows.collect();
    Ok((expected_name, rows))
}

/// Checks that the inputs and outputs of two models have the same names.
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

fn print_text(out: &mut dyn Write, expected: &Name, rows: &[Row]) -> Result<()> {
    let expected = printable(&expected.model);
    writeln!(out, "expected: {BOLD}{expected}{BOLD:#}")?;
    for Row { name, results } in rows {
        let side = printable(&name.model);
        let (outputs, inner) = match results {
            Results::Ran { outputs, inner } => (outputs, inner),
            Results::Refused { why } => {
                let why = printable(why);
                writeln!(
                    out,
                    "{BOLD}{side}{BOLD:#}: {FAILED}REFUSED{FAILED:#}\n  {why}"
                )?;
                continue;
            }
        };
        writeln!(out, "{BOLD}{side}{BOLD:#}")?;
        for Output { name, compared } in outputs {
            write!(out, "  {}: ", printable(name))?;
            match compared {
                Compared::Same => writeln!(out, "{GREEN}equal bit for bit{GREEN:#}")?,
                Compared::Close(difference) => {
                    writeln!(
                        out,
                        "{GREEN}within the tolerance{GREEN:#}\n    {difference}"
                    )?;
                }
                Compared::Different(difference) => {
                    writeln!(out, "{FAILED}DIFFERENT{FAILED:#}\n    {difference}")?;
                }
            }
        }
        if let Some(inner) = inner {
            inner.print(out)?;
        }
    }
    Ok(())
}
