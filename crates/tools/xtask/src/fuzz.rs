//! Fuzzing with libFuzzer: the targets of tests/fuzz.

use crate::files;
use crate::step::nightly;

/// A fuzz target.
struct Target {
    name: &'static str,
    /// Whether it needs the runner, and so tract, which takes minutes to compile.
    runner: bool,
    /// Whether the files of models/ are its initial corpus.
    models: bool,
}

const TARGETS: [Target; 6] = [
    Target::new("operator", false, false),
    Target::new("provider", false, false),
    Target::new("model", true, true),
    Target::new("tensors", true, true),
    Target::new("tract", true, false),
    Target::new("rewrite", true, false),
];

impl Target {
    const fn new(name: &'static str, runner: bool, models: bool) -> Self {
        Self {
            name,
            runner,
            models,
        }
    }
}

/// The default run time of a target, in seconds.
const SECONDS: &str = "60";

/// Fuzzes one target, or all of them in turn.
pub(crate) fn fuzz(arguments: &[&str]) -> Result<(), String> {
    let (name, seconds) = match *arguments {
        [] => (None, SECONDS),
        [name] => (Some(name), SECONDS),
        [name, seconds] if seconds.parse::<u32>().is_ok() => (Some(name), seconds),
        _ => return Err(format!("expected [TARGET [SECONDS]], got {arguments:?}")),
    };
    let known = TARGETS.map(|target| target.name);
    if let Some(name) = name.filter(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(format!("unknown target {name:?}, expected one of {known}"));
    }
    nightly("fuzz --version").output().map_err(|_| {
        "fuzzing needs a nightly toolchain and cargo-fuzz: \
         rustup toolchain install nightly --profile minimal && cargo install cargo-fuzz --locked"
    })?;
    let root = crate::root();
    let folder = root.join("tests/fuzz/libfuzzer");
    // Fuzz the same versions that are tested.
    files::copy(&root.join("Cargo.lock"), &folder.join("Cargo.lock"))?;
    let wanted = |target: &&Target| name.is_none_or(|name| name == target.name);
    for target in TARGETS.iter().filter(wanted) {
        let found = crate::target().join("fuzz/corpus").join(target.name);
        files::create(&found)?;
        let models = target.models.then(|| root.join("models"));
        // The kernels take too long to compile under a sanitizer; their buffers lie
        // next to inaccessible pages, and `sanitize` runs their tests.
        nightly("fuzz run --release --sanitizer none --fuzz-dir")
            .arg(&folder)
            .arg("--target-dir")
            .arg(crate::target().join("fuzz"))
            .args(target.runner.then_some("--features=runner"))
            .arg(target.name)
            .arg(found)
            .arg(root.join("tests/fuzz/corpus").join(target.name))
            .args(models)
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .words("-max_len=4096 -timeout=20 -rss_limit_mb=4096")
            .run()?;
    }
    Ok(())
}
