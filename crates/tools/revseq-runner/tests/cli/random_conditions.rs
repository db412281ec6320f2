//! Random conditions of sizes and constants: after `revseq rewrite --for tract`, ONNX Runtime takes
//! the same branches.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use revseq_test_models::Writer;
use revseq_test_models::draw::{self, Choices, EDGES};

use crate::common::{BOOL, FLOAT, INT32, INT64, tensor};
use crate::random::{Comparison, steps_of};

/// Floats that are small, large, and that end the exact integers. Some operators of tract make a number of
/// NaN, so that there is none, nor what it comes from.
const FLOATS: [f32; 10] = [
    0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -0.0,
    16_777_216.0,
    16_777_217.0,
    1e30,
    1e-30,
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

struct Made {
    choices: Choices,
    graph: Writer,
    values: Vec<Value>,
}

impl Made {
    fn choose(&mut self, below: usize) -> usize {
        self.choices.below(below)
    }

    fn add(&mut self, name: String, code: i32, sizes: Vec<usize>) {
        let value = Value { name, code, sizes };
        if value.count() <= 24 && value.sizes.len() < 5 {
            self.values.push(value);
        }
    }

    /// Adds a node whose output is such a value.
    fn op(&mut self, code: i32, sizes: Vec<usize>, call: std::fmt::Arguments<'_>) {
        let name = self.graph.op(call);
        self.add(name, code, sizes);
    }

    /// Small numbers, and now and then those at which types end.
    fn number(&mut self, has_edges: bool) -> i64 {
        match self.choose(3) {
            0 if has_edges => EDGES[self.choose(EDGES.len())],
            _ => self.choose(5) as i64 - 1,
        }
    }

    fn constant(&mut self) {
        let code = [INT64, INT64, INT32, BOOL, FLOAT][self.choose(5)];
        let rank = self.choose(3);
        let sizes: Vec<usize> = (0..rank)
            .map(|_| [1, 2, 3, 0][self.choose(13) / 4])
            .collect();
        let has_edges = self.choose(3) == 0;
        let count = sizes.iter().product();
        let bytes: Vec<u8> = (0..count)
            .flat_map(|_| match code {
                BOOL => vec![u8::from(self.choose(2) > 0)],
                FLOAT => FLOATS[self.choose(FLOATS.len())].to_le_bytes().to_vec(),
                INT32 => (self.number(has_edges) as i32).to_le_bytes().to_vec(),
                _ => self.number(has_edges).to_le_bytes().to_vec(),
            })
            .collect();
        let name = self.graph.bytes(code, &sizes, bytes);
        self.add(name, code, sizes);
    }

    /// A value, rather a recent one.
    fn any(&mut self, accepts: impl Fn(&Value) -> bool) -> Option<Value> {
        let back = self.choose(8);
        let mut fitting = self.values.iter().rev().filter(|&value| accepts(value));
        let all: Vec<&Value> = fitting.by_ref().take(back + 1).collect();
        all.last().map(|&value| value.clone())
    }

    fn axes(&mut self, rank: usize) -> Option<(&'static str, Vec<usize>)> {
        match self.choose(3) {
            1 => Some(("[]", Vec::new())),
            2 if rank > 0 => {
                let axis = self.choose(rank);
                let written = [axis as i64, axis as i64 - rank as i64][self.choose(2)];
                let names = [
                    "[-5]", "[-4]", "[-3]", "[-2]", "[-1]", "[0]", "[1]", "[2]", "[3]", "[4]",
                ];
                Some((names[(written + 5) as usize], vec![axis]))
            }
            _ => None,
        }
    }

    /// A binary operator on a value and another that fits.
    fn binary(&mut self, op: &str, one: &Value, of_truths: bool) {
        let accepts =
            |it: &Value| it.code == one.code && broadcast(&it.sizes, &one.sizes).is_some();
        let Some(other) = self.any(accepts) else {
            return;
        };
        let sizes = broadcast(&one.sizes, &other.sizes).expect("they fit");
        let code = if of_truths { BOOL } else { one.code };
        self.op(
            code,
            sizes,
            format_args!("{op}({}, {})", one.name, other.name),
        );
    }

    fn step(&mut self) {
        let which = self.choose(13);
        let needs_number = matches!(which, 5..=8);
        let Some(it) = self.any(|it| it.is_number() || !needs_number) else {
            return self.constant();
        };
        let (rank, name) = (it.sizes.len(), &it.name);
        let mut sizes = it.sizes.clone();
        match which {
            0 => self.constant(),
            1 => self.op(INT64, vec![2], format_args!("Shape(x)")),
            2 if it.sizes.iter().any(|&size| size > 0) => {
                let axis = self.choose(rank);
                let size = it.sizes[axis];
                if size == 0 {
                    return;
                }
                let written = self.choose(2 * size) as i64 - size as i64;
                let (index, of_index) = match self.choose(2) {
                    0 => (format!("{written}"), vec![]),
                    _ => (format!("[{written}]"), vec![1]),
                };
                sizes.splice(axis..=axis, of_index);
                self.op(
                    it.code,
                    sizes,
                    format_args!("Gather<axis={axis}>({name}, {index})"),
                );
            }
            3 if rank > 0 => {
                let axis = self.choose(rank);
                let size = it.sizes[axis];
                let one = size.min(1);
                // From the front, from the end, beyond it, and all backwards.
                let (start, end, step, count) = [
                    (0, 1, 1, one),
                    (-1, i64::MAX, 1, one),
                    (-100, 100, 1, size),
                    (-100, -100, -1, one),
                    (100, -100, -1, size),
                    (0, size as i64, 2, size.div_ceil(2)),
                    (1 << 32, i64::MAX, 1, 0),
                    (i64::MIN, (1 << 31) + 1, 1, size),
                    (i64::MAX, i64::MIN, -1, size),
                    ((1 << 53) + 1, -(1 << 53), i64::MIN, one),
                ][self.choose(10)];
                sizes[axis] = count;
                self.op(
                    it.code,
                    sizes,
                    format_args!("Slice({name}, [{start}], [{end}], [{axis}], [{step}])"),
                );
            }
            4 if rank > 0 => {
                let axis = self.choose(rank);
                sizes[axis] *= 2;
                self.op(
                    it.code,
                    sizes,
                    format_args!("Concat<axis={axis}>({name}, {name})"),
                );
            }
            5 => {
                let count = if it.code == FLOAT { 4 } else { 5 };
                let op = ["Add", "Sub", "Max", "Min", "Mul"][self.choose(count)];
                self.binary(op, &it, false);
            }
            6 if it.code != FLOAT => {
                let divisor: i64 = [2, 3, -2, 1 << 31][self.choose(4)];
                let divisor = match it.code {
                    INT32 => self
                        .graph
                        .bytes(INT32, &[], (divisor as i32).to_le_bytes().to_vec()),
                    _ => divisor.to_string(),
                };
                let op = ["Div", "Mod", "Mod<fmod=1>"][self.choose(3)];
                self.op(it.code, sizes, format_args!("{op}({name}, {divisor})"));
            }
            7 => {
                let ops = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
                let op = ops[self.choose(5)];
                self.binary(op, &it, true);
            }
            8 => self.reduce(&it),
            9 => {
                // What other numbers become of floats is not defined.
                let code = match it.code {
                    FLOAT => BOOL,
                    _ => [BOOL, INT32, INT64, FLOAT][self.choose(4)],
                };
                self.op(code, sizes, format_args!("Cast<to={code}>({name})"));
            }
            10 if !it.is_number() => {
                let op = ["And", "Or", "Xor", "Not"][self.choose(4)];
                match op {
                    "Not" => self.op(BOOL, sizes, format_args!("Not({name})")),
                    _ => self.binary(op, &it, true),
                }
            }
            11 => {
                let axis = self.choose(rank + 1);
                sizes.insert(axis, 1);
                self.op(it.code, sizes, format_args!("Unsqueeze({name}, [{axis}])"));
            }
            _ => self.op(
                it.code,
                vec![it.count()],
                format_args!("Reshape({name}, [-1])"),
            ),
        }
    }

    fn reduce(&mut self, it: &Value) {
        let rank = it.sizes.len();
        let count = if it.code == FLOAT { 3 } else { 4 };
        let op = ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"][self.choose(count)];
        let (keeps, is_noop) = (self.choose(2), self.choose(2));
        let axes = self.axes(rank);
        let reduced: Vec<usize> = match &axes {
            Some((_, axes)) if !axes.is_empty() => axes.clone(),
            _ if is_noop == 1 => Vec::new(),
            _ => (0..rank).collect(),
        };
        // The largest of nothing is an error.
        if reduced.iter().any(|&axis| it.sizes[axis] == 0) && op.starts_with("ReduceM") {
            return;
        }
        let size = |axis: usize| match reduced.contains(&axis) {
            true => (keeps == 1).then_some(1),
            false => Some(it.sizes[axis]),
        };
        let sizes = (0..rank).filter_map(size).collect();
        let axes = axes.map_or(String::new(), |(axes, _)| format!(", {axes}"));
        let call = format!(
            "{op}<keepdims={keeps};noop_with_empty_axes={is_noop}>({}{axes})",
            it.name
        );
        self.op(it.code, sizes, format_args!("{call}"));
    }

    /// An If of a value: whether all its elements hold, or any number is above 0.
    fn condition(&mut self, operand: &Value) -> String {
        let graph = &mut self.graph;
        let mut condition = operand.name.clone();
        if operand.code != BOOL || operand.count() != 1 {
            let op = match operand.code {
                BOOL => {
                    condition = graph.op(format_args!("Cast<to={INT32}>({condition})"));
                    "ReduceMin"
                }
                _ => "ReduceMax",
            };
            let one = graph.op(format_args!("{op}<keepdims=0>({condition})"));
            condition = graph.op(format_args!("Cast<to={BOOL}>({one})"));
        }
        let [neg, abs] = ["Neg", "Abs"].map(|op| {
            let mut branch = graph.within();
            let taken = branch.op(format_args!("{op}(number)"));
            let branch = branch.graph("", &format!("{taken}:f32[1]"));
            graph.inner(branch)
        });
        graph.op(format_args!(
            "If<then_branch=@{neg};else_branch=@{abs}>({condition})"
        ))
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

fn check(
    choices: Vec<u32>,
    comparison: &Comparison,
    taken: &Cell<usize>,
) -> Result<(), TestCaseError> {
    let mut made = Made {
        choices: Choices::new(choices),
        graph: Writer::new(),
        values: Vec::new(),
    };
    let number = made.graph.floats(&[1], |_| 1.0);
    made.graph.add("number", format_args!("Identity({number})"));
    while !made.choices.is_over() {
        made.step();
    }
    let values = made.values.clone();
    let values = values.iter().filter(|it| it.count() > 0);
    let results: Vec<String> = values.map(|it| made.condition(it)).collect();
    let mut graph = made.graph;
    let y = graph.op(format_args!("Concat<axis=0>({})", results.join(", ")));
    let model = graph.model("x:f32[N,3]", &format!("{y}:f32[K]"), 18);
    let sets = [2, 1, 5, 0, 1000].map(|rows: i64| {
        let bytes = vec![0; rows as usize * 12];
        vec![tensor("x", FLOAT, &[rows, 3], &bytes)]
    });
    let flags = ["--for", "tract", "--backend", "ort-plain"];
    let Some(report) = comparison.run(&"", &model, &sets, &flags)? else {
        return Ok(());
    };
    let steps = steps_of(&report, "branch");
    let found = steps.iter().filter(|step| step["result"] == "rewritten");
    taken.set(taken.get() + found.count());
    Ok(())
}

#[test]
fn random_conditions_take_the_same_branches() {
    let comparison = Comparison::new("random_conditions_take_the_same_branches");
    if !comparison.has_onnxruntime() {
        return;
    }
    let taken = Cell::new(0);
    let choices = proptest::collection::vec(any::<u32>(), 200..400);
    draw::check(4, choices, |choices| check(choices, &comparison, &taken));
    comparison.ends();
    assert!(taken.get() > 30, "{}", taken.get());
}
