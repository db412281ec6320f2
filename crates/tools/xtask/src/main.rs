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
  sanitize [asan|valgrind|tsan|miri]...
                  Run the kernels' tests under sanitizers, the first two or those named
  models          Make the files under models/ again
  onnx [--check]  Generate the messages of crates/onnx/revseq-onnx again, or check them
  api             Record the public API of the libraries, in their public-api.txt
  wheel [ep|cli]... [--all-platforms]
                  Build the Python wheels, of the execution provider and of the command line, or
                  those named, for this machine or for all platforms, into
                  target/wheels/PLATFORM
  fuzz [TARGET] [--seconds N]
                  Fuzz a target of tests/fuzz, or each for a minute
  steps           List the steps of `test`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        [_, rest @ ..] if rest.iter().any(|it| is_help(it)) => help(),
        ["test", names @ ..] => step::select(test_steps(), names).and_then(step::run_all),
        ["sanitize", names @ ..] => sanitize::run(names),
        ["models"] => models(&[]),
        ["onnx"] => messages::write(),
        ["onnx", "--check"] => messages::check(),
        ["api"] => packages::write_api(),
        ["wheel", arguments @ ..] => wheels(arguments),
        ["fuzz", arguments @ ..] => fuzz::fuzz(arguments),
        ["steps"] => {
            for step in test_steps() {
                let named = if step.is_extra {
                    " (only if named)"
                } else {
                    ""
                };
                println!("{:<10} {}{named}", step.name, step.summary);
            }
            Ok(())
        }
        [command] if is_help(command) => help(),
        [] => Err(format!("no command given\n\n{USAGE}")),
        [command @ ("models" | "onnx" | "api" | "steps"), rest @ ..] => Err(format!(
            "{command} does not take {}\n\n{USAGE}",
            rest.join(" ")
        )),
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

fn is_help(argument: &str) -> bool {
    ["help", "--help", "-h"].contains(&argument)
}

fn help() -> Result<(), String> {
    print!("{USAGE}");
    Ok(())
}

/// Builds the wheels that the arguments of `wheel` name.
fn wheels(arguments: &[&str]) -> Result<(), String> {
    let (platform, names) = wanted_wheels(arguments)?;
    ep::wheels(&platform, &names)
}

/// The platform and the wheels that arguments name.
fn wanted_wheels<'a>(arguments: &[&'a str]) -> Result<(String, Vec<&'a str>), String> {
    let (options, mut names): (Vec<&str>, _) = arguments.iter().partition(|it| it.starts_with('-'));
    if let Some(option) = options.iter().find(|&&it| it != "--all-platforms") {
        return Err(format!("wheel does not take {option}\n\n{USAGE}"));
    }
    if let Some(name) = names.iter().find(|it| !WHEELS.contains(it)) {
        let wheels = WHEELS.join(" and ");
        return Err(format!("there is no wheel {name:?}, there are {wheels}"));
    }
    if names.is_empty() {
        names = WHEELS.to_vec();
    }
    let platform = match options.is_empty() {
        true => ep::this_platform(),
        false => "all".to_owned(),
    };
    Ok((platform, names))
}

/// The wheels, as `wheels/build.py` names them.
const WHEELS: [&str; 2] = ["ep", "cli"];

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
        Step::new("models", check_models).says(
            "the models equal their script's output, ONNX's messages what their generator made",
        ),
        Step::new("ep", ep::test).says(
            "the execution provider in the newest and the oldest ONNX Runtime, and its wheel",
        ),
        Step::new("onnx", onnx)
            .says("ONNX's own tests of nodes on tract, with and without this project's operators")
            .beside(),
        Step::extra("clippy", clippy).says("the lints, warnings denied"),
        Step::extra("doc", packages::check_api)
            .says("the documentation, warnings denied, and the public API on record"),
        Step::extra("package", packages::package)
            .says("the crates that are published, as they would be"),
        Step::extra("asan", sanitize::short).says("the kernels' unit tests under AddressSanitizer"),
        Step::extra("hosts", ep::test_all)
            .says("the execution provider in each ONNX Runtime, with all tests"),
        Step::extra("full", || tests(full("test"))?.run()).says(
            "the step `test` with all features: the kernels on software adapters of GPUs, and threads of tract",
        ),
        Step::extra("fresh", fresh).says("plain `cargo test`, as in a fresh clone"),
        Step::extra("node-sizes", node_sizes)
            .says("ONNX's own tests of nodes in sizes that one session plans at once (minutes)"),
        Step::extra("random", random).says(
            "the step `test` with another seed, which it prints, and four times the random models",
        ),
        Step::extra("wheels", ep::test_wheels)
            .says("both wheels, installed where there is no Rust (minutes to build)"),
        Step::extra("rten", rten).says("rten among the contestants of the benchmarks"),
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
        Step::extra("macos", platforms::macos)
            .says("both wheels linked for macOS"),
        Step::extra("wasm", platforms::wasm)
            .says("the kernels, tract's operators and models on WebAssembly (Node)"),
        Step::extra("i686", platforms::i686)
            .says("the kernels with addresses of 32 bits (gcc-multilib)"),
        Step::extra("candle", candle).says("the example of candle, which is built for it"),
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

fn check_models() -> Result<(), String> {
    models(&["--check"]).and_then(|()| messages::check_record())
}

/// What the machine lacks is skipped, as it is for whoever tries it first.
fn fresh() -> Result<(), String> {
    let tests = cargo("test --timings").env("INSTA_UPDATE", "no");
    tests.env_remove("REVSEQ_SKIPS").run()
}

fn rten() -> Result<(), String> {
    cargo("test --package revseq-benches --features rten").run()
}

fn candle() -> Result<(), String> {
    cargo(
        "run --manifest-path crates/operator/revseq-graph/examples/candle/Cargo.toml --target-dir",
    )
    .arg(target().join("candle"))
    .run()
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

/// Runs the tests with a new seed; otherwise `.cargo/config.toml` sets it.
fn random() -> Result<(), String> {
    let now = std::time::UNIX_EPOCH.elapsed();
    let seed = now.map_or(0, |it| it.as_nanos() as u64).to_string();
    let repeat = format!("PROPTEST_RNG_SEED={seed} REVSEQ_RANDOM_TIMES=4 cargo xtask test test");
    eprintln!("the seed is {seed}; to run these tests again: {repeat}");
    let tests = tests(workspace("test"))?
        .env("PROPTEST_RNG_SEED", seed)
        .env("REVSEQ_RANDOM_TIMES", "4");
    tests
        .run()
        .map_err(|error| format!("{error}; to run it again: {repeat}"))
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
            assert!(style.contains("prefers-color-scheme: dark"), "{name}");
            // A colour outside of the style sheet would be the same on both.
            assert!(!drawn.contains("\"#"), "{name}");
        }
    }

    #[test]
    fn wheels_are_named_or_all() {
        let here = super::ep::this_platform();
        let wanted = |arguments: &[&'static str]| super::wanted_wheels(arguments);
        assert_eq!(wanted(&[]), Ok((here.clone(), vec!["ep", "cli"])));
        assert_eq!(wanted(&["ep"]), Ok((here, vec!["ep"])));
        let all = Ok(("all".to_owned(), vec!["cli"]));
        assert_eq!(wanted(&["--all-platforms", "cli"]), all);
        let error = wanted(&["--fast"]).unwrap_err();
        assert!(error.starts_with("wheel does not take --fast\n"), "{error}");
        let error = wanted(&["provider"]).unwrap_err();
        assert_eq!(
            error,
            "there is no wheel \"provider\", there are ep and cli"
        );
    }
}
