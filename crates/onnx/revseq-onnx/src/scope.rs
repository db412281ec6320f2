//! A graph with its values indexed by name, and its enclosing graphs.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

use crate::model::{
    self, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use crate::operators::is_random;

/// A graph within its enclosing graphs.
pub struct Scope<'a> {
    /// Its nodes, in order.
    pub nodes: &'a [NodeProto],
    /// The names of its inputs, in order, without those that are constants.
    pub inputs: Vec<&'a str>,
    /// The names of its outputs, in order.
    pub outputs: Vec<&'a str>,
    /// The graph around it.
    pub parent: Option<&'a Scope<'a>>,
    /// The version of ONNX's own operators.
    pub opset: i64,
    /// Whether it is in a function of the model.
    is_in_function: bool,
    /// The node that it is another form of a graph of.
    form_of: Option<&'a NodeProto>,
    producers: HashMap<&'a str, (usize, usize)>,
    /// Graph inputs, and tensors whose elements are unknown.
    opaque: HashSet<&'a str>,
    initializers: HashMap<&'a str, &'a TensorProto>,
    declared_inputs: HashMap<&'a str, &'a ValueInfoProto>,
    declared: HashMap<&'a str, &'a ValueInfoProto>,
    /// Number of times that each value is read, here and in subgraphs; an output of the graph
    /// counts as one read.
    uses: HashMap<&'a str, usize>,
    same: OnceCell<Same>,
    /// Whether it proves as much as [`prove_more`](Self::prove_more) says, in the main graph.
    proves_more: Cell<bool>,
    /// Facts proved about the sizes of the graph's own values.
    pub(crate) proved: RefCell<Proved>,
    /// How far a question about sizes has been followed, in the main graph.
    followed: Followed,
}

/// How far a question about sizes has been followed.
#[derive(Default)]
pub(crate) struct Followed {
    pub(crate) depth: Cell<usize>,
    pub(crate) values: Cell<usize>,
    /// Whether a limit was reached.
    pub(crate) is_cut: Cell<bool>,
    /// How many questions are asked for the sake of another one.
    pub(crate) nesting: Cell<usize>,
    /// The first value of the main graph at the largest depth, and the axis that was asked for, or its rank.
    pub(crate) deepest: RefCell<Option<(String, Option<usize>)>>,
}

/// Facts proved about sizes; `None` where the proof failed.
#[derive(Default)]
pub(crate) struct Proved {
    pub(crate) ranks: HashMap<String, Option<usize>>,
    pub(crate) axes: HashMap<(String, usize), ProvedSize>,
}

/// A size in the form that a graph caches.
#[derive(Clone)]
pub(crate) enum ProvedSize {
    Known(i64),
    /// The length of an axis of a value, `levels` graphs outwards.
    Axis {
        levels: usize,
        value: String,
        axis: usize,
    },
}

