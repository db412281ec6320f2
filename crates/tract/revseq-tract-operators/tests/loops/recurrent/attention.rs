//! The operators of linear attention on tract; the crate recurrent-layers tests what they compute.

use tract_onnx::prelude::*;

use super::quantized::assert_near;
use crate::build::{graph, run};

/// A tensor of tokens, [1, 3, 1].
fn tokens(numbers: [f32; 3]) -> Tensor {
    Tensor::from_shape(&[1, 3, 1], &numbers).unwrap()
}

const LINEAR: &str =
    "microsoft.LinearAttention<q_num_heads=1;kv_num_heads=1;update_rule=\"linear\">";

#[test]
fn linear_attention_adds_to_the_state_that_is_past() {
    let [q, k, v] = [[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [2.0, 3.0, 1.0]].map(tokens);
    let past = Tensor::from_shape(&[1, 1, 1, 1], &[10.0_f32]).unwrap();
    for steps in ["3", "T"] {
        let of = |name: &str| format!("{name}:f32[1,{steps},1]");
        let inputs = format!("{} {} {}", of("q"), of("k"), of("v"));
        let node = format!("y, s = {LINEAR}(q, k, v)");
        let found = run(
            graph(&inputs, "y s", &node),
            &[q.clone(), k.clone(), v.clone()],
        )
        .unwrap();
        assert_near(&found[0], &[2.0, 10.0, 21.0]);
        assert_near(&found[1], &[7.0]);
        let node = format!("y = {LINEAR}(q, k, v, past)");
        let model = graph(&format!("{inputs} past:f32[1,1,1,1]"), "y", &node);
        let given = [q.clone(), k.clone(), v.clone(), past.clone()];
        let found = run(model, &given).unwrap();
        assert_near(&found[0], &[12.0, 30.0, 51.0]);
    }
}

#[test]
fn inputs_may_be_left_out_before_others() {
    let node = "y, s = LinearAttention<q_num_heads=1;kv_num_heads=1>(q, k, v, _, decay, beta)";
    let inputs = "q:f32[B,T,1] k:f32[B,T,1] v:f32[B,T,1] decay:f32[B,T,1] beta:f32[B,T,1]";
    let given = [
        [1.0, 2.0, 3.0],
        [1.0, 1.0, 2.0],
        [2.0, 3.0, 1.0],
        [0.0; 3],
        [0.5; 3],
    ];
    let found = run(graph(inputs, "y s", node), &given.map(tokens)).unwrap();
    assert_near(&found[0], &[1.0, 4.0, -3.0]);
    assert_near(&found[1], &[-1.0]);
}

#[test]
fn half_floats_are_computed_in_floats_and_a_state_keeps_its_type() {
    let node = format!("y, s = {LINEAR}(q, k, v, past)");
    let inputs = "q:f16[1,T,1] k:f16[1,T,1] v:f16[1,T,1] past:f32[1,1,1,1]";
    let tokens = [[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [2.0, 3.0, 1.0]].map(tokens);
    let [q, k, v] = tokens.map(|it| it.cast_to::<f16>().unwrap().into_owned());
    let past = Tensor::from_shape(&[1, 1, 1, 1], &[10.0_f32]).unwrap();
    let found = run(graph(inputs, "y s", &node), &[q, k, v, past]).unwrap();
    let types: Vec<DatumType> = found.iter().map(|it| it.datum_type()).collect();
    assert_eq!(types, [f16::datum_type(), f32::datum_type()]);
    assert_near(&found[0].cast_to::<f32>().unwrap(), &[12.0, 30.0, 51.0]);
}

#[test]
fn a_convolution_keeps_its_last_elements() {
    let node = "y, s = CausalConvWithState(x, w, b, past)";
    let inputs = "x:f32[1,1,T] w:f32[1,1,3] b:f32[1] past:f32[1,1,2]";
    let given = [
        of(&[1, 1, 2], &[3.0_f32, 4.0]),
        of(&[1, 1, 3], &[1.0_f32, 10.0, 100.0]),
        of(&[1], &[0.5_f32]),
        of(&[1, 1, 2], &[1.0_f32, 2.0]),
    ];
    let found = run(graph(inputs, "y s", node), &given).unwrap();
    assert_near(&found[0], &[321.5, 432.5]);
    assert_near(&found[1], &[3.0, 4.0]);
}

#[test]
fn a_gate_is_computed() {
    let node = "decay, beta = microsoft.LinearAttentionGate(a, bias, scale, b)";
    let inputs = "a:f32[1,3,1] bias:f32[1] scale:f32[1] b:f32[1,3,1]";
    let one = |number: f32| Tensor::from_shape(&[1], &[number]).unwrap();
    let given = [
        tokens([0.0, 1.0, -60.0]),
        one(1.0),
        one(-2.0),
        tokens([0.0, 90.0, -90.0]),
    ];
    let found = run(graph(inputs, "decay beta", node), &given).unwrap();
    assert_near(&found[0], &[-2.626_523, -4.253_856, 0.0]);
    assert_near(&found[1], &[0.5, 1.0, 0.0]);
}

/// A tensor of these sizes.
fn of<T: Datum + Copy>(sizes: &[usize], numbers: &[T]) -> Tensor {
    Tensor::from_shape(sizes, numbers).unwrap()
}

/// Two sequences, of two tokens and of one.
fn packed() -> [Tensor; 4] {
    let of_tokens = |numbers: &[f32; 3]| of(&[3, 1, 1], numbers);
    let [q, k, v] = [[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [2.0, 3.0, 1.0]].map(|it| of_tokens(&it));
    [q, k, v, of(&[3], &[0_i32, 2, 3])]
}

#[test]
fn a_gated_delta_net_adds_to_the_state_of_each_sequence() {
    let [q, k, v, offsets] = packed();
    let past = of(&[2, 1, 1, 1], &[10.0_f32, 20.0]);
    let counts = of(&[2], &[1_i32, 1]);
    let attributes = "update_rule=\"linear\";state_update_capacity=2";
    let net = format!("microsoft.GatedDeltaNet<{attributes}>");
    for (tokens, ends) in [("3", "3"), ("T", "E")] {
        let inputs = ["q", "k", "v"]
            .map(|name| format!("{name}:f32[{tokens},1,1]"))
            .join(" ");
        let inputs = format!("{inputs} cu:i32[{ends}] past:f32[2,1,1,1] counts:i32[2]");
        let node = format!("y, s, u = {net}(q, k, v, cu, _, _, past, _, _, counts)");
        let given = [&q, &k, &v, &offsets, &past, &counts].map(Tensor::clone);
        let found = run(graph(&inputs, "y s u", &node), &given).unwrap();
        assert_eq!(found[0].shape(), [3, 1, 1]);
        assert_near(&found[0], &[12.0, 30.0, 66.0]);
        assert_near(&found[1], &[15.0, 22.0]);
        // A factor, a key and a value of the first token, and none of a second.
        assert_eq!(found[2].shape(), [2, 6]);
        assert_near(
            &found[2],
            &[1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0],
        );
    }
}

#[test]
fn a_gated_delta_net_takes_one_input_for_three_and_half_floats() {
    let qkv = of(
        &[1, 3, 3],
        &[1.0_f32, 1.0, 2.0, 2.0, 1.0, 3.0, 3.0, 2.0, 1.0],
    );
    let qkv = qkv.cast_to::<f16>().unwrap().into_owned();
    let past = of(&[1, 1, 1, 1], &[10.0_f32]);
    let node = "y, s = microsoft.GatedDeltaNet<update_rule=\"linear\">(qkv, _, _, _, _, _, past)";
    let inputs = "qkv:f16[B,T,3] past:f32[B,1,1,1]";
    let found = run(graph(inputs, "y s", node), &[qkv, past]).unwrap();
    let types: Vec<DatumType> = found.iter().map(|it| it.datum_type()).collect();
    assert_eq!(types, [f16::datum_type(), f32::datum_type()]);
    assert_eq!(found[0].shape(), [1, 3, 1, 1]);
    assert_near(&found[0].cast_to::<f32>().unwrap(), &[12.0, 30.0, 51.0]);
    assert_near(&found[1], &[17.0]);
}

#[test]
fn a_packed_convolution_does_not_read_across_sequences() {
    let node = "y, s = microsoft.VarlenCausalConvWithState(x, w, cu, b, past)";
    let inputs = "x:f32[T,1] w:f32[1,1,3] cu:i32[E] b:f32[1] past:f32[B,1,2]";
    let given = [
        of(&[3, 1], &[3.0_f32, 4.0, 5.0]),
        of(&[1, 1, 3], &[1.0_f32, 10.0, 100.0]),
        of(&[3], &[0_i32, 2, 3]),
        of(&[1], &[0.5_f32]),
        of(&[2, 1, 2], &[1.0_f32, 2.0, 6.0, 7.0]),
    ];
    let found = run(graph(inputs, "y s", node), &given).unwrap();
    assert_eq!(found[0].shape(), [3, 1]);
    assert_near(&found[0], &[321.5, 432.5, 576.5]);
    assert_near(&found[1], &[3.0, 4.0, 7.0, 5.0]);
}

#[test]
fn errors_say_what_would_be_right() {
    let error = |inputs: &str, node: &str| {
        let model = graph(inputs, "y", node);
        format!("{:#}", run(model, &[]).unwrap_err())
    };
    let inputs = "q:f32[1,3,1] k:f32[1,3,1] v:f32[1,3,1] d:f64[1,3,1]";
    let found = error(inputs, "y = LinearAttention<q_num_heads=1>(q, k, v)");
    assert!(
        found.contains("its kv_num_heads is left out, expected 1 at least"),
        "{found}"
    );
    let found = error(inputs, &format!("y = {LINEAR}(q, k, d)"));
    assert!(
        found.contains("its value has elements of type F64, expected F32 or F16"),
        "{found}"
    );
    let net = "microsoft.GatedDeltaNet<update_rule=\"linear\">";
    let found = error(inputs, &format!("y = {net}(q, k, v, d)"));
    assert!(
        found.contains("its cu_seqlens has elements of type F64, expected I32"),
        "{found}"
    );
    let found = error(inputs, &format!("y = {net}(q, k, v)"));
    assert!(found.contains("it lacks initial_state"), "{found}");
    let convolution = "microsoft.VarlenCausalConvWithState(q, q, q, q, q, q, q, q)";
    let found = error(inputs, &format!("y = {convolution}"));
    assert!(
        found.contains("has 8 inputs, expected 6 at most"),
        "{found}"
    );
    let found = error(inputs, &format!("y = {LINEAR}(q, k)"));
    assert!(found.contains("it lacks value"), "{found}");
    let elsewhere =
        "y = microsoft.LinearAttentionGate(q, k, v)".replace("microsoft", "com.example");
    let found = error(inputs, &elsewhere);
    assert!(
        found.contains("it is of domain \"com.example\", expected \"com.microsoft\""),
        "{found}"
    );
}
