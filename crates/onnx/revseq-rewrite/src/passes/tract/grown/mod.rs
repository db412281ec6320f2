//! A list among a loop's states, to a scan output or to tensors.
//!
//! One of as many tensors in all iterations is as many states.
//! A list to which each iteration adds one tensor of a fixed shape is a scan output. One that
//! iterations read, too, is a state that holds its tensors stacked. One of tensors of many sizes that
//! are joined along that axis is a state that holds them joined. One to which only some iterations add
//! is a scan output, too, of which these are kept. One to which graphs within the body add is a state that holds
//! its tensors joined, if they are. The list itself becomes the parts of
//! the result, whose reads the pass `list` replaces.

mod body;
mod conditional;
mod fixed;
mod joined;
mod reads;
mod write;

use crate::model::{BEFORE_STATES, NodeProto};
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;
use crate::sizes::{self, LoopBody, Size};

use super::list;
use body::List;
use reads::ListReads;
use write::Write;

pub(crate) const PASS: Pass = Pass::exact(
    "appended-list",
    "A list that a Loop adds to, to a scan output or a tensor",
    find,
)
.of(&["Loop"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    // If inputs break their declaration, stacking different tensors fails.
    scope.prove_more();
    let mut left = Err(Other);
    for state in 0..node.input.len().saturating_sub(BEFORE_STATES) {
        let initial = node.input(BEFORE_STATES + state);
        let Some(initial) = initial.and_then(|initial| list::segments(scope, initial)) else {
            continue;
        };
        if let Some(edit) = fixed::replaced(at, state, &initial) {
            return edit;
        }
        let written = conditional::replaced(at, state, &initial).or_else(|| {
            let body = LoopBody::of(scope, node)?;
            let list = List::of(&body.scope, state, initial.clone());
            Some(list.and_then(|list| replaced(at, &list)))
        });
        match written {
            Some(Ok(edit)) => return edit,
            Some(Err(why)) => {
                if let Some(edit) = joined::replaced(at, state, &initial) {
                    return edit;
                }
                left = Err(format!("{why}: tract has no sequences").into());
            }
            None => {}
        }
    }
    left
}

/// The Loop without a list among its states.
fn replaced<'a>(at: &At<'a>, list: &List<'a>) -> Result<Verdict, String> {
    let &At { scope, node, .. } = at;
    let body = body_with_elements(scope, node, list).ok_or("its body is missing")?;
    let result = node.output.get(list.state).map_or("", String::as_str);
    let reads = ListReads::of(scope, result)?;
    let emit = at.emit(if result.is_empty() { list.old } else { result });
    let write = Write::new(&emit, scope, node, list)?;
    if list.is_read_anywhere() {
        let sizes = common_sizes(scope, &body, list).ok_or_else(|| unequal(list))?;
        write.carry(&sizes, result)?;
        return Ok(emit.finish("the same with a list that it reads as a tensor"));
    }
    let sizes = sizes_of(&body, list.added_alone()?.tensor);
    let joined = sizes.as_deref().and_then(|sizes| reads.ragged_axis(sizes));
    if let (Some(axis), Some(sizes)) = (joined, &sizes) {
        write.join(sizes, axis, &reads)?;
        return Ok(emit.finish("the same with a list that is joined as a tensor"));
    }
    let is_counted = is_only_counted(scope, list, sizes.as_deref(), &reads)?;
    write.scan(result, is_counted)?;
    Ok(emit.finish("the same with a list that it adds to as a scan output"))
}

fn unequal(list: &List<'_>) -> String {
    let values: Vec<&str> = list.added.iter().map(|added| added.tensor).collect();
    format!(
        "the tensors {} that it adds to a sequence are not provably of one shape",
        values.join(", ")
    )
}

/// Whether a scan output in place of the list holds anything of each tensor's number; an error if
/// the tensors would have to have one shape and do not provably.
fn is_only_counted(
    scope: &Scope<'_>,
    list: &List<'_>,
    sizes: Option<&[Option<Size<'_>>]>,
    reads: &ListReads<'_>,
) -> Result<bool, String> {
    let are_fixed = sizes.is_some_and(|sizes| sizes.iter().all(Option::is_some));
    let is_fixed =
        |axis: usize| sizes.is_some_and(|sizes| sizes.get(axis).is_some_and(Option::is_some));
    if !list.initial.is_empty() && !reads.are_new_axes() {
        let mut all = list.initial.iter().map(|segment| segment.sizes(scope));
        let fixed = sizes.and_then(|sizes| sizes.iter().copied().collect::<Option<Vec<_>>>());
        let is_one = fixed.is_some() && all.all(|sizes| sizes == fixed);
        return is_one.then_some(false).ok_or_else(|| unequal(list));
    }
    let fits = match reads.axes(sizes.map(<[_]>::len)) {
        _ if are_fixed || reads.are_new_axes() => true,
        Some(axes) => !axes.is_empty() && axes.into_iter().all(is_fixed),
        None => false,
    };
    (fits || reads.are_lengths())
        .then_some(!fits)
        .ok_or_else(|| unequal(list))
}

/// The sizes of a value of a Loop's body; `None` for those that are not provably the same in all
/// iterations.
fn sizes_of<'s>(body: &'s LoopBody<'_>, value: &'s str) -> Option<Vec<Option<Size<'s>>>> {
    let rank = sizes::rank(&body.scope, value)?;
    Some((0..rank).map(|axis| body.fixed_axis(value, axis)).collect())
}

/// A Loop's body in which reads of a list have the sizes of the tensors that it begins with, which
/// holds if they follow for those that the body adds.
fn body_with_elements<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    list: &List<'_>,
) -> Option<LoopBody<'a>> {
    let begins = list.initial.first().and_then(|it| it.sizes(scope));
    LoopBody::assuming(scope, node, |inner| {
        let reads = inner.nodes.iter().filter(|it| it.is("SequenceAt"));
        for read in reads.filter(|it| it.input(0).is_some_and(|it| list.is_name(it))) {
            let (Some(output), Some(sizes)) = (read.output.first(), &begins) else {
                continue;
            };
            inner.assume_rank(output, sizes.len());
            for (axis, &size) in sizes.iter().enumerate() {
                size.assume(inner, output, axis);
            }
        }
    })
}

/// The sizes that all tensors of a list have, if they provably do.
fn common_sizes<'s>(
    scope: &'s Scope<'s>,
    body: &'s LoopBody<'s>,
    list: &List<'s>,
) -> Option<Vec<Size<'s>>> {
    let begins = list.initial.iter().map(|segment| segment.sizes(scope));
    let added = list.added.iter().map(|added| {
        let sizes = sizes_of(body, added.tensor)?;
        sizes.into_iter().collect::<Option<Vec<_>>>()
    });
    let mut all = begins.chain(added);
    let first = all.next()??;
    all.all(|sizes| sizes.as_ref() == Some(&first))
        .then_some(first)
}
