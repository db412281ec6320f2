//! The kernels' and the graph's tests under AddressSanitizer, ThreadSanitizer and
//! Valgrind, on the toolchain that builds everything else.

use crate::step::{self, Command, Step, cargo};

/// Sanitizers come with the compiler for few targets; this is the one that is run.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Where its builds lie, apart from all others.
const FOLDER: &str = "target/sanitize";

/// Runs the sanitizers of these names, or all if there are none.
pub(crate) fn run(names: &[&str]) -> Result<(), String> {
    let steps = vec![
        Step::new("asan", "AddressSanitizer: kernels and graph", || {
            // Unoptimised, the reference takes minutes for large tensors, and the unit
            // tests reach the same loops.
            address(&[
                "--package=revseq-graph",
                "--tests",
                "--",
                "--skip=large",
                "--skip=streamed_tensors",
            ])
        }),
        Step::new("tsan", "ThreadSanitizer: threaded kernels", thread),
        Step::new("valgrind", "Valgrind: portable kernels", valgrind),
    ];
    step::select(steps, names).and_then(step::run_all)
}

/// A short run for every day: the kernels' unit tests under AddressSanitizer.
pub(crate) fn short() -> Result<(), String> {
    address(&["--lib"])
}

/// Runs tests of the kernels, and of what else is named, under AddressSanitizer.
fn address(tests: &[&str]) -> Result<(), String> {
    cargo_test("address", "-Zsanitizer=address --cfg revseq_sanitize")
        .args(["--package", "revseq-kernels"])
        .args(tests)
        .env("PROPTEST_CASES", "64")
        .run()
}

/// Runs the kernels' threaded tests under ThreadSanitizer.
///
/// The standard library is the one that comes with the compiler, without
/// instrumentation, which has to be allowed. Of its own synchronisation
/// ThreadSanitizer sees what is inlined and what goes by way of pthreads, so the
/// tests join their threads, and there is one of the harness. It takes no notice of
/// accesses of more than 16 bytes: the portable kernels have none.
fn thread() -> Result<(), String> {
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    cargo_test("thread", &format!("{flags} --cfg revseq_sanitize"))
        .args(["--package", "revseq-kernels", "--lib"])
        .args(["--", "--test-threads=1"])
        .env("REVSEQ_SIMD", "portable")
        .env("PROPTEST_CASES", "64")
        .run()
}

/// Runs the portable kernels' unit tests under Valgrind, which knows no AVX-512.
fn valgrind() -> Result<(), String> {
    let runner = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
    let valgrind = "valgrind --quiet --error-exitcode=1 --partial-loads-ok=no";
    cargo_test("valgrind", "")
        .args(["--package", "revseq-kernels", "--lib"])
        .env(runner, valgrind)
        .env("REVSEQ_SIMD", "portable")
        .env("PROPTEST_CASES", "8")
        .run()
}

/// `cargo test` with flags of the compiler that are not stable, in a folder of their own.
///
/// `--cfg revseq_sanitize` makes streaming stores ordinary ones, as no sanitizer sees
/// those. A target that is named keeps the flags from build scripts and macros.
fn cargo_test(folder: &str, flags: &str) -> Command {
    cargo(&["test", "--target", TARGET, "--target-dir"])
        .arg(format!("{FOLDER}/{folder}"))
        // To optimise what is instrumented takes longer than to run it as it is.
        .args(["--config", "profile.dev.package.revseq-kernels.opt-level=0"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
}
