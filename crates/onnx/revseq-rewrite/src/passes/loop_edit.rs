//! A Loop or Scan that is written anew, with other states, sequences and scan outputs.

use std::collections::HashSet;

use crate::emit::Emit;
use crate::model::{self, AttributeProto, GraphProto, LoopLayout, NodeProto, ValueInfoProto};
use crate::rename::identity;

/// A Loop or Scan that is being rewritten.
pub(super) struct LoopEdit<'w> {
    pub(super) emit: &'w Emit<'w>,
    pub(super) body: GraphProto,
    /// Nodes before and behind the body's.
    pub(super) first: Vec<NodeProto>,
    pub(super) behind: Vec<NodeProto>,
    /// The body's nodes that go.
    pub(super) gone: HashSet<usize>,
    node: NodeProto,
    layout: LoopLayout,
}

/// A state of a Loop: its initial value, its names before and after an iteration, and the last value.
pub(super) struct NewState {
    pub(super) initial: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) last: String,
}

impl NewState {
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
        let body = node.graph("body").ok_or("its body is missing")?;
        Self::of(emit, node, body.clone())
    }

    /// The same with a body that computes the same.
    pub(super) fn of(
        emit: &'w Emit<'w>,
        node: &NodeProto,
        body: GraphProto,
    ) -> Result<Self, String> {
        let layout = LoopLayout::of(node).ok_or("its inputs and its body do not fit together")?;
        let mut node = node.clone();
        // ONNX Runtime takes no empty names of states.
        let outputs = body.output.len().saturating_sub(layout.leading_outputs);
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
            layout,
        })
    }

    /// The places of a state among the inputs, and of a state or scan output among the body's outputs.
    fn place(&self, number: usize) -> (usize, usize) {
        let layout = &self.layout;
        (
            layout.leading_inputs + number,
            layout.leading_outputs + number,
        )
    }

    pub(super) fn remove_state(&mut self, state: usize) {
        let (input, output) = self.place(state);
        self.node.input.remove(input);
        self.node.output.remove(state);
        self.body.input.remove(input);
        self.body.output.remove(output);
        self.layout.states -= 1;
    }

    /// Adds a state behind the others.
    pub(super) fn add_state(&mut self, state: &NewState) {
        let states = self.layout.states;
        let (input, output) = self.place(states);
        self.node.input.insert(input, state.initial.clone());
        self.node.output.insert(states, state.last.clone());
        let [before, after] = [&state.before, &state.after].map(|name| model::untyped(name));
        self.body.input.insert(input, before);
        self.body.output.insert(output, after);
        self.layout.states += 1;
    }

    /// Makes a value of the body a scan output, and returns its name.
    pub(super) fn add_scan(&mut self, value: &str, hint: &str) -> String {
        self.add_declared_scan(model::untyped(value), hint)
    }

    /// The same with a type.
    pub(super) fn add_declared_scan(&mut self, value: ValueInfoProto, hint: &str) -> String {
        let name = self.emit.name(hint);
        self.node.output.push(name.clone());
        self.body.output.push(value);
        for attribute in self.listed(["scan_output_axes", "scan_output_directions"]) {
            attribute.ints.push(0);
        }
        name
    }

    /// Removes a scan output, by its number.
    pub(super) fn remove_scan(&mut self, scan: usize) {
        let behind_states = self.layout.states + scan;
        let (_, output) = self.place(behind_states);
        self.node.output.remove(behind_states);
        self.body.output.remove(output);
        for attribute in self.listed(["scan_output_axes", "scan_output_directions"]) {
            attribute.ints.remove(scan);
        }
    }

    /// Lets the body read its step of a value of all steps, which come first.
    pub(super) fn read_step(&mut self, all: &str, step: ValueInfoProto) {
        if self.layout.leading_inputs > 0 {
            let number = self.body.inputs().next().unwrap_or_default();
            let axis = vec![model::int("axis", 0)];
            let read = model::node("Gather", &[all, number], &[step.name()], axis);
            self.first.push(read);
            return;
        }
        let mut step = step;
        // ONNX Runtime misreads an input of a body that is an output as well.
        if self.body.outputs().any(|output| output == step.name()) {
            let name = self.emit.name("read");
            self.read_whole(&name, step.name());
            step.name = Some(name);
        }
        self.node.input.push(all.to_owned());
        self.body.input.push(step);
        self.layout.slices += 1;
        let slices = model::int("num_scan_inputs", self.layout.slices as i64);
        self.node.attribute.retain(|it| it.name != slices.name);
        self.node.attribute.push(slices);
        for attribute in self.listed(["scan_input_axes", "scan_input_directions"]) {
            attribute.ints.push(0);
        }
    }

    /// Gives a value that the body sees another name before all of its nodes.
    pub(super) fn read_whole(&mut self, value: &str, name: &str) {
        self.first.push(identity(value, name));
    }

    /// Those of the node's attributes that it has.
    fn listed(&mut self, names: [&str; 2]) -> impl Iterator<Item = &mut AttributeProto> {
        let attributes = self.node.attribute.iter_mut();
        attributes.filter(move |it| names.contains(&it.name()))
    }

    /// Gives a value of the body another name, as a body must not output a value twice.
    pub(super) fn hand_on(&mut self, value: &str, hint: &str) -> String {
        let name = self.emit.name(hint);
        self.behind.push(identity(value, &name));
        name
    }

    /// Writes the Loop or Scan.
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
