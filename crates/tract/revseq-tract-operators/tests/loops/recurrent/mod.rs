//! LSTM, GRU and RNN, compared with a plain version of ONNX's equations.

mod attention;
#[path = "../../../../../layers/recurrent-layers/tests/definition/mod.rs"]
#[expect(dead_code, reason = "its own numbers and masks are for other tests")]
mod definition;
mod quantized;

use std::fmt::Write as _;
use std::ops::Range;

use proptest::prelude::*;
use recurrent_layers::{Activation, Cell, Layer, Layout};
use revseq_tract_operators::{LengthsPolicy, LoadOptions};
use tract_onnx::prelude::*;

use crate::build::{Optimize, graph, ops, parse, parse_with};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Lstm => "LSTM",
            Self::Gru => "GRU",
            Self::Rnn => "RNN",
        }
    }

    fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }

    fn activations(self) -> usize {
        match self {
            Self::Lstm => 3,
            Self::Gru => 2,
            Self::Rnn => 1,
        }
    }
}

/// All functions: the name, and whether they have alpha and beta.
const FUNCTIONS: [(&str, [bool; 2]); 11] = [
    ("Affine", [true, true]),
    ("Elu", [true, false]),
    ("HardSigmoid", [true, true]),
    ("LeakyRelu", [true, false]),
    ("Relu", [false, false]),
    ("ScaledTanh", [true, true]),
    ("Sigmoid", [false, false]),
    ("Softplus", [false, false]),
    ("Softsign", [false, false]),
    ("Tanh", [false, false]),
    ("ThresholdedRelu", [true, false]),
];

fn activation(name: &str, alpha: f32, beta: f32) -> Activation {
    match name {
        "Affine" => Activation::Affine { alpha, beta },
        "Elu" => Activation::Elu { alpha },
        "HardSigmoid" => Activation::HardSigmoid { alpha, beta },
        "LeakyRelu" => Activation::LeakyRelu { alpha },
        "Relu" => Activation::Relu,
        "ScaledTanh" => Activation::ScaledTanh { alpha, beta },
        "Sigmoid" => Activation::Sigmoid,
        "Softplus" => Activation::Softplus,
        "Softsign" => Activation::Softsign,
        "Tanh" => Activation::Tanh,
        _ => Activation::ThresholdedRelu { alpha },
    }
}

/// Where weights and initial states come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Constants,
    /// Nodes, whose outputs are constants once the model is optimised.
    Nodes,
    Inputs,
}

#[derive(Clone, Debug)]
struct Case {
    datum_type: DatumType,
    kind: Kind,
    direction: &'static str,
    time: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    has_bias: bool,
    /// The lengths, of which some may be out of range.
    lengths: Option<Vec<i32>>,
    clamps_lengths: bool,
    /// Whether the lengths are a constant instead of an input.
    knows_lengths: bool,
    has_initial: bool,
    has_peepholes: bool,
    clip: Option<f32>,
    /// Indices into `FUNCTIONS`, with alpha and beta.
    activations: Option<Vec<(usize, f32, f32)>>,
    is_set: bool,
    is_batch_first: bool,
    source: Source,
    /// Whether the model is prepared before the sizes of time and batch are known.
    is_symbolic: bool,
    /// The number of threads of a second run.
    threads: usize,
    seed: u64,
    /// The elements that are NaN: the array among the inputs, and a share of its elements.
    nan: Vec<(usize, f64)>,
}

/// Calls a function with a number of threads for tract.
fn on_threads<T>(threads: usize, run: impl FnOnce() -> T) -> T {
    use tract_onnx::tract_core::tract_linalg::multithread;
    #[cfg(feature = "multithread")]
    let executor = match threads {
        1 => multithread::Executor::SingleThread,
        _ => multithread::Executor::multithread(threads),
    };
    #[cfg(not(feature = "multithread"))]
    let (executor, _) = (multithread::Executor::SingleThread, threads);
    multithread::multithread_tract_scope(executor, run)
}

