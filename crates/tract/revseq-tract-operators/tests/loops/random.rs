//! Random loops, compared with a plain interpreter.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::draw::{self, Choices};
use tract_onnx::prelude::*;

use crate::build::{Graph, Names, graph, run_once, run_optimized};

type Pair = [f32; 2];

/// The rows that bodies read by step, over and over.
const ROWS: [Pair; 6] = [
    [1., -2.],
    [0.5, 3.],
    [-4., 1.],
    [2., 2.],
    [-1., 0.],
    [7., -3.],
];

fn row(step: usize) -> Pair {
    ROWS[step % ROWS.len()]
}

const CAPTURED: Pair = [1.5, -0.5];
const CONSTANT: Pair = [-2., 0.25];

/// The steps of an inner loop.
const INNER: i64 = 3;

/// An operation in a body, on values by their indices.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// A function of two pairs, or of two numbers.
    Binary(&'static str, usize, usize),
    /// A pair that folds away.
    TimesZero(usize),
    Same(usize),
    Less(usize, usize),
    /// One of two pairs, by an If on a bool.
    Choice(usize, usize, usize),
    /// The first pair plus the second, once for each step of an inner loop, which outputs it.
    Inner(usize, usize),
    /// The steps of such a loop, whose other outputs are unread.
    Steps(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Pair(Pair),
    Number(i64),
    Truth(bool),
    Steps,
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Pair,
    Number,
    Truth,
    Steps,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    /// The condition stays unchanged.
    Kept,
    /// The step is less than this.
    Step(i64),
    /// The sum of a pair is less than this.
    Sum(usize, f32),
}

/// A body. Its values are the states, the step, the condition, a row, the captured value, a
/// constant, and the results of its operations.
#[derive(Clone, Debug)]
struct Body {
    /// The kinds of the states, which determine their initial values.
    kinds: Vec<Kind>,
    operations: Vec<Operation>,
    /// The indices of the states' updates.
    states: Vec<usize>,
    scans: Vec<usize>,
    condition: Condition,
    trip_count: i64,
    /// What a state that is a number begins with.
    number: i64,
    /// Whether the trip count and initial numbers are known before the model runs.
    is_constant: bool,
    starts: bool,
    /// The outputs that are read; if none, all are.
    read: Vec<bool>,
    captured: &'static str,
    names: Names,
}

/// Names that generated nodes may also have.
const CAPTURED_NAMES: [&str; 8] = [
    "captured",
    "v0.out",
    "c.out",
    "v1.out",
    "Loop2.out",
    "Loop2.in0",
    "Loop2.values",
    "loop.out",
];

/// The values of a body before its operations, starting with `states`.
fn given(states: &[Value], step: i64) -> Vec<Value> {
    let mut values = states.to_vec();
    values.extend([
        Value::Number(step),
        Value::Truth(true),
        Value::Pair(row(step as usize)),
        Value::Pair(CAPTURED),
        Value::Pair(CONSTANT),
    ]);
    values
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Pair(_) => Kind::Pair,
        Value::Number(_) => Kind::Number,
        Value::Truth(_) => Kind::Truth,
        Value::Steps => Kind::Steps,
    }
}

fn initial(kinds: &[Kind], number: i64) -> Vec<Value> {
    let pairs = [[1., 2.], [-3., 0.25], [0., 5.]];
    let values = kinds.iter().enumerate().map(|(index, kind)| match kind {
        Kind::Pair => Value::Pair(pairs[index]),
        _ => Value::Number(number),
    });
    values.collect()
}

impl Operation {
    fn compute(self, values: &[Value]) -> Value {
        let pair = |value: usize| match values[value] {
            Value::Pair(pair) => pair,
            other => panic!("{other:?} is no pair"),
        };
        let number = |value: usize| match values[value] {
            Value::Number(number) => number,
            other => panic!("{other:?} is no number"),
        };
        match self {
            Self::Binary(operator, a, b) => match (values[a], values[b]) {
                (Value::Number(a), Value::Number(b)) => Value::Number(match operator {
                    "Add" => a.wrapping_add(b),
                    "Sub" => a.wrapping_sub(b),
                    "Max" => a.max(b),
                    _ => a.min(b),
                }),
                _ => Value::Pair([0, 1].map(|it| {
                    let (a, b) = (pair(a)[it], pair(b)[it]);
                    match operator {
                        "Add" => a + b,
                        "Sub" => a - b,
                        "Max" => a.max(b),
                        _ => a.min(b),
                    }
                })),
            },
            Self::TimesZero(_) => Value::Pair([0., 0.]),
            Self::Same(value) => values[value],
            Self::Less(a, b) => Value::Truth(number(a) < number(b)),
            Self::Choice(truth, a, b) => match values[truth] {
                Value::Truth(true) => values[a],
                _ => values[b],
            },
            Self::Inner(a, b) => {
                let (mut sum, more) = (pair(a), pair(b));
                for _ in 0..INNER {
                    sum = [sum[0] + more[0], sum[1] + more[1]];
                }
                Value::Pair(sum)
            }
            Self::Steps(_) => Value::Steps,
        }
    }

