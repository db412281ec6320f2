//! Operators on int64 that comes from data, alone and added to a size.

use tract_onnx::prelude::*;

use crate::build::{Graph, graph, run, run_optimized};

const X: [f32; 6] = [3., -4., 10., 8., 0., 5.];

/// `n`, int64, is what `x:f32[B,3]` holds, in the second form as what it holds less 2, plus the 2
/// rows.
fn models(outputs: &str, node: &str) -> [Graph; 2] {
    let casts = [
        "n = Cast<to=7>(x)".to_owned(),
        "less = Sub(x, two)
         counted = Cast<to=7>(less)
         sizes = Shape(x)
         rows = Gather(sizes, zero)
         n = Add(counted, rows)"
            .to_owned(),
    ];
    casts.map(|cast| {
        graph("x:f32[B,3]", outputs, &format!("{cast}\n{node}"))
            .constant("zero", tensor0(0_i64))
            .constant("one", tensor0(1_i64))
            .constant("one_in_list", tensor1(&[1_i64]))
            .constant("two", tensor0(2_f32))
            .constant("two_in_list", tensor1(&[2_i64]))
            .constant("three", tensor0(3_i64))
            .constant("minus_three", tensor0(-3_i64))
            .constant("seven", tensor0(7_i64))
            .constant("seventy", tensor0(70_i64))
            .constant("pads", tensor1(&[0_i64, 0, 0, 1]))
    })
}

fn check(node: &str, shape: &[usize], expected: &[i64]) {
    let expected = Tensor::from_shape(shape, expected).unwrap();
    for model in models("y", node) {
        let x = Tensor::from_shape(&[2, 3], &X).unwrap();
        let found = run(model, &[x]).unwrap();
        let found = found[0].cast_to::<i64>().unwrap();
        assert_eq!(*found, expected, "{node}");
    }
}

#[test]
fn integers_are_computed_as_numbers() {
    let whole = &[2, 3][..];
    for (node, shape, expected) in [
        ("y = CumSum(n, one)", whole, &[3, -1, 9, 8, 8, 13][..]),
        (
            "y = CumSum<reverse=1>(n, one)",
            whole,
            &[9, 6, 10, 13, 5, 5],
        ),
        (
            "y = CumSum<exclusive=1>(n, minus_one)\nminus_one = Neg(one)",
            whole,
            &[0, 3, -1, 0, 8, 8],
        ),
        ("y = Mod(n, three)", whole, &[0, 2, 1, 2, 0, 2]),
        ("y = Mod(n, minus_three)", whole, &[0, -1, -2, -1, 0, -1]),
        ("y = Mod<fmod=1>(n, three)", whole, &[0, -1, 1, 2, 0, 2]),
        ("y = Sign(n)", whole, &[1, -1, 1, 1, 0, 1]),
        ("y = BitwiseAnd(n, three)", whole, &[3, 0, 2, 0, 0, 1]),
        ("y = BitwiseNot(n)", whole, &[-4, 3, -11, -9, -1, -6]),
        (
            "y = BitShift<direction=\"LEFT\">(n, one)",
            whole,
            &[6, -8, 20, 16, 0, 10],
        ),
        (
            "y = BitShift<direction=\"LEFT\">(n, seventy)",
            whole,
            &[0; 6],
        ),
        (
            "y = BitShift<direction=\"RIGHT\">(n, one)",
            whole,
            &[1, -2, 5, 4, 0, 2],
        ),
        (
            "y = BitShift<direction=\"RIGHT\">(n, seventy)",
            whole,
            &[0, -1, 0, 0, 0, 0],
        ),
        (
            "y = BitShift<direction=\"RIGHT\">(n, minus_three)",
            whole,
            &[0, -1, 0, 0, 0, 0],
        ),
        ("y = ArgMax<axis=1>(n)", &[2, 1], &[2, 0]),
        ("y = ArgMin<axis=1>(n)", &[2, 1], &[1, 1]),
        (
            "y, _at = TopK<axis=1>(n, two_in_list)",
            &[2, 2],
            &[10, 3, 8, 5],
        ),
        (
            "y = Pow(n, square)\nsquare = Sub(three, one)",
            whole,
            &[9, 16, 100, 64, 0, 25],
        ),
        (
            "y = Pad(n, pads, seven)",
            &[2, 4],
            &[3, -4, 10, 7, 8, 0, 5, 7],
        ),
        ("y = NonZero(n)", &[2, 5], &[0, 0, 0, 1, 1, 0, 1, 2, 0, 2]),
    ] {
        check(node, shape, expected);
    }
}

/// A divisor with more elements than what is divided: the two once changed places.
#[test]
fn the_operands_of_mod_stay_in_their_places() {
    let divisor = "seven_or_more = Max(n, seven)";
    let node = format!("{divisor}\nten = Add(seven, three)\ny = Mod(ten, seven_or_more)");
    check(&node, &[2, 3], &[3, 3, 0, 2, 3, 3]);
}

