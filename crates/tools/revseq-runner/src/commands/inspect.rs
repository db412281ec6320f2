//! `revseq inspect`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anstyle::Style;
use anyhow::{Context, Error, Result};
use revseq_graph::Operator;
use revseq_tract::{Execution, How};
use serde_json::{Value as Json, json};

use super::destination::Destination;
use super::inputs::in_model;
use super::report::{self, ERROR, Report, value_json};
use super::trial::{self, Sizes};
use super::{Outcome, say_loops};
use crate::backend::Engine;
use crate::backend::ort::{Ort, Placement};
use crate::backend::tract::{self, Refusal, Shapes, Tract};
use crate::chain;
use crate::cli::{Backend, Format, InspectArguments};
use crate::escape::printable;
use crate::model::values::{Dim, ValueType};
use crate::model::{Bindings, Input, Model, read, walk};
use crate::style::{BOLD, RED};
use crate::units::{bytes, count};

/// Number of characters of a metadata entry that are shown in text.
const LONGEST_TEXT: usize = 80;

/// Counts are aligned beside operators of up to this many characters.
const WIDEST_OPERATOR: usize = 60;

/// Shows every node of our operators in a model, and counts the others.
pub(crate) fn inspect(arguments: &InspectArguments) -> Result<Outcome> {
    let mut destination = Destination::open(&arguments.report)?;
    let located = read::locate(&arguments.model)?;
    // No constant is looked at; ONNX Runtime reads the file itself.
    let mut model = Model::read(&located.model)?;
    let mut symbols = model.input_symbols();
    let has_ours = collect_symbols(&model, &mut symbols).with_context(in_model(&located.model))?;
    let bindings = model.sizes_among(&arguments.sizes.all(), &symbols)?;
    model.bind(&bindings);
    let mut whole = Some(model.whole());
    let model = model.without_bytes().without_constants();
    let in_model = in_model(&located.model);

    let open = open_symbols(&model, &bindings);
    let backends = arguments.on.or(&[Backend::Tract]);
    let engines = Engine::open_all(&arguments.on.engine, backends)?;
    let support = engines.iter().map(|engine| Support {
        backend: engine.name(),
        described: engine.to_string(),
        runs: match engine {
            Engine::Tract(tract) => on_tract(tract, whole.take(), &bindings, &open),
            Engine::Ort(ort) => on_ort(ort, &model),
        },
    });
    let support: Vec<Support> = support.collect();
    let mut planned = support.iter().filter_map(|it| it.runs.as_ref().ok());
    let shapes = match planned.find_map(|runs| runs.outputs.clone()) {
        Some(outputs) if !has_ours => Shapes::of_outputs(outputs),
        _ => tract::shapes(&model, &bindings),
    };
    let inspected = Inspected::new(&model, &bindings, &shapes).with_context(&in_model)?;
    match arguments.format {
        Format::Text => destination.text(|out| inspected.print(out, &support))?,
        Format::Json => {
            let mut json = inspected.json();
            json["backends"] = support.iter().map(Support::json).collect();
            destination.json("inspect", json)?;
        }
    }
    destination.complete()?;
    say_loops(&engines, &model)?;
    Ok(Outcome::Done)
}

/// Whether a backend runs the model.
struct Support {
    /// The backend's name on the command line.
    backend: &'static str,
    /// The backend's name and version.
    described: String,
    /// The way in which the backend runs the model, or the reason why it does not.
    runs: Result<Runs, String>,
}

/// Report of a backend on a model that it runs.
#[derive(Default)]
struct Runs {
    /// The placements of our nodes on ONNX Runtime.
    placements: Vec<Placement>,
    /// The way in which loops and recurrent layers run on tract.
    executions: Vec<Execution>,
    /// The types of the outputs, if tract takes the model for all sizes at once.
    outputs: Option<Vec<ValueType>>,
    /// The sizes at which tract takes the model, if it does not for all sizes and values at once.
    tried: Option<Tried>,
}

/// Inputs with which tract takes a model.
struct Tried {
    /// Their sizes that the model leaves open.
    sizes: Sizes,
    /// The reason why no plan serves all inputs.
    why: String,
}

impl Support {
    fn in_words(&self) -> String {
        let Self { described, .. } = self;
        match &self.runs {
            Ok(Runs {
                tried: Some(tried), ..
            }) => {
                let (with, why) = (trial::in_words(&tried.sizes), &tried.why);
                let what = match tried.sizes.is_empty() {
                    true => "inputs",
                    false => "sizes",
                };
                format!(
                    "runs on {described}, prepared for the {what} of each run (tried {with}); not for all \
                     {what} at once: {why}"
                )
            }
            Ok(_) => format!("runs on {described}"),
            Err(why) => format!("does not run on {described}{why}"),
        }
    }

