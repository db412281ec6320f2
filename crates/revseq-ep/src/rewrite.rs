//! Rewriting a model before a session loads it, for hosts that are not written in Rust.

use std::slice;

use revseq_rewrite::{Assumptions, Options, Report};
use serde::Deserialize;

use crate::plugin::{error, fence};

/// A part of the result of [`RevSeqRewrite`].
#[repr(u32)]
enum Part {
    /// The rewritten model.
    Model = 0,
    /// The report: JSON with `exactness` and `steps`.
    Report = 1,
    /// Why there is neither, as text.
    Error = 2,
}

/// Receives a part: its number, its bytes and how many they are.
type Receive = extern "C" fn(part: u32, bytes: *const u8, size: usize);

/// Rewrites an ONNX model.
///
/// `options` is JSON: `{"fast": true, "portable": false, "runtime": null, "passes": [], "assume":
/// []}`, of which each may be missing. `receive` is called before this returns, either with an error or with
/// a model and a report; the bytes are gone afterwards.
///
/// # Safety
/// `model` and `options` point to as many bytes as their sizes say.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn RevSeqRewrite(
    model: *const u8,
    model_size: usize,
    options: *const u8,
    options_size: usize,
    receive: Receive,
) {
    let bytes = |bytes: *const u8, size: usize| match bytes.is_null() {
        true => &[][..],
        // SAFETY: the caller's.
        false => unsafe { slice::from_raw_parts(bytes, size) },
    };
    let (model, options) = (bytes(model, model_size), bytes(options, options_size));
    let give = |part: Part, bytes: &[u8]| receive(part as u32, bytes.as_ptr(), bytes.len());
    match fence::catch(|| rewrite(model, options)) {
        Ok((model, report)) => {
            give(Part::Model, &model);
            give(Part::Report, &report);
        }
        Err(Error(message)) => give(Part::Error, message.as_bytes()),
    }
}

struct Error(String);

impl From<error::Error> for Error {
    fn from(error: error::Error) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Arguments {
    fast: bool,
    portable: bool,
    runtime: Option<String>,
    passes: Vec<String>,
    assume: Vec<String>,
}

impl Arguments {
    fn options(self) -> Result<Options, Error> {
        let mut assume = Assumptions::default();
        for name in self.assume {
            match name.as_str() {
                "right-padded" => assume.right_padded = true,
                "constant-initializers" => assume.constant_initializers = true,
                _ => {
                    let message = format!(
                        "there is no assumption {name:?}, expected \"right-padded\" or \
                         \"constant-initializers\""
                    );
                    return Err(Error(message));
                }
            }
        }
        Ok(Options {
            portable: self.portable,
            fast: self.fast,
            runtime: self.runtime,
            passes: self.passes,
            assume,
        })
    }
}

fn rewrite(model: &[u8], options: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let arguments: Arguments =
        serde_json::from_slice(options).map_err(|error| Error(format!("options: {error}")))?;
    let (model, report) = revseq_rewrite::rewrite_bytes(model, &arguments.options()?)
        .map_err(|error| Error(chain(&error)))?;
    Ok((model, json(&report)))
}

/// An error and its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn json(report: &Report) -> Vec<u8> {
    let json = serde_json::json!({
        "exactness": report.exactness(),
        "steps": report.steps,
        "removed_inputs": report.removed_inputs,
    });
    json.to_string().into_bytes()
}
