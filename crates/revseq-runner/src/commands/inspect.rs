//! `revseq inspect`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use revseq_kernels::Device;
use serde_json::{Value as Json, json};

use super::report::{self, Outcome as Found, Report};
use super::{Outcome, dot, print_json};
use crate::backend::ort::{self, Placement, Preparation, Runtime};
use crate::cli::{InspectArguments, InspectFormat};
use crate::model::check::canonical_domain;
use crate::model::values::Dim;
use crate::model::{Bindings, Model, check_dims, read, walk};

/// Counts are aligned beside operators of up to this many characters.
const WIDEST_OPERATOR: usize = 60;

/// Shows every node of ours in a model, and counts the others.
pub(crate) fn inspect(arguments: &InspectArguments) -> Result<Outcome> {
    let located = read::locate(&arguments.model)?;
    let model = Model::read(&located.model)?;
    let in_model = || model.path.display().to_string();
    let bindings = super::bindings(&arguments.dims)?;
    let mut symbols = model.input_symbols();
    collect_symbols(&model, &mut symbols).with_context(in_model)?;
    check_dims(&bindings, &symbols)?;

    let mut reports: Vec<Report> = Vec::new();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    walk::walk(&model, &bindings, |site| match report::report(&site) {
        Some(report) => reports.push(report),
        None => {
            let call = if site.is_call { " (function)" } else { "" };
            *others.entry(site.operator() + call).or_default() += 1;
        }
    })
    .with_context(in_model)?;
    let placements = super::runtime(arguments.backend, &Device::Cpu, &arguments.ort)?
        .map(|runtime| placements(&runtime, &model))
        .transpose()
        .with_context(in_model)?;
    match arguments.format {
        InspectFormat::Text => {
            print_text(&model, &reports, &others)?;
            if let Some(placements) = &placements {
                print_placements(placements)?;
            }
        }
        InspectFormat::Json => {
            let mut json = as_json(&model, &reports, &others);
            match &placements {
                None => {}
                Some(Ok(placements)) => {
                    json["placements"] = placements.iter().map(super::placement_json).collect();
                }
                Some(Err(refused)) => json["refused"] = refused.as_str().into(),
            }
            print_json(&json)?;
        }
        InspectFormat::Dot => {
            let mut out = std::io::stdout().lock();
            out.write_all(dot::graph(&model, &reports).as_bytes())?;
            out.flush()?;
        }
    }
    Ok(Outcome::Done)
}

/// Where ONNX Runtime places the nodes of ours, or why it takes no such model.
fn placements(runtime: &Runtime, model: &Model) -> Result<Result<Vec<Placement>, String>> {
    if let Some(reason) = ort::lacks(runtime, model)? {
        return Ok(Err(reason));
    }
    // Reading for inspection leaves data in other files where it is.
    Ok(match ort::place(runtime, &Model::load(&model.path)?)? {
        Preparation::Ready(prepared) => Ok(prepared.placements),
        Preparation::Refused(reason) => Err(reason),
    })
}

fn print_placements(placements: &Result<Vec<Placement>, String>) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    writeln!(out)?;
    writeln!(out, "{bold}providers in ONNX Runtime{bold:#}")?;
    match placements {
        Ok(placements) => {
            for placement in placements {
                writeln!(out, "  {placement}")?;
            }
        }
        Err(refused) => writeln!(out, "  none: {refused}")?,
    }
    Ok(out.flush()?)
}

/// The symbolic sizes of all values that a node reads or gives.
fn collect_symbols(model: &Model, symbols: &mut BTreeSet<String>) -> Result<()> {
    walk::walk(model, &Bindings::new(), |site| {
        let values = site.inputs.iter().chain(&site.outputs);
        for dim in values.filter_map(|value| value.shape.as_ref()).flatten() {
            if let Dim::Symbol(name) = dim
                && !symbols.contains(name)
            {
                symbols.insert(name.clone());
            }
        }
    })
}

fn print_text(model: &Model, reports: &[Report], others: &BTreeMap<String, usize>) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
    let plural = if reports.len() == 1 { "node" } else { "nodes" };
    writeln!(
        out,
        "{bold}{}{bold:#}: {} {plural} of ReverseSequence or ReverseSubsequences",
        model.path.display(),
        reports.len()
    )?;
    let imports: Vec<String> = model
        .proto
        .opset_import
        .iter()
        .map(|import| match canonical_domain(&import.domain) {
            "" => format!("ONNX {}", import.version),
            domain => format!("{domain} {}", import.version),
        })
        .collect();
    writeln!(out, "operator sets: {}", imports.join(", "))?;
    for report in reports {
        writeln!(out)?;
        writeln!(out, "{bold}{}{bold:#}: {}", report.path, report.operator)?;
        let lines = report.lines();
        let width = lines.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        for (what, text) in lines {
            let style = match &report.outcome {
                Found::Invalid(_) if what == "error" => red,
                _ => Style::new(),
            };
            writeln!(out, "  {style}{what:width$}  {text}{style:#}")?;
        }
    }
    if !others.is_empty() {
        writeln!(out)?;
        writeln!(out, "{bold}other operators{bold:#}")?;
        let width = others.keys().map(String::len).max();
        let width = width.map_or(0, |width| width.min(WIDEST_OPERATOR));
        for (operator, count) in others {
            writeln!(out, "  {operator:width$}  {count}")?;
        }
    }
    Ok(out.flush()?)
}

fn as_json(model: &Model, reports: &[Report], others: &BTreeMap<String, usize>) -> Json {
    let imports: serde_json::Map<String, Json> = model
        .proto
        .opset_import
        .iter()
        .map(|import| {
            (
                canonical_domain(&import.domain).to_owned(),
                import.version.into(),
            )
        })
        .collect();
    json!({
        "model": model.path.display().to_string(),
        "operator_sets": imports,
        "nodes": reports.iter().map(Report::json).collect::<Json>(),
        "other_operators": others,
    })
}