    fn json(&self) -> Json {
        let mut json = json!({ "backend": self.backend, "runs": self.runs.is_ok() });
        match &self.runs {
            Ok(runs) if self.backend == Backend::Tract.name() => {
                json["loops"] = runs.executions.iter().map(execution_json).collect();
                if let Some(Tried { sizes, why }) = &runs.tried {
                    let sizes = sizes
                        .iter()
                        .map(|(name, size)| (name.clone(), (*size).into()));
                    json["sizes"] = Json::Object(sizes.collect());
                    json["reason"] = why.as_str().into();
                }
            }
            Ok(runs) => {
                json["placements"] = json!(runs.placements);
            }
            Err(why) => json["reason"] = why.trim_start_matches([':', ' ']).into(),
        }
        json
    }
}

/// Describes in JSON how a loop or a recurrent layer runs.
fn execution_json(execution: &Execution) -> Json {
    let mut json = json!({ "node": execution.node });
    match &execution.how {
        How::Layer(operator) => {
            json["how"] = "layer".into();
            json["operator"] = operator.as_str().into();
        }
        How::Program => json["how"] = "program".into(),
        How::StepByStep { nodes, why, .. } => {
            json["how"] = "step by step".into();
            json["nodes"] = (*nodes).into();
            json["why"] = why.as_str().into();
        }
        other => json["how"] = other.to_string().into(),
    }
    json
}

/// A model, and what is found of it.
struct Inspected<'m> {
    model: &'m Model,
    inputs: Vec<Input>,
    outputs: Vec<(String, ValueType)>,
    /// The inputs' sizes that have no value.
    symbols: Vec<String>,
    /// Reason why not all types and shapes are known.
    stopped: Option<String>,
    /// Our nodes.
    reports: Vec<Report>,
    /// The numbers of others, by operator.
    others: BTreeMap<String, usize>,
}

impl<'m> Inspected<'m> {
    fn new(model: &'m Model, bindings: &Bindings, shapes: &Shapes) -> Result<Self> {
        let mut reports: Vec<Report> = Vec::new();
        let mut others: BTreeMap<String, usize> = BTreeMap::new();
        walk::walk(model, bindings, |mut site| {
            shapes.refine(&mut site);
            match report::report(&site) {
                Some(report) => reports.push(report),
                None => {
                    let call = if site.is_call { " (function)" } else { "" };
                    *others.entry(site.operator() + call).or_default() += 1;
                }
            }
        })?;
        // Before version 4 of the format, initializers had to be inputs as well.
        let with_defaults = model.proto.ir_version.unwrap_or_default() >= 4;
        let mut inputs = model.inputs();
        inputs.retain(|input| with_defaults || !input.optional);
        for input in &mut inputs {
            input.value_type = input.value_type.clone().bind(bindings);
        }
        let outputs = model.graph().output.iter().enumerate();
        let outputs = outputs.map(|(index, output)| {
            let declared = ValueType::declared(output).bind(bindings);
            (output.name().to_owned(), shapes.output(index, declared))
        });
        Ok(Self {
            model,
            inputs,
            outputs: outputs.collect(),
            symbols: open_symbols(model, bindings),
            stopped: shapes.stopped.clone(),
            reports,
            others,
        })
    }

    /// The number of all nodes.
    fn node_count(&self) -> usize {
        self.reports.len() + self.others.values().sum::<usize>()
    }

    /// The share of our nodes, in words.
    fn share(&self) -> String {
        let reports = self.reports.iter();
        let operators: BTreeSet<&str> = reports.map(|it| it.operator.as_str()).collect();
        let operators: Vec<&str> = operators.into_iter().collect();
        let operators = match operators.as_slice() {
            [] => "ReverseSequence or ReverseSubsequences".to_owned(),
            found => found.join(" or "),
        };
        let (ours, all) = (self.reports.len(), count(self.node_count(), "node"));
        format!("{operators}: {ours} of {all}")
    }

