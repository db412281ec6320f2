//! `revseq bench`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result};
use revseq_bench::peers::{Onnxruntime, Peers};
use revseq_bench::{Arena, Regime, Report, render};

use super::Outcome;
use crate::backend::ort::Runtime;
use crate::chain;
use crate::cli::{BenchArguments, BenchFormat};
use crate::file::NewFile;
use crate::interrupt::Watch;
use crate::progress::Progress;

/// Measures the kernels and prints the report, a partial one if interrupted.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome> {
    let regimes =
        revseq_bench::select(arguments.filter.as_deref(), arguments.quick).context("--filter")?;
    let watch = Watch::new();
    // Before anything is measured: nothing is lost if it cannot be written.
    let destination = match &arguments.output {
        Some(path) => Some(NewFile::create(path).with_context(|| cannot_write(path))?),
        None => None,
    };
    let report = measured(arguments, &regimes, &watch)?;
    if report.regimes.is_empty() {
        return Ok(Outcome::Interrupted);
    }
    let text = rendered(&report, arguments.format)?;
    match (destination, &arguments.output) {
        (Some(mut file), Some(path)) => {
            let written = file.write_all(text.as_bytes()).map_err(anyhow::Error::from);
            written
                .and_then(|()| file.complete())
                .with_context(|| cannot_write(path))?;
        }
        _ => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(match report.interrupted {
        true => Outcome::Interrupted,
        false => Outcome::Done,
    })
}

fn cannot_write(path: &Path) -> String {
    format!("--output {}: cannot write it", path.display())
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
            note(&format!("ONNX Runtime is not measured: {}", chain(&error)));
            Ok(peers)
        }
    }
}

/// Prints a note to standard error.
fn note(text: &str) {
    // Ignore a closed standard error.
    let _ = writeln!(anstream::stderr(), "{text}");
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

fn rendered(report: &Report, format: BenchFormat) -> Result<String> {
    Ok(match format {
        BenchFormat::Text => render::text(report),
        BenchFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        BenchFormat::Html => render::html(report),
        BenchFormat::Markdown => render::markdown(report),
    })
}
