//! A list that is read at positions that differ from run to run, to the parts of one tensor.

use super::{Read, have_one_shape, segments, write_stack};
use crate::emit::Emit;
use crate::model::{self, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(in crate::passes::tract) const PASS: Pass = Pass::exact(
    "stacked-list",
    "A sequence of tensors of one shape that is read anywhere, to one tensor",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let makes = ["SequenceConstruct", "SequenceErase", "SequenceInsert"];
    let (true, Some(output)) = (makes.contains(&node.op()), node.output.first()) else {
        return Verdict::Other;
    };
    scope.prove_more();
    let Some(list) = segments(scope, output).filter(|list| !list.is_empty()) else {
        return Verdict::Other;
    };
    let is_read_anywhere = |scope: &Scope<'_>, node: &NodeProto| {
        node.is("SequenceAt") && Read::of(scope, node, &list).is_none()
    };
    if !any_reader(scope, output, &is_read_anywhere) {
        return Verdict::Other;
    }
    if !have_one_shape(scope, &list) {
        return Verdict::Left(
            "it is read at a position that is not known, and its tensors are not provably of one \
             shape: tract has no sequences"
                .to_owned(),
        );
    }
    let mut emit = Emit::new(output, scope.opset, names);
    match write_stack(&mut emit, scope, &list) {
        Ok(stack) => {
            write_parts_of(&mut emit, &stack, output);
            emit.finish("the parts of one tensor".to_owned())
        }
        Err(why) => Verdict::Left(why),
    }
}

/// Writes the list of a tensor's parts along its first axis.
pub(in crate::passes::tract) fn write_parts_of(emit: &mut Emit<'_>, stack: &str, list: &str) {
    let cut = vec![model::int("axis", 0), model::int("keepdims", 0)];
    emit.write(&[list], "SplitToSequence", &[stack], cut);
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
