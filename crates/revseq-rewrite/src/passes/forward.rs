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
use crate::emit::Emit;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass::rounding(
    "forward",
    "LSTM, GRU and RNN with direction = reverse, to forward ones over reversed input",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !["LSTM", "GRU", "RNN"].iter().any(|op| node.is(op))
        || node.text("direction").or("forward") != Some("reverse")
    {
        return Verdict::Other;
    }
    let (Some(input), Some(output)) = (node.input(0), node.outputs().next()) else {
        return Verdict::Other;
    };
    if node.input(4).is_some() {
        return Verdict::Left("it has lengths of its own (sequence_lens)".to_owned());
    }
    let axis = match node.int("layout").or(0) {
        Some(0) => 0,
        Some(1) => 1,
        _ => return Verdict::Left("the order of its axes is not known (layout)".to_owned()),
    };
    let reversal = Reversal::Flip { axis };
    let mut emit = Emit::new(output, scope.opset, names);
    let mut turned = node.clone();
    turned.input[0] = emit.name("reversed");
    reversal.write(&mut emit, &turned.input[0], input);
    turned
        .attribute
        .retain(|attribute| attribute.name.as_deref() != Some("direction"));
    match node.output.first().filter(|y| scope.uses(y) > 0) {
        Some(y) => {
            turned.output[0] = emit.name("backwards");
            let backwards = turned.output[0].clone();
            emit.copy(turned);
            reversal.write(&mut emit, y, &backwards);
        }
        None => emit.copy(turned),
    }
    emit.finish(format!("{}, forward, over the reversed input", node.op()))
}
