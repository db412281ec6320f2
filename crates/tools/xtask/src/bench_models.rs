//! `cargo xtask bench-models`: models on tract, on ONNX Runtime, and on that with the provider's layers,
//! in turns.
//!
//! `bench_models.py` has the table of models. Each is run in rounds, by one after the
//! other, so that a load of the machine meets all; what counts is the fastest run of all.

use std::path::Path;

use crate::ep;
use crate::step::{Command, cargo};

/// The rounds, and the runs in each.
const ROUNDS: usize = 3;
const RUNS: &str = "20";

/// The numbers of threads.
const THREADS: [&str; 2] = ["1", "2"];

/// What runs the models, and its options.
const BACKENDS: [(&str, &[&str]); 3] = [
    ("tract", &[]),
    ("ort-plain", &[]),
    ("ort", &["--provider-option", "layers=on"]),
];

/// Prints a table of the models whose names have all these parts.
pub(crate) fn run(parts: &[&str]) -> Result<(), String> {
    let folder = crate::target().join("bench-models");
    let script = crate::root().join("crates/tools/xtask/bench_models.py");
    let names = Command::new(ep::python_of_models()?)
        .arg(script)
        .arg(&folder)
        .args(parts)
        .output()?;
    if names.is_empty() {
        return Err(format!("no model has {parts:?} in its name"));
    }
    cargo("build --release --package revseq-runner --bin revseq --features full").run()?;
    cargo("build --release --package revseq-ep --lib").run()?;
    let (_, library) = ep::onnxruntime()?;
    println!("| milliseconds | threads | tract | ONNX Runtime | its provider | ratios |");
    println!("|---|---|---|---|---|---|");
    for name in names.lines() {
        let model = folder.join(format!("{name}.onnx"));
        for threads in THREADS {
            let mut fastest = [f64::INFINITY; BACKENDS.len()];
            for _ in 0..ROUNDS {
                for (backend, fastest) in std::iter::zip(BACKENDS, &mut fastest) {
                    *fastest = fastest.min(time(&model, backend, threads, &library)?);
                }
            }
            let [tract, ort, ep] = fastest.map(|seconds| seconds * 1e3);
            let ratios = format!("{:.2}, {:.2}", tract / ort, ep / ort);
            println!("| {name} | {threads} | {tract:.3} | {ort:.3} | {ep:.3} | {ratios} |");
        }
    }
    Ok(())
}

/// The seconds of the fastest of some runs.
fn time(
    model: &Path,
    (backend, options): (&str, &[&str]),
    threads: &str,
    library: &Path,
) -> Result<f64, String> {
    let program = crate::target().join("release/revseq");
    let mut run = Command::new(program)
        .arg("run")
        .arg(model)
        .words("--fill random:1 --format json --warmup 2 --repeat")
        .arg(RUNS)
        .args(["--backend", backend, "--threads", threads])
        .args(options);
    if backend != "tract" {
        run = run.arg("--ort-lib").arg(library);
    }
    if backend == "ort" {
        let provider = crate::target().join("release").join(ep::library_name());
        run = run.arg("--ep-lib").arg(provider);
    }
    let report = run.output()?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| format!("revseq's report: {error}"))?;
    let seconds = report["timing"]["min_seconds"].as_f64();
    seconds.ok_or_else(|| format!("{} was not timed", model.display()))
}
