//! Loops as programs, against what their formulas give.

use std::sync::atomic::{AtomicUsize, Ordering};

use recurrent_layers::Stop;
use recurrent_steps::{Around, Elements, ElementsMut, Error, Kind, Limits, Outputs, Steps, Tensor};
use revseq_onnx::model::{
    self, AttributeProto, AttributeType, DOUBLE, FLOAT, GraphProto, INT64, NodeProto, TensorProto,
    int, int64_tensor, ints, node, tensor, text, texts, untyped,
};

/// Around the loop, names with a small `n` first are int64, and all others float32.
struct Values;

impl Around for Values {
    fn code(&self, name: &str) -> Option<i32> {
        Some(if name.starts_with('n') { INT64 } else { FLOAT })
    }

    fn constant(&self, _name: &str) -> Option<TensorProto> {
        None
    }
}

/// The memory of outputs, and the sizes that they were asked for.
struct Room<'a> {
    memory: Vec<Option<&'a mut [f32]>>,
    sizes: Vec<Vec<usize>>,
}

impl<'a> Room<'a> {
    fn new(memory: &'a mut [Vec<f32>]) -> Self {
        let sizes = vec![vec![]; memory.len()];
        let memory = memory.iter_mut().map(|it| Some(&mut **it)).collect();
        Self { memory, sizes }
    }
}

impl<'a> Outputs<'a> for Room<'a> {
    fn room(
        &mut self,
        index: usize,
        kind: Kind,
        sizes: &[usize],
    ) -> Result<ElementsMut<'a>, String> {
        assert_eq!(kind, Kind::Float);
        self.sizes[index] = sizes.to_vec();
        let all = self.memory[index].take().ok_or("it was given before")?;
        all.get_mut(..sizes.iter().product())
            .map(ElementsMut::Float)
            .ok_or_else(|| format!("{sizes:?} are too many"))
    }
}

fn body(nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> AttributeProto {
    let graph = GraphProto {
        node: nodes,
        input: inputs.iter().map(|name| untyped(name)).collect(),
        output: outputs.iter().map(|name| untyped(name)).collect(),
        ..GraphProto::default()
    };
    AttributeProto {
        name: Some("body".into()),
        r#type: Some(AttributeType::GRAPH),
        g: graph.into(),
        ..AttributeProto::default()
    }
}

fn constant(name: &str, value: TensorProto) -> NodeProto {
    node("Constant", &[], &[name], vec![tensor("value", value)])
}

/// Numbers that look like chance.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7 + seed * 13) % 23) as f32 / 16.0 - 0.7;
    (0..len).map(number).collect()
}

fn floats<'a>(sizes: &'a [usize], elements: &'a [f32]) -> Tensor<'a> {
    Tensor {
        sizes,
        elements: Elements::Float(elements),
    }
}

fn close(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (actual, expected)) in std::iter::zip(actual, expected).enumerate() {
        let bound = 1e-4 * expected.abs().max(1.0);
        assert!(
            (actual - expected).abs() <= bound,
            "{what} {index}: {actual} for {expected}"
        );
    }
}

/// `S ← g S + k vᵀ`, `o = Sᵀ q` and `p = S r`, for sizes that fill blocks and for others.
#[test]
fn matrix_states_are_those_of_their_formula() {
    for [heads, keys, values] in [
        [1, 4, 16],
        [2, 33, 70],
        [3, 8, 15],
        [2, 5, 130],
        [1, 64, 64],
    ] {
        let steps = 3;
        let axis = |name: &str, axis: i64| constant(name, int64_tensor(&[1], &[axis]));
        let unsqueeze =
            |from: &str, axis: &str, to: &str| node("Unsqueeze", &[from, axis], &[to], vec![]);
        let nodes = vec![
            axis("one", 1),
            axis("two", 2),
            unsqueeze("g", "two", "g_wide"),
            unsqueeze("k", "two", "k_wide"),
            unsqueeze("v", "one", "v_wide"),
            node("Mul", &["g_wide", "s"], &["faded"], vec![]),
            node("Mul", &["k_wide", "v_wide"], &["outer"], vec![]),
            node("Add", &["faded", "outer"], &["next"], vec![]),
            unsqueeze("q", "one", "q_wide"),
            node("MatMul", &["q_wide", "next"], &["o_wide"], vec![]),
            node("Squeeze", &["o_wide", "one"], &["o"], vec![]),
            node(
                "Einsum",
                &["next", "r"],
                &["p"],
                vec![text("equation", "hkv,hv->hk")],
            ),
        ];
        let inputs = ["s", "g", "k", "v", "q", "r"];
        let scan = node(
            "Scan",
            &["s0", "gs", "ks", "vs", "qs", "rs"],
            &["last", "os", "ps"],
            vec![
                body(nodes, &inputs, &["next", "o", "p"]),
                int("num_scan_inputs", 5),
            ],
        );
        let program = Steps::read(&scan, 17, &Values).unwrap();
        let by_key = [steps, heads, keys];
        let by_value = [steps, heads, values];
        let s0 = numbers(heads * keys * values, 1);
        let [g, k, q] = [2, 3, 4].map(|seed| numbers(steps * heads * keys, seed));
        let [v, r] = [5, 6].map(|seed| numbers(steps * heads * values, seed));
        let sizes = [heads, keys, values];
        let given = [
            floats(&sizes, &s0),
            floats(&by_key, &g),
            floats(&by_key, &k),
            floats(&by_value, &v),
            floats(&by_key, &q),
            floats(&by_value, &r),
        ];
        let mut memory = [s0.len(), v.len(), k.len()].map(|len| vec![f32::NAN; len]);
        program
            .run(&given, &mut Room::new(&mut memory), None)
            .unwrap();

        let (mut s, mut o, mut p) = (s0.clone(), vec![0.0; v.len()], vec![0.0; k.len()]);
        for step in 0..steps {
            for head in 0..heads {
                for key in 0..keys {
                    let row = (step * heads + head) * keys + key;
                    for value in 0..values {
                        let column = (step * heads + head) * values + value;
                        let at = &mut s[(head * keys + key) * values + value];
                        *at = g[row] * *at + k[row] * v[column];
                        o[column] += q[row] * *at;
                        p[row] += r[column] * *at;
                    }
                }
            }
        }
        close(&memory[0], &s, &format!("state of {sizes:?}"));
        close(&memory[1], &o, &format!("columns of {sizes:?}"));
        close(&memory[2], &p, &format!("rows of {sizes:?}"));
    }
}

