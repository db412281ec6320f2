//! Operators over an axis of one element that a step makes: they are taken over that, and not over the
//! steps.

use revseq_test_models::text;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, graph, run, run_each, run_once};

/// The elements of a step.
const WIDTH: usize = 3;

const STEPS: usize = 4;

/// Nodes that compute `y` from `u`, which has an element more than `x`, along the first axis or the last, and
/// their name.
const OPERATORS: &str = "
    y = Softmax<axis=0>(u) => Softmax
    v = Softmax<axis=0>(u)
    y = Softmax<axis=1>(v) => Softmax over two axes
    v = Add(u, ones)
    y = Softmax<axis=0>(v) => Softmax of a sum
    y = LogSoftmax<axis=0>(u) => LogSoftmax
    y = Hardmax<axis=0>(u) => Hardmax
    y = LpNormalization<axis=0>(u) => LpNormalization
    y = MeanVarianceNormalization<axes=[0]>(u) => MeanVarianceNormalization
    y = CumSum(u, none) => CumSum
    y = CumSum<reverse=1>(u, none) => CumSum backwards
    y = CumSum<exclusive=1>(u, none) => CumSum without the last
    y = ReduceSum(u, zero) => ReduceSum
    y = ReduceMean<axes=[0]>(u) => ReduceMean
    y = ReduceMax<axes=[0];keepdims=0>(u) => ReduceMax
    y = ReduceMin<axes=[0]>(u) => ReduceMin
    y = ReduceProd<axes=[0]>(u) => ReduceProd
    y = ReduceL1<axes=[0]>(u) => ReduceL1
    y = ReduceL2<axes=[0]>(u) => ReduceL2
    v = Exp(u)
    y = ReduceLogSum<axes=[0]>(v) => ReduceLogSum
    y = ReduceLogSumExp<axes=[0]>(u) => ReduceLogSumExp
    y = ReduceSumSquare<axes=[0]>(u) => ReduceSumSquare
    v = ArgMax<axis=0>(u)
    y = Cast<to=1>(v) => ArgMax
    v = ArgMin<axis=0;keepdims=0>(u)
    y = Cast<to=1>(v) => ArgMin
    y, _i = TopK<axis=0>(u, one) => TopK
    _v, w = TopK<axis=0>(u, one)
    y = Cast<to=1>(w) => TopK's places
    y = Gather<axis=0>(u, twice) => Gather
    y = GatherElements<axis=0>(u, zeros) => GatherElements
    y = GatherND(u, firsts) => GatherND
    y = ScatterElements<axis=0>(u, zeros, ones) => ScatterElements
    y = ScatterND(u, firsts, ones) => ScatterND
    y = Compress<axis=0>(u, yes) => Compress
    y = Pad(u, pads) => Pad
    y = Pad<mode=\"edge\">(u, pads) => Pad with the edge
    y = Concat<axis=0>(u, ones) => Concat
    y = Concat<axis=0>(u, u) => Concat with itself
    y = Concat<axis=1>(u, ones) => Concat along the other axis
    y = Expand(u, three) => Expand
    y = Tile(u, tiles) => Tile
    y = Slice(u, zero, one, zero) => Slice
    y = Slice(u, zero, five, zero) => Slice of nothing left
    y = Slice(u, minus, low, zero, minus) => Slice backwards
    y = Trilu<upper=0>(u) => Trilu
    v = Cast<to=7>(u)
    y = OneHot<axis=0>(v, one, on_off) => OneHot
    y = Transpose(u) => Transpose
    y = Flatten<axis=0>(u) => Flatten
    y = Reshape(u, flat) => Reshape
    y = MatMul(u, square) => MatMul
    v = Transpose(u)
    y = MatMul(v, u) => MatMul with itself
    y = Gemm(u, square, ones) => Gemm
    y = Einsum<equation=\"ab,cb->c\">(u, square) => Einsum
    y = Add(u, rows) => a sum with more rows
    y = Mul(u, steps) => a sum with as many rows as steps
    v = Greater(u, rows)
    y = Where(v, u, rows) => Where
    y = LayerNormalization<axis=0>(u, scale) => LayerNormalization
    y = LayerNormalization<axis=-1>(u, ones) => LayerNormalization of the last
    v = Unsqueeze(u, zero)
    y = MaxPool<kernel_shape=[2];pads=[1,0];strides=[1]>(v) => MaxPool
    v = Unsqueeze(u, zero)
    y = Conv<pads=[1,1]>(v, weights) => Conv
    y, _mask = Dropout(u) => Dropout
    h = Shape(u)
    v = Gather(h, none)
    w = Cast<to=1>(v)
    y = Mul(u, w) => Range of its size";

/// What tract refuses: a Scan has no sizes from data, and its own optimizer takes no output that is
/// known.
const REFUSED: [(&str, &str); 2] = [
    ("Compress", "a Scan"),
    ("CumSum without the last", "a Scan"),
];

