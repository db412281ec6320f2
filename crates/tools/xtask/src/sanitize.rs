//! Runs the tests of the kernels and the graph crate, and the provider in ONNX Runtime, under
//! AddressSanitizer and Valgrind, on the toolchain that builds everything else; and under
//! ThreadSanitizer and Miri, on nightly.

use std::path::PathBuf;

use crate::ep;
use crate::step::{self, Command, Step, cargo, nightly};

/// Sanitizers come with the compiler for few targets, including this one.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The folder of a sanitizer's builds, apart from all others.
fn folder(name: &str) -> PathBuf {
    crate::target().join("sanitize").join(name)
}

const ADDRESS: &str = "-Zsanitizer=address --cfg revseq_sanitize";

/// Options for builds with debug assertions and without optimisation, which takes longer than it
/// saves in instrumented code.
const UNOPTIMISED: &str = "--profile dev";

/// The models that the provider runs under AddressSanitizer: lengths and data of several kinds,
/// one node and two, and empty tensors.
const MODELS: [&str; 7] = [
    "graphs/twice_other_lengths",
    "lengths/initializer",
    "shapes/long_time",
    "shapes/rank3_batch0_time2",
    "shapes/wide_inner",
    "shapes/zero_inner",
    "subsequences/clamped_int64",
];

/// Runs the named sanitizers, or all.
pub(crate) fn run(names: &[&str]) -> Result<(), String> {
    let steps = vec![
        Step::new("asan", all).says("AddressSanitizer: kernels, graph, layers, provider"),
        Step::new("valgrind", valgrind).says("Valgrind: portable kernels"),
        Step::extra("tsan", thread).says("ThreadSanitizer: threaded kernels (nightly)"),
        Step::extra("miri", miri).says("Miri: kernels and provider (nightly)"),
    ];
    step::select(steps, names).and_then(step::run_all)
}

/// Everything under AddressSanitizer. Unoptimised, the reference takes minutes for large tensors, and the unit
/// tests reach the same loops.
fn all() -> Result<(), String> {
    address_in_onnx_runtime()?;
    layers()?;
    address("--package=revseq-graph --tests -- --skip=large --skip=streamed").run()
}

/// A short daily run: the kernels' unit tests under AddressSanitizer.
pub(crate) fn short() -> Result<(), String> {
    address("--lib").run_together("AddressSanitizer")
}

/// Tests of the kernels, and others by name, under AddressSanitizer.
fn address(tests: &str) -> Command {
    sanitized("test --package revseq-kernels", "address", ADDRESS)
        .words(tests)
        .env("PROPTEST_CASES", "64")
        // loom keeps some memory to the end.
        .env("ASAN_OPTIONS", "detect_leaks=0")
}

/// Tests of the layers under AddressSanitizer, but for the long sequences: nothing else reads and writes
/// in them, and unoptimised they take minutes.
fn layers() -> Result<(), String> {
    sanitized("test --package recurrent-layers", "address", ADDRESS)
        .words("--lib --test layers -- --skip=long --skip=closed --skip=threads")
        .env("PROPTEST_CASES", "16")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .run()
}

/// Runs models in the real ONNX Runtime, by a program and a provider with AddressSanitizer.
fn address_in_onnx_runtime() -> Result<(), String> {
    // The provider finds the sanitizer in the program.
    let flags = format!("{ADDRESS} -Clink-arg=-rdynamic");
    sanitized(
        "build --package revseq-ep --lib --example rust",
        "address",
        &flags,
    )
    .run()?;
    let root = crate::root();
    let built = folder("address").join(TARGET).join("debug");
    let (_, onnxruntime) = ep::onnxruntime()?;
    MODELS.iter().try_for_each(|model| {
        Command::new(built.join("examples/rust"))
            .arg(&onnxruntime)
            .arg(built.join("librevseq_ep.so"))
            .arg(root.join("models").join(model).join("model.onnx"))
            // ONNX Runtime, which is loaded later, throws exceptions: the sanitizer's
            // interceptor must find the original function when it starts.
            .env("LD_PRELOAD", "libstdc++.so.6")
            .run()
    })
}

/// Runs the kernels' unit tests under ThreadSanitizer, with an instrumented standard library, and
/// layers on several threads. It ignores accesses of more than 16 bytes; the portable kernels have
/// none, and layers copy what threads share by the standard library.
fn thread() -> Result<(), String> {
    let test = |tests: &str| {
        on_nightly("thread", "test -Zbuild-std")?
            .args(["--target", TARGET])
            .words(tests)
            // It does not know crossbeam's fences.
            .env(
                "RUSTFLAGS",
                "-Zsanitizer=thread --cfg revseq_sanitize --cfg crossbeam_sanitize_thread",
            )
            .env("REVSEQ_SIMD", "portable")
            .env("PROPTEST_CASES", "64")
            .run()
    };
    test("--package=recurrent-layers --test=layers -- threads_share")?;
    test("--package=revseq-kernels --lib -- --test-threads=1")
}

/// Runs the portable kernels' unit tests under Valgrind, which does not know AVX-512.
fn valgrind() -> Result<(), String> {
    let runner = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
    let valgrind = "valgrind --quiet --error-exitcode=1 --partial-loads-ok=no";
    sanitized("test --package revseq-kernels --lib", "valgrind", "")
        .env(runner, valgrind)
        .env("REVSEQ_SIMD", "portable")
        .env("PROPTEST_CASES", "8")
        .run()
}

/// Runs every kernel on small layouts under Miri, and the provider's factory.
fn miri() -> Result<(), String> {
    // The tests read the environment, and their hosts live as long as the process.
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";
    let tests = [
        ("revseq-kernels", "every_kernel_agrees_on_small_layouts"),
        ("ep-plugin", "provider::factory::tests"),
        ("revseq-ep", "provider::library::tests"),
    ];
    tests.into_iter().try_for_each(|(package, test)| {
        on_nightly("miri", "miri test --lib")?
            .args(["--package", package, "--", test])
            .env("RUSTFLAGS", "--cfg revseq_sanitize")
            .env("MIRIFLAGS", flags)
            .run()
    })
}

/// A cargo command of a nightly toolchain, in a separate folder.
fn on_nightly(folder: &str, words: &str) -> Result<Command, String> {
    nightly("miri --version").output().map_err(|_| {
        "this needs: rustup toolchain install nightly --component miri,rust-src".to_owned()
    })?;
    Ok(nightly(words)
        .arg("--target-dir")
        .arg(self::folder(folder))
        .words(UNOPTIMISED))
}

/// A cargo command with unstable compiler flags, in a separate folder.
///
/// `--cfg revseq_sanitize` turns streaming stores into ordinary ones, since no sanitizer sees them.
/// An explicit target keeps the flags from build scripts and macros.
fn sanitized(command: &str, folder: &str, flags: &str) -> Command {
    cargo(command)
        .args(["--target", TARGET, "--target-dir"])
        .arg(self::folder(folder))
        .words(UNOPTIMISED)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
}
