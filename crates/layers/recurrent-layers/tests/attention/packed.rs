//! Operators of sequences packed beside each other, against their definition in doubles, token by token.

use crate::given::Given;
use crate::tensor::{Tensor, close, run};
use proptest::prelude::*;
use recurrent_layers::{Attention, Rayon, Serial};

/// How the tokens of sequences are written down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Offsets of tokens on one axis.
    Offsets,
    /// As many of each, on one axis or on two.
    Even { axes: usize },
}

fn forms() -> impl Strategy<Value = (Form, Vec<usize>)> {
    let even = (1..3_usize, 1..4_usize, 0..5_usize);
    prop_oneof![
        prop::collection::vec(0..5_usize, 1..4).prop_map(|lengths| (Form::Offsets, lengths)),
        even.prop_map(|(axes, batch, steps)| (Form::Even { axes }, vec![steps; batch])),
    ]
}

/// The offsets of sequences of these lengths.
fn offsets(lengths: &[usize]) -> Vec<i32> {
    let sums = lengths.iter().scan(0, |sum, length| {
        *sum += *length as i32;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_gated_delta_net_is_its_definition(
        (form, lengths) in forms(),
        rule in prop::sample::select(&["linear", "gated", "delta", "gated_delta"][..]),
        gate in prop::sample::select(&["none", "softplus", "qwen", "sigmoid", "kda"][..]),
        (heads, group, key, value) in (1..3_usize, 1..3_usize, 1..20_usize, 1..80_usize),
        (is_qkv, has_past, by_key, bias_by_key) in any::<(bool, bool, bool, bool)>(),
        (unit, of_beta, capacity, active) in (
            any::<bool>(), any::<bool>(), 0..4_usize, prop::option::of(0..2_i32),
        ),
    ) {
        let (batch, tokens) = (lengths.len(), lengths.iter().sum::<usize>());
        let states = heads * group;
        // The number of sequences has to come from somewhere.
        let has_past = has_past || is_qkv || form == Form::Even { axes: 1 };
        let axes = match form {
            Form::Even { axes: 2 } => vec![batch, lengths[0]],
            _ => vec![tokens],
        };
        let tensor = |seed, of_token: &[usize]| {
            Tensor::new(seed, &[&axes[..], of_token].concat())
        };
        let (decays, corrects) = (rule.starts_with("gated"), rule.ends_with("delta"));
        let width = if by_key && decays { key } else { 1 };
        let size = (key as f32).sqrt();
        let queries = tensor(0, &[heads, key]);
        let keys = tensor(1, &[heads, key]).map(|it| it / size);
        let values = tensor(2, &[states, value]);
        let packed = {
            let mut packed = tensor(0, &[2 * heads * key + states * value]);
            let widths = [heads * key, heads * key, states * value];
            packed.elements = (0..tokens)
                .flat_map(|token| {
                    let parts = [&queries, &keys, &values].into_iter().zip(widths);
                    parts.flat_map(move |(it, width)| &it.elements[token * width..][..width])
                })
                .copied()
                .collect();
            packed
        };
        let of_state = if by_key && decays { vec![states, key] } else { vec![states] };
        let decay = decays.then(|| tensor(3, &of_state).map(|it| -it.abs()));
        let beta = corrects.then(|| tensor(4, &[states]).map(f32::abs));
        let past = has_past.then(|| Tensor::new(5, &[batch, states, value, key]));
        let of_gate = |seed, sizes: &[usize]| (gate != "none").then(|| Tensor::new(seed, sizes));
        let a_log = of_gate(6, &[states]);
        let of_bias = if bias_by_key { states * width } else { states };
        let bias = of_gate(7, &[of_bias]);
        let given_offsets = Tensor::of_integers(&offsets(&lengths));
        let counts: Vec<i32> = (0..batch).map(|it| [2, 0, 9, -1][it % 4]).collect();
        let (counted, switch) = (Tensor::of_integers(&counts), active.map(|it| Tensor::of_integers(&[it])));

        let mut given = Given::default();
        given.integers([
            ("qk_l2_norm", i64::from(unit)),
            ("state_update_capacity", capacity as i64),
        ]);
        given.text("update_rule", rule);
        given.text("gate_activation", gate);
        given.text("beta_activation", if of_beta { "sigmoid" } else { "none" });
        let attention = Attention::of("GatedDeltaNet", &given).unwrap();
        let inputs = [
            Some(if is_qkv { &packed } else { &queries }),
            (!is_qkv).then_some(&keys),
            (!is_qkv).then_some(&values),
            (form == Form::Offsets).then_some(&given_offsets),
            decay.as_ref(),
            beta.as_ref(),
            past.as_ref(),
            a_log.as_ref(),
            bias.as_ref(),
            (capacity > 0).then_some(&counted),
            switch.as_ref(),
        ];
        let found = run(&attention, &inputs, &Serial).unwrap();

        let at = |it: &Tensor, index: usize| f64::from(it.elements[index]);
        let vector = |it: &Tensor, first: usize| -> Vec<f64> {
            let vector: Vec<f64> = (0..key).map(|index| at(it, first + index)).collect();
            let square: f64 = vector.iter().map(|it| it * it).sum();
            let length = if unit { (square + 1e-12).sqrt() } else { 1.0 };
            vector.into_iter().map(|it| it / length).collect()
        };
        let of_step = states * width + heads * key + states * value;
        let mut output = vec![0.0; tokens * states * value];
        let mut last = vec![0.0; batch * states * value * key];
        let mut captured = vec![0.0; batch * capacity * of_step];
        let mut first = 0;
        for (sequence, length) in lengths.iter().enumerate() {
            let count = (counts[sequence].max(0) as usize).min(capacity).min(*length);
            let count = if active == Some(0) { 0 } else { count };
            let row = &mut captured[sequence * capacity * of_step..][..capacity * of_step];
            let of_keys = capacity * states * width;
            let of_values = of_keys + capacity * heads * key;
            for state in 0..states {
                let size = value * key;
                let start = (sequence * states + state) * size;
                // [value, key]
                let mut s: Vec<f64> =
                    (0..size).map(|it| past.as_ref().map_or(0.0, |past| at(past, start + it))).collect();
                for step in 0..*length {
                    let token = first + step;
                    let head = token * heads + state / group;
                    let (q, k) = (vector(&queries, head * key), vector(&keys, head * key));
                    let factors: Vec<f64> = (0..width).map(|it| {
                        let Some(decay) = &decay else { return 1.0 };
                        let given = at(decay, (token * states + state) * width + it);
                        let (Some(a), Some(bias)) = (&a_log, &bias) else { return given.exp() };
                        let a = at(a, state).exp();
                        let of_bias = of_bias / states;
                        let given = given + at(bias, state * of_bias + it % of_bias);
                        match gate {
                            "softplus" | "qwen" => -a * softplus(given),
                            _ => -5.0 * sigmoid(a * given),
                        }.exp()
                    }).collect();
                    for (it, s) in s.iter_mut().enumerate() {
                        *s *= factors[it % key % width];
                    }
                    for v in 0..value {
                        let s = &mut s[v * key..][..key];
                        let mut added = at(&values, (token * states + state) * value + v);
                        if let Some(beta) = &beta {
                            let beta = at(beta, token * states + state);
                            let beta = if of_beta { sigmoid(beta) } else { beta };
                            let recalled: f64 = s.iter().zip(&k).map(|(s, k)| s * k).sum();
                            added = beta * (added - recalled);
                        }
                        s.iter_mut().zip(&k).for_each(|(s, k)| *s += k * added);
                        let asked: f64 = s.iter().zip(&q).map(|(s, q)| s * q).sum();
                        output[(token * states + state) * value + v] = asked / (key as f64).sqrt();
                        if step < count {
                            row[of_values + (step * states + state) * value + v] = added;
                        }
                    }
                    if step < count {
                        row[(step * states + state) * width..][..width].copy_from_slice(&factors);
                        row[of_keys + (step * heads + state / group) * key..][..key]
                            .copy_from_slice(&k);
                    }
                }
                last[start..][..size].copy_from_slice(&s);
            }
            first += length;
        }
        close(&found[0], &output, &[&axes[..], &[states, value]].concat());
        close(&found[1], &last, &[batch, states, value, key]);
        close(&found[2], &captured, &[batch, capacity * of_step]);
    }

    #[test]
    fn a_packed_convolution_is_its_definition(
        lengths in prop::collection::vec(0..30_usize, 1..4),
        (channels, taps, dilation, capacity) in (1..40_usize, 1..5_usize, 1..4_usize, 0..4_usize),
        (silu, has_bias) in any::<(bool, bool)>(),
    ) {
        let (batch, tokens) = (lengths.len(), lengths.iter().sum::<usize>());
        let state = (taps - 1) * dilation;
        let input = Tensor::new(0, &[tokens, channels]);
        let weight = Tensor::new(1, &[channels, 1, taps]);
        let bias = has_bias.then(|| Tensor::new(2, &[channels]));
        let past = Tensor::new(3, &[batch, channels, state]);
        let counts: Vec<i32> = (0..batch).map(|it| [2, 9, -1][it % 3]).collect();
        let counted = Tensor::of_integers(&counts);
        let given_offsets = Tensor::of_integers(&offsets(&lengths));
        let mut given = Given::default();
        given.integers([
            ("dilation", dilation as i64),
            ("state_update_capacity", capacity as i64),
        ]);
        given.text("activation", if silu { "swish" } else { "none" });
        let attention = Attention::of("VarlenCausalConvWithState", &given).unwrap();
        let inputs = [
            Some(&input),
            Some(&weight),
            Some(&given_offsets),
            bias.as_ref(),
            Some(&past),
            (capacity > 0).then_some(&counted),
        ];
        let found = run(&attention, &inputs, &Serial).unwrap();

        let mut output = vec![0.0; tokens * channels];
        let mut last = vec![0.0; batch * channels * state];
        let mut captured = vec![0.0; batch * capacity * channels];
        let mut first = 0;
        for (sequence, length) in lengths.iter().enumerate() {
            for c in 0..channels {
                let padded = |t: usize| f64::from(match t.checked_sub(state) {
                    Some(t) => input.elements[(first + t) * channels + c],
                    None => past.elements[(sequence * channels + c) * state + t],
                });
                for t in 0..*length {
                    let weights = weight.elements[c * taps..][..taps].iter().enumerate();
                    let sum: f64 =
                        weights.map(|(j, w)| f64::from(*w) * padded(t + j * dilation)).sum();
                    let sum = sum + bias.as_ref().map_or(0.0, |it| f64::from(it.elements[c]));
                    let factor = if silu { sigmoid(sum) } else { 1.0 };
                    output[(first + t) * channels + c] = sum * factor;
                }
                for t in 0..state {
                    last[(sequence * channels + c) * state + t] = padded(length + t);
                }
                let count = (counts[sequence].max(0) as usize).min(*length).min(capacity);
                for t in 0..count {
                    captured[(sequence * capacity + t) * channels + c] = padded(state + t);
                }
            }
            first += length;
        }
        close(&found[0], &output, &[tokens, channels]);
        close(&found[1], &last, &[batch, channels, state]);
        close(&found[2], &captured, &[batch, capacity, channels]);
    }
}

#[test]
fn threads_make_no_difference() {
    let mut given = Given::default();
    given.integers([("qk_l2_norm", 1)]);
    let net = Attention::of("GatedDeltaNet", &given).unwrap();
    let [query, key] = [0, 1].map(|seed| Tensor::new(seed, &[70, 4, 64]));
    let value = Tensor::new(2, &[70, 8, 48]);
    let rates = [3, 4].map(|seed| Tensor::new(seed, &[70, 8]).map(|it| -it.abs()));
    let convolution = Attention::of("VarlenCausalConvWithState", &Given::default()).unwrap();
    let (input, weight) = (Tensor::new(0, &[70, 900]), Tensor::new(1, &[900, 1, 4]));
    let past = Tensor::new(2, &[3, 900, 3]);
    let offsets = Tensor::of_integers(&[0, 1, 1, 70]);
    let bits = |serial: bool| {
        let of_net = [&query, &key, &value, &offsets, &rates[0], &rates[1]].map(Some);
        let of_convolution = [
            Some(&input),
            Some(&weight),
            Some(&offsets),
            None,
            Some(&past),
        ];
        let runs = || match serial {
            true => [
                run(&net, &of_net, &Serial),
                run(&convolution, &of_convolution, &Serial),
            ],
            false => [
                run(&net, &of_net, &Rayon),
                run(&convolution, &of_convolution, &Rayon),
            ],
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        let outputs = pool
            .unwrap()
            .install(runs)
            .into_iter()
            .flat_map(Result::unwrap);
        outputs
            .flat_map(|it| it.elements)
            .map(f32::to_bits)
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(true), bits(false));
}

#[test]
fn errors_name_the_input_and_what_it_should_have() {
    let mut given = Given::default();
    let error = |given: &Given, changed: &[(usize, Option<&Tensor>)]| {
        let query = Tensor::new(0, &[5, 2, 4]);
        let value = Tensor::new(2, &[5, 4, 3]);
        let rates = Tensor::new(3, &[5, 4]);
        let past = Tensor::new(4, &[2, 4, 3, 4]);
        let offsets = Tensor::of_integers(&[0, 2, 5]);
        let inputs = [&query, &query, &value, &offsets, &rates, &rates, &past].map(Some);
        let mut inputs = inputs.to_vec();
        inputs.resize(11, None);
        for (at, input) in changed {
            inputs[*at] = *input;
        }
        let net = Attention::of("GatedDeltaNet", given).unwrap();
        run(&net, &inputs, &Serial).unwrap_err().to_string()
    };
    let of = Tensor::of_integers;
    let one = Tensor::new(0, &[1]);
    for (at, input, expected) in [
        (0, None, "it lacks query"),
        (1, None, "it lacks key"),
        (2, None, "it lacks value"),
        (4, None, "it lacks decay"),
        (1, Some(&one), "key has shape [1], expected [5, 2, 4]"),
        (
            2,
            Some(&Tensor::new(0, &[5, 3, 3])),
            "value has shape [5, 3, 3], expected heads that are a multiple of the query's 2",
        ),
        (
            3,
            Some(&of(&[0])),
            "cu_seqlens has shape [1], expected [sequences + 1]",
        ),
        (
            3,
            Some(&of(&[1, 2, 5])),
            "cu_seqlens is 1 at index 0, expected 0 to 0",
        ),
        (
            3,
            Some(&of(&[0, 6, 5])),
            "cu_seqlens is 6 at index 1, expected 0 to 5",
        ),
        (
            3,
            Some(&of(&[0, -1, 5])),
            "cu_seqlens is -1 at index 1, expected 0 to 5",
        ),
        (
            3,
            Some(&of(&[0, 2, 4])),
            "cu_seqlens is 4 at index 2, expected 5 to 5",
        ),
        (
            3,
            Some(&Tensor::new(0, &[3])),
            "cu_seqlens has elements of another type, expected integers",
        ),
        (
            4,
            Some(&one),
            "decay has shape [1], expected [5, 4] or [5, 4, 4]",
        ),
        (5, Some(&one), "beta has shape [1], expected [5, 4]"),
        (
            6,
            Some(&one),
            "initial_state has shape [1], expected [2, 4, 3, 4]",
        ),
        (
            7,
            Some(&one),
            "a_log is given, which its gate_activation does not have",
        ),
        (
            9,
            Some(&of(&[1, 1])),
            "capture_count is given, which its state_update_capacity does not have",
        ),
        (
            10,
            Some(&of(&[1, 1])),
            "state_update_active has shape [2], expected [1]",
        ),
    ] {
        assert_eq!(error(&given, &[(at, input)]), expected);
    }
    let query = Tensor::new(0, &[5, 21]);
    assert_eq!(
        error(&given, &[(0, Some(&query)), (1, None), (2, None)]),
        "query has shape [5, 21], expected 12 and 2 * heads * 4 at last"
    );
    let without = [(3, None), (6, None)];
    assert_eq!(error(&given, &without), "it lacks initial_state");
    let past = Tensor::new(4, &[2, 4, 3, 4]);
    assert_eq!(
        error(&given, &[(3, None), (6, Some(&past))]),
        "query has shape [5, 2, 4], expected tokens that 2 sequences share"
    );
    given.integers([("state_update_capacity", 2)]);
    assert_eq!(error(&given, &[]), "it lacks capture_count");
    given.integers([("state_update_capacity", 0)]);
    given.text("gate_activation", "sigmoid");
    assert_eq!(error(&given, &[]), "it lacks a_log");
    let of = |name: &'static str, value: &'static str| {
        let mut given = Given::default();
        given.text(name, value);
        Attention::of("GatedDeltaNet", &given)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        of("gate_activation", "tanh"),
        "its gate_activation is \"tanh\", expected none, softplus or sigmoid"
    );
    assert_eq!(
        of("beta_activation", "tanh"),
        "its beta_activation is \"tanh\", expected none or sigmoid"
    );
    given.integers([("state_update_capacity", 9)]);
    assert_eq!(
        Attention::of("VarlenCausalConvWithState", &given)
            .unwrap_err()
            .to_string(),
        "its state_update_capacity is 9, expected 0 to 8"
    );
}

#[test]
fn a_packed_convolution_refuses_other_sizes() {
    let convolution = Attention::of("VarlenCausalConvWithState", &Given::default()).unwrap();
    let input = Tensor::new(0, &[5, 6]);
    let weight = Tensor::new(1, &[6, 1, 4]);
    let past = Tensor::new(2, &[2, 6, 3]);
    let offsets = Tensor::of_integers(&[0, 2, 5]);
    let one = Tensor::new(0, &[1]);
    for (at, input_of, expected) in [
        (
            0,
            Some(&past),
            "input has shape [2, 6, 3], expected [tokens, channels]",
        ),
        (
            1,
            Some(&one),
            "weight has shape [1], expected [channels, 1, taps]",
        ),
        (2, None, "it lacks cumulative_sequence_length"),
        (4, None, "it lacks initial_state"),
        (
            4,
            Some(&one),
            "initial_state has shape [1], expected [2, 6, 3]",
        ),
        (3, Some(&one), "bias has shape [1], expected [6]"),
        (
            2,
            Some(&Tensor::of_integers(&[0, 3, 2])),
            "cumulative_sequence_length is 2 at index 2, expected 5 to 5",
        ),
    ] {
        let mut inputs = [
            Some(&input),
            Some(&weight),
            Some(&offsets),
            None,
            Some(&past),
        ];
        inputs[at] = input_of;
        let found = run(&convolution, &inputs, &Serial).unwrap_err();
        assert_eq!(found.to_string(), expected);
    }
    let mut given = Given::default();
    given.integers([("group_size", 2)]);
    let found = Attention::of("VarlenCausalConvWithState", &given).unwrap_err();
    assert_eq!(found.to_string(), "its group_size is 2, expected 1");
}
