//! Two reversals that undo each other, around operators that commute with them.
//!
//! The walk goes back from the second reversal through operators with one reader each, and takes
//! the reversal along to the input of each. It ends at a reversal that is equal to what it carries
//! by then.
//!
//! ```text
//! Flip(Squeeze(Relu(Flip(x, axis 0)), axis 1), axis 0)  →  Squeeze(Relu(x), axis 1)
//! ```

use super::reversal::Reversal;
use crate::model::NodeProto;
use crate::pass::{At, Left, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::exact(
    "cancel",
    "Two reversals that undo each other, to nothing",
    find,
)
.fast();

/// The most operators between the two.
const MAXIMUM_BETWEEN: usize = 16;

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let reversal = Reversal::of(scope, node).ok_or(Other)?;
    let (data, between) = pattern(scope, node, reversal)?;
    let emit = at.replacement()?;
    if between.is_empty() {
        return emit.finish_with(data.to_owned(), "nothing: it undoes the reversal before it");
    }
    let mut value = data.to_owned();
    for node in between.iter().rev() {
        let mut copy = (*node).clone();
        copy.input[0] = std::mem::replace(&mut value, emit.name(node.op()));
        copy.output[0].clone_from(&value);
        copy.name = Some(emit.name(&format!("{}/node", node.op())));
        emit.copy(copy);
    }
    let count = between.len();
    let what = format!("nothing, with the reversal before {count} operators");
    emit.finish_with(value, what)
}

/// The data of the first of two reversals that undo each other, and the operators between them, last
/// one first.
fn pattern<'a>(
    scope: &'a Scope<'a>,
    last: &'a NodeProto,
    mut reversal: Reversal<'a>,
) -> Result<(&'a str, Vec<&'a NodeProto>), Left> {
    let mut between = Vec::new();
    let mut value = last.input(0).ok_or(Other)?;
    loop {
        let (inner, node, output) = scope.producer(value).ok_or(Other)?;
        if !inner.is(scope) || output != 0 {
            return Err(Other);
        }
        let data = node.input(0).ok_or(Other)?;
        if let Some(first) = Reversal::of(scope, node) {
            if !first.is_same(scope, &reversal) {
                return Err(format!("the reversal before it is another one: {first}").into());
            }
            return Ok((data, between));
        }
        // Another reader expects the value reversed. The first reversal may have some: it stays.
        if scope.uses(value) != 1 || between.len() == MAXIMUM_BETWEEN {
            return Err(Other);
        }
        reversal = reversal.before(scope, node).ok_or(Other)?;
        between.push(node);
        value = data;
    }
}