/// States that change places, one of which is read after it is written.
#[test]
fn states_are_those_of_the_step_before() {
    let nodes = vec![
        node("Add", &["a", "b"], &["sum"], vec![]),
        node("Identity", &["a"], &["old"], vec![]),
        node("Mul", &["sum", "old"], &["product"], vec![]),
    ];
    let scan = node(
        "Scan",
        &["a0", "b0", "xs"],
        &["a_last", "b_last", "products"],
        vec![
            body(nodes, &["a", "b", "x"], &["sum", "old", "product"]),
            int("num_scan_inputs", 1),
        ],
    );
    let program = Steps::read(&scan, 17, &Values).unwrap();
    let (a, b) = (vec![1.0, 2.0], vec![0.5, 0.0]);
    let given = [
        floats(&[2], &a),
        floats(&[2], &b),
        floats(&[3, 1], &[0.0; 3]),
    ];
    let mut memory = [vec![0.0; 2], vec![0.0; 2], vec![0.0; 6]];
    program
        .run(&given, &mut Room::new(&mut memory), None)
        .unwrap();
    // (1, 0.5) → (1.5, 1) → (2.5, 1.5) → (4, 2.5); (2, 0) → (2, 2) → (4, 2) → (6, 4)
    assert_eq!(memory[0], [4.0, 6.0]);
    assert_eq!(memory[1], [2.5, 4.0]);
    assert_eq!(memory[2], [1.5, 4.0, 3.75, 8.0, 10.0, 24.0]);
}

/// A row from the end, and parts that move with the step.
#[test]
fn views_move_with_the_step() {
    let nodes = vec![
        constant("last", int64_tensor(&[], &[3])),
        constant("one", int64_tensor(&[1], &[1])),
        constant("zero", int64_tensor(&[1], &[0])),
        node("Sub", &["last", "n"], &["back"], vec![]),
        node("Gather", &["x", "back"], &["row"], vec![]),
        node("Unsqueeze", &["n", "zero"], &["from"], vec![]),
        node("Add", &["from", "one"], &["to"], vec![]),
        node("Slice", &["x", "from", "to", "zero"], &["part"], vec![]),
        node("Squeeze", &["part", "zero"], &["same"], vec![]),
        node("Sub", &["row", "same"], &["difference"], vec![]),
        node("Add", &["h", "difference"], &["next"], vec![]),
        node("Identity", &["on"], &["go"], vec![]),
    ];
    let looped = node(
        "Loop",
        &["n_most", "", "h0"],
        &["h_last", "all"],
        vec![body(
            nodes,
            &["n", "on", "h"],
            &["go", "next", "difference"],
        )],
    );
    let program = Steps::read(&looped, 17, &Values).unwrap();
    let x = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0, 30.0, 31.0];
    for steps in [4, 0, 3, 4] {
        let most = [steps as i64];
        let count = Tensor {
            sizes: &[],
            elements: Elements::Int64(&most),
        };
        let by_name = |name: &str| match name {
            "n_most" => count,
            "h0" => floats(&[2], &[5.0, 6.0]),
            _ => floats(&[4, 2], &x),
        };
        let given: Vec<Tensor<'_>> = program.inputs().map(|it| by_name(it.0)).collect();
        let mut memory = [vec![0.0; 2], vec![0.0; 2 * steps]];
        let mut room = Room::new(&mut memory);
        program.run(&given, &mut room, None).unwrap();
        assert_eq!(room.sizes, [vec![2], vec![steps, 2]]);
        let all: Vec<f32> = [30.0, 10.0, -10.0, -30.0][..steps]
            .iter()
            .flat_map(|&it| [it; 2])
            .collect();
        assert_eq!(memory[1], all);
        let sum: f32 = all.iter().step_by(2).sum();
        assert_eq!(memory[0], [5.0 + sum, 6.0 + sum]);
    }
}

/// What says after some questions that the run is to end.
struct After(AtomicUsize);