/// Values of a graph that are equal in every run.
struct Same {
    /// The first value that is computed in the same way as each value, unless it is the first
    /// itself.
    first: HashMap<String, String>,
    /// The nodes that compute values first, by key.
    nodes: HashMap<Vec<u8>, usize>,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// An output of a node.
    Node {
        /// The node.
        node: &'a NodeProto,
        /// The index of the output.
        output: usize,
    },
    /// A tensor in the model that nothing can replace.
    Initializer(&'a TensorProto),
    /// A graph input, possibly with an initializer as default, or a tensor with unknown elements.
    Input(Option<&'a ValueInfoProto>),
}

impl<'a> Scope<'a> {
    /// The main graph of a model, whose initializers may be inputs as well; if `are_fixed`, nothing
    /// replaces them. Training also reads and sets the names that it mentions. `None` if the model
    /// has no graph.
    pub fn main(model: &'a ModelProto, are_fixed: bool) -> Option<Self> {
        let graph = model.graph.as_option()?;
        let opset = model::opset(&model.opset_import);
        let mut scope = Self::graph(graph, None, opset);
        if are_fixed {
            scope.fix_initializers();
        }
        for name in model::trained_names(model) {
            *scope.uses.entry(name).or_insert(0) += 1;
            // It changes in every step of training.
            if scope.initializers.remove(name).is_some() {
                scope.opaque.insert(name);
            }
        }
        Some(scope)
    }

    /// Makes constants of the initializers that are inputs as well.
    fn fix_initializers(&mut self) {
        for &name in self.initializers.keys() {
            self.opaque.remove(name);
        }
        let initializers = &self.initializers;
        self.inputs.retain(|name| !initializers.contains_key(name));
    }

    /// A subgraph: a graph in an attribute of a node, whose initializers nothing can replace.
    /// Without a parent, a graph that stands alone.
    pub fn graph(graph: &'a GraphProto, parent: Option<&'a Scope<'a>>, opset: i64) -> Self {
        let named = |value: &'a ValueInfoProto| (value.name(), value);
        let declared = graph.value_info.iter().chain(&graph.output);
        let initializers = graph.initializer.iter();
        let mut scope = Self {
            parent,
            is_in_function: parent.is_some_and(|parent| parent.is_in_function),
            initializers: initializers.map(|it| (it.name(), it)).collect(),
            declared_inputs: graph.input.iter().map(named).collect(),
            declared: declared.map(named).collect(),
            ..Self::new(
                &graph.node,
                graph.input.iter().map(ValueInfoProto::name).collect(),
                graph.output.iter().map(ValueInfoProto::name).collect(),
                opset,
            )
        };
        if parent.is_some() {
            scope.fix_initializers();
        }
        scope.opaque.extend(graph.sparse_tensors());
        for name in graph.seen_elsewhere() {
            *scope.uses.entry(name).or_insert(0) += 1;
        }
        scope
    }

    /// Another form of the body of a node, whose inputs are the same.
    pub fn form_of_body(graph: &'a GraphProto, outer: &'a Scope<'a>, node: &'a NodeProto) -> Self {
        Self {
            form_of: Some(node),
            ..Self::graph(graph, Some(outer), outer.opset)
        }
    }

    /// The body of a function.
    pub fn function_body(function: &'a FunctionProto, opset: i64) -> Self {
        let mut scope = Self {
            is_in_function: true,
            ..Self::new(
                &function.node,
                function.input.iter().map(String::as_str).collect(),
                function.output.iter().map(String::as_str).collect(),
                opset,
            )
        };
        for output in &function.output {
            *scope.uses.entry(output).or_insert(0) += 1;
        }
        scope
    }

    fn new(
        nodes: &'a [NodeProto],
        inputs: Vec<&'a str>,
        outputs: Vec<&'a str>,
        opset: i64,
    ) -> Self {
        let mut producers = HashMap::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            for (output, name) in node.output.iter().enumerate() {
                producers.insert(name.as_str(), (index, output));
            }
        }
        let mut uses = HashMap::with_capacity(nodes.len());
        count_uses(nodes, &mut uses);
        Self {
            nodes,
            opaque: inputs.iter().copied().collect(),
            inputs,
            outputs,
            parent: None,
            is_in_function: false,
            form_of: None,
            opset,
            producers,
            initializers: HashMap::new(),
            declared_inputs: HashMap::new(),
            declared: HashMap::new(),
            uses,
            same: OnceCell::new(),
            proves_more: Cell::new(false),
            proved: RefCell::default(),
            followed: Followed::default(),
        }
    }

    /// Whether it is in a function of the model.
    #[must_use]
    pub fn is_in_function(&self) -> bool {
        self.is_in_function
    }

    /// The origin of a value, and the graph that defines it; `None` if there is no such value.
    pub fn source(&'a self, name: &str) -> Option<(&'a Scope<'a>, Source<'a>)> {
        if let Some(&(index, output)) = self.producers.get(name) {
            let node = &self.nodes[index];
            return Some((self, Source::Node { node, output }));
        }
        if self.opaque.contains(name) {
            return Some((self, Source::Input(self.declared_inputs.get(name).copied())));
        }
        if let Some(tensor) = self.initializers.get(name) {
            return Some((self, Source::Initializer(tensor)));
        }
        self.parent?.source(name)
    }

    /// Returns the graph around this one, and its node that this one belongs to.
    pub(crate) fn node_around(&self) -> Option<(&'a Scope<'a>, &'a NodeProto)> {
        let outer = self.parent?;
        let has_this = |node: &&NodeProto| {
            let mut graphs = node.graphs();
            graphs.any(|graph| std::ptr::eq(graph.node.as_ptr(), self.nodes.as_ptr()))
        };
        let node = self.form_of.or_else(|| outer.nodes.iter().find(has_this));
        Some((outer, node?))
    }

    /// The node that produces a value, with the output's index and the graph.
    pub fn producer(&'a self, name: &str) -> Option<(&'a Scope<'a>, &'a NodeProto, usize)> {
        match self.source(name)? {
            (scope, Source::Node { node, output, .. }) => Some((scope, node, output)),
            _ => None,
        }
    }

    /// The node of this graph that produces a value, and its index.
    pub fn maker(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        let &(index, _) = self.producers.get(name)?;
        Some((index, &self.nodes[index]))
    }

    /// The node of this graph that produces a value as its first output, if it is this operator of
    /// ONNX's own.
    pub fn first_output_of(&'a self, name: &str, op: &str) -> Option<&'a NodeProto> {
        let &(index, output) = self.producers.get(name)?;
        let node = &self.nodes[index];
        (output == 0 && node.is(op)).then_some(node)
    }

    /// The name of a graph input or opaque tensor, borrowed from this graph.
    pub fn input(&self, name: &str) -> Option<&'a str> {
        self.opaque.get(name).copied()
    }

    /// Takes a value of this graph to have a rank, until the scope is dropped: for proofs by
    /// induction, which assume it of a state and then prove it of the state's next value.
    pub fn assume_rank(&self, name: &str, rank: usize) {
        let mut proved = self.proved.borrow_mut();
        proved.ranks.insert(name.to_owned(), Some(rank));
    }

    /// Lets proofs cover sizes of the outputs of loops, and take axes of the main graph's inputs
    /// that are declared under one name to have one length, as ONNX's text says but ONNX Runtime
    /// does not check.
    ///
    /// A pass that replaces loops one after the other does without: it proves more of a loop's
    /// output once the loop is replaced.
    pub fn prove_more(&self) {
        match self.parent {
            Some(parent) => parent.prove_more(),
            None => self.proves_more.set(true),
        }
    }

    /// Whether [`prove_more`](Self::prove_more) was called on any graph of the model.
    pub(crate) fn proves_more(&self) -> bool {
        self.parent
            .map_or(self.proves_more.get(), Self::proves_more)
    }

    /// The graph around all others.
    pub(crate) fn outermost(&self) -> &Self {
        self.parent.map_or(self, Self::outermost)
    }

    /// How far the present question about sizes has been followed.
    pub(crate) fn followed(&self) -> &Followed {
        &self.outermost().followed
    }

    /// The first input of the main graph with an axis of this name, and the axis, if such names
    /// count.
    pub(crate) fn input_with_size(&self, name: &str) -> Option<(&'a str, usize)> {
        if !self.proves_more() || name.is_empty() {
            return None;
        }
        self.inputs.iter().find_map(|&input| {
            let sizes = names_of_sizes(self.declared_inputs.get(input)?)?;
            let axis = sizes.iter().position(|&it| it == Some(name))?;
            Some((input, axis))
        })
    }

    /// The graph `levels` outwards from this one.
    pub(crate) fn around(&'a self, levels: usize) -> Option<&'a Scope<'a>> {
        match levels.checked_sub(1) {
            None => Some(self),
            Some(levels) => self.parent?.around(levels),
        }
    }

    /// The number of levels from this graph outwards to another.
    pub(crate) fn levels_to(&self, outer: &Scope<'_>) -> Option<usize> {
        if self.is(outer) {
            return Some(0);
        }
        Some(self.parent?.levels_to(outer)? + 1)
    }

    /// The name of a value of this graph, borrowed from it.
    pub(crate) fn own_name(&self, name: &str) -> Option<&'a str> {
        match self.producers.get(name) {
            Some(&(index, output)) => self.nodes[index].output.get(output).map(String::as_str),
            None => self.input(name),
        }
    }

