//! `revseq rewrite`.

mod check;
mod made_up;
mod output;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use revseq_onnx::ModelProto;
use revseq_rewrite::{Assumptions, Exactness, Options, PASSES, Report, Step};
use serde_json::{Value as Json, json};

use super::Outcome;
use super::destination::Destination;
use crate::cli::{Assumption, Format, RewriteArguments};
use crate::escape::printable;
use crate::file::is_standard;
use crate::model::{Bindings, Model, dims, read};
use crate::note::{is_quiet, note};
use crate::progress::Progress;
use crate::style::{GREEN, YELLOW};
use crate::tensor::compare::Tolerance;
use check::Checked;

/// Rewrites a model, checks the result if that is asked for, and writes it.
pub(crate) fn rewrite(arguments: &RewriteArguments) -> Result<Outcome> {
    check_is_asked(arguments)?;
    // Of an empty model: what is asked for does not exist, whatever the files are.
    revseq_rewrite::rewrite_messages(&mut ModelProto::default(), &options(arguments))?;
    let located = read::locate(&arguments.model)?;
    output::refuse(
        &located.model,
        &arguments.output,
        arguments.overwrite.overwrite,
    )?;
    let (mut original, sizes) = Model::load_with(&located.model, &arguments.sizes.all())?;
    if arguments.check.is_none() {
        original = original.without_constants();
    }
    let sets = match &arguments.check {
        Some(Some(folder)) => check::data_sets(folder)?,
        Some(None) => located.own_data_sets()?,
        None => Vec::new(),
    };
    let (rewritten, report) = apply(&mut original, &sizes, arguments)?;
    let is_changed = report.rewritten().next().is_some()
        || !report.removed_inputs.is_empty()
        || !sizes.is_empty();
    let written = output::Partial::write(&located.model, &arguments.output, rewritten)?;
    let checked = match &arguments.check {
        Some(_) if is_changed => {
            let check = check::Check {
                original: &original,
                rewritten: &written.model,
                sizes: &sizes,
                tolerance: match report.exactness() {
                    Exactness::Exact => Tolerance::Exact,
                    Exactness::Rounding => Tolerance::Computed,
                },
                arguments,
            };
            check.run(&sets)?
        }
        Some(_) => {
            note("--check: no pass changed the model, so there is nothing to compare");
            Vec::new()
        }
        None => Vec::new(),
    };
    let failed = checked.iter().any(|it| it.verdict.is_failed());
    let to_standard_output = is_standard(&arguments.output);
    let mut destination = match to_standard_output {
        true => Destination::StandardError,
        false => Destination::StandardOutput,
    };
    match arguments.format {
        Format::Text => destination.text(|out| print_text(out, arguments, &report, &checked))?,
        Format::Json => {
            let json = as_json(&located.model, arguments, &report, &checked);
            destination.json("rewrite", json)?;
        }
    }
    if failed {
        note("the outputs differ: nothing was written");
        return Ok(Outcome::Failed);
    }
    written.keep(&arguments.output)?;
    if !to_standard_output {
        note(format!("wrote {}", arguments.output.display()));
    }
    Ok(Outcome::Done)
}

/// Refuses options that say how to run models if no model is run.
fn check_is_asked(arguments: &RewriteArguments) -> Result<()> {
    if arguments.check.is_some() {
        return Ok(());
    }
    let engine = arguments.on.engine.given().map(|(flag, _)| flag);
    let others = [
        ("--backend", !arguments.on.backends.is_empty()),
        ("--rtol and --atol", arguments.tolerance.is_given()),
        ("--input", !arguments.values.inputs.is_empty()),
        ("--fill", !arguments.values.fill.is_empty()),
    ];
    let others = others.into_iter().filter(|(_, given)| *given);
    match engine.chain(others.map(|(flag, _)| flag)).next() {
        Some(flag) => bail!("{flag}: it is for --check, which is not given"),
        None => Ok(()),
    }
}

