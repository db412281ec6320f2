//! Quantised numbers, and what is between a DequantizeLinear and a QuantizeLinear.

use std::fmt::Write as _;

use proptest::prelude::*;
use revseq_test_models::text;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, bytes, examples, fails, graph, ops, parse, refused, run, run_optimized};

#[track_caller]
fn check(model: Graph, inputs: &[Tensor], expected: &[Tensor]) {
    assert_eq!(run(model, inputs).unwrap(), expected);
}

/// tract keeps weights of 4 bits in blocks, which it cannot slice.
#[test]
fn joined_values_are_multiplied_with_weights_in_blocks() {
    let nodes = "c = Concat<axis=1>(a, b)\ny = MatMulNBits<K=64;N=1;bits=4;block_size=32>(c, w, s)";
    let model = graph("a:f32[2,32] b:f32[2,32]", "y", nodes)
        // Each weight is 9 - 8, times the scale of its block.
        .constant(
            "w",
            tensor0(0x99_u8).broadcast_to_shape(&[1, 2, 16]).unwrap(),
        )
        .constant("s", tensor2(&[[0.5_f32, 2.0]]));
    let [a, b] = [1_f32, 3.0].map(|it| tensor0(it).broadcast_to_shape(&[2, 32]).unwrap());
    let found = run_optimized(model, &[a, b]).unwrap();
    assert_eq!(found, [tensor2(&[[208_f32], [208.0]])]);
}

#[test]
fn numbers_are_rounded_to_even_and_bounded() {
    for (zero, expected) in text::rows(
        "-3i8 => [-2 0 -8 127 -128 -128]i8
         200u8 => [201 203 195 255 0 0]u8
         7i16 => [8 10 2 32767 -32768 -32768]i16
         65530u16 => [65531 65533 65525 65535 0 0]u16",
    ) {
        examples(
            &format!("x:f32[6] s:f32[] -> y\ny = QuantizeLinear(x, s, {zero})"),
            &format!("[0.5 1.5 -2.5 1e30 -inf NaN], 0.5 => {expected}"),
        );
    }
    // 0 of the scale makes infinities and NaN.
    examples(
        "x:f32[6] s:f32[] z:i8[] -> y
         y = QuantizeLinear(x, s, z)",
        "[0.5 1.5 2.5 -0.5 -1.5 -2.5], 1.0, 0i8 => [0 2 2 0 -2 -2]i8
         [0.5 -1.5 0.0 0.0 0.0 0.0], 0.0, 3i8 => [127 -128 -128 -128 -128 -128]i8",
    );
}

#[test]
fn parameters_may_differ_along_an_axis() {
    // One element is for all, whatever the axis is.
    for (params, expected) in text::rows(
        "1 [1.0 2.0 0.5] [0 1 2]i8 => [1 0 8 4 3 -10]i8@2x3, [1.0 -2.0 3.0 4.0 4.0 -6.0]@2x3
         -2 [1.0 2.0] [0 -1]i8 => [1 -2 3 1 1 -4]i8@2x3, [1.0 -2.0 3.0 4.0 4.0 -6.0]@2x3
         5 [0.5] [1]i8 => [3 -3 7 9 11 -11]i8@2x3, [1.0 -2.0 3.0 4.0 5.0 -6.0]@2x3",
    ) {
        let (axis, params) = params.split_once(' ').unwrap();
        let params = params.replace("] [", "], [");
        let model = format!(
            "x:f32[2,3] -> q y
             q = QuantizeLinear<axis={axis}>(x, {params})
             y = DequantizeLinear<axis={axis}>(q, {params})"
        );
        examples(
            &model,
            &format!("[1.0 -2.0 3.0 4.0 5.0 -6.0]@2x3 => {expected}"),
        );
    }
}

