//! Random loops beside a plain interpretation of them.

use std::fmt::Write as _;

use proptest::prelude::*;
use tract_onnx::prelude::*;

use crate::build::{Graph, graph, run};

type Pair = [f32; 2];

/// The rows that bodies read by the step; there are no more steps.
const ROWS: [Pair; 6] = [
    [1., -2.],
    [0.5, 3.],
    [-4., 1.],
    [2., 2.],
    [-1., 0.],
    [7., -3.],
];

const CAPTURED: Pair = [1.5, -0.5];

#[derive(Clone, Copy, Debug)]
enum Operator {
    Add,
    Sub,
    Max,
    Min,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    /// What it was.
    Kept,
    /// The step is less.
    Step(i64),
    /// The sum of a value is less.
    Sum(usize, f32),
}

/// A body: values are the states, a row, what is captured, and each operation's.
#[derive(Clone, Debug)]
struct Body {
    operations: Vec<(Operator, usize, usize)>,
    states: Vec<usize>,
    scans: Vec<usize>,
    condition: Condition,
    trip_count: i64,
    /// Whether the trip count is known before the model runs.
    is_constant: bool,
    starts: bool,
}

impl Body {
    fn graph(&self) -> Graph {
        let states = self.states.len();
        let mut nodes = format!("v{states} = Gather<axis=0>(rows, i)\n");
        writeln!(nodes, "v{} = Identity(captured)", states + 1).unwrap();
        for (index, (operator, left, right)) in self.operations.iter().enumerate() {
            let output = states + 2 + index;
            writeln!(nodes, "v{output} = {operator:?}(v{left}, v{right})").unwrap();
        }
        let condition = match self.condition {
            Condition::Kept => "c",
            Condition::Step(_) => {
                nodes += "c1 = Less(i, limit)\n";
                "c1"
            }
            Condition::Sum(value, _) => {
                writeln!(nodes, "sum = ReduceSum<keepdims=0>(v{value})").unwrap();
                nodes += "c1 = Less(sum, limit)\n";
                "c1"
            }
        };
        let list = |values: &[usize]| -> String {
            values.iter().map(|value| format!(" v{value}")).collect()
        };
        let inputs: Vec<usize> = (0..states).collect();
        let outputs = format!("{condition}{}{}", list(&self.states), list(&self.scans));
        let body = graph(&format!("i c{}", list(&inputs)), &outputs, &nodes);
        let body = match self.condition {
            Condition::Kept => body,
            Condition::Step(limit) => body.constant("limit", tensor0(limit)),
            Condition::Sum(_, limit) => body.constant("limit", tensor0(limit)),
        };

        let mut inputs = "start:bool[] rows:f32[6,2] captured:f32[2]".to_owned();
        let mut fed = String::new();
        for state in 0..states {
            write!(inputs, " s{state}:f32[2]").unwrap();
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
        let nodes = format!("{} = Loop<body=@body>(n, {start}{fed})", outputs.join(", "));
        let model = graph(&inputs, &outputs.join(" "), &nodes).with("body", body);
        if self.is_constant {
            model.constant("n", tensor0(self.trip_count))
        } else {
            model
        }
    }

    /// What the loop gives, by the definition.
    fn interpret(&self, initial: &[Pair]) -> (Vec<Pair>, Vec<Vec<Pair>>) {
        let mut states = initial.to_vec();
        let mut scanned = vec![vec![]; self.scans.len()];
        let mut goes_on = self.starts;
        let mut step = 0;
        while goes_on && step < self.trip_count {
            let mut values = states.clone();
            values.push(ROWS[step as usize]);
            values.push(CAPTURED);
            for &(operator, left, right) in &self.operations {
                let (left, right) = (values[left], values[right]);
                values.push([0, 1].map(|it: usize| match operator {
                    Operator::Add => left[it] + right[it],
                    Operator::Sub => left[it] - right[it],
                    Operator::Max => left[it].max(right[it]),
                    Operator::Min => left[it].min(right[it]),
                }));
            }
            goes_on = match self.condition {
                Condition::Kept => true,
                Condition::Step(limit) => step < limit,
                Condition::Sum(value, limit) => values[value][0] + values[value][1] < limit,
            };
            states = self.states.iter().map(|&value| values[value]).collect();
            for (scanned, &value) in std::iter::zip(&mut scanned, &self.scans) {
                scanned.push(values[value]);
            }
            step += 1;
        }
        (states, scanned)
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    let shape = (1..=3_usize, 0..=2_usize, 0..=5_usize);
    shape.prop_flat_map(|(states, scans, operations)| {
        let values = states + 2 + operations;
        let operator = prop_oneof![
            Just(Operator::Add),
            Just(Operator::Sub),
            Just(Operator::Max),
            Just(Operator::Min)
        ];
        let each: Vec<_> = (0..operations)
            .map(|index| {
                let known = states + 2 + index;
                (operator.clone(), 0..known, 0..known)
            })
            .collect();
        let condition = prop_oneof![
            Just(Condition::Kept),
            (0..6_i64).prop_map(Condition::Step),
            (0..values, -8..8_i32).prop_map(|(value, limit)| Condition::Sum(value, limit as f32)),
        ];
        (
            each,
            proptest::collection::vec(0..values, states),
            proptest::collection::vec(0..values, scans),
            condition,
            0..=6_i64,
            any::<bool>(),
            proptest::bool::weighted(0.9),
        )
            .prop_map(
                |(operations, states, scans, condition, trip_count, is_constant, starts)| Body {
                    operations,
                    states,
                    scans,
                    condition,
                    trip_count,
                    is_constant,
                    starts,
                },
            )
    })
}

fn rows(rows: &[Pair]) -> Tensor {
    let values: Vec<f32> = rows.iter().flatten().copied().collect();
    Tensor::from_shape(&[rows.len(), 2], &values).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_loops_do_what_they_say(body in bodies()) {
        let initial: Vec<Pair> = [[1., 2.], [-3., 0.25], [0., 5.]][..body.states.len()].to_vec();
        let mut inputs = vec![tensor0(body.starts), rows(&ROWS), tensor1(&CAPTURED)];
        inputs.extend(initial.iter().map(|state| tensor1(state)));
        if !body.is_constant {
            inputs.push(tensor0(body.trip_count));
        }
        let (states, scanned) = body.interpret(&initial);
        let states = states.iter().map(|state| tensor1(state));
        let expected: Vec<Tensor> = states.chain(scanned.iter().map(|it| rows(it))).collect();
        let outputs = run(body.graph(), &inputs);
        prop_assert_eq!(outputs.map_err(|error| format!("{error:?}")), Ok(expected));
    }
}