    /// The description of the model itself, a line each.
    fn about(&self) -> Vec<String> {
        let proto = &self.model.proto;
        let imports = proto
            .opset_import
            .iter()
            .map(|import| match import.domain() {
                "" => format!("ONNX {}", import.version()),
                domain => format!("{domain} {}", import.version()),
            });
        let imports: Vec<String> = imports.collect();
        let mut lines = vec![format!("operator sets: {}", imports.join(", "))];
        if let Some(producer) = producer(self.model) {
            lines.push(format!("producer: {producer}"));
        }
        for entry in &proto.metadata_props {
            let value = shortened(entry.value());
            lines.push(format!("metadata {}: {value}", entry.key()));
        }
        let weights = self.model.weights();
        if weights.constants > 0 {
            let (constants, size) = (count(weights.constants, "constant"), bytes(weights.bytes));
            let parameters = weights.parameters;
            lines.push(format!("parameters: {parameters} in {constants}, {size}"));
        }
        for input in &self.inputs {
            let optional = if input.optional { " (optional)" } else { "" };
            let (name, value_type) = (&input.name, &input.value_type);
            lines.push(format!("input {name}: {value_type}{optional}"));
        }
        for (name, value_type) in &self.outputs {
            lines.push(format!("output {name}: {value_type}"));
        }
        if !self.symbols.is_empty() {
            let symbols = self.symbols.join(", ");
            lines.push(format!("sizes to give with --dim NAME=SIZE: {symbols}"));
        }
        if let Some(stopped) = &self.stopped {
            lines.push(format!("not all shapes are known: {stopped}"));
        }
        lines
    }

    /// Prints the model in lines, how it runs, our nodes, and the counts of others: the longest comes last.
    fn print(&self, out: &mut dyn Write, support: &[Support]) -> Result<()> {
        let path = self.model.path.display().to_string();
        writeln!(out, "{BOLD}{}{BOLD:#}", printable(&path))?;
        let support_in_words = support.iter().map(Support::in_words);
        let lines = self.about().into_iter().chain([self.share()]);
        for line in lines.chain(support_in_words) {
            writeln!(out, "{}", printable(&line))?;
        }
        for (title, lines) in runs(support, &self.symbols) {
            writeln!(out, "\n{BOLD}{}{BOLD:#}", printable(&title))?;
            for line in lines {
                writeln!(out, "  {}", printable(&line))?;
            }
        }
        for report in &self.reports {
            let (path, operator) = (printable(&report.path), printable(&report.operator));
            writeln!(out, "\n{BOLD}{path}{BOLD:#}: {operator}")?;
            let width = report.lines.iter().map(|(what, _)| what.len()).max();
            let width = width.unwrap_or(0);
            for (what, text) in &report.lines {
                let style = match *what {
                    ERROR => RED,
                    _ => Style::new(),
                };
                let text = printable(text);
                writeln!(out, "  {style}{what:width$}  {text}{style:#}")?;
            }
        }
        if !self.others.is_empty() {
            writeln!(out, "\n{BOLD}other operators{BOLD:#}")?;
        }
        let width = self.others.keys().map(|name| printable(name).len()).max();
        let width = width.map_or(0, |width| width.min(WIDEST_OPERATOR));
        for (operator, count) in &self.others {
            let operator = printable(operator);
            writeln!(out, "  {operator:width$}  {count}")?;
        }
        Ok(())
    }

    fn json(&self) -> Json {
        let proto = &self.model.proto;
        let imports = proto.opset_import.iter();
        let imports = imports.map(|it| (it.domain().to_owned(), Json::from(it.version)));
        let metadata = proto.metadata_props.iter();
        let metadata = metadata.map(|it| (it.key().to_owned(), Json::from(it.value())));
        let inputs = self.inputs.iter().map(|input| {
            let mut json = value_json(&input.name, &input.value_type);
            json["optional"] = input.optional.into();
            json
        });
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|(name, value_type)| value_json(name, value_type));
        let weights = self.model.weights();
        json!({
            "model": self.model.path.display().to_string(),
            "operator_sets": imports.collect::<Json>(),
            "ir_version": proto.ir_version.unwrap_or_default(),
            "producer": producer(self.model),
            "metadata": metadata.collect::<Json>(),
            "constants": weights.constants,
            "parameters": weights.parameters,
            "parameter_bytes": weights.bytes,
            "inputs": inputs.collect::<Json>(),
            "outputs": outputs.collect::<Json>(),
            "symbols": self.symbols,
            "inference_error": self.stopped,
            "nodes": self.reports.iter().map(|it| &it.json).collect::<Vec<_>>(),
            "other_operators": self.others,
            "node_count": self.node_count(),
        })
    }
}

/// The inputs' sizes that have no value.
fn open_symbols(model: &Model, bindings: &Bindings) -> Vec<String> {
    let symbols = model.input_symbols().into_iter();
    let is_open = |symbol: &String| !bindings.contains_key(symbol);
    symbols.filter(is_open).collect()
}

/// Renders a model in every format, for fuzzers.
pub(crate) fn everything(model: &Model) -> Result<()> {
    let bindings = Bindings::new();
    collect_symbols(model, &mut model.input_symbols())?;
    let shapes = tract::shapes(model, &bindings);
    let inspected = Inspected::new(model, &bindings, &shapes)?;
    inspected.print(&mut Vec::<u8>::new(), &[])?;
    serde_json::to_string_pretty(&inspected.json())?;
    Ok(())
}

