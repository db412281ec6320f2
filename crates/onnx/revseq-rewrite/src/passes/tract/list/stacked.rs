//! A list that is read at positions that differ from run to run, to the parts of one tensor.

use super::{ListRead, have_one_shape, segments, write_stack};
use crate::emit::Emit;
use crate::model::{NodeProto, int};
use crate::pass::{At, Other, Pass, Verdict};
use crate::scope::Scope;

pub(crate) const PASS: Pass = Pass::exact(
    "stacked-list",
    "A sequence of tensors of one shape that is read anywhere, to one tensor",
    find,
)
.of(&["SequenceConstruct", "SequenceErase", "SequenceInsert"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, .. } = at;
    let output = at.output()?;
    scope.prove_more();
    let list = segments(scope, output).filter(|list| !list.is_empty());
    let list = list.ok_or(Other)?;
    let is_read_anywhere = |scope: &Scope<'_>, node: &NodeProto| {
        node.is("SequenceAt") && ListRead::of(scope, node, &list).is_none()
    };
    if !any_reader(scope, output, &is_read_anywhere) {
        return Err(Other);
    }
    if !have_one_shape(scope, &list) {
        return Err(
            "it is read at a position that is not known, and its tensors are not provably of one \
             shape: tract has no sequences"
                .into(),
        );
    }
    let emit = at.emit(output);
    let parts = write_parts_of(&emit, &write_stack(&emit, scope, &list)?);
    emit.finish_with(parts, "the parts of one tensor")
}

/// Writes the list of a tensor's parts along its first axis.
pub(crate) fn write_parts_of(emit: &Emit<'_>, stack: &str) -> String {
    emit.with(
        "SplitToSequence",
        stack,
        [int("axis", 0), int("keepdims", 0)],
    )
}

/// Whether any reader of a value, here or in a subgraph, is as asked.
fn any_reader(
    scope: &Scope<'_>,
    name: &str,
    is_asked: &impl Fn(&Scope<'_>, &NodeProto) -> bool,
) -> bool {
    let reads = |node: &NodeProto| node.inputs().any(|input| input == name);
    scope.nodes.iter().any(|node| {
        reads(node) && is_asked(scope, node)
            || node.graphs().any(|graph| {
                let inner = Scope::graph(graph, Some(scope), scope.opset);
                !inner.defines(name) && any_reader(&inner, name, is_asked)
            })
    })
}
