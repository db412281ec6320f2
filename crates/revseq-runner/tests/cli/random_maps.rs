//! Random loops that map each step on its own: over all steps they give the same.
//!
//! A body is a chain of operators from a step of `x` to the step's output. Each operator alone is
//! taken, and left alone once the loop depends on more than its own step.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use prost::Message;
use revseq_rewrite::{Options, Outcome};
use serde_json::Value as Json;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

use crate::common::{
    BOOL, FLOAT, INT64, graph_attribute, int, int64s, model, node, rewrite_and_check, tensor, value,
};
use crate::ort::onnxruntime;

/// The features of the input.
const WIDTH: usize = 3;

/// An operator of a body, with what it needs around it: a matrix becomes another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Tanh,
    Clip,
    Where,
    MatMul,
    Gemm,
    Product,
    Softmax,
    LayerNormalization,
    Center,
    AddSums,
    Transposed,
    Concat,
    Slice,
    Split,
    Squeezed,
    Reshape,
    ReshapeByShape,
    Expand,
    Embedding,
    TopK,
    Number,
    Outer,
    Variadic,
    Conv,
    Pool,
}

const STEPS: [Step; 25] = [
    Step::Tanh,
    Step::Clip,
    Step::Where,
    Step::MatMul,
    Step::Gemm,
    Step::Product,
    Step::Softmax,
    Step::LayerNormalization,
    Step::Center,
    Step::AddSums,
    Step::Transposed,
    Step::Concat,
    Step::Slice,
    Step::Split,
    Step::Squeezed,
    Step::Reshape,
    Step::ReshapeByShape,
    Step::Expand,
    Step::Embedding,
    Step::TopK,
    Step::Number,
    Step::Outer,
    Step::Variadic,
    Step::Conv,
    Step::Pool,
];

/// A dependence of a loop on more than its own step.
#[derive(Clone, Copy, Debug)]
enum Dependence {
    State,
    NextStep,
    OtherAxis,
    EarlyStop,
    NoForm,
    SizeByStep,
}

const DEPENDENCES: [Dependence; 6] = [
    Dependence::State,
    Dependence::NextStep,
    Dependence::OtherAxis,
    Dependence::EarlyStop,
    Dependence::NoForm,
    Dependence::SizeByStep,
];

#[derive(Clone, Debug)]
struct Case {
    steps: Vec<Step>,
    /// The axis of `x` that holds the steps.
    axis: usize,
    /// Whether the sizes of `x` are declared as numbers.
    are_sizes_known: bool,
    depends: Option<Dependence>,
}

/// The nodes of a body.
#[derive(Default)]
struct Body {
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
}

impl Body {
    fn op(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = format!("v{}", self.nodes.len());
        let mut made = node(op, inputs, &[&output]);
        made.attribute = attributes;
        self.nodes.push(made);
        output
    }

    fn plain(&mut self, op: &str, inputs: &[&str]) -> String {
        self.op(op, inputs, Vec::new())
    }

    fn ints(&mut self, values: &[i64]) -> String {
        let name = format!("i{}", self.initializers.len());
        self.initializers.push(int64s(&name, values));
        name
    }

    fn floats(&mut self, sizes: &[usize]) -> String {
        let name = format!("f{}", self.initializers.len());
        let count = sizes.iter().product::<usize>();
        let numbers = (0..count).map(|index| (index * 37 % 64) as f32 / 32.0 - 0.9);
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.initializers.push(tensor(&name, FLOAT, &sizes, &bytes));
        name
    }

