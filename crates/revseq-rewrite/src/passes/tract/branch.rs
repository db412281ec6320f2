//! An If whose condition is known, to the branch taken.
//!
//! Exporters write conditions on shapes that are the same in every run. The other branch is not
//! looked at: it may be invalid for these shapes. The condition has to follow from constants,
//! declared sizes and numbers of axes.
//!
//! ```text
//! y = If(Equal(Size(Shape(x)), 3)) { then: Relu(x), else: Neg(x) }, x of rank 3  →  y = Relu(x)
//! ```

use super::edit;
use super::inline::Inline;
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::truth;

pub(super) const PASS: Pass = Pass::exact(
    "branch",
    "An If whose condition is known, to the branch that is taken",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    if !node.is("If") {
        return Verdict::Other;
    }
    let Some(taken) = node.input(0).and_then(|name| truth::of(scope, name)) else {
        return Verdict::Other;
    };
    let attribute = if taken { "then_branch" } else { "else_branch" };
    let Some(branch) = node.graph(attribute) else {
        return Verdict::Left(format!("it has no {attribute}"));
    };
    if !branch.sparse_initializer.is_empty() {
        return Verdict::Left(format!("its {attribute} has sparse tensors"));
    }
    let names_of = branch
        .output
        .iter()
        .map(|it| it.name.clone().unwrap_or_default());
    let outputs = names_of.zip(node.output.iter().cloned());
    let prefix = format!("{}/{attribute}", node.label(index));
    let nodes = Inline::branch(prefix, names)
        .tensors(&branch.initializer)
        .nodes(&branch.node, outputs);
    edit(
        nodes,
        format!("its {attribute}: the condition is always {taken}"),
    )
}
