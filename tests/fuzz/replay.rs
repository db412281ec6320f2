//! What fuzzers have found worth keeping still holds.

use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

use revseq_fuzz::TARGETS;
#[cfg(unix)]
use revseq_kernels::cpu::SimdLevel;

/// The files of a target's corpus, in the order of their names.
fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let entries = folder
        .read_dir()
        .unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Calls a target with each file of its corpus.
fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).unwrap();
    let files = corpus(name);
    assert!(!files.is_empty(), "{name} has no corpus");
    for file in files {
        // Shown if the test fails, or is killed.
        println!("{}", file.display());
        target(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn nodes_models_and_tensors() {
    for (name, _) in TARGETS {
        if *name != "operator" {
            replay(name);
        }
    }
}

#[cfg(unix)]
#[test]
fn operator() {
    replay("operator");
}

/// The same with fewer instructions than the CPU has, each set in a process of its own.
#[cfg(unix)]
#[test]
fn operator_with_fewer_instructions() {
    for level in SimdLevel::current().lower() {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "operator"])
            .env("REVSEQ_SIMD", level.name())
            .output()
            .unwrap();
        assert!(run.status.success(), "{level}: {run:?}");
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(printed.contains("1 passed"), "{level}: {printed}");
    }
}
