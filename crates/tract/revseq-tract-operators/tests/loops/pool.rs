//! Tests of the maxima and the means of windows.

use tract_onnx::tract_hir::internal::*;

use crate::build::{fails, graph, run_each};

/// Images and attributes.
const POOLS: [(&[usize], &str); 14] = [
    (&[3, 9, 50], "kernel_shape=[5,5];pads=[2,2,2,2]"),
    (
        &[3, 19, 50],
        "kernel_shape=[4,7];pads=[0,3,3,0];strides=[3,1]",
    ),
    (&[3, 8, 10], "kernel_shape=[2,2];strides=[2,2]"),
    (&[3, 9, 11], "kernel_shape=[2,2];strides=[2,2];ceil_mode=1"),
    (
        &[3, 9, 11],
        "kernel_shape=[2,2];strides=[2,1];pads=[0,1,0,1]",
    ),
    (
        &[3, 9, 11],
        "kernel_shape=[3,3];strides=[2,2];pads=[1,1,1,1]",
    ),
    (&[3, 9, 11], "kernel_shape=[2,3];auto_pad=\"SAME_UPPER\""),
    (&[3, 9, 11], "kernel_shape=[4,1];auto_pad=\"SAME_LOWER\""),
    (&[3, 9, 11], "kernel_shape=[2,2];dilations=[3,2]"),
    (&[3, 9, 11], "kernel_shape=[1,1];strides=[3,2]"),
    (&[3, 21], "kernel_shape=[2];strides=[2]"),
    (
        &[3, 21],
        "kernel_shape=[5];strides=[3];pads=[2,1];ceil_mode=1",
    ),
    (
        &[3, 21],
        "kernel_shape=[3];dilations=[2];auto_pad=\"SAME_UPPER\"",
    ),
    (
        &[3, 4, 5, 6],
        "kernel_shape=[2,3,2];strides=[1,1,2];pads=[1,0,0,0,2,1]",
    ),
];

fn numbers(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    let all: Vec<f32> = (0..count)
        .map(|it| ((it * 37 + it / 7) % 64) as f32 - 32.0)
        .collect();
    tensor1(&all).into_shape(sizes).unwrap()
}

/// Compares an operator with tract's own, whose means are rounded twice.
#[track_caller]
fn check(operator: &str, image: &[usize], attributes: &str) {
    let tolerance = match operator {
        "MaxPool" => Approximation::Exact,
        _ => Approximation::Approximate,
    };
    for batch in ["2", "N"] {
        let sizes: String = image.iter().map(|size| format!(",{size}")).collect();
        let shape = format!("x:f32[{batch}{sizes}]");
        let graph = graph(&shape, "y", &format!("y = {operator}<{attributes}>(x)"));
        let batches: &[usize] = if batch == "N" { &[3, 1, 0] } else { &[2] };
        let inputs: Vec<Vec<Tensor>> = batches
            .iter()
            .map(|&batch| vec![numbers(&[&[batch], image].concat())])
            .collect();
        let found = run_each(graph.clone(), &inputs).unwrap();
        let tract = tract_onnx::onnx().parse(&graph.into_model(), None).unwrap();
        let tract = tract.model.into_typed().unwrap().into_runnable().unwrap();
        for (inputs, found) in std::iter::zip(inputs, found) {
            let expected = tract.run(tvec!(inputs[0].clone().into_tvalue())).unwrap();
            let found = found[0].close_enough(&expected[0], tolerance);
            found.unwrap_or_else(|error| panic!("{operator} {attributes} of {batch}: {error}"));
        }
    }
}

/// tract's own operators agree for numbers.
#[test]
fn windows_are_those_of_tract() {
    for (image, attributes) in POOLS {
        check("MaxPool", image, attributes);
        for counted in ["count_include_pad=0", "count_include_pad=1"] {
            check("AveragePool", image, &format!("{attributes};{counted}"));
        }
    }
}

/// A mean is the sum divided by the number of elements: with the reciprocal of 49 it is not 1.
#[test]
fn means_are_rounded_once() {
    let nodes = "y = AveragePool<kernel_shape=[7,7]>(x)";
    let ones = Tensor::from_shape(&[1, 1, 7, 7], &[1_f32; 49]).unwrap();
    let found = run_each(graph("x:f32[1,1,7,7]", "y", nodes), &[vec![ones]]);
    let found = found.unwrap().remove(0).remove(0);
    assert_eq!(found, tensor4(&[[[[1_f32]]]]));
}

/// ONNX Runtime's results; tract's maximum of -∞ is a finite number, and of NaN another element.
#[test]
fn maxima_of_infinity_and_of_nan_are_these() {
    let (none, nan) = (f32::NEG_INFINITY, f32::NAN);
    let x = [none, none, nan, 1.0, 2.0, nan, none, 3.0];
    let graph = graph(
        "x:f32[1,1,8]",
        "y",
        "y = MaxPool<kernel_shape=[2];strides=[2]>(x)",
    );
    let x = tensor1(&x).into_shape(&[1, 1, 8]).unwrap();
    let found = run_each(graph, &[vec![x]]).unwrap().remove(0).remove(0);
    let expected = tensor1(&[none, nan, nan, 3.0])
        .into_shape(&[1, 1, 4])
        .unwrap();
    assert_eq!(found, expected);
}

/// Places count through all channels, and of equal elements the first one counts.
#[test]
fn places_of_maxima_are_those_of_onnx_runtime() {
    let nodes = "y, places = MaxPool<kernel_shape=[2,2];pads=[0,0,1,1]>(x)";
    let x: [i8; 12] = [7, -3, 7, 7, 1, 2, -128, -128, -128, -128, -128, 5];
    let x = tensor1(&x).into_shape(&[1, 2, 2, 3]).unwrap();
    let found = run_each(graph("x:i8[N,2,2,3]", "y places", nodes), &[vec![x]]);
    let found = found.unwrap().remove(0);
    let shaped = |tensor: Tensor| tensor.into_shape(&[1, 2, 2, 3]).unwrap();
    let values: [i8; 12] = [7, 7, 7, 7, 2, 2, -128, 5, 5, -128, 5, 5];
    assert_eq!(found[0], shaped(tensor1(&values)));
    let places: [i64; 12] = [0, 2, 2, 3, 5, 5, 6, 11, 11, 9, 11, 11];
    assert_eq!(found[1], shaped(tensor1(&places)));
}

/// Sizes beyond any memory are an error before anything is allocated.
#[test]
fn absurd_windows_are_an_error() {
    let nodes = "y = AveragePool<kernel_shape=[2];strides=[4611686018427387904]>(x)";
    let x = Tensor::zero::<f32>(&[1, 1, 5]).unwrap();
    fails(
        run_each(graph("x:f32[N,1,5]", "y", nodes), &[vec![x]]),
        "its windows reach over more than",
    );
}
