//! Tests of how convolutions are computed, against tract's operator, which an unoptimised model runs.

use tract_onnx::tract_hir::internal::*;

use super::build::{Graph, graph, ops, parse, run_each};

/// Numbers that differ from their neighbours.
fn numbers(sizes: &[usize]) -> Tensor {
    let count: usize = sizes.iter().product();
    let all: Vec<f32> = (0..count)
        .map(|it| ((it * 37 + it / 7) % 64) as f32 / 64.0 - 0.5)
        .collect();
    tensor1(&all).into_shape(sizes).unwrap()
}

/// A convolution with a bias, of images of these sizes.
fn conv(batch: &str, image: &[usize], weights: &[usize], attributes: &str) -> Graph {
    let image: String = image.iter().map(|size| format!(",{size}")).collect();
    graph(
        &format!("x:f32[{batch}{image}]"),
        "y",
        &format!("y = Conv<{attributes}>(x, w, b)"),
    )
    .constant("w", numbers(weights))
    .constant("b", numbers(&weights[..1]))
}

/// Runs batches on one plan, and compares with tract; returns the operators of the plan.
#[track_caller]
pub(super) fn check(graph: &Graph, image: &[usize], batches: &[usize]) -> Vec<String> {
    let sizes = |batch| [&[batch], image].concat();
    let inputs: Vec<Vec<Tensor>> = batches
        .iter()
        .map(|&batch| vec![numbers(&sizes(batch))])
        .collect();
    let found = run_each(graph.clone(), &inputs).unwrap();
    let plain = parse(graph.clone()).unwrap().into_typed().unwrap();
    let plain = plain.into_runnable().unwrap();
    for (inputs, found) in std::iter::zip(inputs, found) {
        let expected = plain.run(tvec!(inputs[0].clone().into_tvalue())).unwrap();
        found[0]
            .close_enough(&expected[0], Approximation::Close)
            .unwrap();
    }
    let model = parse(graph.clone()).unwrap().into_typed().unwrap();
    ops(&tract_onnx_extra::into_optimized(model).unwrap())
}

/// Images, weights and attributes of convolutions that are worth a run for each image.
const LARGE: [(&[usize], &[usize], &str); 12] = [
    (&[32, 10, 134], &[32, 32, 3, 3], "strides=[1,1]"),
    (&[32, 8, 132], &[32, 32, 3, 3], "pads=[1,1,1,1]"),
    (&[32, 8, 136], &[34, 32, 3, 3], "pads=[2,0,1,3]"),
    (&[32, 8, 132], &[32, 32, 3, 3], "auto_pad=\"SAME_UPPER\""),
    (&[32, 8, 133], &[32, 32, 4, 4], "auto_pad=\"SAME_LOWER\""),
    (&[32, 10, 134], &[32, 32, 3, 3], "auto_pad=\"VALID\""),
    (
        &[32, 16, 264],
        &[32, 32, 3, 3],
        "pads=[1,1,1,1];strides=[2,2]",
    ),
    (
        &[32, 16, 132],
        &[32, 32, 3, 3],
        "auto_pad=\"SAME_UPPER\";strides=[2,1]",
    ),
    (
        &[32, 8, 136],
        &[32, 32, 3, 3],
        "pads=[2,1,2,1];dilations=[2,3]",
    ),
    (&[64, 8, 132], &[64, 32, 3, 3], "pads=[1,1,1,1];group=2"),
    (&[64, 1400], &[32, 64, 5], "pads=[2,2]"),
    (&[16, 12, 13, 14], &[32, 16, 3, 3, 3], "pads=[1,1,1,1,1,1]"),
];

#[test]
fn images_are_convolved_one_after_another() {
    for (image, weights, attributes) in LARGE {
        let found = check(&conv("2", image, weights, attributes), image, &[2]);
        if cfg!(target_arch = "x86_64") {
            assert!(
                found.contains(&"ConvImages".to_owned()),
                "{attributes}: {found:?}"
            );
        }
        let symbolic = conv("N", image, weights, attributes);
        assert_eq!(check(&symbolic, image, &[3, 1, 0]), found, "{attributes}");
        let one = check(&conv("1", image, weights, attributes), image, &[1]);
        assert!(!one.contains(&"ConvImages".to_owned()), "{attributes}");
    }
}