    /// Whether a name refers to the same value here as in `from`, which is this graph or one around
    /// it.
    #[must_use]
    pub fn sees(&self, from: &Scope<'_>, name: &str) -> bool {
        self.is(from)
            || !self.defines(name) && self.parent.is_some_and(|parent| parent.sees(from, name))
    }

    /// Whether it is the same graph, not an equal one.
    #[must_use]
    pub fn is(&self, other: &Scope<'_>) -> bool {
        self.address() == other.address()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether two values are the same: one value, or computed by the same operators from the same
    /// values. Each is named as in its own graph.
    #[must_use]
    pub fn is_same(&self, one: &str, scope: &Scope<'_>, other: &str) -> bool {
        self.first(one) == scope.first(other)
    }

    /// The first value computed like this one, and the address of its graph.
    pub fn first<'n>(&'n self, name: &'n str) -> (usize, &'n str) {
        if self.defines(name) {
            let first = &self.same.get_or_init(|| Same::of(self)).first;
            return (self.address(), first.get(name).map_or(name, String::as_str));
        }
        self.outer_first(name)
    }

    fn outer_first<'n>(&'n self, name: &'n str) -> (usize, &'n str) {
        self.parent.map_or((0, name), |parent| parent.first(name))
    }

    /// Whether this graph itself defines a value.
    #[must_use]
    pub fn defines(&self, name: &str) -> bool {
        self.producers.contains_key(name)
            || self.opaque.contains(name)
            || self.initializers.contains_key(name)
    }

    /// Returns the number of times that a value is read.
    #[must_use]
    pub fn uses(&self, name: &str) -> usize {
        self.uses.get(name).copied().unwrap_or(0)
    }

    /// A value's declaration. Runtimes enforce only those of graph inputs.
    pub fn declaration(&'a self, name: &str) -> Option<&'a ValueInfoProto> {
        let here = self
            .declared_inputs
            .get(name)
            .or_else(|| self.declared.get(name));
        match here {
            Some(value) => Some(value),
            None if self.defines(name) => None,
            None => self.parent?.declaration(name),
        }
    }
}

