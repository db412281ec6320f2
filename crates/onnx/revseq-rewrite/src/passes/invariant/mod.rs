//! What a loop computes in every step although it is the same in all of them, to nodes before the loop.
//!
//! A node of a Loop's or Scan's body moves if it depends on nothing of the step: no state, no step of a
//! sequence, not the step's number. So do nodes of the branches in the body. A Slice that takes everything
//! goes.
//!
//! ```text
//! Loop(h) { whole = Slice(x, [0], [2^63 - 1]); now = Gather(whole, step); b = Neg(a); h2 = f(now, h, b) }
//!   →  b = Neg(a); Loop(h) { now = Gather(x, step); h2 = f(now, h, b) }
//! ```
//!
//! A loop may run no step and a branch may never be taken, and what was not computed then must not make a run
//! fail. So a node moves
//!
//! - out of a body, if the loop provably runs a step, which computes the node anyway,
//! - else, and out of a branch, if the node provably [cannot fail](total::is_total); out of a branch that is
//!   never taken, where it takes little time besides.
//!
//! Operators that draw random numbers stay, and so do lists, which other passes read in bodies, and operators
//! of other domains, which may have a state. It waits, as loops that are layers or maps are recognised by
//! their bodies.

mod total;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::emit::Emit;
use crate::model::{self, GraphProto, NodeProto};
use crate::operators::is_random;
use crate::order;
use crate::pass::{At, Left, Other, Pass, Verdict};
use crate::passes::steps::body::unchanged;
use crate::passes::steps::trips;
use crate::passes::tract::BATCHED_SCAN;
use crate::rename::{identity, rename};
use crate::scope::{Scope, Source};
use crate::sizes;

pub(crate) const PASS: Pass = Pass::exact(
    "invariant",
    "What is the same in every step of a Loop or Scan, to nodes before it",
    find,
)
.of(&["Loop", "Scan"])
.fast()
.keeping_loops();

/// The first opset in which a Constant has any type.
const OPSET: i64 = 9;

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let is_batched = node.is("Scan") && scope.opset == BATCHED_SCAN;
    let graph = node.graph("body").ok_or(Other)?;
    if is_batched || scope.opset < OPSET {
        return Err(Other);
    }
    if at.context.waits {
        return Err(Left::Later);
    }
    let emit = at.emit(node.outputs().next().ok_or(Other)?);
    let inner = Scope::graph(graph, Some(scope), scope.opset);
    let hidden: HashSet<&str> = graph.with_inner().flat_map(GraphProto::defined).collect();
    let level = Level::of(&inner, None);
    let states = unchanged(scope, node, graph).map_err(|_| Other)?;
    let mut moving = Moving {
        emit: &emit,
        hidden,
        needs_sizes: node.is("Scan"),
        moved: 0,
        has_removed: false,
    };
    for (state, initial) in states {
        moving.know(&level, &state, initial);
    }
    let is_certain = trips::is_a_step_certain(scope, node);
    let body = moving.graph(&level, graph, is_certain);
    let what = match (moving.moved, moving.has_removed) {
        (0, false) => return Err(Other),
        (0, true) => "the same without Slices that take everything".to_owned(),
        (moved, _) => format!("the same with {moved} of its nodes before it"),
    };
    let mut node = at.named();
    for graph in node.graphs_mut() {
        graph.clone_from(&body);
    }
    emit.copy(node);
    emit.finish(what)
}

/// A body, or a branch in one.
struct Level<'a> {
    scope: &'a Scope<'a>,
    around: Option<&'a Level<'a>>,
    /// The names outside the loop of values that are no longer in it.
    moved: RefCell<HashMap<String, String>>,
    /// The values outside the loop that others in it equal. What stays reads these, whose sizes may be
    /// declared.
    same: RefCell<HashMap<String, String>>,
}

impl<'a> Level<'a> {
    fn of(scope: &'a Scope<'a>, around: Option<&'a Level<'a>>) -> Self {
        Self {
            scope,
            around,
            moved: RefCell::default(),
            same: RefCell::default(),
        }
    }

