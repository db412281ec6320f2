//! Split.

use revseq_test_models::text;
use tract_onnx::prelude::*;

use crate::build::{Optimize, fails, graph, onnx};

/// Runs a Split of a vector of `size` elements, known or not, in a version of ONNX.
fn split(version: i64, node: &str, size: usize, declared: &str) -> TractResult<Vec<Vec<f32>>> {
    let names: Vec<&str> = node.split('=').next().unwrap().split(',').collect();
    let outputs = names.join(" ");
    let mut model = graph(&format!("x:f32[{declared}]"), &outputs, node).into_model();
    model.opset_import[0].version = version;
    let model = onnx().parse(&model, None)?.model;
    let plan = model.optimized()?.into_runnable()?;
    let x: Vec<f32> = (0..size).map(|it| it as f32).collect();
    let found = plan.run(tvec![tensor1(&x).into_tvalue()])?;
    let list = |it: &TValue| {
        it.to_plain_array_view::<f32>()
            .unwrap()
            .iter()
            .copied()
            .collect()
    };
    Ok(found.iter().map(list).collect())
}

#[test]
fn parts_follow_each_other() {
    for size in ["5", "N"] {
        for (version, node) in [
            (11, "a, b = Split<split=[2,3]>(x)"),
            (13, "a, b = Split(x, [2 3])"),
            (18, "a, b = Split<axis=-1>(x, [2 3])"),
        ] {
            let found = split(version, node, 5, size).unwrap();
            assert_eq!(found, [vec![0., 1.], vec![2., 3., 4.]], "{version} {node}");
        }
        let uneven = split(18, "a, b, c = Split<num_outputs=3>(x)", 5, size).unwrap();
        assert_eq!(uneven, [vec![0., 1.], vec![2., 3.], vec![4.]]);
    }
    for size in ["6", "N"] {
        let even = split(13, "a, b, c = Split(x)", 6, size).unwrap();
        assert_eq!(even, [[0., 1.], [2., 3.], [4., 5.]]);
        let empty = split(18, "a, b, c, d = Split<num_outputs=4>(x)", 6, size).unwrap();
        assert_eq!(empty, [vec![0., 1.], vec![2., 3.], vec![4., 5.], vec![]]);
    }
}

#[test]
fn parts_that_are_not_the_axis_are_an_error() {
    for (node, expected) in text::rows(
        "13 6 a, b = Split(x, [2 3]) => its axis has 6 elements, expected the sum of its sizes [2,3]
         11 4 a, b = Split<split=[2,3]>(x) => its axis has 4 elements, expected the sum of its sizes [2,3]
         13 5 a, b = Split(x, [7 -2]) => one of its sizes is -2, expected 0 or more
         13 5 a, b = Split(x, [1 2 2]) => it has 3 sizes, expected 2, one for each of its outputs
         11 5 a, b = Split(x) => its axis has 5 elements, expected a multiple of 2, the number of its outputs
         18 5 a, b, c, d = Split<num_outputs=4>(x)
         => its axis has 5 elements, expected enough elements for 4 parts of equal sizes
         18 6 a, b = Split<num_outputs=3>(x) => its num_outputs is 3, expected 2, the number of its outputs
         13 5 a, b = Split<axis=1>(x, [2 3]) => its axis is 1, expected one from -1 to 0",
    ) {
        let [version, size, node] = node.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{node}");
        };
        for declared in [size, "N"] {
            let found = split(version.parse().unwrap(), node, size.parse().unwrap(), declared);
            fails(found, expected);
        }
    }
}
