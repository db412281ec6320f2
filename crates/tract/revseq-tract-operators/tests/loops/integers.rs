//! Operators on int64 that comes from data, alone and added to a size.

use revseq_test_models::text;
use tract_onnx::prelude::*;

use crate::build::{Graph, fails, graph, run, run_optimized, value};

const X: [f32; 6] = [3., -4., 10., 8., 0., 5.];

/// `n`, int64, is what `x:f32[B,3]` holds, in the second form as what it holds less 2, plus the 2
/// rows.
fn models(node: &str) -> [Graph; 2] {
    let casts = [
        "n = Cast<to=7>(x)",
        "less = Sub(x, 2.0)
         counted = Cast<to=7>(less)
         sizes = Shape(x)
         rows = Gather(sizes, 0)
         n = Add(counted, rows)",
    ];
    casts.map(|cast| graph("x:f32[B,3]", "y", &format!("{cast}\n{node}")))
}

/// Checks what nodes make of `n`, a row each.
fn check(rows: &str) {
    for (node, expected) in text::rows(rows) {
        for model in models(&node) {
            let x = Tensor::from_shape(&[2, 3], &X).unwrap();
            let found = run(model, &[x]).unwrap();
            let found = found[0].cast_to::<i64>().unwrap();
            assert_eq!(*found, value(expected), "{node}");
        }
    }
}

#[test]
fn integers_are_computed_as_numbers() {
    check(
        "y = CumSum(n, 1) => [3 -1 9 8 8 13]@2x3
         y = CumSum<reverse=1>(n, 1) => [9 6 10 13 5 5]@2x3
         minus_one = Neg(1)
         y = CumSum<exclusive=1>(n, minus_one) => [0 3 -1 0 8 8]@2x3
         y = Mod(n, 3) => [0 2 1 2 0 2]@2x3
         y = Mod(n, -3) => [0 -1 -2 -1 0 -1]@2x3
         y = Mod<fmod=1>(n, 3) => [0 -1 1 2 0 2]@2x3
         y = Sign(n) => [1 -1 1 1 0 1]@2x3
         y = BitwiseAnd(n, 3) => [3 0 2 0 0 1]@2x3
         y = BitwiseNot(n) => [-4 3 -11 -9 -1 -6]@2x3
         y = BitShift<direction=\"LEFT\">(n, 1) => [6 -8 20 16 0 10]@2x3
         y = BitShift<direction=\"LEFT\">(n, 70) => [0 0 0 0 0 0]@2x3
         y = BitShift<direction=\"RIGHT\">(n, 1) => [1 -2 5 4 0 2]@2x3
         y = BitShift<direction=\"RIGHT\">(n, 70) => [0 -1 0 0 0 0]@2x3
         y = BitShift<direction=\"RIGHT\">(n, -3) => [0 -1 0 0 0 0]@2x3
         y = ArgMax<axis=1>(n) => [2 0]@2x1
         y = ArgMin<axis=1>(n) => [1 1]@2x1
         y, _at = TopK<axis=1>(n, [2]) => [10 3 8 5]@2x2
         square = Sub(3, 1)
         y = Pow(n, square) => [9 16 100 64 0 25]@2x3
         y = Pad(n, [0 0 0 1], 7) => [3 -4 10 7 8 0 5 7]@2x4
         y = NonZero(n) => [0 0 0 1 1 0 1 2 0 2]@2x5",
    );
}

/// A divisor with more elements than what is divided: the two once changed places.
#[test]
fn the_operands_of_mod_stay_in_their_places() {
    check(
        "seven_or_more = Max(n, 7)
         ten = Add(7, 3)
         y = Mod(ten, seven_or_more) => [3 3 0 2 3 3]@2x3",
    );
}

#[test]
fn a_division_by_zero_is_an_error() {
    for node in ["y = Mod(7, n)", "y = Div(7, n)", "y = Div(n, 0)"] {
        // tract divides by no size that is known when the model runs.
        let [number, sum] = models(node);
        let sum = node.starts_with("y = Mod").then_some(sum);
        for model in [number].into_iter().chain(sum) {
            let x = Tensor::from_shape(&[2, 3], &X).unwrap();
            fails(run(model, &[x]), "it divides by 0");
        }
    }
}

/// A size that is known as a symbol only stays one through Mod.
#[test]
fn a_remainder_of_a_size_is_a_size() {
    let model = graph(
        "x:f32[B,3]",
        "y",
        "sizes = Shape(x)
         rows = Slice(sizes, [0], [1])
         odd = Mod(rows, [2])
         count = Add(odd, [1])
         shape = Concat<axis=0>(count, [2])
         y = ConstantOfShape(shape)",
    );
    for rows in 1..4_usize {
        let found = run(model.clone(), &[Tensor::zero::<f32>(&[rows, 3]).unwrap()]).unwrap();
        assert_eq!(found[0].shape(), [rows % 2 + 1, 2]);
    }
}

