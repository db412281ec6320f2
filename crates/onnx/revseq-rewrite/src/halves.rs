//! Computes half floats in floats: as ONNX Runtime does, for a processor without such instructions.
//!
//! Between the first and the last operator that computes, values stay floats. They are rounded where
//! a program can see it: at outputs of the model, and where the model casts them. An operator that
//! only moves half floats moves them as they are, to the bit. Constants are widened here, so that no
//! run does.
//!
//! ```text
//! x: float16, w: float16        x: float16, w.float32: float
//! a = MatMul(x, w)              x.float32 = Cast<to=float>(x)
//! y = Tanh(a)                   a = MatMul(x.float32, w.float32)
//!                               y.float32 = Tanh(a)
//!                               y = Cast<to=float16>(y.float32)
//! ```
//!
//! Graphs are walked three times in one order, by which they are known: values get their types and
//! how they are held, nodes read them as they need them, and casts are written behind what makes a
//! value that is needed both ways.

use std::collections::{HashMap, HashSet};

use half::f16;

use crate::model::{
    self, FLOAT, FLOAT16, GraphProto, LoopLayout, ModelProto, NodeProto, TensorProto,
    ValueInfoProto, int, node,
};
use crate::operators::{HalfFloats, Operator};
use crate::scope::Names;
use crate::types::{OutputType, of_output};

/// The type in which half floats are held, in the order in which one prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Halves,
    Floats,
}

impl Held {
    fn code(self) -> i32 {
        match self {
            Self::Halves => FLOAT16,
            Self::Floats => FLOAT,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Halves => "float16",
            Self::Floats => "float32",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Halves => Self::Floats,
            Self::Floats => Self::Halves,
        }
    }
}

/// A value of half floats.
struct Value {
    held: Held,
    /// Its name as it is held.
    name: String,
    /// The name under which it is held the other way, once a node needs it so.
    other: Option<String>,
    /// Whether it is read as it is held.
    is_read: bool,
}

/// An operator whose types are not known reads half floats.
struct UnknownTypes;

/// Computes a model's half floats in floats, and returns whether it could.
///
/// Nodes have to be sorted and functions inlined, as [`for_tract`](crate::for_tract) does. A model
/// stays as it is if it has no half floats, or if an operator that reads them is not known.
pub fn compute_halves_in_floats(model: &mut ModelProto) -> bool {
    let Some(graph) = model.graph.as_option().filter(|it| has_halves(it)) else {
        return false;
    };
    let mut halves = Halves::default();
    let mut is_settled = false;
    while !is_settled {
        halves.is_changed = false;
        if halves.find(graph, None).is_err() {
            return false;
        }
        halves.next = 0;
        is_settled = !halves.is_changed;
    }
    let names = Names::new(model);
    if let Some(graph) = model.graph.as_option_mut() {
        halves.rename_outputs(graph, &names);
        halves.read(graph, None, &names);
        halves.next = 0;
        halves.cast(graph);
    }
    true
}

/// Whether a graph, or one in it, has half floats: others come from these.
fn has_halves(graph: &GraphProto) -> bool {
    graph.with_inner().any(|graph| {
        let mut tensors = graph.initializer.iter();
        let mut nodes = graph.node.iter();
        tensors.any(|tensor| tensor.code() == FLOAT16)
            || graph.input.iter().any(is_declared)
            || nodes.any(|node| of_output(node, 0) == OutputType::Code(FLOAT16))
    })
}

/// Whether a value is declared as half floats.
fn is_declared(value: &ValueInfoProto) -> bool {
    model::element_type(value) == Some(FLOAT16)
}

/// The half floats of a model.
#[derive(Default)]
struct Halves {
    /// The values of each graph, in the order in which graphs are entered; `None` for other types.
    graphs: Vec<HashMap<String, Option<Value>>>,
    /// The index of the graph that is entered next.
    next: usize,
    /// The entered graphs.
    around: Vec<usize>,
    /// Whether a value is held otherwise than when it was defined.
    is_changed: bool,
}

impl Halves {
    fn enter(&mut self) {
        if self.next == self.graphs.len() {
            self.graphs.push(HashMap::new());
        }
        self.around.push(self.next);
        self.next += 1;
    }

    fn leave(&mut self) {
        self.around.pop();
    }

    /// The place of a value of half floats: its graph.
    fn graph_of(&self, name: &str) -> Option<usize> {
        let mut around = self.around.iter().rev();
        let index = *around.find(|&&index| self.graphs[index].contains_key(name))?;
        self.graphs[index][name].is_some().then_some(index)
    }