    /// The level that defines a value; `None` for one from outside the loop.
    fn defining(&self, name: &str) -> Option<&Level<'a>> {
        match self.scope.defines(name) {
            true => Some(self),
            false => self.around?.defining(name),
        }
    }

    /// The name outside the loop of a value of this graph.
    fn outside(&self, name: &str) -> Option<String> {
        let moved = self.moved.borrow();
        moved.get(name).or(self.same.borrow().get(name)).cloned()
    }

    /// Whether a value of this graph is, or can be, outside the loop.
    fn may_be_outside(&self, name: &str) -> bool {
        self.outside(name).is_some()
            || match self.scope.source(name) {
                Some((_, Source::Node { node, .. })) => node.is("Constant"),
                Some((_, Source::Initializer(tensor))) => !tensor.is_external(),
                _ => false,
            }
    }

    /// The Constant that a value of this graph is.
    fn constant(&self, name: &str) -> Option<NodeProto> {
        match self.scope.source(name)?.1 {
            Source::Node { node, .. } => Some(node.clone()),
            Source::Initializer(tensor) => {
                let mut tensor = tensor.clone();
                tensor.name = None;
                let value = vec![model::tensor("value", tensor)];
                Some(model::node("Constant", &[], &[name], value))
            }
            Source::Input(_) => None,
        }
    }
}

/// Nodes on their way out of a loop.
struct Moving<'a> {
    emit: &'a Emit<'a>,
    /// The names that the loop's graphs define.
    hidden: HashSet<&'a str>,
    /// Whether runtimes need the sizes of the body's outputs.
    needs_sizes: bool,
    /// The number of nodes that have moved.
    moved: usize,
    /// Whether a Slice is gone.
    has_removed: bool,
}

