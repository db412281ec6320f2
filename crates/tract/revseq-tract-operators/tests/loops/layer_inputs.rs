//! The inputs of LSTM, GRU and RNN that are checked: errors in ONNX's words, before a layer runs.

use revseq_test_models::text;
use revseq_tract_operators::{LengthsPolicy, Limits, LoadOptions};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use crate::build::{Graph, Optimize, fails, graph, parse, parse_with, refused};

#[test]
fn errors_name_the_cause() {
    let check = |rows: &str| {
        for (node, expected) in text::rows(rows) {
            let w = Tensor::zero::<f32>(&[1, 8, 2]).unwrap();
            let model = graph("x:f32[3,1,2]", "y", &node);
            fails(
                parse(model.constant("w", w.clone()).constant("r", w)),
                expected,
            );
        }
    };
    check(
        "y = LSTM<direction=\"back\">(x, w, r)
         => its direction is \"back\", expected forward, reverse or bidirectional
         y = LSTM<activations=[\"Tanh\"]>(x, w, r) => it has 1 activations, expected 3
         y = LSTM<activations=[\"Tanh\",\"Cos\",\"Tanh\"]>(x, w, r)
         => its activation is \"Cos\", expected Affine, Elu,
         y = LSTM<layout=2>(x, w, r) => its layout is 2, expected 0 or 1
         _ = LSTM(x, w, r) => it has no output
         y = LSTM<hidden_size=0>(x, w, r) => its hidden_size is 0, expected 1 at least
         y = LSTM<hidden_size=-3>(x, w, r) => its hidden_size is -3, expected 1 at least",
    );
    // An RNN has these bounds in ONNX Runtime.
    for operator in ["LSTM", "GRU"] {
        check(&format!(
            "y = {operator}<clip=0.0>(x, w, r) => its clip is 0, expected more than 0
             y = {operator}<clip=-1.0>(x, w, r) => its clip is -1, expected more than 0
             y = {operator}<clip=-0.5>(x, w, r) => its clip is -0.5, expected more than 0"
        ));
    }
}

/// ONNX's default, which ONNX Runtime writes into a node, is that of two directions.
#[test]
fn an_rnn_of_one_direction_takes_the_first_of_two_activations() {
    let weights = |sizes: &[usize]| {
        let count: usize = sizes.iter().product();
        let numbers: Vec<f32> = (0..count).map(|it| it as f32 / 8.0 - 0.5).collect();
        Tensor::from_shape(sizes, &numbers).unwrap()
    };
    let run = |attributes: &str, directions: usize| {
        let model = graph(
            "x:f32[T,N,2]",
            "y",
            &format!("y = RNN<{attributes}>(x, w, r)"),
        )
        .constant("w", weights(&[directions, 3, 2]))
        .constant("r", weights(&[directions, 3, 3]));
        run(model, None, &[weights(&[4, 2, 2]).into_tvalue()])
    };
    for direction in ["forward", "reverse"] {
        let direction = format!("direction={direction}");
        let expected = run(&format!("{direction};activations=[Relu]"), 1).unwrap();
        for other in ["Relu", "Tanh"] {
            let two = format!("{direction};activations=[Relu,{other}]");
            assert_eq!(run(&two, 1).unwrap(), expected, "{two}");
        }
        let error = message(run(&format!("{direction};activations=[Relu,Tanh,Tanh]"), 1));
        assert!(
            error.contains("it has 3 activations, expected 1"),
            "{error}"
        );
    }
    let of_two = |list: &str| run(&format!("direction=bidirectional;activations=[{list}]"), 2);
    assert_ne!(of_two("Relu,Tanh").unwrap(), of_two("Relu,Relu").unwrap());
    assert!(message(of_two("Relu")).contains("it has 1 activations, expected 2"));
    // A bound below 0 is none, as in ONNX Runtime.
    let expected = run("activations=[Relu]", 1).unwrap();
    assert_eq!(run("activations=[Relu];clip=-1.0", 1).unwrap(), expected);
    assert_ne!(run("activations=[Relu];clip=0.125", 1).unwrap(), expected);
    // So are the constants that are not there.
    let function = "activations=[ThresholdedRelu]";
    let [without, of_0, of_1] = ["", ";activation_alpha=[0.0]", ";activation_alpha=[1.0]"]
        .map(|alpha| run(&format!("{function}{alpha}"), 1).unwrap());
    assert!(without == of_0 && without != of_1);
}

/// The way in which an input is given.
#[derive(Clone)]
enum Given {
    Not,
    /// An input of the model, with its type.
    Input(String),
    Constant(Tensor),
}

impl Given {
    fn input(declared: &str) -> Self {
        Self::Input(declared.to_owned())
    }
}

/// A layer of a kind, small or large.
struct Layer {
    operator: &'static str,
    units: usize,
    direction: &'static str,
    is_batch_first: bool,
}

impl Layer {
    fn all() -> impl Iterator<Item = Self> {
        let operators = [("LSTM", 2), ("LSTM", 32), ("GRU", 3), ("RNN", 64)];
        operators.into_iter().flat_map(|(operator, units)| {
            let directions = ["forward", "reverse", "bidirectional"].into_iter();
            directions.flat_map(move |direction| {
                [false, true].map(|is_batch_first| Self {
                    operator,
                    units,
                    direction,
                    is_batch_first,
                })
            })
        })
    }

    fn directions(&self) -> usize {
        1 + usize::from(self.direction == "bidirectional")
    }

    /// Two sizes in the order of the layout.
    fn sizes<T>(&self, other: T, batch: T) -> [T; 2] {
        match self.is_batch_first {
            true => [batch, other],
            false => [other, batch],
        }
    }

    /// A model of the layer, whose input `x` has these sizes of time and batch.
    fn model(&self, sizes: [&str; 2], lengths: &Given, state: &Given, outputs: &str) -> Graph {
        let gates = match self.operator {
            "LSTM" => 4,
            "GRU" => 3,
            _ => 1,
        };
        let weights = |last: usize| {
            let shape = [self.directions(), gates * self.units, last];
            let count: usize = shape.iter().product();
            let numbers: Vec<f32> = (0..count).map(|it| (it % 7) as f32 / 16.0 - 0.2).collect();
            Tensor::from_shape(&shape, &numbers).unwrap()
        };
        let [a, b] = self.sizes(sizes[0], sizes[1]);
        let mut inputs = format!("x:f32[{a},{b},2]");
        let mut constants = vec![("w", weights(2)), ("r", weights(self.units))];
        let mut names = vec![];
        for (name, given) in [("lengths", lengths), ("h", state)] {
            names.push(match given {
                Given::Not => "_",
                _ => name,
            });
            match given {
                Given::Not => {}
                Given::Input(declared) => inputs += &format!(" {name}:{declared}"),
                Given::Constant(constant) => constants.push((name, constant.clone())),
            }
        }
        let node = format!(
            "y, y_h = {}<direction=\"{}\";layout={};hidden_size={}>(x, w, r, _, {})",
            self.operator,
            self.direction,
            u8::from(self.is_batch_first),
            self.units,
            names.join(", ")
        );
        let constants = constants.into_iter();
        constants.fold(graph(&inputs, outputs, &node), |graph, (name, constant)| {
            graph.constant(name, constant)
        })
    }

    fn x(&self, time: usize, batch: usize) -> TValue {
        let [a, b] = self.sizes(time, batch);
        let numbers: Vec<f32> = (0..a * b * 2).map(|it| (it % 5) as f32 / 4.0).collect();
        Tensor::from_shape(&[a, b, 2], &numbers)
            .unwrap()
            .into_tvalue()
    }

    fn state(&self, batch: usize) -> Tensor {
        let [a, b] = self.sizes(self.directions(), batch);
        let count = a * b * self.units;
        let numbers: Vec<f32> = (0..count).map(|it| (it % 3) as f32 / 4.0).collect();
        Tensor::from_shape(&[a, b, self.units], &numbers).unwrap()
    }
}

/// Runs a model as it is read, and optimised.
fn run(
    model: Graph,
    policy: Option<LengthsPolicy>,
    inputs: &[TValue],
) -> TractResult<TVec<TValue>> {
    let options = LoadOptions::new();
    let options = policy.map_or(options, |policy| options.with_lengths(policy));
    let typed = parse_with(options, model)?.into_typed()?;
    let plain = typed.clone().into_runnable()?.run(inputs.into());
    let optimized = typed.optimized()?.into_runnable()?.run(inputs.into());
    if let (Ok(plain), Ok(optimized)) = (&plain, &optimized) {
        for (plain, optimized) in std::iter::zip(plain, optimized) {
            plain.close_enough(optimized, Approximation::Approximate)?;
        }
    }
    plain.and(optimized)
}

fn message(result: TractResult<TVec<TValue>>) -> String {
    format!("{:#}", result.unwrap_err())
}

#[test]
fn lengths_out_of_range_are_an_error_or_clamped() {
    let lengths = |lengths: &[i32]| tensor1(lengths);
    for layer in Layer::all() {
        let by_layout = match layer.is_batch_first {
            false => [([3, -1], 1, [3, 0]), ([4, 1], 0, [3, 1])],
            true => [([2, i32::MAX], 1, [2, 3]), ([i32::MIN, 9], 0, [0, 3])],
        };
        for (wrong, index, clamped) in by_layout {
            let expected = format!(
                "sequence length {} at index {index} is out of range: expected 0 to 3",
                wrong[index]
            );
            for sizes in [["3", "2"], ["T", "N"]] {
                let declared = Given::Input(format!("i32[{}]", sizes[1]));
                let by_data = || layer.model(sizes, &declared, &Given::Not, "y y_h");
                let constant = || {
                    let constant = Given::Constant(lengths(&wrong));
                    layer.model(sizes, &constant, &Given::Not, "y y_h")
                };
                let x = layer.x(3, 2);
                let with = |given: [i32; 2]| [x.clone(), lengths(&given).into_tvalue()];
                let error = message(run(by_data(), None, &with(wrong)));
                assert!(error.contains(&expected), "{error}");
                // What is known is checked at load time.
                let policy = Some(LengthsPolicy::Reject);
                let error = message(run(constant(), policy, std::slice::from_ref(&x)));
                let known = expected.trim_end_matches('3');
                assert!(error.contains(known), "{error}");
                let loaded = parse(constant()).unwrap().into_typed();
                assert_eq!(loaded.is_err(), sizes[0] == "3" || wrong[index] < 0);
                let expected = run(by_data(), None, &with(clamped)).unwrap();
                let policy = Some(LengthsPolicy::Clamp);
                assert_eq!(run(by_data(), policy, &with(wrong)).unwrap(), expected);
                assert_eq!(run(constant(), policy, &[x]).unwrap(), expected);
            }
        }
    }
}

#[test]
fn lengths_of_empty_inputs_are_checked() {
    for layer in Layer::all() {
        for (sizes, time, batch) in [
            (["0", "2"], 0, 2),
            (["T", "N"], 0, 2),
            (["3", "0"], 3, 0),
            (["T", "N"], 3, 0),
        ] {
            let declared = Given::Input(format!("i32[{}]", sizes[1]));
            for outputs in ["y", "y_h", "y y_h"] {
                let run = |lengths: &[i32]| {
                    let model = layer.model(sizes, &declared, &Given::Not, outputs);
                    run(
                        model,
                        None,
                        &[layer.x(time, batch), tensor1(lengths).into_tvalue()],
                    )
                };
                run(&[0, 0][..batch]).unwrap();
                // Without steps, Y is a constant without elements.
                if batch > 0 && outputs != "y" {
                    let error = message(run(&[0, 1]));
                    let expected = "sequence length 1 at index 1 is out of range: expected 0 to 0";
                    assert!(error.contains(expected), "{error}");
                }
            }
        }
    }
}

#[test]
fn limits_keep_the_policy_for_lengths() {
    let layer = Layer::all().next().unwrap();
    let model = || {
        let wrong = Given::Constant(tensor1(&[9i32]));
        layer.model(["3", "1"], &wrong, &Given::Not, "y")
    };
    let limited = LoadOptions::new().with_limits(Limits::none().with_steps(5));
    let load = |options| parse_with(options, model()).unwrap().into_typed();
    load(limited.with_lengths(LengthsPolicy::Clamp)).unwrap();
    load(limited).unwrap_err();
}

#[test]
fn wrong_sizes_of_initial_states_are_told_in_words() {
    for layer in Layer::all() {
        let list = |batch: usize| {
            let [a, b] = layer.sizes(layer.directions(), batch);
            format!("[{a},{b},{}]", layer.units)
        };
        let expected = format!("initial_h has shape {}, expected {}", list(1), list(4));
        let x = layer.x(5, 4);
        // The sizes that are known at load time are checked then, and others when it runs.
        let constant = Given::Constant(layer.state(1));
        for (sizes, state) in [
            (["5", "4"], Given::Input(format!("f32{}", list(1)))),
            (["T", "4"], constant.clone()),
            (["T", "N"], constant),
            (
                ["T", "N"],
                Given::input(
                    &format!("f32{}", list(1))
                        .replace(",1,", ",M,")
                        .replace("[1,", "[M,"),
                ),
            ),
        ] {
            let model = layer.model(sizes, &Given::Not, &state, "y y_h");
            let loaded = parse(model.clone()).unwrap().into_typed();
            assert_eq!(loaded.is_err(), sizes[1] == "4");
            let inputs = match state {
                Given::Constant(_) => vec![x.clone()],
                _ => vec![x.clone(), layer.state(1).into_tvalue()],
            };
            let error = message(run(model, None, &inputs));
            assert!(error.contains(&expected), "{error}, expected {expected}");
        }
    }
}

#[test]
fn a_size_may_have_two_symbols() {
    for layer in Layer::all() {
        let [a, b] = layer.sizes(layer.directions().to_string(), "M".to_owned());
        let state = Given::Input(format!("f32[{a},{b},{}]", layer.units));
        let lengths = Given::input("i32[L]");
        let inputs = |batch: usize| {
            let lengths: Vec<i32> = (0..batch as i32).map(|it| it % 4).collect();
            let lengths = tensor1(&lengths).into_tvalue();
            [layer.x(3, batch), lengths, layer.state(batch).into_tvalue()]
        };
        let typed = parse(layer.model(["T", "N"], &lengths, &state, "y y_h"));
        let typed = typed.unwrap().into_typed().unwrap().optimized().unwrap();
        let plan = typed.into_runnable().unwrap();
        for batch in [2, 5, 0, 2] {
            let known = Given::Input(format!("i32[{batch}]"));
            let model = layer.model(["3", &batch.to_string()], &known, &state, "y y_h");
            let expected = run(model, None, &inputs(batch)).unwrap();
            let found = plan.run(inputs(batch).as_slice().into()).unwrap();
            assert_eq!(found, expected, "{} of {batch}", layer.operator);
        }
        let [_, lengths, _] = inputs(2);
        let wrong = tvec![layer.x(3, 5), lengths, layer.state(5).into_tvalue()];
        let error = message(plan.run(wrong));
        let expected = "sequence_lens has shape [2], expected [5]";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn wrong_sizes_of_other_inputs_are_told_in_words() {
    let zeros = |shape: &[usize]| Tensor::zero::<f32>(shape).unwrap();
    refused(
        "x:f32[3,1,5] -> y
         y = LSTM(x, w, r) => W has shape [1,8,2], expected [1,8,5]
         x:f32[3,1,2] -> y
         y = GRU(x, w, r) => W has shape [1,8,2], expected [1,6,2]
         x:f32[3,1,2] -> y
         y = LSTM<direction=\"bidirectional\">(x, w, r) => W has shape [1,8,2], expected [2,8,2]
         x:f32[3,1,2] -> y
         y = LSTM(x, w, r, b) => B has shape [1,8], expected [1,16]
         x:f32[T,N,2] -> y
         y = LSTM(x, w, r, _, _, _, _, p) => P has shape [2,6], expected [1,6]
         x:f32[3,1,2] -> y
         y = LSTM<hidden_size=3>(x, w, r) => its W has shape [1,8,2], expected [1,12,2]
         x:f32[3,1,2] h:f32[1,1,5] -> y
         y = LSTM<hidden_size=2>(x, w, r, _, _, h)
         => its initial_h has shape [1,1,5], expected [1,1,2]
         x:f32[3,4,2] l:i32[3] -> y
         y = LSTM(x, w, r, _, l) => sequence_lens has shape [3], expected [4]
         x:f32[3,4,2] l:f32[4] -> y
         y = LSTM(x, w, r, _, l) => sequence_lens is F32, expected I32",
        |model| {
            let model = model
                .constant("w", zeros(&[1, 8, 2]))
                .constant("r", zeros(&[1, 8, 2]));
            model
                .constant("b", zeros(&[1, 8]))
                .constant("p", zeros(&[2, 6]))
        },
    );
}

#[test]
fn wrong_numbers_of_axes_are_told_in_words() {
    let zeros = |shape: &[usize]| Tensor::zero::<f32>(shape).unwrap();
    refused(
        "x:f32[1,1,1,4,2] -> y
         y = LSTM(x, w, w) => its X has 5 axes, expected 3
         x:f32[4,2] -> y
         y = GRU(x, w, w) => its X has 2 axes, expected 3
         x:f32[T,N,2] -> y
         y = LSTM(x, flat, w) => its W has 2 axes, expected 3
         x:f32[T,N,2] h:f32[N,2] -> y
         y = LSTM(x, w, w, _, _, h) => its initial_h has 2 axes, expected 3
         x:f32[T,N,2] l:i32[N,1] -> y
         y = LSTM(x, w, w, _, l) => its sequence_lens has 2 axes, expected 1",
        |model| {
            model
                .constant("w", zeros(&[1, 8, 2]))
                .constant("flat", zeros(&[8, 2]))
        },
    );
}
