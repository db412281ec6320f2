//! What plain tract refuses or computes wrong, row by row of UPSTREAM.md: a row that it has mended fails here,
//! and says what to delete.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use crate::build::{Graph, Names, graph, run_optimized};

/// A model that shows a row: its inputs, and the first output as ONNX defines it; none if that is an error.
struct Shown {
    row: &'static str,
    graph: Graph,
    inputs: Vec<Tensor>,
    right: Option<Tensor>,
}

fn shown(row: &'static str, graph: Graph, inputs: &[Tensor], right: impl IntoTensor) -> Shown {
    Shown {
        row,
        graph,
        inputs: inputs.to_vec(),
        right: Some(right.into_tensor()),
    }
}

/// A model that is an error.
fn refused(row: &'static str, graph: Graph, inputs: &[Tensor]) -> Shown {
    Shown {
        row,
        graph,
        inputs: inputs.to_vec(),
        right: None,
    }
}

/// A model of one line, whose first output is `y`.
fn of(inputs: &str, node: &str) -> Graph {
    graph(inputs, "y", node)
}

fn half(value: f32) -> f16 {
    f16::from_f32(value)
}

/// Steps of `[2]` through a loop of a Softmax along their only axis.
fn softmax_in_a_scan() -> Graph {
    let body = graph(
        "x_t:f32[2]",
        "y_t:f32[1,2]",
        "u = Unsqueeze(x_t, [0])\ny_t = Softmax<axis=0>(u)",
    );
    let nodes = "y = Scan<body=@body;num_scan_inputs=1>(x)";
    of("x:f32[3,2]", nodes).with("body", body)
}

fn operators() -> Vec<Shown> {
    let vector = |count: usize| tensor1(&vec![1_f32; count]);
    let zeros = |sizes: &[usize]| Tensor::zero::<f32>(sizes).unwrap();
    vec![
        shown(
            "Softmax, LogSoftmax and others in a Scan",
            softmax_in_a_scan(),
            &[zeros(&[3, 2])],
            Tensor::from_shape(&[3, 1, 2], &[1_f32; 6]).unwrap(),
        ),
        refused(
            "BatchNormalization of its own batch",
            of(
                "x:f32[2,1]",
                "y = BatchNormalization<training_mode=1>(x, one, one, one, one)",
            )
            .constant("one", vector(1)),
            &[zeros(&[2, 1])],
        ),
        refused(
            "Conv",
            of("x:f32[1,1,2]", "y = Conv(x, w)").constant("w", tensor3(&[[[1_f32, 1., 1.]]])),
            &[zeros(&[1, 1, 2])],
        ),
        shown(
            "Div",
            of("x:f32[1]", "q = Div(x, d)\ny = Floor(q)").constant("d", tensor1(&[41_f32])),
            &[tensor1(&[41_f32])],
            tensor1(&[1_f32]),
        ),
        refused(
            "Div",
            of("x:i64[1] d:i64[1]", "y = Div(x, d)"),
            &[tensor1(&[1_i64]), tensor1(&[0_i64])],
        ),
        shown(
            "Dropout before opset 12",
            graph("x:f32[2]", "y", "_unread, y = Dropout(x)").opset(10),
            &[vector(2)],
            tensor1(&[false, false]),
        ),
        shown(
            "Einsum",
            of(
                "x:f32[2,2] w:f32[2,2]",
                "y = Einsum<equation=\"ij,jk->\">(x, w)",
            ),
            &[
                tensor2(&[[1_f32, 1.], [1., 1.]]),
                tensor2(&[[1_f32, 1.], [1., 1.]]),
            ],
            tensor0(8_f32),
        ),
        shown(
            "operators of empty values",
            of("x:f32[2,0,4]", "y = Flatten<axis=2>(x)"),
            &[zeros(&[2, 0, 4])],
            zeros(&[0, 4]),
        ),
        shown(
            "Celu, Elu, Erf, Gelu, Softplus and others",
            of("x:f32[1]", "y = Softplus(x)"),
            &[tensor1(&[100_f32])],
            tensor1(&[100_f32]),
        ),
        shown(
            "Gemm of doubles and integers",
            of(
                "x:f64[1,1] w:f64[1,1] c:f64[1,1]",
                "y = Gemm<beta=0.5>(x, w, c)",
            ),
            &[
                tensor2(&[[4_f64]]),
                tensor2(&[[3_f64]]),
                tensor2(&[[4_f64]]),
            ],
            tensor2(&[[14_f64]]),
        ),
        shown(
            "GlobalLpPool",
            of("x:f32[1,1,2]", "y = GlobalLpPool(x)"),
            &[tensor3(&[[[3_f32, -4.]]])],
            tensor3(&[[[5_f32]]]),
        ),
        shown(
            "int64 beside sizes",
            of("x:f32[N] n:i64[1]", "s = Shape(x)\ny = Max(s, n)"),
            &[vector(3), tensor1(&[1_i64 << 40])],
            tensor1(&[1_i64 << 40]),
        ),
        shown(
            "LogSoftmax",
            of("x:f32[2]", "y = LogSoftmax<axis=0>(x)"),
            &[tensor1(&[0_f32, 200.])],
            tensor1(&[-200_f32, 0.]),
        ),
        shown(
            "MatMul of two vectors, of wide integers, of sizes that may differ",
            of("x:f32[2] w:f32[2]", "y = MatMul(x, w)"),
            &[vector(2), vector(2)],
            tensor0(2_f32),
        ),
        shown(
            "MaxPool",
            of(
                "x:f32[1,1,2]",
                "most = MaxPool<kernel_shape=[2]>(x)\ny = IsInf(most)",
            ),
            &[tensor3(&[[[f32::NEG_INFINITY, f32::NEG_INFINITY]]])],
            tensor3(&[[[true]]]),
        ),
        shown(
            "Mod",
            of("x:i64[1] d:i64[3]", "y = Mod(x, d)"),
            &[tensor1(&[7_i64]), tensor1(&[2_i64, 4, 5])],
            tensor1(&[1_i64, 3, 2]),
        ),
        shown(
            "Mul, Pow of integers",
            of("x:i64[1]", "y = Mul(x, x)"),
            &[tensor1(&[3_i64])],
            tensor1(&[9_i64]),
        ),
        shown(
            "GatherND, ScatterND, OneHot",
            of("x:f32[2]", "y = GatherND(x, i)").constant("i", tensor2(&[[-1_i64]])),
            &[tensor1(&[1_f32, 2.])],
            tensor1(&[2_f32]),
        ),
        shown(
            "RandomNormalLike, RandomUniformLike",
            of(
                "x:f32[2]",
                "r = RandomUniformLike<low=1.0;high=2.0>(x)\ny = Greater(r, x)",
            )
            .named(Names::OfOutputs),
            &[zeros(&[2])],
            tensor1(&[true, true]),
        ),
        shown(
            "Range",
            of(
                "x:f32[N]",
                "s = Shape(x)\nn = Squeeze(s)\ny = Range(a, n, d)",
            )
            .constants("a = 3, d = 1"),
            &[vector(1)],
            Tensor::zero::<i64>(&[0]).unwrap(),
        ),
        shown(
            "reductions",
            of("x:f32[2]", "most = ReduceMax(x)\ny = IsInf(most)"),
            &[tensor1(&[f32::NEG_INFINITY, f32::NEG_INFINITY])],
            tensor1(&[true]),
        ),
        shown(
            "Resize of opset 10, Upsample",
            of("x:f32[2]", "y = Resize(x, scales)")
                .opset(10)
                .constant("scales", tensor1(&[3_f32])),
            &[tensor1(&[1_f32, 2.])],
            tensor1(&[1_f32, 1., 1., 2., 2., 2.]),
        ),
        shown(
            "sums of half floats along other axes than the last, and their Sigmoid and Tanh without AVX-512",
            of("x:f16[4096,1]", "y = ReduceSum<axes=[0]>(x)").opset(12),
            &[tensor1(&[half(1.); 4096]).into_shape(&[4096, 1]).unwrap()],
            tensor2(&[[half(4096.)]]),
        ),
        refused(
            "Split",
            graph("x:f32[3]", "a", "a, b = Split(x, sizes)")
                .constant("sizes", tensor1(&[1_i64, 1])),
            &[vector(3)],
        ),
        refused(
            "TopK",
            of("x:f32[2]", "y, _places = TopK(x, k)").constant("k", tensor1(&[3_i64])),
            &[vector(2)],
        ),
    ]
}

