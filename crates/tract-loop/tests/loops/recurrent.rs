//! LSTM, GRU and RNN, compared with a plain version of ONNX's equations.

use std::fmt::Write as _;
use std::ops::Range;

use proptest::prelude::*;
use tract_onnx::prelude::*;

use crate::build::{graph, parse};

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

/// A function of a value, alpha and beta.
type Function = fn(f64, f64, f64) -> f64;

/// All functions: the name, whether they have alpha and beta, and the definition.
const FUNCTIONS: [(&str, [bool; 2], Function); 11] = [
    ("Affine", [true, true], |x, a, b| a * x + b),
    ("Elu", [true, false], |x, a, _| {
        if x >= 0.0 { x } else { a * (x.exp() - 1.0) }
    }),
    ("HardSigmoid", [true, true], |x, a, b| {
        (a * x + b).clamp(0.0, 1.0)
    }),
    (
        "LeakyRelu",
        [true, false],
        |x, a, _| if x >= 0.0 { x } else { a * x },
    ),
    ("Relu", [false, false], |x, _, _| x.max(0.0)),
    ("ScaledTanh", [true, true], |x, a, b| a * (b * x).tanh()),
    ("Sigmoid", [false, false], |x, _, _| {
        1.0 / (1.0 + (-x).exp())
    }),
    ("Softplus", [false, false], |x, _, _| {
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }),
    ("Softsign", [false, false], |x, _, _| x / (1.0 + x.abs())),
    ("Tanh", [false, false], |x, _, _| x.tanh()),
    ("ThresholdedRelu", [true, false], |x, a, _| {
        if x >= a { x } else { 0.0 }
    }),
];

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
    lengths: Option<Vec<i32>>,
    has_initial: bool,
    has_peepholes: bool,
    clip: Option<f32>,
    /// Indices into `FUNCTIONS`, with alpha and beta.
    activations: Option<Vec<(usize, f32, f32)>>,
    is_set: bool,
    is_batch_first: bool,
    /// Whether the model is prepared before the sizes of time and batch are known.
    is_symbolic: bool,
    /// The number of threads of a second run.
    threads: usize,
    seed: u64,
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
    fn at(&self, position: &[usize]) -> f64 {
        let offset = std::iter::zip(&self.sizes, position).fold(0, |offset, (size, index)| {
            assert!(index < size);
            offset * size + index
        });
        self.elements[offset]
    }

    fn of(tensor: &Tensor) -> Self {
        let tensor = tensor.cast_to::<f64>().unwrap();
        let elements = tensor.to_plain_array_view::<f64>().unwrap();
        Self {
            sizes: tensor.shape().to_vec(),
            elements: elements.iter().copied().collect(),
        }
    }

    fn tensor(&self, of: DatumType) -> Tensor {
        let tensor = Tensor::from_shape(&self.sizes, &self.elements).unwrap();
        tensor.cast_to_dt(of).unwrap().into_owned()
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
        [x, w, r, bias, h, c, peepholes]
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
                .map(|(function, ..)| format!("{:?}", FUNCTIONS[*function].0));
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
        let of = format!("{:?}", self.datum_type).to_lowercase();
        let mut declared = format!("x:{of}[{}]", sizes.join(","));
        let mut inputs: TVec<TValue> = tvec![x.tensor(self.datum_type).into_tvalue()];
        if let Some(lengths) = &self.lengths {
            write!(declared, " lengths:i32[{batch}]")?;
            inputs.push(tensor1(lengths).into_tvalue());
        }
        let outputs = ["y", "y_h", "y_c"][..self.outputs()].join(" ");
        let mut model = graph(&declared, &outputs, &self.text());
        let is_lstm = self.kind == Kind::Lstm;
        for (name, is_given, array) in [
            ("w", true, w),
            ("r", true, r),
            ("b", self.has_bias, b),
            ("h", self.has_initial, h),
            ("c", self.has_initial && is_lstm, c),
            ("p", self.has_peepholes && is_lstm, p),
        ] {
            if is_given {
                model = model.constant(name, array.tensor(self.datum_type));
            }
        }
        let typed = parse(model)?.into_typed()?;
        let plain = typed.clone().into_runnable()?.run(inputs.clone())?;
        let optimized = typed.into_optimized()?.into_runnable()?;
        let mut state = optimized.spawn()?;
        let first = state.run(inputs.clone())?;
        let again = on_threads(self.threads, || state.run(inputs))?;
        assert_eq!(
            again, first,
            "a run leaves something behind, or its threads matter"
        );
        Ok([plain, first].map(|outputs| outputs.iter().map(|it| Array::of(it)).collect()))
    }

    fn function(&self, direction: usize, index: usize, x: f64) -> f64 {
        let clipped = match self.clip {
            Some(clip) if !(self.kind == Kind::Lstm && index == 2) => {
                x.clamp(f64::from(-clip), f64::from(clip))
            }
            _ => x,
        };
        let count = self.kind.activations();
        match &self.activations {
            None => match (self.kind, index) {
                (Kind::Rnn, _) | (_, 1 | 2) => clipped.tanh(),
                _ => 1.0 / (1.0 + (-clipped).exp()),
            },
            Some(all) => {
                let (function, alpha, beta) = all[direction * count + index];
                FUNCTIONS[function].2(clipped, f64::from(alpha), f64::from(beta))
            }
        }
    }

    /// The outputs by ONNX's equations, one position at a time, in `f64`.
    fn by_definition(&self) -> Vec<Vec<f64>> {
        let [x, w, r, b, h0, c0, p] = self.inputs();
        let (time, batch, hidden) = (self.time, self.batch, self.hidden);
        let (directions, gates) = (self.directions(), self.kind.gates());
        let mut y = vec![0.0; time * directions * batch * hidden];
        let mut last = [
            vec![0.0; directions * batch * hidden],
            vec![0.0; directions * batch * hidden],
        ];
        for direction in 0..directions {
            let backward = self.direction == "reverse" || direction == 1;
            for item in 0..batch {
                let position = |a: usize| {
                    if self.is_batch_first {
                        [item, a]
                    } else {
                        [a, item]
                    }
                };
                let initial = |from: &Array| -> Vec<f64> {
                    let [a, b] = position(direction);
                    let at = |unit| {
                        if self.has_initial {
                            from.at(&[a, b, unit])
                        } else {
                            0.0
                        }
                    };
                    (0..hidden).map(at).collect()
                };
                let (mut h, mut c) = (initial(&h0), initial(&c0));
                let length = self.lengths.as_ref().map_or(time, |it| it[item] as usize);
                let steps: Vec<usize> = if backward {
                    (0..length).rev().collect()
                } else {
                    (0..length).collect()
                };
                for step in steps {
                    let [s, t] = position(step);
                    let bias = |part: usize, row: usize| {
                        if self.has_bias {
                            b.at(&[direction, part * gates * hidden + row])
                        } else {
                            0.0
                        }
                    };
                    let input = |row: usize| {
                        let products = (0..self.features)
                            .map(|i| x.at(&[s, t, i]) * w.at(&[direction, row, i]));
                        products.sum::<f64>() + bias(0, row)
                    };
                    let state = |row: usize, h: &[f64]| {
                        (0..hidden)
                            .map(|i| h[i] * r.at(&[direction, row, i]))
                            .sum::<f64>()
                    };
                    let gate = |gate: usize, unit: usize| {
                        let row = gate * hidden + unit;
                        input(row) + state(row, &h) + bias(1, row)
                    };
                    let f = |index: usize, x: f64| self.function(direction, index, x);
                    let resets: Vec<f64> = match self.kind {
                        Kind::Gru => (0..hidden).map(|unit| f(0, gate(1, unit))).collect(),
                        _ => vec![],
                    };
                    let reset = std::iter::zip(&resets, &h);
                    let reset: Vec<f64> = reset.map(|(reset, h)| reset * h).collect();
                    let mut next = (vec![], vec![]);
                    for unit in 0..hidden {
                        let peephole = |index: usize, c: f64| {
                            if self.has_peepholes {
                                c * p.at(&[direction, index * hidden + unit])
                            } else {
                                0.0
                            }
                        };
                        match self.kind {
                            Kind::Rnn => next.0.push(f(0, gate(0, unit))),
                            Kind::Gru => {
                                let z = f(0, gate(0, unit));
                                let row = 2 * hidden + unit;
                                let seen = if self.is_set {
                                    resets[unit] * (state(row, &h) + bias(1, row))
                                } else {
                                    state(row, &reset) + bias(1, row)
                                };
                                let new = f(1, input(row) + seen);
                                next.0.push((1.0 - z) * new + z * h[unit]);
                            }
                            Kind::Lstm => {
                                let i = f(0, gate(0, unit) + peephole(0, c[unit]));
                                let forget = if self.is_set {
                                    1.0 - i
                                } else {
                                    f(0, gate(2, unit) + peephole(2, c[unit]))
                                };
                                let cell = forget * c[unit] + i * f(1, gate(3, unit));
                                let o = f(0, gate(1, unit) + peephole(1, cell));
                                next.0.push(o * f(2, cell));
                                next.1.push(cell);
                            }
                        }
                    }
                    (h, c) = next;
                    let at = if self.is_batch_first {
                        ((item * time + step) * directions + direction) * hidden
                    } else {
                        ((step * directions + direction) * batch + item) * hidden
                    };
                    y[at..at + hidden].copy_from_slice(&h);
                }
                if length == 0 && self.lengths.is_some() {
                    h.fill(0.0);
                    c.fill(0.0);
                }
                let [a, b] = position(direction);
                let at = (a * if self.is_batch_first {
                    directions
                } else {
                    batch
                } + b)
                    * hidden;
                last[0][at..at + hidden].copy_from_slice(&h);
                if self.kind == Kind::Lstm {
                    last[1][at..at + hidden].copy_from_slice(&c);
                }
            }
        }
        let [h, c] = last;
        [y, h, c].into_iter().take(self.outputs()).collect()
    }

    fn check(&self) {
        let expected = self.by_definition();
        // Unbounded functions may overflow a state.
        if expected
            .iter()
            .flatten()
            .any(|it| it.abs() > 1e4 || it.is_nan())
        {
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
            DatumType::F16 => 1e-3,
            _ => 1e-4,
        };
        for (index, (found, expected)) in std::iter::zip(found, expected).enumerate() {
            assert_eq!(found.elements.len(), expected.len(), "output {index}");
            for (at, (found, expected)) in std::iter::zip(&found.elements, expected).enumerate() {
                let difference = (found - expected).abs();
                assert!(
                    difference <= tolerance * expected.abs().max(1.0),
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

/// Small layers, and those of up to 600 units and 40 sequences.
fn cases() -> impl Strategy<Value = Case> {
    let small = (0usize..6, 0usize..4, 1usize..5, 1usize..7);
    let large = (1usize..8, 0usize..=40, 1usize..40, 1usize..=600);
    prop_oneof![cases_of(small), cases_of(large)].prop_map(|mut case| {
        let rows = case.directions() * case.kind.gates() * case.hidden;
        let steps = MULTIPLICATIONS / (rows * (case.hidden + case.features));
        case.batch = case.batch.min(steps.max(1));
        case.time = case.time.min((steps / case.batch.max(1)).max(1));
        for length in case.lengths.iter_mut().flatten() {
            *length = (*length).min(case.time as i32);
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
    let extra = (
        proptest::option::of(proptest::collection::vec(0.0f64..1.0, 41)),
        proptest::option::of(0.2f32..1.0),
        proptest::option::of(proptest::collection::vec(
            (0..FUNCTIONS.len(), 0.1f32..1.0, 0.1f32..1.0),
            6,
        )),
        (1usize..4, any::<u64>()),
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
        let (lengths, clip, activations, (threads, seed)) = extra;
        let count = kind.activations() * (1 + usize::from(direction == "bidirectional"));
        let length = |share: f64| (share * (time + 1) as f64) as i32;
        Case {
            datum_type,
            kind,
            direction,
            time,
            batch,
            features,
            hidden,
            has_bias: flags[0],
            lengths: lengths.map(|it| it[..batch].iter().copied().map(length).collect()),
            has_initial: flags[1],
            has_peepholes: flags[2],
            clip,
            activations: activations.map(|it| it[..count].to_vec()),
            is_set: flags[3],
            is_batch_first: flags[4],
            // An initial state is a constant for one batch size. Without steps, tract's Scan gives
            // no final state and fails one of its assertions.
            is_symbolic: flags[5] && !flags[1] && time > 0,
            threads,
            seed,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn as_onnx_defines(case in cases()) {
        case.check();
    }
}

#[test]
fn errors_name_the_cause() {
    let message = |node: &str| {
        let w = Tensor::zero::<f32>(&[1, 8, 2]).unwrap();
        let model = graph("x:f32[3,1,2]", "y", node)
            .constant("w", w.clone())
            .constant("r", w);
        let error = parse(model).map(|_| ()).unwrap_err();
        format!("{error:#}")
    };
    let error = message("y = LSTM<direction=\"back\">(x, w, r)");
    assert!(
        error.contains("its direction is \"back\", expected forward, reverse or bidirectional"),
        "{error}"
    );
    let error = message("y = LSTM<activations=[\"Tanh\"]>(x, w, r)");
    assert!(
        error.contains("it has 1 activations, expected 3 for each of 1 directions"),
        "{error}"
    );
    let error = message("y = LSTM<activations=[\"Tanh\",\"Cos\",\"Tanh\"]>(x, w, r)");
    assert!(
        error.contains("its activation \"Cos\" is not one of ONNX's"),
        "{error}"
    );
    let error = message("_ = LSTM(x, w, r)");
    assert!(error.contains("it has no outputs"), "{error}");
}