    /// Adds a step over a matrix `[batch, width]`, and returns another.
    fn add(&mut self, step: Step, (v, width): (&str, usize)) -> (String, usize) {
        let axis = |axis| vec![int("axis", axis)];
        let made = match step {
            Step::Tanh => self.plain("Tanh", &[v]),
            Step::Clip => {
                let least = self.floats(&[]);
                self.plain("Clip", &[v, &least])
            }
            Step::Where => {
                let least = self.floats(&[width]);
                let is_more = self.plain("Greater", &[v, &least]);
                self.plain("Where", &[&is_more, v, &least])
            }
            Step::MatMul => {
                let weights = self.floats(&[width, 2]);
                return (self.plain("MatMul", &[v, &weights]), 2);
            }
            Step::Gemm => {
                let (weights, bias) = (self.floats(&[4, width]), self.floats(&[4]));
                let attributes = vec![int("transB", 1)];
                return (self.op("Gemm", &[v, &weights, &bias], attributes), 4);
            }
            Step::Product => {
                let turned = self.plain("Transpose", &[v]);
                let square = self.plain("MatMul", &[v, &turned]);
                self.plain("MatMul", &[&square, v])
            }
            Step::Softmax => self.op("Softmax", &[v], axis(-1)),
            Step::LayerNormalization => {
                let scale = self.floats(&[width]);
                self.op("LayerNormalization", &[v, &scale, &scale], axis(1))
            }
            Step::Center => {
                let mean = self.op("ReduceMean", &[v], vec![ints("axes", &[-1])]);
                self.plain("Sub", &[v, &mean])
            }
            Step::AddSums => {
                let first = self.ints(&[0]);
                let sums = self.op("ReduceSum", &[v, &first], vec![int("keepdims", 0)]);
                self.plain("Add", &[v, &sums])
            }
            Step::Embedding => {
                let table = self.floats(&[width, 2]);
                let attributes = vec![int("axis", 1), int("keepdims", 0)];
                let best = self.op("ArgMax", &[v], attributes);
                return (self.plain("Gather", &[&table, &best]), 2);
            }
            Step::TopK => {
                let one = self.ints(&[1]);
                let outputs = ["", "_"].map(|end| format!("k{}{end}", self.nodes.len()));
                let best = node("TopK", &[v, &one], &[&outputs[0], &outputs[1]]);
                self.nodes.push(best);
                let place = self.op("Cast", &[&outputs[1]], vec![int("to", FLOAT.into())]);
                let sum = self.plain("Add", &[&outputs[0], &place]);
                self.plain("Mul", &[v, &sum])
            }
            Step::Number => {
                let number = self.op("Cast", &["i"], vec![int("to", FLOAT.into())]);
                self.plain("Mul", &[v, &number])
            }
            Step::Outer => self.plain("Add", &[v, "largest"]),
            Step::Variadic => {
                let (matrix, row) = (self.floats(&[1, width]), self.floats(&[width]));
                let mean = self.plain("Mean", &[&matrix, v]);
                let sum = self.plain("Sum", &["largest", &row, &mean]);
                self.plain("Max", &[&row, &sum, v])
            }
            Step::Conv => {
                let one = self.ints(&[1]);
                let row = self.plain("Unsqueeze", &[v, &one]);
                let (weights, bias) = (self.floats(&[1, 1, 1]), self.floats(&[1]));
                let made = self.plain("Conv", &[&row, &weights, &bias]);
                self.plain("Squeeze", &[&made, &one])
            }
            Step::Pool => {
                let one = self.ints(&[1]);
                let row = self.plain("Unsqueeze", &[v, &one]);
                let mean = self.plain("GlobalAveragePool", &[&row]);
                let column = self.plain("Squeeze", &[&mean, &one]);
                self.plain("Add", &[v, &column])
            }
            _ => return self.shape(step, (v, width)),
        };
        (made, width)
    }

