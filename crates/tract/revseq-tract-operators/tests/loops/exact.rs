//! Tests of results that tract's simplifications would change.

use revseq_test_models::text;
use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, examples, graph, onnx, parse, run, run_each, whole};

/// Runs a model optimised, from one vector to the next.
fn optimised(model: Graph, x: Tensor) -> Tensor {
    let model = onnx().parse(&model.into_model(), None).unwrap().model;
    let model = revseq_tract_operators::into_optimized(model.into_typed().unwrap()).unwrap();
    let found = model.into_runnable().unwrap().run(tvec!(x.into_tvalue()));
    found.unwrap().remove(0).into_tensor()
}

#[track_caller]
fn check<T: Datum + Copy>(nodes: &str, constants: &[T], x: &[T], expected: &[T]) {
    for size in ["N".to_owned(), x.len().to_string()] {
        let of = format!("{:?}", T::datum_type()).to_lowercase();
        let mut model = graph(&format!("x:{of}[{size}]"), "y", nodes);
        for (name, constant) in std::iter::zip(["a", "b"], constants) {
            model = model.constant(name, tensor0(*constant));
        }
        let found = optimised(model, tensor1(x));
        // Bits, which tell -0 from 0 and have no NaN that differs from itself.
        let found = found.try_as_plain_ram().unwrap();
        let expected = tensor1(expected);
        let expected = expected.try_as_plain_ram().unwrap();
        assert_eq!(found.as_bytes(), expected.as_bytes(), "{nodes} of [{size}]");
    }
}

#[test]
fn floats_are_no_real_numbers() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    // A product stays within the range, or leaves it, in the order that is written.
    let products = "t = Mul(x, a)\ny = Mul(t, b)";
    check(
        products,
        &[1e25_f32, 1e25],
        &[1e-30],
        &[(1e-30 * 1e25) * 1e25],
    );
    check(products, &[1e30_f32, 1e-30], &[1e30], &[inf]);
    check(
        "t = Mul(x, a)\ny = ReduceSum<keepdims=1>(t)",
        &[0.01_f32],
        &[2e38, 2e38],
        &[2e38 * 0.01 * 2.0],
    );
    check("y = Mul(x, a)", &[0_f32], &[-1.0, 3.0], &[-0.0, 0.0]);
    check("y = Add(x, a)", &[0_f32], &[-0.0, 3.0], &[0.0, 3.0]);
    check("y = Sub(x, a)", &[-0_f32], &[-0.0, 3.0], &[0.0, 3.0]);
    check("y = Pow(x, a)", &[0.5_f32], &[-inf, 4.0], &[inf, 2.0]);
    check(
        "t = Mul(x, a)\nz = IsNaN(t)\ny = Cast<to=1>(z)",
        &[0_f32],
        &[inf, 1.0],
        &[1.0, 0.0],
    );
    check(
        "t = Sqrt(x)\nt2 = Mul(t, t)\nz = IsNaN(t2)\ny = Cast<to=1>(z)",
        &[],
        &[-1.5_f32, 4.0],
        &[1.0, 0.0],
    );
    // The mean is known by its factor.
    let squares = "t = Mul(x, x)\ns = ReduceSum<keepdims=1>(t)\ny = Mul(s, a)";
    check(squares, &[0.50000003_f32], &[2.0, 2.0], &[8.0 * 0.50000003]);
    check(squares, &[0.5_f32], &[2.0, 2.0], &[4.0]);
    assert!(nan.is_nan());
}

/// tract compares doubles as floats.
#[test]
fn doubles_are_no_floats() {
    check("y = Mul(x, a)", &[1e-50], &[1e60], &[1e60 * 1e-50]);
    check(
        "y = Mul(x, a)",
        &[1.0 + 1e-9],
        &[1e12],
        &[1e12 * (1.0 + 1e-9)],
    );
    check("y = Add(x, a)", &[1e-50], &[0.0], &[1e-50]);
    check(
        "y = Pow(x, a)",
        &[2.0 + 1e-9],
        &[1e5],
        &[1e5_f64.powf(2.0 + 1e-9)],
    );
    let squares = "t = Mul(x, x)\ns = ReduceMean<keepdims=1>(t)\ny = Identity(s)";
    check(squares, &[], &[1e160, 1e-160], &[f64::INFINITY]);
    check(squares, &[], &[100_001.0, 100_003.0], &[10_000_400_005.0]);
}