/// The options that the arguments select.
fn options(arguments: &RewriteArguments) -> Options {
    let mut passes = arguments.passes.clone();
    let is_asked = arguments.portable || arguments.fast || arguments.runtime.is_some();
    if !is_asked && passes.is_empty() {
        let exact = PASSES
            .iter()
            .filter(|pass| pass.fast && pass.exactness == Exactness::Exact);
        passes.extend(exact.map(|pass| pass.name.to_owned()));
    }
    Options {
        portable: arguments.portable,
        fast: arguments.fast,
        runtime: arguments.runtime.clone(),
        passes,
        assume: Assumptions {
            right_padded: arguments.assume.contains(&Assumption::RightPadded),
            constant_initializers: arguments.assume.contains(&Assumption::ConstantInitializers),
        },
        masked_layers: false,
        takes_empty: false,
    }
}

/// Writes sizes into a model and rewrites it, with all that its file holds.
fn apply(
    original: &mut Model,
    sizes: &Bindings,
    arguments: &RewriteArguments,
) -> Result<(ModelProto, Report)> {
    let _progress = Progress::of(format!("rewriting {}", original.path.display()));
    let decoded = revseq_onnx::decode(&original.bytes).map_err(anyhow::Error::from);
    if arguments.check.is_none() {
        original.bytes = Vec::new();
    }
    let rewritten = decoded.and_then(|mut model| {
        dims::write(&mut model, sizes);
        revseq_onnx::check(&model)?;
        let report = revseq_rewrite::rewrite_messages(&mut model, &options(arguments))?;
        Ok((model, report))
    });
    rewritten.with_context(|| format!("cannot rewrite {}", original.path.display()))
}

fn print_text(
    out: &mut dyn Write,
    arguments: &RewriteArguments,
    report: &Report,
    checked: &[Checked],
) -> Result<()> {
    if !is_quiet() {
        print_steps(out, &report.steps)?;
    }
    if !report.removed_inputs.is_empty() {
        writeln!(
            out,
            "inputs that listed initializers of replaced nodes are gone: {GREEN}{}{GREEN:#}",
            printable(&report.removed_inputs.join(", "))
        )?;
    }
    let sizes = arguments.sizes.all();
    for (name, size) in &sizes {
        writeln!(out, "size of {}: {GREEN}{size}{GREEN:#}", printable(name))?;
    }
    let count = report.rewritten().count();
    let how = match report.exactness() {
        _ if count == 0 && sizes.is_empty() => "the model is unchanged",
        Exactness::Exact => "outputs are equal bit for bit",
        Exactness::Rounding => "outputs are equal up to rounding",
    };
    let left = report.steps.len() - count;
    writeln!(out, "{count} rewritten, {left} left alone: {how}")?;
    if report.refuses_empty_batch() {
        writeln!(
            out,
            "an empty batch is an error of the rewritten model: a layer refuses it"
        )?;
    }
    for checked in checked {
        write!(out, "check on {}", checked.backend)?;
        if let Some(data) = &checked.data {
            write!(out, ", {data}")?;
        }
        checked.verdict.print(out)?;
    }
    Ok(())
}

/// Prints what became of nodes, and the nodes below it.
fn print_steps(out: &mut dyn Write, steps: &[Step]) -> Result<()> {
    let mut titles: Vec<(String, Vec<&Step>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for step in steps {
        let pass = step.pass;
        let title = match &step.outcome {
            revseq_rewrite::Outcome::Rewritten(what) => {
                let rounding = match step.exactness {
                    Exactness::Exact => "",
                    Exactness::Rounding => ", equal up to rounding",
                };
                let what = printable(what);
                format!("{GREEN}{pass}{GREEN:#}: {what}{rounding}")
            }
            revseq_rewrite::Outcome::LeftAlone(why) => {
                let why = printable(why);
                format!("{YELLOW}{pass}: left alone{YELLOW:#}: {why}")
            }
        };
        let place = *places.entry(title.clone()).or_insert(titles.len());
        if place == titles.len() {
            titles.push((title, Vec::new()));
        }
        titles[place].1.push(step);
    }
    for (title, steps) in titles {
        writeln!(out, "{title}")?;
        for step in steps {
            writeln!(out, "  {}", printable(&place(step)))?;
        }
    }
    Ok(())
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
    json!({
        "model": model.display().to_string(),
        "output": arguments.output.display().to_string(),
        "exactness": report.exactness(),
        "sizes": arguments
            .sizes
            .all()
            .into_iter()
            .map(|(name, size)| (name, size.into()))
            .collect::<serde_json::Map<String, Json>>(),
        "steps": report.steps,
        "removed_inputs": report.removed_inputs,
        "checks": checked,
    })
}