impl Moving<'_> {
    /// Moves what can of a graph, and returns what stays of it.
    fn graph(&mut self, level: &Level<'_>, graph: &GraphProto, is_certain: bool) -> GraphProto {
        let mut nodes = Vec::with_capacity(graph.node.len());
        for node in &graph.node {
            if sizes::is_whole_slice(level.scope, node) {
                self.remove_slice(level, node, &mut nodes);
            } else if self.moves(level, node, is_certain) {
                self.write(level, node);
            } else {
                if node.is("Identity") {
                    self.hand_on(level, node);
                }
                nodes.push(self.kept(level, node));
            }
        }
        let moved = level.moved.borrow();
        nodes.retain(|node| !node.outputs().any(|output| moved.contains_key(output)));
        rename(&mut nodes, &moved);
        let mut outputs = HashSet::new();
        for output in graph.outputs().filter(|output| outputs.insert(*output)) {
            if let Some(name) = moved
                .get(output)
                .filter(|_| level.scope.maker(output).is_some())
            {
                nodes.push(identity(name, output));
            }
        }
        GraphProto {
            node: nodes,
            ..graph.clone()
        }
    }

    /// A node that stays, without what moves out of its branches.
    fn kept(&mut self, level: &Level<'_>, node: &NodeProto) -> NodeProto {
        let mut kept = node.clone();
        if node.is("If") {
            for (branch, graph) in std::iter::zip(kept.graphs_mut(), node.graphs()) {
                let scope = Scope::graph(graph, Some(level.scope), level.scope.opset);
                *branch = self.graph(&Level::of(&scope, Some(level)), graph, false);
            }
        }
        kept
    }

    /// Whether a node of the loop can run before it.
    fn moves(&self, level: &Level<'_>, node: &NodeProto, is_certain: bool) -> bool {
        let is_light = || level.around.is_none() || total::is_light(node);
        !matches!(node.op(), "Constant" | "Identity")
            && node.outputs().next().is_some()
            && model::all_nodes(std::slice::from_ref(node)).all(is_pure)
            && order::reads(node)
                .into_iter()
                .all(|name| is_same(level, name))
            && (is_certain || is_light() && total::is_total(level.scope, node))
    }

    /// Writes a node before the loop.
    fn write(&mut self, level: &Level<'_>, node: &NodeProto) {
        let names: HashMap<String, String> = order::reads(node)
            .into_iter()
            .map(|name| (name.to_owned(), self.outside(level, name)))
            .collect();
        let mut moved = [node.clone()];
        rename(&mut moved, &names);
        let [mut moved] = moved;
        self.name(level, &mut moved);
        self.emit.copy(moved);
        self.moved += 1;
    }

    /// Gives a node that is written before the loop and its outputs names there.
    fn name(&self, level: &Level<'_>, node: &mut NodeProto) {
        node.name = Some(self.emit.name(node.op()));
        let hint = format!("{}:0", node.op());
        for output in node.output.iter_mut().filter(|it| !it.is_empty()) {
            let old = std::mem::replace(output, self.emit.name(&hint));
            // What runtimes do not infer of it, they know by its declaration.
            let declared = level.scope.declaration(&old);
            if let Some(declared) = declared.filter(|it| it.r#type.is_set()) {
                self.emit.declare(declared, output);
            }
            level.moved.borrow_mut().insert(old, output.clone());
        }
    }

    /// The name before the loop of a value that is the same in all steps.
    fn outside(&self, level: &Level<'_>, name: &str) -> String {
        let Some(level) = level.defining(name) else {
            return name.to_owned();
        };
        if let Some(outside) = level.outside(name) {
            return outside;
        }
        if let Some(mut constant) = level.constant(name) {
            self.name(level, &mut constant);
            let name = constant.output[0].clone();
            self.emit.copy(constant);
            return name;
        }
        name.to_owned()
    }

    /// Replaces a Slice that takes everything by what it takes.
    fn remove_slice(&mut self, level: &Level<'_>, node: &NodeProto, nodes: &mut Vec<NodeProto>) {
        let (data, output) = (&node.input[0], &node.output[0]);
        self.has_removed = true;
        let is_result = level.scope.outputs.contains(&output.as_str());
        let is_moved = level
            .defining(data)
            .is_none_or(|level| level.moved.borrow().contains_key(data));
        if is_moved && !is_result {
            let outside = self.outside(level, data);
            // Where a graph in the loop has a value of that name, readers there would read this one.
            if !self.hidden.contains(&*outside) {
                level.moved.borrow_mut().insert(output.clone(), outside);
                return;
            }
        }
        let same = identity(data, output);
        self.hand_on(level, &same);
        nodes.push(same);
    }

    /// Notes what an Identity that stays makes of a value from outside.
    fn hand_on(&self, level: &Level<'_>, node: &NodeProto) {
        let (Some(data), Some(output)) = (node.input(0), node.outputs().next()) else {
            return;
        };
        let outside = match level.defining(data) {
            Some(level) => level.outside(data),
            None => Some(data.to_owned()),
        };
        if let Some(outside) = outside {
            self.know(level, output, outside);
        }
    }

    /// Notes that a value of the loop equals one from outside.
    fn know(&self, level: &Level<'_>, name: &str, outside: String) {
        let is_typed = |name: &str| {
            let declared = level.scope.declaration(name);
            declared.is_some_and(|it| it.r#type.is_set())
        };
        let is_as_known = !self.needs_sizes || !is_typed(name) || is_typed(&outside);
        if is_as_known && !self.hidden.contains(outside.as_str()) {
            level.same.borrow_mut().insert(name.to_owned(), outside);
        }
    }
}

/// Whether a value of the loop is the same in all steps and has, or can have, a name before the loop.
fn is_same(level: &Level<'_>, name: &str) -> bool {
    let defining = level.defining(name);
    defining.is_none_or(|level| level.may_be_outside(name))
}

/// Whether a node computes tensors of its inputs alone.
fn is_pure(node: &NodeProto) -> bool {
    let of_lists = [
        "Sequence",
        "Optional",
        "SplitToSequence",
        "ConcatFromSequence",
    ];
    node.domain().is_empty()
        && !is_random(node.op())
        && !of_lists.iter().any(|it| node.op().starts_with(it))
}
