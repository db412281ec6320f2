//! Formulas as nodes in a list, of one row, which can be computed.

use crate::{Activation, Cell, Constant, Kind, Matrix, Operator, Product, Step};

pub(super) const FEATURES: usize = 2;
pub(super) const UNITS: usize = 3;

pub(super) type Value = usize;

#[derive(Clone, Debug)]
enum Node {
    Input,
    State(&'static str),
    Constant(Constant),
    Renamed(Value),
    Binary(Operator, Value, Value),
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
    match function {
        Activation::Affine { alpha, beta } => alpha * x + beta,
        Activation::Elu { alpha } if x < 0.0 => alpha * x.exp_m1(),
        Activation::HardSigmoid { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
        Activation::LeakyRelu { alpha } if x < 0.0 => alpha * x,
        Activation::Relu => x.max(0.0),
        Activation::ScaledTanh { alpha, beta } => alpha * (beta * x).tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Softplus => x.exp().ln_1p(),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Tanh => x.tanh(),
        Activation::ThresholdedRelu { alpha } if x < alpha => 0.0,
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
        let constant = Constant::new(sizes.to_vec(), elements).expect("as many as the sizes say");
        self.add(Node::Constant(constant))
    }

    pub(super) fn scalar(&mut self, number: f32) -> Value {
        let constant = Constant::new(vec![], vec![number]).expect("a scalar has one number");
        self.add(Node::Constant(constant))
    }

    pub(super) fn binary(&mut self, operator: Operator, a: Value, b: Value) -> Value {
        let may_turn = !matches!(operator, Operator::Sub | Operator::Div);
        let (a, b) = if self.is_turned && may_turn {
            (b, a)
        } else {
            (a, b)
        };
        let made = self.add(Node::Binary(operator, a, b));
        self.add(Node::Renamed(made))
    }

    pub(super) fn plus(&mut self, a: Value, b: Value) -> Value {
        self.binary(Operator::Add, a, b)
    }

    pub(super) fn minus(&mut self, a: Value, b: Value) -> Value {
        self.binary(Operator::Sub, a, b)
    }

    pub(super) fn times(&mut self, a: Value, b: Value) -> Value {
        self.binary(Operator::Mul, a, b)
    }

    pub(super) fn function(&mut self, function: Activation, of: Value) -> Value {
        self.add(Node::Function(function, of))
    }

    pub(super) fn bounded(&mut self, of: Value, low: f32, high: f32) -> Value {
        self.add(Node::Bounded(of, low, high))
    }

    /// A product with a new matrix.
    pub(super) fn product(&mut self, of: Value, columns: usize) -> Value {
        let rows = Step::width(self, of).expect("values have columns");
        let weights = self.constant(&[rows, columns]);
        self.add(Node::Product(of, weights, None))
    }

    /// A product with a new matrix, plus a value.
    pub(super) fn product_and(&mut self, of: Value, columns: usize, more: Value) -> Value {
        let rows = Step::width(self, of).expect("values have columns");
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
            Node::Constant(constant) => constant.elements().to_vec(),
            Node::Renamed(of) => self.run(*of),
            Node::Binary(operator, a, b) => {
                let (a, b) = (self.run(*a), self.run(*b));
                let columns = a.len().max(b.len());
                let pairs = std::iter::zip(row(&a, columns), row(&b, columns));
                let number = |(a, b): (f32, f32)| match operator {
                    Operator::Add => a + b,
                    Operator::Sub => a - b,
                    Operator::Mul => a * b,
                    Operator::Div => a / b,
                    Operator::Max => a.max(b),
                    Operator::Min => a.min(b),
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
                let weights = Step::constant(self, *weights).expect("weights are constant");
                let weights = Matrix::new(&weights).expect("weights are a matrix");
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
    pub(super) fn layer(&self, cell: &Cell<Value>) -> (Vec<f32>, Option<Vec<f32>>) {
        let (x, h) = (self.run(cell.input), self.run(cell.hidden));
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
            Kind::Lstm => {
                let c = self.run(cell.memory.expect("an LSTM has a cell state").0);
                let (i, f) = (act(0, gate(0, &c)), act(0, gate(2, &c)));
                let new = add(&mul(&f, &c), &mul(&i, &act(1, gate(3, &zeros))));
                let o = act(0, gate(1, &new));
                (mul(&o, &act(2, new.clone())), Some(new))
            }
            Kind::Gru {
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
            Kind::Rnn => (act(0, gate(0, &zeros)), None),
        }
    }
}

impl Step for Arena {
    type Value = Value;

    fn plain(&self, value: Value) -> Value {
        match self.nodes[value] {
            Node::Renamed(of) => self.plain(of),
            _ => value,
        }
    }

    fn state(&self, value: Value) -> Option<Value> {
        let value = self.plain(value);
        matches!(self.nodes[value], Node::State(_)).then_some(value)
    }

    fn constant(&self, value: Value) -> Option<Constant> {
        match &self.nodes[self.plain(value)] {
            Node::Constant(constant) => Some(constant.clone()),
            _ => None,
        }
    }

    fn number(&self, value: Value) -> Option<f32> {
        match *Step::constant(self, value)?.elements() {
            [number] => Some(number),
            _ => None,
        }
    }

    fn operands(&self, value: Value, operator: Operator) -> Option<[Value; 2]> {
        match self.nodes[value] {
            Node::Binary(found, a, b) if found == operator => Some([a, b]),
            _ => None,
        }
    }

    fn activation(&self, value: Value) -> Option<(Activation, Value)> {
        match self.nodes[value] {
            Node::Function(function, of) => Some((function, of)),
            _ => None,
        }
    }

    fn bounded(&self, value: Value) -> Option<(Value, f32, f32)> {
        match self.nodes[value] {
            Node::Bounded(of, low, high) => Some((of, low, high)),
            _ => None,
        }
    }

    fn product(&self, value: Value) -> Option<Product<Value>> {
        match self.nodes[value] {
            Node::Product(factor, weights, more) => Some(Product {
                factor,
                weights: Matrix::new(&Step::constant(self, weights)?)?,
                more,
            }),
            _ => None,
        }
    }

    fn joined(&self, value: Value) -> Option<Vec<Value>> {
        match &self.nodes[value] {
            Node::Joined(values) => Some(values.clone()),
            _ => None,
        }
    }

    fn columns(&self, value: Value) -> Option<(Value, usize, usize)> {
        match self.nodes[value] {
            Node::Columns(of, first, count) => Some((of, first, count)),
            _ => None,
        }
    }

    fn width(&self, value: Value) -> Option<usize> {
        match &self.nodes[value] {
            Node::Input => Some(FEATURES),
            Node::State(_) => Some(UNITS),
            Node::Constant(constant) => Some(constant.sizes().last().copied().unwrap_or(1)),
            Node::Renamed(of) | Node::Function(_, of) | Node::Bounded(of, ..) => {
                Step::width(self, *of)
            }
            Node::Binary(_, a, b) => Step::width(self, *a).max(Step::width(self, *b)),
            Node::Product(_, weights, _) => Step::width(self, *weights),
            Node::Joined(values) => values.iter().map(|it| Step::width(self, *it)).sum(),
            Node::Columns(_, _, count) => Some(*count),
        }
    }

    fn row_of_one(&self, _value: Value) -> Option<Value> {
        None
    }
}