    fn held(&self, name: &str) -> Option<Held> {
        self.held_in(self.graph_of(name)?, name)
    }

    fn held_in(&self, graph: usize, name: &str) -> Option<Held> {
        Some(self.graphs[graph].get(name)?.as_ref()?.held)
    }

    /// Defines a value of the innermost graph: how it is held, if it is of half floats.
    fn define(&mut self, name: &str, held: Option<Held>) {
        if let Some(&graph) = self.around.last().filter(|_| !name.is_empty()) {
            self.define_in(graph, name, held);
        }
    }

    fn define_in(&mut self, graph: usize, name: &str, held: Option<Held>) {
        let Some(known) = self.graphs[graph].get_mut(name) else {
            let value = held.map(|held| Value {
                held,
                name: name.to_owned(),
                other: None,
                is_read: false,
            });
            self.graphs[graph].insert(name.to_owned(), value);
            return;
        };
        if let (Some(known), Some(held)) = (known, held)
            && known.held < held
        {
            known.held = held;
            self.is_changed = true;
        }
    }

    /// Finds the half floats of a graph, and returns how its outputs are held. A body's inputs are
    /// held as it is given.
    fn find(
        &mut self,
        graph: &GraphProto,
        inputs: Option<&[Option<Held>]>,
    ) -> Result<Vec<Option<Held>>, UnknownTypes> {
        self.enter();
        for (index, input) in graph.input.iter().enumerate() {
            let held = match inputs {
                Some(inputs) => inputs.get(index).copied().flatten(),
                None => is_declared(input).then_some(Held::Halves),
            };
            self.define(input.name(), held);
        }
        for tensor in &graph.initializer {
            // One that is an input as well is known, and stays what it is.
            let held = (tensor.code() == FLOAT16).then_some(Held::Halves);
            self.define(tensor.name(), held);
        }
        for node in &graph.node {
            self.find_node(node)?;
        }
        let outputs = graph.outputs().map(|name| self.held(name)).collect();
        self.leave();
        Ok(outputs)
    }

    fn find_node(&mut self, node: &NodeProto) -> Result<(), UnknownTypes> {
        let outputs = match node.op() {
            _ if node.graphs().next().is_none() => self.outputs(node)?,
            "If" if node.is("If") => self.find_branches(node)?,
            _ if node.domain().is_empty() => {
                let layout = LoopLayout::of(node).ok_or(UnknownTypes)?;
                self.find_loop(node, &layout)?
            }
            _ => return Err(UnknownTypes),
        };
        for (index, output) in node.output.iter().enumerate() {
            self.define(output, outputs.get(index).copied().flatten());
        }
        Ok(())
    }

    /// How the outputs of a node without graphs are held.
    fn outputs(&self, node: &NodeProto) -> Result<Vec<Option<Held>>, UnknownTypes> {
        let mut held = node.inputs().filter_map(|name| self.held(name));
        let is_concerned = held.next().is_some();
        let made = match how(node) {
            HalfFloats::Moves => self.prevailing(node),
            HalfFloats::Computes => Held::Floats,
            HalfFloats::MeansHalves | HalfFloats::ReadsBoth => Held::Halves,
        };
        let outputs = (0..node.output.len()).map(|index| {
            let is_half = match of_output(node, index) {
                OutputType::Code(code) => code == FLOAT16,
                OutputType::Input(input) => {
                    let input = node.input(input).and_then(|name| self.held(name));
                    input.is_some()
                }
                // Without half floats among its inputs, an operator names their type.
                OutputType::NoStrings | OutputType::Unknown => match is_concerned {
                    true => return Err(UnknownTypes),
                    false => false,
                },
            };
            Ok(is_half.then_some(made))
        });
        outputs.collect()
    }

    /// How a node that moves its inputs takes them.
    fn prevailing(&self, node: &NodeProto) -> Held {
        let held = node.inputs().filter_map(|name| self.held(name)).max();
        held.unwrap_or(Held::Halves)
    }

    fn find_branches(&mut self, node: &NodeProto) -> Result<Vec<Option<Held>>, UnknownTypes> {
        let mut outputs = vec![None; node.output.len()];
        for branch in node.graphs() {
            let held = self.find(branch, Some(&[]))?;
            for (output, held) in std::iter::zip(&mut outputs, held) {
                *output = (*output).max(held);
            }
        }
        Ok(outputs)
    }

