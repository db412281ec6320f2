//! What plain tract refuses or computes wrong, row by row of UPSTREAM.md: a row that it has mended fails here,
//! and says what to delete.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

use crate::build::{Graph, Names, run_optimized, value, whole};

/// A model that shows a row: its inputs, and the first output as ONNX defines it; none if that is an error.
struct Shown {
    row: &'static str,
    graph: Graph,
    inputs: Vec<Tensor>,
    right: Option<Tensor>,
}

/// The rows: what the page calls it and the version of the operators if it matters, a model, and its inputs with
/// what is right.
const ROWS: &str = r#"
    Softmax, LogSoftmax and others in a Scan
    x:f32[3,2] -> y
    y = Scan<body=@body;num_scan_inputs=1>(x)
    @body: x_t:f32[2] -> y_t:f32[1,2]
    u = Unsqueeze(x_t, [0])
    y_t = Softmax<axis=0>(u)
    0.0@3x2 => 1.0@3x1x2

    BatchNormalization of its own batch
    x:f32[2,1] -> y
    y = BatchNormalization<training_mode=1>(x, [1.0], [1.0], [1.0], [1.0])
    0.0@2x1 => !

    Conv
    x:f32[1,1,2] -> y
    w:f32[1,1,3] = 1.0
    y = Conv(x, w)
    0.0@1x1x2 => !

    Div
    x:f32[1] -> y
    q = Div(x, [41.0])
    y = Floor(q)
    [41.0] => [1.0]

    Div
    x:i64[1] d:i64[1] -> y
    y = Div(x, d)
    [1], [0] => !

    Dropout before opset 12 @10
    x:f32[2] -> y
    _unread, y = Dropout(x)
    [1.0 1.0] => [false false]

    Einsum
    x:f32[2,2] w:f32[2,2] -> y
    y = Einsum<equation="ij,jk->">(x, w)
    1.0@2x2, 1.0@2x2 => 8.0

    operators of empty values
    x:f32[2,0,4] -> y
    y = Flatten<axis=2>(x)
    []f32@2x0x4 => []f32@0x4

    Celu, Elu, Erf, Gelu, Softplus and others
    x:f32[1] -> y
    y = Softplus(x)
    [100.0] => [100.0]

    Gemm of doubles and integers
    x:f64[1,1] w:f64[1,1] c:f64[1,1] -> y
    y = Gemm<beta=0.5>(x, w, c)
    4.0f64@1x1, 3.0f64@1x1, 4.0f64@1x1 => 14.0f64@1x1

    GlobalLpPool
    x:f32[1,1,2] -> y
    y = GlobalLpPool(x)
    [3.0 -4.0]@1x1x2 => 5.0@1x1x1

    int64 beside sizes
    x:f32[N] n:i64[1] -> y
    s = Shape(x)
    y = Max(s, n)
    [1.0 1.0 1.0], [1099511627776] => [1099511627776]

    LogSoftmax
    x:f32[2] -> y
    y = LogSoftmax<axis=0>(x)
    [0.0 200.0] => [-200.0 0.0]

    MatMul of two vectors, of wide integers, of sizes that may differ
    x:f32[2] w:f32[2] -> y
    y = MatMul(x, w)
    [1.0 1.0], [1.0 1.0] => 2.0

    MaxPool
    x:f32[1,1,2] -> y
    most = MaxPool<kernel_shape=[2]>(x)
    y = IsInf(most)
    -1e39f32@1x1x2 => true@1x1x1

    Mod
    x:i64[1] d:i64[3] -> y
    y = Mod(x, d)
    [7], [2 4 5] => [1 3 2]

    Mul, Pow of integers
    x:i64[1] -> y
    y = Mul(x, x)
    [3] => [9]

    GatherND, ScatterND, OneHot
    x:f32[2] -> y
    i:i64[1,1] = -1
    y = GatherND(x, i)
    [1.0 2.0] => [2.0]

    RandomNormalLike, RandomUniformLike
    x:f32[2] -> y
    r = RandomUniformLike<low=1.0;high=2.0>(x)
    y = Greater(r, x)
    [0.0 0.0] => [true true]

    Range
    x:f32[N] -> y
    s = Shape(x)
    n = Squeeze(s)
    y = Range(3, n, 1)
    [1.0] => []

    reductions
    x:f32[2] -> y
    most = ReduceMax(x)
    y = IsInf(most)
    [-1e39 -1e39]f32 => [true]

    Resize of opset 10, Upsample @10
    x:f32[2] -> y
    y = Resize(x, [3.0])
    [1.0 2.0] => [1.0 1.0 1.0 2.0 2.0 2.0]

    sums of half floats along other axes than the last, and their Sigmoid and Tanh without AVX-512 @12
    x:f32[4096,1] -> y
    h = Cast<to=10>(x)
    s = ReduceSum<axes=[0]>(h)
    y = Cast<to=1>(s)
    1.0@4096x1 => 4096.0@1x1

    Split
    x:f32[3] -> a
    a, b = Split(x, [1 1])
    [1.0 1.0 1.0] => !

    TopK
    x:f32[2] -> y
    y, _places = TopK(x, [3])
    [1.0 1.0] => !"#;

fn operators() -> Vec<Shown> {
    let shown = |part: &'static str| {
        let lines: Vec<&str> = part
            .lines()
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        let [row, model @ .., values] = &lines[..] else {
            panic!("{part}");
        };
        let (row, opset) = row.split_once(" @").unwrap_or((row, "17"));
        let graph = whole(&model.join("\n")).named(Names::OfOutputs);
        let (inputs, right) = values.split_once(" => ").expect("inputs and what is right");
        Shown {
            row,
            graph: graph.opset(opset.parse().unwrap()),
            inputs: inputs.split(", ").map(value).collect(),
            right: (right != "!").then(|| value(right)),
        }
    };
    ROWS.split("\n\n").map(shown).collect()
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