/// The declared names of a value's sizes: `None` if the rank is unknown, with `None` for each size
/// without a name.
pub(crate) fn names_of_sizes(value: &ValueInfoProto) -> Option<Vec<Option<&str>>> {
    let tensor = model::tensor_type(value)?;
    let names = tensor.shape.as_option()?.dim.iter().map(model::size_name);
    Some(names.collect())
}

impl Same {
    /// Finds a graph's equal values, in node order.
    fn of(scope: &Scope<'_>) -> Self {
        let mut same = Self {
            first: HashMap::new(),
            nodes: HashMap::new(),
        };
        for (index, node) in scope.nodes.iter().enumerate() {
            let Some(key) = same.key(scope, node) else {
                continue;
            };
            if let Some(&earlier) = same.nodes.get(&key) {
                let earlier = &scope.nodes[earlier].output;
                for (own, first) in std::iter::zip(&node.output, earlier) {
                    if !own.is_empty() && !first.is_empty() {
                        same.first.insert(own.clone(), first.clone());
                    }
                }
            } else {
                same.nodes.insert(key, index);
            }
        }
        same
    }

    /// A key of a node's computation; `None` if its outputs differ in every run.
    fn key(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<u8>> {
        let is_own = node.domain().is_empty() && node.graphs().next().is_none();
        if !is_own || is_random(node.op()) {
            return None;
        }
        let inputs = node.input.iter().map(|name| {
            let (graph, first) = match self.first.get(name) {
                Some(first) => (scope.address(), first.as_str()),
                None if scope.defines(name) => (scope.address(), name.as_str()),
                None => scope.outer_first(name),
            };
            format!("{graph}/{first}")
        });
        model::computation(node, inputs.collect())
    }
}

/// Counts reads of values by nodes and their subgraphs.
fn count_uses<'a>(nodes: &'a [NodeProto], uses: &mut HashMap<&'a str, usize>) {
    for node in model::all_nodes(nodes) {
        let outputs = node.graphs().flat_map(GraphProto::outputs);
        for name in node.inputs().chain(outputs) {
            *uses.entry(name).or_insert(0) += 1;
        }
    }
}

/// Names that no value or node of a model has.
pub struct Names {
    taken: RefCell<HashSet<String>>,
    /// The last numeric suffix tried for each name.
    numbers: RefCell<HashMap<String, usize>>,
}

impl Names {
    /// Reserves all names that a model mentions.
    #[must_use]
    pub fn new(model: &ModelProto) -> Self {
        let mut taken = model::trained_names(model);
        if let Some(graph) = model.graph.as_option() {
            graph.mentioned(&mut taken);
        }
        for function in &model.functions {
            let given = function.input.iter().chain(&function.output);
            taken.extend(given.map(String::as_str));
            let declared = function.value_info.iter();
            taken.extend(declared.filter_map(|value| value.name.as_deref()));
            model::mentioned(&function.node, &mut taken);
        }
        let taken = taken.into_iter().map(str::to_owned).collect();
        Self {
            taken: RefCell::new(taken),
            numbers: RefCell::default(),
        }
    }

    /// Reserves a free name, as close to `wish` as possible.
    pub fn fresh(&self, wish: &str) -> String {
        let mut taken = self.taken.borrow_mut();
        if taken.insert(wish.to_owned()) {
            return wish.to_owned();
        }
        let mut numbers = self.numbers.borrow_mut();
        let number = numbers.entry(wish.to_owned()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{wish}_{number}");
            if taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
