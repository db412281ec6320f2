//! Tests of arithmetic with an operand for each channel, against tract's operators, which an
//! unoptimised model runs.

use tract_onnx::prelude::*;

use super::build::graph;
use super::convolutions::check;

const IMAGE: [usize; 3] = [3, 8, 40];

#[test]
fn an_operand_for_each_channel_is_repeated_for_each_image() {
    let row = Tensor::from_shape(&[1, 3, 1, 40], &[2_f32; 120]).unwrap();
    let column = Tensor::from_shape(&[1, 1, 8, 1], &[3_f32; 8]).unwrap();
    for (node, served) in [
        ("y = Mul(x, c)", ["1", "2", "N"].as_slice()),
        ("y = Add(c, x)", &["1", "2", "N"]),
        ("y = Sub(x, c)", &["1", "2", "N"]),
        ("y = Max(x, c)", &["1", "2", "N"]),
        ("y = Mul(x, column)", &["1", "2", "N"]),
        // tract takes the operand as the second one, and exchanges them for known sizes.
        ("y = Sub(c, x)", &["1"]),
        ("y = Mul(x, row)", &[]),
    ] {
        for (batch, batches) in [("1", &[1][..]), ("2", &[2]), ("N", &[3, 1, 0])] {
            let shape = format!("x:f32[{batch},3,8,40]");
            let graph = graph(&shape, "y", node)
                .constant("c", tensor4(&[[[[2_f32]], [[-3.]], [[0.5]]]]))
                .constant("column", column.clone())
                .constant("row", row.clone());
            let found = check(&graph, &IMAGE, batches);
            let by_channel = found.iter().any(|op| op.ends_with("ByScalar"));
            let expected = served.contains(&batch);
            assert_eq!(by_channel, expected, "{node} of {batch}: {found:?}");
        }
    }
}

/// Sizes that are not known, or too small, end the optimisation as well.
#[test]
fn other_sizes_are_left_to_tract() {
    for sizes in ["H,40", "H,W", "8,2", "1,1"] {
        let shape = format!("x:f32[N,3,{sizes}]");
        let graph = graph(&shape, "y", "y = Mul(x, c)")
            .constant("c", tensor4(&[[[[2_f32]], [[-3.]], [[0.5]]]]));
        let image = match sizes {
            "8,2" => [3, 8, 2],
            "1,1" => [3, 1, 1],
            _ => IMAGE,
        };
        let found = check(&graph, &image, &[3, 1, 0]);
        assert!(!found.contains(&"MultiBroadcastTo".to_owned()), "{found:?}");
    }
}