    /// The node of value `v`, whose graphs are named after it.
    fn node(self, v: usize, names: &[String]) -> (String, Vec<(String, Graph)>) {
        let name = |value: usize| &names[value];
        let body = format!("body{v}");
        match self {
            Self::Binary(operator, a, b) => (
                format!("v{v} = {operator}({}, {})", name(a), name(b)),
                vec![],
            ),
            Self::TimesZero(a) => (format!("v{v} = Mul({}, zero)", name(a)), vec![]),
            Self::Same(a) => (format!("v{v} = Identity({})", name(a)), vec![]),
            Self::Less(a, b) => (format!("v{v} = Less({}, {})", name(a), name(b)), vec![]),
            Self::Choice(truth, a, b) => {
                let branch = |value| {
                    let node = format!("chosen = Identity({})", name(value));
                    graph("", "chosen", &node)
                };
                let graphs = vec![
                    (format!("then{v}"), branch(a)),
                    (format!("else{v}"), branch(b)),
                ];
                let branches = format!("then_branch=@then{v};else_branch=@else{v}");
                (format!("v{v} = If<{branches}>({})", name(truth)), graphs)
            }
            Self::Inner(a, b) => {
                let node = format!("q1 = Add(q, {})", name(b));
                let inner = graph("j ci q", "ci q1 j", &node);
                let node = format!("v{v}, js{v} = Loop<body=@{body}>(inner, _, {})", name(a));
                (node, vec![(body, inner)])
            }
            Self::Steps(a) => {
                let node = format!("q1 = Add({}, {})", name(a), name(a));
                let inner = graph("j ci q", "ci q1 j", &node);
                let node = format!("u{v}, v{v} = Loop<body=@{body}>(inner, _, {})", name(a));
                (node, vec![(body, inner)])
            }
        }
    }
}

impl Body {
    fn graph(&self) -> Graph {
        let states = self.kinds.len();
        let mut names: Vec<String> = (0..states).map(|state| format!("v{state}")).collect();
        let given = ["i", "c", "row", self.captured, "constant"];
        names.extend(given.map(str::to_owned));
        let mut nodes = "row = Gather<axis=0>(rows, i)\n".to_owned();
        let mut graphs = vec![];
        for operation in &self.operations {
            let number = names.len();
            let (node, within) = operation.node(number, &names);
            writeln!(nodes, "{node}").unwrap();
            graphs.extend(within);
            names.push(format!("v{number}"));
        }
        let condition = match self.condition {
            Condition::Kept => "c",
            Condition::Step(_) => {
                nodes += "c1 = Less(i, limit)\n";
                "c1"
            }
            Condition::Sum(value, _) => {
                writeln!(nodes, "sum = ReduceSum<keepdims=0>({})", names[value]).unwrap();
                nodes += "c1 = Less(sum, limit)\n";
                "c1"
            }
        };
        let list = |values: &[usize]| -> String {
            let names = values.iter().map(|value| format!(" {}", names[*value]));
            names.collect()
        };
        let inputs: Vec<usize> = (0..states).collect();
        let outputs = format!("{condition}{}{}", list(&self.states), list(&self.scans));
        let body = graph(&format!("i c{}", list(&inputs)), &outputs, &nodes);
        let body = graphs.into_iter().fold(body, |body, (name, inner)| {
            body.with(&name, inner.named(self.names))
        });
        let body = body
            .named(self.names)
            .constant("constant", tensor1(&CONSTANT));
        let body = body
            .constant("zero", tensor0(0_f32))
            .constant("inner", tensor0(INNER));
        let body = match self.condition {
            Condition::Kept => body,
            Condition::Step(limit) => body.constant("limit", tensor0(limit)),
            Condition::Sum(_, limit) => body.constant("limit", tensor0(limit)),
        };

        let mut inputs = "start:bool[] rows:f32[R,2] given:f32[2]".to_owned();
        let mut fed = String::new();
        for (state, kind) in self.kinds.iter().enumerate() {
            match kind {
                Kind::Pair => write!(inputs, " s{state}:f32[2]").unwrap(),
                _ if !self.is_constant => write!(inputs, " s{state}:i64[]").unwrap(),
                _ => {}
            }
            write!(fed, ", s{state}").unwrap();
        }
        if !self.is_constant {
            inputs += " n:i64[]";
        }
        let count = states + self.scans.len();
        let outputs: Vec<String> = (0..count).map(|output| format!("o{output}")).collect();
        let start = if self.is_constant && self.starts {
            "_"
        } else {
            "start"
        };
        let nodes = format!(
            "{} = Identity(given)
             {} = Loop<body=@body>(n, {start}{fed})",
            self.captured,
            outputs.join(", ")
        );
        let read: Vec<&str> = self.read().map(|output| outputs[output].as_str()).collect();
        let mut model = graph(&inputs, &read.join(" "), &nodes)
            .named(self.names)
            .with("body", body);
        if self.is_constant {
            model = model.constant("n", tensor0(self.trip_count));
            for (state, value) in initial(&self.kinds, self.number).iter().enumerate() {
                if let Value::Number(number) = value {
                    model = model.constant(&format!("s{state}"), tensor0(*number));
                }
            }
        }
        model
    }