impl Stop for After {
    fn is_wanted(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

fn sums() -> Steps {
    let nodes = vec![node("Add", &["h", "x"], &["next"], vec![])];
    let attributes = vec![
        body(nodes, &["h", "x"], &["next"]),
        int("num_scan_inputs", 1),
    ];
    let scan = node("Scan", &["h0", "xs"], &["last"], attributes);
    Steps::read(&scan, 17, &Values).unwrap()
}

#[test]
fn a_run_ends_early_if_that_is_wanted() {
    let program = sums();
    let x = vec![1.0; 1000];
    let given = [floats(&[1], &[0.0]), floats(&[1000, 1], &x)];
    let mut memory = [vec![0.0]];
    let stop = After(AtomicUsize::new(10));
    let ended = program.run(&given, &mut Room::new(&mut memory), Some(&stop));
    assert_eq!(ended, Err(Error::Stopped));
    let stop = After(AtomicUsize::new(1000));
    program
        .run(&given, &mut Room::new(&mut memory), Some(&stop))
        .unwrap();
    assert_eq!(memory[0], [1000.0]);
}

#[test]
fn what_does_not_fit_is_an_error_with_its_values() {
    let program = sums();
    let error = |given: &[Tensor<'_>]| {
        let mut memory = [vec![0.0; 4]];
        let run = program.run(given, &mut Room::new(&mut memory), None);
        run.unwrap_err().to_string()
    };
    let wrong = error(&[floats(&[2], &[0.0; 2]), floats(&[4, 3], &[0.0; 12])]);
    assert_eq!(wrong, "node \"Add\": sizes [2] and [3] do not broadcast");
    let wrong = error(&[floats(&[2], &[0.0; 2])]);
    assert_eq!(wrong, "1 inputs, expected 2");
    let wrong = error(&[floats(&[3], &[0.0; 2]), floats(&[4, 3], &[0.0; 12])]);
    assert!(wrong.contains("2 elements"), "{wrong}");
}

#[test]
fn what_no_program_has_is_said_in_a_line() {
    let refused = |nodes: Vec<NodeProto>| {
        let attributes = vec![
            body(nodes, &["h", "x"], &["next"]),
            int("num_scan_inputs", 1),
        ];
        let scan = node("Scan", &["h0", "xs"], &["last"], attributes);
        Steps::read(&scan, 17, &Values).unwrap_err()
    };
    assert_eq!(
        refused(vec![node("NonZero", &["h"], &["next"], vec![])]),
        "its NonZero node is none that programs have"
    );
    assert_eq!(
        refused(vec![node("Cast", &["h"], &["next"], vec![int("to", 10)])]),
        "its Cast node makes elements of float16"
    );
    let nodes = vec![
        node("Cast", &["h"], &["axes"], vec![int("to", 7)]),
        node("ReduceSum", &["x", "axes"], &["next"], vec![]),
    ];
    assert_eq!(
        refused(nodes),
        "its ReduceSum node reads \"axes\", which each step computes"
    );
    let longer = vec![node("Concat", &["h", "x"], &["more"], vec![int("axis", 0)])];
    let nodes = vec![
        node("Cast", &["x"], &["is_kept"], vec![int("to", 9)]),
        node(
            "If",
            &["is_kept"],
            &["next"],
            vec![
                graph("then_branch", longer, &[], &["more"]),
                graph(
                    "else_branch",
                    vec![node("Identity", &["h"], &["same"], vec![])],
                    &[],
                    &["same"],
                ),
            ],
        ),
    ];
    assert_eq!(
        refused(nodes),
        "its If node appends under a condition of a step"
    );
}

/// An RNN in a step, of one unit and one feature.
fn rnn(attributes: Vec<AttributeProto>) -> Result<Steps, String> {
    let weight = |name: &str, value: f32| constant(name, float_tensor(&[1, 1, 1], &[value]));
    let layer = node(
        "RNN",
        &["x", "w", "r", "", "", "h"],
        &["", "next"],
        attributes,
    );
    let nodes = vec![weight("w", 0.5), weight("r", -2.0), layer];
    let attributes = vec![
        body(nodes, &["h", "x"], &["next"]),
        int("num_scan_inputs", 1),
    ];
    let scan = node("Scan", &["h0", "xs"], &["last"], attributes);
    Steps::read(&scan, 17, &Values)
}

#[test]
fn a_layer_in_a_step_has_its_activations() {
    for (attributes, function) in [
        (vec![], f32::tanh as fn(f32) -> f32),
        // As ONNX Runtime writes it; the second is that of another direction.
        (vec![texts("activations", &["Tanh", "Tanh"])], f32::tanh),
        (vec![texts("activations", &["Relu", "Tanh"])], |x| {
            x.max(0.0)
        }),
        (
            vec![
                texts("activations", &["LeakyRelu"]),
                model::floats("activation_alpha", &[0.25]),
            ],
            |x| if x < 0.0 { 0.25 * x } else { x },
        ),
        // No bound, as in ONNX Runtime.
        (vec![model::float("clip", -1.0)], f32::tanh),
    ] {
        let program = rnn(attributes).unwrap();
        let xs = [1.0, -1.5, 4.0];
        let given = [floats(&[1, 1, 1], &[0.5]), floats(&[3, 1, 1, 1], &xs)];
        let mut memory = [vec![f32::NAN]];
        program
            .run(&given, &mut Room::new(&mut memory), None)
            .unwrap();
        let expected = xs.iter().fold(0.5, |h, x| function(0.5 * x - 2.0 * h));
        close(&memory[0], &[expected], "the state");
    }
}

#[test]
fn a_wrong_attribute_of_a_layer_in_a_step_is_an_error() {
    for (attribute, expected) in [
        (
            text("direction", "sideways"),
            "is wrong: its direction is \"sideways\", expected forward, reverse or bidirectional",
        ),
        (
            int("layout", 2),
            "is wrong: its layout is 2, expected 0 or 1",
        ),
        (int("layout", 1), "has the layout of batches first"),
        (
            int("hidden_size", 0),
            "is wrong: its hidden_size is 0, expected 1 at least",
        ),
        (
            texts("activations", &["Tanh"; 3]),
            "is wrong: it has 3 activations, expected 1",
        ),
        (
            int("clip", 1),
            "is wrong: its clip is an integer, expected a float",
        ),
        (model::float("clip", 0.5), "couples its gates or has a clip"),
        (text("direction", "bidirectional"), "has two directions"),
    ] {
        let error = rnn(vec![attribute]).unwrap_err();
        assert_eq!(error, format!("its RNN node {expected}"));
    }
    let program = rnn(vec![int("hidden_size", 3)]).unwrap();
    let given = [floats(&[1, 1, 1], &[0.5]), floats(&[3, 1, 1, 1], &[0.0; 3])];
    let run = program.run(&given, &mut Room::new(&mut [vec![0.0]]), None);
    let expected = "node \"RNN\": weights of [1, 1, 1] and [1, 1, 1], with a hidden_size of 3";
    assert_eq!(run.unwrap_err().to_string(), expected);
}

/// float32 around the loop, but for constants.
struct Constants(Vec<(&'static str, TensorProto)>);

impl Around for Constants {
    fn code(&self, name: &str) -> Option<i32> {
        // Of some constants only the elements are known.
        match self.constant(name) {
            Some(constant) if constant.code() == DOUBLE => None,
            Some(constant) => Some(constant.code()),
            None => Some(FLOAT),
        }
    }

    fn constant(&self, name: &str) -> Option<TensorProto> {
        let mut all = self.0.iter();
        Some(all.find(|it| it.0 == name)?.1.clone())
    }
}

fn float_tensor(sizes: &[usize], elements: &[f32]) -> TensorProto {
    TensorProto {
        data_type: Some(FLOAT),
        dims: sizes.iter().map(|&size| size as i64).collect(),
        float_data: elements.to_vec(),
        ..TensorProto::default()
    }
}

/// A Conv: the sizes of its input and filters, and its attributes.
struct Filters {
    input: &'static [usize],
    filters: &'static [usize],
    groups: usize,
    strides: &'static [i64],
    dilations: &'static [i64],
    pads: &'static [i64],
    auto_pad: &'static str,
}

impl Filters {
    fn node(&self, from: &str, to: &str) -> NodeProto {
        let mut attributes = vec![
            int("group", self.groups as i64),
            ints("strides", self.strides),
            ints("dilations", self.dilations),
        ];
        match self.auto_pad {
            "" => attributes.push(ints("pads", self.pads)),
            mode => attributes.push(text("auto_pad", mode)),
        }
        node("Conv", &[from, "w", "b"], &[to], attributes)
    }

    /// The sizes and elements of its output, by its formula.
    fn of(&self, x: &[f32], w: &[f32], b: &[f32]) -> (Vec<usize>, Vec<f32>) {
        // Missing axes have one element.
        let wide = |sizes: &[usize]| -> [usize; 4] {
            [
                sizes[0],
                sizes[1],
                sizes[2],
                sizes.get(3).copied().unwrap_or(1),
            ]
        };
        let pair = |all: &[i64]| [all[0], all.get(1).copied().unwrap_or(1)];
        let [batch, channels, height, width] = wide(self.input);
        let [filters, each, tall, broad] = wide(self.filters);
        let (strides, dilations) = (pair(self.strides), pair(self.dilations));
        let rank = self.input.len() - 2;
        let mut before = [0_i64; 2];
        let mut places = [1_usize; 2];
        for axis in 0..rank {
            let size = [height, width][axis] as i64;
            let reach = ([tall, broad][axis] as i64 - 1) * dilations[axis] + 1;
            let pads = match self.auto_pad {
                "" => [self.pads[axis], self.pads[rank + axis]],
                "VALID" => [0, 0],
                mode => {
                    let count = (size + strides[axis] - 1) / strides[axis];
                    let all = ((count - 1) * strides[axis] + reach - size).max(0);
                    let small = all / 2;
                    match mode {
                        "SAME_UPPER" => [small, all - small],
                        _ => [all - small, small],
                    }
                }
            };
            before[axis] = pads[0];
            places[axis] = ((size + pads[0] + pads[1] - reach) / strides[axis] + 1) as usize;
        }
        let mut made = vec![];
        for n in 0..batch {
            for (filter, bias) in b.iter().enumerate() {
                for row in 0..places[0] {
                    for column in 0..places[1] {
                        let mut sum = f64::from(*bias);
                        for channel in 0..each {
                            let own = filter / (filters / self.groups) * each + channel;
                            for i in 0..tall {
                                for j in 0..broad {
                                    let y = row as i64 * strides[0] + i as i64 * dilations[0]
                                        - before[0];
                                    let z = column as i64 * strides[1] + j as i64 * dilations[1]
                                        - before[1];
                                    if y < 0 || z < 0 || y >= height as i64 || z >= width as i64 {
                                        continue;
                                    }
                                    let from = ((n * channels + own) * height + y as usize) * width
                                        + z as usize;
                                    let with = ((filter * each + channel) * tall + i) * broad + j;
                                    sum += f64::from(x[from]) * f64::from(w[with]);
                                }
                            }
                        }
                        made.push(sum as f32);
                    }
                }
            }
        }
        ([&[batch, filters], &places[..rank]].concat(), made)
    }
}

/// Conv of what a step computes and of a slice, with constant filters and with others.
#[test]
fn convolutions_are_those_of_their_formula() {
    let one = |input, filters, groups, strides, dilations, pads, auto_pad| Filters {
        input,
        filters,
        groups,
        strides,
        dilations,
        pads,
        auto_pad,
    };
    for case in [
        one(&[1, 2, 9], &[3, 2, 3], 1, &[1], &[1], &[1, 1], ""),
        one(&[2, 4, 12], &[6, 2, 3], 2, &[2], &[2], &[3, 0], ""),
        // Columns of several tiles, in rows of steps apart, that filters of groups see.
        one(&[1, 3, 120], &[5, 3, 4], 1, &[2], &[1], &[2, 1], ""),
        one(
            &[2, 4, 14, 15],
            &[6, 2, 3, 3],
            2,
            &[2, 1],
            &[1, 2],
            &[2, 1, 2, 3],
            "",
        ),
        // Filters of a channel each, of one and of several.
        one(&[2, 5, 4], &[5, 1, 4], 5, &[1], &[1], &[0, 0], ""),
        one(&[1, 3, 50], &[6, 1, 40], 3, &[1], &[1], &[20, 19], ""),
        one(
            &[1, 3, 6, 7],
            &[6, 1, 3, 2],
            3,
            &[2, 1],
            &[1, 2],
            &[1, 0, 2, 1],
            "",
        ),
        one(
            &[2, 3, 8, 9],
            &[70, 3, 3, 3],
            1,
            &[1, 1],
            &[1, 1],
            &[1, 1, 1, 1],
            "",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 3, 2],
            1,
            &[2, 3],
            &[1, 1],
            &[],
            "SAME_UPPER",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 2, 4],
            1,
            &[2, 1],
            &[1, 1],
            &[],
            "SAME_LOWER",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 2, 4],
            1,
            &[2, 1],
            &[1, 1],
            &[],
            "VALID",
        ),
    ] {
        let steps = 3;
        let len: usize = case.input.iter().product();
        let x = numbers(steps * len, 1);
        let w = numbers(case.filters.iter().product(), 2);
        let b = numbers(case.filters[0], 3);
        let nodes = vec![
            constant("half", float_tensor(&[1], &[0.5])),
            node("Add", &["s", "half"], &["next"], vec![]),
            node("Add", &["x", "s"], &["seen"], vec![]),
            case.node("seen", "ys"),
            case.node("x", "zs"),
        ];
        let scan = node(
            "Scan",
            &["s0", "xs"],
            &["", "all_y", "all_z"],
            vec![
                body(nodes, &["s", "x"], &["next", "ys", "zs"]),
                int("num_scan_inputs", 1),
            ],
        );
        let constants = [
            ("w", float_tensor(case.filters, &w)),
            ("b", float_tensor(&[b.len()], &b)),
        ];
        for around in [Constants(vec![]), Constants(constants.to_vec())] {
            let program = Steps::read(&scan, 17, &around).unwrap();
            let whole = [&[steps], case.input].concat();
            let by_name = |name: &str| match name {
                "s0" => floats(&[1], &[0.0]),
                "xs" => floats(&whole, &x),
                "w" => floats(case.filters, &w),
                _ => floats(&case.filters[..1], &b),
            };
            let given: Vec<Tensor<'_>> = program.inputs().map(|it| by_name(it.0)).collect();
            let mut expected = [vec![], vec![]];
            let mut sizes = vec![];
            for step in 0..steps {
                let slice = &x[step * len..][..len];
                let seen: Vec<f32> = slice.iter().map(|it| it + 0.5 * step as f32).collect();
                for (all, from) in std::iter::zip(&mut expected, [&seen, slice]) {
                    let made = case.of(from, &w, &b);
                    (sizes, _) = (made.0, all.extend(made.1));
                }
            }
            let mut memory = [
                vec![],
                vec![f32::NAN; expected[0].len()],
                vec![f32::NAN; expected[1].len()],
            ];
            let mut room = Room::new(&mut memory);
            program.run(&given, &mut room, None).unwrap();
            assert_eq!(room.sizes[1], [&[steps], &*sizes].concat());
            close(
                &memory[1],
                &expected[0],
                &format!("{:?} of states", case.filters),
            );
            close(
                &memory[2],
                &expected[1],
                &format!("{:?} of slices", case.filters),
            );
        }
    }
}

fn graph(name: &str, nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        ..body(nodes, inputs, outputs)
    }
}

