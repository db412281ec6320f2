//! A list to which an iteration adds a tensor under a condition, to a scan output of which the
//! iterations that add are kept.
//!
//! ```text
//! Loop { l = If(c) { SequenceInsert(l, t) } else { l } }
//! →  p, k = Loop { p = If(c) { t } else { zeros }; k = c }, l = the parts of Compress(p, k)
//! ```

use crate::emit::Emit;
use crate::model::{BEFORE_STATES, GraphProto, NodeProto};
use crate::pass::{At, Verdict};
use crate::rename::output_as;
use crate::scope::Scope;
use crate::sizes::{self, LoopBody, Size};

use super::body::List;
use super::write::{Write, is_outer};
use crate::passes::tract::list::{Added, Segment};

/// An If of a Loop's body that adds a tensor to a list in one branch.
struct Conditional<'a> {
    /// The If among the body's nodes.
    node: usize,
    /// Its output that is the list.
    output: usize,
    condition: &'a str,
    /// Whether the tensor is added if the condition holds, or if it does not.
    holds: bool,
    /// The branch that adds it.
    branch: &'a GraphProto,
    /// The tensor, a value of that branch.
    added: Added<'a>,
}

/// The Loop without the list, if one branch of an If adds a tensor to it.
pub(super) fn replaced<'a>(
    at: &At<'a>,
    state: usize,
    initial: &[Segment<'a>],
) -> Option<Result<Verdict, String>> {
    let &At { scope, node, .. } = at;
    let body = LoopBody::of(scope, node)?;
    let inner = &body.scope;
    let old = *inner.inputs.get(BEFORE_STATES + state)?;
    let new = *inner.outputs.get(1 + state)?;
    let adding = Conditional::of(inner, old, new)?;
    // It is read where the tensor is added and where none is, and is an output.
    if inner.uses(old) != 2 || inner.uses(new) != 1 {
        let why = format!("it reads the sequence {old}, to which it adds under a condition");
        return Some(Err(why));
    }
    let result = node.output.get(state).map_or("", String::as_str);
    let emit = at.emit(if result.is_empty() { old } else { result });
    let piece = emit.name("piece");
    let added = Added {
        tensor: &piece,
        node: adding.node,
        ..adding.added
    };
    let list = List::with(state, old, initial.to_vec(), vec![added]);
    let branch = Scope::graph(adding.branch, Some(inner), scope.opset);
    let tensor = adding.added.tensor;
    let rank = sizes::rank(&branch, tensor);
    let sizes = rank.and_then(|rank| {
        let size = |axis| sizes::axis(&branch, tensor, axis).filter(|it| is_outer(scope, it));
        (0..rank).map(size).collect::<Option<Vec<Size<'_>>>>()
    });
    let Some(sizes) = sizes else {
        let why =
            "the tensor that it adds to a sequence under a condition is not provably of one shape";
        return Some(Err(why.to_owned()));
    };
    let written = Write::new(&emit, scope, node, &list).and_then(|mut write| {
        let zeros = write.zeros(&sizes)?;
        adding.output_piece(&mut write.edit.body, &piece, &zeros, &emit);
        write.scan_where(result, adding.condition, adding.holds)
    });
    Some(written.map(|()| {
        emit.finish("the same with a list that it adds to under a condition as a scan output")
    }))
}

impl<'a> Conditional<'a> {
    fn of(inner: &'a Scope<'a>, old: &str, new: &str) -> Option<Self> {
        let (node, maker) = inner.maker(new)?;
        let output = maker.output.iter().position(|it| it == new)?;
        let condition = maker.input(0).filter(|_| maker.is("If"))?;
        let branches = ["then_branch", "else_branch"].map(|name| maker.graph(name));
        [true, false].into_iter().find_map(|holds| {
            let (branch, other) = (
                branches[usize::from(!holds)]?,
                branches[usize::from(holds)]?,
            );
            let scope = Scope::graph(branch, Some(inner), inner.opset);
            let name = *scope.outputs.get(output)?;
            let added = Added::of(&scope, name)?;
            let is_added = added.list == old && scope.uses(name) == 1;
            (is_added && hands_on(other, output, old)).then_some(Self {
                node,
                output,
                condition,
                holds,
                branch,
                added,
            })
        })
    }

    /// Lets the If output the tensor in place of the list. An iteration that adds none gives zeros,
    /// which are dropped.
    fn output_piece(&self, body: &mut GraphProto, piece: &str, zeros: &str, emit: &Emit<'_>) {
        let adder = &mut body.node[self.node];
        adder.output[self.output] = piece.to_owned();
        for branch in adder.graphs_mut() {
            let tensor = self.take_tensor(branch);
            let tensor = tensor.as_deref().unwrap_or(zeros);
            output_as(branch, self.output, tensor, &emit.name("piece"));
        }
    }

    /// The tensor that a branch adds to the list; `None` for the branch that adds none. The node that
    /// makes the list there is removed.
    fn take_tensor(&self, branch: &mut GraphProto) -> Option<String> {
        let maker = maker_of(branch, self.output)?;
        let maker = branch.node.remove(maker);
        let tensor = maker.input(1).filter(|_| maker.is("SequenceInsert"))?;
        Some(tensor.to_owned())
    }
}

/// The node of a branch that makes one of its outputs.
fn maker_of(branch: &GraphProto, output: usize) -> Option<usize> {
    let name = branch.output.get(output)?.name();
    let is_maker = |node: &NodeProto| node.output.first().is_some_and(|it| it == name);
    branch.node.iter().position(is_maker)
}

/// Whether a branch outputs a list of the graphs around it, and does not read it otherwise.
fn hands_on(branch: &GraphProto, output: usize, list: &str) -> bool {
    match maker_of(branch, output).map(|maker| &branch.node[maker]) {
        Some(node) => node.is("Identity") && node.input(0) == Some(list),
        None => branch
            .output
            .get(output)
            .is_some_and(|it| it.name() == list),
    }
}
