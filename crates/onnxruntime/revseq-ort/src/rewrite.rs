//! Models rewritten in memory.

use std::path::Path;

use revseq_rewrite::{Options, Outcome, rewrite_bytes};

use crate::Error;

/// The model in a file, with its loops as layers; `takes_empty` says whether the provider computes them.
pub(crate) fn file(path: &Path, takes_empty: bool) -> Result<Vec<u8>, Error> {
    let name = path.display().to_string();
    let model = std::fs::read(path).map_err(|error| failed(&name, &error))?;
    rewritten(&model, &name, takes_empty)
}

/// A model in memory, with its loops as layers.
pub(crate) fn bytes(model: &[u8], takes_empty: bool) -> Result<Vec<u8>, Error> {
    rewritten(model, "the model in memory", takes_empty)
}

fn rewritten(model: &[u8], name: &str, takes_empty: bool) -> Result<Vec<u8>, Error> {
    let options = Options {
        fast: true,
        takes_empty,
        ..Options::default()
    };
    let (model, report) = rewrite_bytes(model, &options).map_err(|error| failed(name, &error))?;
    let steps = report.steps.iter();
    for step in steps.filter(|step| matches!(&*step.operator, "Loop" | "Scan")) {
        let node = format!("{name}: {} {:?}", step.operator, step.node);
        match &step.outcome {
            Outcome::Rewritten(to) => log::info!("{node} runs as {to}"),
            Outcome::LeftAlone(reason) => log::warn!("{node} stays: {reason}"),
        }
    }
    Ok(model)
}

fn failed(model: &str, problem: &dyn std::error::Error) -> Error {
    Error::Rewrite {
        model: model.to_owned(),
        problem: problem.to_string(),
    }
}
