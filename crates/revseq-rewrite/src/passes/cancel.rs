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
use crate::emit::Emit;
use crate::model::NodeProto;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass::exact(
    "cancel",
    "Two reversals that undo each other, to nothing",
    find,
)
.fast();

/// The most operators between the two.
const MAXIMUM_BETWEEN: usize = 16;

fn find(scope: &Scope<'_>, index: usize, _: &Context<'_>, names: &mut Names) -> Verdict {
    let last = &scope.nodes[index];
    let (Some(reversal), Some(output)) = (Reversal::of(scope, last), last.output.first()) else {
        return Verdict::Other;
    };
    match pattern(scope, last, reversal) {
        Ok((data, between)) => {
            let mut emit = Emit::new(output, scope.opset, names);
            if between.is_empty() {
                emit.same(output, data);
                return emit.finish("nothing: it undoes the reversal before it".to_owned());
            }
            let mut value = data.to_owned();
            for (number, node) in between.iter().rev().enumerate() {
                let mut copy = (*node).clone();
                let is_last = number + 1 == between.len();
                let result = if is_last {
                    output.clone()
                } else {
                    emit.name(node.op())
                };
                copy.input[0] = value;
                copy.output[0].clone_from(&result);
                copy.name = Some(emit.name(&format!("{}/node", node.op())));
                emit.copy(copy);
                value = result;
            }
            emit.finish(format!(
                "nothing, with the reversal before {} operators",
                between.len()
            ))
        }
        Err(Some(why)) => Verdict::Left(why),
        Err(None) => Verdict::Other,
    }
}

/// The data of the first of two reversals, and the operators between them, last one first.
/// `Err(Some(_))` says why two reversals do not undo each other; `Err(None)` means there are no
/// two.
fn pattern<'a>(
    scope: &'a Scope<'a>,
    last: &'a NodeProto,
    mut reversal: Reversal<'a>,
) -> Result<(&'a str, Vec<&'a NodeProto>), Option<String>> {
    let mut between = Vec::new();
    let mut value = last.input(0).ok_or(None)?;
    loop {
        let (inner, node, output) = scope.producer(value).ok_or(None)?;
        if !std::ptr::eq(inner, scope) || output != 0 {
            return Err(None);
        }
        if let Some(first) = Reversal::of(scope, node) {
            let same = match (&first, &reversal) {
                (
                    Reversal::Sequence {
                        time,
                        batch,
                        lengths,
                    },
                    Reversal::Sequence {
                        time: last_time,
                        batch: last_batch,
                        lengths: last_lengths,
                    },
                ) => {
                    time == last_time
                        && batch == last_batch
                        && scope.is_same(lengths, scope, last_lengths)
                }
                (first, last) => first == last,
            };
            if !same {
                return Err(Some(format!(
                    "the reversal before it is another one: {first}"
                )));
            }
            return Ok((node.input(0).ok_or(None)?, between));
        }
        // Another reader expects the value reversed. The first reversal may have some: it stays.
        if scope.uses(value) != 1 || between.len() == MAXIMUM_BETWEEN {
            return Err(None);
        }
        reversal = reversal.before(scope, node).ok_or(None)?;
        between.push(node);
        value = node.input(0).ok_or(None)?;
    }
}
