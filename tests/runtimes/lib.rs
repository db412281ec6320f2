//! Other runtimes as programs, for `cargo xtask test runtimes`: each line of standard input is a model
//! with its inputs, and each line of standard output what came of it. `on_tract.rs` and `on_rten.rs`
//! are such programs; those in other languages are beside the step's script.
//!
//! ```text
//! {"model": "model.onnx", "inputs": [{"name": "x", "type": "float32", "shape": [1], "bytes": "0000803f"}]}
//!   → {"outputs": [{"type": "float32", "shape": [1], "bytes": "0000803f"}]}  or  {"refused": "…"}
//! ```

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// A model and its inputs.
#[derive(Deserialize)]
struct Request {
    model: String,
    inputs: Vec<Value>,
}

/// A tensor.
#[derive(Deserialize, Serialize)]
pub struct Value {
    /// The name of an input.
    #[serde(default, skip_serializing)]
    pub name: String,
    /// The element type, as NumPy names it.
    #[serde(rename = "type")]
    pub element_type: String,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The little-endian bytes, in hexadecimal digits.
    bytes: String,
}

impl Value {
    /// Makes an output.
    #[must_use]
    pub fn new(element_type: &str, shape: &[usize], bytes: &[u8]) -> Self {
        Self {
            name: String::new(),
            element_type: element_type.to_owned(),
            shape: shape.to_vec(),
            bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Returns the little-endian bytes.
    ///
    /// # Errors
    /// If they are not in hexadecimal digits.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let pairs = self.bytes.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.ok_or_else(|| format!("input {:?} is not in hexadecimal digits", self.name))
    }
}

/// Result of a model.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Outputs(Vec<Value>),
    Refused(String),
}

/// Runs models until there are no more lines. A runtime's panic is a refusal like others.
pub fn serve(run: fn(&Path, &[Value]) -> Result<Vec<Value>, String>) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    match answer_lines(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_lines(run: fn(&Path, &[Value]) -> Result<Vec<Value>, String>) -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let outputs = catch_unwind(AssertUnwindSafe(|| {
            run(Path::new(&request.model), &request.inputs)
        }));
        let answer = match outputs {
            Ok(Ok(outputs)) => Answer::Outputs(outputs),
            Ok(Err(why)) => Answer::Refused(why),
            Err(_) => Answer::Refused("it panics".to_owned()),
        };
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}
