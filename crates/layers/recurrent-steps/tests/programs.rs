//! Loops as programs, against what their formulas give.

use std::sync::atomic::{AtomicUsize, Ordering};

use recurrent_layers::{Serial, Stop, Threads};
use recurrent_steps::{Around, Elements, ElementsMut, Error, Kind, Limits, Outputs, Steps, Tensor};
use revseq_onnx::model::{DOUBLE, FLOAT, INT64, TensorProto};
use revseq_test_models::text;

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

/// The program of a loop, with the graphs in it.
fn read(text: &str, around: &dyn Around) -> Result<Steps, String> {
    let graph = text::graph(&format!("->\n{text}"));
    Steps::read(&graph.node[0], 18, around)
}

fn program(text: &str) -> Steps {
    read(text, &Values).unwrap()
}

/// A Scan over `xs` of one state, which its body calls `h`, `x` and `next`.
fn scan(nodes: &str) -> String {
    format!("last = Scan<body=@body;num_scan_inputs=1>(h0, xs)\n@body: h x -> next\n{nodes}")
}

/// Outputs, and their sizes.
type Outcome<const COUNT: usize> = ([Vec<f32>; COUNT], Vec<Vec<usize>>);

/// Runs a program on inputs of these names; its outputs of so many floats.
fn run<const COUNT: usize>(
    program: &Steps,
    given: &[(&str, Tensor<'_>)],
    lens: [usize; COUNT],
) -> Result<Outcome<COUNT>, Error> {
    let by_name = |name: &str| given.iter().find(|it| it.0 == name).expect("it is given").1;
    let given: Vec<Tensor<'_>> = program.inputs().map(|it| by_name(it.0)).collect();
    let mut memory = lens.map(|len| vec![f32::NAN; len]);
    let mut room = Room::new(&mut memory);
    program.run(&given, &mut room, &Serial)?;
    let sizes = room.sizes;
    Ok((memory, sizes))
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

fn int64s(elements: &[i64]) -> Tensor<'_> {
    Tensor {
        sizes: &[],
        elements: Elements::Int64(elements),
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
        let program = program(
            "last, os, ps = Scan<body=@body;num_scan_inputs=5>(s0, gs, ks, vs, qs, rs)
             @body: s g k v q r -> next o p
             g_wide = Unsqueeze(g, [2])
             k_wide = Unsqueeze(k, [2])
             v_wide = Unsqueeze(v, [1])
             faded = Mul(g_wide, s)
             outer = Mul(k_wide, v_wide)
             next = Add(faded, outer)
             q_wide = Unsqueeze(q, [1])
             o_wide = MatMul(q_wide, next)
             o = Squeeze(o_wide, [1])
             p = Einsum<equation=hkv,hv->hk>(next, r)",
        );
        let by_key = [steps, heads, keys];
        let by_value = [steps, heads, values];
        let s0 = numbers(heads * keys * values, 1);
        let [g, k, q] = [2, 3, 4].map(|seed| numbers(steps * heads * keys, seed));
        let [v, r] = [5, 6].map(|seed| numbers(steps * heads * values, seed));
        let sizes = [heads, keys, values];
        let given = [
            ("s0", floats(&sizes, &s0)),
            ("gs", floats(&by_key, &g)),
            ("ks", floats(&by_key, &k)),
            ("vs", floats(&by_value, &v)),
            ("qs", floats(&by_key, &q)),
            ("rs", floats(&by_value, &r)),
        ];
        let lens = [s0.len(), v.len(), k.len()];
        let (memory, _) = run(&program, &given, lens).unwrap();

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
    let program = program(
        "a_last, b_last, products = Scan<body=@body;num_scan_inputs=1>(a0, b0, xs)
         @body: a b x -> sum old product
         sum = Add(a, b)
         old = Identity(a)
         product = Mul(sum, old)",
    );
    let given = [
        ("a0", floats(&[2], &[1.0, 2.0])),
        ("b0", floats(&[2], &[0.5, 0.0])),
        ("xs", floats(&[3, 1], &[0.0; 3])),
    ];
    let (memory, _) = run(&program, &given, [2, 2, 6]).unwrap();
    // (1, 0.5) → (1.5, 1) → (2.5, 1.5) → (4, 2.5); (2, 0) → (2, 2) → (4, 2) → (6, 4)
    assert_eq!(memory[0], [4.0, 6.0]);
    assert_eq!(memory[1], [2.5, 4.0]);
    assert_eq!(memory[2], [1.5, 4.0, 3.75, 8.0, 10.0, 24.0]);
}

/// A row from the end, and parts that move with the step.
#[test]
fn views_move_with_the_step() {
    let program = program(
        "h_last, all = Loop<body=@body>(n_most, _, h0)
         @body: n on h -> go next difference
         back = Sub(3, n)
         row = Gather(x, back)
         from = Unsqueeze(n, [0])
         to = Add(from, [1])
         part = Slice(x, from, to, [0])
         same = Squeeze(part, [0])
         difference = Sub(row, same)
         next = Add(h, difference)
         go = Identity(on)",
    );
    let x = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0, 30.0, 31.0];
    for steps in [4, 0, 3, 4] {
        let most = [steps as i64];
        let given = [
            ("n_most", int64s(&most)),
            ("h0", floats(&[2], &[5.0, 6.0])),
            ("x", floats(&[4, 2], &x)),
        ];
        let (memory, sizes) = run(&program, &given, [2, 2 * steps]).unwrap();
        assert_eq!(sizes, [vec![2], vec![steps, 2]]);
        let all = &[30.0, 10.0, -10.0, -30.0][..steps];
        let all: Vec<f32> = all.iter().flat_map(|&it| [it; 2]).collect();
        assert_eq!(memory[1], all);
        let sum: f32 = all.iter().step_by(2).sum();
        assert_eq!(memory[0], [5.0 + sum, 6.0 + sum]);
    }
}

/// What says after some questions that the run is to end.
struct After(AtomicUsize);

impl Threads for After {
    fn count(&self) -> usize {
        Serial.count()
    }

    fn run(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        Serial.run(workers, work);
    }

    fn stop(&self) -> Option<&dyn Stop> {
        Some(self)
    }
}

impl Stop for After {
    fn is_wanted(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

#[test]
fn a_run_ends_early_if_that_is_wanted() {
    let program = program(&scan("next = Add(h, x)"));
    let x = vec![1.0; 1000];
    let given = [floats(&[1], &[0.0]), floats(&[1000, 1], &x)];
    let mut memory = [vec![0.0]];
    let stop = After(AtomicUsize::new(10));
    let ended = program.run(&given, &mut Room::new(&mut memory), &stop);
    assert_eq!(ended, Err(Error::Stopped));
    let stop = After(AtomicUsize::new(1000));
    program
        .run(&given, &mut Room::new(&mut memory), &stop)
        .unwrap();
    assert_eq!(memory[0], [1000.0]);
}

#[test]
fn what_does_not_fit_is_an_error_with_its_values() {
    let program = program(&scan("next = Add(h, x)"));
    let error = |given: &[Tensor<'_>]| {
        let mut memory = [vec![0.0; 4]];
        let run = program.run(given, &mut Room::new(&mut memory), &Serial);
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
    for (nodes, expected) in [
        (
            "next = NonZero(h)",
            "its NonZero node is none that programs have",
        ),
        (
            "next = Cast<to=10>(h)",
            "its Cast node makes elements of float16",
        ),
        (
            "axes = Cast<to=7>(h)
             next = ReduceSum(x, axes)",
            "its ReduceSum node reads \"axes\", which each step computes",
        ),
        (
            "is_kept = Cast<to=9>(x)
             next = If<then_branch=@longer;else_branch=@same>(is_kept)
             @longer: -> more
             more = Concat<axis=0>(h, x)
             @same: -> same
             same = Identity(h)",
            "its If node appends under a condition of a step",
        ),
    ] {
        assert_eq!(read(&scan(nodes), &Values).unwrap_err(), expected);
    }
}

/// An RNN in a step, of one unit and one feature.
fn rnn(attributes: &str) -> Result<Steps, String> {
    let nodes = format!(
        "w:f32[1,1,1] = 0.5
         r:f32[1,1,1] = -2.0
         _, next = RNN<{attributes}>(x, w, r, _, _, h)"
    );
    read(&scan(&nodes), &Values)
}

#[test]
fn a_layer_in_a_step_has_its_activations() {
    for (attributes, function) in [
        ("", f32::tanh as fn(f32) -> f32),
        // As ONNX Runtime writes it; the second is that of another direction.
        ("activations=[Tanh,Tanh]", f32::tanh),
        ("activations=[Relu,Tanh]", |x| x.max(0.0)),
        ("activations=[LeakyRelu];activation_alpha=[0.25]", |x| {
            if x < 0.0 { 0.25 * x } else { x }
        }),
        // No bound, as in ONNX Runtime.
        ("clip=-1.0", f32::tanh),
    ] {
        let xs = [1.0, -1.5, 4.0];
        let given = [
            ("h0", floats(&[1, 1, 1], &[0.5])),
            ("xs", floats(&[3, 1, 1, 1], &xs)),
        ];
        let (memory, _) = run(&rnn(attributes).unwrap(), &given, [1]).unwrap();
        let expected = xs.iter().fold(0.5, |h, x| function(0.5 * x - 2.0 * h));
        close(&memory[0], &[expected], "the state");
    }
}

#[test]
fn a_wrong_attribute_of_a_layer_in_a_step_is_an_error() {
    for (attribute, expected) in [
        (
            "direction=sideways",
            "is wrong: its direction is \"sideways\", expected forward, reverse or bidirectional",
        ),
        ("layout=2", "is wrong: its layout is 2, expected 0 or 1"),
        ("layout=1", "has the layout of batches first"),
        (
            "hidden_size=0",
            "is wrong: its hidden_size is 0, expected 1 at least",
        ),
        (
            "activations=[Tanh,Tanh,Tanh]",
            "is wrong: it has 3 activations, expected 1",
        ),
        (
            "clip=1",
            "is wrong: its clip is an integer, expected a float",
        ),
        ("clip=0.5", "couples its gates or has a clip"),
        ("direction=bidirectional", "has two directions"),
    ] {
        let error = rnn(attribute).unwrap_err();
        assert_eq!(error, format!("its RNN node {expected}"));
    }
    let given = [
        ("h0", floats(&[1, 1, 1], &[0.5])),
        ("xs", floats(&[3, 1, 1, 1], &[0.0; 3])),
    ];
    let error = run(&rnn("hidden_size=3").unwrap(), &given, [1]).unwrap_err();
    let expected = "node \"RNN\": weights of [1, 1, 1] and [1, 1, 1], with a hidden_size of 3";
    assert_eq!(error.to_string(), expected);
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
    fn node(&self) -> String {
        let pads = match self.auto_pad {
            "" => format!("pads={:?}", self.pads),
            mode => format!("auto_pad={mode}"),
        };
        let (groups, strides, dilations) = (self.groups, self.strides, self.dilations);
        format!("Conv<group={groups};strides={strides:?};dilations={dilations:?};{pads}>")
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
        let text = format!(
            "_, all_y, all_z = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next ys zs
             next = Add(s, [0.5])
             seen = Add(x, s)
             ys = {node}(seen, w, b)
             zs = {node}(x, w, b)",
            node = case.node()
        );
        let constants = [
            ("w", float_tensor(case.filters, &w)),
            ("b", float_tensor(&[b.len()], &b)),
        ];
        for around in [Constants(vec![]), Constants(constants.to_vec())] {
            let program = read(&text, &around).unwrap();
            let whole = [&[steps], case.input].concat();
            let given = [
                ("s0", floats(&[1], &[0.0])),
                ("xs", floats(&whole, &x)),
                ("w", floats(case.filters, &w)),
                ("b", floats(&case.filters[..1], &b)),
            ];
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
            let lens = [0, expected[0].len(), expected[1].len()];
            let (memory, made) = run(&program, &given, lens).unwrap();
            assert_eq!(made[1], [&[steps], &*sizes].concat());
            let filters = case.filters;
            close(&memory[1], &expected[0], &format!("{filters:?} of states"));
            close(&memory[2], &expected[1], &format!("{filters:?} of slices"));
        }
    }
}

/// An If on a state, of branches that are both computed and of those of which one is.
#[test]
fn branches_are_taken_by_what_steps_compute() {
    for len in [3, 15000] {
        let program = program(
            "last, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next again
             total = ReduceSum<keepdims=0>(s)
             is_large = Greater(total, 0.0)
             next, again = If<then_branch=@then;else_branch=@other>(is_large)
             @then: -> less s
             part = Mul(s, 0.5)
             less = Sub(part, x)
             @other: -> more x
             sum = Add(k, x)
             more = Add(s, sum)",
        );
        let steps = 7;
        let (s0, k) = (numbers(len, 1), numbers(len, 2));
        let xs: Vec<f32> = numbers(steps * len, 3).iter().map(|it| it + 0.6).collect();
        let (one, all) = ([len], [steps, len]);
        let given = [
            ("xs", floats(&all, &xs)),
            ("s0", floats(&one, &s0)),
            ("k", floats(&one, &k)),
        ];
        let (memory, _) = run(&program, &given, [len, steps * len]).unwrap();

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
    let run = |then: &str| {
        let program = program(&format!(
            "_, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next y
             is_inside = Less(s, 3.0)
             at = Cast<to=7>(s)
             next = Add(s, 1.0)
             y = If<then_branch=@then;else_branch=@other>(is_inside)
             @then: -> {then}
             found = Gather(table, at)
             longer = Concat<axis=0>(table, x)
             @other: -> out
             out = Neg(s)"
        ));
        let given = [
            ("s0", floats(&[], &[0.0])),
            ("xs", floats(&[5, 1], &[0.0; 5])),
            ("table", floats(&[3], &[7.0, 8.0, 9.0])),
        ];
        run(&program, &given, [0, 5])
    };
    assert_eq!(run("found").unwrap().0[1], [7.0, 8.0, 9.0, -3.0, -4.0]);
    let error = run("longer").unwrap_err().to_string();
    assert_eq!(error, "node \"If\": sizes [4] and [] in its branches");
}

/// The distances of dynamic time warping: rows by a Scan, and what is within a row by a Loop.
#[test]
fn a_loop_in_a_body_is_a_program_within_the_program() {
    let (rows, columns) = (5, 7);
    let program = program(
        "last, all, powers = Scan<body=@body;num_scan_inputs=1>(first, xs)
         @body: prev x -> row row power
         large = Identity(1.0e30)
         _, row = Loop<body=@inner>(n_columns, _, large)
         bound = ReduceMax<keepdims=0>(row)
         power = Loop<body=@doubles>(_, true, 2.0)
         @inner: j on left -> go new new
         cost = Gather(x, j)
         above = Gather(prev, j)
         least = Min(left, above)
         new = Add(cost, least)
         go = Identity(on)
         @doubles: n on2 p -> is_less q
         q = Add(p, p)
         is_less = Less(q, bound)",
    );
    let first: Vec<f32> = (0..columns).map(|it| it as f32).collect();
    let x: Vec<f32> = numbers(rows * columns, 4)
        .iter()
        .map(|it| it + 2.0)
        .collect();
    let (one, all) = ([columns], [rows, columns]);
    for count in [columns, columns - 2] {
        let most = [count as i64];
        let given = [
            ("first", floats(&one[..], &first[..])),
            ("xs", floats(&all, &x)),
            ("n_columns", int64s(&most)),
        ];
        let (memory, sizes) = run(&program, &given, [columns, rows * columns, rows]).unwrap();
        // A state that changes its sizes has a program for each of them.
        assert_eq!(sizes[0], [count]);
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
        let program = program(&format!(
            "_, b, p, m, w, o = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next best places marks wide open
             all = Add(x, s)
             best, at = TopK<axis=0;largest={largest}>(all, [{count}])
             marks = OneHot<axis=1>(at, [{rows}], [-1.0 2.0])
             wide = Pad(best, [1 -1 0 2], 9.0)
             places = CastLike(at, s)
             open = HardSwish(best)
             next = ReduceMean<keepdims=0>(best)"
        ));
        let x = numbers(steps * rows * columns, 6);
        let sizes = [steps, rows, columns];
        let given = [("s0", floats(&[], &[0.25])), ("xs", floats(&sizes, &x))];
        let each = count * columns;
        let lens = [0, each, each, each * rows, 3 * 4, each].map(|it| it * steps);
        let (memory, _) = run(&program, &given, lens).unwrap();

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
            close(&memory[index], expected, &format!("output {index}"));
        }
    }
}

/// A step is `h + x + 0.1 + 0.25`: the one double is in the body, the other around it.
#[test]
fn doubles_that_are_cast_are_constants() {
    let outer = TensorProto {
        data_type: Some(DOUBLE),
        double_data: vec![0.25],
        ..TensorProto::default()
    };
    let nodes = "tenth = Cast<to=1>(0.1f64)
        quarter = Cast<to=1>(outer)
        sum = Add(h, x)
        more = Add(sum, tenth)
        next = Add(more, quarter)";
    let program = read(&scan(nodes), &Constants(vec![("outer", outer)])).unwrap();
    let given = [
        ("h0", floats(&[1], &[1.0])),
        ("xs", floats(&[2, 1], &[2.0, 3.0])),
    ];
    let (memory, _) = run(&program, &given, [1]).unwrap();
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
            let [a, b] = turned.map(|it| if it { [1, 0] } else { [0, 1] });
            let program = program(&format!(
                "_, all = Scan<body=@body;num_scan_inputs=1>(s0, xs)
                 @body: s x -> next made
                 one = Transpose<perm={a:?}>(a)
                 own = Transpose<perm={b:?}>(b)
                 other = Mul(own, s)
                 made = MatMul(one, other)
                 next = Add(s, x)"
            ));
            let (a, b) = (numbers(rows * terms, 1), numbers(terms * columns, 2));
            let given = [
                ("s0", floats(&[], &[1.0])),
                ("xs", floats(&[2], &[0.5, 0.25])),
                ("a", floats(&sizes[0], &a)),
                ("b", floats(&sizes[1], &b)),
            ];
            let (memory, _) = run(&program, &given, [0, 2 * rows * columns]).unwrap();
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
        let program = program(&format!(
            "last_s, os = Scan<body=@body;num_scan_inputs=2>(s0, us, vs)
             @body: s u v -> next o
             column = Unsqueeze(u, [-1])
             row = Unsqueeze(v, [1])
             outer = {outer}(column, row)
             next = MatMul(s, outer)
             o = MatMul(outer, s)"
        ));
        let s0 = numbers(heads * size * size, 1);
        let [u, v] = [2, 3].map(|seed| numbers(steps * heads * size, seed));
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let given = [
            ("s0", floats(&whole, &s0)),
            ("us", floats(&each, &u)),
            ("vs", floats(&each, &v)),
        ];
        let (memory, _) = run(&program, &given, [s0.len(), steps * s0.len()]).unwrap();
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
            let indices = [2_i64, 0, 2, -1];
            let (at, op) = match is_nd {
                true => ("[4 1]", "ScatterND"),
                false => ("[4 3]", "ScatterElements"),
            };
            let program = program(&scan(&format!(
                "column = Reshape([2 0 2 -1], [4 1])
                 at = Expand(column, {at})
                 next = {op}<reduction={reduction}>(h, at, x)"
            )));
            let (h0, x) = (numbers(5 * 3, 1), numbers(2 * 4 * 3, 2));
            let given = [("h0", floats(&[5, 3], &h0)), ("xs", floats(&[2, 4, 3], &x))];
            let (memory, _) = run(&program, &given, [15]).unwrap();
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
    let grown = "last = Loop<body=@body>(n, _, s0)
        @body: i on s -> go next
        next = Concat<axis=0>(s, x)
        go = Identity(on)";
    let run = |program: &Steps, steps: usize| {
        let number = [steps as i64];
        let names: Vec<String> = program.inputs().map(|it| it.0.to_owned()).collect();
        let of = |name: &String| match &**name {
            "n" => int64s(&number),
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
        let done = program.run_within(limits, &given, &mut room, &Serial)?;
        assert_eq!(done, steps as u64);
        assert_eq!((memory[0][0], memory[0][steps]), (1.0, 2.0));
        Ok::<_, Error>(())
    };
    let program = program(grown);
    let all: Vec<bool> = (0..4).map(|_| run(&program, 6).is_ok()).collect();
    assert_eq!(all, [false, false, true, true]);
    let again = self::program(grown);
    assert!((0..200).all(|_| run(&again, 200).is_err()));
    // Not even those of few steps run now.
    let error = run(&again, 2).unwrap_err().to_string();
    assert!(error.contains("more than 2 programs"), "{error}");
}

/// `S ← S diag(w) + (S a) bᵀ + v kᵀ` and `o = S r`, as RWKV-7 has it, and with `p = Sᵀ r`.
#[test]
fn states_with_two_outer_products_are_those_of_their_formula() {
    for (size, sums) in [(64, false), (64, true), (20, false), (37, true)] {
        let (heads, steps) = (2, 3);
        let (all, made, nodes) = match sums {
            true => (
                "last_s, os, ps",
                "next o p",
                "r_row = Unsqueeze(r, [1])\n p = MatMul(r_row, next)",
            ),
            false => ("last_s, os", "next o", ""),
        };
        let program = program(&format!(
            "{all} = Scan<body=@body;num_scan_inputs=6>(s0, ws, as, bs, vs, ks, rs)
             @body: s w a b v k r -> {made}
             w_row = Unsqueeze(w, [1])
             a_column = Unsqueeze(a, [-1])
             b_row = Unsqueeze(b, [1])
             v_column = Unsqueeze(v, [-1])
             k_row = Unsqueeze(k, [1])
             r_column = Unsqueeze(r, [-1])
             faded = Mul(s, w_row)
             sa = MatMul(s, a_column)
             sab = MatMul(sa, b_row)
             vk = MatMul(v_column, k_row)
             part = Add(faded, sab)
             next = Add(part, vk)
             o = MatMul(next, r_column)
             {nodes}"
        ));
        let s0 = numbers(heads * size * size, 1);
        let given = [2, 3, 4, 5, 6, 7].map(|seed| {
            let mut all = numbers(steps * heads * size, seed);
            all.iter_mut().for_each(|it| *it *= 0.4);
            all
        });
        let (whole, each) = ([heads, size, size], [steps, heads, size]);
        let names = ["ws", "as", "bs", "vs", "ks", "rs"];
        let tensors = given.iter().map(|all| floats(&each, all));
        let mut tensors: Vec<_> = std::iter::zip(names, tensors).collect();
        tensors.push(("s0", floats(&whole, &s0)));
        let len = given[0].len();
        let (memory, _) = match sums {
            true => run(&program, &tensors, [s0.len(), len, len]),
            false => {
                run(&program, &tensors, [s0.len(), len]).map(|([s, o], it)| ([s, o, vec![]], it))
            }
        }
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
