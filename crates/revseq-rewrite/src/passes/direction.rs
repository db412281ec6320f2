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
use crate::emit::Emit;
use crate::model::{self, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass::rounding(
    "direction",
    "LSTM, GRU and RNN over reversed input, to ones with direction = reverse",
    find,
)
.fast();

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !["LSTM", "GRU", "RNN"].iter().any(|op| node.is(op)) {
        return Verdict::Other;
    }
    let reversed = node.input(0).and_then(|input| scope.producer(input));
    let Some((inner, source, 0)) = reversed else {
        return Verdict::Other;
    };
    let Some(reversal) = Reversal::of(inner, source) else {
        return Verdict::Other;
    };
    let (Some(data), Some(y)) = (source.input(0), node.output.first()) else {
        return Verdict::Other;
    };
    if !source.inputs().all(|input| scope.sees(inner, input)) {
        return Verdict::Left("an inner value has the name of an input of the reversal".to_owned());
    }
    if node.text("direction").or("forward") != Some("forward")
        || node.int("layout").or(0) != Some(0)
    {
        return Verdict::Left("only forward layers with the time first are turned".to_owned());
    }
    if let Err(why) = is_whole(scope, node, &reversal) {
        return Verdict::Left(why);
    }
    let mut emit = Emit::new(y, scope.opset, names);
    let mut turned = node.clone();
    turned.input[0] = data.to_owned();
    turned
        .attribute
        .retain(|attribute| attribute.name.as_deref() != Some("direction"));
    turned.attribute.push(model::text("direction", "reverse"));
    if scope.uses(y) > 0 {
        turned.output[0] = emit.name("backwards");
        let backwards = turned.output[0].clone();
        emit.copy(turned);
        match &reversal {
            Reversal::Flip { .. } => reversal.write(&mut emit, y, &backwards),
            // ONNX allows ReverseSequence only on axes 0 and 1.
            Reversal::Sequence { .. } => {
                let steps = emit.squeeze(&backwards, &[1]);
                let forwards = emit.name("forwards");
                reversal.write(&mut emit, &forwards, &steps);
                emit.unsqueeze_into(y, &forwards, &[1]);
            }
        }
    } else {
        emit.copy(turned);
    }
    emit.finish(format!("{} with direction = reverse", node.op()))
}

/// Checks that the reversal covers all that the layer reads.
fn is_whole(scope: &Scope<'_>, node: &NodeProto, reversal: &Reversal<'_>) -> Result<(), String> {
    match (reversal, node.input(4)) {
        (Reversal::Flip { axis: 0 }, None) => Ok(()),
        (Reversal::Flip { axis: 0 }, Some(_)) => Err(
            "its input is flipped as a whole, but it has lengths of its own (sequence_lens)"
                .to_owned(),
        ),
        (
            Reversal::Sequence {
                time: 0,
                batch: 1,
                lengths,
            },
            Some(own),
        ) if scope.is_same(
            without_casts(scope, lengths),
            scope,
            without_casts(scope, own),
        ) =>
        {
            Ok(())
        }
        (
            Reversal::Sequence {
                time: 0, batch: 1, ..
            },
            _,
        ) => Err(
            "its input is reversed by lengths that are not provably its own (sequence_lens)"
                .to_owned(),
        ),
        _ => Err("its input is reversed along another axis than time".to_owned()),
    }
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