#[test]
fn parameters_may_differ_by_block() {
    examples(
        "q:i8[2,5] -> y
         s:f32[2,3] = [1.0 2.0 3.0 4.0 5.0 6.0]
         z:i8[2,3] = [0 1 2 3 4 5]i8
         y = DequantizeLinear<axis=1;block_size=2>(q, s, z)",
        "[1 2 3 4 5 6 7 8 9 10]i8@2x5 => [1.0 2.0 4.0 6.0 9.0 12.0 16.0 20.0 25.0 30.0]@2x5",
    );
    examples(
        "x:f32[3,2] -> y
         s:f32[2,2] = [1.0 2.0 0.5 0.25]
         y = QuantizeLinear<axis=0;block_size=2>(x, s)",
        "[1.0 2.0 3.0 4.0 5.0 6.0]@3x2 => [1 1 3 2 10 24]u8@3x2",
    );
}

#[test]
fn all_types_are_computed() {
    for name in ["i8", "u8", "i16", "u16", "i32"] {
        examples(
            &format!("q:{name}[2] s:f32[] -> y\ny = DequantizeLinear(q, s)"),
            &format!("[6 100]{name}, 0.5 => [3.0 50.0]"),
        );
    }
    examples(
        "q:i32[2] s:f32[] -> y
         y = DequantizeLinear(q, s)",
        "[-2147483648 2147483647]i32, 1.0 => [-2147483648.0 2147483647.0]",
    );
    // The type of the scale is that of the result.
    let halves = graph("q:i8[2] s:f16[]", "y", "y = DequantizeLinear(q, s)");
    let scale = tensor0(f16::from_f32(0.5));
    let expected = tensor1(&[3.0, -64.0].map(f16::from_f32));
    check(
        halves,
        &[tensor1(&[6_i8, -128]), scale.clone()],
        &[expected],
    );
    let nodes = "y = QuantizeLinear<output_dtype=3>(x, s)";
    let halves = graph("x:f16[2] s:f16[]", "y", nodes);
    let x = tensor1(&[3.0, -1.25].map(f16::from_f32));
    check(halves, &[x, scale], &[tensor1(&[6_i8, -2])]);
    examples(
        "x:f64[2] s:f64[] -> y
         y = QuantizeLinear(x, s)",
        "[0.500000000001 0.5]f64, 1.0f64 => [1 0]u8",
    );
    examples(
        "x:i32[2] s:f32[] -> y
         y = QuantizeLinear(x, s)",
        "[9 -1]i32, 2.0 => [4 0]u8",
    );
}

#[test]
fn a_range_is_quantized() {
    let of = |count: f32| count / 255.0;
    let (three, four) = (of(3.0), of(4.0));
    examples(
        "x:f32[N] -> y s z
         y, s, z = DynamicQuantizeLinear(x)",
        &format!(
            "[3.0 4.0] => [191 255]u8, {four:?}, 0u8
             [-3.0 -4.0] => [64 0]u8, {four:?}, 255u8
             [1.0 2.0 -1.0] => [170 255 0]u8, {three:?}, 85u8
             [0.0 0.0] => [0 0]u8, 1.0, 0u8
             []f32 => []u8, 1.0, 0u8"
        ),
    );
}

#[test]
fn weights_are_dequantized_once() {
    // More than tract folds by itself.
    let rows = 1200;
    let weights: Vec<i8> = (0..rows * rows).map(|it| it as i8).collect();
    let weights = Tensor::from_shape(&[rows, rows], &weights).unwrap();
    let model = graph(
        &format!("x:f32[1,{rows}]"),
        "y",
        "w = DequantizeLinear(q, 0.5)
         t = Transpose<perm=[1,0]>(w)
         y = MatMul(x, t)",
    )
    .constant("q", weights);
    let typed = parse(model).unwrap().into_typed().unwrap();
    let model = revseq_tract_operators::into_optimized(typed).unwrap();
    let names: Vec<StaticName> = model.nodes().iter().map(|node| node.op.name()).collect();
    assert!(
        names.iter().all(|name| !name.starts_with("Dequantize")),
        "{names:?}"
    );
}

