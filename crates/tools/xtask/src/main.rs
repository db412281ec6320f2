//! `cargo xtask`: the project's chores. `cargo xtask test` runs all tests.

#![forbid(unsafe_code)]

mod ep;
mod files;
mod folders;
mod fuzz;
mod messages;
mod packages;
mod platforms;
mod python;
mod runtimes;
mod sanitize;
mod skips;
mod step;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use step::{Command, Step, cargo};

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  test [STEP]...  Run all tests, or only the steps named
  steps           List the steps of `test`
  sanitize [asan|valgrind|tsan|miri]...
                  Run the kernels' tests under sanitizers, the first two or those named
  fuzz [TARGET [SECONDS]]
                  Fuzz a target of tests/fuzz, or each, for a minute or so many seconds
  models          Make the files under models/ again
  onnx            Generate the messages of crates/onnx/revseq-onnx again
  api             Record the public API of the libraries, in their public-api.txt
  wheel [ep|cli]... [--all-platforms]
                  Build the Python wheels, of the execution provider and of the command line, or
                  those named, for this machine or for all platforms, into target/wheels/PLATFORM
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["test", names @ ..] => step::select(test_steps(), names).and_then(step::run_all),
        ["steps"] => {
            test_steps().iter().for_each(Step::print);
            Ok(())
        }
        ["sanitize", names @ ..] => sanitize::run(names),
        ["fuzz", rest @ ..] => fuzz::fuzz(rest),
        ["models"] => models(&[]),
        ["onnx"] => messages::write(),
        ["api"] => packages::write_api(),
        ["wheel", rest @ ..] => ep::wheels(rest),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        [] => Err(format!("no command given\n\n{USAGE}")),
        other => Err(format!("unknown command {:?}\n\n{USAGE}", other.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// A cargo command on the whole workspace, with the features of the command that `cargo run` builds, the same for
/// every step, so that each reuses what earlier ones compiled.
pub(crate) fn workspace(command: &str) -> Command {
    cargo(command)
        .words("--workspace --timings --exclude revseq-gpu-bench --features revseq-kernels/half")
}

/// The same with all features: the kernels for GPUs, with wgpu, and tract on several threads, which takes it twice as
/// long to compile.
fn full(command: &str) -> Command {
    cargo(command)
        .words("--workspace --timings --features")
        .arg(
            "revseq-kernels/gpu-validation,revseq-kernels/gles,revseq-kernels/half,\
         revseq-tract/multithread,revseq-runner/full,revseq-tests/gpu",
        )
}

/// Everything that has to hold, quickest failures first.
fn test_steps() -> Vec<Step> {
    vec![
        Step::new("fmt", || cargo("fmt --all --check").run()).says("the formatting"),
        Step::new("folders", folders::check)
            .says("no crate depends on one that its folder must not know"),
        Step::new("build", build).says("what the tests need, compiled"),
        Step::new("python", ep::make_environments)
            .says("the Python environments")
            .beside(),
        Step::new("test", || tests(workspace("test"))?.run())
            .says("unit, integration, conformance and snapshot tests"),
        Step::new("doctest", doctests)
            .says("the examples in the documentation")
            .beside(),
        Step::new("models", || models(&["--check"]))
            .says("the models equal their script's output"),
        Step::new("ep", ep::test).says(
            "the execution provider in the newest and the oldest ONNX Runtime, and its wheel",
        ),
        Step::new("onnx", onnx)
            .says("ONNX's own tests of nodes on tract, with and without this project's operators")
            .beside(),
        Step::extra("clippy", clippy).says("the lints, warnings denied"),
        Step::extra("doc", packages::check_api)
            .says("the documentation, warnings denied, and the public API on record"),
        Step::extra("messages", messages::check)
            .says("ONNX's messages equal their generator's output"),
        Step::extra("package", packages::package)
            .says("the crates that are published, as they would be"),
        Step::extra("asan", sanitize::short).says("the kernels' unit tests under AddressSanitizer"),
        Step::extra("hosts", ep::test_all)
            .says("the execution provider in each ONNX Runtime, with all tests"),
        Step::extra("full", || tests(full("test"))?.run()).says(
            "the step `test` with all features: the kernels on software adapters of GPUs, and threads of tract",
        ),
        Step::extra("node-sizes", node_sizes)
            .says("ONNX's own tests of nodes in sizes that one session plans at once (minutes)"),
        Step::extra("wheels", ep::test_wheels)
            .says("both wheels, installed where there is no Rust (minutes to build)"),
        Step::extra("runtimes", runtimes::test).says(
            "all models on OpenVINO, onnxruntime-web, rten and plain tract (Node, npm, Chromium)",
        ),
        Step::extra("deny", packages::deny)
            .says("the licences and sources of all dependencies (cargo-deny)"),
        Step::extra("windows", platforms::windows)
            .says("unit tests, all models and the provider on Windows x64 (Wine)"),
        Step::extra("aarch64", platforms::aarch64)
            .says("all models and the provider on Linux AArch64 (QEMU)"),
        Step::extra("neon", platforms::neon).says("the kernels on Linux AArch64 (QEMU)"),
        Step::extra("x86-64", platforms::x86_64)
            .says("kernels, layers and all models on processors of x86-64 without AVX-512 (QEMU)"),
        Step::extra("wasm", platforms::wasm)
            .says("the kernels, tract's operators and models on WebAssembly (Node)"),
        Step::extra("i686", platforms::i686)
            .says("the kernels with addresses of 32 bits (gcc-multilib)"),
    ]
}

/// Compiles beside what waits for a network.
fn build() -> Result<(), String> {
    ep::library()?;
    workspace("test").words("--tests --no-run").run()
}

fn clippy() -> Result<(), String> {
    [workspace("clippy"), full("clippy")]
        .into_iter()
        .try_for_each(|clippy| clippy.words("--all-targets -- -D warnings").run())
}

fn doctests() -> Result<(), String> {
    let tests = workspace("test").arg("--doc");
    tests.run_together("the examples in the documentation")
}

/// All tests except doctests.
fn tests(command: Command) -> Result<Command, String> {
    let environment = ep::environment()?;
    Ok(environment
        .iter()
        .fold(command, |test, (name, path)| test.env(name, path))
        .words("--tests --no-fail-fast")
        .env("INSTA_UPDATE", "no"))
}

/// Runs ONNX's own node tests: no test that plain tract passes may fare worse with revseq.
fn onnx() -> Result<(), String> {
    let python = ep::python_of_models()?;
    node_tests(&python, "node_tests.py", &[])
}

/// Runs ONNX's own node tests in other sizes: no output may be another than ONNX Runtime's.
fn node_sizes() -> Result<(), String> {
    let (python, _) = ep::onnxruntime()?;
    node_tests(&python, "node_sizes.py", &["--sizes"])
}

/// Runs the tests that a script writes.
fn node_tests(python: &Path, script: &str, options: &[&str]) -> Result<(), String> {
    let folder = target().join(script.trim_end_matches(".py"));
    Command::new(python)
        .arg(root().join("crates/tools/xtask").join(script))
        .arg(&folder)
        .run()?;
    workspace("test")
        .words("--test node-tests --")
        .args(options)
        .arg(folder)
        .run()
}

/// Makes the models, or checks them, with the packages that the script pins.
fn models(arguments: &[&str]) -> Result<(), String> {
    Command::new(ep::python_of_models()?)
        .arg(root().join("models/make_models.py"))
        .args(arguments)
        .run()
}

/// The workspace's folder.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.ancestors().nth(3);
    root.expect("this crate lies three folders below the root")
        .to_owned()
}

/// The output of `cargo metadata`.
#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<packages::Package>,
    target_directory: PathBuf,
}

