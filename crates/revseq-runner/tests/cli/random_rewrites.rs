//! Random graphs of reversals and layers: what `revseq rewrite` makes of them gives the same.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};
use prost::Message;
use revseq_rewrite::{Options, PASSES};
use serde_json::Value as Json;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

use crate::common::{FLOAT, INT64, int, int64s, model, node, rewrite_and_check, tensor, value};
use crate::ort::onnxruntime;

/// The axes of a value, wherever they lie.
const TIME: usize = 0;
const BATCH: usize = 1;
const FEATURES: usize = 2;

/// Orders of three axes, and the places at which those that undo them are.
const TURNS: [[usize; 3]; 5] = [[1, 0, 2], [2, 0, 1], [1, 2, 0], [0, 2, 1], [2, 1, 0]];
const UNDO: [usize; 5] = [0, 2, 1, 3, 4];

/// The features of the input.
const WIDTH: usize = 3;

/// How something is reversed.
#[derive(Clone, Copy, Debug)]
enum How {
    /// An axis, by Slice.
    Flip(usize),
    /// Time, by a length of each sequence.
    Lengths,
    /// Time, by lengths that are all of it.
    Full,
    /// The batch, by a length at each time.
    Across,
}

#[derive(Clone, Copy, Debug)]
struct Layer {
    /// RNN, GRU or LSTM.
    kind: usize,
    hidden: usize,
    /// Whether it has lengths of its own.
    lengths: bool,
    /// Whether the state after its last step is an output of the graph.
    state: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Reverse(How),
    Turn(usize),
    Elementwise(usize),
    Sum(Index),
    Concat(Index),
    /// Fewer features.
    Narrow,
    /// A reversal in between of four axes.
    Wide(usize, How),
    Layer(Layer, usize),
    /// Two reversals with an operator between them.
    Twice(How, usize, How),
    /// A reversal between two transposes.
    Around(usize, How, usize),
    /// A layer forwards, and one over what is reversed.
    Both(Layer, How, How),
    /// A layer forwards, and one backwards.
    Mirror(Layer),
}

fn hows() -> impl Strategy<Value = How> + Clone {
    prop_oneof![
        2 => Just(How::Flip(TIME)),
        1 => (0..3_usize).prop_map(How::Flip),
        2 => Just(How::Lengths),
        2 => Just(How::Full),
        1 => Just(How::Across),
    ]
}

impl How {
    /// Another that is easily taken for it.
    fn near(self) -> Self {
        match self {
            Self::Flip(axis) => Self::Flip((axis + 1) % 3),
            Self::Lengths => Self::Full,
            Self::Full | Self::Across => Self::Lengths,
        }
    }
}

/// Two ways that mostly are one.
fn pairs() -> impl Strategy<Value = (How, How)> {
    (hows(), proptest::bool::weighted(0.7))
        .prop_map(|(how, same)| (how, if same { how } else { how.near() }))
}

