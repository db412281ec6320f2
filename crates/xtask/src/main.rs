//! `cargo xtask`: the project's own chores. `cargo xtask test` is all that CI runs.

#![forbid(unsafe_code)]

mod ep;
mod python;
mod step;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use step::{Step, cargo};

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test [STEP]...  Run everything that CI runs, or only the steps named
  models          Make the files under models/ again
  wheel           Build the Python wheel of the execution provider into target/wheels
  steps           List the steps of `test`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test", names @ ..] => step::select(test_steps(), names).and_then(step::run_all),
        ["models"] => models(&[]),
        ["wheel"] => ep::wheel(),
        ["steps"] => {
            for step in test_steps() {
                println!("{:<10} {}", step.name, step.summary);
            }
            Ok(())
        }
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        [] => Err(format!("no command given\n\n{USAGE}")),
        [command, ..] => Err(format!("unknown command {command:?}\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// The GPU kernels, and what tests them where there is no GPU.
const KERNELS: &str = "revseq-kernels/gpu-validation,revseq-kernels/gles";

/// The same, and all that runs on them.
const GPU: &str = "revseq-kernels/gpu-validation,revseq-kernels/gles,revseq-ep/gpu";

/// All of the code: what is tested, and rten among the contestants of the benchmarks.
const ALL: &str =
    "revseq-kernels/gpu-validation,revseq-kernels/gles,revseq-ep/gpu,revseq-bench/rten";

/// Everything that has to hold, the quickest to fail first.
fn test_steps() -> Vec<Step> {
    vec![
        Step::new("fmt", "the formatting", || {
            cargo(&["fmt", "--all", "--check"]).run()
        }),
        Step::new("clippy", "the lints, warnings denied", || {
            let lint = ["clippy", "--workspace", "--all-targets", "--features", ALL];
            cargo(&lint).args(["--", "-D", "warnings"]).run()?;
            // What only a build without GPUs compiles; the provider's is under test below.
            let lint = [
                "clippy",
                "--package",
                "revseq-runner",
                "--no-default-features",
            ];
            cargo(&lint)
                .args(["--all-targets", "--", "-D", "warnings"])
                .run()
        }),
        Step::new("doc", "the documentation, warnings denied", || {
            cargo(&["doc", "--workspace", "--no-deps", "--features", ALL])
                .env("RUSTDOCFLAGS", "-D warnings")
                .run()
        }),
        Step::new(
            "test",
            "unit, integration, conformance, snapshot and doc tests",
            || {
                let test = cargo(&["test", "--workspace", "--features", GPU]);
                ep::environment()?
                    .iter()
                    .fold(test, |test, (name, path)| test.env(name, path))
                    .env("INSTA_UPDATE", "no")
                    .run()
            },
        ),
        Step::new(
            "levels",
            "the kernels with fewer instructions than the CPU has",
            || {
                ["portable", "avx2"].into_iter().try_for_each(|level| {
                    cargo(&["test", "--package", "revseq-kernels", "--features", KERNELS])
                        .args(["--lib", "--test", "properties"])
                        .env("REVSEQ_SIMD", level)
                        .run()
                })
            },
        ),
        Step::new("models", "the models are what their script makes", || {
            models(&["--check"])
        }),
        Step::new(
            "ep",
            "the execution provider in ONNX Runtime, and its wheel",
            ep::test,
        ),
    ]
}

/// Makes the models, or checks them, with the packages that the script pins.
fn models(arguments: &[&str]) -> Result<(), String> {
    let folder = root().join("models");
    let python = python::environment("models", &folder.join("requirements.txt"))?;
    step::Command::new(python)
        .arg(folder.join("make_models.py"))
        .args(arguments)
        .run()
}

/// The workspace's folder.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.ancestors().nth(2);
    root.expect("this crate lies two folders below the root")
        .to_owned()
}
