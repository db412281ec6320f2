//! A reversal between two inverse Transposes, to a reversal of other axes.
//!
//! The reversal may have no other reader. The first Transpose may, and then stays for them.
//!
//! ```text
//! Transpose(ReverseSequence(Transpose(x, [1, 0, 2]), time 0, batch 1), [1, 0, 2])
//!   → ReverseSequence(x, time 1, batch 0)
//! ```

use super::reversal::Reversal;
use crate::model::NodeProto;
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::exact(
    "transpose",
    "A reversal between two transposes that undo each other, to one of other axes",
    find,
)
.of(&["Transpose"])
.fast();

fn find(at: &At<'_>) -> Verdict {
    let &At {
        scope, node: last, ..
    } = at;
    let (first, reversal) = pattern(scope, last).ok_or(Other)?;
    if !is_inverse(first, last) {
        return Err("the transposes around the reversal do not undo each other".into());
    }
    let moved = reversal.before(scope, first).ok_or(Other)?;
    let options = at.context.options;
    if let Reversal::Sequence { time, batch, .. } = moved
        && (time > 1 || batch > 1)
        && !options.portable
        && !options.passes.iter().any(|name| name == PASS.info.name)
    {
        return Err(format!(
            "ReverseSequence would have time axis {time} and batch axis {batch}, of which ONNX \
             allows only 0 and 1; runtimes that take any run it with --pass transpose"
        )
        .into());
    }
    let emit = at.replacement()?;
    let reversed = moved.write(&emit, first.input(0).ok_or(Other)?);
    emit.finish_with(reversed, format!("{moved}, without the transposes"))
}

/// The first Transpose and the reversal before a Transpose, if there are any and nothing else reads
/// the reversal.
fn pattern<'a>(scope: &'a Scope<'a>, last: &NodeProto) -> Option<(&'a NodeProto, Reversal<'a>)> {
    let reversed = last.input(0)?;
    // For another reader the reversal would stay, beside a second one.
    if scope.uses(reversed) != 1 {
        return None;
    }
    let (_, node, _) = scope.producer(reversed).filter(|it| it.0.is(scope))?;
    let reversal = Reversal::of(scope, node)?;
    let first = scope.first_output_of(node.input(0)?, "Transpose")?;
    Some((first, reversal))
}

fn is_inverse(first: &NodeProto, last: &NodeProto) -> bool {
    let perms = || Some((first.ints("perm").value()?, last.ints("perm").value()?));
    perms().is_some_and(|(first, last)| {
        first.len() == last.len()
            && last.iter().enumerate().all(|(axis, &from)| {
                usize::try_from(from).is_ok_and(|from| first.get(from) == Some(&(axis as i64)))
            })
    })
}

impl std::fmt::Display for Reversal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flip { axis } => write!(f, "Slice of axis {axis} with a step of -1"),
            Self::Sequence { time, batch, .. } => {
                write!(f, "ReverseSequence of time axis {time}, batch axis {batch}")
            }
        }
    }
}
