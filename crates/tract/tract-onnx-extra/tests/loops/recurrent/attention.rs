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
    let of = |sizes: &[usize], numbers: &[f32]| Tensor::from_shape(sizes, numbers).unwrap();
    let given = [
        of(&[1, 1, 2], &[3.0, 4.0]),
        of(&[1, 1, 3], &[1.0, 10.0, 100.0]),
        of(&[1], &[0.5]),
        of(&[1, 1, 2], &[1.0, 2.0]),
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
        found.contains("an input has elements of type F64, expected F32 or F16"),
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