/// What tract computes while it reads a model is computed by the same operators.
#[test]
fn constants_are_computed_like_inputs() {
    let minus_one = tensor1(&[-1_f32]);
    for (nodes, expected) in [
        ("y = Celu<alpha=2.0>(c)", 2.0 * ((-0.5_f32).exp() - 1.0)),
        ("t = Mul(c, huge)\nm = Neg(t)\ny = Softplus(m)", 1e30),
        (
            "t = Log([0.0])\ny = ReduceMax<keepdims=1>(t)",
            f32::NEG_INFINITY,
        ),
    ] {
        let model = graph("x:f32[1]", "y", nodes)
            .constant("c", minus_one.clone())
            .constant("huge", tensor1(&[1e30_f32]));
        let found = run(model, std::slice::from_ref(&minus_one))
            .unwrap()
            .remove(0);
        let near = found.close_enough(&tensor1(&[expected]), Approximation::Approximate);
        near.unwrap_or_else(|error| panic!("{nodes}: {error}"));
    }
}

/// A product whose axes one pass merges and another takes apart.
#[test]
fn products_of_unknown_sizes_are_optimised_once() {
    let nodes = "t = MatMul(one, x)\nu = Tile(t, times)\ny = MatMul(one, u)";
    let model = graph("x:f32[A,B,C] times:i64[3] one:f32[D,E]", "y", nodes);
    let x = Tensor::zero::<f32>(&[2, 3, 4]).unwrap();
    let one = Tensor::from_shape(&[1, 3], &[1_f32; 3]).unwrap();
    let error = run(model, &[x, tensor1(&[1_i64, 3, 2]), one]);
    assert_eq!(error.unwrap()[0].shape(), [2, 1, 8]);
}

#[test]
fn products_of_what_was_broadcast_keep_its_sizes() {
    for (nodes, sizes) in text::rows(
        "z = Tile(x, [4 1])
         y = MatMul(z, w) => 1,3 3,5
         z = Tile(x, [1 4])
         y = MatMul(z, w) => 3,1 4,5
         z = Tile(x, [1 2])
         y = MatMul(z, w) => 3,2 4,5
         z = Tile(x, [1 5])
         y = MatMul(w, z) => 4,1 3,4
         z = Tile(x, [4 1 1])
         y = MatMul(z, w) => 1,2,3 4,3,5
         z = Tile(x, [4 1 1])
         y = MatMul(z, w) => 1,2,3 3,5
         z = Tile(x, [4 1])
         y = Gemm<transB=1>(z, w) => 1,3 5,3
         z = Tile(x, [1 4])
         y = Einsum<equation=\"ik,ik->i\">(z, w) => 3,1 3,4
         z = Tile(x, [1 4])
         y = Einsum<equation=\"ik,ji->jk\">(z, w) => 3,1 2,3",
    ) {
        let (known, w) = sizes.split_once(' ').unwrap();
        let w = numbers(w, |it| (it * 7 % 11) as f32 - 5.0);
        let x = numbers(known, |it| (it * 7 % 11) as f32 - 5.0);
        let model = |x: &str| graph(&format!("x:f32[{x}]"), "y", &nodes).constant("w", w.clone());
        let expected = plain(model(known), &x);
        // tract's Einsum does not take a size for another.
        let open = (!nodes.contains("Einsum")).then(|| format!("N{}", &known[1..]));
        for sizes in [Some(known.to_owned()), open].into_iter().flatten() {
            let found = run_each(model(&sizes), &[vec![x.clone()]]).unwrap();
            assert_eq!(found[0][0], expected, "{sizes}: {nodes}");
        }
    }
}

