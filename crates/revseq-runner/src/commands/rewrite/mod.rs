//! `revseq rewrite`.

mod check;
mod output;

use std::io::Write;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result, ensure};
use revseq_rewrite::{Assumptions, Exactness, Options, PASSES, Report, Step};
use serde_json::{Value as Json, json};

use super::{Outcome, print_json};
use crate::cli::{Assumption, Format, RewriteArguments, Runtime};
use crate::escape::printable;
use crate::model::{Model, check_dims, read};
use crate::tensor::compare::Tolerance;
use check::Checked;

/// Rewrites a model, checks the result if that is asked for, and writes it.
pub(crate) fn rewrite(arguments: &RewriteArguments) -> Result<Outcome> {
    let located = read::locate(&arguments.model)?;
    output::refuse(&located.model, &arguments.output, arguments.overwrite)?;
    let mut original = Model::load(&located.model)?;
    if arguments.check.is_none() {
        original = original.without_constants();
    }
    let dims = super::bindings(&arguments.dims)?;
    check_dims(&dims, &original.input_symbols())?;
    let (rewritten, report) = apply(&mut original, arguments)?;
    let written = output::Partial::write(&located.model, &arguments.output, rewritten)?;
    let model = written.load()?;
    let checked = match &arguments.check {
        None => Vec::new(),
        Some(data) => {
            let sets = match data {
                Some(folder) => check::data_sets(folder)?,
                None => located.data_sets,
            };
            let check = check::Check {
                original: &original,
                rewritten: &model,
                tolerance: match report.exactness() {
                    Exactness::Exact => Tolerance::Exact,
                    Exactness::Rounding => Tolerance::COMPUTED,
                },
            };
            check.run(&sets, &dims, arguments.ort_lib.as_deref())?
        }
    };
    let failed = checked.iter().any(Checked::is_difference);
    match arguments.format {
        Format::Text => print_text(&report, &checked),
        Format::Json => print_json(&as_json(&located.model, arguments, &report, &checked)),
    }?;
    if failed {
        return Ok(Outcome::Failed);
    }
    written.keep(&arguments.output)?;
    Ok(Outcome::Done)
}

/// The options that the arguments select.
fn options(arguments: &RewriteArguments) -> Options {
    let mut passes = arguments.passes.clone();
    let is_asked = arguments.portable || arguments.fast || arguments.form.is_some();
    if !is_asked && passes.is_empty() {
        let exact = PASSES
            .iter()
            .filter(|pass| pass.fast && pass.exactness == Exactness::Exact);
        passes.extend(exact.map(|pass| pass.name.to_owned()));
    }
    Options {
        portable: arguments.portable,
        fast: arguments.fast,
        tract: arguments.form == Some(Runtime::Tract),
        passes,
        assume: Assumptions {
            right_padded: arguments.assume.contains(&Assumption::RightPadded),
        },
    }
}

/// Rewrites a model with all that its file holds.
fn apply(
    original: &mut Model,
    arguments: &RewriteArguments,
) -> Result<(revseq_rewrite::ModelProto, Report)> {
    let decoded = revseq_rewrite::decode(&original.bytes).map_err(anyhow::Error::from);
    if arguments.check.is_none() {
        original.bytes = Vec::new();
    }
    let rewritten = decoded.and_then(|mut model| {
        let report = revseq_rewrite::rewrite(&mut model, &options(arguments))?;
        Ok((model, report))
    });
    rewritten.with_context(|| format!("cannot rewrite {}", original.path.display()))
}

fn print_text(report: &Report, checked: &[Checked]) -> Result<()> {
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let mut out = anstream::stdout().lock();
    for step in &report.steps {
        let place = place(step);
        let place = printable(&place);
        let pass = step.pass;
        match &step.outcome {
            revseq_rewrite::Outcome::Rewritten(what) => {
                let rounding = match step.exactness {
                    Exactness::Exact => "",
                    Exactness::Rounding => ", equal up to rounding",
                };
                let what = printable(what);
                writeln!(out, "{place}: {green}{pass}{green:#}: {what}{rounding}")?;
            }
            revseq_rewrite::Outcome::LeftAlone(why) => {
                let why = printable(why);
                writeln!(out, "{place}: {yellow}{pass}: left alone{yellow:#}: {why}")?;
            }
        }
    }
    let count = report.rewritten().count();
    let how = match report.exactness() {
        _ if count == 0 => "the model is unchanged",
        Exactness::Exact => "outputs are equal bit for bit",
        Exactness::Rounding => "outputs are equal up to rounding",
    };
    writeln!(
        out,
        "{count} rewritten, {} left alone: {how}",
        report.steps.len() - count
    )?;
    for checked in checked {
        match checked {
            Checked::Same { backend, set } => {
                writeln!(out, "check on {backend}, {set}: {green}ok{green:#}")?;
            }
            Checked::Different { backend, set, how } => {
                let how = printable(how);
                writeln!(out, "check on {backend}, {set}: {red}FAILED{red:#}: {how}")?;
            }
            Checked::Skipped { backend, why } => {
                let why = printable(why);
                writeln!(out, "check on {backend}: {yellow}skipped{yellow:#}: {why}")?;
            }
        }
    }
    Ok(out.flush()?)
}

/// A node with the graphs around it.
fn place(step: &Step) -> String {
    let mut place = step.graph.clone();
    place.push(step.node.clone());
    format!("{} ({})", place.join(" / "), step.operator)
}

fn as_json(
    model: &Path,
    arguments: &RewriteArguments,
    report: &Report,
    checked: &[Checked],
) -> Json {
    let checked = checked.iter().map(|checked| match checked {
        Checked::Same { backend, set } => {
            json!({ "backend": backend, "data": set, "result": "ok" })
        }
        Checked::Different { backend, set, how } => {
            json!({ "backend": backend, "data": set, "result": "failed", "reason": how })
        }
        Checked::Skipped { backend, why } => {
            json!({ "backend": backend, "result": "skipped", "reason": why })
        }
    });
    json!({
        "model": model.display().to_string(),
        "output": arguments.output.display().to_string(),
        "exactness": report.exactness(),
        "steps": report.steps,
        "checks": checked.collect::<Vec<_>>(),
    })
}

/// Checks that a path has a file's name at its end.
fn file_name(path: &Path) -> Result<&std::ffi::OsStr> {
    let name = path.file_name();
    ensure!(
        name.is_some() && !path.is_dir(),
        "{}: it is a folder, expected a file name",
        path.display()
    );
    Ok(name.unwrap_or_default())
}