fn layers() -> impl Strategy<Value = Layer> {
    (0..3_usize, 1..4_usize, any::<bool>(), any::<bool>()).prop_map(
        |(kind, hidden, lengths, state)| Layer {
            kind,
            hidden,
            lengths,
            state,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let turns = || 0..TURNS.len();
    prop_oneof![
        3 => hows().prop_map(Step::Reverse),
        1 => turns().prop_map(Step::Turn),
        1 => (0..5_usize).prop_map(Step::Elementwise),
        1 => any::<Index>().prop_map(Step::Sum),
        1 => any::<Index>().prop_map(Step::Concat),
        1 => Just(Step::Narrow),
        1 => (0..4_usize, hows()).prop_map(|(axis, how)| Step::Wide(axis, how)),
        1 => (layers(), 0..3_usize).prop_map(|(layer, direction)| Step::Layer(layer, direction)),
        6 => (pairs(), 0..5_usize).prop_map(|((first, last), op)| Step::Twice(first, op, last)),
        3 => (turns(), hows(), turns(), proptest::bool::weighted(0.8)).prop_map(
            |(turn, how, other, same)| Step::Around(turn, how, if same { UNDO[turn] } else { other })
        ),
        3 => (layers(), pairs()).prop_map(|(layer, (first, last))| Step::Both(layer, first, last)),
        1 => layers().prop_map(Step::Mirror),
    ]
}

/// The sizes of a run: time, batch, and what lengths are made of.
type Sizes = (usize, usize, u64);

#[derive(Clone, Debug)]
struct Case {
    steps: Vec<Step>,
    /// Whether it keeps to what ONNX Runtime takes, or to what tract does.
    for_ort: bool,
    /// Which value is an output besides.
    middle: Index,
    opset: i64,
    sizes: [Sizes; 2],
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = || (1..6_usize, 1..5_usize, any::<u64>());
    (
        proptest::collection::vec(steps(), 2..7),
        any::<bool>(),
        any::<Index>(),
        prop_oneof![Just(11_i64), Just(17)],
        [sizes(), sizes()],
    )
        .prop_map(|(steps, for_ort, middle, opset, sizes)| Case {
            steps,
            for_ort,
            middle,
            opset,
            sizes,
        })
}

impl Case {
    fn computes(&self) -> bool {
        let is_layer =
            |step: &Step| matches!(step, Step::Layer(..) | Step::Both(..) | Step::Mirror(_));
        self.steps.iter().any(is_layer)
    }
}

/// Whether a difference is so small that it is the runtime's: it may compute a layer another way
/// where what is around it is another.
fn is_rounding(result: &str) -> bool {
    let error = result.split_once(", max error ");
    error.is_some_and(|(_, error)| error.parse().is_ok_and(|error: f64| error < 1e-5))
}

/// A value of three axes.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    /// Which axis is where.
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
struct Graph {
    opset: i64,
    for_ort: bool,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    values: Vec<Value>,
    states: Vec<String>,
    count: usize,
}

impl Graph {
    fn new(case: &Case) -> Self {
        Self {
            opset: case.opset,
            for_ort: case.for_ort,
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
                (mixed as f32 / 64.0 - 0.5).to_le_bytes()
            })
            .collect();
        let sizes: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.initializers.push(tensor(&name, FLOAT, &sizes, &bytes));
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

    /// A step that the runtime takes which the graph is for.
    fn allowed(&self, step: Step, last: &Value) -> Step {
        let flat = |how: How| match how {
            How::Flip(_) => how,
            // ONNX Runtime has no other axes than 0 and 1.
            _ => How::Flip(TIME),
        };
        let plain = |layer: Layer| Layer {
            lengths: false,
            ..layer
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
            // tract's layers have no lengths, and none runs backwards alone.
            Step::Layer(layer, 1) if !self.for_ort => Step::Layer(plain(layer), 2),
            Step::Layer(layer, direction) if !self.for_ort => Step::Layer(plain(layer), direction),
            Step::Both(layer, how, back) if !self.for_ort => Step::Both(plain(layer), how, back),
            Step::Mirror(layer) if !self.for_ort => {
                Step::Both(plain(layer), How::Flip(TIME), How::Flip(TIME))
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

    fn add(&mut self, step: Step) {
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
            Step::Mirror(layer) => {
                let input = self.time_major(&last);
                let [forwards, backwards] = [0, 1].map(|it| self.layer(&input, layer, it));
                self.concat(&forwards, &backwards)
            }
        };
        self.values.push(made);
    }

    fn into_model(self, middle: Index) -> ModelProto {
        let last = self.values.last().expect("a value");
        let mut outputs = vec![last.name.clone()];
        outputs.extend(self.states);
        let made = &self.values[1..];
        let middle = &made[middle.index(made.len())].name;
        if !outputs.contains(middle) {
            outputs.push(middle.clone());
        }
        let output = outputs.iter().enumerate().map(|(index, name)| {
            let sizes = [0, 1, 2].map(|axis| format!("o{index}_{axis}"));
            value(name, FLOAT, &sizes.each_ref().map(String::as_str))
        });
        let graph = GraphProto {
            name: "graph".to_owned(),
            input: vec![
                value("x", FLOAT, &["T", "B", &WIDTH.to_string()]),
                value("lens", INT64, &["B"]),
                value("times", INT64, &["T"]),
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

/// The inputs of a run.
fn inputs((time, batch, seed): Sizes) -> [TensorProto; 3] {
    let lengths = |count: usize, highest: usize| -> Vec<i64> {
        let length = |index| (seed >> (8 * index as u32)) % (highest as u64 + 1);
        (0..count).map(|index| length(index) as i64).collect()
    };
    let bytes: Vec<u8> = (0..time * batch * WIDTH)
        .flat_map(|index| {
            let mixed = (index as u64 * 53 + seed % 97) % 128;
            (mixed as f32 / 64.0 - 1.0).to_le_bytes()
        })
        .collect();
    [
        tensor(
            "x",
            FLOAT,
            &[time as i64, batch as i64, WIDTH as i64],
            &bytes,
        ),
        int64s("lens", &lengths(batch, time)),
        int64s("times", &lengths(time, batch)),
    ]
}

/// What a model can be rewritten by: each pass alone, and all of them, as flags.
fn rewritings() -> Vec<Vec<&'static str>> {
    let alone = PASSES.iter().map(|pass| vec!["--pass", pass.name]);
    let together = [
        vec!["--fast"],
        vec!["--portable"],
        vec!["--fast", "--portable"],
        vec!["--fast", "--pass", "sequence-lens"],
    ];
    alone.chain(together).collect()
}

fn options(flags: &[&str]) -> Options {
    let named = flags.iter().filter(|flag| !flag.starts_with("--"));
    Options {
        portable: flags.contains(&"--portable"),
        fast: flags.contains(&"--fast"),
        passes: named.map(|&name| name.to_owned()).collect(),
        ..Options::default()
    }
}

/// What was compared, by flags.
type Compared = BTreeMap<String, On>;

#[derive(Debug, Default)]
struct On {
    chosen: usize,
    /// The backends that ran the model, and what it was rewritten to.
    backends: BTreeSet<String>,
}

/// Rewrites a case's graph in every way; compares one of those that do something.
fn check(
    case: &Case,
    library: Option<&str>,
    compared: &RefCell<Compared>,
) -> Result<(), TestCaseError> {
    let mut graph = Graph::new(case);
    for &step in &case.steps {
        graph.add(step);
    }
    let model = graph.into_model(case.middle);
    let bytes = model.encode_to_vec();
    let mut rewritten = Vec::new();
    for flags in rewritings() {
        let mut model = revseq_rewrite::decode(&bytes).expect("a model");
        let report = revseq_rewrite::rewrite(&mut model, &options(&flags)).expect("known passes");
        if report.rewritten().next().is_some() {
            rewritten.push(flags.join(" "));
        } else {
            let same = revseq_rewrite::decode(&bytes).expect("a model") == model;
            prop_assert!(same, "{flags:?} changes it without a word");
        }
    }
    // A process each takes its time: what was compared least.
    let times = |flags: &String| compared.borrow().get(flags).map_or(0, |it| it.chosen);
    let Some(flags) = rewritten.into_iter().min_by_key(times) else {
        return Ok(());
    };
    for (backend, result) in compare(&bytes, &flags, case, library)? {
        let is_same = result == "ok" || case.computes() && is_rounding(&result);
        prop_assert!(
            is_same || result.starts_with("skipped"),
            "{flags} on {backend}: {result}\n{case:?}"
        );
        if is_same {
            let mut compared = compared.borrow_mut();
            compared
                .entry(flags.clone())
                .or_default()
                .backends
                .insert(backend);
        }
    }
    compared.borrow_mut().entry(flags).or_default().chosen += 1;
    Ok(())
}

/// What `--check` says of a rewriting, by backend.
fn compare(
    bytes: &[u8],
    flags: &str,
    case: &Case,
    library: Option<&str>,
) -> Result<Vec<(String, String)>, TestCaseError> {
    let sets = case.sizes.iter().map(|&sizes| inputs(sizes));
    let split: Vec<&str> = flags.split(' ').collect();
    let run = rewrite_and_check(bytes, sets, &split, library);
    if run.stderr.contains("no backend runs both models") {
        return Ok(Vec::new());
    }
    let json: Json = serde_json::from_str(&run.stdout)
        .map_err(|_| TestCaseError::fail(format!("{flags}: {}\n{case:?}", run.stderr)))?;
    let checks = json["checks"].as_array().expect("checks").iter();
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    Ok(checks
        .map(|check| {
            let result = format!("{} {}", text(&check["result"]), text(&check["reason"]));
            (text(&check["backend"]), result.trim().to_owned())
        })
        .collect())
}

#[test]
fn random_graphs_give_the_same_once_rewritten() {
    let library = onnxruntime("random_graphs_give_the_same_once_rewritten");
    let config = Config {
        cases: 40,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..Config::default()
    };
    // Always the same ones, so that each rewriting is among them.
    let random = TestRng::deterministic_rng(config.rng_algorithm);
    let compared = RefCell::default();
    TestRunner::new_with_rng(config, random)
        .run(&cases(), |case| check(&case, library.as_deref(), &compared))
        .unwrap_or_else(|error| panic!("{error}"));
    let compared = compared.into_inner();
    for flags in rewritings() {
        let flags = flags.join(" ");
        let is_on = |backend: &str| {
            let on = compared.get(&flags);
            on.is_some_and(|on| on.backends.contains(backend))
        };
        // There is no loop.
        let is_made = flags != "--pass recurrent-loop";
        // The others are about layers with lengths or in reverse, which tract lacks.
        let is_tracts = ["full-flip", "transpose", "cancel", "portable"]
            .iter()
            .any(|pass| flags.ends_with(pass));
        assert!(
            !is_made || !is_tracts || is_on("tract"),
            "{flags}: {compared:#?}"
        );
        let is_tested = is_made && library.is_some();
        assert!(
            !is_tested || is_on("ONNX Runtime"),
            "{flags}: {compared:#?}"
        );
    }
}
