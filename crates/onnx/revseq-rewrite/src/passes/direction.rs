//! A recurrent layer over a reversed input, to one that runs backwards.
//!
//! The reversal has to cover all that the layer reads: the whole axis of a layer without lengths,
//! or the layer's own lengths. Its output is reversed again; `cancel` removes that together with a
//! following reversal. Final states need none: the layer has seen the same steps in the same order.
//!
//! ```text
//! LSTM(Flip(x, axis 0))  →  Flip(LSTM(x, reverse), axis 0)
//! ```

use super::reversal::Reversal;
use super::{remove_attribute, write_turned};
use crate::model::{self, NodeProto};
use crate::pass::{At, LAYERS, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::rounding(
    "direction",
    "LSTM, GRU and RNN over reversed input, to ones with direction = reverse",
    find,
)
.of(LAYERS)
.fast();

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let input = at.input(0)?;
    let (inner, source, 0) = scope.producer(input).ok_or(Other)? else {
        return Err(Other);
    };
    let reversal = Reversal::of(inner, source).ok_or(Other)?;
    let data = source.input(0).ok_or(Other)?;
    if !source.inputs().all(|input| scope.sees(inner, input)) {
        return Err("an inner value has the name of an input of the reversal".into());
    }
    if node.text("direction").or("forward") != Some("forward")
        || node.int("layout").or(0) != Some(0)
    {
        return Err("only forward layers with the time first are turned".into());
    }
    is_whole(scope, node, &reversal)?;
    let emit = at.replacement()?;
    let mut turned = node.clone();
    turned.input[0] = data.to_owned();
    remove_attribute(&mut turned, "direction");
    turned.attribute.push(model::text("direction", "reverse"));
    write_turned(at, &emit, turned, |all| match &reversal {
        Reversal::Flip { .. } => reversal.write(&emit, all),
        // ONNX allows ReverseSequence only on axes 0 and 1.
        Reversal::Sequence { .. } => {
            let steps = emit.squeeze(all, &[1]);
            emit.unsqueeze(&reversal.write(&emit, &steps), &[1])
        }
    });
    emit.finish(format!("{} with direction = reverse", node.op()))
}

/// Checks that the reversal covers all that the layer reads.
fn is_whole(scope: &Scope<'_>, node: &NodeProto, reversal: &Reversal<'_>) -> Result<(), String> {
    let is_same = |lengths, own| {
        let [lengths, own] = [lengths, own].map(|name| without_casts(scope, name));
        scope.is_same(lengths, scope, own)
    };
    let why = match (reversal, node.input(4)) {
        (Reversal::Flip { axis: 0 }, None) => return Ok(()),
        (Reversal::Flip { axis: 0 }, Some(_)) => {
            "its input is flipped as a whole, but it has lengths of its own (sequence_lens)"
        }
        (
            &Reversal::Sequence {
                time: 0,
                batch: 1,
                lengths,
            },
            own,
        ) => {
            if own.is_some_and(|own| is_same(lengths, own)) {
                return Ok(());
            }
            "its input is reversed by lengths that are not provably its own (sequence_lens)"
        }
        _ => "its input is reversed along another axis than time",
    };
    Err(why.to_owned())
}

/// The lengths before casts to int32 or int64.
fn without_casts<'a>(scope: &'a Scope<'a>, name: &'a str) -> &'a str {
    let mut name = name;
    while let Some(node) = scope.first_output_of(name, "Cast")
        && matches!(node.int("to").value(), Some(6 | 7))
        && let Some(input) = node.input(0)
    {
        name = input;
    }
    name
}
