//! Formulas as nodes in a list, which can be computed for one row, and are the body of a Scan.

use std::rc::Rc;

use crate::constant::Floats;
use crate::model::{self, AttributeProto, AttributeType, FLOAT, GraphProto, TensorProto};
use crate::passes::cells::{Activation, Cell, CellKind, Matrix};
use crate::passes::steps::body::Body;
use crate::scope::Scope;

pub(super) const FEATURES: usize = 2;
pub(super) const UNITS: usize = 3;

pub(super) type Value = usize;

#[derive(Clone, Debug)]
enum Node {
    Input,
    State(&'static str),
    Constant(Rc<Floats>),
    Renamed(Value),
    Binary(&'static str, Value, Value),
    Function(Activation, Value),
    Bounded(Value, f32, f32),
    Product(Value, Value, Option<Value>),
    Joined(Vec<Value>),
    Columns(Value, usize, usize),
}

#[derive(Default)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    /// Whether the operands of sums and products are exchanged.
    pub(super) is_turned: bool,
    seed: usize,
}

/// The number of columns, then elements for each.
fn row(of: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).map(|at| of[at % of.len()]).collect()
}

fn apply(function: Activation, x: f32) -> f32 {
    let (alpha, beta) = (
        function.alpha.unwrap_or_default(),
        function.beta.unwrap_or_default(),
    );
    match function.name {
        "Affine" => alpha * x + beta,
        "Elu" if x < 0.0 => alpha * x.exp_m1(),
        "HardSigmoid" => (alpha * x + beta).clamp(0.0, 1.0),
        "LeakyRelu" if x < 0.0 => alpha * x,
        "Relu" => x.max(0.0),
        "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "Softplus" => x.exp().ln_1p(),
        "Softsign" => x / (1.0 + x.abs()),
        "Tanh" => x.tanh(),
        "ThresholdedRelu" if x < alpha => 0.0,
        _ => x,
    }
}

/// A row times a matrix.
fn times(row: &[f32], matrix: &Matrix) -> Vec<f32> {
    let columns = matrix.by_columns();
    let columns = columns.chunks_exact(matrix.rows());
    columns
        .map(|column| std::iter::zip(row, column).map(|(a, b)| a * b).sum())
        .collect()
}