/// The bits of every integer are kept, and the product of two vectors is a scalar.
#[test]
fn integers_and_vectors_are_multiplied_as_matrices() {
    let large = 1_i64 << 60;
    let a = tensor2(&[[large + 1, 2, 0], [0, -1, 3]]);
    let b = tensor2(&[[1_i64, 0], [5, 7], [0, large]]);
    let expected = tensor2(&[[large + 11, 14], [-5, large.wrapping_mul(3) - 7]]);
    let check = |a: Tensor, b: Tensor, expected: Tensor| {
        let declared = |name: &str, tensor: &Tensor| {
            let names = ["P", "Q", "S"];
            let sizes = tensor.shape().iter().enumerate();
            // Sizes that the operands share are known.
            let sizes = sizes.map(|(at, size)| match size {
                3 => size.to_string(),
                _ => format!("{name}{}", names[at]),
            });
            let sizes: Vec<String> = sizes.collect();
            let tensor = format!("{:?}", tensor.datum_type()).to_lowercase();
            format!("{name}:{tensor}[{}]", sizes.join(","))
        };
        let inputs = format!("{} {}", declared("a", &a), declared("b", &b));
        let found = run(graph(&inputs, "y", "y = MatMul(a, b)"), &[a, b]).unwrap();
        assert_eq!(found, [expected]);
    };
    check(a.clone(), b.clone(), expected.clone());
    let stacked = Tensor::stack_tensors(0, &[&a, &a]).unwrap();
    let stacked = stacked.into_shape(&[2, 2, 3]).unwrap();
    let product = Tensor::stack_tensors(0, &[&expected, &expected]).unwrap();
    check(stacked, b.clone(), product.into_shape(&[2, 2, 2]).unwrap());
    let vector = tensor1(&[1_i64, 2, 3]);
    let expected = tensor1(&[11, large.wrapping_mul(3) + 14]);
    check(vector.clone(), b, expected);
    check(a, vector.clone(), tensor1(&[large + 5, 7]));
    for of in [
        DatumType::I64,
        DatumType::U32,
        DatumType::U64,
        DatumType::F32,
        DatumType::I32,
    ] {
        let cast = |it: &Tensor| it.cast_to_dt(of).unwrap().into_owned();
        let (a, b) = (cast(&vector), cast(&tensor1(&[4_i64, 5, 6])));
        check(a, b, cast(&tensor0(32_i64)));
    }
}

#[test]
fn truth_values_are_compared_padded_and_reduced() {
    let a = value("[true false false false]@2x2");
    let b = value("[true true false true]@2x2");
    for (node, expected) in text::rows(
        "y = Equal(a, b) => [true false true false]@2x2
         y = Pad(a, [0 0 0 1]) => [true false false false false false]@2x3
         y = Pad(a, [0 0 0 1], true) => [true false true false false true]@2x3
         y = ReduceMax<axes=[1];keepdims=0>(a) => [true false]
         y = ReduceMin<axes=[0];keepdims=0>(b) => [false true]",
    ) {
        let model = graph("a:bool[N,2] b:bool[N,2]", "y", &node);
        let found = run(model, &[a.clone(), b.clone()]).unwrap();
        assert_eq!(found, [value(expected)], "{node}");
    }
}

