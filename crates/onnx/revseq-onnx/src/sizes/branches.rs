//! Ranks and sizes of an If's outputs.

use super::Size;
use crate::model::NodeProto;
use crate::scope::Scope;
use crate::sizes;

/// The rank that an output has in all branches that may be taken.
pub(super) fn rank_of_output(scope: &Scope<'_>, node: &NodeProto, output: usize) -> Option<usize> {
    agreed(scope, node, |branch| {
        sizes::rank(branch, branch.outputs.get(output)?)
    })
}

/// The size that an output has in all branches, in terms of the graphs around them.
pub(super) fn axis_of_output<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    output: usize,
    axis: usize,
) -> Option<Size<'a>> {
    if !scope.proves_more() {
        return None;
    }
    agreed(scope, node, |branch| {
        let size = sizes::axis(branch, branch.outputs.get(output)?, axis)?;
        let proved = size.proved(scope)?;
        Size::of_proved(scope, &proved)
    })
}

/// Returns the answer on which all branches that may be taken agree.
fn agreed<'a, T: PartialEq>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    ask: impl Fn(&Scope<'_>) -> Option<T>,
) -> Option<T> {
    let taken = node
        .input(0)
        .and_then(|condition| sizes::truth(scope, condition));
    let branches = match taken {
        None => node.graphs().collect(),
        Some(true) => vec![node.graph("then_branch")?],
        Some(false) => vec![node.graph("else_branch")?],
    };
    let mut answers = branches.into_iter().map(|branch| {
        let branch = Scope::graph(branch, Some(scope), scope.opset);
        ask(&branch)
    });
    let first = answers.next()??;
    answers
        .all(|it| it.as_ref() == Some(&first))
        .then_some(first)
}
