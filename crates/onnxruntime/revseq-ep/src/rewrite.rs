//! Rewriting a model before a session loads it, for hosts that are not written in Rust.
//!
//! [`RevSeqRewrite`] calls nothing of its host: an interpreter may end while a thread is in it.

use std::error::Error;
use std::path::PathBuf;

use revseq_onnx::{Error as OnnxError, decode, encode, external, external_files, file, memory};
use revseq_rewrite::{Assumptions, Options};
use serde::Deserialize;

use crate::answer::{Answer, Kind, bytes};
use crate::plugin::fence;

/// Rewrites an ONNX model.
///
/// `model` is the model or, if the options say so, the path of its file, in UTF-8 on Windows.
/// `options` is JSON: `{"is_path": false, "resolve_links": false, "fast": true, "portable": false,
/// "runtime": null, "passes": [], "assume": []}`, of which each may be missing. With
/// `resolve_links`, for a path, the report's `data_folder` is the folder where the model's data is
/// found if a link leads there. The result, to be passed to [`RevSeqFree`](crate::answer::RevSeqFree), is
/// the rewritten model and the report: JSON with `exactness`, `steps`, `removed_inputs`, `data_folder` and
/// `has_external_data`.
///
/// # Safety
/// `model` and `options` point to as many bytes as their sizes say.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn RevSeqRewrite(
    model: *const u8,
    model_size: usize,
    options: *const u8,
    options_size: usize,
) -> *mut Answer {
    // SAFETY: the caller's.
    let [model, options] = unsafe { [bytes(model, model_size), bytes(options, options_size)] };
    let rewritten = fence::catch(|| rewrite(model, options));
    let failed = |error: Failure| Answer::new(kind(&*error), Vec::new(), chain(&*error));
    Box::into_raw(rewritten.unwrap_or_else(failed))
}

/// An error of any kind.
type Failure = Box<dyn Error + Send + Sync>;

/// The kind of a result that is an error.
fn kind(error: &(dyn Error + 'static)) -> Kind {
    let of_model = match error.downcast_ref() {
        Some(revseq_rewrite::Error::Model(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    match of_model {
        Some(OnnxError::OutOfMemory { .. }) => Kind::OutOfMemory,
        _ => Kind::Error,
    }
}

/// An error and its causes, on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Arguments {
    is_path: bool,
    resolve_links: bool,
    fast: bool,
    portable: bool,
    runtime: Option<String>,
    passes: Vec<String>,
    assume: Vec<String>,
    takes_empty: bool,
}

impl Arguments {
    fn options(self) -> Result<Options, Failure> {
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
                    return Err(message.into());
                }
            }
        }
        Ok(Options {
            portable: self.portable,
            fast: self.fast,
            runtime: self.runtime,
            passes: self.passes,
            assume,
            masked_layers: false,
            takes_empty: self.takes_empty,
        })
    }
}

fn rewrite(input: &[u8], options: &[u8]) -> Result<Box<Answer>, Failure> {
    let arguments: Arguments =
        serde_json::from_slice(options).map_err(|error| format!("options: {error}"))?;
    let path = arguments.is_path.then(|| path(input)).transpose()?;
    let (mut model, size) = match &path {
        Some(path) => {
            let bytes = file::read_model(path)?;
            (decode(&bytes)?, bytes.len())
        }
        None => (decode(input)?, input.len()),
    };
    let data_folder = match &path {
        Some(path) if arguments.resolve_links => external::resolve_links(&mut model, path)?,
        _ => None,
    };
    let data_folder = data_folder.map(text).transpose()?;
    // Layers get copies of the weights of their loops, which then go.
    memory::check(size)?;
    let report = revseq_rewrite::rewrite_messages(&mut model, &arguments.options()?)?;
    let text = serde_json::json!({
        "exactness": report.exactness(),
        "steps": report.steps,
        "removed_inputs": report.removed_inputs,
        "data_folder": data_folder,
        "has_external_data": !external_files(&model).is_empty(),
    });
    let model = encode(&model)?;
    Ok(Answer::new(Kind::Done, model, text.to_string()))
}

/// The path that the host gives.
#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it may be no path")]
fn path(bytes: &[u8]) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;

    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

/// The path that the host gives.
#[cfg(not(unix))]
fn path(bytes: &[u8]) -> Result<PathBuf, Failure> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| format!("its path: {error}"))?;
    Ok(PathBuf::from(text))
}

/// A path as text, which JSON can hold.
fn text(path: PathBuf) -> Result<String, Failure> {
    let text = path.into_os_string().into_string();
    let text = text.map_err(|path| format!("the folder {} is not in UTF-8", path.display()))?;
    // Windows' own form of long paths, which not all programs take.
    Ok(match text.strip_prefix(r"\\?\") {
        Some(rest) if !rest.starts_with("UNC") => rest.to_owned(),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::read;

    /// The kind of a result, its model and its text.
    fn rewritten(model: &[u8], options: &str) -> (u32, Vec<u8>, String) {
        let options = options.as_bytes();
        // SAFETY: both are slices, and the answer is read once.
        unsafe {
            read(RevSeqRewrite(
                model.as_ptr(),
                model.len(),
                options.as_ptr(),
                options.len(),
            ))
        }
    }

    #[test]
    fn a_model_comes_back_until_it_is_freed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/shapes");
        let path = format!("{folder}/rank3_batch0_time2/model.onnx");
        let bytes = std::fs::read(&path).unwrap();
        let by_bytes = rewritten(&bytes, r#"{"portable": true}"#);
        let by_path = rewritten(path.as_bytes(), r#"{"portable": true, "is_path": true}"#);
        assert_eq!(by_bytes, by_path);
        assert_eq!(by_bytes.0, 0);
        assert!(decode(&by_bytes.1).is_ok());
        assert!(
            by_bytes.2.contains(r#""result":"rewritten""#),
            "{}",
            by_bytes.2
        );
    }

    #[test]
    fn an_error_is_a_text() {
        let error = |model: &[u8], options| match rewritten(model, options) {
            (1, model, text) if model.is_empty() => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(b"", "{}"), "it is not an ONNX model: it is empty");
        assert!(error(b"", "{").starts_with("options: "));
        let message = error(b"/nowhere/model.onnx", r#"{"is_path": true}"#);
        assert!(
            message.contains("No such file") || message.contains("cannot find"),
            "{message}"
        );
    }

    #[test]
    fn a_lack_of_memory_has_a_kind_of_its_own() {
        let error = || OnnxError::OutOfMemory { bytes: 5 };
        let of_pass = revseq_rewrite::Error::from(error());
        for error in [Failure::from(error()), of_pass.into()] {
            assert!(matches!(kind(&*error), Kind::OutOfMemory), "{error}");
            assert_eq!(chain(&*error), "not enough memory for 5 bytes");
        }
    }
}
