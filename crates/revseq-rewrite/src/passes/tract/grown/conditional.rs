//! A list to which an iteration adds a tensor under a condition, to a scan output of which the
//! iterations that add are kept.
//!
//! ```text
//! Loop { l = If(c) { SequenceInsert(l, t) } else { l } }
//! →  p, k = Loop { p = If(c) { t } else { zeros }; k = c }, l = the parts of Compress(p, k)
//! ```

use crate::constant;
use crate::emit::Emit;
use crate::model::{GraphProto, NodeProto};
use crate::pass::Verdict;
use crate::scope::{Names, Scope};
use crate::sizes::{self, LoopBody, Size};

use super::BEFORE_STATES;
use super::body::{Added, List};
use super::write::Write;
use crate::passes::tract::list::Segment;

/// The branches of an If, and whether each is taken if the condition holds.
const BRANCHES: [(&str, bool); 2] = [("then_branch", true), ("else_branch", false)];

/// An If of a Loop's body that adds a tensor to a list in one branch.
pub(super) struct Conditional<'a> {
    /// The If among the body's nodes.
    pub(super) node: usize,
    /// Its output that is the list.
    pub(super) output: usize,
    pub(super) condition: &'a str,
    /// Whether the tensor is added if the condition holds, or if it does not.
    pub(super) holds: bool,
    /// The attribute with the branch that adds it.
    pub(super) branch: &'static str,
    /// The tensor, a value of that branch.
    tensor: &'a str,
    is_front: bool,
}

/// The Loop without the list, if one branch of an If adds a tensor to it.
pub(super) fn replaced<'a>(
    scope: &'a Scope<'a>,
    index: usize,
    state: usize,
    initial: &[Segment<'a>],
    names: &mut Names,
) -> Option<Result<Verdict, String>> {
    let node = &scope.nodes[index];
    let body = LoopBody::of(scope, node)?;
    let inner = &body.scope;
    let old = *inner.inputs.get(BEFORE_STATES + state)?;
    let new = *inner.outputs.get(1 + state)?;
    let found = Conditional::of(inner, old, new)?;
    // It is read where the tensor is added and where none is, and is an output.
    if inner.uses(old) != 2 || inner.uses(new) != 1 {
        let why = format!("it reads the sequence {old}, to which it adds under a condition");
        return Some(Err(why));
    }
    let given = node.output.get(state).map_or("", String::as_str);
    let label = if given.is_empty() { old } else { given };
    let mut emit = Emit::new(label, scope.opset, names);
    let piece = emit.name("piece");
    let added = Added {
        value: &piece,
        node: found.node,
        is_front: found.is_front,
        name: new,
    };
    let list = List::with(state, old, initial.to_vec(), added);
    let branch = Scope::graph(
        inner.nodes[found.node].graph(found.branch)?,
        Some(inner),
        scope.opset,
    );
    let rank = sizes::rank(&branch, found.tensor);
    let sizes = rank.and_then(|rank| {
        let size = |axis| sizes::axis(&branch, found.tensor, axis).filter(|it| is_outer(scope, it));
        (0..rank).map(size).collect::<Option<Vec<Size<'_>>>>()
    });
    let Some(sizes) = sizes else {
        let why =
            "the tensor that it adds to a sequence under a condition is not provably of one shape";
        return Some(Err(why.to_owned()));
    };
    let write = Write::new(&mut emit, scope, node, &list);
    let written = write.and_then(|write| write.scan_where(given, &found, &sizes));
    Some(written.map(|()| {
        emit.finish(
            "the same with a list that it adds to under a condition as a scan output".to_owned(),
        )
    }))
}

/// Whether a size is the same in all iterations, as it is one of the graphs around the Loop.
fn is_outer(outer: &Scope<'_>, size: &Size<'_>) -> bool {
    match size {
        Size::Known(_) => true,
        Size::Axis { scope, value, .. } => outer.sees(scope, value),
    }
}

impl<'a> Conditional<'a> {
    fn of(inner: &'a Scope<'a>, old: &str, new: &str) -> Option<Self> {
        let is_maker = |node: &NodeProto| node.output.iter().any(|it| it == new);
        let node = inner.nodes.iter().position(is_maker)?;
        let maker = &inner.nodes[node];
        let output = maker.output.iter().position(|it| it == new)?;
        let condition = maker.input(0).filter(|_| maker.is("If"))?;
        BRANCHES.into_iter().find_map(|(branch, holds)| {
            let other = BRANCHES.iter().find(|it| it.1 != holds)?.0;
            let other = Scope::graph(maker.graph(other)?, Some(inner), inner.opset);
            if !hands_on(&other, output, old) {
                return None;
            }
            let scope = Scope::graph(maker.graph(branch)?, Some(inner), inner.opset);
            let insert = maker_of(&scope, output).filter(|node| node.is("SequenceInsert"))?;
            let is_front = match insert.input(2) {
                None => false,
                Some(at) if constant::int(&scope, at)? == 0 => true,
                Some(_) => return None,
            };
            Some(Self {
                node,
                output,
                condition,
                holds,
                branch,
                tensor: insert.input(1).filter(|_| insert.input(0) == Some(old))?,
                is_front,
            })
        })
    }

    /// The tensor that a branch adds to the list; `None` for the branch that adds none. The node that
    /// makes the list there is removed.
    pub(super) fn take_tensor(&self, branch: &mut GraphProto) -> Option<String> {
        let list = branch.output.get(self.output)?.name.clone()?;
        let is_maker = |node: &NodeProto| node.output.first() == Some(&list);
        let maker = branch.node.iter().position(is_maker)?;
        let maker = branch.node.remove(maker);
        let tensor = maker.input(1).filter(|_| maker.is("SequenceInsert"))?;
        Some(tensor.to_owned())
    }
}

/// The node of a branch that makes one of its outputs, which nothing else reads.
fn maker_of<'a>(branch: &Scope<'a>, output: usize) -> Option<&'a NodeProto> {
    let name = *branch.outputs.get(output)?;
    let is_maker = |node: &&NodeProto| node.output.first().is_some_and(|it| it == name);
    let maker = branch.nodes.iter().find(is_maker)?;
    (branch.uses(name) == 1).then_some(maker)
}

/// Whether a branch outputs a list of the graphs around it.
fn hands_on(branch: &Scope<'_>, output: usize, list: &str) -> bool {
    match maker_of(branch, output) {
        Some(node) => node.is("Identity") && node.input(0) == Some(list),
        None => branch.outputs.get(output) == Some(&list),
    }
}
