//! An If whose branches add a tensor to the same list, to an If that outputs the tensor.

use super::list::Added;
use crate::model::GraphProto;
use crate::pass::{At, Other, Pass, Verdict};
use crate::rename::output_as;
use crate::scope::Scope;

pub(super) const PASS: Pass = Pass::exact(
    "branch-list",
    "An If whose branches add to one sequence, to one that outputs what is added",
    find,
)
.of(&["If"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let same_list = (0..node.output.len()).find_map(|output| {
        let all = node.graphs().map(|branch| added(scope, branch, output));
        let all: Vec<Added<'_>> = all.collect::<Option<_>>()?;
        let first = all.first()?;
        let is_same = |it: &Added<'_>| it.list == first.list && it.is_front == first.is_front;
        all.iter().all(is_same).then_some((output, all))
    });
    let (output, all) = same_list.ok_or(Other)?;
    let list = &node.output[output];
    let emit = at.emit(list);
    let tensor = emit.name("added");
    let mut taken = node.clone();
    taken.output[output].clone_from(&tensor);
    for (branch, added) in taken.graphs_mut().zip(&all) {
        output_as(branch, output, added.tensor, &emit.name("added"));
    }
    emit.copy(taken);
    let longer = match all[0].is_front {
        true => emit.op("SequenceInsert", (all[0].list, tensor, 0)),
        false => emit.op("SequenceInsert", (all[0].list, tensor)),
    };
    emit.give(list, longer);
    emit.finish("the same with the tensor that its branches add to a sequence")
}

fn added<'a>(scope: &'a Scope<'a>, branch: &'a GraphProto, output: usize) -> Option<Added<'a>> {
    let inner = Scope::graph(branch, Some(scope), scope.opset);
    let name = branch.output.get(output)?.name.as_deref()?;
    Added::of(&inner, name).filter(|added| !inner.defines(added.list))
}
