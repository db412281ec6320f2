//! Operators of linear attention, against their definition in doubles, step by step.

use crate::given::Given;
use crate::tensor::{Tensor, close, run};
use proptest::prelude::*;
use recurrent_layers::{Attention, Error, Rayon, Serial};

/// Both outputs of a run.
fn both(outputs: Result<Vec<Tensor>, Error>) -> [Tensor; 2] {
    outputs.unwrap().try_into().unwrap()
}

/// The sizes of a LinearAttention.
#[derive(Clone, Copy, Debug)]
struct Heads {
    batch: usize,
    steps: usize,
    queries: usize,
    keys: usize,
    states: usize,
    key: usize,
    value: usize,
}

/// The definition, in ONNX's words.
fn linear(rule: &str, heads: Heads, inputs: &[Option<&Tensor>], window: usize) -> [Vec<f64>; 2] {
    let Heads {
        batch,
        steps,
        queries,
        keys,
        states,
        key,
        value,
    } = heads;
    let get = |input: usize, at: usize| f64::from(inputs[input].unwrap().elements[at]);
    let of_output = queries.max(states);
    let group = of_output / states;
    let mut output = vec![0.0; batch * steps * of_output * value];
    let slots = window.max(1);
    let mut present = vec![0.0; slots * batch * states * key * value];
    for (b, s) in (0..batch).flat_map(|b| (0..states).map(move |s| (b, s))) {
        let size = key * value;
        let mut state = vec![0.0; size];
        if inputs[3].is_some() {
            let first = (((slots - 1) * batch + b) * states + s) * size;
            state = (0..size).map(|at| get(3, first + at)).collect();
        }
        let mut keep = |slot: usize, state: &[f64]| {
            let first = ((slot * batch + b) * states + s) * size;
            present[first..first + size].copy_from_slice(state);
        };
        if steps == 0 {
            keep(slots - 1, &state);
        }
        for t in 0..steps {
            let token = b * steps + t;
            let k = |i: usize| get(1, (token * keys + s * keys / states) * key + i);
            if rule.starts_with("gated") {
                let decays = inputs[4].unwrap().sizes[2] / states;
                for (at, state) in state.iter_mut().enumerate() {
                    let i = if decays == 1 { 0 } else { at / value };
                    *state *= get(4, (token * states + s) * decays + i).exp();
                }
            }
            let mut v: Vec<f64> = (0..value)
                .map(|j| get(2, (token * states + s) * value + j))
                .collect();
            if rule.ends_with("delta") {
                let betas = inputs[5].unwrap().sizes[2];
                let beta = get(
                    5,
                    if betas == 1 {
                        token
                    } else {
                        token * states + s
                    },
                );
                for (j, v) in v.iter_mut().enumerate() {
                    let recalled: f64 = (0..key).map(|i| state[i * value + j] * k(i)).sum();
                    *v = beta * (*v - recalled);
                }
            }
            for (at, state) in state.iter_mut().enumerate() {
                *state += k(at / value) * v[at % value];
            }
            for head in 0..group {
                let q = (token * queries + s * queries / states + head) * key;
                for j in 0..value {
                    let asked: f64 = (0..key).map(|i| get(0, q + i) * state[i * value + j]).sum();
                    output[(token * of_output + s * group + head) * value + j] =
                        asked / (key as f64).sqrt();
                }
            }
            if t + slots >= steps {
                keep(t + slots - steps, &state);
            }
        }
    }
    [output, present]
}

