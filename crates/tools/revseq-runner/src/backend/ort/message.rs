//! ONNX Runtime's messages, without the places in its source.

use anyhow::{Error, anyhow};

use crate::model::Model;

/// The error as a user reads it, if it is one of ONNX Runtime's.
pub(super) fn readable(error: Error) -> Error {
    // An error with a context is readable already.
    if error.chain().len() > 1 {
        return error;
    }
    match error.downcast::<ort::Error>() {
        Ok(error) => anyhow!(innermost(&without_places(error.message())).to_owned()),
        Err(error) => error,
    }
}

/// The provider's own words where it keeps a session from being made, of which ONNX Runtime makes another error.
fn innermost(text: &str) -> &str {
    let status = text.strip_prefix("Exception during initialization: [ONNXRuntimeError] : ");
    let message = status.and_then(|status| status.splitn(3, " : ").nth(2));
    message.unwrap_or(text)
}

/// Removes each file and line, with the signature of the function that follows.
fn without_places(text: &str) -> String {
    let mut kept = Vec::new();
    let mut rest = text.trim();
    while let Some((place, end)) = place(rest) {
        kept.push(rest[..place].trim());
        rest = rest[end..].trim_start();
        if let Some(end) = signature(rest) {
            rest = rest[end..].trim_start();
        }
    }
    kept.push(rest);
    kept.retain(|part| !part.is_empty());
    kept.join(" ")
}

/// Finds a word such as `/core/reverse_sequence.h:20`; returns its start and end in bytes.
fn place(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for word in text.split_inclusive(' ') {
        let (start, end) = (at, at + word.trim_end().len());
        at += word.len();
        let Some((file, line)) = text[start..end].rsplit_once(':') else {
            continue;
        };
        let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        if is_line && [".h", ".cc", ".cpp"].iter().any(|it| file.ends_with(it)) {
            return Some((start, end));
        }
    }
    None
}

/// The end of the C++ function that a text starts with, if it does.
fn signature(text: &str) -> Option<usize> {
    let open = text.find('(')?;
    let name = text[..open].rsplit(' ').next()?;
    if !name.contains("::") {
        return None;
    }
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let end = at + 1;
            let after = text[end..]
                .strip_prefix(" const")
                .map_or(end, |rest| text.len() - rest.len());
            return Some(after);
        }
    }
    None
}

/// The first opset of ONNX that ONNX Runtime has all operators of.
const FIRST_OPSET: i64 = 7;

/// The version of a model that ONNX Runtime does not support, if an error is about
/// that (onnxruntime/core/graph/model.cc) and the model confirms it.
pub(super) fn refusal(model: &Model, error: &str) -> Option<String> {
    let number = |start: &str| -> Option<i64> {
        let (_, rest) = error.split_once(start)?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    let opset = model
        .proto
        .opset_import
        .iter()
        .find(|import| import.domain().is_empty())
        .map_or(0, |import| import.version());
    if let Some(highest) = number("Current official support for domain ai.onnx is till opset ")
        && opset > highest
    {
        return Some(format!("opset {opset} of ONNX, it takes {highest} at most"));
    }
    if opset < FIRST_OPSET && error.contains("Could not find an implementation") {
        return Some(format!(
            "opset {opset} of ONNX, it takes {FIRST_OPSET} at least: convert the model"
        ));
    }
    let ir_version = model.proto.ir_version.unwrap_or_default();
    if let Some(highest) = number("max supported IR version: ")
        && ir_version > highest
    {
        return Some(format!(
            "IR version {ir_version}, it takes {highest} at most"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_error_within_an_error_is_what_is_shown() {
        for (text, expected) in [
            (
                "Exception during initialization: [ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : option : a",
                "option : a",
            ),
            ("a : b : c", "a : b : c"),
            (
                "of Loop: [ONNXRuntimeError] : 1 : FAIL : a",
                "of Loop: [ONNXRuntimeError] : 1 : FAIL : a",
            ),
        ] {
            assert_eq!(super::innermost(text), expected);
        }
    }

    #[test]
    fn places_in_the_source_are_removed() {
        for (text, expected) in [
            ("No such file.", "No such file."),
            (
                "Exception during initialization: /onnxruntime_src/core/cpu/reverse_sequence.h:20 \
                 onnxruntime::ReverseSequenceOp::ReverseSequenceOp(const onnxruntime::OpKernelInfo&) \
                 batch_axis < 2 was false. Invalid batch_axis of 3. Must be 0 or 1\n",
                "Exception during initialization: batch_axis < 2 was false. Invalid batch_axis of 3. \
                 Must be 0 or 1",
            ),
            (
                "Status Message: /a/loop.cc:9 virtual common::Status onnxruntime::Loop::Compute(\
                 onnxruntime::OpKernelContext*, std::function<void(int)>) const it (the loop) ends",
                "Status Message: it (the loop) ends",
            ),
            ("a.cc:7 plain(text) b.h:8 c", "plain(text) c"),
            ("ä.cc:7 x::y(unfinished", "x::y(unfinished"),
            ("model.onnx:7 is 12:30", "model.onnx:7 is 12:30"),
        ] {
            assert_eq!(super::without_places(text), expected);
        }
    }
}
