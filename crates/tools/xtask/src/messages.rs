//! The messages of ONNX as Rust, generated from ONNX's own proto file.

use std::path::PathBuf;

use crate::files;
use crate::step::cargo;

/// Writes the messages, and a record of what made them.
pub(crate) fn write() -> Result<(), String> {
    files::write(&file(), &generated()?)?;
    files::write(&record(), &digest()?)
}

/// Checks that neither the messages nor what made them has changed since, without the generator, which takes a
/// minute of a core to compile.
pub(crate) fn check_record() -> Result<(), String> {
    match files::read(&record())? == digest()? {
        true => Ok(()),
        false => Err(format!(
            "{} or what makes it has changed; `cargo xtask onnx` writes it again",
            file().display()
        )),
    }
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

fn generator() -> PathBuf {
    crate::root().join("crates/tools/xtask/onnx")
}

fn record() -> PathBuf {
    generator().join("made.txt")
}

/// The digest (FNV-1a) of the messages and of all that they are made of.
fn digest() -> Result<String, String> {
    let parts = ["Cargo.lock", "onnx-ml.proto", "src/main.rs"].map(|part| generator().join(part));
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for path in parts.iter().chain([&file()]) {
        for byte in files::read(path)?.bytes().filter(|it| *it != b'\r') {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!("{digest:016x}\n"))
}

/// Runs the generator, a workspace of its own.
fn generated() -> Result<String, String> {
    let generator = generator();
    cargo("run --quiet --locked --manifest-path")
        .arg(generator.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(crate::target().join("onnx-messages"))
        .arg(generator.join("onnx-ml.proto"))
        .output()
}