/// A tensor's elements and sizes.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    sizes: Vec<usize>,
    elements: Vec<f64>,
}

impl Array {
    fn of(tensor: &Tensor) -> Self {
        let tensor = tensor.cast_to::<f64>().unwrap();
        let elements = tensor.to_plain_array_view::<f64>().unwrap();
        Self {
            sizes: tensor.shape().to_vec(),
            elements: elements.iter().copied().collect(),
        }
    }

    fn tensor(&self, datum_type: DatumType) -> Tensor {
        let tensor = Tensor::from_shape(&self.sizes, &self.elements).unwrap();
        tensor.cast_to_dt(datum_type).unwrap().into_owned()
    }
}

/// Numbers between -1 and 1 that every float type can represent.
struct Numbers(u64);

impl Numbers {
    fn array(&mut self, sizes: &[usize]) -> Array {
        let elements = (0..sizes.iter().product()).map(|_| {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 56) as f64 / 128.0 - 1.0
        });
        Array {
            elements: elements.collect(),
            sizes: sizes.to_vec(),
        }
    }
}

impl Case {
    fn directions(&self) -> usize {
        1 + usize::from(self.direction == "bidirectional")
    }

    /// The sizes of the batch axis and another one, in layout order.
    fn around_batch(&self, other: usize) -> [usize; 2] {
        if self.is_batch_first {
            [self.batch, other]
        } else {
            [other, self.batch]
        }
    }