/// The folder that cargo builds into: `target`, or that of `CARGO_TARGET_DIR` or the configuration.
fn target() -> &'static Path {
    &metadata().target_directory
}

/// The output of `cargo metadata`, cached.
fn metadata() -> &'static Metadata {
    static METADATA: LazyLock<Metadata> = LazyLock::new(|| {
        // Not a step's `Command`, which names a file in the target folder.
        let mut cargo = std::process::Command::new(step::cargo_program());
        cargo.args(["metadata", "--format-version=1", "--no-deps"]);
        let output = cargo.current_dir(root()).output();
        let output = output.expect("the cargo that runs this can be started");
        serde_json::from_slice(&output.stdout).expect("cargo metadata describes the workspace")
    });
    &METADATA
}

#[cfg(test)]
mod tests {
    #[test]
    fn pictures_have_colours_for_dark_backgrounds() {
        for name in ["crates.svg", "reverse-sequence.svg"] {
            let svg = crate::files::read(&crate::root().join("docs").join(name)).unwrap();
            let (style, drawn) = svg.split_once("</style>").unwrap();
            assert!(style.contains("prefers-color-scheme:dark"), "{name}");
            // A colour outside of the style sheet would be the same on both.
            assert!(!drawn.contains("\"#"), "{name}");
        }
    }
}
