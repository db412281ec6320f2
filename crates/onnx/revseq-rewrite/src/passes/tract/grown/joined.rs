//! A list to which graphs in a Loop's body add tensors, to what joins them.
//!
//! ```text
//! Loop { Loop { l = If(c) { SequenceInsert(l, t) } else { l } } }, ConcatFromSequence(l)
//! →  Loop { Loop { l = If(c) { Concat(l, t) } else { l } } }
//! ```

use std::collections::HashSet;

use crate::emit::Emit;
use crate::model::{self, BEFORE_STATES, GraphProto, NodeProto};
use crate::pass::{At, Verdict};
use crate::passes::known_sizes;
use crate::scope::Scope;
use crate::sizes::{LoopBody, Size};

use super::reads::ListReads;
use super::write::zeros;
use crate::passes::tract::list::{Segment, write_join};

/// How all readers of a list join its tensors, and what is a joined list so far.
struct Joined<'e> {
    emit: &'e Emit<'e>,
    axis: i64,
    /// Whether the axis is a new one.
    is_new: bool,
    /// The names of the list.
    lists: HashSet<String>,
    /// The tensors that are added.
    added: Vec<String>,
}

/// The Loop with a tensor in place of a list, if all that reads the list joins it, and all that changes it adds
/// a tensor at the end.
pub(super) fn replaced(at: &At<'_>, state: usize, initial: &[Segment<'_>]) -> Option<Verdict> {
    let &At { scope, node, .. } = at;
    let result = node.output.get(state).filter(|it| !it.is_empty())?;
    let reads = ListReads::of(scope, result).ok()?;
    let how = |node: &NodeProto| {
        let (axis, is_new) = (node.int("axis").value(), node.int("new_axis").or(0));
        node.is("ConcatFromSequence")
            .then_some((axis?, is_new? != 0))
    };
    let (axis, is_new) = how(reads.nodes.first()?)?;
    let are_here = reads.here.len() == reads.nodes.len();
    if !are_here || reads.nodes.iter().any(|it| how(it) != Some((axis, is_new))) {
        return None;
    }
    let emit = at.emit(result);
    let mut made = node.clone();
    let mut joined = Joined {
        emit: &emit,
        axis,
        is_new,
        lists: HashSet::new(),
        added: vec![],
    };
    joined.in_loop(&mut made, &[BEFORE_STATES + state])?;
    let first = match initial {
        [] => {
            let sizes = sizes_of(scope, node, joined.added.first()?)?;
            let empty = joined.empty(&sizes)?;
            zeros(&emit, scope, node.input(BEFORE_STATES + state)?, &empty)
        }
        _ => write_join(&emit, scope, initial, (axis, is_new)),
    };
    let last = emit.name("all");
    made.input[BEFORE_STATES + state] = first.ok()?;
    made.output[state].clone_from(&last);
    emit.copy(made);
    for (&index, node) in reads.here.iter().zip(&reads.nodes) {
        emit.give(node.output.first()?, last.clone());
        emit.also(index);
    }
    Some(emit.finish("the same with a list that is joined as a tensor"))
}