/// Numbers of a place each, of sizes like `2,3`.
fn numbers(sizes: &str, of: fn(usize) -> f32) -> Tensor {
    let sizes: Vec<usize> = sizes.split(',').map(|it| it.parse().unwrap()).collect();
    let numbers: Vec<f32> = (0..sizes.iter().product()).map(of).collect();
    Tensor::from_shape(&sizes, &numbers).unwrap()
}

/// What tract computes without passes.
fn plain(model: Graph, x: &Tensor) -> Tensor {
    let plain = parse(model).unwrap().into_typed().unwrap();
    let found = plain
        .into_runnable()
        .unwrap()
        .run(tvec!(x.clone().into_tvalue()));
    found.unwrap().remove(0).into_tensor()
}

/// tract moves strides before what it takes for functions of single elements, and reshapes before
/// products; where that fails, a model is computed as it is.
#[test]
fn what_comes_before_strides_and_products_is_computed_as_it_is() {
    for (nodes, sizes) in text::rows(
        "z = Conv<auto_pad=\"SAME_UPPER\">(x, v)
         y = Conv<strides=[2,2]>(z, w) => 1,2,8,8 3,4,1,1
         z = Conv(x, v)
         odd = Slice(z, [1], [9], [3], [2])
         y = Conv(odd, w) => 1,2,8,8 3,4,1,1
         z = Softmax<axis=2>(x)
         y = Conv<strides=[2,2]>(z, w) => 1,2,4,4 3,2,1,1
         z = CumSum(x, 3)
         y = Conv<strides=[2,2]>(z, w) => 1,2,4,4 3,2,1,1
         z = Tile(x, [1 1 1 5])
         y = Conv<strides=[1,2]>(z, w) => 1,3,4,1 5,3,1,1
         z = Reshape(x, [1 8 9 1])
         y = Conv<strides=[2,2]>(z, w) => 1,4,3,6 5,8,1,1
         z = Reshape(x, [8 5 6])
         y = MatMul(z, w) => 2,4,5,6 1,6,3
         m = GlobalAveragePool(x)
         z = Conv(m, w)
         y = Mul(x, z) => 1,3,4 3,3,1
         y = Pow(x, w) => 3 2,3",
    ) {
        let (x, w) = sizes.split_once(' ').unwrap();
        let varied = |it: usize| ((it * 7) % 11) as f32 / 4.0;
        let w = numbers(
            w,
            if nodes.contains("Pow") {
                |_| 2.0
            } else {
                varied
            },
        );
        let model = graph(&format!("x:f32[{x}]"), "y", &nodes)
            .constant("w", w)
            .constant("v", numbers("4,2,3,3", varied));
        let x = numbers(x, varied);
        let expected = plain(model.clone(), &x);
        let found = run_each(model, &[vec![x]]).unwrap_or_else(|error| panic!("{nodes}: {error}"));
        let near = found[0][0].close_enough(&expected, Approximation::Close);
        near.unwrap_or_else(|error| panic!("{nodes}: {error}"));
    }
}

/// tract would take an operator out of the loop, and expects its other operand to be a constant.
#[test]
fn a_step_may_read_an_element_twice() {
    for operator in ["Add", "Sub", "Max", "Less"] {
        let model = whole(&format!(
            "x:f32[N,2] -> y
             last, y = Scan<body=@body;num_scan_inputs=1>([0.0 0.0], x)
             @body: s:f32[2] e:f32[2] -> t y
             t = Add(s, e)
             y = {operator}(e, e)"
        ));
        let x = tensor2(&[[1_f32, -2.], [3., 4.]]);
        let expected = match operator {
            "Add" => tensor2(&[[2_f32, -4.], [6., 8.]]),
            "Sub" => tensor2(&[[0_f32, 0.], [0., 0.]]),
            "Max" => x.clone(),
            _ => tensor2(&[[false, false], [false, false]]),
        };
        assert_eq!(optimised(model, x), expected, "{operator}");
    }
}

#[test]
fn constant_vectors_are_multiplied() {
    let nodes = "z = MatMul([1.0 2.0 3.0], [1.0 2.0 3.0])\ny = Mul(x, z)";
    let model = graph("x:f32[1]", "y", nodes);
    assert_eq!(optimised(model, tensor1(&[2_f32])), tensor1(&[28_f32]));
}