#[test]
fn what_does_not_fit_is_an_error() {
    refused(
        "x:f32[2,3] -> y
         y = QuantizeLinear(x, [1.0 2.0]) => its scale has the shape [2], expected [3]
         x:f32[2,3] -> y
         y = QuantizeLinear<axis=2>(x, [1.0 2.0]) => its axis is 2, of 2 axes
         x:f32[2,3] -> y
         y = QuantizeLinear<axis=-3>(x, [1.0 2.0]) => its axis is -3, of 2 axes
         x:f32[4] -> y
         s:f32[1,2] = [1.0 2.0]
         y = QuantizeLinear<axis=0;block_size=2>(x, s) => its scale has 2 axes, expected 1
         x:f32[2,3] -> y
         y = QuantizeLinear<output_dtype=17>(x, 1.0)
         => its output_dtype is the type of number 17, which tract does not have",
        |model| model,
    );
}

#[test]
fn products_take_vectors() {
    for (inputs, row) in text::rows(
        "a:u8[3] b:u8[3,2] => [1 2 3]u8, [4 5 6 7 8 9]u8@3x2 = [40 46]i32
         a:u8[3] b:u8[3] => [1 2 3]u8, [1 2 3]u8 = 14i32
         a:u8[2,3] b:u8[3] => [1 0 0 0 1 2]u8@2x3, [1 2 3]u8 = [1 8]i32",
    ) {
        let model = format!("{inputs} -> y\ny = MatMulInteger(a, b)");
        examples(&model, &row.replace(" = ", " => "));
    }
}

/// The products of integers less their zero points, in tract's products of wide integers.
fn wide_product(operands: [&Tensor; 2], zeros: [&Tensor; 2]) -> Tensor {
    let wide = |it: &Tensor| it.cast_to::<i64>().unwrap().into_owned();
    let names = |name: &str, of: &Tensor| {
        let sizes: Vec<String> = of.shape().iter().map(usize::to_string).collect();
        format!("{name}:i64[{}]", sizes.join(","))
    };
    let inputs = [
        names("a", operands[0]),
        names("b", operands[1]),
        names("za", zeros[0]),
        names("zb", zeros[1]),
    ];
    let nodes = "c = Sub(a, za)\nd = Sub(b, zb)\ny = MatMul(c, d)";
    let all = [operands[0], operands[1], zeros[0], zeros[1]].map(wide);
    let mut found = run(graph(&inputs.join(" "), "y", nodes), &all).unwrap();
    found.remove(0)
}

#[test]
fn products_have_all_types_zero_points_and_batches() {
    let batches: [([&[usize]; 2], &str); 4] = [
        ([&[3, 5], &[5, 70]], ""),
        ([&[2, 3, 5], &[5, 4]], "rows of one matrix"),
        ([&[2, 1, 3, 5], &[4, 5, 6]], "both broadcast"),
        ([&[3, 5], &[2, 5, 4]], "the first broadcasts"),
    ];
    for ([of_a, of_b], _) in batches {
        for (signed_a, signed_b) in [(false, true), (false, false), (true, true), (true, false)] {
            for are_many in [false, true] {
                let [a, b] = [bytes(of_a, signed_a, 1), bytes(of_b, signed_b, 2)];
                let m = of_a[of_a.len() - 2];
                let n = of_b[of_b.len() - 1];
                let zeros = match are_many {
                    false => [bytes(&[], signed_a, 2), bytes(&[], signed_b, 3)],
                    true => [bytes(&[m], signed_a, 2), bytes(&[n], signed_b, 3)],
                };
                // A zero point for each row is a column beside the matrix.
                let mut of_rows = zeros[0].clone();
                if are_many {
                    of_rows.insert_axis(1).unwrap();
                }
                let expected = wide_product([&a, &b], [&of_rows, &zeros[1]]);
                let expected = expected.cast_to::<i32>().unwrap().into_owned();
                let letters = |of: &[usize], name: char| {
                    let sizes: Vec<String> =
                        (0..of.len()).map(|it| format!("{name}{it}")).collect();
                    sizes.join(",")
                };
                let types = [signed_a, signed_b].map(|it| if it { "i8" } else { "u8" });
                let input = format!("a:{}[{}]", types[0], letters(of_a, 'A'));
                let constant =
                    graph(&input, "y", "y = MatMulInteger(a, b, za, zb)").constant("b", b.clone());
                let both = format!("{input} b:{}[{}]", types[1], letters(of_b, 'B'));
                let computed = graph(&both, "y", "y = MatMulInteger(a, b, za, zb)");
                for (model, inputs) in [
                    (constant, vec![a.clone()]),
                    (computed, vec![a.clone(), b.clone()]),
                ] {
                    let [za, zb] = zeros.clone();
                    let model = model.constant("za", za).constant("zb", zb);
                    check(model, &inputs, std::slice::from_ref(&expected));
                }
            }
        }
    }
}