/// Finds where ONNX Runtime places our nodes, or why it does not run the model.
fn on_ort(ort: &Ort, model: &Model) -> Result<Runs, String> {
    let prepare = || -> Result<Runs> {
        // Reading for inspection leaves data in other files where it is.
        let model = Model::load(&model.path)?;
        let prepared = ort.prepare(&model)?.map_err(Error::msg)?;
        Ok(Runs {
            placements: prepared.placements,
            ..Runs::default()
        })
    };
    prepare().map_err(|error| format!(": {}", chain(&error)))
}

/// Where our nodes run on ONNX Runtime, and how loops and layers run on tract: titles, each with lines.
fn runs(support: &[Support], symbols: &[String]) -> Vec<(String, Vec<String>)> {
    let mut sections = Vec::new();
    for Support {
        described, runs, ..
    } in support
    {
        let Ok(runs) = runs else {
            continue;
        };
        if !runs.placements.is_empty() {
            let placements = runs.placements.iter().map(ToString::to_string);
            sections.push((format!("providers in {described}"), placements.collect()));
        }
        if !runs.executions.is_empty() {
            let sizes = match &runs.tried {
                Some(tried) => format!(", with {}", trial::in_words(&tried.sizes)),
                None if symbols.is_empty() => String::new(),
                None => format!(", for any {}", symbols.join(", ")),
            };
            let title = format!("loops and recurrent layers on {described}{sizes}");
            let executions = runs.executions.iter();
            let executions = executions.map(|Execution { node, how, .. }| format!("{node}: {how}"));
            sections.push((title, executions.collect()));
        }
    }
    sections
}

/// Collects the symbolic sizes of all nodes' inputs and outputs, and returns whether a node is ours.
fn collect_symbols(model: &Model, symbols: &mut BTreeSet<String>) -> Result<bool> {
    let mut has_ours = false;
    walk::walk(model, &Bindings::new(), |site| {
        has_ours |= Operator::is_known(site.node.domain(), site.node.op());
        let values = site.inputs.iter().chain(&site.outputs);
        for dim in values.filter_map(|value| value.shape.as_ref()).flatten() {
            if let Dim::Symbol(name) = dim
                && !symbols.contains(name)
            {
                symbols.insert(name.clone());
            }
        }
    })?;
    Ok(has_ours)
}

/// The program that wrote a model, if it says so.
fn producer(model: &Model) -> Option<String> {
    let name = [&model.proto.producer_name, &model.proto.producer_version];
    let name = name.into_iter().flatten().map(|part| part.trim());
    // tf2onnx writes Python's word for a commit that it does not know.
    let name = name.map(|part| part.trim_end_matches(" None"));
    let name: Vec<&str> = name.collect();
    let name = name.join(" ").trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// The beginning of a text that may be long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Finds how tract runs the model, as far as that is known without its inputs.
fn on_tract(
    tract: &Tract,
    whole: Option<Model>,
    bindings: &Bindings,
    symbols: &[String],
) -> Result<Runs, String> {
    let prepare = |model: Option<Model>| -> Result<Model> {
        let mut model = model.context("the model was read")?;
        model.bind(bindings);
        model.with_data()
    };
    let refuse = |error: anyhow::Error| format!(": {}", chain(&error));
    let model = prepare(whole).map_err(refuse)?;
    let path = model.path.clone();
    let has_rank = |input: &Input| input.value_type.shape.is_some();
    let have_ranks = model.inputs().iter().all(has_rank);
    let Refusal {
        why,
        advice,
        may_fit_sizes,
    } = match tract.planned(model) {
        Ok(planned) => {
            return Ok(Runs {
                executions: planned.executions,
                outputs: Some(planned.outputs),
                ..Runs::default()
            });
        }
        Err(refusal) => refusal,
    };
    // It is read again, so that a model that is taken is in memory once.
    let read = || prepare(Some(Model::read(&path)?));
    let model = may_fit_sizes.then(read).transpose().map_err(refuse)?;
    let trial = model.and_then(|model| trial::on_tract(tract, &model, bindings));
    if let Some((executions, sizes)) = trial {
        return Ok(Runs {
            executions,
            tried: Some(Tried { sizes, why }),
            ..Runs::default()
        });
    }
    let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
    match symbols {
        symbols if may_fit_sizes && !symbols.is_empty() => {
            let symbols = symbols.join(", ");
            Err(format!(
                " without --dim for {symbols}, if at all: {why}{advice}"
            ))
        }
        _ if may_fit_sizes && !have_ranks => {
            Err(format!(" without its inputs, if at all: {why}{advice}"))
        }
        _ => Err(format!(": {why}{advice}")),
    }
}
