//! Tests of how convolutions are computed, against tract's operator, which an unoptimised model runs.

use proptest::prelude::*;
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
        &format!("y = Conv<{attributes}>(x, w, b)").replace("<>", ""),
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
    ops(&revseq_tract_operators::into_optimized(model).unwrap())
}

/// Whether windows are packed for a product.
fn packs_windows(found: &[String]) -> bool {
    found.contains(&"ConvWindows".to_owned())
}

/// Images, weights and attributes of convolutions that become products.
const PRODUCTS: [(&[usize], &[usize], &str); 16] = [
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
    (&[32, 6, 10], &[32, 32, 3, 3], "strides=[1,1]"),
    // The weights leave the second cache of most processors; few windows are a tile's columns.
    (&[256, 8, 8], &[600, 256, 3, 3], "pads=[1,1,1,1]"),
    (&[256, 4, 5], &[600, 256, 3, 3], "pads=[1,1,1,1]"),
    (&[512, 3, 5], &[602, 256, 3, 3], "pads=[1,1,1,1];group=2"),
];

#[test]
fn windows_are_packed_for_products() {
    for (image, weights, attributes) in PRODUCTS {
        for (batch, batches) in [("1", &[1][..]), ("2", &[2]), ("N", &[2, 0])] {
            let found = check(&conv(batch, image, weights, attributes), image, batches);
            let is_packed = packs_windows(&found);
            assert_eq!(
                is_packed,
                cfg!(target_arch = "x86_64"),
                "{attributes}: {found:?}"
            );
        }
    }
}

/// Moves that stand around a convolution do not go through it: there is no product of channels behind.
/// A small one takes less time than they do.
#[test]
fn channels_stay_in_front() {
    for (batch, rows, is_large) in [("N", 8, true), ("1", 8, true), ("1", 2, false)] {
        let graph = graph(
            &format!("x:f32[{batch},{rows},12,32]"),
            "y",
            "front = Transpose<perm=[0,3,1,2]>(x)
             sums = Conv<pads=[1,1,1,1]>(front, w, b)
             behind = Transpose<perm=[0,2,3,1]>(sums)
             most = ReduceMax<axes=[3]>(behind)
             y = Sub(behind, most)",
        )
        .constant("w", numbers(&[32, 32, 3, 3]))
        .constant("b", numbers(&[32]));
        let batches = if batch == "N" { &[2, 0][..] } else { &[1] };
        let found = check(&graph, &[rows, 12, 32], batches);
        let is_packed = packs_windows(&found);
        let expected = is_large && cfg!(target_arch = "x86_64");
        assert_eq!(is_packed, expected, "{batch} of {rows} rows: {found:?}");
    }
}

/// Images, weights and attributes of convolutions of single channels.
const SUMS: [(&[usize], &[usize], &str); 9] = [
    (&[3, 9, 11], &[3, 1, 3, 3], "group=3;pads=[1,1,1,1]"),
    (
        &[3, 9, 70],
        &[3, 1, 5, 5],
        "group=3;strides=[2,2];auto_pad=\"SAME_UPPER\"",
    ),
    (
        &[3, 9, 11],
        &[6, 1, 3, 3],
        "group=3;strides=[1,2];pads=[0,2,1,0]",
    ),
    (
        &[3, 12, 11],
        &[3, 1, 2, 3],
        "group=3;dilations=[3,2];pads=[1,1,1,1]",
    ),
    (&[3, 12, 11], &[3, 1, 1, 1], "group=3;strides=[4,3]"),
    (&[3, 90], &[3, 1, 40], "group=3;strides=[3];pads=[11,5]"),
    (&[3, 5, 6, 7], &[3, 1, 3, 2, 3], "group=3;strides=[1,2,2]"),
    (&[1, 6, 130], &[64, 1, 3, 3], "pads=[1,1,1,1]"),
    (&[1, 5, 7], &[2, 1, 5, 6], "pads=[2,3,2,3]"),
];

#[test]
fn windows_of_single_channels_are_summed() {
    for (image, weights, attributes) in SUMS {
        for (batch, batches) in [("1", &[1][..]), ("N", &[3, 1, 0])] {
            let found = check(&conv(batch, image, weights, attributes), image, batches);
            let is_sum = found.contains(&"ConvSliding".to_owned());
            let expected = cfg!(target_arch = "x86_64");
            assert_eq!(is_sum, expected, "{attributes}: {found:?}");
        }
    }
    // A product is faster: many outputs of many elements.
    let found = check(&conv("1", &[1, 900], &[64, 1, 64], ""), &[1, 900], &[1]);
    assert!(!found.contains(&"ConvSliding".to_owned()), "{found:?}");
}