/// Runs a model on plain tract, whose passes optimise it.
fn on_tract(graph: Graph, inputs: &[Tensor]) -> TractResult<Vec<TValue>> {
    let parsed = tract_onnx::onnx().parse(&graph.into_model(), None)?;
    let inputs = inputs.iter().map(|it| it.clone().into_tvalue());
    let plan = parsed.model.into_optimized()?.into_runnable()?;
    Ok(plan.run(inputs.collect())?.into_vec())
}

fn is_right(found: &Tensor, right: &Tensor) -> bool {
    let found = found.cast_to_dt(right.datum_type());
    found.is_ok_and(|it| it.close_enough(right, Approximation::Close).is_ok())
}

#[test]
fn what_tract_has_mended_is_no_row_of_the_page() {
    let mut wrong = vec![];
    for Shown {
        row,
        graph,
        inputs,
        right,
    } in operators()
    {
        let of_tract = catch_unwind(AssertUnwindSafe(|| on_tract(graph.clone(), &inputs)));
        let ours = run_optimized(graph, &inputs);
        let (is_mended, is_ours_right) = match &right {
            Some(right) => (
                matches!(of_tract, Ok(Ok(found)) if is_right(&found[0], right)),
                matches!(&ours, Ok(found) if is_right(&found[0], right)),
            ),
            None => (matches!(of_tract, Ok(Err(_))), ours.is_err()),
        };
        if is_mended {
            wrong.push(format!("{row}: tract has it; delete what the page says"));
        }
        if !is_ours_right {
            wrong.push(format!("{row}: expected {right:?}, found {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_operator_of_the_page_is_shown() {
    let page = include_str!("../../UPSTREAM.md");
    let (_, table) = page.split_once("## Single operators").expect("a section");
    let (table, _) = table.split_once("\n## ").expect("another section");
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows
        .skip(1)
        .filter_map(|it| it.split(" | ").next())
        .collect();
    let mut shown: Vec<&str> = operators().iter().map(|it| it.row).collect();
    shown.dedup();
    // tract reads beyond a shape there, which ends a process with checks, or counts to 2^64.
    let rows = rows.iter().map(|it| it.trim_start_matches("| "));
    let rows: Vec<&str> = rows.filter(|it| *it != "axes beyond the rank").collect();
    assert_eq!(rows, shown);
}