    /// The outputs that are read.
    fn read(&self) -> impl Iterator<Item = usize> {
        let all = 0..self.states.len() + self.scans.len();
        let is_none = all.clone().all(|output| !self.read[output]);
        all.filter(move |output| is_none || self.read[*output])
    }

    /// The loop's outputs by definition; none if a value is not a number, which tract may make one of.
    fn interpret(&self) -> Option<(Vec<Value>, Vec<Vec<Value>>)> {
        let mut states = initial(&self.kinds, self.number);
        let mut scanned = vec![vec![]; self.scans.len()];
        let mut goes_on = self.starts;
        let mut step = 0;
        while goes_on && step < self.trip_count {
            let mut values = given(&states, step);
            for operation in &self.operations {
                let value = operation.compute(&values);
                let folds =
                    matches!(operation, Operation::TimesZero(of) if !is_finite(&values[*of]));
                if folds || !is_number(&value) {
                    return None;
                }
                values.push(value);
            }
            goes_on = match self.condition {
                Condition::Kept => true,
                Condition::Step(limit) => step < limit,
                Condition::Sum(value, limit) => match values[value] {
                    Value::Pair([a, b]) => a + b < limit,
                    other => panic!("{other:?} is no pair"),
                },
            };
            states = self.states.iter().map(|&value| values[value]).collect();
            for (scanned, &value) in std::iter::zip(&mut scanned, &self.scans) {
                scanned.push(values[value]);
            }
            step += 1;
        }
        Some((states, scanned))
    }

    /// The kinds of all values.
    fn all_kinds(kinds: &[Kind], operations: &[Operation]) -> Vec<Kind> {
        let mut values = given(&initial(kinds, 0), 0);
        for operation in operations {
            values.push(operation.compute(&values));
        }
        values.iter().map(kind).collect()
    }
}

