//! Random conditions of sizes and constants: after `revseq rewrite --for tract`, ONNX Runtime takes
//! the same branches.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use prost::Message;
use serde_json::Value as Json;
use tract_onnx::pb::{AttributeProto, GraphProto, TensorProto};

use crate::common::{
    BOOL, FLOAT, INT64, graph_attribute, int, model, node, rewrite_and_check, tensor, value,
};
use crate::ort::onnxruntime;
use crate::random_loops::Graph;

const INT32: i32 = 6;

/// Small numbers, and those at which types end.
const NUMBERS: [i64; 10] = [
    0,
    1,
    2,
    3,
    -1,
    1 << 31,
    1 << 32,
    (1 << 32) + 1,
    i64::MAX,
    i64::MIN,
];

/// A value of the graph, whose sizes are known.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    code: i32,
    sizes: Vec<usize>,
}

impl Value {
    fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    fn is_number(&self) -> bool {
        self.code != BOOL
    }
}

struct Made<'c> {
    choices: std::vec::IntoIter<u32>,
    graph: Graph<'c>,
    values: Vec<Value>,
}

impl Made<'_> {
    fn choose(&mut self, below: usize) -> usize {
        self.choices.next().unwrap_or(0) as usize % below.max(1)
    }

    fn add(&mut self, name: String, code: i32, sizes: Vec<usize>) {
        let value = Value { name, code, sizes };
        if value.count() <= 24 && value.sizes.len() < 5 {
            self.values.push(value);
        }
    }

    fn constant(&mut self) {
        let code = [INT64, INT64, INT32, BOOL][self.choose(4)];
        let rank = self.choose(3);
        let sizes: Vec<usize> = (0..rank).map(|_| 1 + self.choose(3)).collect();
        let few = if self.choose(3) == 0 {
            NUMBERS.len()
        } else {
            5
        };
        let count = sizes.iter().product();
        let numbers: Vec<i64> = (0..count).map(|_| NUMBERS[self.choose(few)]).collect();
        let numbers = numbers.iter();
        let bytes: Vec<u8> = match code {
            BOOL => numbers.map(|&it| u8::from(it != 0)).collect(),
            INT32 => numbers.flat_map(|&it| (it as i32).to_le_bytes()).collect(),
            _ => numbers.flat_map(|it| it.to_le_bytes()).collect(),
        };
        let name = self.graph.initializer(code, &sizes, &bytes);
        self.add(name, code, sizes);
    }

    /// A value, rather a recent one.
    fn any(&mut self, accepts: impl Fn(&Value) -> bool) -> Option<Value> {
        let back = self.choose(8);
        let mut fitting = self.values.iter().rev().filter(|&value| accepts(value));
        let all: Vec<&Value> = fitting.by_ref().take(back + 1).collect();
        all.last().map(|&value| value.clone())
    }

    fn axes(&mut self, rank: usize) -> Option<(String, Vec<usize>)> {
        match self.choose(3) {
            1 => Some((self.graph.ints(&[0], &[]), Vec::new())),
            2 if rank > 0 => {
                let axis = self.choose(rank);
                let written = axis as i64 - [0, rank as i64][self.choose(2)];
                Some((self.graph.ints(&[1], &[written]), vec![axis]))
            }
            _ => None,
        }
    }

    fn unary(&mut self, op: &str, input: &Value, code: i32, attributes: Vec<AttributeProto>) {
        let name = self.graph.with(op, &[&input.name], attributes);
        self.add(name, code, input.sizes.clone());
    }

    /// A binary operator on a value and another that fits.
    fn binary(&mut self, op: &str, one: &Value, of_truths: bool) {
        let accepts =
            |it: &Value| it.code == one.code && broadcast(&it.sizes, &one.sizes).is_some();
        let Some(other) = self.any(accepts) else {
            return;
        };
        let sizes = broadcast(&one.sizes, &other.sizes).expect("they fit");
        let name = self.graph.op(op, &[&one.name, &other.name]);
        self.add(name, if of_truths { BOOL } else { one.code }, sizes);
    }

    fn step(&mut self) {
        let which = self.choose(13);
        let needs_number = matches!(which, 5..=8);
        let Some(it) = self.any(|it| it.is_number() || !needs_number) else {
            return self.constant();
        };
        let rank = it.sizes.len();
        match which {
            0 => self.constant(),
            1 => {
                let name = self.graph.op("Shape", &["x"]);
                self.add(name, INT64, vec![2]);
            }
            2 if rank > 0 => {
                let axis = self.choose(rank);
                let size = it.sizes[axis] as i64;
                let written = self.choose(2 * it.sizes[axis]) as i64 - size;
                let of_index = [vec![], vec![1]][self.choose(2)].clone();
                let index = self.graph.ints(&of_index, &[written]);
                let axis_attribute = vec![int("axis", axis as i64)];
                let name = self
                    .graph
                    .with("Gather", &[&it.name, &index], axis_attribute);
                let sizes = [&it.sizes[..axis], &of_index, &it.sizes[axis + 1..]].concat();
                self.add(name, it.code, sizes);
            }
            3 if rank > 0 => {
                let axis = self.choose(rank);
                let size = it.sizes[axis] as i64;
                // From the front, from the end, beyond it, and all backwards.
                let (start, end, step, count) = [
                    (0, 1, 1, 1),
                    (-1, i64::MAX, 1, 1),
                    (-100, 100, 1, size),
                    (-100, -100, -1, 1),
                    (100, -100, -1, size),
                    (0, size, 2, (size + 1) / 2),
                ][self.choose(6)];
                let parts = [start, end, axis as i64, step].map(|it| self.graph.ints(&[1], &[it]));
                let [start, end, at, step] = parts.each_ref().map(String::as_str);
                let name = self.graph.op("Slice", &[&it.name, start, end, at, step]);
                let mut sizes = it.sizes.clone();
                sizes[axis] = count as usize;
                self.add(name, it.code, sizes);
            }
            4 if rank > 0 => {
                let axis = self.choose(rank);
                let joined = vec![int("axis", axis as i64)];
                let name = self.graph.with("Concat", &[&it.name, &it.name], joined);
                let mut sizes = it.sizes.clone();
                sizes[axis] *= 2;
                self.add(name, it.code, sizes);
            }
            5 => {
                let op = ["Add", "Sub", "Mul", "Max", "Min"][self.choose(5)];
                self.binary(op, &it, false);
            }
            6 => {
                let divisor = [2, 3, -2][self.choose(3)];
                let divisor = match it.code {
                    INT32 => {
                        let bytes = (divisor as i32).to_le_bytes();
                        self.graph.initializer(INT32, &[], &bytes)
                    }
                    _ => self.graph.ints(&[], &[divisor]),
                };
                let (op, attributes) = [
                    ("Div", vec![]),
                    ("Mod", vec![]),
                    ("Mod", vec![int("fmod", 1)]),
                ][self.choose(3)]
                .clone();
                let name = self.graph.with(op, &[&it.name, &divisor], attributes);
                self.add(name, it.code, it.sizes);
            }
            7 => {
                let ops = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
                let op = ops[self.choose(5)];
                self.binary(op, &it, true);
            }
            8 => self.reduce(&it),
            9 => {
                let code = [BOOL, INT32, INT64][self.choose(3)];
                self.unary("Cast", &it, code, vec![int("to", code.into())]);
            }
            10 if !it.is_number() => {
                let op = ["And", "Or", "Xor", "Not"][self.choose(4)];
                match op {
                    "Not" => self.unary(op, &it, BOOL, vec![]),
                    _ => self.binary(op, &it, true),
                }
            }
            11 => {
                let axis = self.choose(rank + 1);
                let axes = self.graph.ints(&[1], &[axis as i64]);
                let name = self.graph.op("Unsqueeze", &[&it.name, &axes]);
                let mut sizes = it.sizes.clone();
                sizes.insert(axis, 1);
                self.add(name, it.code, sizes);
            }
            _ => {
                let shape = self.graph.ints(&[1], &[-1]);
                let name = self.graph.op("Reshape", &[&it.name, &shape]);
                let count = it.count();
                self.add(name, it.code, vec![count]);
            }
        }
    }

    fn reduce(&mut self, it: &Value) {
        let rank = it.sizes.len();
        let op = ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"][self.choose(4)];
        let (keeps, is_noop) = (self.choose(2), self.choose(2));
        let axes = self.axes(rank);
        let reduced: Vec<usize> = match &axes {
            Some((_, axes)) if !axes.is_empty() => axes.clone(),
            _ if is_noop == 1 => Vec::new(),
            _ => (0..rank).collect(),
        };
        let inputs: Vec<&str> = std::iter::once(it.name.as_str())
            .chain(axes.as_ref().map(|(name, _)| name.as_str()))
            .collect();
        let attributes = vec![
            int("keepdims", keeps as i64),
            int("noop_with_empty_axes", is_noop as i64),
        ];
        let name = self.graph.with(op, &inputs, attributes);
        let size = |axis: usize| match reduced.contains(&axis) {
            true => (keeps == 1).then_some(1),
            false => Some(it.sizes[axis]),
        };
        self.add(name, it.code, (0..rank).filter_map(size).collect());
    }

    /// An If of a value: whether all its elements hold, or any number is above 0.
    fn condition(&mut self, operand: &Value) -> String {
        let cast = |made: &mut Self, name: &str, code: i32| {
            made.graph
                .with("Cast", &[name], vec![int("to", code.into())])
        };
        let condition = if operand.code == BOOL && operand.count() == 1 {
            operand.name.clone()
        } else {
            let (numbers, op) = match operand.code {
                BOOL => (cast(self, &operand.name, INT32), "ReduceMin"),
                _ => (operand.name.clone(), "ReduceMax"),
            };
            let one = self.graph.with(op, &[&numbers], vec![int("keepdims", 0)]);
            cast(self, &one, BOOL)
        };
        let branches = [("then_branch", "Neg"), ("else_branch", "Abs")].map(|(name, op)| {
            let output = self.graph.fresh("taken");
            let graph = GraphProto {
                name: self.graph.fresh("branch"),
                node: vec![node(op, &["number"], &[&output])],
                output: vec![value(&output, FLOAT, &["1"])],
                ..GraphProto::default()
            };
            graph_attribute(name, graph)
        });
        self.graph.with("If", &[&condition], branches.to_vec())
    }
}

