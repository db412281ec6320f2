//! `revseq compare`.

mod inner;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, Error, Result, bail, ensure};
use serde::Serialize;
use serde_json::json;

use inner::{Inner, InnerRow};

use super::destination::Destination;
use super::inputs::{self, in_model, list};
use super::tolerance::Tolerances;
use super::{Outcome, say_loops, trial};
use crate::backend::Engine;
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
    let sizes = arguments.inputs.sizes.all();
    let (model, bindings) = Model::load_with(&located.model, &sizes)?;
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
    let engines = Engine::open_all(&arguments.on.engine, backends)?;
    let names = model.output_names();
    let compare = |given: &Tensors| {
        let models = || std::iter::once(&model).chain(&other);
        let sides = engines
            .iter()
            .flat_map(|engine| models().map(move |it| (engine, it)));
        let sides = sides.map(|(engine, model)| Side::run(engine, model, given, arguments.values));
        compared(&names, sides.collect(), &tolerances)
    };
    let (_, (expected, rows)) = trial::run(trial::FEW, &model, &sources, &bindings, compare)
        .with_context(in_model(&located.model))?;
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
    Ok(match rows.iter().any(|row| row.results.are_different()) {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

impl Side {
    fn run(engine: &Engine, model: &Model, given: &Tensors, with_values: bool) -> Self {
        let ran = match with_values {
            false => outputs(engine, model, given),
            true => inner::run(engine, model, given),
        };
        let (path, backend) = (model.path.display().to_string(), engine.to_string());
        Self {
            name: Name {
                model: format!("{path} on {backend}"),
                path,
                backend,
            },
            ran: ran.map_err(|error| chain(&error)),
        }
    }
}

impl Results {
    fn are_different(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Ran { outputs, inner } => {
                outputs.iter().any(|it| it.compared.is_different())
                    || inner.as_ref().is_some_and(InnerRow::is_different)
            }
        }
    }
}

/// Runs a model for its outputs alone.
fn outputs(engine: &Engine, model: &Model, given: &Tensors) -> Result<Ran> {
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
    mut sides: Vec<Side>,
    tolerances: &Tolerances<'_>,
) -> Result<(Name, Vec<Row>)> {
    let Some(first) = sides.iter().position(|side| side.ran.is_ok()) else {
        let refused = sides.into_iter().map(|Side { name, ran }| match ran {
            Err(why) => format!("{}: {why}", name.model),
            Ok(_) => name.model,
        });
        bail!(refused.collect::<Vec<_>>().join("; "));
    };
    let Side {
        name: expected_name,
        ran,
    } = sides.remove(first);
    let expected = ran.map_err(Error::msg)?;
    let tolerance = |name: &str| tolerances.of(name, None);
    let rows = sides.into_iter().map(|Side { name, ran }| {
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
    Ok((expected_name, rows.collect()))
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
