//! An If whose branches add a tensor to the same list, to an If that outputs the tensor.

use crate::constant;
use crate::emit::Emit;
use crate::model::{self, GraphProto, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};

pub(super) const PASS: Pass = Pass::exact(
    "branch-list",
    "An If whose branches add to one sequence, to one that outputs what is added",
    find,
);

/// A tensor that a branch adds to a list of the graphs around it.
struct Added<'a> {
    list: &'a str,
    tensor: &'a str,
    is_front: bool,
}

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !node.is("If") {
        return Verdict::Other;
    }
    let branches: Vec<&GraphProto> = node.graphs().collect();
    let found = (0..node.output.len()).find_map(|output| {
        let all = branches.iter().map(|branch| added(scope, branch, output));
        let all: Vec<Added<'_>> = all.collect::<Option<_>>()?;
        let first = all.first()?;
        let is_same = |it: &Added<'_>| it.list == first.list && it.is_front == first.is_front;
        all.iter().all(is_same).then_some((output, all))
    });
    let Some((output, all)) = found else {
        return Verdict::Other;
    };
    let list = &node.output[output];
    let mut emit = Emit::new(list, scope.opset, names);
    let tensor = emit.name("added");
    let mut taken = node.clone();
    taken.output[output].clone_from(&tensor);
    for (branch, added) in taken.graphs_mut().zip(&all) {
        // A branch must not output a value twice, nor one of the graphs around it.
        let own = emit.name("added");
        let hand_on = model::node("Identity", &[added.tensor], &[&own], Vec::new());
        branch.node.push(hand_on);
        branch.output[output] = model::untyped(&own);
    }
    emit.copy(taken);
    let mut inputs = vec![all[0].list, &tensor];
    let front;
    if all[0].is_front {
        front = emit.scalar(0);
        inputs.push(&front);
    }
    emit.write(&[list], "SequenceInsert", &inputs, Vec::new());
    emit.finish("the same with the tensor that its branches add to a sequence".to_owned())
}

fn added<'a>(scope: &Scope<'a>, branch: &'a GraphProto, output: usize) -> Option<Added<'a>> {
    let inner = Scope::graph(branch, Some(scope), scope.opset);
    let name = branch.output.get(output)?.name.as_deref()?;
    let is_maker = |node: &&NodeProto| node.output.first().is_some_and(|it| it == name);
    let insert = branch.node.iter().find(is_maker)?;
    let list = insert.input(0).filter(|list| !inner.defines(list))?;
    let is_front = match insert.input(2) {
        None => false,
        Some(at) if constant::int(&inner, at)? == 0 => true,
        Some(_) => return None,
    };
    Some(Added {
        list,
        tensor: insert.input(1).filter(|_| insert.is("SequenceInsert"))?,
        is_front,
    })
}