    /// X, W, R, B, initial_h, initial_c and P, whether used or not.
    fn inputs(&self) -> [Array; 7] {
        let mut numbers = Numbers(self.seed);
        let (directions, hidden, gates) = (self.directions(), self.hidden, self.kind.gates());
        let [a, b] = self.around_batch(self.time);
        let x = numbers.array(&[a, b, self.features]);
        let w = numbers.array(&[directions, gates * hidden, self.features]);
        let r = numbers.array(&[directions, gates * hidden, hidden]);
        let bias = numbers.array(&[directions, 2 * gates * hidden]);
        let [a, b] = self.around_batch(directions);
        let h = numbers.array(&[a, b, hidden]);
        let c = numbers.array(&[a, b, hidden]);
        let peepholes = numbers.array(&[directions, 3 * hidden]);
        let mut inputs = [x, w, r, bias, h, c, peepholes];
        for (input, share) in &self.nan {
            let elements = &mut inputs[*input].elements;
            let at = (share * elements.len() as f64) as usize;
            elements
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|it| *it = f64::NAN);
        }
        inputs
    }

    /// The first length out of range.
    fn wrong_length(&self) -> Option<String> {
        let mut lengths = self.lengths.iter().flatten().enumerate();
        let (index, length) =
            lengths.find(|(_, length)| !(0..=self.time as i32).contains(*length))?;
        Some(format!(
            "sequence length {length} at index {index} is out of range: expected 0 to "
        ))
    }

    fn by_definition(&self) -> Vec<Vec<f64>> {
        let backward: &[bool] = match self.direction {
            "forward" => &[false],
            "reverse" => &[true],
            _ => &[false, true],
        };
        let cell = match self.kind {
            Kind::Lstm => Cell::Lstm {
                couples_input_and_forget: self.is_set,
            },
            Kind::Gru => Cell::Gru {
                resets_after_product: self.is_set,
            },
            Kind::Rnn => Cell::Rnn,
        };
        let mut layer = Layer::new(cell, self.features, self.hidden, backward);
        layer.clip = self.clip;
        let slots = layer
            .directions
            .iter_mut()
            .flat_map(|it| &mut it.activations);
        for (slot, given) in std::iter::zip(slots, self.activations.iter().flatten()) {
            *slot = activation(FUNCTIONS[given.0].0, given.1, given.2);
        }
        let lengths = self.lengths.as_ref().map(|lengths| {
            let clamped = lengths
                .iter()
                .map(|&it| it.clamp(0, self.time as i32) as usize);
            clamped.collect()
        });
        let case = definition::Case {
            layer,
            steps: self.time,
            batch: self.batch,
            layout: match self.is_batch_first {
                true => Layout::BatchFirst,
                false => Layout::TimeFirst,
            },
            has_bias: self.has_bias,
            has_peepholes: self.has_peepholes,
            has_initial: self.has_initial,
            lengths,
            mask: None,
            blends: false,
            repeats: false,
            seed: 0,
        };
        let [x, w, r, b, h, c, p] = self.inputs().map(|it| it.elements);
        let all = case.of(&[x, w, r, b, p, h, c]);
        all.into_iter().take(self.outputs()).collect()
    }

    fn outputs(&self) -> usize {
        if self.kind == Kind::Lstm { 3 } else { 2 }
    }

    fn text(&self) -> String {
        let mut attributes = vec![
            format!("direction=\"{}\"", self.direction),
            format!("hidden_size={}", self.hidden),
            format!("layout={}", u8::from(self.is_batch_first)),
        ];
        if let Some(clip) = self.clip {
            attributes.push(format!("clip={clip:?}"));
        }
        match self.kind {
            Kind::Lstm => attributes.push(format!("input_forget={}", u8::from(self.is_set))),
            Kind::Gru => {
                attributes.push(format!("linear_before_reset={}", u8::from(self.is_set)));
            }
            Kind::Rnn => {}
        }
        if let Some(activations) = &self.activations {
            let list = |items: Vec<String>| format!("[{}]", items.join(","));
            let names = activations
                .iter()
                .map(|(function, ..)| FUNCTIONS[*function].0.to_owned());
            attributes.push(format!("activations={}", list(names.collect())));
            let alphas = activations
                .iter()
                .filter(|(function, ..)| FUNCTIONS[*function].1[0]);
            let alphas: Vec<String> = alphas.map(|(_, alpha, _)| format!("{alpha:?}")).collect();
            let betas = activations
                .iter()
                .filter(|(function, ..)| FUNCTIONS[*function].1[1]);
            let betas: Vec<String> = betas.map(|(_, _, beta)| format!("{beta:?}")).collect();
            if !alphas.is_empty() {
                attributes.push(format!("activation_alpha={}", list(alphas)));
            }
            if !betas.is_empty() {
                attributes.push(format!("activation_beta={}", list(betas)));
            }
        }
        let given = |is_given: bool, name: &str| {
            if is_given {
                name.to_owned()
            } else {
                "_".to_owned()
            }
        };
        let mut inputs = vec![
            "x".to_owned(),
            "w".to_owned(),
            "r".to_owned(),
            given(self.has_bias, "b"),
            given(self.lengths.is_some(), "lengths"),
            given(self.has_initial, "h"),
        ];
        if self.kind == Kind::Lstm {
            inputs.push(given(self.has_initial, "c"));
            inputs.push(given(self.has_peepholes, "p"));
        }
        let outputs = &["y", "y_h", "y_c"][..self.outputs()];
        format!(
            "{} = {}<{}>({})",
            outputs.join(", "),
            self.kind.name(),
            attributes.join(";"),
            inputs.join(", ")
        )
    }

    /// The outputs of tract, optimised and not.
    fn on_tract(&self) -> TractResult<[Vec<Array>; 2]> {
        let [x, w, r, b, h, c, p] = self.inputs();
        let mut sizes: Vec<String> = x.sizes.iter().map(usize::to_string).collect();
        let mut batch = self.batch.to_string();
        if self.is_symbolic {
            "N".clone_into(&mut batch);
            sizes[usize::from(!self.is_batch_first)] = batch.clone();
            "T".clone_into(&mut sizes[usize::from(self.is_batch_first)]);
        }
        let datum_type = format!("{:?}", self.datum_type).to_lowercase();
        let mut declared = format!("x:{datum_type}[{}]", sizes.join(","));
        let mut inputs: TVec<TValue> = tvec![x.tensor(self.datum_type).into_tvalue()];
        let lengths = self.lengths.as_ref().map(|lengths| tensor1(lengths));
        if let Some(lengths) = lengths.as_ref().filter(|_| !self.knows_lengths) {
            write!(declared, " lengths:i32[{batch}]")?;
            inputs.push(lengths.clone().into_tvalue());
        }
        let outputs = ["y", "y_h", "y_c"][..self.outputs()].join(" ");
        let mut text = self.text();
        let mut constants = vec![];
        let is_lstm = self.kind == Kind::Lstm;
        for (name, is_given, array) in [
            ("w", true, w),
            ("r", true, r),
            ("b", self.has_bias, b),
            ("h", self.has_initial, h),
            ("c", self.has_initial && is_lstm, c),
            ("p", self.has_peepholes && is_lstm, p),
        ] {
            if !is_given {
                continue;
            }
            let tensor = array.tensor(self.datum_type);
            match self.source {
                Source::Constants => constants.push((name.to_owned(), tensor)),
                Source::Nodes => {
                    let zero = Tensor::zero_scalar_dt(self.datum_type)?;
                    text = format!("{name} = Add({name}_, {name}_zero)\n{text}");
                    constants.push((format!("{name}_"), tensor));
                    constants.push((format!("{name}_zero"), zero));
                }
                Source::Inputs => {
                    let sizes: Vec<String> = array.sizes.iter().map(usize::to_string).collect();
                    write!(declared, " {name}:{datum_type}[{}]", sizes.join(","))?;
                    inputs.push(tensor.into_tvalue());
                }
            }
        }
        let mut model = graph(&declared, &outputs, &text);
        for (name, tensor) in constants {
            model = model.constant(&name, tensor);
        }
        if let Some(lengths) = lengths.filter(|_| self.knows_lengths) {
            model = model.constant("lengths", lengths);
        }
        let options = LoadOptions::new().with_lengths(if self.clamps_lengths {
            LengthsPolicy::Clamp
        } else {
            LengthsPolicy::Reject
        });
        let typed = parse_with(options, model)?.into_typed()?;
        let plain = typed.clone().into_runnable()?.run(inputs.clone())?;
        let optimized = typed.optimized()?;
        let is_layer = ops(&optimized).iter().any(|op| op.starts_with("Packed"));
        // Outputs of an empty batch are known.
        assert!(is_layer || self.batch == 0, "{:?}", ops(&optimized));
        let optimized = optimized.into_runnable()?;
        let mut state = optimized.spawn()?;
        let first = state.run(inputs.clone())?;
        let again = on_threads(self.threads, || state.run(inputs))?;
        assert_eq!(
            again, first,
            "a run leaves something behind, or its threads matter"
        );
        Ok([plain, first].map(|outputs| outputs.iter().map(|it| Array::of(it)).collect()))
    }

    fn check(&self) {
        if let Some(wrong) = self.wrong_length().filter(|_| !self.clamps_lengths) {
            let error = self.on_tract().unwrap_err();
            assert!(format!("{error:#}").contains(&wrong), "{error:#}");
            return;
        }
        let numbers = Self {
            nan: vec![],
            ..self.clone()
        };
        let expected = self.by_definition();
        // Unbounded functions may overflow a state.
        let mut all = numbers.by_definition().concat();
        all.extend(expected.concat().iter().filter(|it| !it.is_nan()));
        if all.iter().any(|it| it.abs() > 1e4 || it.is_nan()) {
            return;
        }
        for found in self.on_tract().unwrap() {
            self.compare(&found, &expected);
        }
    }

    fn compare(&self, found: &[Array], expected: &[Vec<f64>]) {
        assert_eq!(found.len(), expected.len());
        let tolerance = match self.datum_type {
            DatumType::F64 => 1e-9,
            // A state is rounded in each step, and an unbounded gate multiplies what that leaves.
            DatumType::F16 => 4e-3,
            _ => 1e-4,
        };
        for (index, (found, expected)) in std::iter::zip(found, expected).enumerate() {
            assert_eq!(found.elements.len(), expected.len(), "output {index}");
            for (at, (found, expected)) in std::iter::zip(&found.elements, expected).enumerate() {
                let difference = (found - expected).abs();
                assert!(
                    found.is_nan() && expected.is_nan()
                        || difference <= tolerance * expected.abs().max(1.0),
                    "output {index} at {at}: {found}, expected {expected}"
                );
            }
        }
        let sizes = |sizes: [usize; 2]| vec![sizes[0], sizes[1], self.hidden];
        assert_eq!(found[1].sizes, sizes(self.around_batch(self.directions())));
    }
}

