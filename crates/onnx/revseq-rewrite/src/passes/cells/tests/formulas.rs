//! Formulas as the nodes of a body: they can be computed for one row, and are the body of a Scan.
//!
//! `x` is the input, `h` and `c` are states. A name such as `w_2x3` is a constant of these sizes, a number one
//! without axes, and `[3]` an integer.

use std::collections::HashMap;

use crate::constant::Floats;
use crate::model::{
    self, AttributeProto, AttributeType, FLOAT, GraphProto, NodeProto, TensorProto, int64_tensor,
};
use crate::passes::cells::{Activation, Cell, CellKind, Matrix};
use crate::passes::steps::body::Body;
use crate::rename::identity;
use crate::scope::Scope;
use revseq_test_models::text;

pub(super) const FEATURES: usize = 2;
pub(super) const UNITS: usize = 3;

/// Operators whose operands may be exchanged, and those of two operands in which they may not.
const COMMUTATIVE: [&str; 4] = ["Add", "Max", "Min", "Mul"];
const ORDERED: [&str; 2] = ["Div", "Sub"];

/// A formula, whose last node makes its value.
pub(super) struct Formula {
    nodes: Vec<NodeProto>,
    constants: HashMap<String, Floats>,
}

/// The sizes of a constant, by its name.
fn sizes(name: &str) -> Option<Vec<usize>> {
    if name.parse::<f32>().is_ok() {
        return Some(Vec::new());
    }
    let (_, sizes) = name.rsplit_once('_')?;
    sizes.split('x').map(|size| size.parse().ok()).collect()
}

/// An integer, by its name.
fn integer(name: &str) -> Option<usize> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The number of columns, then elements for each.
fn row(of: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).map(|at| of[at % of.len()]).collect()
}

