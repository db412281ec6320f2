//! Tests of LayerNormalization against its definition.

use proptest::prelude::*;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use super::build::{graph, ops, parse, run_each};

/// Numbers whose rows differ in mean and spread.
fn numbers(sizes: &[usize], seed: usize) -> Tensor {
    let count: usize = sizes.iter().product();
    let all: Vec<f32> = (0..count)
        .map(|it| ((it * 37 + it / 5 + seed * 11) % 61) as f32 / 8.0 + (it / 7 % 9) as f32)
        .collect();
    tensor1(&all).into_shape(sizes).unwrap()
}

/// The definition, in doubles.
fn expected(x: &Tensor, scale: &Tensor, bias: Option<&Tensor>, row: usize) -> Tensor {
    let elements = |value: &Tensor| -> Vec<f64> {
        let value = value.to_plain_array_view::<f32>().unwrap();
        value.iter().map(|it| f64::from(*it)).collect()
    };
    let scale = elements(scale);
    let bias = bias.map_or(vec![0.0; row], elements);
    let x_elements = elements(x);
    let normal = x_elements.chunks(row.max(1)).flat_map(|row| {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + 1e-5).sqrt();
        let normal = row.iter().enumerate();
        let normal = normal.map(|(at, it)| (it - mean) / deviation * scale[at] + bias[at]);
        normal.map(|it| it as f32).collect::<Vec<_>>()
    });
    let normal: Vec<f32> = normal.collect();
    Tensor::from_shape(x.shape(), &normal).unwrap()
}

#[track_caller]
fn check(sizes: &[usize], axis: usize, has_bias: bool, is_last: bool, is_symbolic: bool) {
    let row: usize = sizes[axis..].iter().product();
    let names = ["N", "M", "K", "L"].iter().zip(sizes).enumerate();
    let declared = names.map(|(at, (name, size))| match is_symbolic && at < axis {
        true => (*name).to_owned(),
        false => size.to_string(),
    });
    let declared = declared.collect::<Vec<_>>().join(",");
    let axis_given = if is_last {
        axis as i64 - sizes.len() as i64
    } else {
        axis as i64
    };
    let inputs = if has_bias { "x, s, b" } else { "x, s" };
    let model = graph(
        &format!("x:f32[{declared}]"),
        "y",
        &format!("y = LayerNormalization<axis={axis_given}>({inputs})"),
    );
    let (scale, bias) = (numbers(&sizes[axis..], 1), numbers(&sizes[axis..], 2));
    let mut model = model.constant("s", scale.clone());
    if has_bias {
        model = model.constant("b", bias.clone());
    }
    let x = numbers(sizes, 3);
    let found = run_each(model, &[vec![x.clone()]]).unwrap();
    let expected = expected(&x, &scale, has_bias.then_some(&bias), row);
    found[0][0]
        .close_enough(&expected, Approximation::Custom(1e-4, 1e-4, 0.))
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rows_are_normalised(
        sizes in proptest::collection::vec(1_usize..40, 1..4),
        axis in 0_usize..4,
        [has_bias, is_last, is_symbolic] in any::<[bool; 3]>(),
    ) {
        check(&sizes, axis % sizes.len(), has_bias, is_last, is_symbolic);
    }
}

#[test]
fn there_may_be_no_rows_or_nothing_in_them() {
    for sizes in [[0, 4], [3, 0]] {
        check(&sizes, 1, true, true, true);
        check(&sizes, 1, false, true, false);
    }
}

#[test]
fn one_operator_stands_for_it_wherever_axes_move() {
    // The last Transpose undoes the first, and both go through it.
    let model = graph(
        "x:f32[1,N,3,4]",
        "y",
        "t = Transpose<perm=[0,2,1,3]>(x)
         n = LayerNormalization(t, s, b)
         m = Relu(n)
         y = Transpose<perm=[0,2,1,3]>(m)",
    )
    .constant("s", numbers(&[4], 1))
    .constant("b", numbers(&[4], 2));
    let typed = parse(model.clone()).unwrap().into_typed().unwrap();
    let found = ops(&revseq_tract_operators::into_optimized(typed).unwrap());
    let count = |name: &str| found.iter().filter(|it| *it == name).count();
    assert_eq!(count("LayerNorm"), 1, "{found:?}");
    assert_eq!(count("MoveAxis"), 0, "{found:?}");
    let x = numbers(&[1, 5, 3, 4], 3);
    let found = run_each(model, &[vec![x.clone()]]).unwrap();
    let expected = expected(&x, &numbers(&[4], 1), Some(&numbers(&[4], 2)), 4);
    let view = expected.to_plain_array_view::<f32>().unwrap();
    let positive: Vec<f32> = view.iter().map(|it| it.max(0.0)).collect();
    let expected = Tensor::from_shape(&[1, 5, 3, 4], &positive).unwrap();
    found[0][0]
        .close_enough(&expected, Approximation::Custom(1e-4, 1e-4, 0.))
        .unwrap();
}

/// A scale of one number, and outputs of the statistics, are tract's.
#[test]
fn other_forms_stay() {
    for (nodes, outputs) in [
        ("y = LayerNormalization(x, [1.0], [1.0])", "y"),
        ("y, m, d = LayerNormalization(x, s, s)", "y m d"),
    ] {
        let model = graph("x:f32[N,4]", outputs, nodes).constant("s", tensor1(&[1_f32; 4]));
        let x = numbers(&[3, 4], 3);
        let found = run_each(model, &[vec![x.clone()]]).unwrap();
        let ones = tensor1(&[1_f32; 4]);
        let expected = expected(&x, &ones, Some(&ones), 4);
        found[0][0]
            .close_enough(&expected, Approximation::Custom(1e-4, 1e-4, 0.))
            .unwrap();
    }
}