/// A number beside a size keeps all of its bits, where it is known and where it comes from data. A
/// BitwiseNot reads numbers.
#[test]
fn numbers_beside_sizes_have_64_bits() {
    for rows in [2_i64, 5] {
        // In 32 bits it is the size itself.
        let twin = (1 << 32) + rows;
        for (node, expected) in [
            ("Add(n, twin)", vec![rows + twin]),
            ("Sub(twin, n)", vec![1 << 32]),
            ("Mul(n, twin)", vec![rows * twin]),
            ("Div(n, twin)", vec![0]),
            ("Max(n, twin)", vec![twin]),
            ("Min(twin, n, twin)", vec![rows]),
            ("Sum(n, twin, twin)", vec![rows + 2 * twin]),
            (
                "Concat<axis=0>(n, twin, [9223372036854775807])",
                vec![rows, twin, i64::MAX],
            ),
            ("Where([false], n, twin)", vec![twin]),
            ("Where([true], n, twin)", vec![rows]),
            ("ScatterElements<axis=0>(pair, [1], twin)", vec![rows, twin]),
            ("ScatterND(pair, at, twin)", vec![rows, twin]),
            ("Equal(n, twin)", vec![0]),
            ("Less(n, twin)", vec![1]),
            ("LessOrEqual(twin, n)", vec![0]),
            ("Greater(twin, n)", vec![1]),
            ("GreaterOrEqual(n, twin)", vec![0]),
            ("Less(below, [9223372036854775807])", vec![1]),
            ("Greater(below, [-9223372036854775808])", vec![1]),
            ("Greater([9223372036854775807], n)", vec![1]),
        ] {
            let nodes = format!(
                "sizes = Shape(x)
                 n = Gather(sizes, [0])
                 pair = Concat<axis=0>(n, n)
                 below = Sub(n, [9])
                 made = {node}
                 number = Cast<to=7>(made)
                 not = BitwiseNot(number)
                 y = BitwiseNot(not)"
            );
            for inputs in ["x:f32[N,3]", "x:f32[N,3] twin:i64[1]"] {
                let mut model = graph(inputs, "y", &nodes).constant("at", tensor2(&[[1_i64]]));
                let mut values = vec![Tensor::zero::<f32>(&[rows as usize, 3]).unwrap()];
                match inputs.contains("twin") {
                    true => values.push(tensor1(&[twin])),
                    false => model = model.constant("twin", tensor1(&[twin])),
                }
                let found = run(model, &values).unwrap_or_else(|error| panic!("{node}: {error:?}"));
                assert_eq!(found, [tensor1(&expected)], "{inputs}: {node}");
            }
        }
    }
}

/// Ends of a slice as PyTorch's exporter writes them for `x[:n - 1, :]`.
#[test]
fn an_end_beyond_any_axis_stands_beside_a_size() {
    let nodes = "sizes = Shape(x)
         n = Gather(sizes, [0])
         last = Sub(n, [1])
         ends = Concat<axis=0>(last, [9223372036854775807])
         y = Slice(x, [0 0], ends, [0 1])";
    for declared in ["x:f32[N,5]", "x:f32[3,5]"] {
        let model = graph(declared, "y", nodes);
        let x = Tensor::zero::<f32>(&[3, 5]).unwrap();
        let found = run(model, &[x]).unwrap();
        assert_eq!(found[0].shape(), [2, 5], "{declared}");
    }
}

/// Reductions of numbers that are known while facts are inferred, beside sizes and alone.
#[test]
fn reductions_of_known_numbers_keep_64_bits() {
    for (nodes, expected) in text::rows(
        "s = ReduceSum([4294967296])
         y = Greater(s, sh) => [true true]
         s = Max([4294967296], sh)
         y = ReduceMax<keepdims=1>(s) => [4294967296]
         p = ReduceProd<keepdims=1>(sh)
         y = Mul([4294967296], p) => [25769803776]",
    ) {
        for input in ["x:f32[2,3]", "x:f32[N,M]"] {
            let model = graph(input, "y", &format!("sh = Shape(x)\n{nodes}"));
            let x = Tensor::zero::<f32>(&[2, 3]).unwrap();
            let found = run_optimized(model, &[x]).unwrap();
            assert_eq!(found[0], value(expected), "{nodes}");
        }
    }
}

/// The list of axes may be empty, which stands for all of them.
#[test]
fn reductions_of_sizes_over_no_axes_may_be_cast() {
    let nodes = "sh = Shape(x)\nm = ReduceMax<keepdims=0>(sh, [])\ny = Cast<to=7>(m)";
    let model = graph("x:f32[2,3]", "y", nodes).opset(18);
    let x = Tensor::zero::<f32>(&[2, 3]).unwrap();
    assert_eq!(run_optimized(model, &[x]).unwrap()[0], tensor0(3_i64));
}

/// tract's numbers have 32 bits, also where a reduction without axes does nothing.
#[test]
fn numbers_that_are_not_reduced_stay_what_they_are() {
    for (node, expected) in text::rows(
        "y = ReduceMin<noop_with_empty_axes=1;keepdims=0>(more, []) => [2147483650 2147483651]
         y = ReduceMax<noop_with_empty_axes=0;keepdims=0>(more, []) => 2147483651",
    ) {
        let nodes = format!("shape = Shape(x)\nmore = Add(shape, [2147483648])\n{node}");
        let model = graph("x:f32[2,3]", "y", &nodes).opset(18);
        let found = run(model, &[Tensor::zero::<f32>(&[2, 3]).unwrap()]).unwrap();
        // Without this crate's passes, sizes stay sizes.
        let numbers = found[0].cast_to::<i64>().unwrap();
        assert_eq!(*numbers, value(expected), "{node}");
    }
}