fn apply(name: &str, [alpha, beta]: [Option<f32>; 2], x: f32) -> f32 {
    let [alpha, beta] = [alpha, beta].map(Option::unwrap_or_default);
    match name {
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

impl Formula {
    /// Reads nodes, with the operands of sums and products exchanged if asked for. States, and what operators of
    /// two operands make, get other names, as exporters give them.
    pub(super) fn new(text: &str, is_turned: bool) -> Self {
        let states = ["h", "c"].map(|name| identity(name, &format!("{name}.same")));
        let mut formula = Self {
            nodes: states.to_vec(),
            constants: HashMap::new(),
        };
        for mut node in text::nodes(text) {
            for input in &mut node.input {
                if ["h", "c"].contains(&input.as_str()) {
                    *input += ".same";
                } else if let Some(sizes) = sizes(input) {
                    formula.add_constant(input, sizes);
                }
            }
            let is_commutative = COMMUTATIVE.contains(&node.op());
            if is_commutative && is_turned {
                node.input.reverse();
            }
            let output = node.output[0].clone();
            let is_renamed = is_commutative || ORDERED.contains(&node.op());
            if is_renamed {
                node.output[0] += ".made";
            }
            let renamed = is_renamed.then(|| identity(&node.output[0], &output));
            formula.nodes.push(node);
            formula.nodes.extend(renamed);
        }
        formula
    }

    /// A constant with other numbers than those before.
    fn add_constant(&mut self, name: &str, sizes: Vec<usize>) {
        let seed = self.constants.len() + 1;
        let number = |at: usize| ((at * 31 + seed * 17) % 19) as f32 / 10.0 - 0.9;
        let elements = match name.parse() {
            Ok(number) => vec![number],
            Err(_) => (0..sizes.iter().product()).map(number).collect(),
        };
        let constant = Floats { sizes, elements };
        self.constants.entry(name.to_owned()).or_insert(constant);
    }

    /// Computes the formula.
    pub(super) fn value(&self) -> Vec<f32> {
        self.run(self.output())
    }

    fn output(&self) -> &str {
        let last = self.nodes.last().expect("a formula has nodes");
        &last.output[0]
    }

    /// Computes a value.
    pub(super) fn run(&self, name: &str) -> Vec<f32> {
        let made = |node: &&NodeProto| node.output[0] == name;
        let Some(node) = self.nodes.iter().find(made) else {
            return match name {
                "x" => vec![0.7, -0.4],
                "h" => vec![0.3, -0.8, 0.5],
                "c" => vec![-0.6, 0.2, 0.9],
                _ => self.constants[name].elements.clone(),
            };
        };
        let operand = |index: usize| self.run(&node.input[index]);
        let binary = |number: fn(f32, f32) -> f32| {
            let (a, b) = (operand(0), operand(1));
            let columns = a.len().max(b.len());
            let pairs = std::iter::zip(row(&a, columns), row(&b, columns));
            pairs.map(|(a, b)| number(a, b)).collect()
        };
        match node.op() {
            "Identity" => operand(0),
            "Add" => binary(|a, b| a + b),
            "Sub" => binary(|a, b| a - b),
            "Mul" => binary(|a, b| a * b),
            "Div" => binary(|a, b| a / b),
            "Max" => binary(f32::max),
            "Min" => binary(f32::min),
            "MatMul" | "Gemm" => {
                let weights = self.constants[&node.input[1]].clone();
                let weights = Matrix::new(weights.into()).expect("weights are a matrix");
                let product = times(&operand(0), &weights);
                let more = node.input(2).map_or(vec![0.0], |more| self.run(more));
                let more = row(&more, product.len());
                std::iter::zip(product, more).map(|(a, b)| a + b).collect()
            }
            "Clip" => {
                let bound =
                    |index: usize, none| node.input(index).map_or(none, |it| self.run(it)[0]);
                let (low, high) = (bound(1, f32::NEG_INFINITY), bound(2, f32::INFINITY));
                operand(0).into_iter().map(|x| x.clamp(low, high)).collect()
            }
            "Concat" => node.inputs().flat_map(|part| self.run(part)).collect(),
            "Slice" => {
                let bounds = [1, 2].map(|index: usize| integer(&node.input[index]));
                let [start, end] = bounds.map(|bound| bound.expect("an integer"));
                operand(0)[start..end].to_vec()
            }
            function => {
                let constants = ["alpha", "beta"].map(|name| node.float(name).value());
                let operand = operand(0).into_iter();
                operand.map(|x| apply(function, constants, x)).collect()
            }
        }
    }

    /// Computes a cell by ONNX's equations: the output, and the new cell state.
    pub(super) fn layer(&self, cell: &Cell<'_>) -> (Vec<f32>, Option<Vec<f32>>) {
        let (x, h) = (self.run(cell.input), self.run(cell.hidden));
        let zip = |a: &[f32], b: &[f32], of: fn(f32, f32) -> f32| -> Vec<f32> {
            std::iter::zip(a, b).map(|(a, b)| of(*a, *b)).collect()
        };
        let add = |a: &[f32], b: &[f32]| zip(a, b, |a, b| a + b);
        let mul = |a: &[f32], b: &[f32]| zip(a, b, |a, b| a * b);
        let zeros = vec![0.0; cell.units()];
        let of = |bias: &Option<Vec<f32>>| bias.clone().unwrap_or_else(|| zeros.clone());
        let act = |function: usize, of: Vec<f32>| -> Vec<f32> {
            let Activation { name, alpha, beta } = cell.activations[function];
            let of = of.into_iter();
            of.map(|x| apply(name, [alpha, beta], x)).collect()
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
                let c = self.run(cell.memory.expect("an LSTM has a cell state").0);
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

    /// The cell that a Scan over the formula has in its value.
    pub(super) fn cell(&self) -> Option<Cell<'static>> {
        let outer: &GraphProto = Box::leak(Box::new(self.scan()));
        let scope: &Scope<'_> = Box::leak(Box::new(Scope::graph(outer, None, 17)));
        let node = &outer.node[0];
        let body = node.graph("body").expect("a Scan has a body");
        let inner = Box::leak(Box::new(Scope::form_of_body(body, scope, node)));
        let body = Body::of(scope, node, inner).expect("it is a Scan");
        Cell::of(&body, body.scanned[0].value)
    }

    /// A Scan that gives the value as the next states and as an output.
    fn scan(&self) -> GraphProto {
        let integers = self.nodes.iter().flat_map(NodeProto::inputs);
        let integers = integers.filter_map(|name| Some((name, integer(name)? as i64)));
        let integers: HashMap<&str, i64> = integers.collect();
        let integers = integers.into_iter();
        let integers = integers.map(|(name, number)| (name, int64_tensor(&[1], &[number])));
        let floats = self.constants.iter();
        let floats = floats.map(|(name, floats)| (name.as_str(), floats.to_tensor()));
        let constants = integers.chain(floats).map(|(name, tensor)| TensorProto {
            name: Some(name.to_owned()),
            ..tensor
        });
        let body = GraphProto {
            node: self.nodes.clone(),
            input: ["h", "c", "x"].map(model::untyped).to_vec(),
            output: vec![model::untyped(self.output()); 3],
            initializer: constants.collect(),
            ..GraphProto::default()
        };
        let body = AttributeProto {
            g: body.into(),
            ..model::attribute("body", AttributeType::GRAPH)
        };
        let attributes = vec![body, model::int("num_scan_inputs", 1)];
        let [units, features] = [UNITS, FEATURES].map(|size| Some(size as i64));
        let (inputs, outputs) = (["h0", "c0", "xs"], ["h1", "c1", "ys"]);
        GraphProto {
            node: vec![model::node("Scan", &inputs, &outputs, attributes)],
            input: vec![
                model::value("h0", FLOAT, &[None, units]),
                model::value("c0", FLOAT, &[None, units]),
                model::value("xs", FLOAT, &[None, None, features]),
            ],
            ..GraphProto::default()
        }
    }
}
