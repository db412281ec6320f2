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
use crate::pass::{At, Other, Pass, Verdict};
use crate::sizes;

pub(super) const PASS: Pass = Pass::exact(
    "branch",
    "An If whose condition is known, to the branch that is taken",
    find,
)
.of(&["If"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    scope.prove_more();
    let taken = sizes::truth(scope, at.input(0)?).ok_or(Other)?;
    let attribute = if taken { "then_branch" } else { "else_branch" };
    let branch = node.graph(attribute);
    let branch = branch.ok_or_else(|| format!("it has no {attribute}"))?;
    if !branch.sparse_initializer.is_empty() {
        return Err(format!("its {attribute} has sparse tensors").into());
    }
    let outputs = branch.output.iter().map(|it| it.name().to_owned());
    let outputs = outputs.zip(node.output.iter().cloned());
    let prefix = format!("{}/{attribute}", node.label(at.index));
    let nodes = Inline::branch(prefix, at.names)
        .tensors(&branch.initializer)
        .nodes(&branch.node, outputs);
    let what = format!("its {attribute}: the condition is always {taken}");
    edit(nodes, what)
}