#[test]
fn points_are_convolved_one_image_after_another() {
    let image = [32, 17, 130];
    for sum in [
        "z = Conv(x, w, b)",
        "z = Conv(x, w)",
        "z = Conv<strides=[2,1]>(x, w, b)",
    ] {
        for batch in ["3", "N"] {
            let nodes = format!("{sum}\ny = Relu(z)");
            let graph = graph(&format!("x:f32[{batch},32,17,130]"), "y", &nodes)
                .constant("w", numbers(&[32, 32, 1, 1]))
                .constant("b", numbers(&[32]));
            let found = check(&graph, &image, if batch == "N" { &[2, 0] } else { &[3] });
            assert!(found.contains(&"ConvImages".to_owned()), "{sum}: {found:?}");
            assert!(!found.contains(&"MoveAxis".to_owned()), "{sum}: {found:?}");
            assert!(!found.contains(&"Add".to_owned()), "{sum}: {found:?}");
        }
    }
}

/// A value that is an output, or that others read, is not hidden in the convolution with its sum.
#[test]
fn sums_that_are_read_stay() {
    for outputs in ["z y", "y other"] {
        let nodes = "z = Conv(x, w)\ny = Add(z, c)\nother = Neg(z)";
        let graph = graph("x:f32[2,32,17,130]", outputs, nodes)
            .constant("w", numbers(&[32, 32, 1, 1]))
            .constant("c", numbers(&[1, 32, 1, 1]));
        let found = check(&graph, &[32, 17, 130], &[2]);
        assert!(found.contains(&"ConvImages".to_owned()), "{found:?}");
        assert!(found.contains(&"OptAddByScalar".to_owned()), "{found:?}");
    }
}

/// tract's filter stays where it is the fastest: with few channels or few inputs.
#[test]
fn products_replace_the_filter_where_they_are_faster() {
    let image = |channels| [channels, 6, 130];
    for (inputs, outputs, is_filter) in [
        (1, 64, true),
        (32, 31, true),
        (28, 32, true),
        (29, 32, false),
    ] {
        let weights = [outputs, inputs, 3, 3];
        let graph = conv("1", &image(inputs), &weights, "pads=[1,1,1,1]");
        let found = check(&graph, &image(inputs), &[1]);
        if cfg!(target_arch = "x86_64") {
            let filter = found.contains(&"DirectSpatialConv".to_owned());
            assert_eq!(filter, is_filter, "{inputs} to {outputs}: {found:?}");
        }
    }
}

#[test]
fn small_images_stay_together() {
    for weights in [[32, 32, 1, 1], [32, 32, 3, 3], [8, 32, 3, 3]] {
        let graph = conv("4", &[32, 6, 10], &weights, "strides=[1,1]");
        let found = check(&graph, &[32, 6, 10], &[4]);
        assert!(!found.contains(&"ConvImages".to_owned()), "{found:?}");
    }
}

/// Weights that come from an input are not known when the model is optimised.
#[test]
fn weights_may_be_inputs() {
    let x = numbers(&[2, 32, 10, 134]);
    let w = numbers(&[32, 32, 3, 3]);
    let model = graph("x:f32[2,32,10,134] w:f32[32,32,3,3]", "y", "y = Conv(x, w)");
    let found = run_each(model.clone(), &[vec![x.clone(), w.clone()]]).unwrap();
    let plain = parse(model).unwrap().into_typed().unwrap();
    let expected = plain.into_runnable().unwrap();
    let expected = expected
        .run(tvec!(x.into_tvalue(), w.into_tvalue()))
        .unwrap();
    found[0][0]
        .close_enough(&expected[0], Approximation::Close)
        .unwrap();
}
