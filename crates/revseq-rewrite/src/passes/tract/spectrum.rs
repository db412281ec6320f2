//! Spectra in the forms that tract has: a DFT of as many elements as its axis has, and an STFT of signals
//! with an axis for their real part.
//!
//! ```text
//! DFT(x, length)  →  DFT(Pad(x[0..length]))      STFT([batch, time])  →  STFT([batch, time, 1])
//! ```

use super::dft::{AXIS_AS_INPUT, LAST_BUT_ONE, SECOND};
use super::{known_size, others};
use crate::constant;
use crate::emit::Emit;
use crate::model::{self, Attribute, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;

pub(super) const LENGTH: Pass = Pass::exact(
    "dft-length",
    "A DFT of a length, to one of its whole axis, cut or padded before",
    find_length,
);

pub(super) const SIGNAL: Pass = Pass::exact(
    "stft-signal",
    "An STFT of signals without an axis for their parts, to one with it",
    find_signal,
);

fn find_length(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let (Some(data), Some(output)) = (node.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    let Some(length) = node.input(1).filter(|_| node.is("DFT")) else {
        return Verdict::Other;
    };
    let is = |name: &str| node.int(name).or(0) != Some(0);
    if is("inverse") && is("onesided") {
        return Verdict::Left("its length is that of what it takes half of".to_owned());
    }
    let (Some(rank), Some(axis)) = (sizes::rank(scope, data), axis(scope, node)) else {
        return Verdict::Left("its axis, or its input's axes, are not known".to_owned());
    };
    let Some(axis) = constant::normal_axis(axis, rank) else {
        return Verdict::Left(format!("its axis {axis} is not one of its input's {rank}"));
    };
    let mut emit = Emit::new(output, scope.opset, names);
    let known = constant::int(scope, length);
    let whole = if known.is_some() && known == known_size(scope, data, axis) {
        data.to_owned()
    } else {
        resized(&mut emit, data, length, [axis, rank])
    };
    let mut inputs = vec![whole.as_str()];
    if let Some(axis) = node.input(2) {
        inputs.extend(["", axis]);
    }
    emit.write(&[output], "DFT", &inputs, others(node, &[]));
    emit.finish("the same of its whole axis".to_owned())
}

/// The axis of a DFT, which is an input from opset 20 on.
fn axis(scope: &Scope<'_>, node: &NodeProto) -> Option<i64> {
    let Some(input) = node.input(2) else {
        let is_input = scope.opset >= AXIS_AS_INPUT;
        let default = if is_input { LAST_BUT_ONE } else { SECOND };
        return match node.int("axis") {
            Attribute::Absent => Some(default),
            Attribute::Value(axis) => Some(axis),
            Attribute::Reference => None,
        };
    };
    constant::int(scope, input)
}

/// Cuts an axis, or pads it with zeros behind, to a length.
fn resized(emit: &mut Emit<'_>, data: &str, length: &str, [axis, rank]: [usize; 2]) -> String {
    let one = emit.ints(&[1]);
    let zero = emit.ints(&[0]);
    let length = emit.plain("Reshape", &[length, &one]);
    let place = emit.ints(&[axis as i64]);
    let cut = emit.plain("Slice", &[data, &zero, &length, &place]);
    let shape = emit.plain("Shape", &[data]);
    let size = emit.range(&shape, 0, axis as i64, axis as i64 + 1);
    let missing = emit.plain("Sub", &[&length, &size]);
    let missing = emit.plain("Max", &[&missing, &zero]);
    let before = emit.ints(&vec![0; rank + axis]);
    let behind = emit.ints(&vec![0; rank - axis - 1]);
    let joined = vec![model::int("axis", 0)];
    let pads = emit.op("Concat", &[&before, &missing, &behind], joined);
    emit.plain("Pad", &[&cut, &pads])
}

fn find_signal(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let (Some(signal), Some(output)) = (node.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    if !node.is("STFT") || sizes::rank(scope, signal) != Some(2) {
        return Verdict::Other;
    }
    let mut emit = Emit::new(output, scope.opset, names);
    let signal = emit.unsqueeze(signal, &[2]);
    let mut inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
    inputs[0] = &signal;
    emit.write(&[output], "STFT", &inputs, others(node, &[]));
    emit.finish("the same of signals with an axis for their real part".to_owned())
}