    fn find_loop(
        &mut self,
        node: &NodeProto,
        layout: &LoopLayout,
    ) -> Result<Vec<Option<Held>>, UnknownTypes> {
        let body = node.graph("body").ok_or(UnknownTypes)?;
        let index = self.next;
        let inputs = node.input.iter().map(|name| self.held(name));
        let inputs: Vec<_> = inputs.collect();
        let mut outputs = self.find(body, Some(&inputs))?;
        // A state is held as its first value and the body's, whichever prevails.
        let names = body.inputs().skip(layout.leading_inputs);
        for (position, name) in names.take(layout.states).enumerate() {
            if let Some(output) = outputs.get_mut(layout.leading_outputs + position) {
                self.define_in(index, name, *output);
                *output = self.held_in(index, name);
            }
        }
        Ok(outputs.split_off(layout.leading_outputs.min(outputs.len())))
    }

    /// Gives other names to what the main graph's outputs are rounded from.
    fn rename_outputs(&mut self, graph: &GraphProto, names: &Names) {
        for name in graph.outputs() {
            let value = self.graphs[0].get_mut(name).and_then(Option::as_mut);
            if let Some(value) = value.filter(|value| value.held == Held::Floats) {
                value.name = names.fresh(&format!("{name}.{}", value.held.name()));
                value.other = Some(name.to_owned());
            }
        }
    }

    /// Makes the nodes and outputs of a graph read values as they need them: the outputs of an inner
    /// graph as `needed` says, those of the main graph as half floats.
    fn read(&mut self, graph: &mut GraphProto, needed: Option<&[Option<Held>]>, names: &Names) {
        self.enter();
        // The types of values between nodes follow from these.
        graph.value_info.retain(|value| !is_declared(value));
        if needed.is_some() {
            for input in &mut graph.input {
                let held = self.held(input.name());
                declare(input, held);
            }
        }
        for node in &mut graph.node {
            self.read_node(node, names);
        }
        for (index, output) in graph.output.iter_mut().enumerate() {
            let needed = match needed {
                Some(needed) => needed.get(index).copied().flatten(),
                None => Some(Held::Halves),
            };
            if let Some(name) = &mut output.name {
                let held = self.held(name);
                self.read_as(name, needed, names);
                declare(output, held.map(|held| needed.unwrap_or(held)));
            }
        }
        self.leave();
    }

    fn read_node(&mut self, node: &mut NodeProto, names: &Names) {
        if node.graphs().next().is_none() {
            let needed = match how(node) {
                HalfFloats::Moves => Some(self.prevailing(node)),
                HalfFloats::Computes => Some(Held::Floats),
                HalfFloats::MeansHalves => Some(Held::Halves),
                HalfFloats::ReadsBoth => None,
            };
            for input in &mut node.input {
                self.read_as(input, needed, names);
            }
            return;
        }
        let outputs = node.output.iter().map(|name| self.held(name));
        let mut needed: Vec<_> = outputs.collect();
        if let Some(layout) = LoopLayout::of(node) {
            let body = node.graph("body").into_iter().flat_map(GraphProto::inputs);
            let inputs_held = body
                .skip(layout.leading_inputs)
                .map(|name| self.held_in(self.next, name));
            let inputs_held: Vec<_> = inputs_held.collect();
            // A state that nothing reads has no name.
            for (needed, held) in std::iter::zip(&mut needed, &inputs_held).take(layout.states) {
                *needed = *held;
            }
            let inputs = node.input.iter_mut().skip(layout.leading_inputs);
            for (input, held) in std::iter::zip(inputs, inputs_held) {
                self.read_as(input, held, names);
            }
            needed.splice(0..0, vec![None; layout.leading_outputs]);
        }
        for graph in node.graphs_mut() {
            self.read(graph, Some(&needed), names);
        }
    }

    /// Changes a name to that of the value as it is needed, if it is of half floats.
    fn read_as(&mut self, name: &mut String, needed: Option<Held>, names: &Names) {
        let Some(graph) = self.graph_of(name) else {
            return;
        };
        let Some(Some(value)) = self.graphs[graph].get_mut(name) else {
            return;
        };
        if needed.is_none_or(|needed| needed == value.held) {
            value.is_read = true;
            name.clone_from(&value.name);
            return;
        }
        let other = value.held.other().name();
        let other = value
            .other
            .get_or_insert_with(|| names.fresh(&format!("{name}.{other}")));
        name.clone_from(other);
    }