impl Arena {
    fn add(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(super) fn input(&mut self) -> Value {
        self.add(Node::Input)
    }

    pub(super) fn state(&mut self, name: &'static str) -> Value {
        let state = self.add(Node::State(name));
        self.add(Node::Renamed(state))
    }

    /// A constant with other numbers than those before.
    pub(super) fn constant(&mut self, sizes: &[usize]) -> Value {
        self.seed += 1;
        let count: usize = sizes.iter().product();
        let number = |at: usize| ((at * 31 + self.seed * 17) % 19) as f32 / 10.0 - 0.9;
        let elements = (0..count).map(number).collect();
        let sizes = sizes.to_vec();
        self.add(Node::Constant(Floats { sizes, elements }.into()))
    }

    pub(super) fn scalar(&mut self, number: f32) -> Value {
        let (sizes, elements) = (vec![], vec![number]);
        self.add(Node::Constant(Floats { sizes, elements }.into()))
    }

    pub(super) fn binary(&mut self, operator: &'static str, a: Value, b: Value) -> Value {
        let may_turn = !matches!(operator, "Sub" | "Div");
        let (a, b) = if self.is_turned && may_turn {
            (b, a)
        } else {
            (a, b)
        };
        let made = self.add(Node::Binary(operator, a, b));
        self.add(Node::Renamed(made))
    }

    pub(super) fn plus(&mut self, a: Value, b: Value) -> Value {
        self.binary("Add", a, b)
    }

    pub(super) fn minus(&mut self, a: Value, b: Value) -> Value {
        self.binary("Sub", a, b)
    }

    pub(super) fn times(&mut self, a: Value, b: Value) -> Value {
        self.binary("Mul", a, b)
    }

    pub(super) fn function(&mut self, function: Activation, of: Value) -> Value {
        self.add(Node::Function(function, of))
    }

    pub(super) fn bounded(&mut self, of: Value, low: f32, high: f32) -> Value {
        self.add(Node::Bounded(of, low, high))
    }

    /// A product with a new matrix.
    pub(super) fn product(&mut self, of: Value, columns: usize) -> Value {
        let rows = self.width(of);
        let weights = self.constant(&[rows, columns]);
        self.add(Node::Product(of, weights, None))
    }

    /// A product with a new matrix, plus a value.
    pub(super) fn product_and(&mut self, of: Value, columns: usize, more: Value) -> Value {
        let rows = self.width(of);
        let weights = self.constant(&[rows, columns]);
        self.add(Node::Product(of, weights, Some(more)))
    }

    pub(super) fn joined(&mut self, values: &[Value]) -> Value {
        self.add(Node::Joined(values.to_vec()))
    }

    pub(super) fn columns(&mut self, of: Value, first: usize, count: usize) -> Value {
        self.add(Node::Columns(of, first, count))
    }

    /// The sum `x W + h R + b` of a gate.
    pub(super) fn sum(&mut self, x: Value, h: Value) -> Value {
        let of_x = self.product(x, UNITS);
        let of_h = self.product(h, UNITS);
        let bias = self.constant(&[UNITS]);
        let sum = self.plus(of_x, of_h);
        self.plus(sum, bias)
    }

    /// Computes a value.
    pub(super) fn run(&self, value: Value) -> Vec<f32> {
        match &self.nodes[value] {
            Node::Input => vec![0.7, -0.4],
            Node::State("h") => vec![0.3, -0.8, 0.5],
            Node::State(_) => vec![-0.6, 0.2, 0.9],
            Node::Constant(constant) => constant.elements.clone(),
            Node::Renamed(of) => self.run(*of),
            Node::Binary(operator, a, b) => {
                let (a, b) = (self.run(*a), self.run(*b));
                let columns = a.len().max(b.len());
                let pairs = std::iter::zip(row(&a, columns), row(&b, columns));
                let number = |(a, b): (f32, f32)| match *operator {
                    "Add" => a + b,
                    "Sub" => a - b,
                    "Mul" => a * b,
                    "Div" => a / b,
                    "Max" => a.max(b),
                    _ => a.min(b),
                };
                pairs.map(number).collect()
            }
            Node::Function(function, of) => {
                let of = self.run(*of).into_iter();
                of.map(|x| apply(*function, x)).collect()
            }
            Node::Bounded(of, low, high) => {
                let of = self.run(*of).into_iter();
                of.map(|x| x.clamp(*low, *high)).collect()
            }
            Node::Product(of, weights, more) => {
                let Node::Constant(weights) = &self.nodes[*weights] else {
                    panic!("weights are constant");
                };
                let weights = Matrix::new(weights.clone()).expect("weights are a matrix");
                let product = times(&self.run(*of), &weights);
                let more = more.map_or_else(|| vec![0.0], |more| self.run(more));
                let more = row(&more, product.len());
                std::iter::zip(product, more).map(|(a, b)| a + b).collect()
            }
            Node::Joined(values) => values.iter().flat_map(|it| self.run(*it)).collect(),
            Node::Columns(of, first, count) => self.run(*of)[*first..first + count].to_vec(),
        }
    }

    /// Computes a cell by ONNX's equations: the output, and the new cell state.
    pub(super) fn layer(&self, cell: &Cell<'_>) -> (Vec<f32>, Option<Vec<f32>>) {
        let run = |name: &str| self.run(name[1..].parse().expect("its name has its number"));
        let (x, h) = (run(cell.input), run(cell.hidden));
        let zip = |a: &[f32], b: &[f32], of: fn(f32, f32) -> f32| -> Vec<f32> {
            std::iter::zip(a, b).map(|(a, b)| of(*a, *b)).collect()
        };
        let add = |a: &[f32], b: &[f32]| zip(a, b, |a, b| a + b);
        let mul = |a: &[f32], b: &[f32]| zip(a, b, |a, b| a * b);
        let zeros = vec![0.0; cell.units()];
        let of = |bias: &Option<Vec<f32>>| bias.clone().unwrap_or_else(|| zeros.clone());
        let act = |function: usize, of: Vec<f32>| -> Vec<f32> {
            let of = of.into_iter();
            of.map(|x| apply(cell.activations[function], x)).collect()
        };
        let of_input = |gate: usize| {
            let gate = &cell.gates[gate];
            add(&times(&x, &gate.input), &of(&gate.bias))
        };
        let gate = |number: usize, c: &[f32]| {
            let gate = &cell.gates[number];
            let sum = add(&of_input(number), &times(&h, &gate.state));
            add(&sum, &mul(&of(&gate.peephole), c))
        };
        match cell.kind {
            CellKind::Lstm => {
                let c = run(cell.memory.expect("an LSTM has a cell state").0);
                let (i, f) = (act(0, gate(0, &c)), act(0, gate(2, &c)));
                let new = add(&mul(&f, &c), &mul(&i, &act(1, gate(3, &zeros))));
                let o = act(0, gate(1, &new));
                (mul(&o, &act(2, new.clone())), Some(new))
            }
            CellKind::Gru {
                resets_after_product,
            } => {
                let (z, r) = (act(0, gate(0, &zeros)), act(0, gate(1, &zeros)));
                let last = &cell.gates[2];
                let seen = if resets_after_product {
                    let product = times(&h, &last.state);
                    mul(&r, &add(&product, &of(&last.state_bias)))
                } else {
                    times(&mul(&r, &h), &last.state)
                };
                let n = act(1, add(&of_input(2), &seen));
                let rest: Vec<f32> = z.iter().map(|z| 1.0 - z).collect();
                (add(&mul(&z, &h), &mul(&rest, &n)), None)
            }
            CellKind::Rnn => (act(0, gate(0, &zeros)), None),
        }
    }

    fn width(&self, value: Value) -> usize {
        match &self.nodes[value] {
            Node::Input => FEATURES,
            Node::State(_) => UNITS,
            Node::Constant(constant) => constant.sizes.last().copied().unwrap_or(1),
            Node::Renamed(of) | Node::Function(_, of) | Node::Bounded(of, ..) => self.width(*of),
            Node::Binary(_, a, b) => self.width(*a).max(self.width(*b)),
            Node::Product(_, weights, _) => self.width(*weights),
            Node::Joined(values) => values.iter().map(|it| self.width(*it)).sum(),
            Node::Columns(_, _, count) => *count,
        }
    }

    /// The cell that a Scan over the formulas has in a value.
    pub(super) fn cell(&self, output: Value) -> Option<Cell<'static>> {
        let outer: &GraphProto = Box::leak(Box::new(self.scan(output)));
        let scope: &Scope<'_> = Box::leak(Box::new(Scope::graph(outer, None, 17)));
        let node = &outer.node[0];
        let body = node.graph("body").expect("a Scan has a body");
        let inner = Box::leak(Box::new(Scope::form_of_body(body, scope, node)));
        let body = Body::of(scope, node, inner).expect("it is a Scan");
        Cell::of(&body, body.scanned[0].value)
    }