fn number(name: &str, value: f32) -> NodeProto {
    constant(name, float_tensor(&[], &[value]))
}

/// An If on a state, of branches that are both computed and of those of which one is.
#[test]
fn branches_are_taken_by_what_steps_compute() {
    for len in [3, 15000] {
        let then = vec![
            number("half", 0.5),
            node("Mul", &["s", "half"], &["part"], vec![]),
            node("Sub", &["part", "x"], &["less"], vec![]),
        ];
        let other = vec![
            node("Add", &["k", "x"], &["sum"], vec![]),
            node("Add", &["s", "sum"], &["more"], vec![]),
        ];
        let nodes = vec![
            number("zero", 0.0),
            node("ReduceSum", &["s"], &["total"], vec![int("keepdims", 0)]),
            node("Greater", &["total", "zero"], &["is_large"], vec![]),
            node(
                "If",
                &["is_large"],
                &["next", "again"],
                vec![
                    graph("then_branch", then, &[], &["less", "s"]),
                    graph("else_branch", other, &[], &["more", "x"]),
                ],
            ),
        ];
        let scan = node(
            "Scan",
            &["s0", "xs"],
            &["last", "all"],
            vec![
                body(nodes, &["s", "x"], &["next", "again"]),
                int("num_scan_inputs", 1),
            ],
        );
        let program = Steps::read(&scan, 17, &Values).unwrap();
        let steps = 7;
        let (s0, k) = (numbers(len, 1), numbers(len, 2));
        let xs: Vec<f32> = numbers(steps * len, 3).iter().map(|it| it + 0.6).collect();
        let (one, all) = ([len], [steps, len]);
        let given: Vec<Tensor<'_>> = program
            .inputs()
            .map(|it| match it.0 {
                "xs" => floats(&all, &xs),
                "s0" => floats(&one, &s0),
                _ => floats(&one, &k),
            })
            .collect();
        let mut memory = [vec![0.0; len], vec![0.0; steps * len]];
        program
            .run(&given, &mut Room::new(&mut memory), None)
            .unwrap();

        let (mut s, mut expected) = (s0, vec![]);
        let mut taken = [0, 0];
        for x in xs.chunks(len) {
            let is_large = s.iter().sum::<f32>() > 0.0;
            taken[usize::from(is_large)] += 1;
            expected.extend_from_slice(if is_large { &s } else { x });
            for (index, s) in s.iter_mut().enumerate() {
                *s = if is_large {
                    *s * 0.5 - x[index]
                } else {
                    *s + (k[index] + x[index])
                };
            }
        }
        assert!(taken.iter().all(|&it| it > 0), "{taken:?}");
        close(&memory[0], &s, &format!("state of {len}"));
        close(&memory[1], &expected, &format!("steps of {len}"));
    }
}