#[test]
fn products_become_bytes_by_scales() {
    // Sums: [3, 3, -128] and [260, -756, 32002].
    for (zero, expected) in text::rows(
        "10i8 => [11 10 -54 75 -84 127]i8
         200u8 => [201 200 136 255 106 255]u8",
    ) {
        examples(
            &format!(
                "a:u8[M,2] -> y
                 b:i8[2,3] = [1 -2 127 3 4 -128]i8
                 y = QLinearMatMul(a, 0.5, 1u8, b, [1.0 0.5 2.0], [0 1 0]i8, 2.0, {zero})"
            ),
            &format!("[1 2 255 3]u8@2x2 => {expected}@2x3"),
        );
    }
    // A scale for each row, and one for each column.
    examples(
        "a:u8[2,2] -> y
         b:i8[2,3] = [1 -2 127 3 4 -128]i8
         y = QLinearMatMul(a, [1.0 0.25], [0 1]u8, b, [1.0 0.5 2.0], 0i8, 4.0, 0i8)",
        "[1 2 255 3]u8@2x2 => [2 1 -64 16 -16 127]i8@2x3",
    );
}

#[test]
fn sums_are_scaled_where_they_are_multiplied() {
    // Quantised by a scale of 1 and a zero point of 0.
    let x = tensor2(&[[0_f32, 255.0, 10.0], [3.0, 2.0, 1.0]]);
    let w = tensor2(&[[1_i8, -2], [3, -128], [5, 6]]);
    let sums = [[815_f32, -32_580.0], [14.0, -256.0]];
    let chain = "q, s, z = DynamicQuantizeLinear(x)
        p = MatMulInteger(q, w, z)
        c = Cast<to=1>(p)
        f = Mul(s, t)";
    for (scales, last, bias) in [
        (tensor0(0.5_f32), "y = Mul(c, f)", [0.0, 0.0]),
        (
            tensor1(&[0.5_f32, 0.25]),
            "d = Mul(f, c)\ny = Add(b, d)",
            [1.0, -3.0],
        ),
        (
            tensor1(&[0.5_f32]),
            "d = Mul(c, f)\ny = Add(d, b)",
            [1.0, -3.0],
        ),
    ] {
        let of_column = |column: usize| {
            let scales = scales.try_as_plain_ram().unwrap();
            let scales = scales.as_slice::<f32>().unwrap();
            scales[column % scales.len()]
        };
        let expected = sums.map(|row| [0, 1].map(|it| row[it] * of_column(it) + bias[it]));
        let model = graph("x:f32[N,3]", "y", &format!("{chain}\n{last}"))
            .constant("w", w.clone())
            .constant("t", scales.clone())
            .constant("b", tensor1(&bias));
        check(
            model.clone(),
            std::slice::from_ref(&x),
            &[tensor2(&expected)],
        );
        let model = parse(model).unwrap().into_typed().unwrap();
        let found = ops(&revseq_tract_operators::into_optimized(model).unwrap());
        let is_left = |op: &str| found.iter().any(|it| it.contains(op));
        assert!(is_left("ByteProduct"), "{found:?}");
        assert!(!is_left("Cast") && !is_left("Add"), "{found:?}");
    }
}