    fn scan(&self, output: Value) -> GraphProto {
        let name = |value: Value| format!("v{value}");
        let mut body = GraphProto::default();
        let mut outer = GraphProto::default();
        let mut constant = |name: String, tensor: TensorProto| {
            let name = Some(name);
            body.initializer.push(TensorProto { name, ..tensor });
        };
        let (mut nodes, mut states, mut slices) = (vec![], vec![], vec![]);
        for (value, node) in self.nodes.iter().enumerate() {
            let made = name(value);
            let mut add = |operator: &str, inputs: &[String], attributes| {
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                nodes.push(model::node(operator, &inputs, &[&made], attributes));
            };
            match node {
                Node::Input => slices.push(made),
                Node::State(_) => states.push(made),
                Node::Constant(of) => constant(made, of.to_tensor()),
                Node::Renamed(of) => add("Identity", &[name(*of)], vec![]),
                Node::Binary(operator, a, b) => add(operator, &[name(*a), name(*b)], vec![]),
                Node::Function(function, of) => {
                    let constants = [("alpha", function.alpha), ("beta", function.beta)];
                    let constants = constants.into_iter();
                    let attributes =
                        constants.filter_map(|(name, it)| Some(model::float(name, it?)));
                    add(function.name, &[name(*of)], attributes.collect());
                }
                Node::Bounded(of, low, high) => {
                    let bounds = [low, high].map(|bound| match bound.is_finite() {
                        true => format!("{made}_{bound}"),
                        false => String::new(),
                    });
                    for (name, bound) in std::iter::zip(&bounds, [low, high]) {
                        if !name.is_empty() {
                            constant(name.clone(), model::float_scalar(*bound));
                        }
                    }
                    let [low, high] = bounds;
                    add("Clip", &[name(*of), low, high], vec![]);
                }
                Node::Product(of, weights, None) => {
                    add("MatMul", &[name(*of), name(*weights)], vec![])
                }
                Node::Product(of, weights, Some(more)) => {
                    add("Gemm", &[*of, *weights, *more].map(name), vec![]);
                }
                Node::Joined(values) => {
                    let values: Vec<String> = values.iter().map(|it| name(*it)).collect();
                    add("Concat", &values, vec![model::int("axis", 1)]);
                }
                Node::Columns(of, first, count) => {
                    let numbers = [("first", *first), ("end", first + count), ("axis", 1)];
                    let numbers = numbers.map(|(what, number)| {
                        let name = format!("{made}_{what}");
                        constant(name.clone(), model::int64_tensor(&[1], &[number as i64]));
                        name
                    });
                    let [first, end, axis] = numbers;
                    add("Slice", &[name(*of), first, end, axis], vec![]);
                }
            }
        }
        let inputs = states.iter().chain(&slices);
        body.input = inputs.map(|name| model::untyped(name)).collect();
        // The next states, and what is collected.
        let outputs = std::iter::repeat_n(name(output), states.len() + 1);
        body.output = outputs.map(|name| model::untyped(&name)).collect();
        body.node = nodes;
        let sizes = |size: usize| [None, Some(size as i64)];
        let [_, features] = sizes(FEATURES);
        let mut given = vec![];
        for state in &states {
            given.push(format!("{state}_0"));
            outer
                .input
                .push(model::value(&given[given.len() - 1], FLOAT, &sizes(UNITS)));
        }
        for slice in &slices {
            given.push(format!("{slice}_all"));
            let sizes = [None, None, features];
            outer
                .input
                .push(model::value(&given[given.len() - 1], FLOAT, &sizes));
        }
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let last = states.iter().map(|state| format!("{state}_last"));
        let last: Vec<String> = last.chain(["all".to_owned()]).collect();
        let last: Vec<&str> = last.iter().map(String::as_str).collect();
        let body = AttributeProto {
            g: body.into(),
            ..model::attribute("body", AttributeType::GRAPH)
        };
        let count = model::int("num_scan_inputs", slices.len() as i64);
        outer.node = vec![model::node("Scan", &given, &last, vec![body, count])];
        outer
    }
}
