//! The execution provider: its library, its wheel, and their tests against the real ONNX Runtime.

use std::path::PathBuf;

use crate::step::Command;
use crate::{files, python};

/// The newest ONNX Runtime under test, by its requirements file: it runs all tests.
const NEWEST: &str = "1.32";

/// The oldest one. What the library does once it is called hardly depends on the version: this one runs what
/// ONNX Runtime asks of the library, and all tests in `test_all`.
const OLDEST: &str = "1.24";

/// One that is too old, which the library has to say.
const TOO_OLD: &str = "1.23";

/// One in between, which makes the models: its environment has everything that `models/requirements.txt` pins.
const MODELS_HOST: &str = "1.31";

/// The arguments of Python that run tests.
pub(crate) const PYTEST: &str = "-m pytest -q -rs --disable-warnings -p no:cacheprovider";

/// The prefix of the provider wheel's file name.
const EP_WHEEL: &str = "onnxruntime_ep_revseq";

/// The environment variables with which the other tests run models on ONNX Runtime
/// with the provider: the library of the newest version under test, the provider's
/// library, and a Python with ONNX's checker.
pub(crate) fn environment() -> Result<[(&'static str, PathBuf); 3], String> {
    library()?;
    let (python, runtime) = onnxruntime()?;
    let ep = crate::target().join("debug").join(library_name());
    Ok([
        ("REVSEQ_TEST_ORT_LIB", runtime),
        ("REVSEQ_EP_LIBRARY", ep),
        ("REVSEQ_TEST_PYTHON", python),
    ])
}

/// Makes the environments of all ONNX Runtimes under test, one after the other, so that shared
/// packages are downloaded once.
pub(crate) fn make_environments() -> Result<(), String> {
    let mut versions = [NEWEST, MODELS_HOST, OLDEST, TOO_OLD].into_iter();
    versions.try_for_each(|version| host(version).map(|_| ()))
}

/// A Python with the packages that make the models.
pub(crate) fn python_of_models() -> Result<PathBuf, String> {
    host(MODELS_HOST)
}

/// A Python with the newest ONNX Runtime under test, and its library.
pub(crate) fn onnxruntime() -> Result<(PathBuf, PathBuf), String> {
    let python = host(NEWEST)?;
    let script = "import pathlib, onnxruntime; \
                  print(*pathlib.Path(onnxruntime.__file__).parent.glob('capi/*onnxruntime.*[0-9dl]'))";
    let found = Command::new(&python).args(["-c", script]).output()?;
    let library = PathBuf::from(found.trim());
    if !library.is_file() {
        return Err(format!(
            "no library of ONNX Runtime {NEWEST}: found {found:?}"
        ));
    }
    Ok((python, library))
}

/// Builds the library and its examples with the features and profile of the workspace's tests, so that shared crates
/// are built once.
pub(crate) fn library() -> Result<(), String> {
    crate::workspace("build")
        .words("--profile test --lib --bin revseq --example rust --example mixed --example rewrite --example negate")
        .run()
}

/// The interpreter of an environment with a version of ONNX Runtime.
fn host(version: &str) -> Result<PathBuf, String> {
    python::environment(&format!("ort-{version}"), &requirements(version))
}

/// The requirements of the newest ONNX Runtime under test.
pub(crate) fn newest_requirements() -> PathBuf {
    requirements(NEWEST)
}

/// The requirements of an environment with a version of ONNX Runtime.
fn requirements(version: &str) -> PathBuf {
    let tests = crate::root().join("crates/onnxruntime/revseq-ep/tests");
    tests.join(format!("requirements-{version}.txt"))
}

/// The name of this machine's platform in the table of the wheels' platforms.
fn this_platform() -> String {
    use std::env::consts::{ARCH, OS};
    format!("{OS}-{ARCH}")
}

/// Builds wheels, each into its platform's folder, by the arguments of the script.
pub(crate) fn wheels(arguments: &[&str]) -> Result<(), String> {
    let script = crate::root().join("crates/tools/xtask/wheels/build.py");
    let build = Command::new(python::INTERPRETER).arg(script);
    build.args(arguments).run()
}

/// The provider's wheel of a platform, built.
pub(crate) fn wheel(platform: &str) -> Result<PathBuf, String> {
    wheels(&["ep", "--platform", platform])?;
    only_wheel("wheels", platform, EP_WHEEL)
}

/// Builds both wheels, and tests that of the command line.
pub(crate) fn test_wheels() -> Result<(), String> {
    let platform = this_platform();
    wheels(&[])?;
    Command::new(host(NEWEST)?)
        .words(PYTEST)
        .arg(crate::root().join("crates/tools/revseq-runner/python/test_wheel.py"))
        .env(
            "REVSEQ_CLI_WHEEL",
            only_wheel("wheels", &platform, "revseq_cli")?,
        )
        .env(
            "REVSEQ_EP_WHEEL",
            only_wheel("wheels", &platform, EP_WHEEL)?,
        )
        .run()
}

/// Runs the tests of the library and of the wheel.
pub(crate) fn test() -> Result<(), String> {
    library()?;
    test_in(&[
        // In halves: each keeps one core busy.
        (NEWEST, "", &["--short"]),
        (NEWEST, "", &["--long"]),
        (OLDEST, "", &["--short"]),
        (TOO_OLD, "test_old_host.py", &[]),
    ])
}

/// Runs all of them in the versions that `test` leaves out, in whole or in part.
pub(crate) fn test_all() -> Result<(), String> {
    library()?;
    test_in(&[(MODELS_HOST, "", &[]), (OLDEST, "", &[])])
}

/// Runs tests in ONNX Runtimes at the same time: a version, a file or all, and the options of each.
fn test_in(hosts: &[(&str, &str, &[&str])]) -> Result<(), String> {
    // What a wheel has around the library does not depend on how that is optimised, nor on the failures that tests
    // have it inject.
    let platform = this_platform();
    wheels(&["ep", "--dev"])?;
    let wheel = only_wheel("dev-wheels", &platform, EP_WHEEL)?;
    let (target, library) = (crate::target(), library_name());
    let faulty = target.join("dev-wheels").join(&platform).join(&library);
    let tests = crate::root().join("crates/onnxruntime/revseq-ep/tests");
    let pytest = |version: &str, file: &str, options: &[&str]| {
        Command::new(host(version)?)
            .words(PYTEST)
            .arg(tests.join(file))
            .args(options)
            .env("REVSEQ_EP_LIBRARY", target.join("debug").join(&library))
            .env("REVSEQ_EP_FAULTY_LIBRARY", &faulty)
            .env("REVSEQ_COMMAND", target.join("debug").join(command_name()))
            .env("REVSEQ_EP_RUST_EXAMPLES", target.join("debug/examples"))
            .env("REVSEQ_EP_WHEEL", &wheel)
            .run_together(&format!("ONNX Runtime {version} {}", options.join(" ")))
    };
    std::thread::scope(|scope| {
        let runs = hosts.iter().map(|&(version, file, options)| {
            let pytest = &pytest;
            scope.spawn(move || pytest(version, file, options))
        });
        // All of them start before the first is awaited.
        let runs: Vec<_> = runs.collect();
        runs.into_iter()
            .map(|run| run.join().expect("the thread does not panic"))
            .fold(Ok(()), Result::and)
    })
}

fn command_name() -> String {
    format!("revseq{}", std::env::consts::EXE_SUFFIX)
}

pub(crate) fn library_name() -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}revseq_ep{DLL_SUFFIX}")
}

/// The only wheel of a name among those of a platform, in a folder of the target folder.
fn only_wheel(folder: &str, platform: &str, name: &str) -> Result<PathBuf, String> {
    let folder = crate::target().join(folder).join(platform);
    files::only(&folder, |file| {
        file.starts_with(&format!("{name}-")) && file.ends_with(".whl")
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_models_are_made_with_pinned_packages() {
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
        let found = read(&super::requirements(super::MODELS_HOST));
        let pinned = read(&crate::root().join("models/requirements.txt"));
        for pin in pinned.lines() {
            assert!(found.lines().any(|line| line == pin), "{pin}");
        }
    }
}
