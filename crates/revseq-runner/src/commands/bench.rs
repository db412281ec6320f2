//! `revseq bench`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use revseq_bench::peers::{Onnxruntime, Peers};
use revseq_bench::{Arena, Regime, Report, render};

use super::Outcome;
use crate::backend::ort::Runtime;
use crate::chain;
use crate::cli::{BenchArguments, BenchFormat};
use crate::progress::Progress;

/// Measures the kernels and prints the report.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome> {
    let regimes =
        revseq_bench::select(arguments.filter.as_deref(), arguments.quick).context("--filter")?;
    let destination = match &arguments.output {
        Some(path) => Some(Destination::open(path)?),
        None => None,
    };
    match (destination, measured(arguments, &regimes)) {
        (Some(destination), Ok(text)) => destination.write(&text)?,
        (Some(destination), Err(error)) => {
            destination.abandon();
            return Err(error);
        }
        (None, text) => {
            let mut out = std::io::stdout().lock();
            out.write_all(text?.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(Outcome::Done)
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

/// Tells something on standard error.
fn note(text: &str) {
    // With no one to read it, there is nothing left to do.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Measures regimes: the report, as it is to be printed.
fn measured(arguments: &BenchArguments, regimes: &[Regime]) -> Result<String> {
    let threads = match arguments.threads {
        Some(threads) => threads.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let arena = Arena::new(threads, peers(arguments.ort_lib.as_deref())?)?;
    let progress = Progress::new(regimes.len() as u64);
    let mut is_first = true;
    let report = revseq_bench::report(&arena, regimes, arguments.quick, |regime| {
        if !std::mem::take(&mut is_first) {
            progress.step();
        }
        progress.message(regime.to_string());
    })?;
    drop(progress);
    rendered(&report, arguments.format)
}

fn rendered(report: &Report, format: BenchFormat) -> Result<String> {
    Ok(match format {
        BenchFormat::Text => render::text(report),
        BenchFormat::Json => serde_json::to_string_pretty(report)? + "\n",
        BenchFormat::Html => render::html(report),
        BenchFormat::Markdown => render::markdown(report),
    })
}

/// The file for the report, opened before anything is measured; what it holds
/// stays until the report is there.
struct Destination {
    file: File,
    path: PathBuf,
    is_new: bool,
}

impl Destination {
    fn open(path: &Path) -> Result<Self> {
        let is_new = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("--output {}: cannot write it", path.display()))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            is_new,
        })
    }

    fn write(mut self, text: &str) -> Result<()> {
        let write = |file: &mut File| {
            // A pipe or a device has no length to set.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(text.as_bytes())
        };
        write(&mut self.file).with_context(|| format!("--output {}", self.path.display()))
    }

    /// Takes an empty file away that only [`open`](Self::open) made.
    fn abandon(self) {
        if self.is_new {
            // The error that ended the measuring is the one to tell.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