#[test]
fn products_of_what_does_not_fit_are_errors() {
    let [a, b] = [bytes(&[2, 3], false, 1), bytes(&[3, 2], false, 1)];
    let inputs = "a:u8[2,3] b:u8[3,2] za:u8[Z]";
    let product = graph(inputs, "y", "y = MatMulInteger(a, b, za)");
    fails(
        run(product, &[a, b, bytes(&[3], false, 1)]),
        "zero point has the shape [3], expected one element or 2",
    );
    refused(
        "a:f32[2,3] b:u8[3,2] -> y
         y = MatMulInteger(a, b) => its A is F32, expected I8 or U8",
        |model| model,
    );
}

/// Parameters of a quantisation.
#[derive(Clone, Copy, Debug)]
struct Params {
    scale: f32,
    zero: i32,
    is_signed: bool,
    /// Whether each of the four columns has other parameters.
    by_column: bool,
}

impl Params {
    fn of(self, column: usize) -> (f64, i32) {
        match self.by_column {
            false => (self.scale.into(), self.zero),
            true => (
                (self.scale * (1 + column) as f32).into(),
                self.zero + column as i32,
            ),
        }
    }

    fn bounds(self) -> [i32; 2] {
        if self.is_signed {
            [-128, 127]
        } else {
            [0, 255]
        }
    }

    fn constants(self) -> [Tensor; 2] {
        let count = if self.by_column { 4 } else { 1 };
        let (scales, zeros): (Vec<f64>, Vec<i32>) = (0..count).map(|it| self.of(it)).unzip();
        let scales: Vec<f32> = scales.into_iter().map(|it| it as f32).collect();
        let zeros = tensor1(&zeros);
        let zeros = match self.is_signed {
            true => zeros.cast_to::<i8>(),
            false => zeros.cast_to::<u8>(),
        };
        [tensor1(&scales), zeros.unwrap().into_owned()]
    }
}

/// An operator between two conversions.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// A function of each element.
    Each(&'static str, fn(f64) -> f64),
    Softmax(usize),
    Transpose,
    Gather,
    Concat,
    Slice,
    Pad,
    MaxOfColumns,
    MeanOfRows,
    CumSum,
    MatMul,
    /// The sum with the value before it, if it has the same shape.
    Add,
    Where,
    Reshape,
    LayerNormalization,
}

