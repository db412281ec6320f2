//! `revseq compare`.

mod inner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value as Json, json};

use inner::{Inner, InnerRow};

use super::destination::Destination;
use super::inputs::{self, in_model, list};
use super::tolerance::Tolerances;
use super::{Outcome, trial};
use crate::backend;
use crate::chain;
use crate::cli::{Backend, CompareArguments, Format};
use crate::escape::printable;
use crate::model::{Model, read};
use crate::tensor::compare::{Difference, Tolerance, compare};
use crate::tensor::fill::Fill;
use crate::tensor::{Tensor, Tensors};

/// A model and a backend.
#[derive(Clone)]
struct Name {
    path: String,
    backend: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.path, self.backend)
    }
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

/// Comparison of a side with the expected one.
enum Row {
    Ran {
        outputs: Vec<Compared>,
        inner: Option<InnerRow>,
    },
    Refused(String),
}

/// Comparison of a value with the expected one.
enum Compared {
    Same,
    /// A value within the tolerance.
    Close(Difference),
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
    let bindings = model.sizes(&arguments.inputs.dims)?;
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
    let sources = inputs::Sources::new(&arguments.inputs.values);
    let fill = match located.data_sets.first() {
        Some(_) => sources.fill,
        None => sources.fill.or(Some(Fill::Random(0))),
    };
    let sources = inputs::Sources {
        fill,
        data_set: located.data_sets.first().map(|set| set.inputs.as_slice()),
        ..sources
    };
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
                sides.push(Side {
                    name: Name {
                        path: model.path.display().to_string(),
                        backend: engine.to_string(),
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
        Format::Text => destination.text(|out| print_text(out, &names, &expected, &rows))?,
        Format::Json => destination.json("compare", as_json(&names, &expected, &rows))?,
    }
    destination.complete()?;
    let differs = rows.iter().any(|(_, row)| match row {
        Row::Refused(_) => true,
        Row::Ran { outputs, inner } => {
            outputs.iter().any(Compared::is_different)
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
        outputs: engine.load(model)?.ready()?.run(given)?,
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
) -> Result<(Name, Vec<(Name, Row)>)> {
    let Some(first) = sides.iter().position(|side| side.ran.is_ok()) else {
        let refused = sides.into_iter().map(|side| match side.ran {
            Err(why) => format!("{}: {why}", side.name),
            Ok(_) => side.name.to_string(),
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
    let rows = others.into_iter().map(|(side, ran)| {
        let row = match ran {
            Err(why) => Row::Refused(why),
            Ok(ran) => {
                let outputs = std::iter::zip(&expected.outputs, &ran.outputs);
                let outputs = std::iter::zip(names, outputs)
                    .map(|(name, (expected, got))| Compared::new(expected, got, tolerance(name)));
                let inner = expected.inner.as_ref().zip(ran.inner.as_ref());
                Row::Ran {
                    outputs: outputs.collect(),
                    inner: inner.map(|(expected, got)| expected.compare(got, tolerance)),
                }
            }
        };
        (side, row)
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

fn print_text(
    out: &mut dyn Write,
    names: &[String],
    expected: &Name,
    rows: &[(Name, Row)],
) -> Result<()> {
    let bold = Style::new().bold();
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    writeln!(
        out,
        "expected: {bold}{}{bold:#}",
        printable(&expected.to_string())
    )?;
    for (side, row) in rows {
        let side = side.to_string();
        let side = printable(&side);
        let (results, inner) = match row {
            Row::Ran { outputs, inner } => (outputs, inner),
            Row::Refused(why) => {
                let why = printable(why);
                writeln!(out, "{bold}{side}{bold:#}: {red}REFUSED{red:#}\n  {why}")?;
                continue;
            }
        };
        writeln!(out, "{bold}{side}{bold:#}")?;
        for (name, result) in std::iter::zip(names, results) {
            let name = printable(name);
            match result {
                Compared::Same => writeln!(out, "  {name}: {green}equal bit for bit{green:#}")?,
                Compared::Close(difference) => writeln!(
                    out,
                    "  {name}: {green}within the tolerance{green:#}\n    {difference}"
                )?,
                Compared::Different(difference) => {
                    writeln!(out, "  {name}: {red}DIFFERENT{red:#}\n    {difference}")?;
                }
            }
        }
        if let Some(inner) = inner {
            inner.print(out)?;
        }
    }
    Ok(())
}

fn as_json(names: &[String], expected: &Name, rows: &[(Name, Row)]) -> Json {
    let rows = rows.iter().map(|(side, row)| {
        let (results, inner) = match row {
            Row::Ran { outputs, inner } => (outputs, inner),
            Row::Refused(why) => {
                return json!({
                    "model": side.to_string(),
                    "path": side.path,
                    "backend": side.backend,
                    "refused": why,
                });
            }
        };
        let outputs = std::iter::zip(names, results).map(|(name, result)| {
            let (result, difference) = match result {
                Compared::Same => ("equal", None),
                Compared::Close(difference) => ("within tolerance", Some(difference)),
                Compared::Different(difference) => ("different", Some(difference)),
            };
            let mut json = json!({ "name": name, "result": result });
            if let Some(difference) = difference {
                json["difference"] = difference.json();
            }
            json
        });
        let mut json = json!({
            "model": side.to_string(),
            "path": side.path,
            "backend": side.backend,
            "outputs": outputs.collect::<Json>(),
        });
        if let Some(inner) = inner {
            json["values"] = inner.json();
        }
        json
    });
    json!({
        "expected": expected.to_string(),
        "path": expected.path,
        "backend": expected.backend,
        "compared": rows.collect::<Json>(),
    })
}
