//! A recurrent layer that runs backwards, to one that runs forwards over the reversed input, for
//! runtimes such as plain tract that ignore the direction of a single layer.
//!
//! It undoes what `direction` does, which therefore does not run beside it. Final states need no
//! reversal: the layer has seen the same steps in the same order.
//!
//! ```text
//! LSTM(x, reverse)  →  Flip(LSTM(Flip(x, axis 0)), axis 0)
//! ```

use super::reversal::Reversal;
use super::{remove_attribute, write_turned};
use crate::pass::{At, LAYERS, Other, Pass, Verdict};

pub(super) const PASS: Pass = Pass::rounding(
    "forward",
    "LSTM, GRU and RNN with direction = reverse, to forward ones over reversed input",
    find,
)
.of(LAYERS);

fn find(at: &At<'_>) -> Verdict {
    let node = at.node;
    let input = at.input(0)?;
    let output = node.outputs().next().ok_or(Other)?;
    if node.text("direction").or("forward") != Some("reverse") {
        return Err(Other);
    }
    if node.input(4).is_some() {
        return Err("it has lengths of its own (sequence_lens)".into());
    }
    let axis = match node.int("layout").or(0) {
        Some(0) => 0,
        Some(1) => 1,
        _ => return Err("the order of its axes is not known (layout)".into()),
    };
    let reversal = Reversal::Flip { axis };
    let emit = at.emit(output);
    let mut turned = node.clone();
    turned.input[0] = reversal.write(&emit, input);
    remove_attribute(&mut turned, "direction");
    write_turned(at, &emit, turned, |all| reversal.write(&emit, all));
    emit.finish(format!("{}, forward, over the reversed input", node.op()))
}