fn broadcast(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |sizes: &[usize], axis: usize| {
        let own = (axis + sizes.len()).checked_sub(rank);
        own.map_or(1, |axis| sizes[axis])
    };
    let sizes = (0..rank).map(|axis| match (size(one, axis), size(other, axis)) {
        (1, size) | (size, 1) => Some(size),
        (size, same) => (size == same).then_some(size),
    });
    sizes.collect()
}

fn check(choices: Vec<u32>, library: &str, taken: &Cell<usize>) -> Result<(), TestCaseError> {
    let count = Cell::new(0);
    let mut made = Made {
        choices: choices.into_iter(),
        graph: Graph::new(&count),
        values: Vec::new(),
    };
    while made.choices.len() > 0 {
        made.step();
    }
    let values = made.values.clone();
    let results: Vec<String> = values.iter().map(|it| made.condition(it)).collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let mut graph = made.graph;
    let y = graph.with("Concat", &results, vec![int("axis", 0)]);
    let number = tensor("number", FLOAT, &[1], &1_f32.to_le_bytes());
    graph.initializers.push(number);
    let mut model = model(GraphProto {
        name: "graph".to_owned(),
        input: vec![value("x", FLOAT, &["N", "3"])],
        output: vec![value(&y, FLOAT, &["K"])],
        node: graph.nodes,
        initializer: graph.initializers,
        ..GraphProto::default()
    });
    model.opset_import[0].version = 18;
    let input = |rows: usize| -> [TensorProto; 1] {
        [tensor("x", FLOAT, &[rows as i64, 3], &vec![0; rows * 12])]
    };
    let flags = ["--for", "tract", "--backend", "ort-plain"];
    let sets = [2, 1, 5].map(input);
    let run = rewrite_and_check(
        &model.encode_to_vec(),
        sets.into_iter(),
        &flags,
        Some(library),
    );
    let json: Json = serde_json::from_str(&run.stdout)
        .map_err(|_| TestCaseError::fail(format!("{}\n{model:?}", run.stderr)))?;
    for check in json["checks"].as_array().expect("checks") {
        prop_assert_eq!(
            check["result"].as_str(),
            Some("ok"),
            "{}\n{:?}",
            check,
            model
        );
    }
    let steps = json["steps"].as_array().expect("steps").iter();
    let found = steps.filter(|step| step["pass"] == "branch" && step["result"] == "rewritten");
    taken.set(taken.get() + found.count());
    Ok(())
}

#[test]
fn random_conditions_take_the_same_branches() {
    let Some(library) = onnxruntime("random_conditions_take_the_same_branches") else {
        return;
    };
    let config = ProptestConfig {
        cases: 12,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let taken = Cell::new(0);
    let choices = proptest::collection::vec(any::<u32>(), 200..400);
    proptest!(config, |(choices in choices)| check(choices, &library, &taken)?);
    assert!(taken.get() > 100, "{}", taken.get());
}