/// The branch that is not taken would read outside of a value; sizes that differ have no program.
#[test]
fn only_the_branch_that_is_taken_runs() {
    let program = |then: &str| {
        let nodes = vec![
            number("three", 3.0),
            number("one", 1.0),
            node("Less", &["s", "three"], &["is_inside"], vec![]),
            node("Cast", &["s"], &["at"], vec![int("to", 7)]),
            node("Add", &["s", "one"], &["next"], vec![]),
            node(
                "If",
                &["is_inside"],
                &["y"],
                vec![
                    graph(
                        "then_branch",
                        vec![
                            node("Gather", &["table", "at"], &["found"], vec![]),
                            node("Concat", &["table", "x"], &["longer"], vec![int("axis", 0)]),
                        ],
                        &[],
                        &[then],
                    ),
                    graph(
                        "else_branch",
                        vec![node("Neg", &["s"], &["out"], vec![])],
                        &[],
                        &["out"],
                    ),
                ],
            ),
        ];
        let scan = node(
            "Scan",
            &["s0", "xs"],
            &["", "all"],
            vec![
                body(nodes, &["s", "x"], &["next", "y"]),
                int("num_scan_inputs", 1),
            ],
        );
        Steps::read(&scan, 17, &Values).unwrap()
    };
    let run = |program: Steps, memory: &mut [Vec<f32>]| {
        let given: Vec<Tensor<'_>> = program
            .inputs()
            .map(|it| match it.0 {
                "s0" => floats(&[], &[0.0]),
                "xs" => floats(&[5, 1], &[0.0; 5]),
                _ => floats(&[3], &[7.0, 8.0, 9.0]),
            })
            .collect();
        program.run(&given, &mut Room::new(memory), None)
    };
    let mut memory = [vec![], vec![0.0; 5]];
    run(program("found"), &mut memory).unwrap();
    assert_eq!(memory[1], [7.0, 8.0, 9.0, -3.0, -4.0]);
    let error = run(program("longer"), &mut memory).unwrap_err().to_string();
    assert_eq!(error, "node \"If\": sizes [4] and [] in its branches");
}

/// The distances of dynamic time warping: rows by a Scan, and what is within a row by a Loop.
#[test]
fn a_loop_in_a_body_is_a_program_within_the_program() {
    let (rows, columns) = (5, 7);
    let inner = vec![
        node("Gather", &["x", "j"], &["cost"], vec![]),
        node("Gather", &["prev", "j"], &["above"], vec![]),
        node("Min", &["left", "above"], &["least"], vec![]),
        node("Add", &["cost", "least"], &["new"], vec![]),
        node("Identity", &["on"], &["go"], vec![]),
    ];
    let nodes = vec![
        number("large", 1e30),
        node(
            "Loop",
            &["n_columns", "", "large"],
            &["", "row"],
            vec![body(inner, &["j", "on", "left"], &["go", "new", "new"])],
        ),
        // Doubles until it is above a bound.
        number("two", 2.0),
        node("ReduceMax", &["row"], &["bound"], vec![int("keepdims", 0)]),
        constant(
            "true",
            TensorProto {
                data_type: Some(9),
                int32_data: vec![1],
                ..TensorProto::default()
            },
        ),
        node(
            "Loop",
            &["", "true", "two"],
            &["power"],
            vec![body(
                vec![
                    node("Add", &["p", "p"], &["q"], vec![]),
                    node("Less", &["q", "bound"], &["is_less"], vec![]),
                ],
                &["n", "on2", "p"],
                &["is_less", "q"],
            )],
        ),
    ];
    let scan = node(
        "Scan",
        &["first", "xs"],
        &["last", "all", "powers"],
        vec![
            body(nodes, &["prev", "x"], &["row", "row", "power"]),
            int("num_scan_inputs", 1),
        ],
    );
    let program = Steps::read(&scan, 17, &Values).unwrap();
    let first: Vec<f32> = (0..columns).map(|it| it as f32).collect();
    let x: Vec<f32> = numbers(rows * columns, 4)
        .iter()
        .map(|it| it + 2.0)
        .collect();
    let (one, all) = ([columns], [rows, columns]);
    for count in [columns, columns - 2] {
        let most = [count as i64];
        let given: Vec<Tensor<'_>> = program
            .inputs()
            .map(|it| match it.0 {
                "first" => floats(&one[..], &first[..]),
                "xs" => floats(&all, &x),
                _ => Tensor {
                    sizes: &[],
                    elements: Elements::Int64(&most),
                },
            })
            .collect();
        let mut memory = [
            vec![0.0; columns],
            vec![0.0; rows * columns],
            vec![0.0; rows],
        ];
        let mut room = Room::new(&mut memory);
        let run = program.run(&given, &mut room, None);
        if count < columns {
            // A state that changes its sizes has a program for each of them.
            assert_eq!(room.sizes[0], [count]);
        }
        run.unwrap();
        let (mut prev, mut rows, mut powers) = (first.clone(), vec![], vec![]);
        for x in x.chunks(columns) {
            let mut left = 1e30_f32;
            let mut row = vec![];
            for j in 0..count {
                left = x[j] + left.min(prev[j]);
                row.push(left);
            }
            let bound = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut power = 4.0;
            while power < bound {
                power *= 2.0;
            }
            powers.push(power);
            rows.extend_from_slice(&row);
            prev = row;
        }
        close(&memory[0][..count], &prev, "the last row");
        close(&memory[1][..rows.len()], &rows, "rows");
        close(&memory[2], &powers, "powers");
    }
}