    /// Adds a step that moves elements, around an operator that computes.
    fn shape(&mut self, step: Step, (v, width): (&str, usize)) -> (String, usize) {
        let axis = |axis| vec![int("axis", axis)];
        let made = match step {
            Step::Transposed => {
                let turned = self.op("Transpose", &[v], vec![ints("perm", &[1, 0])]);
                let changed = self.plain("Exp", &[&turned]);
                self.plain("Transpose", &[&changed])
            }
            Step::Concat => {
                let other = self.plain("Neg", &[v]);
                return (self.op("Concat", &[v, &other], axis(1)), 2 * width);
            }
            Step::Slice => {
                let [start, axes] = [0, 1].map(|number| self.ints(&[number]));
                let end = self.ints(&[2]);
                let sliced = self.plain("Slice", &[v, &start, &end, &axes]);
                return (self.plain("Abs", &[&sliced]), width.min(2));
            }
            Step::Split => {
                let lengths = self.ints(&[1, width as i64 - 1]);
                let outputs = ["", "_"].map(|end| format!("s{}{end}", self.nodes.len()));
                let mut split = node("Split", &[v, &lengths], &[&outputs[0], &outputs[1]]);
                split.attribute = axis(-1);
                self.nodes.push(split);
                return (self.plain("Mul", &[&outputs[1], &outputs[0]]), width - 1);
            }
            Step::Squeezed => {
                let last = self.ints(&[-1]);
                let column = self.plain("Unsqueeze", &[v, &last]);
                let changed = self.plain("Sigmoid", &[&column]);
                self.plain("Squeeze", &[&changed, &last])
            }
            Step::Reshape => {
                let shape = self.ints(&[-1, 1, width as i64]);
                let shaped = self.plain("Reshape", &[v, &shape]);
                let back = self.ints(&[0, -1]);
                let changed = self.plain("Neg", &[&shaped]);
                self.plain("Reshape", &[&changed, &back])
            }
            Step::ReshapeByShape => {
                let shape = self.plain("Shape", &[v]);
                let [first, one] = [0, 1].map(|number| self.ints(&[number]));
                let [rows, columns] =
                    [&first, &one].map(|place| self.plain("Gather", &[&shape, place]));
                let shape = self.op("Concat", &[&rows, &columns, &one], axis(0));
                let shaped = self.plain("Reshape", &[v, &shape]);
                let changed = self.plain("Neg", &[&shaped]);
                let last = self.ints(&[2]);
                self.plain("Squeeze", &[&changed, &last])
            }
            Step::Expand => {
                let shape = self.ints(&[2, 1, 1]);
                let both = self.plain("Expand", &[v, &shape]);
                let attributes = vec![ints("axes", &[0]), int("keepdims", 0)];
                self.op("ReduceMean", &[&both], attributes)
            }
            _ => unreachable!("{step:?} is no step that moves elements"),
        };
        (made, width)
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

fn untyped(name: &str, elem_type: i32) -> tract_onnx::pb::ValueInfoProto {
    let mut value = value(name, elem_type, &[]);
    if let Some(tract_onnx::pb::type_proto::Value::TensorType(tensor)) =
        value.r#type.as_mut().and_then(|it| it.value.as_mut())
    {
        tensor.shape = None;
    }
    value
}

impl Case {
    fn body(&self) -> GraphProto {
        let mut body = Body::default();
        let one = body.ints(&[1]);
        let scalar = body.plain("Squeeze", &[&one]);
        let next = body.plain("Add", &["i", &scalar]);
        let is_next = matches!(self.depends, Some(Dependence::NextStep));
        let at = if is_next { next.as_str() } else { "i" };
        let axis = vec![int("axis", self.axis as i64)];
        let mut last = body.op("Gather", &["x", at], axis);
        let mut width = WIDTH;
        for &step in &self.steps {
            (last, width) = body.add(step, (&last, width));
        }
        let mut condition = body.plain("Identity", &["c"]);
        let mut states = Vec::new();
        match self.depends {
            Some(Dependence::State) => {
                let most = body.op("ReduceMax", &[&last], vec![int("keepdims", 0)]);
                last = body.plain("Add", &[&last, "s"]);
                states.push(("s", body.plain("Max", &[&most, "s"])));
            }
            Some(Dependence::EarlyStop) => {
                let most = body.op("ReduceMax", &[&last], vec![int("keepdims", 0)]);
                let limit = body.floats(&[]);
                condition = body.plain("Less", &[&most, &limit]);
            }
            Some(Dependence::NoForm) => {
                let zero = body.ints(&[0]);
                last = body.plain("CumSum", &[&last, &zero]);
            }
            Some(Dependence::SizeByStep) => {
                let zero = body.ints(&[0]);
                let end = body.plain("Reshape", &[&next, &one]);
                last = body.plain("Slice", &[&last, &zero, &end, &zero]);
            }
            _ => {}
        }
        let result = body.plain("Identity", &[&last]);
        let mut inputs = vec![value("i", INT64, &[]), value("c", BOOL, &[])];
        let mut outputs = vec![value(&condition, BOOL, &[])];
        for (carried, updated) in &states {
            inputs.push(value(carried, FLOAT, &[]));
            outputs.push(value(updated, FLOAT, &[]));
        }
        outputs.push(untyped(&result, FLOAT));
        GraphProto {
            name: "body".to_owned(),
            input: inputs,
            output: outputs,
            node: body.nodes,
            initializer: body.initializers,
            ..GraphProto::default()
        }
    }

    fn model(&self) -> ModelProto {
        let body = self.body();
        let is_other = matches!(self.depends, Some(Dependence::OtherAxis));
        let read = if is_other { 1 - self.axis } else { self.axis };
        let place = int64s("place", &[read as i64]);
        let mut nodes = vec![
            node("Shape", &["x"], &["shape"]),
            node("Gather", &["shape", "place"], &["sizes"]),
            node("Squeeze", &["sizes"], &["count"]),
            node("ReduceMax", &["x"], &["most"]),
            node("Squeeze", &["most"], &["largest"]),
        ];
        let mut inputs = vec!["count", ""];
        let mut outputs = vec!["y"];
        if matches!(self.depends, Some(Dependence::State)) {
            inputs.push("largest");
            outputs.insert(0, "ended");
        }
        let mut made = node("Loop", &inputs, &outputs);
        made.attribute = vec![graph_attribute("body", body)];
        nodes.push(made);
        let mut sizes = ["T", "B", "3"];
        if self.are_sizes_known {
            sizes = ["4", "2", "3"];
        }
        sizes.swap(0, self.axis);
        model(GraphProto {
            name: "graph".to_owned(),
            input: vec![value("x", FLOAT, &sizes)],
            output: vec![untyped("y", FLOAT)],
            node: nodes,
            initializer: vec![place],
            ..GraphProto::default()
        })
    }
}

/// The input of a run: steps, batch and a seed.
fn inputs((time, batch, seed): (usize, usize, u64), axis: usize) -> [TensorProto; 1] {
    let mixed = |index: usize| (index as u64 + 1).wrapping_mul(seed | 1) >> 7;
    let count = time * batch * WIDTH;
    let x = (0..count).map(|index| (mixed(index) % 128) as f32 / 64.0 - 1.0);
    let x: Vec<u8> = x.flat_map(f32::to_le_bytes).collect();
    let mut sizes = [time as i64, batch as i64, WIDTH as i64];
    sizes.swap(0, axis);
    [tensor("x", FLOAT, &sizes, &x)]
}

/// The outcome of the pass for a case's loop; `None` if it reports none.
fn outcome(case: &Case) -> Option<Outcome> {
    let bytes = case.model().encode_to_vec();
    let mut model = revseq_onnx::decode(&bytes).expect("a model");
    let options = Options {
        passes: vec!["map".to_owned()],
        ..Options::default()
    };
    let report = revseq_rewrite::rewrite(&mut model, &options).expect("known passes");
    let mut again = model.clone();
    revseq_rewrite::rewrite(&mut again, &options).expect("known passes");
    assert!(again == model, "a second run changes more: {case:?}");
    report.steps.first().map(|step| step.outcome.clone())
}

#[test]
fn each_operator_is_taken_and_left_alone() {
    for step in STEPS {
        let case = Case {
            steps: vec![step],
            axis: 0,
            are_sizes_known: false,
            depends: None,
        };
        let taken = outcome(&case);
        assert!(
            matches!(taken, Some(Outcome::Rewritten(_))),
            "{step:?}: {taken:?}"
        );
        for depends in DEPENDENCES {
            let case = Case {
                depends: Some(depends),
                ..case.clone()
            };
            let left = outcome(&case);
            let fits = match depends {
                // The pass reports no loop that carries a state.
                Dependence::State => left.is_none(),
                // A step beyond the axis is an error of the Gather that reads all.
                Dependence::OtherAxis => matches!(left, Some(Outcome::Rewritten(_))),
                _ => matches!(left, Some(Outcome::LeftAlone(_))),
            };
            assert!(fits, "{case:?}: {left:?}");
        }
    }
}

/// Sizes are read through several operators.
#[test]
fn each_operator_is_taken_behind_others() {
    for (first, last) in STEPS.iter().flat_map(|a| STEPS.map(|b| (*a, b))) {
        let case = Case {
            steps: fitting(vec![Step::Transposed, first, last]),
            axis: 0,
            are_sizes_known: false,
            depends: None,
        };
        let taken = outcome(&case);
        assert!(
            matches!(taken, Some(Outcome::Rewritten(_))),
            "{case:?}: {taken:?}"
        );
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let steps = proptest::collection::vec(proptest::sample::select(&STEPS[..]), 1..5);
    let given = (steps, 0..2_usize, any::<bool>());
    given.prop_map(|(steps, axis, are_sizes_known)| Case {
        steps: fitting(steps),
        axis,
        are_sizes_known,
        depends: None,
    })
}

/// The steps without splits of less than two columns.
fn fitting(mut steps: Vec<Step>) -> Vec<Step> {
    let mut width = WIDTH;
    steps.retain(|&step| {
        let fits = step != Step::Split || width >= 2;
        if fits {
            width = Body::default().add(step, ("v", width)).1;
        }
        fits
    });
    steps
}

/// Random models, each in its bytes.
pub(crate) fn models() -> impl Strategy<Value = Vec<u8>> {
    cases().prop_map(|case| case.model().encode_to_vec())
}

fn check(
    case: &Case,
    sizes: [(usize, usize, u64); 2],
    library: Option<&str>,
) -> Result<(), TestCaseError> {
    let taken = outcome(case);
    prop_assert!(
        matches!(taken, Some(Outcome::Rewritten(_))),
        "{:?}: {:?}",
        case,
        taken
    );
    let sizes = sizes.map(|(time, batch, seed)| match case.are_sizes_known {
        true => (4, 2, seed),
        false => (time, batch, seed),
    });
    let sets = sizes.into_iter().map(|sizes| inputs(sizes, case.axis));
    let bytes = case.model().encode_to_vec();
    let run = rewrite_and_check(&bytes, sets, &["--pass", "map"], library);
    // tract does not run every loop; without ONNX Runtime nothing is left to compare.
    let fails_before = "no backend runs both models: tract: the original model: ";
    if run.stderr.contains(fails_before) && library.is_none() {
        return Ok(());
    }
    let json: Json = serde_json::from_str(&run.stdout)
        .map_err(|_| TestCaseError::fail(format!("{}\n{case:?}", run.stderr)))?;
    for check in json["checks"].as_array().expect("checks") {
        let reason = check["reason"].as_str().unwrap_or_default();
        let is_there = library.is_some() || check["backend"] == "tract";
        let could_run = is_there && !reason.starts_with("the original model: ");
        let expected = if could_run { "ok" } else { "skipped" };
        let result = check["result"].as_str();
        prop_assert_eq!(result, Some(expected), "{}\n{:?}", check, case);
    }
    Ok(())
}

#[test]
fn random_maps_give_the_same_over_all_steps() {
    let library = onnxruntime("random_maps_give_the_same_over_all_steps");
    let config = ProptestConfig {
        cases: 40,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let sizes = || (1..6_usize, 1..5_usize, any::<u64>());
    proptest!(config, |(case in cases(), sizes in [sizes(), sizes()])| {
        check(&case, sizes, library.as_deref())?;
    });
}