/// The most multiplications of the plain version of a case.
const MULTIPLICATIONS: usize = 1 << 19;

/// The shares that lengths are counted in.
const SHARES: i32 = 1 << 10;

/// Small layers, and those of up to 600 units and 40 sequences.
fn cases() -> impl Strategy<Value = Case> {
    let small = (0usize..6, 0usize..4, 1usize..5, 1usize..7);
    let large = (1usize..8, 0usize..=40, 1usize..40, 1usize..=600);
    prop_oneof![cases_of(small), cases_of(large)].prop_map(|mut case| {
        let rows = case.directions() * case.kind.gates() * case.hidden;
        let steps = MULTIPLICATIONS / (rows * (case.hidden + case.features));
        case.batch = case.batch.min(steps.max(1));
        case.time = case.time.min((steps / case.batch.max(1)).max(1));
        // Of every length, the share of the steps that it covers; see `cases_of`.
        for length in case.lengths.iter_mut().flatten() {
            *length = *length * (case.time as i32 + 1) / SHARES;
            *length = (*length).clamp(-1, case.time as i32 + 1);
        }
        case.lengths
            .iter_mut()
            .for_each(|it| it.truncate(case.batch));
        case
    })
}

fn cases_of(
    sizes: (
        Range<usize>,
        impl Strategy<Value = usize>,
        Range<usize>,
        impl Strategy<Value = usize>,
    ),
) -> impl Strategy<Value = Case> {
    let kinds = prop_oneof![Just(Kind::Lstm), Just(Kind::Gru), Just(Kind::Rnn)];
    let directions = prop_oneof![Just("forward"), Just("reverse"), Just("bidirectional")];
    let flags = any::<[bool; 6]>();
    // Most lengths are in range: few of the models are to fail.
    let shares = prop_oneof![
        200 => 0..SHARES,
        1 => Just(-SHARES),
        1 => Just(2 * SHARES),
    ];
    let nan = prop_oneof![
        2 => Just(vec![]),
        1 => proptest::collection::vec((0usize..7, 0.0f64..1.0), 1..4),
    ];
    let sources = prop_oneof![
        2 => Just(Source::Constants),
        1 => Just(Source::Nodes),
        1 => Just(Source::Inputs),
    ];
    let extra = (
        (
            proptest::option::of(proptest::collection::vec(shares, 41)),
            any::<[bool; 2]>(),
        ),
        proptest::option::of(0.2f32..1.0),
        proptest::option::of(proptest::collection::vec(
            (0..FUNCTIONS.len(), 0.1f32..1.0, 0.1f32..1.0),
            6,
        )),
        (1usize..4, any::<u64>(), nan, sources),
    );
    let types = prop_oneof![
        3 => Just(f32::datum_type()),
        1 => Just(f64::datum_type()),
        1 => Just(f16::datum_type()),
    ];
    let kinds = (types, kinds);
    (kinds, directions, sizes, flags, extra).prop_map(|(kind, direction, sizes, flags, extra)| {
        let (datum_type, kind) = kind;
        let (time, batch, features, hidden) = sizes;
        let ((lengths, policy), clip, activations, (threads, seed, nan, source)) = extra;
        let count = kind.activations() * (1 + usize::from(direction == "bidirectional"));
        Case {
            datum_type,
            kind,
            direction,
            time,
            batch,
            features,
            hidden,
            has_bias: flags[0],
            lengths,
            clamps_lengths: policy[0],
            knows_lengths: policy[1],
            has_initial: flags[1],
            has_peepholes: flags[2],
            clip,
            activations: activations.map(|it| it[..count].to_vec()),
            is_set: flags[3],
            is_batch_first: flags[4],
            source,
            is_symbolic: flags[5],
            threads,
            seed,
            nan,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn layers_compute_as_onnx_defines(case in cases()) {
        case.check();
    }
}

/// A thread takes whole sequences where their steps are too small to be shared.
#[test]
fn threads_that_split_a_batch_compute_what_one_does() {
    let sizes = [(8, 2), (12, 3), (16, 2), (20, 5), (33, 4), (14, 2)];
    let kinds = [(Kind::Lstm, 24), (Kind::Gru, 17), (Kind::Rnn, 40)];
    for (at, (batch, threads)) in sizes.into_iter().enumerate() {
        for (kind, hidden) in kinds.into_iter().cycle().skip(at).take(2) {
            let time = 10_000 / batch;
            let steps = |it: usize| (it * 37 % (time + 1)) as i32;
            let case = Case {
                datum_type: f32::datum_type(),
                kind,
                direction: ["bidirectional", "reverse"][at % 2],
                time,
                batch,
                features: 5,
                hidden,
                has_bias: true,
                lengths: (at % 3 > 0).then(|| (0..batch).map(steps).collect()),
                clamps_lengths: false,
                knows_lengths: false,
                has_initial: true,
                has_peepholes: at % 2 == 0,
                clip: None,
                activations: None,
                is_set: true,
                is_batch_first: at == 4,
                source: Source::Constants,
                is_symbolic: false,
                threads,
                seed: at as u64,
                nan: vec![],
            };
            case.on_tract().unwrap();
        }
    }
}

/// The outputs of a layer of one unit whose weights are 0, with these biases and initial states,
/// after so many steps.
fn held(operator: &str, bias: &[f64], initial: &[f64], steps: usize, is_double: bool) -> Vec<f64> {
    let datum_type = if is_double {
        f64::datum_type()
    } else {
        f32::datum_type()
    };
    let one_by_one = |elements: &[f64]| {
        let tensor = tensor1(elements).into_shape(&[1, 1, elements.len()]);
        tensor.unwrap().cast_to_dt(datum_type).unwrap().into_owned()
    };
    let gates = bias.len();
    let weights = vec![0.0; gates];
    let weights = one_by_one(&weights).into_shape(&[1, gates, 1]).unwrap();
    let bias = one_by_one(&[bias, &vec![0.0; gates]].concat());
    let (inputs, outputs) = match gates {
        4 => ("x, w, w, b, _, h, c", "_, y_h, y"),
        _ => ("x, w, w, b, _, h", "_, y"),
    };
    let number = format!("{datum_type:?}").to_lowercase();
    let text = format!("{outputs} = {operator}({inputs})");
    let mut model = graph(&format!("x:{number}[{steps},1,1]"), "y", &text)
        .constant("w", weights)
        .constant("b", bias.into_shape(&[1, 2 * gates]).unwrap());
    for (name, state) in std::iter::zip(["h", "c"], initial) {
        model = model.constant(name, one_by_one(&[*state]));
    }
    let model = parse(model).unwrap();
    let model = model.optimized().unwrap().into_runnable().unwrap();
    let x = Tensor::zero_dt(datum_type, &[steps, 1, 1]).unwrap();
    let outputs = model.run(tvec![x.into_tvalue()]).unwrap();
    Array::of(&outputs[outputs.len() - 1]).elements
}

/// A rational Sigmoid that ends at 1.5e-7 adds up.
#[test]
fn a_closed_gate_holds_its_state_for_any_number_of_steps() {
    for is_double in [false, true] {
        for clip in ["", "<clip=50.0>"] {
            let lstm = [-100.0, 0.0, 100.0, 0.0];
            let cell = held(
                &format!("LSTM{clip}"),
                &lstm,
                &[0.0, 1.0],
                20_000,
                is_double,
            );
            assert_eq!(cell, [1.0]);
            let gru = [100.0, 0.0, 100.0];
            let state = held(&format!("GRU{clip}"), &gru, &[0.5], 20_000, is_double);
            assert_eq!(state, [0.5]);
        }
    }
}

#[test]
fn a_gru_keeps_a_state_beside_a_larger_one_and_takes_an_infinite_one() {
    let functions = "<activations=[HardSigmoid,Affine];activation_alpha=[0.2,1.0]>";
    let small = 2f64.powi(-27);
    for is_double in [false, true] {
        let kept = held(
            &format!("GRU{functions}"),
            &[100.0, 0.0, 1.0],
            &[small],
            3,
            is_double,
        );
        assert_eq!(kept, [small]);
        let infinite = [-100.0, 0.0, f64::INFINITY];
        let taken = held(&format!("GRU{functions}"), &infinite, &[0.5], 1, is_double);
        assert_eq!(taken, [f64::INFINITY]);
    }
}

/// The operator has as many outputs as are read, in whatever layout and type, and they are the same.
#[test]
fn outputs_that_nothing_reads_are_not_made() {
    let numbers = |sizes: [usize; 3], datum_type: DatumType| {
        let numbers = (0..sizes.iter().product()).map(|at: usize| (at * 7 % 11) as f32 / 8.0 - 0.5);
        let tensor = Array {
            elements: numbers.map(f64::from).collect(),
            sizes: sizes.to_vec(),
        };
        tensor.tensor(datum_type).into_tvalue()
    };
    for (kind, datum_type, layout) in [
        (Kind::Lstm, f32::datum_type(), 0),
        (Kind::Lstm, f16::datum_type(), 1),
        (Kind::Gru, f64::datum_type(), 1),
        (Kind::Rnn, f16::datum_type(), 0),
    ] {
        let all = &["y", "y_h", "y_c"][..if kind == Kind::Lstm { 3 } else { 2 }];
        let run = |read: &[&str]| {
            let of = format!("{datum_type:?}").to_lowercase();
            let gates = kind.gates();
            let inputs = format!("x:{of}[4,2,3] w:{of}[1,{0},3] r:{of}[1,{0},2]", 2 * gates);
            let text = format!(
                "{} = {}<layout={layout}>(x, w, r)",
                all.join(", "),
                kind.name()
            );
            let model = parse(graph(&inputs, &read.join(" "), &text)).unwrap();
            let model = model.optimized().unwrap();
            let mut layers = model
                .nodes()
                .iter()
                .filter(|it| it.op.name().starts_with("Packed"));
            assert_eq!(
                layers.next().unwrap().outputs.len(),
                read.len(),
                "{kind:?} {read:?}"
            );
            let sizes = [[4, 2, 3], [1, 2 * gates, 3], [1, 2 * gates, 2]];
            let inputs = sizes.map(|sizes| numbers(sizes, datum_type));
            model
                .into_runnable()
                .unwrap()
                .run(inputs.to_vec().into())
                .unwrap()
        };
        let expected = run(all);
        for subset in 1..1_usize << all.len() {
            let is_read = |index: &usize| subset >> *index & 1 == 1;
            let read: Vec<usize> = (0..all.len()).filter(is_read).collect();
            let found = run(&read.iter().map(|index| all[*index]).collect::<Vec<_>>());
            for (index, found) in std::iter::zip(read, found) {
                assert_eq!(found, expected[index], "{kind:?} {}", all[index]);
            }
        }
    }
}
