//! Tests of operators before opset 11.

use tract_onnx::prelude::*;

use crate::build::{Graph, fails, graph, run};

/// Runs a node of an opset on a row of known or unknown length.
#[track_caller]
fn check(opset: i64, node: &str, scales: &[f32], x: &[f32], expected: &[f32]) {
    for size in ["N".to_owned(), x.len().to_string()] {
        let model = graph(&format!("x:f32[1,{size}]"), "y", node)
            .constant("scales", tensor1(scales))
            .opset(opset);
        let x = tensor1(x).into_shape(&[1, x.len()]).unwrap();
        let found = run(model, &[x]).unwrap();
        let expected = tensor1(expected).into_shape(&[1, expected.len()]).unwrap();
        assert_eq!(found[0], expected, "{node} of opset {opset}, [1,{size}]");
    }
}

#[test]
fn nearest_elements_lie_below_where_sizes_grow() {
    let thrice = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0];
    check(
        10,
        "y = Resize(x, scales)",
        &[1.0, 3.0],
        &[1.0, 2.0],
        &thrice,
    );
    check(
        9,
        "y = Upsample(x, scales)",
        &[1.0, 3.0],
        &[1.0, 2.0],
        &thrice,
    );
    check(
        7,
        "y = Upsample<scales=[1.0,3.0]>(x)",
        &[],
        &[1.0, 2.0],
        &thrice,
    );
    let shrunk = graph("x:f32[1,4]", "y", "y = Resize(x, scales)")
        .constant("scales", tensor1(&[1_f32, 0.5]))
        .opset(10);
    let found = run(shrunk, &[tensor2(&[[1_f32, 2., 3., 4.]])]).unwrap();
    assert_eq!(found[0], tensor2(&[[1_f32, 3.]]));
}

#[test]
fn linear_interpolation_begins_with_the_first_element() {
    let found = [1.0, 2.0, 3.0, 3.0];
    let linear = "y = Resize<mode=\"linear\">(x, scales)";
    check(10, linear, &[1.0, 2.0], &[1.0, 3.0], &found);
    let linear = "y = Upsample<mode=\"linear\">(x, scales)";
    check(9, linear, &[1.0, 2.0], &[1.0, 3.0], &found);
}

#[test]
fn nearest_elements_above_are_refused() {
    let shrunk = graph("x:f32[1,7]", "y", "y = Resize(x, [1.0 0.6])").opset(10);
    let x = Tensor::zero::<f32>(&[1, 7]).unwrap();
    fails(run(shrunk, &[x]), "its scale is 0.6");
}

#[test]
fn k_may_be_an_attribute() {
    let model = |size: &str| -> Graph {
        graph(
            &format!("x:f32[{size}]"),
            "y at",
            "y, at = TopK<axis=0;k=2>(x)",
        )
        .opset(9)
    };
    for size in ["N", "4"] {
        let found = run(model(size), &[tensor1(&[3_f32, 7., 1., 5.])]).unwrap();
        assert_eq!(found[0], tensor1(&[7_f32, 5.]));
        assert_eq!(found[1], tensor1(&[1_i64, 3]));
    }
}
