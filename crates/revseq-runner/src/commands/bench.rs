//! `revseq bench`.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use revseq_bench::peers::{Onnxruntime, Peers};
use revseq_bench::{Arena, Regime, Report, render};
use serde_json::json;

use super::Outcome;
use super::destination::Destination;
use crate::backend::ort::Runtime;
use crate::chain;
use crate::cli::{BenchArguments, BenchFormat};
use crate::interrupt::Watch;
use crate::note::note;
use crate::progress::Progress;

/// Measures the kernels and prints the report, a partial one if interrupted.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome> {
    let regimes = revseq_bench::select(arguments.filter.as_deref(), arguments.quick)
        .map_err(|error| anyhow!("--filter: {error}; --list has all"))?;
    if arguments.list {
        let mut destination = Destination::open(&arguments.report)?;
        let names = regimes.iter().map(ToString::to_string);
        match arguments.format {
            BenchFormat::Json => {
                destination.json(
                    "bench-list",
                    json!({ "regimes": names.collect::<Vec<_>>() }),
                )?;
            }
            BenchFormat::Text => {
                let mut names = names;
                destination.text(|out| Ok(names.try_for_each(|name| writeln!(out, "{name}"))?))?;
            }
            BenchFormat::Html | BenchFormat::Markdown => {
                bail!("--list: it is text or JSON, expected --format text or json")
            }
        }
        destination.complete()?;
        return Ok(Outcome::Done);
    }
    let watch = Watch::new();
    // Before anything is measured: nothing is lost if it cannot be written.
    let mut destination = Destination::open(&arguments.report)?;
    let report = measured(arguments, &regimes, &watch)?;
    if report.regimes.is_empty() {
        return Ok(Outcome::Interrupted);
    }
    match arguments.format {
        BenchFormat::Text => {
            let width = destination.width();
            destination.bytes(render::text(&report, width).as_bytes())
        }
        BenchFormat::Json => destination.json("bench", &report),
        BenchFormat::Html => destination.bytes(render::html(&report).as_bytes()),
        BenchFormat::Markdown => destination.bytes(render::markdown(&report).as_bytes()),
    }?;
    destination.complete()?;
    Ok(match report.interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    })
}

/// The runtimes to compare with. An ONNX Runtime that is asked for has to be
/// there; without being asked for it may be missing.
fn peers(ort_lib: Option<&Path>) -> Result<Peers> {
    let peers = Peers::default();
    #[cfg(feature = "rten")]
    let peers = peers.with_rten();
    match Runtime::load(ort_lib) {
        Ok(runtime) => {
            let onnxruntime = Onnxruntime::new(runtime.environment().clone(), runtime.version());
            Ok(peers.with_onnxruntime(onnxruntime))
        }
        Err(error) if ort_lib.is_some() => Err(error),
        Err(error) => {
            note(format!("ONNX Runtime is not measured: {}", chain(&error)));
            Ok(peers)
        }
    }
}

/// Measures regimes until all are measured or Ctrl-C is pressed.
fn measured(arguments: &BenchArguments, regimes: &[Regime], watch: &Watch) -> Result<Report> {
    let threads = match arguments.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let arena = Arena::new(threads, peers(arguments.ort_lib.as_deref())?)?;
    let progress = Progress::new(regimes.len() as u64);
    let mut is_first = true;
    let report = revseq_bench::report(&arena, regimes, arguments.quick, |regime| {
        if watch.is_interrupted() {
            return ControlFlow::Break(());
        }
        if !std::mem::take(&mut is_first) {
            progress.step();
        }
        progress.message(regime.to_string());
        ControlFlow::Continue(())
    })?;
    Ok(report)
}
