//! The messages of ONNX as Rust, generated from ONNX's own proto file.

use std::path::PathBuf;

use crate::files;
use crate::step::cargo;

/// Writes the messages.
pub(crate) fn write() -> Result<(), String> {
    files::write(&file(), &generated()?)
}

/// Checks that the messages are those that the generator makes.
pub(crate) fn check() -> Result<(), String> {
    match files::read(&file())? == generated()? {
        true => Ok(()),
        false => Err(format!(
            "{} differs from what crates/tools/xtask/onnx makes; `cargo xtask onnx` writes it again",
            file().display()
        )),
    }
}

fn file() -> PathBuf {
    crate::root().join("crates/onnx/revseq-onnx/src/generated.rs")
}

/// Runs the generator, a workspace of its own.
fn generated() -> Result<String, String> {
    let generator = crate::root().join("crates/tools/xtask/onnx");
    cargo("run --quiet --locked --manifest-path")
        .arg(generator.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(crate::target().join("onnx-messages"))
        .arg(generator.join("onnx-ml.proto"))
        .output()
}