/// The best elements along the first axis, as beam search has them, with what marks them, and zeros around.
#[test]
fn the_best_elements_are_in_order() {
    let (rows, columns, count, steps) = (5, 3, 2, 4);
    for largest in [0, 1] {
        let nodes = vec![
            constant("k", int64_tensor(&[1], &[count as i64])),
            constant("depth", int64_tensor(&[1], &[rows as i64])),
            constant("off_on", float_tensor(&[2], &[-1.0, 2.0])),
            constant("pads", int64_tensor(&[4], &[1, -1, 0, 2])),
            number("nine", 9.0),
            node("Add", &["x", "s"], &["all"], vec![]),
            node(
                "TopK",
                &["all", "k"],
                &["best", "at"],
                vec![int("axis", 0), int("largest", largest)],
            ),
            node(
                "OneHot",
                &["at", "depth", "off_on"],
                &["marks"],
                vec![int("axis", 1)],
            ),
            node("Pad", &["best", "pads", "nine"], &["wide"], vec![]),
            node("CastLike", &["at", "s"], &["places"], vec![]),
            node("HardSwish", &["best"], &["open"], vec![]),
            node("ReduceMean", &["best"], &["next"], vec![int("keepdims", 0)]),
        ];
        let outputs = ["next", "best", "places", "marks", "wide", "open"];
        let scan = node(
            "Scan",
            &["s0", "xs"],
            &["", "b", "p", "m", "w", "o"],
            vec![
                body(nodes, &["s", "x"], &outputs),
                int("num_scan_inputs", 1),
            ],
        );
        let program = Steps::read(&scan, 18, &Values).unwrap();
        let x = numbers(steps * rows * columns, 6);
        let sizes = [steps, rows, columns];
        let given = [floats(&[], &[0.25]), floats(&sizes, &x)];
        let each = [
            count * columns,
            count * columns,
            count * rows * columns,
            3 * 4,
        ];
        let mut memory =
            [0, each[0], each[1], each[2], each[3], each[0]].map(|it| vec![0.0; it * steps]);
        program
            .run(&given, &mut Room::new(&mut memory), None)
            .unwrap();

        let mut s = 0.25;
        let mut expected: [Vec<f32>; 6] = Default::default();
        for x in x.chunks(rows * columns) {
            let mut best = vec![0.0; count * columns];
            let mut places = best.clone();
            for column in 0..columns {
                let at = |row: usize| x[row * columns + column] + s;
                let mut order: Vec<usize> = (0..rows).collect();
                order.sort_by(|&a, &b| match largest {
                    0 => at(a).total_cmp(&at(b)),
                    _ => at(b).total_cmp(&at(a)),
                });
                for rank in 0..count {
                    best[rank * columns + column] = at(order[rank]);
                    places[rank * columns + column] = order[rank] as f32;
                }
            }
            for rank in 0..count {
                for row in 0..rows {
                    for column in 0..columns {
                        let is_on = places[rank * columns + column] == row as f32;
                        expected[3].push(if is_on { 2.0 } else { -1.0 });
                    }
                }
            }
            expected[4].extend([9.0; 4]);
            for row in best.chunks(columns) {
                expected[4].extend([row[1], row[2], 9.0, 9.0]);
            }
            let open = |it: &f32| it * (it / 6.0 + 0.5).clamp(0.0, 1.0);
            expected[5].extend(best.iter().map(open));
            s = best.iter().sum::<f32>() / best.len() as f32;
            expected[1].extend(best);
            expected[2].extend(places);
        }
        for (index, expected) in expected.iter().enumerate() {
            close(&memory[index], expected, outputs[index]);
        }
    }
}

/// A step is `h + x + 0.1 + 0.25`: the one double is in the body, the other around it.
#[test]
fn doubles_that_are_cast_are_constants() {
    let double = |value: f64| TensorProto {
        data_type: Some(DOUBLE),
        double_data: vec![value],
        ..TensorProto::default()
    };
    let cast = |from: &str, to: &str| node("Cast", &[from], &[to], vec![int("to", FLOAT.into())]);
    let nodes = vec![
        constant("own", double(0.1)),
        cast("own", "tenth"),
        cast("outer", "quarter"),
        node("Add", &["h", "x"], &["sum"], vec![]),
        node("Add", &["sum", "tenth"], &["more"], vec![]),
        node("Add", &["more", "quarter"], &["next"], vec![]),
    ];
    let attributes = vec![
        body(nodes, &["h", "x"], &["next"]),
        int("num_scan_inputs", 1),
    ];
    let scan = node("Scan", &["h0", "xs"], &["last"], attributes);
    let around = Constants(vec![("outer", double(0.25))]);
    let program = Steps::read(&scan, 17, &around).unwrap();
    let mut memory = [vec![0.0]];
    let given = [floats(&[1], &[1.0]), floats(&[2, 1], &[2.0, 3.0])];
    program
        .run(&given, &mut Room::new(&mut memory), None)
        .unwrap();
    close(&memory[0], &[6.7], "the sum");
}