/// A body made from random choices.
fn body(choices: Vec<u32>, trip_count: i64, first: i64) -> Body {
    let mut choices = Choices::new(choices);
    let mut choose = |count: usize| choices.below(count);
    let mut kinds = vec![Kind::Pair; 1 + choose(2)];
    if choose(2) == 0 {
        kinds.push(Kind::Number);
    }
    let mut operations = vec![];
    for _ in 0..choose(6) {
        let known = Body::all_kinds(&kinds, &operations);
        let number = |kind: Kind, choice: usize| {
            let all: Vec<usize> = (0..known.len()).filter(|it| known[*it] == kind).collect();
            all[choice % all.len()]
        };
        let operator = ["Add", "Sub", "Max", "Min"][choose(4)];
        let [kind, a, b, c] = [choose(10), choose(99), choose(99), choose(99)];
        let pair = |choice: usize| number(Kind::Pair, choice);
        operations.push(match kind {
            0 => Operation::TimesZero(pair(a)),
            1 => Operation::Same(a % known.len()),
            2 => Operation::Less(number(Kind::Number, a), number(Kind::Number, b)),
            3 => Operation::Choice(number(Kind::Truth, c), pair(a), pair(b)),
            4 => Operation::Inner(pair(a), pair(b)),
            5 => Operation::Steps(pair(a)),
            6 => Operation::Binary(operator, number(Kind::Number, a), number(Kind::Number, b)),
            _ => Operation::Binary(operator, pair(a), pair(b)),
        });
    }
    let known = Body::all_kinds(&kinds, &operations);
    let number = |kind: Kind, choice: usize| {
        let all: Vec<usize> = (0..known.len()).filter(|it| known[*it] == kind).collect();
        all[choice % all.len()]
    };
    let states = kinds.iter().map(|kind| number(*kind, choose(99))).collect();
    let scans: Vec<usize> = (0..choose(4)).map(|_| choose(known.len())).collect();
    let condition = match choose(3) {
        0 if trip_count > 6 => Condition::Step(choose(2000) as i64),
        0 => Condition::Step(choose(6) as i64),
        1 => Condition::Sum(number(Kind::Pair, choose(99)), choose(16) as f32 - 8.),
        _ => Condition::Kept,
    };
    Body {
        states,
        scans,
        condition,
        trip_count,
        number: first,
        is_constant: choose(3) > 0,
        starts: choose(8) > 0,
        read: (0..8).map(|_| choose(3) > 0).collect(),
        captured: CAPTURED_NAMES[choose(CAPTURED_NAMES.len())],
        names: [Names::OfTheirOwn, Names::OfOutputs, Names::None][choose(3)],
        kinds,
        operations,
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    let choices = proptest::collection::vec(any::<u32>(), 64);
    let number = draw::integers(-1..3);
    let number = number.prop_filter("its sums fit", |it| it.unsigned_abs() < 1 << 61);
    let all = (choices, draw::counts(0..7), number);
    all.prop_map(|(choices, trip_count, number)| body(choices, trip_count as i64, number))
}

/// Sums beyond int64 end tests, which are built with checks.
fn is_number(value: &Value) -> bool {
    match value {
        Value::Pair(pair) => pair.iter().all(|it| !it.is_nan()),
        Value::Number(number) => number.unsigned_abs() < 1 << 61,
        _ => true,
    }
}

fn is_finite(value: &Value) -> bool {
    matches!(value, Value::Pair(pair) if pair.iter().all(|it| it.is_finite()))
}

fn tensor(value: &Value) -> Tensor {
    match value {
        Value::Pair(pair) => tensor1(pair),
        Value::Number(number) => tensor0(*number),
        Value::Truth(truth) => tensor0(*truth),
        Value::Steps => tensor1(&[0_i64, 1, 2]),
    }
}

/// Stacks values of a kind along a new first axis; there may be none.
fn stacked(kind: Kind, values: &[Value]) -> Tensor {
    let example = tensor(&match kind {
        Kind::Pair => Value::Pair(CAPTURED),
        Kind::Number => Value::Number(0),
        Kind::Truth => Value::Truth(true),
        Kind::Steps => Value::Steps,
    });
    let mut shape = vec![0];
    shape.extend(example.shape());
    let none = Tensor::zero_dt(example.datum_type(), &shape).unwrap();
    let rows = values.iter().map(|value| {
        let mut row = tensor(value);
        row.insert_axis(0).unwrap();
        row
    });
    let rows: Vec<Tensor> = std::iter::once(none).chain(rows).collect();
    Tensor::stack_tensors(0, &rows).unwrap()
}

fn check(body: &Body) -> Result<(), TestCaseError> {
    let Some((states, scanned)) = body.interpret() else {
        return Ok(());
    };
    let initial = initial(&body.kinds, body.number);
    let rows = 0..body.trip_count.max(1) as usize;
    let rows: Vec<Value> = rows.map(|step| Value::Pair(row(step))).collect();
    let mut inputs = vec![
        tensor0(body.starts),
        stacked(Kind::Pair, &rows),
        tensor1(&CAPTURED),
    ];
    let is_fed = |value: &&Value| kind(value) == Kind::Pair || !body.is_constant;
    inputs.extend(initial.iter().filter(is_fed).map(tensor));
    if !body.is_constant {
        inputs.push(tensor0(body.trip_count));
    }
    let kinds = Body::all_kinds(&body.kinds, &body.operations);
    let scanned = std::iter::zip(&body.scans, &scanned);
    let scanned = scanned.map(|(value, values)| stacked(kinds[*value], values));
    let all: Vec<Tensor> = states.iter().map(tensor).chain(scanned).collect();
    let expected: Vec<Tensor> = body.read().map(|output| all[output].clone()).collect();
    // Without tract's own optimizer, which never ends for some of them.
    let plain = run_once(body.graph(), &inputs);
    let several = run_optimized(body.graph(), &inputs);
    for outputs in [plain, several] {
        let outputs = outputs.map_err(|error| format!("{error:#}"));
        prop_assert_eq!(outputs.as_ref(), Ok(&expected));
    }
    Ok(())
}

#[test]
fn random_loops_match_the_reference() {
    draw::check(100, bodies(), |body| check(&body));
}
