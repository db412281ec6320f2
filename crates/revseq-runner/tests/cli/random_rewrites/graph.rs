//! Random graphs as they are built, node by node.

use proptest::sample::Index;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

use super::{BATCH, FEATURES, How, Layer, Step, TIME, TURNS, WIDTH, element};
use crate::common::{BOOL, INT64, graph_attribute, int, int64s, model, node, tensor, value};

/// The inputs of each graph.
pub(super) const INPUTS: [&str; 4] = ["x", "lens", "times", "flag"];

/// Visits the name of each value where it is written, in the graphs of nodes, too.
pub(super) fn for_each_name(graph: &mut GraphProto, visit: &mut impl FnMut(&mut String)) {
    let values = graph.input.iter_mut().chain(&mut graph.output);
    values.for_each(|value| visit(&mut value.name));
    graph
        .initializer
        .iter_mut()
        .for_each(|tensor| visit(&mut tensor.name));
    for node in &mut graph.node {
        node.input
            .iter_mut()
            .chain(&mut node.output)
            .for_each(&mut *visit);
        let inner = node
            .attribute
            .iter_mut()
            .filter_map(|attribute| attribute.g.as_mut());
        for graph in inner {
            for_each_name(graph, visit);
        }
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
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    values: Vec<Value>,
    states: Vec<String>,
    count: usize,
}

impl Graph {
    pub(super) fn new(opset: i64, for_ort: bool, element_type: i32) -> Self {
        Self {
            opset,
            for_ort,
            element_type,
            nodes: Vec::new(),
            initializers: Vec::new(),
            values: vec![Value {
                name: "x".to_owned(),
                order: [TIME, BATCH, FEATURES],
                features: WIDTH,
            }],
            states: Vec::new(),
            count: 0,
        }
    }

    fn fresh(&mut self, name: &str) -> String {
        self.count += 1;
        format!("{name}{}", self.count)
    }

    fn op(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.fresh(op);
        let mut made = node(op, inputs, &[&output]);
        made.attribute = attributes;
        self.nodes.push(made);
        output
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = self.fresh("ints");
        self.initializers.push(int64s(&name, values));
        name
    }

    /// Weights that are all alike as little as random ones.
    fn weights(&mut self, sizes: &[usize]) -> String {
        let name = self.fresh("weights");
        let seed = self.count;
        let bytes: Vec<u8> = (0..sizes.iter().product())
            .flat_map(|index: usize| {
                let mixed = (index * 37 + seed * 11) % 64;
                element(self.element_type, mixed as f32 / 64.0 - 0.5)
            })
            .collect();
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.initializers
            .push(tensor(&name, self.element_type, &sizes, &bytes));
        name
    }

    /// An operator whose axes became an input in version 13.
    fn with_axis(&mut self, op: &str, input: &str, axis: usize) -> String {
        let keep = (op == "ReduceSum").then(|| int("keepdims", 0));
        if self.opset < 13 {
            let axes = ints("axes", &[axis as i64]);
            return self.op(op, &[input], keep.into_iter().chain([axes]).collect());
        }
        let axes = self.ints(&[axis as i64]);
        self.op(op, &[input, &axes], keep.into_iter().collect())
    }

    /// A graph within that reverses a value of the graph around it twice.
    fn branch(&mut self, value: &Value, first: How, back: How) -> GraphProto {
        let before = self.nodes.len();
        let reversed = self.reverse(value, first);
        let output = self.reverse(&reversed, back);
        let nodes = self.nodes.split_off(before);
        let sizes = ["b0", "b1", "b2"];
        GraphProto {
            name: self.fresh("branch"),
            node: nodes,
            output: vec![crate::common::value(
                &output.name,
                self.element_type,
                &sizes,
            )],
            ..GraphProto::default()
        }
    }

    fn turn(&mut self, value: &Value, perm: [usize; 3]) -> Value {
        let attribute = ints("perm", &perm.map(|axis| axis as i64));
        Value {
            name: self.op("Transpose", &[&value.name], vec![attribute]),
            order: perm.map(|axis| value.order[axis]),
            ..value.clone()
        }
    }

    /// Runtimes may round others by where an element lies.
    fn elementwise(&mut self, value: &Value, which: usize) -> Value {
        let op = ["Floor", "Neg", "Identity", "Abs", "Relu"][which];
        Value {
            name: self.op(op, &[&value.name], Vec::new()),
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
                let [minus, axis] = [-1, places[axis] as i64].map(|it| self.ints(&[it]));
                let first = self.ints(&[-i64::MAX]);
                return self.op("Slice", &[name, &minus, &first, &axis, &minus], Vec::new());
            }
            How::Lengths => "lens".to_owned(),
            How::Across => "times".to_owned(),
            How::Full => {
                let shape = self.op("Shape", &[name], Vec::new());
                let [time, batch] = [time, batch].map(|axis| {
                    let axis = self.ints(&[axis as i64]);
                    self.op("Gather", &[&shape, &axis], Vec::new())
                });
                self.op("Expand", &[&time, &batch], Vec::new())
            }
        };
        let axes = vec![
            int("batch_axis", batch as i64),
            int("time_axis", time as i64),
        ];
        self.op("ReverseSequence", &[name, &lengths], axes)
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
        let mut inputs = vec![value.name.clone(), w, r, b];
        if layer.lengths {
            inputs.push(self.op("Cast", &["lens"], vec![int("to", 6)]));
        }
        let (steps, state) = (self.fresh("steps"), self.fresh("state"));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut made = node(op, &inputs, &[&steps, &state]);
        made.attribute.push(int("hidden_size", hidden as i64));
        let names: [&[u8]; 3] = [b"forward", b"reverse", b"bidirectional"];
        made.attribute.push(AttributeProto {
            name: "direction".to_owned(),
            r#type: AttributeType::String as i32,
            s: names[direction].to_vec(),
            ..AttributeProto::default()
        });
        self.nodes.push(made);
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
        let axis = int("axis", one.place(FEATURES) as i64);
        Value {
            name: self.op("Concat", &[&one.name, &other.name], vec![axis]),
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
                let name = self.op("Add", &[&last.name, &other.name], Vec::new());
                Value { name, ..last }
            }
            Step::Concat(which) => {
                let other = self.other(&last, which, false);
                self.concat(&last, &other)
            }
            Step::Narrow => {
                let [start, end, axis] =
                    [0, 2, last.place(FEATURES) as i64].map(|it| self.ints(&[it]));
                let name = self.op("Slice", &[&last.name, &start, &end, &axis], Vec::new());
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
                let made = [first, back].map(|how| self.branch(&last, first, how));
                let attributes = ["then_branch", "else_branch"].into_iter().zip(made);
                let attributes = attributes.map(|(name, graph)| graph_attribute(name, graph));
                let name = self.op("If", &["flag"], attributes.collect());
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

    pub(super) fn into_model(self, middle: usize) -> ModelProto {
        let element_type = self.element_type;
        let last = self.values.last().expect("a value");
        let mut outputs = vec![last.name.clone()];
        outputs.extend(self.states);
        let made = &self.values[1..];
        let middle = &made[middle].name;
        if !outputs.contains(middle) {
            outputs.push(middle.clone());
        }
        let output = outputs.iter().enumerate().map(|(index, name)| {
            let sizes = [0, 1, 2].map(|axis| format!("o{index}_{axis}"));
            value(name, element_type, &sizes.each_ref().map(String::as_str))
        });
        let graph = GraphProto {
            name: "graph".to_owned(),
            input: vec![
                value("x", element_type, &["T", "B", &WIDTH.to_string()]),
                value("lens", INT64, &["B"]),
                value("times", INT64, &["T"]),
                value("flag", BOOL, &[]),
            ],
            output: output.collect(),
            node: self.nodes,
            initializer: self.initializers,
            ..GraphProto::default()
        };
        let mut made = model(graph);
        made.opset_import[0].version = self.opset;
        made
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: AttributeType::Ints as i32,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}