/// `A (s B)`, where A and B lie by rows or by columns and the number s is a state.
#[test]
fn products_are_those_of_their_formula() {
    let matrix = |turned: bool, [rows, columns]: [usize; 2]| match turned {
        true => [columns, rows],
        false => [rows, columns],
    };
    for [rows, terms, columns] in [
        [40, 64, 7],
        [7, 40, 64],
        [33, 20, 18],
        [3, 2, 5],
        [64, 30, 64],
    ] {
        for turned in [[false, false], [false, true], [true, false], [true, true]] {
            let sizes = [
                matrix(turned[0], [rows, terms]),
                matrix(turned[1], [terms, columns]),
            ];
            let order = |turned: bool| match turned {
                true => ints("perm", &[1, 0]),
                false => ints("perm", &[0, 1]),
            };
            let nodes = vec![
                node("Transpose", &["a"], &["one"], vec![order(turned[0])]),
                node("Transpose", &["b"], &["own"], vec![order(turned[1])]),
                node("Mul", &["own", "s"], &["other"], vec![]),
                node("MatMul", &["one", "other"], &["made"], vec![]),
                node("Add", &["s", "x"], &["next"], vec![]),
            ];
            let scan = node(
                "Scan",
                &["s0", "xs"],
                &["", "all"],
                vec![
                    body(nodes, &["s", "x"], &["next", "made"]),
                    int("num_scan_inputs", 1),
                ],
            );
            let program = Steps::read(&scan, 17, &Values).unwrap();
            let names: Vec<String> = program.inputs().map(|it| it.0.to_owned()).collect();
            let (a, b) = (numbers(rows * terms, 1), numbers(terms * columns, 2));
            let of = |name: &String| match &**name {
                "s0" => floats(&[], &[1.0]),
                "xs" => floats(&[2], &[0.5, 0.25]),
                "a" => floats(&sizes[0], &a),
                _ => floats(&sizes[1], &b),
            };
            let given: Vec<Tensor<'_>> = names.iter().map(of).collect();
            let mut memory = [vec![], vec![f32::NAN; 2 * rows * columns]];
            program
                .run(&given, &mut Room::new(&mut memory), None)
                .unwrap();
            let at = |all: &[f32], turned: bool, [row, column]: [usize; 2], sizes: &[usize]| {
                let place = match turned {
                    true => column * sizes[1] + row,
                    false => row * sizes[1] + column,
                };
                all[place]
            };
            let mut expected = vec![];
            for s in [1.0, 1.5] {
                for row in 0..rows {
                    for column in 0..columns {
                        let term = |term: usize| {
                            let one = at(&a, turned[0], [row, term], &sizes[0]);
                            one * at(&b, turned[1], [term, column], &sizes[1])
                        };
                        expected.push(s * (0..terms).map(term).sum::<f32>());
                    }
                }
            }
            let what = format!("[{rows}, {terms}] [{terms}, {columns}], turned {turned:?}");
            close(&memory[1], &expected, &what);
        }
    }
}

/// `S ← S (u vᵀ)` and `o = (u vᵀ) S`, as RWKV-7 has them: the matrix in the middle is the product of a column and
/// a row, made by MatMul or by Mul.
#[test]
fn products_with_outer_products_are_those_of_their_formula() {
    let (heads, size, steps) = (2, 20, 3);
    for outer in ["MatMul", "Mul"] {
        let nodes = vec![
            constant("last", int64_tensor(&[1], &[-1])),
            constant("middle", int64_tensor(&[1], &[1])),
            node("Unsqueeze", &["u", "last"], &["column"], vec![]),
            node("Unsqueeze", &["v", "middle"], &["row"], vec![]),
            node(outer, &["column", "row"], &["outer"], vec![]),
            node("MatMul", &["s", "outer"], &["next"], vec![]),
            node("MatMul", &["outer", "s"], &["o"], vec![]),
        ];
        let scan = node(
            "Scan",
            &["s0", "us", "vs"],
            &["last_s", "os"],
            vec![
                body(nodes, &["s", "u", "v"], &["next", "o"]),
                int("num_scan_inputs", 2),
            ],
        );
        let program = Steps::read(&scan, 17, &Values).unwrap();
        let s0 = numbers(heads * size * size, 1);
        let [u, v] = [2, 3].map(|seed| numbers(steps * heads * size, seed));
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let given = [floats(&whole, &s0), floats(&each, &u), floats(&each, &v)];
        let mut memory = [s0.len(), steps * s0.len()].map(|len| vec![f32::NAN; len]);
        program
            .run(&given, &mut Room::new(&mut memory), None)
            .unwrap();
        let (mut s, mut o) = (s0.clone(), vec![]);
        for step in 0..steps {
            let before = s.clone();
            for head in 0..heads {
                let at = |row: usize, column: usize| before[(head * size + row) * size + column];
                let own = (step * heads + head) * size;
                for row in 0..size {
                    for column in 0..size {
                        let su: f32 = (0..size).map(|it| at(row, it) * u[own + it]).sum();
                        let vs: f32 = (0..size).map(|it| v[own + it] * at(it, column)).sum();
                        s[(head * size + row) * size + column] = su * v[own + column];
                        o.push(u[own + row] * vs);
                    }
                }
            }
        }
        close(&memory[0], &s, &format!("the state by {outer}"));
        close(&memory[1], &o, &format!("the output by {outer}"));
    }
}

/// Messages along edges are added up where they end, as graph networks do: one index comes twice.
#[test]
fn what_is_written_twice_is_reduced() {
    type Both = fn(f32, f32) -> f32;
    let all: [(&str, Both); 4] = [
        ("add", |a, b| a + b),
        ("mul", |a, b| a * b),
        ("max", f32::max),
        ("min", f32::min),
    ];
    for (reduction, with) in all {
        for is_nd in [false, true] {
            let indices: &[i64] = &[2, 0, 2, -1];
            let wide: Vec<i64> = indices.iter().flat_map(|&it| [it; 3]).collect();
            let how = text("reduction", reduction);
            let (at, op) = match is_nd {
                true => (int64_tensor(&[4, 1], indices), "ScatterND"),
                false => (int64_tensor(&[4, 3], &wide), "ScatterElements"),
            };
            let nodes = vec![
                constant("at", at),
                node(op, &["h", "at", "x"], &["next"], vec![how]),
            ];
            let attributes = vec![
                body(nodes, &["h", "x"], &["next"]),
                int("num_scan_inputs", 1),
            ];
            let scan = node("Scan", &["h0", "xs"], &["last"], attributes);
            let program = Steps::read(&scan, 18, &Values).unwrap();
            let (h0, x) = (numbers(5 * 3, 1), numbers(2 * 4 * 3, 2));
            let given = [floats(&[5, 3], &h0), floats(&[2, 4, 3], &x)];
            let mut memory = [vec![f32::NAN; 15]];
            program
                .run(&given, &mut Room::new(&mut memory), None)
                .unwrap();
            let mut h = h0.clone();
            for x in x.chunks(12) {
                for (row, index) in std::iter::zip(x.chunks(3), indices) {
                    let own = index.rem_euclid(5) as usize * 3;
                    for (place, update) in row.iter().enumerate() {
                        h[own + place] = with(h[own + place], *update);
                    }
                }
            }
            close(&memory[0], &h, &format!("{op} with {reduction}"));
        }
    }
}