impl Joined<'_> {
    fn is_list(&self, name: &str) -> bool {
        self.lists.contains(name)
    }

    fn reads(&self, node: &NodeProto) -> bool {
        node.inputs().any(|name| self.is_list(name))
    }

    fn is_read_in(&self, node: &NodeProto) -> bool {
        let graphs = node.graphs().flat_map(GraphProto::with_inner);
        let mut nodes = graphs.flat_map(|graph| &graph.node);
        nodes.any(|node| self.reads(node))
    }

    /// The sizes of no tensors joined, if those of each are these.
    fn empty(&self, sizes: &[Option<i64>]) -> Option<Vec<Size<'static>>> {
        let rank = sizes.len() + usize::from(self.is_new);
        let place = crate::constant::normal_axis(self.axis, rank)?;
        let mut sizes = sizes.to_vec();
        match self.is_new {
            true => sizes.insert(place, Some(0)),
            false => sizes[place] = Some(0),
        }
        let sizes = sizes.into_iter().map(|it| it.map(Size::Known));
        sizes.collect()
    }

    /// Makes tensors of the lists of a graph; `None` if it does something else with them.
    fn in_graph(&mut self, graph: &mut GraphProto) -> Option<()> {
        let mut nodes = vec![];
        for mut node in std::mem::take(&mut graph.node) {
            let reads = self.reads(&node);
            match node.op() {
                "SequenceInsert" if reads => nodes.extend(self.insert(&node)?),
                "Identity" if reads => {
                    self.lists.insert(node.output.first()?.clone());
                    nodes.push(node);
                }
                "Loop" => {
                    let inputs = node.input.iter().enumerate();
                    let states: Vec<usize> = inputs
                        .filter(|(_, name)| self.is_list(name))
                        .map(|(index, _)| index)
                        .collect();
                    self.in_loop(&mut node, &states)?;
                    nodes.push(node);
                }
                "If" if !reads => {
                    self.in_branches(&mut node)?;
                    nodes.push(node);
                }
                _ if reads || self.is_read_in(&node) => return None,
                _ => nodes.push(node),
            }
        }
        graph.node = nodes;
        graph.value_info.retain(|it| !self.is_list(it.name()));
        Some(())
    }

    /// A tensor that is added to a list, joined to it.
    fn insert(&mut self, node: &NodeProto) -> Option<Vec<NodeProto>> {
        let (list, tensor) = (node.input(0)?, node.input(1)?);
        if !self.is_list(list) || self.is_list(tensor) || node.input(2).is_some() {
            return None;
        }
        self.added.push(tensor.to_owned());
        let output = node.output.first()?;
        self.lists.insert(output.clone());
        let mut part = tensor.to_owned();
        let mut nodes = self.emit.within(|| {
            if self.is_new {
                part = self.emit.unsqueeze(tensor, &[self.axis]);
            }
        });
        let along = vec![model::int("axis", self.axis)];
        nodes.push(model::node("Concat", &[list, &part], &[output], along));
        Some(nodes)
    }

    fn in_branches(&mut self, node: &mut NodeProto) -> Option<()> {
        for branch in node.graphs_mut() {
            self.in_graph(branch)?;
        }
        for (index, output) in node.output.iter().enumerate() {
            let is_list = |branch: &GraphProto| {
                let made = branch.output.get(index);
                made.is_some_and(|it| self.is_list(it.name()))
            };
            let of: Vec<bool> = node.graphs().map(is_list).collect();
            match of.contains(&true) {
                true if of.contains(&false) => return None,
                true => self.lists.insert(output.clone()),
                false => continue,
            };
        }
        for branch in node.graphs_mut() {
            self.untype(branch);
        }
        Some(())
    }

    /// Makes tensors of the lists among a Loop's states, by its inputs.
    fn in_loop(&mut self, node: &mut NodeProto, states: &[usize]) -> Option<()> {
        if states.iter().any(|&index| index < BEFORE_STATES) {
            return None;
        }
        let outputs = node.output.clone();
        let body = node.graphs_mut().next()?;
        for &index in states {
            self.lists.insert(body.input.get(index)?.name().to_owned());
        }
        self.in_graph(body)?;
        for (index, output) in body.output.iter().enumerate() {
            // The first output is the condition, which stands for two inputs.
            if self.is_list(output.name()) != states.contains(&(index + 1)) {
                return None;
            }
        }
        self.untype(body);
        for &index in states {
            self.lists
                .insert(outputs.get(index - BEFORE_STATES)?.clone());
        }
        Some(())
    }

    /// Lets a graph's inputs and outputs be tensors that were lists.
    fn untype(&self, graph: &mut GraphProto) {
        for value in graph.input.iter_mut().chain(&mut graph.output) {
            if self.is_list(value.name()) {
                *value = model::untyped(value.name());
            }
        }
    }
}

/// The sizes of a value of a graph in a node, as far as they are numbers.
fn sizes_of(scope: &Scope<'_>, node: &NodeProto, name: &str) -> Option<Vec<Option<i64>>> {
    let within = |inner: &Scope<'_>| {
        if inner.defines(name) {
            return known_sizes(inner, name);
        }
        let mut nodes = inner.nodes.iter();
        nodes.find_map(|node| sizes_of(inner, node, name))
    };
    if node.is("Loop") {
        return within(&LoopBody::of(scope, node)?.scope);
    }
    let mut graphs = node.graphs();
    graphs.find_map(|graph| within(&Scope::graph(graph, Some(scope), scope.opset)))
}
