//! The inputs of the corpus pass their targets.

use std::path::{Path, PathBuf};

use revseq_fuzz::TARGETS;

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
