//! Split.

use tract_onnx::prelude::*;

use crate::build::{Optimize, graph, onnx};

/// Runs a Split of a vector of `size` elements, known or not, in a version of ONNX.
fn split(version: i64, node: &str, size: usize, declared: &str) -> TractResult<Vec<Vec<f32>>> {
    let names: Vec<&str> = node.split('=').next().unwrap().split(',').collect();
    let outputs = names.join(" ");
    let mut model = graph(&format!("x:f32[{declared}]"), &outputs, node)
        .constants("two_three = [2 3], negative = [7 -2], three = [1 2 2]")
        .into_model();
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
            (13, "a, b = Split(x, two_three)"),
            (18, "a, b = Split<axis=-1>(x, two_three)"),
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
    for (version, node, size, expected) in [
        (
            13,
            "a, b = Split(x, two_three)",
            6,
            "its axis has 6 elements, expected the sum of its sizes [2,3]",
        ),
        (
            11,
            "a, b = Split<split=[2,3]>(x)",
            4,
            "its axis has 4 elements, expected the sum of its sizes [2,3]",
        ),
        (
            13,
            "a, b = Split(x, negative)",
            5,
            "one of its sizes is -2, expected 0 or more",
        ),
        (
            13,
            "a, b = Split(x, three)",
            5,
            "it has 3 sizes, expected 2, one for each of its outputs",
        ),
        (
            11,
            "a, b = Split(x)",
            5,
            "its axis has 5 elements, expected a multiple of 2, the number of its outputs",
        ),
        (
            18,
            "a, b, c, d = Split<num_outputs=4>(x)",
            5,
            "its axis has 5 elements, expected enough elements for 4 parts of equal sizes",
        ),
        (
            18,
            "a, b = Split<num_outputs=3>(x)",
            6,
            "its num_outputs is 3, expected 2, the number of its outputs",
        ),
        (
            13,
            "a, b = Split<axis=1>(x, two_three)",
            5,
            "its axis is 1, expected one from -1 to 0",
        ),
    ] {
        for declared in [size.to_string(), "N".to_owned()] {
            let error = split(version, node, size, &declared).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{node}: {error:#}");
        }
    }
}
