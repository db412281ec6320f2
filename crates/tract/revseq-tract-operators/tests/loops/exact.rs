//! Tests of results that tract's simplifications would change.

use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, graph, onnx, parse, run, run_each, whole};

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
    let numbers = |sizes: &[usize]| {
        let count = sizes.iter().product::<usize>() as i32;
        let numbers: Vec<f32> = (0..count).map(|it| (it * 7 % 11 - 5) as f32).collect();
        tensor1(&numbers).into_shape(sizes).unwrap()
    };
    let times = |sizes: &[i64]| tensor1(sizes);
    for (x, times, w, nodes) in [
        (&[1, 3][..], times(&[4, 1]), &[3, 5][..], "y = MatMul(z, w)"),
        (&[3, 1], times(&[1, 4]), &[4, 5], "y = MatMul(z, w)"),
        (&[3, 2], times(&[1, 2]), &[4, 5], "y = MatMul(z, w)"),
        (&[4, 1], times(&[1, 5]), &[3, 4], "y = MatMul(w, z)"),
        (
            &[1, 2, 3],
            times(&[4, 1, 1]),
            &[4, 3, 5],
            "y = MatMul(z, w)",
        ),
        (&[1, 2, 3], times(&[4, 1, 1]), &[3, 5], "y = MatMul(z, w)"),
        (&[1, 3], times(&[4, 1]), &[5, 3], "y = Gemm<transB=1>(z, w)"),
        (
            &[3, 1],
            times(&[1, 4]),
            &[3, 4],
            "y = Einsum<equation=\"ik,ik->i\">(z, w)",
        ),
        (
            &[3, 1],
            times(&[1, 4]),
            &[2, 3],
            "y = Einsum<equation=\"ik,ji->jk\">(z, w)",
        ),
    ] {
        let model = |x: &str| {
            graph(
                &format!("x:f32[{x}]"),
                "y",
                &format!("z = Tile(x, times)\n{nodes}"),
            )
            .constant("times", times.clone())
            .constant("w", numbers(w))
        };
        let known = x
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let plain = parse(model(&known)).unwrap().into_typed().unwrap();
        let plain = plain.into_runnable().unwrap();
        let expected = plain.run(tvec!(numbers(x).into_tvalue())).unwrap();
        // tract's Einsum does not take a size for another.
        let open = (!nodes.contains("Einsum")).then(|| format!("N{}", &known[1..]));
        for sizes in [Some(known), open].into_iter().flatten() {
            let found = run_each(model(&sizes), &[vec![numbers(x)]]).unwrap();
            assert_eq!(found[0][0], *expected[0], "{sizes}: {nodes}");
        }
    }
}

/// tract moves strides before what it takes for functions of single elements, and reshapes before
/// products; where that fails, a model is computed as it is.
#[test]
fn what_comes_before_strides_and_products_is_computed_as_it_is() {
    for (nodes, x, w) in [
        (
            "z = Conv<auto_pad=\"SAME_UPPER\">(x, v)\ny = Conv<strides=[2,2]>(z, w)",
            &[1, 2, 8, 8][..],
            &[3, 4, 1, 1][..],
        ),
        (
            "z = Conv(x, v)\nodd = Slice(z, [1], [9], [3], [2])\ny = Conv(odd, w)",
            &[1, 2, 8, 8],
            &[3, 4, 1, 1],
        ),
        (
            "z = Softmax<axis=2>(x)\ny = Conv<strides=[2,2]>(z, w)",
            &[1, 2, 4, 4],
            &[3, 2, 1, 1],
        ),
        (
            "z = CumSum(x, 3)\ny = Conv<strides=[2,2]>(z, w)",
            &[1, 2, 4, 4],
            &[3, 2, 1, 1],
        ),
        (
            "z = Tile(x, [1 1 1 5])\ny = Conv<strides=[1,2]>(z, w)",
            &[1, 3, 4, 1],
            &[5, 3, 1, 1],
        ),
        (
            "z = Reshape(x, [1 8 9 1])\ny = Conv<strides=[2,2]>(z, w)",
            &[1, 4, 3, 6],
            &[5, 8, 1, 1],
        ),
        (
            "z = Reshape(x, [8 5 6])\ny = MatMul(z, w)",
            &[2, 4, 5, 6],
            &[1, 6, 3],
        ),
        (
            "m = GlobalAveragePool(x)\nz = Conv(m, w)\ny = Mul(x, z)",
            &[1, 3, 4],
            &[3, 3, 1],
        ),
        ("y = Pow(x, w)", &[3], &[2, 3]),
    ] {
        let count = |sizes: &[usize]| sizes.iter().product::<usize>();
        let numbers = |sizes: &[usize]| {
            let numbers = (0..count(sizes)).map(|it| ((it * 7) % 11) as f32 / 4.0);
            let numbers: Vec<f32> = numbers.collect();
            tensor1(&numbers).into_shape(sizes).unwrap()
        };
        let w = match nodes.contains("Pow") {
            true => Tensor::from_shape(w, &vec![2_f32; count(w)]).unwrap(),
            false => numbers(w),
        };
        let sizes: Vec<String> = x.iter().map(ToString::to_string).collect();
        let model = graph(&format!("x:f32[{}]", sizes.join(",")), "y", nodes)
            .constant("w", w)
            .constant("v", numbers(&[4, 2, 3, 3]));
        let plain = parse(model.clone()).unwrap().into_typed().unwrap();
        let plain = plain.into_runnable().unwrap();
        let expected = plain.run(tvec!(numbers(x).into_tvalue())).unwrap();
        let found =
            run_each(model, &[vec![numbers(x)]]).unwrap_or_else(|error| panic!("{nodes}: {error}"));
        let near = found[0][0].close_enough(&expected[0], Approximation::Close);
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
    let model = graph(
        "x:f32[1]",
        "y",
        "z = MatMul([1.0 2.0 3.0], [1.0 2.0 3.0])\ny = Mul(x, z)",
    );
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
    for (x, expected) in [
        ([200_f32, 200.], 200.0 + 2_f32.ln()),
        ([-2e38, -2e38], -2e38),
        ([f32::INFINITY, 1.], f32::INFINITY),
        ([f32::NEG_INFINITY, f32::NEG_INFINITY], f32::NEG_INFINITY),
    ] {
        let model = graph("x:f32[N]", "y", "y = ReduceLogSumExp<keepdims=0>(x)");
        let found = run(model, &[tensor1(&x)]).unwrap().remove(0);
        assert_eq!(found, tensor0(expected), "{x:?}");
    }
}

#[test]
fn the_last_of_equal_extremes_is_found() {
    let inf = f32::INFINITY;
    for (operator, x, expected) in [
        ("ArgMax", [-inf, -inf, -inf], 2),
        ("ArgMin", [inf, inf, inf], 2),
        ("ArgMax", [1., 3., 3.], 2),
        ("ArgMin", [1., 1., 3.], 1),
    ] {
        let nodes = format!("y = {operator}<select_last_index=1;keepdims=0>(x)");
        let found = run(graph("x:f32[N]", "y", &nodes), &[tensor1(&x)]);
        assert_eq!(
            found.unwrap().remove(0),
            tensor0(expected as i64),
            "{operator} of {x:?}"
        );
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