#[test]
fn a_division_by_zero_is_an_error() {
    for node in ["y = Mod(seven, n)", "y = Div(seven, n)", "y = Div(n, none)"] {
        // tract divides by no size that is known when the model runs.
        let [number, sum] = models("y", node);
        let sum = node.starts_with("y = Mod").then_some(sum);
        for model in [number].into_iter().chain(sum) {
            let x = Tensor::from_shape(&[2, 3], &X).unwrap();
            let model = model.constant("none", tensor0(0_i64));
            let error = run(model, &[x]).unwrap_err();
            let error = format!("{error:?}");
            assert!(error.contains("it divides by 0"), "{node}: {error}");
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
    check(a.clone(), b.clone(), expected);
    let stacked = Tensor::stack_tensors(0, &[&a, &a]).unwrap();
    let stacked = stacked.into_shape(&[2, 2, 3]).unwrap();
    let product = tensor2(&[[large + 11, 14], [-5, large.wrapping_mul(3) - 7]]);
    let product = Tensor::stack_tensors(0, &[&product, &product]).unwrap();
    check(stacked, b.clone(), product.into_shape(&[2, 2, 2]).unwrap());
    check(
        tensor1(&[1_i64, 2, 3]),
        b,
        tensor1(&[11, large.wrapping_mul(3) + 14]),
    );
    check(a, tensor1(&[1_i64, 2, 3]), tensor1(&[large + 5, 7]));
    check(
        tensor1(&[1_i64, 2, 3]),
        tensor1(&[4_i64, 5, 6]),
        tensor0(32_i64),
    );
    check(
        tensor1(&[1_u32, 2, 3]),
        tensor1(&[4_u32, 5, 6]),
        tensor0(32_u32),
    );
    check(
        tensor1(&[1_u64, 2, 3]),
        tensor1(&[4_u64, 5, 6]),
        tensor0(32_u64),
    );
    check(
        tensor1(&[1_f32, 2., 3.]),
        tensor1(&[4_f32, 5., 6.]),
        tensor0(32_f32),
    );
    check(
        tensor1(&[1_i32, 2, 3]),
        tensor1(&[4_i32, 5, 6]),
        tensor0(32_i32),
    );
}

#[test]
fn truth_values_are_compared_padded_and_reduced() {
    let a = tensor2(&[[true, false], [false, false]]);
    let b = tensor2(&[[true, true], [false, true]]);
    let pads = tensor1(&[0_i64, 0, 0, 1]);
    for (node, expected) in [
        ("Equal(a, b)", tensor2(&[[true, false], [true, false]])),
        (
            "Pad(a, pads)",
            tensor2(&[[true, false, false], [false, false, false]]),
        ),
        (
            "Pad(a, pads, true)",
            tensor2(&[[true, false, true], [false, false, true]]),
        ),
        ("ReduceMax<axes=[1];keepdims=0>(a)", tensor1(&[true, false])),
        ("ReduceMin<axes=[0];keepdims=0>(b)", tensor1(&[false, true])),
    ] {
        let model = graph("a:bool[N,2] b:bool[N,2]", "y", &format!("y = {node}"))
            .constant("pads", pads.clone());
        let found = run(model, &[a.clone(), b.clone()]).unwrap();
        assert_eq!(found, [expected], "{node}");
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
    let rows = [
        (
            "s = ReduceSum(c)",
            "y = Greater(s, sh)",
            tensor1(&[true, true]),
        ),
        (
            "s = Max(c, sh)",
            "y = ReduceMax<keepdims=1>(s)",
            tensor1(&[1_i64 << 32]),
        ),
        (
            "p = ReduceProd<keepdims=1>(sh)",
            "y = Mul(c, p)",
            tensor1(&[6_i64 << 32]),
        ),
    ];
    for (first, last, expected) in rows {
        for input in ["x:f32[2,3]", "x:f32[N,M]"] {
            let model = graph(input, "y", &format!("sh = Shape(x)\n{first}\n{last}"));
            let model = model.constant("c", tensor1(&[1_i64 << 32]));
            let x = Tensor::zero::<f32>(&[2, 3]).unwrap();
            let found = run_optimized(model, &[x]).unwrap();
            assert_eq!(found[0], expected, "{last}");
        }
    }
}

/// The list of axes may be empty, which stands for all of them.
#[test]
fn reductions_of_sizes_over_no_axes_may_be_cast() {
    let nodes = "sh = Shape(x)\nm = ReduceMax<keepdims=0>(sh, none)\ny = Cast<to=7>(m)";
    let model = graph("x:f32[2,3]", "y", nodes).opset(18);
    let model = model.constant("none", Tensor::zero::<i64>(&[0]).unwrap());
    let x = Tensor::zero::<f32>(&[2, 3]).unwrap();
    assert_eq!(run_optimized(model, &[x]).unwrap()[0], tensor0(3_i64));
}

/// tract's numbers have 32 bits, also where a reduction without axes does nothing.
#[test]
fn numbers_that_are_not_reduced_stay_what_they_are() {
    let large = 1_i64 << 31;
    for (operator, text) in [
        ("ReduceMin", "noop_with_empty_axes=1"),
        ("ReduceMax", "noop_with_empty_axes=0"),
    ] {
        let nodes = format!(
            "shape = Shape(x)\n more = Add(shape, large)
             y = {operator}<{text};keepdims=0>(more, none)"
        );
        let model = graph("x:f32[2,3]", "y", &nodes)
            .constant("large", tensor1(&[large]))
            .constant("none", Tensor::zero::<i64>(&[0]).unwrap())
            .opset(18);
        let found = run(model, &[Tensor::zero::<f32>(&[2, 3]).unwrap()]).unwrap();
        let expected = match operator {
            "ReduceMin" => tensor1(&[large + 2, large + 3]),
            _ => tensor0(large + 3),
        };
        assert_eq!(found[0], expected, "{operator}");
    }
}