/// A state that grows with each step has a program for each: runs make two of them, find those of earlier runs, and
/// stop when there are too many.
#[test]
fn programs_of_a_state_that_grows_are_made_by_several_runs() {
    let along = || vec![int("axis", 0)];
    let nodes = vec![
        node("Concat", &["s", "x"], &["next"], along()),
        node("Identity", &["on"], &["go"], vec![]),
    ];
    let attributes = vec![body(nodes, &["i", "on", "s"], &["go", "next"])];
    let grown = node("Loop", &["n", "", "s0"], &["last"], attributes);
    let run = |program: &Steps, steps: usize| {
        let number = [steps as i64];
        let names: Vec<String> = program.inputs().map(|it| it.0.to_owned()).collect();
        let of = |name: &String| match &**name {
            "n" => Tensor {
                sizes: &[],
                elements: Elements::Int64(&number),
            },
            "s0" => floats(&[1], &[1.0]),
            _ => floats(&[1], &[2.0]),
        };
        let given: Vec<Tensor<'_>> = names.iter().map(of).collect();
        let mut memory = [vec![f32::NAN; steps + 1]];
        let limits = Limits {
            programs: Some(2),
            ..Limits::default()
        };
        let mut room = Room::new(&mut memory);
        let done = program.run_within(limits, &given, &mut room, None)?;
        assert_eq!(done, steps as u64);
        assert_eq!((memory[0][0], memory[0][steps]), (1.0, 2.0));
        Ok::<_, Error>(())
    };
    let program = Steps::read(&grown, 17, &Values).unwrap();
    let all: Vec<bool> = (0..4).map(|_| run(&program, 6).is_ok()).collect();
    assert_eq!(all, [false, false, true, true]);
    let program = Steps::read(&grown, 17, &Values).unwrap();
    assert!((0..200).all(|_| run(&program, 200).is_err()));
    // Not even those of few steps run now.
    let error = run(&program, 2).unwrap_err().to_string();
    assert!(error.contains("more than 2 programs"), "{error}");
}

/// `S ← S diag(w) + (S a) bᵀ + v kᵀ` and `o = S r`, as RWKV-7 has it, and with `p = Sᵀ r`.
#[test]
fn states_with_two_outer_products_are_those_of_their_formula() {
    for (size, sums) in [(64, false), (64, true), (20, false), (37, true)] {
        let (heads, steps) = (2, 3);
        let wide =
            |from: &str, axis: &str, to: &str| node("Unsqueeze", &[from, axis], &[to], vec![]);
        let mut nodes = vec![
            constant("last", int64_tensor(&[1], &[-1])),
            constant("middle", int64_tensor(&[1], &[1])),
            wide("w", "middle", "w_row"),
            wide("a", "last", "a_column"),
            wide("b", "middle", "b_row"),
            wide("v", "last", "v_column"),
            wide("k", "middle", "k_row"),
            wide("r", "last", "r_column"),
            node("Mul", &["s", "w_row"], &["faded"], vec![]),
            node("MatMul", &["s", "a_column"], &["sa"], vec![]),
            node("MatMul", &["sa", "b_row"], &["sab"], vec![]),
            node("MatMul", &["v_column", "k_row"], &["vk"], vec![]),
            node("Add", &["faded", "sab"], &["part"], vec![]),
            node("Add", &["part", "vk"], &["next"], vec![]),
            node("MatMul", &["next", "r_column"], &["o"], vec![]),
        ];
        let mut outputs = vec!["next", "o"];
        if sums {
            nodes.push(wide("r", "middle", "r_row"));
            nodes.push(node("MatMul", &["r_row", "next"], &["p"], vec![]));
            outputs.push("p");
        }
        let all = ["last_s", "os", "ps"];
        let scan = node(
            "Scan",
            &["s0", "ws", "as", "bs", "vs", "ks", "rs"],
            &all[..outputs.len()],
            vec![
                body(nodes, &["s", "w", "a", "b", "v", "k", "r"], &outputs),
                int("num_scan_inputs", 6),
            ],
        );
        let program = Steps::read(&scan, 17, &Values).unwrap();
        let s0 = numbers(heads * size * size, 1);
        let given = [2, 3, 4, 5, 6, 7].map(|seed| {
            let mut all = numbers(steps * heads * size, seed);
            all.iter_mut().for_each(|it| *it *= 0.4);
            all
        });
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let tensors = std::iter::once(floats(&whole, &s0));
        let tensors: Vec<Tensor<'_>> = tensors
            .chain(given.iter().map(|all| floats(&each, all)))
            .collect();
        let lens = [s0.len(), given[0].len(), given[0].len()];
        let mut memory: Vec<Vec<f32>> = lens[..outputs.len()]
            .iter()
            .map(|&len| vec![f32::NAN; len])
            .collect();
        program
            .run(&tensors, &mut Room::new(&mut memory), None)
            .unwrap();
        let [w, a, b, v, k, r] = &given;
        let (mut s, mut o, mut p) = (s0.clone(), vec![], vec![]);
        for step in 0..steps {
            for head in 0..heads {
                let own = (step * heads + head) * size;
                let state = &mut s[head * size * size..][..size * size];
                for row in state.chunks_mut(size).enumerate() {
                    let (index, row) = row;
                    let sa: f32 = (0..size).map(|it| row[it] * a[own + it]).sum();
                    for (column, to) in row.iter_mut().enumerate() {
                        *to = *to * w[own + column]
                            + sa * b[own + column]
                            + v[own + index] * k[own + column];
                    }
                    o.push((0..size).map(|it| row[it] * r[own + it]).sum::<f32>());
                }
                for column in 0..size {
                    let term = |row: usize| r[own + row] * state[row * size + column];
                    p.push((0..size).map(term).sum::<f32>());
                }
            }
        }
        close(&memory[0], &s, &format!("the state of {size}"));
        close(&memory[1], &o, &format!("rows of {size}"));
        if sums {
            close(&memory[2], &p, &format!("columns of {size}"));
        }
    }
}