    /// Writes what makes the values that are needed the other way.
    fn cast(&mut self, graph: &mut GraphProto) {
        self.enter();
        let inputs: HashSet<String> = graph.inputs().map(str::to_owned).collect();
        let inputs_in_order = graph.inputs();
        let mut nodes: Vec<_> = inputs_in_order
            .filter_map(|name| self.cast_of(name))
            .collect();
        for tensor in std::mem::take(&mut graph.initializer) {
            let is_input = inputs.contains(tensor.name());
            let value = self.own(tensor.name()).filter(|_| !is_input);
            match value.and_then(|value| widened(&tensor, value.other.as_deref()?)) {
                Some(wide) => {
                    if value.is_some_and(|value| value.is_read) {
                        graph.initializer.push(tensor);
                    }
                    graph.initializer.push(wide);
                }
                None => {
                    let cast = self.cast_of(tensor.name()).filter(|_| !is_input);
                    nodes.extend(cast);
                    graph.initializer.push(tensor);
                }
            }
        }
        for (index, mut node) in std::mem::take(&mut graph.node).into_iter().enumerate() {
            // Messages name a node by its place in the model, before casts came between.
            node.name = Some(node.label(index));
            for inner in node.graphs_mut() {
                self.cast(inner);
            }
            let value = node.output.first().and_then(|name| self.own(name));
            if let Some(wide) = value.and_then(|it| widened_constant(&node, it.other.as_deref()?)) {
                if value.is_some_and(|value| value.is_read) {
                    nodes.push(node);
                }
                nodes.push(wide);
                continue;
            }
            let casts = node.output.iter().filter_map(|name| self.cast_of(name));
            let casts: Vec<_> = casts.collect();
            for output in &mut node.output {
                if let Some(value) = self.own(output) {
                    output.clone_from(&value.name);
                }
            }
            nodes.push(node);
            nodes.extend(casts);
        }
        graph.node = nodes;
        self.leave();
    }

    /// A value of the innermost graph, by its name in the model.
    fn own(&self, name: &str) -> Option<&Value> {
        self.graphs[*self.around.last()?].get(name)?.as_ref()
    }

    /// The node that makes the other form of a value, if one is needed.
    fn cast_of(&self, name: &str) -> Option<NodeProto> {
        let value = self.own(name)?;
        let other = value.other.as_deref()?;
        let to = int("to", value.held.other().code().into());
        let mut cast = node("Cast", &[&value.name], &[other], vec![to]);
        cast.name = Some(other.to_owned());
        Some(cast)
    }
}

/// How a node takes half floats.
fn how(node: &NodeProto) -> HalfFloats {
    let combines = || !matches!(node.text("reduction").or("none"), Some("none"));
    match Operator::of(node.op()).map_or(HalfFloats::Computes, |it| it.halves) {
        HalfFloats::Moves if combines() => HalfFloats::Computes,
        halves => halves,
    }
}

/// Changes the type of a value that is declared as half floats to that in which it is held.
fn declare(value: &mut ValueInfoProto, held: Option<Held>) {
    let is_half = is_declared(value);
    if let (Some(tensor), Some(held), true) = (model::tensor_type_mut(value), held, is_half) {
        tensor.elem_type = Some(held.code());
    }
}

/// A tensor of half floats in floats, under another name; `None` if its data is not at hand.
fn widened(tensor: &TensorProto, name: &str) -> Option<TensorProto> {
    let bytes = revseq_onnx::tensor::bytes(tensor).ok()?;
    let (halves, _) = bytes.as_chunks();
    let floats = halves.iter().map(|&half| f16::from_le_bytes(half).to_f32());
    Some(TensorProto {
        name: Some(name.to_owned()),
        dims: tensor.dims.clone(),
        data_type: Some(FLOAT),
        raw_data: Some(floats.flat_map(f32::to_le_bytes).collect()),
        ..TensorProto::default()
    })
}

/// A node that makes a constant of half floats, of floats, under another name; `None` for other
/// nodes.
fn widened_constant(node: &NodeProto, name: &str) -> Option<NodeProto> {
    if !node.is("Constant") && !node.is("ConstantOfShape") {
        return None;
    }
    let mut wide = node.clone();
    for attribute in &mut wide.attribute {
        let value = attribute.t.as_option_mut()?;
        *value = widened(value, "")?;
    }
    wide.name = Some(name.to_owned());
    wide.output = vec![name.to_owned()];
    Some(wide)
}