fn with_constants(graph: Graph) -> Graph {
    let shaped = |shape: &[usize], elements: &[f32]| Tensor::from_shape(shape, elements).unwrap();
    let square: Vec<f32> = (0..9).map(|at| at as f32 / 4.0 - 1.0).collect();
    graph
        .constants("none = 0, zero = [0], one = [1], five = [5], minus = [-1], low = [-9223372036854775808], twice = [0 0]")
        .constant("zeros", Tensor::zero::<i64>(&[1, WIDTH]).unwrap())
        .constant("firsts", Tensor::zero::<i64>(&[1, 1]).unwrap())
        .constants("yes = [true], pads = [1 0 1 0]")
        .constant("three", tensor1(&[3_i64, WIDTH as i64]))
        .constants("tiles = [2 1], flat = [-1], on_off = [0.5 2.0]")
        .constant("ones", shaped(&[1, WIDTH], &[1.0, 0.5, 0.25]))
        .constant("scale", shaped(&[1, WIDTH], &[1.0, 2.0, 0.5]))
        .constant("square", shaped(&[WIDTH, WIDTH], &square))
        .constant("rows", shaped(&[2, 1], &[0.25, -0.25]))
        .constant("steps", shaped(&[STEPS, 1], &[1.0, 2.0, 3.0, 4.0]))
        .constant(
            "weights",
            shaped(&[2, 1, 3], &[1.0, -1.0, 0.5, 0.25, 2.0, -0.5]),
        )
        .constant("truth", tensor0(true))
}

/// `y` of a step, and a state that adds all of them.
fn body(inputs: &str, outputs: &str, read: &str, operator: &str) -> Graph {
    let nodes = format!(
        "{read}\n u = Unsqueeze(xt, zero)\n {operator}\n sum = ReduceSum<keepdims=0>(y)\n t = Add(s, sum)"
    );
    graph(inputs, outputs, &nodes)
}

/// The rows of a value along its first axis, as one value each.
fn parts(value: &Tensor) -> Vec<Tensor> {
    let part = |at| {
        let mut part = value.slice(0, at, at + 1).unwrap();
        part.remove_axis(0).unwrap();
        part
    };
    (0..value.shape()[0]).map(part).collect()
}

/// A Loop over `x`, and a Scan over it.
fn models(operator: &str, size: &str) -> [(&'static str, Graph); 2] {
    let inputs = format!("x:f32[{size},3] s:f32[]");
    let read = "xt = Gather(x, i)\n d = Identity(c)";
    let of_loop = body("i c s", "d t y", read, operator);
    let nodes =
        "shape = Shape(x)\n n = Gather(shape, none)\n last, all = Loop<body=@body>(n, truth, s)";
    let of_loop = graph(&inputs, "last all", nodes).with("body", of_loop);
    let of_scan = body("s:f32[] xt:f32[3]", "t y", "", operator);
    let nodes = "last, all = Scan<num_scan_inputs=1;body=@body>(s, x)";
    let of_scan = graph(&inputs, "last all", nodes).with("body", of_scan);
    [
        ("a Loop", with_constants(of_loop)),
        ("a Scan", with_constants(of_scan)),
    ]
}

/// Compares the state and the values of all steps with those of steps alone.
fn check(model: Graph, size: &str, x: &Tensor, expected: &[Tensor]) -> TractResult<()> {
    let inputs = [x.clone(), tensor0(0.5_f32)];
    let found = match size {
        "T" => run_each(model, &[inputs.to_vec()])?.remove(0),
        _ => run(model, &inputs)?,
    };
    let mut sum = 0.5;
    for (step, (found, expected)) in std::iter::zip(parts(&found[1]), expected).enumerate() {
        let close = found.close_enough(expected, true);
        close.with_context(|| format!("step {step}"))?;
        sum += expected.to_plain_array_view::<f32>()?.sum();
    }
    found[0]
        .close_enough(&tensor0(sum), true)
        .context("the state")
}

#[test]
fn a_step_is_alone() {
    let elements = (0..STEPS * WIDTH).map(|at| ((at * 5) % 7) as f32 / 2.0 - 1.0);
    let elements: Vec<f32> = elements.collect();
    let x = Tensor::from_shape(&[STEPS, WIDTH], &elements).unwrap();
    let mut wrong = vec![];
    for (operator, name) in text::rows(OPERATORS) {
        let alone = graph(
            "xt:f32[3]",
            "y",
            &format!("u = Unsqueeze(xt, zero)\n {operator}"),
        );
        let alone = with_constants(alone);
        let alone = |part| Ok(run_once(alone.clone(), &[part])?.remove(0));
        let expected: TractResult<Vec<Tensor>> = parts(&x).into_iter().map(alone).collect();
        let expected = match expected {
            Ok(expected) => expected,
            Err(error) => {
                wrong.push(format!("{name} alone: {error:#}"));
                continue;
            }
        };
        for size in [&*STEPS.to_string(), "T"] {
            for (what, model) in models(&operator, size) {
                if REFUSED.contains(&(name, what)) {
                    continue;
                }
                if let Err(error) = check(model, size, &x, &expected) {
                    wrong.push(format!("{name} in {what} of {size}: {error:#}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
