//! Random graphs as they are built, node by node.

use proptest::sample::Index;
use revseq_onnx::model::GraphProto;
use revseq_test_models::Writer;

use super::{BATCH, FEATURES, How, Layer, Step, TIME, TURNS, WIDTH, element};
use crate::common::INT32;

/// The inputs of each graph.
pub(super) const INPUTS: [&str; 4] = ["x", "lens", "times", "flag"];

/// Visits the name of each value where it is written, in the graphs of nodes, too.
pub(super) fn for_each_name(graph: &mut GraphProto, visit: &mut impl FnMut(&mut String)) {
    let values = graph.input.iter_mut().chain(&mut graph.output);
    let values = values.filter_map(|value| value.name.as_mut());
    let tensors = graph.initializer.iter_mut();
    let tensors = tensors.filter_map(|tensor| tensor.name.as_mut());
    values.chain(tensors).for_each(&mut *visit);
    for node in &mut graph.node {
        let names = node.input.iter_mut().chain(&mut node.output);
        names.for_each(&mut *visit);
        node.graphs_mut()
            .for_each(|graph| for_each_name(graph, visit));
    }
}

/// A value of three axes.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    /// The axis (time, batch or features) at each place.
    order: [usize; 3],
    features: usize,
}

impl Value {
    fn place(&self, axis: usize) -> usize {
        let found = self.order.iter().position(|&it| it == axis);
        found.expect("every axis is somewhere")
    }
}

/// A graph as it is made.
pub(super) struct Graph {
    opset: i64,
    for_ort: bool,
    element_type: i32,
    graph: Writer,
    values: Vec<Value>,
    states: Vec<String>,
}

impl Graph {
    pub(super) fn new(opset: i64, for_ort: bool, element_type: i32) -> Self {
        Self {
            opset,
            for_ort,
            element_type,
            graph: Writer::new(),
            values: vec![Value {
                name: "x".to_owned(),
                order: [TIME, BATCH, FEATURES],
                features: WIDTH,
            }],
            states: Vec::new(),
        }
    }

    fn op(&mut self, call: impl std::fmt::Display) -> String {
        self.graph.op(call)
    }

    /// Weights that are all alike as little as random ones.
    fn weights(&mut self, sizes: &[usize]) -> String {
        let seed = self.graph.count() + 1;
        let bytes = (0..sizes.iter().product()).flat_map(|index: usize| {
            let mixed = (index * 37 + seed * 11) % 64;
            element(self.element_type, mixed as f32 / 64.0 - 0.5)
        });
        let bytes = bytes.collect();
        self.graph.bytes(self.element_type, sizes, bytes)
    }

    /// An operator whose axes became an input in version 13.
    fn with_axis(&mut self, op: &str, input: &str, axis: usize) -> String {
        let keep = if op == "ReduceSum" { "keepdims=0" } else { "" };
        match self.opset < 13 {
            true => self.op(format_args!("{op}<axes=[{axis}];{keep}>({input})")),
            false => self.op(format_args!("{op}<{keep}>({input}, [{axis}])")),
        }
    }

    /// A graph within that reverses a value of the graph around it twice; its name.
    fn branch(&mut self, value: &Value, first: How, back: How) -> String {
        let inner = self.graph.within();
        let around = std::mem::replace(&mut self.graph, inner);
        let reversed = self.reverse(value, first);
        let output = self.reverse(&reversed, back).name;
        let branch = std::mem::replace(&mut self.graph, around);
        let output = format!("{output}:{}[b0,b1,b2]", self.type_name());
        self.graph.inner(branch.graph("", &output))
    }

