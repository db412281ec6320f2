//! Tests of functions of two operands that broadcast, against tract's operators, which an
//! unoptimised model runs.

use tract_onnx::prelude::*;

use super::build::graph;
use super::convolutions::check;

const IMAGE: [usize; 3] = [3, 8, 40];

#[test]
fn operands_that_tract_has_no_kernel_for_are_taken_by_rows() {
    let numbers = |sizes: &[usize]| {
        let len = sizes.iter().product::<usize>();
        let numbers: Vec<f32> = (0..len).map(|it| it as f32 - 1.5).collect();
        Tensor::from_shape(sizes, &numbers).unwrap()
    };
    for (node, op) in [
        ("y = Mul(x, channel)", "MulByRows"),
        ("y = Add(channel, x)", "AddByRows"),
        ("y = Sub(x, channel)", "SubByRows"),
        ("y = Sub(channel, x)", "SubByRows"),
        ("y = Max(x, channel)", "MaxByRows"),
        ("y = Min(column, x)", "MinByRows"),
        ("y = Mul(x, column)", "MulByRows"),
        ("y = Mul(x, row)", "MulByRows"),
        ("y = Div(x, x)", "DivByRows"),
        ("y = Div(channel, x)", "DivByRows"),
        ("y = Greater(x, row)", "GreaterByRows"),
        ("y = Less(image, x)", "LessByRows"),
        ("y = Equal(x, x)", "EqualByRows"),
        ("y = GreaterOrEqual(x, column)", "GreaterOrEqualByRows"),
    ] {
        for (batch, batches) in [("2", &[2][..]), ("N", &[3, 1, 0])] {
            let shape = format!("x:f32[{batch},3,8,40]");
            let graph = graph(&shape, "y", node)
                .constant("number", numbers(&[1, 1, 1, 1]))
                .constant("channel", numbers(&[1, 3, 1, 1]))
                .constant("column", numbers(&[1, 1, 8, 1]))
                .constant("row", numbers(&[1, 3, 1, 40]))
                .constant("image", numbers(&[1, 1, 8, 40]));
            let found = check(&graph, &IMAGE, batches);
            assert!(
                found.iter().any(|it| it == op),
                "{node} of {batch}: {found:?}"
            );
        }
    }
}

/// tract's kernels take a number for all, and an operand with the last axes of the other, of known
/// sizes.
#[test]
fn operands_that_tract_has_a_kernel_for_are_its_own() {
    for (sizes, op) in [
        ([1, 1, 1, 1], "OptMulByScalar"),
        ([1, 3, 8, 40], "OptMulUnicast"),
    ] {
        let len = sizes.iter().product::<usize>();
        let operand = Tensor::from_shape(&sizes, &vec![3_f32; len]).unwrap();
        let graph = graph("x:f32[2,3,8,40]", "y", "y = Mul(x, c)").constant("c", operand);
        let found = check(&graph, &IMAGE, &[2]);
        assert!(found.iter().any(|it| it == op), "{found:?}");
    }
}

/// Sizes that are known when the model runs, and operands of which both are broadcast.
#[test]
fn any_sizes_are_taken_by_rows() {
    for sizes in ["H,40", "H,W", "8,2", "1,1"] {
        let shape = format!("x:f32[N,3,{sizes}]");
        let graph = graph(&shape, "y", "y = Div(x, c)")
            .constant("c", tensor4(&[[[[2_f32]], [[-3.]], [[0.5]]]]));
        let image = match sizes {
            "8,2" => [3, 8, 2],
            "1,1" => [3, 1, 1],
            _ => IMAGE,
        };
        check(&graph, &image, &[3, 1, 0]);
    }
    let outer = graph("x:f32[N,3,8,1]", "y", "y = Sub(x, c)")
        .constant("c", tensor4(&[[[[2_f32, -3., 0.5]]]]));
    let found = check(&outer, &[3, 8, 1], &[2, 1, 0]);
    assert!(found.contains(&"SubByRows".to_owned()), "{found:?}");
}
