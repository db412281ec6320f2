//! Spectra in the forms that tract has: a DFT of as many elements as its axis has, and an STFT of signals
//! with an axis for their real part.
//!
//! ```text
//! DFT(x, length)  →  DFT(Pad(x[0..length]))      STFT([batch, time])  →  STFT([batch, time, 1])
//! ```

use super::dft::{AXIS_AS_INPUT, LAST_BUT_ONE, SECOND};
use crate::constant;
use crate::emit::Emit;
use crate::pass::{At, Other, Pass, Verdict};
use crate::passes::known_size;
use crate::sizes;

pub(super) const LENGTH: Pass = Pass::exact(
    "dft-length",
    "A DFT of a length, to one of its whole axis, cut or padded before",
    find_length,
)
.of(&["DFT"]);

pub(super) const SIGNAL: Pass = Pass::exact(
    "stft-signal",
    "An STFT of signals without an axis for their parts, to one with it",
    find_signal,
)
.of(&["STFT"]);

fn find_length(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let (data, length, emit) = (at.input(0)?, at.input(1)?, at.replacement()?);
    let is = |name: &str| node.int(name).or(0) != Some(0);
    if is("inverse") && is("onesided") {
        return Err("its length is that of what it takes half of".into());
    }
    // The axis is an input from opset 20 on.
    let axis = match node.input(2) {
        Some(axis) => constant::int(scope, axis),
        None if scope.opset >= AXIS_AS_INPUT => node.int("axis").or(LAST_BUT_ONE),
        None => node.int("axis").or(SECOND),
    };
    let (Some(rank), Some(axis)) = (sizes::rank(scope, data), axis) else {
        return Err("its axis, or its input's axes, are not known".into());
    };
    let axis = constant::normal_axis(axis, rank)
        .ok_or_else(|| format!("its axis {axis} is not one of its input's {rank}"))?;
    let known = constant::int(scope, length);
    let whole = if known.is_some() && known == known_size(scope, data, axis) {
        data.to_owned()
    } else {
        resized(&emit, data, length, [axis, rank])
    };
    let mut inputs = vec![whole.as_str()];
    if let Some(axis) = node.input(2) {
        inputs.extend(["", axis]);
    }
    let transformed = emit.one_again(node, inputs, Vec::new());
    emit.finish_with(transformed, "the same of its whole axis")
}

/// Cuts an axis, or pads it with zeros behind, to a length.
fn resized(emit: &Emit<'_>, data: &str, length: &str, [axis, rank]: [usize; 2]) -> String {
    let place = axis as i64;
    let length = emit.op("Reshape", (length, [1]));
    let cut = emit.op("Slice", (data, [0], &length, [place]));
    let missing = emit.op("Sub", (length, emit.sizes(data, place, place + 1)));
    let missing = emit.op("Max", (missing, [0]));
    let [before, behind] = [rank + axis, rank - axis - 1].map(|count| vec![0; count]);
    let pads = emit.concat((&*before, missing, &*behind), 0);
    emit.op("Pad", (cut, pads))
}

fn find_signal(at: &At<'_>) -> Verdict {
    let (signal, emit) = (at.input(0)?, at.replacement()?);
    if sizes::rank(at.scope, signal) != Some(2) {
        return Err(Other);
    }
    let mut inputs = at.node.input.clone();
    inputs[0] = emit.unsqueeze(signal, &[2]);
    let transformed = emit.one_again(at.node, inputs, Vec::new());
    let what = "the same of signals with an axis for their real part";
    emit.finish_with(transformed, what)
}
