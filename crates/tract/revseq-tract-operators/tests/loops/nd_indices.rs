//! GatherND and ScatterND with indices that count from the end, and out of range.

use tract_onnx::prelude::*;

use crate::build::{graph, run};

/// `y` of a node that reads `x`, [1 2; 3 4; 5 6], and `i`, indices that come from data or are
/// constant.
fn results(node: &str, indices: &[i64], sizes: &[usize]) -> [TractResult<Tensor>; 2] {
    let x = Tensor::from_shape(&[3, 2], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    let i = Tensor::from_shape(sizes, indices).unwrap();
    let declared = sizes.iter().map(usize::to_string).collect::<Vec<_>>();
    let given = format!("x:f32[B,2] i:i64[{}]", declared.join(","));
    let parts = |inputs: &str| {
        graph(inputs, "y", node)
            .constant("rows", tensor2(&[[10_f32, 20.], [30., 40.]]))
            .constant("row", tensor2(&[[7_f32, 8.]]))
            .constant("one", tensor1(&[10_f32]))
    };
    [
        run(parts(&given), &[x.clone(), i.clone()]),
        run(parts("x:f32[B,2]").constant("i", i), &[x]),
    ]
    .map(|found| Ok(found?.swap_remove(0)))
}

fn check(node: &str, indices: &[i64], sizes: &[usize], expected: &Tensor) {
    for found in results(node, indices, sizes) {
        assert_eq!(found.unwrap(), *expected, "{node} of {indices:?}");
    }
}

#[test]
fn indices_count_from_the_end() {
    let gather = "y = GatherND(x, i)";
    let rows = tensor2(&[[5_f32, 6.], [1., 2.]]);
    check(gather, &[-1, -3], &[2, 1], &rows);
    check(gather, &[-1, 0, -2, -1], &[2, 2], &tensor1(&[5_f32, 4.]));
    check(gather, &[-1], &[1, 1], &tensor2(&[[5_f32, 6.]]));
    let in_batches = "y = GatherND<batch_dims=1>(x, i)";
    check(
        in_batches,
        &[-1, 0, -2],
        &[3, 1],
        &tensor1(&[2_f32, 3., 5.]),
    );
    let scatter = "y = ScatterND(x, i, rows)";
    let rows = tensor2(&[[30_f32, 40.], [3., 4.], [10., 20.]]);
    check(scatter, &[-1, 0], &[2, 1], &rows);
    let add = "y = ScatterND<reduction=\"add\">(x, i, one)";
    let sums = tensor2(&[[1_f32, 2.], [3., 4.], [15., 6.]]);
    check(add, &[-1, -2], &[1, 2], &sums);
}

#[test]
fn a_batch_of_one_is_indexed_in_the_axis_after_it() {
    let x = Tensor::from_shape(&[1, 3, 2], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    let model = graph("x:f32[1,3,2]", "y", "y = GatherND<batch_dims=1>(x, i)");
    let found = run(model.constant("i", tensor2(&[[2_i64]])), &[x]).unwrap();
    assert_eq!(found[0], tensor2(&[[5_f32, 6.]]));
}

#[test]
fn an_index_out_of_range_is_an_error() {
    for (node, sizes) in [
        ("y = GatherND(x, i)", &[1, 1]),
        ("y = ScatterND<reduction=\"max\">(x, i, row)", &[1, 1]),
    ] {
        for index in [3, -4] {
            for found in results(node, &[index], sizes) {
                let message = format!("{:#}", found.unwrap_err());
                let expected =
                    format!("index {index} lies outside of axis 0, which has 3 elements");
                assert!(message.contains(&expected), "{message}");
            }
        }
    }
}

#[test]
fn data_and_indices_have_the_same_batches() {
    let node = "y = GatherND<batch_dims=1>(x, i)";
    for found in results(node, &[0, 0], &[2, 1]) {
        let message = format!("{:#}", found.unwrap_err());
        let expected =
            "its data is [3, 2], and its indices [2, 1], expected the same sizes of 1 axes";
        assert!(message.contains(expected), "{message}");
    }
}