/// tract reads a number of a constant without any.
#[test]
fn a_constant_may_be_empty() {
    for (base, exponent, shape) in [("x", "none", &[1, 0][..]), ("none", "x", &[1, 0])] {
        let nodes = format!("y = Pow({base}, {exponent})");
        let model =
            graph("x:f32[1,1]", "y", &nodes).constant("none", Tensor::zero::<f32>(&[0]).unwrap());
        let found = optimised(model, Tensor::zero::<f32>(&[1, 1]).unwrap());
        assert_eq!(found.shape(), shape);
    }
}

#[test]
fn an_einsum_may_be_a_number() {
    let x = Tensor::from_shape(&[2, 3], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    for (equation, expected) in [("ij->", 21.0), ("ij,ij->", 91.0), ("ij,kj->", 155.0)] {
        let operands = if equation.contains(',') { "x, x" } else { "x" };
        for shape in ["2,3", "A,B"] {
            let nodes = format!("y = Einsum<equation=\"{equation}\">({operands})");
            let model = graph(&format!("x:f32[{shape}]"), "y", &nodes);
            let found = run(model, std::slice::from_ref(&x)).unwrap().remove(0);
            assert_eq!(found, tensor0(expected as f32), "{equation} of {shape}");
        }
    }
}

#[test]
fn powers_of_large_numbers_are_summed_by_their_differences() {
    // A float of 1e39 is infinite.
    let two = 200.0 + 2_f32.ln();
    examples(
        "x:f32[N] -> y
         y = ReduceLogSumExp<keepdims=0>(x)",
        &format!(
            "[200.0 200.0] => {two:?}
             [-2e38 -2e38]f32 => -2e38f32
             [1e39 1.0]f32 => 1e39f32
             [-1e39 -1e39]f32 => -1e39f32"
        ),
    );
}

#[test]
fn the_last_of_equal_extremes_is_found() {
    for (operator, rows) in [
        ("ArgMax", "[-1e39 -1e39 -1e39]f32 => 2\n[1.0 3.0 3.0] => 2"),
        ("ArgMin", "[1e39 1e39 1e39]f32 => 2\n[1.0 1.0 3.0] => 1"),
    ] {
        let model = format!("x:f32[N] -> y\ny = {operator}<select_last_index=1;keepdims=0>(x)");
        examples(&model, rows);
    }
}

#[test]
fn a_channel_has_a_norm() {
    let constant =
        graph("x:f32[1]", "y", "y = GlobalLpPool(c)").constant("c", tensor4(&[[[[3_f32, -4.]]]]));
    let found = run(constant, &[tensor1(&[0_f32])]).unwrap().remove(0);
    assert_eq!(found, tensor4(&[[[[5_f32]]]]));
    let x = Tensor::from_shape(&[1, 1, 2, 2], &[3_f32, -4., 0., 0.]).unwrap();
    for (attributes, expected) in [("", 5.0), ("<p=1>", 7.0), ("<p=3>", 91_f32.cbrt())] {
        for shape in ["1,1,2,2", "N,C,H,W"] {
            let nodes = format!("y = GlobalLpPool{attributes}(x)");
            let found = run(
                graph(&format!("x:f32[{shape}]"), "y", &nodes),
                std::slice::from_ref(&x),
            );
            let found = found.unwrap().remove(0);
            let near = found.close_enough(&tensor4(&[[[[expected]]]]), Approximation::Close);
            near.unwrap_or_else(|error| panic!("{nodes}: {error}"));
        }
    }
}

/// tract leaves out values without elements, and with them their size along the axis.
#[test]
fn values_without_elements_are_joined() {
    let model = graph(
        "x:f32[2,4,5] r:i64[3]",
        "y",
        "t = Tile(x, r)
         none = Slice(t, [5], [5], [2])
         y = Concat<axis=0>(none, none)",
    );
    let x = Tensor::zero::<f32>(&[2, 4, 5]).unwrap();
    let found = run_each(model, &[vec![x, tensor1(&[2_i64, 1, 1])]]).unwrap();
    assert_eq!(found[0][0].shape(), [8, 4, 0]);
}