fn heads() -> impl Strategy<Value = Heads> {
    let groups = prop_oneof![
        Just((1, 1, 1)),
        Just((2, 2, 2)),
        Just((4, 2, 2)),
        Just((3, 1, 1)),
        Just((1, 1, 2)),
        Just((2, 4, 4)),
        Just((2, 2, 4)),
    ];
    (0..3_usize, 0..6_usize, groups, 1..20_usize, 1..80_usize).prop_map(
        |(batch, steps, (queries, keys, states), key, value)| Heads {
            batch,
            steps,
            queries,
            keys,
            states,
            key,
            value,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn linear_attention_is_its_definition(
        rule in prop::sample::select(&["linear", "gated", "delta", "gated_delta"][..]),
        heads in heads(),
        has_past in any::<bool>(),
        (by_key, by_state) in any::<(bool, bool)>(),
        window in 0..4_usize,
    ) {
        let Heads { batch, steps, queries, keys, states, key, value } = heads;
        let tensor = |seed, of_token| Tensor::new(seed, &[batch, steps, of_token]);
        let (query, values) = (tensor(0, queries * key), tensor(2, states * value));
        let size = (key as f32).sqrt();
        let keys = tensor(1, keys * key).map(|it| it / size);
        let slots = (window > 0).then_some(window);
        let of_state = [batch, states, key, value];
        let of_state: Vec<usize> = slots.into_iter().chain(of_state).collect();
        let past = has_past.then(|| Tensor::new(3, &of_state));
        let decay = rule.starts_with("gated").then(|| {
            tensor(4, states * if by_key { key } else { 1 }).map(|it| -it.abs())
        });
        let beta = rule
            .ends_with("delta")
            .then(|| tensor(5, if by_state { states } else { 1 }).map(f32::abs));
        let mut given = Given::default();
        given.integers([
            ("q_num_heads", queries as i64),
            ("kv_num_heads", states as i64),
            ("state_window", window as i64),
        ]);
        given.text("update_rule", rule);
        let attention = Attention::of("LinearAttention", &given).unwrap();
        let inputs = [
            Some(&query),
            Some(&keys),
            Some(&values),
            past.as_ref(),
            decay.as_ref(),
            beta.as_ref(),
        ];
        let [output, present] = both(run(&attention, &inputs, &Serial));
        let [expected, state] = linear(rule, heads, &inputs, window);
        close(&output, &expected, &[batch, steps, queries.max(states) * value]);
        close(&present, &state, &of_state);
    }

    #[test]
    fn a_causal_convolution_is_its_definition(
        (batch, channels, steps) in (0..3_usize, 1..40_usize, 0..40_usize),
        (taps, dilation, window) in (1..5_usize, 1..4_usize, 0..4_usize),
        (silu, last, has_bias, has_past) in any::<(bool, bool, bool, bool)>(),
    ) {
        let state = (taps - 1) * dilation;
        let sizes = |len| if last { [batch, len, channels] } else { [batch, channels, len] };
        let slots = (window > 0).then_some(window);
        let of_state: Vec<usize> = slots.into_iter().chain(sizes(state)).collect();
        let input = Tensor::new(0, &sizes(steps));
        let weight = Tensor::new(1, &[channels, 1, taps]);
        let bias = has_bias.then(|| Tensor::new(2, &[channels]));
        let past = has_past.then(|| Tensor::new(3, &of_state));
        let mut given = Given::default();
        given.integers([
            ("channels_last", i64::from(last)),
            ("dilation", dilation as i64),
            ("state_window", window as i64),
        ]);
        given.text("activation", if silu { "silu" } else { "none" });
        let attention = Attention::of("CausalConvWithState", &given).unwrap();
        let inputs = [Some(&input), Some(&weight), bias.as_ref(), past.as_ref()];
        let [output, present] = both(run(&attention, &inputs, &Serial));

        let place = |len: usize, b: usize, c: usize, t: usize| match last {
            true => (b * len + t) * channels + c,
            false => (b * channels + c) * len + t,
        };
        let slots = window.max(1);
        // The elements before the first step are those of the last state.
        let padded = |b: usize, c: usize, t: usize| match t.checked_sub(state) {
            Some(t) => f64::from(input.elements[place(steps, b, c, t)]),
            None => past.as_ref().map_or(0.0, |past| {
                let first = (slots - 1) * batch * channels * state;
                f64::from(past.elements[first + place(state, b, c, t)])
            }),
        };
        let mut expected = vec![0.0; batch * channels * steps];
        let mut states = vec![0.0; slots * batch * channels * state];
        for (b, c) in (0..batch).flat_map(|b| (0..channels).map(move |c| (b, c))) {
            for t in 0..steps {
                let weights = &weight.elements[c * taps..][..taps];
                let terms = weights.iter().enumerate();
                let sum: f64 =
                    terms.map(|(j, w)| f64::from(*w) * padded(b, c, t + j * dilation)).sum();
                let sum = sum + bias.as_ref().map_or(0.0, |it| f64::from(it.elements[c]));
                let silu = if silu { 1.0 / (1.0 + (-sum).exp()) } else { 1.0 };
                expected[place(steps, b, c, t)] = sum * silu;
            }
            for slot in slots.saturating_sub(steps.max(1))..slots {
                for t in 0..state {
                    let after = steps + 1 + slot - slots;
                    states[slot * batch * channels * state + place(state, b, c, t)] =
                        padded(b, c, after + t);
                }
            }
        }
        close(&output, &expected, &sizes(steps));
        close(&present, &states, &of_state);
    }
}

#[test]
fn many_steps_of_states_that_decay_fast_are_their_definition() {
    for (rule, queries) in [
        ("gated", 2),
        ("gated_delta", 2),
        ("gated_delta", 4),
        ("gated", 6),
    ] {
        let (batch, steps, key, value) = (1, 60, 7, 40);
        let heads = Heads {
            batch,
            steps,
            queries,
            keys: 2,
            states: 2,
            key,
            value,
        };
        let tensor = |seed, of_token| Tensor::new(seed, &[batch, steps, of_token]);
        let (query, values) = (tensor(0, queries * key), tensor(2, 2 * value));
        let keys = tensor(1, 2 * key).map(|it| it / 2.0);
        // From nothing to all of it; some grow instead.
        let mut decay = tensor(4, 2).map(|it| if it < 0.7 { -6.0 * it.abs() } else { it });
        decay.elements[40] = -200.0;
        let beta = rule.ends_with("delta").then(|| tensor(5, 2).map(f32::abs));
        let past = Tensor::new(3, &[3, batch, 2, key, value]);
        let mut given = Given::default();
        given.integers([
            ("q_num_heads", queries as i64),
            ("kv_num_heads", 2),
            ("state_window", 3),
        ]);
        given.text("update_rule", rule);
        let attention = Attention::of("LinearAttention", &given).unwrap();
        let inputs = [&query, &keys, &values, &past, &decay].map(Some);
        let inputs = [&inputs[..], &[beta.as_ref()]].concat();
        let [output, present] = both(run(&attention, &inputs, &Serial));
        let [expected, state] = linear(rule, heads, &inputs, 3);
        close(&output, &expected, &[batch, steps, queries * value]);
        close(&present, &state, &past.sizes);
    }
}

#[test]
fn threads_make_no_difference() {
    let mut given = Given::default();
    given.integers([("q_num_heads", 8), ("kv_num_heads", 8)]);
    let attention = Attention::of("LinearAttention", &given).unwrap();
    let tensor = |seed, of_token| Tensor::new(seed, &[2, 50, of_token]);
    let decay = tensor(4, 8).map(|it| -it.abs());
    let inputs = [
        tensor(0, 512),
        tensor(1, 512).map(|it| it / 8.0),
        tensor(2, 320),
        decay,
        tensor(5, 8),
    ];
    let [query, key, value, decay, beta] = inputs.each_ref().map(Some);
    let inputs = [query, key, value, None, decay, beta];
    let one = run(&attention, &inputs, &Serial).unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let several = pool.install(|| run(&attention, &inputs, &Rayon)).unwrap();
    for (one, several) in std::iter::zip(one, several) {
        let bits = |tensor: Tensor| tensor.elements.into_iter().map(f32::to_bits).collect();
        let (one, several): (Vec<_>, Vec<_>) = (bits(one), bits(several));
        assert_eq!(one, several);
    }
}

#[test]
fn a_gate_is_its_definition() {
    let attention = Attention::of("LinearAttentionGate", &Given::default()).unwrap();
    let a = Tensor::new(0, &[1, 2, 3]).map(|it| it * 200.0);
    let (bias, scale) = (Tensor::new(1, &[3]), Tensor::new(2, &[3]));
    let b = Tensor::new(3, &[1, 2, 3]);
    let [decay, beta] = both(run(
        &attention,
        &[Some(&a), Some(&bias), Some(&scale), Some(&b)],
        &Serial,
    ));
    let softplus = |x: f64| if x > 30.0 { x } else { x.exp().ln_1p() };
    let expected = a.elements.iter().enumerate().map(|(at, a)| {
        let [bias, scale] = [&bias, &scale].map(|it| f64::from(it.elements[at % 3]));
        scale * softplus(f64::from(*a) + bias)
    });
    close(&decay, &expected.collect::<Vec<_>>(), &[1, 2, 3]);
    let expected = b
        .elements
        .iter()
        .map(|b| 1.0 / (1.0 + (-f64::from(*b)).exp()));
    close(&beta, &expected.collect::<Vec<_>>(), &[1, 2, 3]);
}

#[test]
fn errors_name_the_input_and_what_it_should_have() {
    let mut given = Given::default();
    given.integers([("q_num_heads", 2), ("kv_num_heads", 2)]);
    let attention = Attention::of("LinearAttention", &given).unwrap();
    let [query, beta] = [Tensor::new(0, &[1, 3, 8]), Tensor::new(1, &[1, 3, 2])];
    let (short, odd) = (Tensor::new(0, &[1, 2, 8]), Tensor::new(0, &[1, 3, 7]));
    let message =
        |inputs: [Option<&Tensor>; 6]| run(&attention, &inputs, &Serial).unwrap_err().to_string();
    let (q, b) = (Some(&query), Some(&beta));
    assert_eq!(message([q, q, q, None, None, b]), "it lacks decay");
    assert_eq!(message([None, q, q, None, b, b]), "it lacks query");
    let integers = Tensor::of_integers(&[1, 2]);
    let gate = Attention::of("LinearAttentionGate", &Given::default()).unwrap();
    let refused = run(&gate, &[b, Some(&integers), Some(&integers), b], &Serial);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "dt_bias has elements of another type, expected floats"
    );
    assert_eq!(
        message([q, Some(&short), q, None, b, b]),
        "key has shape [1, 2, 8], expected [1, 3, 8]"
    );
    assert_eq!(
        message([q, q, Some(&odd), None, b, b]),
        "value has shape [1, 3, 7], expected a last size that 2 heads share"
    );
    assert_eq!(
        message([q, q, q, q, b, b]),
        "past_state has shape [1, 3, 8], expected [1, 2, 4, 4]"
    );
    given.text("update_rule", "linear");
    let linear = Attention::of("LinearAttention", &given).unwrap();
    let inputs = [q, q, q, None, b, None];
    assert_eq!(
        run(&linear, &inputs, &Serial).unwrap_err().to_string(),
        "decay is given, which its update_rule does not have"
    );
    given.text("update_rule", "other");
    assert_eq!(
        Attention::of("LinearAttention", &given)
            .unwrap_err()
            .to_string(),
        "its update_rule is \"other\", expected linear, gated, delta or gated_delta"
    );
    given.integers([("q_num_heads", 3)]);
    given.text("update_rule", "linear");
    assert_eq!(
        Attention::of("LinearAttention", &given)
            .unwrap_err()
            .to_string(),
        "its q_num_heads is 3, expected a multiple of kv_num_heads"
    );
}

#[test]
fn what_no_convolution_here_has_is_refused() {
    let of = |name: &'static str, value: i64| {
        let mut given = Given::default();
        given.integers([(name, value)]);
        Attention::of("CausalConvWithState", &given).map_err(|error| error.to_string())
    };
    for (name, only, other) in [
        ("ndim", 1, 2),
        ("state_length", 0, 8),
        ("state_channels_last", -1, 1),
        ("input_channels", 0, 4),
    ] {
        assert!(of(name, only).is_ok());
        let expected = format!("its {name} is {other}, expected {only}");
        assert_eq!(of(name, other).unwrap_err(), expected);
    }
}