#[test]
fn points_are_windows() {
    let image = [32, 17, 13];
    for sum in [
        "z = Conv(x, w, b)",
        "z = Conv(x, w)",
        "z = Conv<strides=[2,1]>(x, w, b)",
    ] {
        for batch in ["1", "3", "N"] {
            let nodes = format!("{sum}\ny = Relu(z)");
            let graph = graph(&format!("x:f32[{batch},32,17,13]"), "y", &nodes)
                .constant("w", numbers(&[34, 32, 1, 1]))
                .constant("b", numbers(&[34]));
            let batches = batch.parse().map_or(vec![2, 0], |batch| vec![batch]);
            let found = check(&graph, &image, &batches);
            assert_eq!(
                packs_windows(&found),
                cfg!(target_arch = "x86_64"),
                "{sum}: {found:?}"
            );
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
        assert!(found.contains(&"AddByRows".to_owned()), "{found:?}");
    }
}

/// tract's filter stays where it is the fastest: with few channels or few inputs.
#[test]
fn products_replace_the_filter_where_they_are_faster() {
    let image = |channels| [channels, 6, 130];
    for (inputs, outputs, is_filter) in [
        (2, 64, true),
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

/// tract has no windows there, or one for a pool.
#[test]
fn windows_larger_than_the_image_are_refused() {
    for (node, least) in [
        ("Conv(x, w)", 5),
        ("Conv<strides=[4]>(x, w)", 5),
        ("Conv<pads=[1,0]>(x, w)", 4),
        ("Conv<dilations=[2]>(x, w)", 9),
        ("Conv<group=32>(x, each)", 5),
        ("MaxPool<kernel_shape=[5]>(x)", 5),
        ("MaxPool<kernel_shape=[5];pads=[1,0]>(x)", 4),
        ("AveragePool<kernel_shape=[5]>(x)", 5),
        // ONNX Runtime has one window, of what there is.
        ("AveragePool<kernel_shape=[5];strides=[3]>(x)", 3),
    ] {
        for is_known in [false, true] {
            let found = |size: usize| {
                let declared = if is_known {
                    size.to_string()
                } else {
                    "T".to_owned()
                };
                let graph = graph(
                    &format!("x:f32[1,32,{declared}]"),
                    "y",
                    &format!("y = {node}"),
                )
                .constant("w", numbers(&[64, 32, 5]))
                .constant("each", numbers(&[32, 1, 5]));
                run_each(graph, &[vec![numbers(&[1, 32, size])]])
            };
            let [outputs] = &found(least).unwrap()[..] else {
                panic!()
            };
            assert_eq!(outputs[0].shape()[2], 1, "{node}");
            let error = format!("{:?}", found(least - 1).unwrap_err());
            assert!(error.contains("do not fit in axis 2"), "{node}: {error}");
        }
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

/// A Scan's body is optimised by tract, without the passes of this crate.
/// An axis of an image: its size, the pads, and the kernel's size, stride and dilation.
fn axis() -> impl Strategy<Value = [usize; 6]> {
    let window = (1_usize..4, 1_usize..4, 1_usize..3);
    (1_usize..12, 0_usize..3, 0_usize..3, window).prop_map(|(size, before, after, window)| {
        let (kernel, stride, dilation) = window;
        let least = (kernel - 1) * dilation + 1;
        let size = size.max(least.saturating_sub(before + after));
        [size, before, after, kernel, stride, dilation]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_convolutions_match_tract(
        axes in proptest::collection::vec(axis(), 1..4),
        (group, inputs, outputs) in (1_usize..4, 1_usize..5, 1_usize..20),
        batch in 1_usize..4,
        is_symbolic in any::<bool>(),
    ) {
        let all = |index: usize| axes.iter().map(|axis| axis[index]).collect::<Vec<_>>();
        let image = [&[group * inputs], &all(0)[..]].concat();
        let weights = [&[group * outputs, inputs], &all(3)[..]].concat();
        let pads = [all(1), all(2)].concat();
        let attributes = format!(
            "group={group};pads={pads:?};strides={:?};dilations={:?}", all(4), all(5)
        );
        let size = if is_symbolic { "N".to_owned() } else { batch.to_string() };
        check(&conv(&size, &image, &weights, &attributes.replace(' ', "")), &image, &[batch]);
    }
}