const BETWEEN: [Between; 19] = [
    Between::Each("Sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    Between::Each("Tanh", f64::tanh),
    Between::Each("Relu", |x| x.max(0.0)),
    Between::Each("Identity", |x| x),
    Between::Softmax(0),
    Between::Softmax(1),
    Between::Transpose,
    Between::Gather,
    Between::Concat,
    Between::Slice,
    Between::Pad,
    Between::MaxOfColumns,
    Between::MeanOfRows,
    Between::CumSum,
    Between::MatMul,
    Between::Add,
    Between::Where,
    Between::Reshape,
    Between::LayerNormalization,
];

/// Rows of four numbers, as they lie or transposed.
type Rows = Vec<[f64; 4]>;

const WEIGHTS: [[f64; 4]; 4] = [
    [0.5, -0.25, 0.0, 1.0],
    [0.25, 0.5, -0.5, 0.0],
    [-1.0, 0.125, 0.5, 0.25],
    [0.0, 1.0, 0.75, -0.5],
];

fn softmax(numbers: &[f64]) -> Vec<f64> {
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = numbers.iter().map(|it| (it - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|it| it / sum).collect()
}

fn columns(rows: &Rows, function: impl Fn(&[f64]) -> Vec<f64>) -> Rows {
    let made: [Vec<f64>; 4] = [0, 1, 2, 3].map(|column| {
        let column: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        function(&column)
    });
    let count = made[0].len();
    (0..count)
        .map(|row| [0, 1, 2, 3].map(|column| made[column][row]))
        .collect()
}

impl Between {
    /// The result by definition; the operators that change shapes give rows of four again.
    fn compute(self, rows: &Rows, before: &Rows) -> Rows {
        let each = |of: &dyn Fn(&[f64; 4]) -> [f64; 4]| rows.iter().map(of).collect();
        match self {
            Self::Each(_, of) => each(&|row| row.map(of)),
            Self::Softmax(0) => columns(rows, softmax),
            Self::Softmax(_) => each(&|row| {
                let row = softmax(row);
                [row[0], row[1], row[2], row[3]]
            }),
            Self::Transpose | Self::Reshape => rows.clone(),
            Self::Gather => each(&|row| [row[3], row[0], row[0], row[2]]),
            Self::Concat => each(&|row| [row[2], row[3], row[0], row[1]]),
            Self::Slice => each(&|row| [row[1], row[2], row[3], row[1]]),
            Self::Pad => each(&|row| [0.0, row[1], row[2], 0.0]),
            Self::MaxOfColumns => each(&|row| [row.iter().copied().fold(f64::MIN, f64::max); 4]),
            Self::MeanOfRows => columns(rows, |column| {
                let mean = column.iter().sum::<f64>() / column.len() as f64;
                vec![mean; column.len()]
            }),
            Self::CumSum => each(&|row| {
                let mut sum = 0.0;
                row.map(|it| {
                    sum += it;
                    sum
                })
            }),
            Self::MatMul => each(&|row| {
                [0, 1, 2, 3].map(|column| (0..4).map(|it| row[it] * WEIGHTS[it][column]).sum())
            }),
            Self::Add => {
                let pairs = std::iter::zip(rows, before);
                pairs
                    .map(|(a, b)| [0, 1, 2, 3].map(|it| a[it] + b[it]))
                    .collect()
            }
            Self::Where => {
                let pairs = std::iter::zip(rows, before);
                let choose = |a: f64, b: f64| if a > 0.0 { a } else { b };
                pairs
                    .map(|(a, b)| [0, 1, 2, 3].map(|it| choose(a[it], b[it])))
                    .collect()
            }
            Self::LayerNormalization => each(&|row| {
                let mean = row.iter().sum::<f64>() / 4.0;
                let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 4.0;
                row.map(|it| (it - mean) / (variance + 1e-5).sqrt())
            }),
        }
    }

    /// The nodes from `d` to `v`, whose names end in a number.
    fn nodes(self, step: usize) -> String {
        let (d, v) = (format!("d{step}"), format!("v{step}"));
        let before = format!("d{}", step.saturating_sub(1));
        match self {
            Self::Each(operator, _) => format!("{v} = {operator}({d})"),
            Self::Softmax(axis) => format!("{v} = Softmax<axis={axis}>({d})"),
            Self::Transpose => format!(
                "t{step} = Transpose<perm=[1,0]>({d})
                 {v} = Transpose<perm=[1,0]>(t{step})"
            ),
            Self::Gather => format!("{v} = Gather<axis=1>({d}, places)"),
            Self::Concat => format!(
                "a{step}, b{step} = Split<axis=1>({d})
                 {v} = Concat<axis=1>(b{step}, a{step})"
            ),
            Self::Slice => format!(
                "a{step} = Slice({d}, one, four, one)
                 b{step} = Slice({d}, one, two, one)
                 {v} = Concat<axis=1>(a{step}, b{step})"
            ),
            Self::Pad => format!(
                "a{step} = Slice({d}, one, three, one)
                 {v} = Pad(a{step}, pads)"
            ),
            Self::MaxOfColumns => format!(
                "a{step} = ReduceMax<axes=[1]>({d})
                 {v} = Expand(a{step}, row)"
            ),
            Self::MeanOfRows => format!(
                "a{step} = ReduceMean<axes=[0]>({d})
                 m{step} = Mul({d}, zero)
                 {v} = Add(m{step}, a{step})"
            ),
            Self::CumSum => format!("{v} = CumSum({d}, last)"),
            Self::MatMul => format!(
                "w{step} = DequantizeLinear(weights, eighth)
                 {v} = MatMul({d}, w{step})"
            ),
            Self::Add => format!("{v} = Add({d}, {before})"),
            Self::Where => format!(
                "a{step} = Greater({d}, zero)
                 {v} = Where(a{step}, {d}, {before})"
            ),
            Self::Reshape => format!(
                "a{step} = Reshape({d}, flat)
                 {v} = Reshape(a{step}, rows)"
            ),
            Self::LayerNormalization => format!("{v} = LayerNormalization<axis=-1>({d}, ones)"),
        }
    }
}

/// Adds the constants that the nodes read.
fn with_constants(model: Graph, params: &[Params]) -> Graph {
    let weights = WEIGHTS.map(|row| row.map(|it| (it * 8.0) as i8));
    let model = model
        .constants("zero = 0.0, one = [1], last = 1, two = [2], three = [3], four = [4], row = [1 4], rows = [-1 4], flat = [-1], places = [3 0 0 2], pads = [0 1 0 1]")
        .constant("ones", tensor1(&[1_f32; 4]))
        .constant("weights", tensor2(&weights))
        .constant("eighth", tensor0(0.125_f32));
    let all = params.iter().enumerate();
    all.fold(model, |model, (step, params)| {
        let [scale, zero] = params.constants();
        let model = model.constant(&format!("s{step}"), scale);
        model.constant(&format!("z{step}"), zero)
    })
}

fn rows_of(found: &Tensor) -> Vec<[i32; 4]> {
    let found = found.cast_to::<i32>().unwrap();
    let found = found.to_plain_array_view::<i32>().unwrap();
    let numbers: Vec<i32> = found.iter().copied().collect();
    let rows = numbers.chunks_exact(4);
    rows.map(|row| [row[0], row[1], row[2], row[3]]).collect()
}

fn dequantized(rows: &[[i32; 4]], params: Params) -> Rows {
    let value = |row: &[i32; 4]| {
        [0, 1, 2, 3].map(|column| {
            let (scale, zero) = params.of(column);
            f64::from(row[column] - zero) * scale
        })
    };
    rows.iter().map(value).collect()
}

/// Whether quantised rows are within a step of numbers.
fn fits(found: &[[i32; 4]], rows: &Rows, params: Params) -> bool {
    let [least, most] = params.bounds();
    let fits = |(found, row): (&[i32; 4], &[f64; 4])| {
        (0..4).all(|column| {
            let (scale, zero) = params.of(column);
            let expected = (row[column] / scale).round() + f64::from(zero);
            let expected = expected.clamp(least.into(), most.into());
            (f64::from(found[column]) - expected).abs() <= 1.0
        })
    };
    found.len() == rows.len() && std::iter::zip(found, rows).all(fits)
}

fn params() -> impl Strategy<Value = Params> {
    let scale = prop_oneof![Just(1.0 / 16.0), Just(0.05), Just(1.0 / 128.0), Just(0.3)];
    (scale, -20..20_i32, any::<bool>(), any::<bool>()).prop_map(|it| {
        let (scale, zero, is_signed, by_column) = it;
        Params {
            scale,
            zero: if is_signed { zero } else { zero + 128 },
            is_signed,
            by_column,
        }
    })
}

fn between() -> impl Strategy<Value = Between> {
    (0..BETWEEN.len()).prop_map(|it| BETWEEN[it])
}

fn data(rows: usize) -> Tensor {
    let numbers: Vec<f32> = (0..rows * 4)
        .map(|it| ((it * 37 + 11) % 64) as f32 / 16.0 - 2.0)
        .collect();
    Tensor::from_shape(&[rows, 4], &numbers).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One plan, with a symbol for the number of rows, runs on several.
    #[test]
    fn operators_between_conversions_compute_as_alone(
        first in params(),
        steps in proptest::collection::vec((between(), params()), 1..5),
    ) {
        let all: Vec<Params> = [first].into_iter().chain(steps.iter().map(|it| it.1)).collect();
        let mut nodes = "q0 = QuantizeLinear<axis=1>(x, s0, z0)\n".to_owned();
        let mut outputs = "q0".to_owned();
        for (step, (between, _)) in steps.iter().enumerate() {
            let next = step + 1;
            writeln!(
                nodes,
                "d{step} = DequantizeLinear<axis=1>(q{step}, s{step}, z{step})
                 {}
                 q{next} = QuantizeLinear<axis=1>(v{step}, s{next}, z{next})",
                between.nodes(step)
            )
            .unwrap();
            write!(outputs, " q{next}").unwrap();
        }
        let model = with_constants(graph("x:f32[N,4]", &outputs, &nodes), &all);
        let typed = parse(model).and_then(|model| model.into_typed());
        let model = typed.and_then(revseq_tract_operators::into_optimized).unwrap();
        let plan = model.into_runnable().unwrap();
        for rows in [3, 1, 5, 3] {
            let found = plan.run(tvec![data(rows).into_tvalue()]).unwrap();
            let found: Vec<_> = found.iter().map(|it| rows_of(it)).collect();
            for (step, (between, after)) in steps.iter().enumerate() {
                let value = |step: usize| dequantized(&found[step], all[step]);
                let expected = between.compute(&value(step), &value(step.saturating_sub(1)));
                prop_assert!(
                    fits(&found[step + 1], &expected, *after),
                    "step {}: {:?} of {:?}: {:?}, expected {:?}",
                    step, between, found[step], found[step + 1], expected
                );
            }
        }
    }

    /// The state of the loop stays quantised.
    #[test]
    fn operators_between_conversions_in_a_loop_compute_as_alone(
        between in between(),
        params in params(),
        is_known in any::<bool>(),
    ) {
        let body = format!(
            "d0 = DequantizeLinear<axis=1>(q, s0, z0)
             {}
             q1 = QuantizeLinear<axis=1>(v0, s0, z0)
             after = Identity(c)
             each = Identity(q1)",
            between.nodes(0)
        );
        let datum_type = if params.is_signed { "i8" } else { "u8" };
        let body = graph("i c q", "after q1 each", &body);
        let nodes = "last, all = Loop<body=@body>(n, _, q0)";
        let inputs = if is_known { format!("q0:{datum_type}[3,4]") } else { format!("q0:{datum_type}[3,4] n:i64[]") };
        let model = graph(&inputs, "last all", nodes).with("body", with_constants(body, &[params]));
        let count = tensor0(3_i64);
        let model = if is_known { model.constant("n", count.clone()) } else { model };
        let first: Vec<i32> = (0..12).map(|it| params.zero + it * 7 % 40 - 20).collect();
        let first = Tensor::from_shape(&[3, 4], &first).unwrap();
        let first = match params.is_signed {
            true => first.cast_to::<i8>(),
            false => first.cast_to::<u8>(),
        };
        let mut given = vec![first.unwrap().into_owned()];
        given.extend((!is_known).then_some(count));
        let found = run(model, &given).unwrap();
        let mut all = rows_of(&given[0]);
        all.extend(rows_of(&found[1]));
        prop_assert_eq!(all.len(), 12);
        for step in 0..3 {
            let [before, after] = [step, step + 1].map(|it| &all[it * 3..][..3]);
            let numbers = dequantized(before, params);
            let expected = between.compute(&numbers, &numbers);
            prop_assert!(
                fits(after, &expected, params),
                "{:?} of {:?}: {:?}, expected {:?}",
                between, before, after, expected
            );
        }
        prop_assert_eq!(rows_of(&found[0]), all[9..].to_vec());
    }
}
