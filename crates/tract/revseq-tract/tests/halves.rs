//! Half floats: computed in floats between what a program sees, and moved to the bit.

use revseq_test_models::text;
use revseq_tract::{LoadOptions, Session, Sizes};
use tract_onnx::prelude::*;

fn halves(numbers: &[f32]) -> Tensor {
    let numbers: Vec<f16> = numbers.iter().map(|it| f16::from_f32(*it)).collect();
    tensor1(&numbers)
}

/// Runs a model for the sizes of the data and for symbolic ones; its outputs.
#[track_caller]
fn run_all(model: &str, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let model = text::model(text::graph(model), 20);
    let outputs = [Sizes::OfData, Sizes::Symbolic].map(|sizes| -> Vec<Tensor> {
        let options = LoadOptions::new().with_sizes(sizes);
        let session = Session::from_bytes(&model, &options).unwrap();
        let inputs = inputs.iter().map(|(name, value)| (*name, value.clone()));
        let outputs = session
            .run(inputs)
            .unwrap_or_else(|error| panic!("{error}"));
        outputs
            .iter()
            .map(|it| it.1.clone().into_tensor())
            .collect()
    });
    assert_eq!(outputs[0], outputs[1]);
    let [outputs, _] = outputs;
    outputs
}

/// Runs nodes between half floats `x` and `y` of a type; a half float `large` is 1024.
#[track_caller]
fn run(nodes: &str, output: &str, x: &Tensor) -> Tensor {
    let model = format!("x:f16[N] -> y:{output}[M]\nlarge = Cast<to=10>(1024.0)\n{nodes}");
    run_all(&model, &[("x", x.clone())]).remove(0)
}

#[test]
fn values_between_nodes_neither_overflow_nor_lose_digits() {
    // 300 times 1024 is above all half floats.
    let numbers = halves(&[300.0, 0.1, -1.0]);
    let found = run("a = Mul(x, large)\n y = Div(a, large)", "f16", &numbers);
    assert_eq!(found, numbers);

    // At 2049, half floats are 2 apart: an addition of 1 is lost if it is rounded.
    let nodes = "a = Mul(x, large)\n b = Sum(a, x, x)\n y = Sub(b, a)";
    let found = run(nodes, "f16", &halves(&[2.5, 3.25]));
    assert_eq!(found, halves(&[5.0, 6.5]));
}

#[test]
fn casts_of_the_model_and_its_outputs_round() {
    let nodes = "a = Mul(x, large)\n b = Cast<to=1>(a)\n c = Cast<to=10>(b)\n y = Cast<to=1>(c)";
    let found = run(nodes, "f32", &halves(&[300.0, 1.0]));
    assert_eq!(found, tensor1(&[f32::INFINITY, 1024.0]));
    let found = run("y = Mul(x, large)", "f16", &halves(&[-300.0, 1.0]));
    assert_eq!(found, halves(&[f32::NEG_INFINITY, 1024.0]));
    // Whether a half float is infinite is asked of half floats.
    let nodes = "a = Mul(x, large)\n y = IsInf(a)";
    let found = run(nodes, "bool", &halves(&[300.0, 1.0]));
    assert_eq!(found, tensor1(&[true, false]));
}

#[test]
fn what_only_moves_is_moved_to_the_bit() {
    // A NaN that signals, with a payload; a cast would quiet it.
    let x = tensor1(&[f16::from_bits(0x7d23), f16::from_bits(0x8001)]);
    let found = run("a = Concat<axis=0>(x, x)\n y = Identity(a)", "f16", &x);
    let bits = [0x7d23_u16, 0x8001, 0x7d23, 0x8001];
    let bits: Vec<u8> = bits.into_iter().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        (found.datum_type(), found.as_bytes()),
        (f16::datum_type(), &*bits)
    );
}

#[test]
fn states_and_branches_keep_their_range() {
    // Three steps multiply by 1024, and what comes after divides.
    let numbers = halves(&[3.0, 0.1]);
    let nodes = "a, all = Loop<body=@body>(3, true, x)
        b = Div(a, large)
        c = Div(b, large)
        y = Div(c, large)
        @body: i k v -> k2 w s
        k2 = Identity(k)
        w = Mul(v, large)
        s = Identity(v)";
    assert_eq!(run(nodes, "f16", &numbers), numbers);

    let model = "x:f16[N] c:bool[] -> y:f16[M]
        large = Cast<to=10>(1024.0)
        a = If<then_branch=@then;else_branch=@else>(c)
        y = Div(a, large)
        @then: -> t
        t = Mul(x, large)
        @else: -> e
        e = Identity(x)";
    for (condition, expected) in [(true, 512.0), (false, 0.5)] {
        let inputs = [("x", halves(&[512.0])), ("c", tensor0(condition))];
        assert_eq!(run_all(model, &inputs), [halves(&[expected])]);
    }
}

#[test]
fn packed_sequences_of_half_floats_have_a_state_of_floats() {
    let model = "q:f16[T,1,1] k:f16[T,1,1] v:f16[T,1,1] cu:i32[3] past:f32[2,1,1,1] -> y:f16[T,1,1] state:f32[2,1,1,1]
        y, state = microsoft.GatedDeltaNet<update_rule=linear>(q, k, v, cu, _, _, past)";
    let tokens = |numbers: [f32; 3]| halves(&numbers).into_shape(&[3, 1, 1]).unwrap();
    let states = |states: &[f32; 2]| Tensor::from_shape(&[2, 1, 1, 1], states).unwrap();
    let inputs = [
        ("q", tokens([1.0, 2.0, 3.0])),
        ("k", tokens([1.0, 1.0, 2.0])),
        ("v", tokens([2.0, 3.0, 1.0])),
        ("cu", tensor1(&[0_i32, 2, 3])),
        ("past", states(&[10.0, 2049.0])),
    ];
    let expected = [tokens([12.0, 30.0, 6152.0]), states(&[15.0, 2051.0])];
    assert_eq!(run_all(model, &inputs), expected);
}
