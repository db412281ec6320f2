//! A Loop that is written anew, with other states and scan outputs.

use std::collections::HashSet;

use crate::emit::Emit;
use crate::model::{self, BEFORE_STATES, GraphProto, NodeProto};

/// A Loop that is being rewritten.
pub(super) struct LoopEdit<'w> {
    pub(super) emit: &'w Emit<'w>,
    pub(super) body: GraphProto,
    /// Nodes before and behind the body's.
    pub(super) first: Vec<NodeProto>,
    pub(super) behind: Vec<NodeProto>,
    /// The body's nodes that go.
    pub(super) gone: HashSet<usize>,
    node: NodeProto,
}

/// A state of a Loop: its initial value, its names before and after an iteration, and the last value.
pub(super) struct State {
    pub(super) initial: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) last: String,
}

impl State {
    pub(super) fn new(emit: &Emit<'_>, initial: String) -> Self {
        let [before, after, last] = ["before", "after", "all"].map(|it| emit.name(it));
        Self {
            initial,
            before,
            after,
            last,
        }
    }
}

impl<'w> LoopEdit<'w> {
    pub(super) fn new(emit: &'w Emit<'w>, node: &NodeProto) -> Result<Self, String> {
        let body = node.graph("body").ok_or("its body is missing")?.clone();
        let mut node = node.clone();
        // ONNX Runtime takes no empty names of states.
        let outputs = body.output.len().saturating_sub(1);
        node.output.resize(outputs, String::new());
        for output in node.output.iter_mut().filter(|it| it.is_empty()) {
            *output = emit.name("unread");
        }
        Ok(Self {
            emit,
            body,
            first: Vec::new(),
            behind: Vec::new(),
            gone: HashSet::new(),
            node,
        })
    }

    pub(super) fn remove_state(&mut self, state: usize) {
        self.node.input.remove(BEFORE_STATES + state);
        self.node.output.remove(state);
        self.body.input.remove(BEFORE_STATES + state);
        self.body.output.remove(1 + state);
    }

    /// Adds a state behind the others.
    pub(super) fn add_state(&mut self, state: &State) {
        let count = self.node.input.len() - BEFORE_STATES;
        self.node.input.push(state.initial.clone());
        self.node.output.insert(count, state.last.clone());
        let input = model::untyped(&state.before);
        self.body.input.insert(BEFORE_STATES + count, input);
        let output = model::untyped(&state.after);
        self.body.output.insert(1 + count, output);
    }

    /// Makes a value of the body a scan output, and returns its name.
    pub(super) fn add_scan(&mut self, value: &str, hint: &str) -> String {
        let name = self.emit.name(hint);
        self.node.output.push(name.clone());
        self.body.output.push(model::untyped(value));
        name
    }

    /// Gives a value of the body another name, as a body must not output a value twice.
    pub(super) fn hand_on(&mut self, value: &str, hint: &str) -> String {
        let name = self.emit.name(hint);
        let node = model::node("Identity", &[value], &[&name], Vec::new());
        self.behind.push(node);
        name
    }

    /// Writes the Loop.
    pub(super) fn finish(self) {
        let Self { mut node, body, .. } = self;
        let own = body.node.into_iter().enumerate();
        let own = own.filter(|(index, _)| !self.gone.contains(index));
        let nodes = self.first.into_iter().chain(own.map(|(_, node)| node));
        let body = GraphProto {
            node: nodes.chain(self.behind).collect(),
            ..body
        };
        for graph in node.graphs_mut() {
            graph.clone_from(&body);
        }
        self.emit.copy(node);
    }
}