    /// The text that stands for the type of elements.
    fn type_name(&self) -> &'static str {
        match self.element_type {
            super::FLOAT16 => "f16",
            super::DOUBLE => "f64",
            _ => "f32",
        }
    }

    fn turn(&mut self, value: &Value, perm: [usize; 3]) -> Value {
        Value {
            name: self.op(format_args!("Transpose<perm={perm:?}>({})", value.name)),
            order: perm.map(|axis| value.order[axis]),
            ..value.clone()
        }
    }

    /// Runtimes may round others by where an element lies.
    fn elementwise(&mut self, value: &Value, which: usize) -> Value {
        let op = ["Floor", "Neg", "Identity", "Abs", "Relu"][which];
        Value {
            name: self.op(format_args!("{op}({})", value.name)),
            ..value.clone()
        }
    }

    fn reverse(&mut self, value: &Value, how: How) -> Value {
        let places = [TIME, BATCH, FEATURES].map(|axis| value.place(axis));
        Value {
            name: self.reverse_at(&value.name, places, how),
            ..value.clone()
        }
    }

    /// Reverses a value whose axes are at these places.
    fn reverse_at(&mut self, name: &str, places: [usize; 3], how: How) -> String {
        let (time, batch) = match how {
            How::Across => (places[BATCH], places[TIME]),
            _ => (places[TIME], places[BATCH]),
        };
        let lengths = match how {
            How::Flip(axis) => {
                let (axis, first) = (places[axis], -i64::MAX);
                return self.op(format_args!(
                    "Slice({name}, [-1], [{first}], [{axis}], [-1])"
                ));
            }
            How::Lengths => "lens".to_owned(),
            How::Across => "times".to_owned(),
            How::Full => {
                let shape = self.op(format_args!("Shape({name})"));
                let [time, batch] =
                    [time, batch].map(|axis| self.op(format_args!("Gather({shape}, [{axis}])")));
                self.op(format_args!("Expand({time}, {batch})"))
            }
        };
        let axes = format_args!("batch_axis={batch};time_axis={time}");
        self.op(format_args!("ReverseSequence<{axes}>({name}, {lengths})"))
    }

    /// A step that the runtime takes for which the graph is.
    fn allowed(&self, step: Step, last: &Value) -> Step {
        let flat = |how: How| match how {
            How::Flip(_) => how,
            // ONNX Runtime has no other axes than 0 and 1.
            _ => How::Flip(TIME),
        };
        let is_first = last.place(FEATURES) == 2;
        match step {
            Step::Reverse(how) if self.for_ort && !is_first => Step::Reverse(flat(how)),
            Step::Twice(how, op, back) if self.for_ort && !is_first => {
                Step::Twice(flat(how), op, flat(back))
            }
            Step::Wide(axis, how) if self.for_ort && (axis < 2 || !is_first) => {
                Step::Wide(axis, flat(how))
            }
            Step::Around(turn, how, back) if self.for_ort && (turn != 0 || !is_first) => {
                Step::Around(turn, flat(how), back)
            }
            Step::Branch(how, back) if self.for_ort && !is_first => {
                Step::Branch(flat(how), flat(back))
            }
            _ => step,
        }
    }

    /// A layer over a value with the time first: all steps.
    fn layer(&mut self, value: &Value, layer: Layer, direction: usize) -> Value {
        let (op, gates) = [("RNN", 1), ("GRU", 3), ("LSTM", 4)][layer.kind];
        let hidden = layer.hidden;
        let directions = if direction == 2 { 2 } else { 1 };
        let sizes = [value.features, hidden];
        let [w, r] = sizes.map(|inputs| self.weights(&[directions, gates * hidden, inputs]));
        let b = self.weights(&[directions, 2 * gates * hidden]);
        let lengths = match layer.lengths {
            true => self.op(format_args!("Cast<to={INT32}>(lens)")),
            false => "_".to_owned(),
        };
        let direction = ["forward", "reverse", "bidirectional"][direction];
        let attributes = format_args!("hidden_size={hidden};direction={direction}");
        let inputs = format_args!("{}, {w}, {r}, {b}, {lengths}", value.name);
        let [steps, state] = self.graph.ops(format_args!("{op}<{attributes}>({inputs})"));
        if layer.state {
            self.states.push(state);
        }
        let op = ["Squeeze", "ReduceSum"][directions - 1];
        Value {
            name: self.with_axis(op, &steps, 1),
            order: [TIME, BATCH, FEATURES],
            features: hidden,
        }
    }

    /// The value with the time first, then the batch.
    fn time_major(&mut self, value: &Value) -> Value {
        let perm = [TIME, BATCH, FEATURES].map(|axis| value.place(axis));
        if perm == [0, 1, 2] {
            return value.clone();
        }
        self.turn(value, perm)
    }

    fn concat(&mut self, one: &Value, other: &Value) -> Value {
        let axis = one.place(FEATURES);
        Value {
            name: self.op(format_args!(
                "Concat<axis={axis}>({}, {})",
                one.name, other.name
            )),
            features: one.features + other.features,
            ..one.clone()
        }
    }

    /// One of the values that a value may be joined with.
    fn other(&self, value: &Value, which: Index, same_features: bool) -> Value {
        let fits = |other: &&Value| {
            other.order == value.order && (!same_features || other.features == value.features)
        };
        let fitting: Vec<&Value> = self.values.iter().filter(fits).collect();
        (*which.get(&fitting)).clone()
    }

    pub(super) fn add(&mut self, step: Step) {
        let last = self.values.last().expect("the input").clone();
        let made = match self.allowed(step, &last) {
            Step::Reverse(how) => self.reverse(&last, how),
            Step::Turn(which) => self.turn(&last, TURNS[which]),
            Step::Elementwise(which) => self.elementwise(&last, which),
            Step::Sum(which) => {
                let other = self.other(&last, which, true);
                let name = self.op(format_args!("Add({}, {})", last.name, other.name));
                Value { name, ..last }
            }
            Step::Concat(which) => {
                let other = self.other(&last, which, false);
                self.concat(&last, &other)
            }
            Step::Narrow => {
                let axis = last.place(FEATURES);
                let name = self.op(format_args!("Slice({}, [0], [2], [{axis}])", last.name));
                let features = last.features.min(2);
                Value {
                    name,
                    features,
                    ..last
                }
            }
            Step::Wide(axis, how) => {
                let wide = self.with_axis("Unsqueeze", &last.name, axis);
                let places = [TIME, BATCH, FEATURES].map(|it| {
                    let place = last.place(it);
                    place + usize::from(place >= axis)
                });
                let reversed = self.reverse_at(&wide, places, how);
                let name = self.with_axis("Squeeze", &reversed, axis);
                Value { name, ..last }
            }
            Step::Layer(layer, direction) => {
                let input = self.time_major(&last);
                self.layer(&input, layer, direction)
            }
            Step::Twice(first, op, back) => {
                let reversed = self.reverse(&last, first);
                let between = self.elementwise(&reversed, op);
                self.reverse(&between, back)
            }
            Step::Around(turn, how, back) => {
                let turned = self.turn(&last, TURNS[turn]);
                let reversed = self.reverse(&turned, how);
                self.turn(&reversed, TURNS[back])
            }
            Step::Both(layer, first, back) => {
                let input = self.time_major(&last);
                let forwards = self.layer(&input, layer, 0);
                let reversed = self.reverse(&input, first);
                let steps = self.layer(&reversed, layer, 0);
                let backwards = self.reverse(&steps, back);
                self.concat(&forwards, &backwards)
            }
            Step::Branch(first, back) => {
                let [one, other] = [first, back].map(|how| self.branch(&last, first, how));
                let branches = format_args!("then_branch=@{one};else_branch=@{other}");
                let name = self.op(format_args!("If<{branches}>(flag)"));
                Value { name, ..last }
            }
            Step::Mirror(layer) => {
                let input = self.time_major(&last);
                let [forwards, backwards] = [0, 1].map(|it| self.layer(&input, layer, it));
                self.concat(&forwards, &backwards)
            }
        };
        self.values.push(made);
    }

    pub(super) fn into_model(self, middle: usize) -> Vec<u8> {
        let of = self.type_name();
        let last = self.values.last().expect("a value");
        let mut outputs = vec![last.name.clone()];
        outputs.extend(self.states);
        let middle = &self.values[1..][middle].name;
        if !outputs.contains(middle) {
            outputs.push(middle.clone());
        }
        let outputs = outputs.iter().enumerate();
        let outputs: Vec<String> = outputs
            .map(|(at, name)| format!("{name}:{of}[o{at}_0,o{at}_1,o{at}_2]"))
            .collect();
        let inputs = format!("x:{of}[T,B,{WIDTH}] lens:i64[B] times:i64[T] flag:bool[]");
        self.graph.model(&inputs, &outputs.join(" "), self.opset)
    }
}
