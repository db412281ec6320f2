//! Operators on nothing, such as what was detected where nothing was.

use tract_onnx::prelude::*;

use crate::build::{fails, graph, kinds, run, run_each, run_once, run_optimized, whole};

/// The reductions, and ONNX Runtime's result for no element and for 1, 2 and 4.
const REDUCTIONS: [(&str, f32, f32); 10] = [
    ("ReduceSum", 0., 7.),
    ("ReduceMean", 0., 7. / 3.),
    ("ReduceMax", f32::NEG_INFINITY, 4.),
    ("ReduceMin", f32::INFINITY, 1.),
    ("ReduceProd", 1., 8.),
    ("ReduceL1", 0., 7.),
    ("ReduceL2", 0., 4.582_576),
    ("ReduceLogSum", f32::NEG_INFINITY, 1.945_910_1),
    ("ReduceLogSumExp", f32::NEG_INFINITY, 4.169_846),
    ("ReduceSumSquare", 0., 21.),
];

#[test]
fn nothing_is_reduced_as_in_onnx_runtime() {
    for (operator, of_nothing, of_three) in REDUCTIONS {
        for (elements, expected) in [(&[][..], of_nothing), (&[1., 2., 4.], of_three)] {
            for keepdims in [0, 1] {
                let nodes = format!("r = {operator}<keepdims={keepdims}>(x)\n y = Mul(r, one)");
                for (model, inputs) in kinds("", "y", &nodes, elements) {
                    let model = model.constant("one", tensor0(1_f32));
                    let found =
                        run(model, &inputs).unwrap_or_else(|it| panic!("{operator}: {it:?}"));
                    let found: f32 = found[0].cast_to_scalar().unwrap();
                    let is_equal = found == expected || (found - expected).abs() < 1e-5;
                    assert!(is_equal, "{operator} of {elements:?}: {found}");
                }
            }
        }
    }
}

/// One plan reduces along either axis of a matrix that has rows or columns only.
#[test]
fn one_plan_reduces_nothing_and_something() {
    for axis in [-2_i64, -1, 0, 1] {
        for (operator, of_nothing, _) in REDUCTIONS {
            let nodes = format!("y = {operator}<axes=[{axis}];keepdims=0>(x)");
            let nodes = match operator {
                "ReduceSum" => "y = ReduceSum<keepdims=0>(x, axes)".to_owned(),
                _ => nodes,
            };
            let model = |x: &str| graph(x, "y", &nodes).constant("axes", tensor1(&[axis]));
            let shapes = [[2, 3], [0, 3], [3, 0], [0, 0], [1, 1]];
            let zeros = shapes.map(|shape| vec![Tensor::zero::<f32>(&shape).unwrap()]);
            let found = run_each(model("x:f32[N,M]"), &zeros).unwrap();
            for (shape, (found, inputs)) in std::iter::zip(shapes, std::iter::zip(found, zeros)) {
                let [reduced, kept] = match axis {
                    -2 | 0 => shape,
                    _ => [shape[1], shape[0]],
                };
                assert_eq!(
                    found[0].shape(),
                    [kept],
                    "{operator} along {axis} of {shape:?}"
                );
                let each = found[0].to_plain_array_view::<f32>().unwrap();
                let is_right = |it: &f32| reduced > 0 || *it == of_nothing;
                assert!(
                    each.iter().all(is_right),
                    "{operator} along {axis} of {shape:?}: {each}"
                );
                let known = model(&format!("x:f32[{},{}]", shape[0], shape[1]));
                assert_eq!(run(known, &inputs).unwrap(), found, "{operator}");
            }
        }
    }
}

#[test]
fn integers_are_reduced_without_overflow() {
    let large = [3e9_f32, 4e9, -1e9];
    for (operator, expected, of_nothing) in [
        ("ReduceSum", 6_000_000_000_i64, 0),
        ("ReduceMean", 2_000_000_000, 0),
        ("ReduceMax", 4_000_000_000, i64::MIN),
        ("ReduceMin", -1_000_000_000, i64::MAX),
        ("ReduceL1", 8_000_000_000, 0),
        ("ReduceL2", 5_099_019_513, 0),
        ("ReduceProd", i64::MIN, 1),
        ("ReduceSumSquare", i64::MAX, 0),
    ] {
        let nodes = format!("i = Cast<to=7>(x)\n y = {operator}<keepdims=0>(i)");
        for (elements, expected) in [(&large[..], expected), (&[], of_nothing)] {
            for (model, inputs) in kinds("", "y", &nodes, elements) {
                let found = run(model, &inputs).unwrap();
                assert_eq!(found[0], tensor0(expected), "{operator} of {elements:?}");
            }
        }
    }
}

#[test]
fn no_element_is_the_largest_of_none() {
    for operator in ["ArgMax", "ArgMin"] {
        let nodes = format!("y = {operator}<keepdims=0>(x)");
        for (model, inputs) in kinds("", "y", &nodes, &[]) {
            fails(run(model, &inputs), "looks for an element among none");
        }
        for (model, inputs) in kinds("", "y", &nodes, &[2., 2.]) {
            assert_eq!(run(model, &inputs).unwrap(), [tensor0(0_i64)]);
        }
    }
    let nodes = "i = Cast<to=7>(x)\n y = ArgMin<keepdims=0;select_last_index=1>(i)";
    for (model, inputs) in kinds("", "y", nodes, &[2., 1., 1., 3.]) {
        assert_eq!(run(model, &inputs).unwrap(), [tensor0(2_i64)]);
    }
}

#[test]
fn an_axis_that_the_data_lacks_is_an_error() {
    let model = graph("x:f32[N]", "y", "y = ReduceMax<axes=[1]>(x)");
    fails(
        run(model, &[tensor1(&[1_f32])]),
        "its axis is 1, expected one from -1 to 0",
    );
}

/// tract takes these for constants, because there are no elements.
#[test]
fn known_sizes_of_nothing_are_sizes() {
    for (rows, columns) in [(0, 3), (2, 0), (0, 0), (2, 3)] {
        let zeros = Tensor::zero::<f32>(&[rows, columns]).unwrap();
        for (nodes, shape) in [
            ("y = Flatten<axis=1>(x)", vec![rows, columns]),
            ("t = Transpose(x)\n y = MatMul(x, t)", vec![rows, rows]),
            ("y = Softmax<axis=1>(x)", vec![rows, columns]),
            (
                "i = NonZero(x)\n p = Transpose(i)\n y = GatherND(x, p)",
                vec![0],
            ),
        ] {
            for rows in [rows.to_string(), "N".to_owned()] {
                let x = format!("x:f32[{rows},{columns}]");
                let found = run_once(graph(&x, "y", nodes), std::slice::from_ref(&zeros))
                    .unwrap_or_else(|it| panic!("{nodes} {x}: {it:?}"));
                assert_eq!(found[0].shape(), shape, "{nodes} {x}");
            }
        }
    }
}

/// tract refuses to wire it.
#[test]
fn nothing_is_flattened() {
    let model = graph("x:f32[2,0,4]", "y", "y = Flatten<axis=2>(x)");
    let found = run(model, &[Tensor::zero::<f32>(&[2, 0, 4]).unwrap()]).unwrap();
    assert_eq!(found[0].shape(), [0, 4]);
}

#[test]
fn nothing_is_picked_from_nothing() {
    let nodes = "b = Greater(x, zero)\n c = Compress<axis=0>(x, b)\n y = Neg(c)";
    for (elements, expected) in [(&[][..], &[][..]), (&[1., -1., 2.], &[-1_f32, -2.])] {
        for (model, inputs) in kinds("", "y", nodes, elements) {
            let model = model.constant("zero", tensor0(0_f32));
            assert_eq!(run(model, &inputs).unwrap(), [tensor1(expected)]);
        }
    }
}

/// `k` is checked before the run if it is known, and when it runs.
#[test]
fn there_are_k_elements() {
    for k in ["k", "five"] {
        let nodes = format!("y, at = TopK<axis=0>(x, {k})");
        let enough = [5., f32::NAN, 1., 5., 7., -2.];
        for (model, mut inputs) in kinds("k:i64[1]", "y at", &nodes, &enough) {
            inputs.push(tensor1(&[5_i64]));
            let found = run(model.constant("five", tensor1(&[5_i64])), &inputs).unwrap();
            assert_eq!(found[1], tensor1(&[1_i64, 4, 0, 3, 2]), "{k}");
            let found = found[0].to_plain_array_view::<f32>().unwrap();
            assert!(found[0].is_nan() && found[1] == 7., "{found}");
        }
        for (model, mut inputs) in kinds("k:i64[1]", "y at", &nodes, &enough[..3]) {
            inputs.push(tensor1(&[5_i64]));
            let model = model.constant("five", tensor1(&[5_i64]));
            fails(run(model, &inputs), "k is 5, but axis 0 has 3 elements");
        }
    }
    for (k, expected) in [(-1_i64, "k is -1"), ((1 << 33) + 1, "k is 8589934593")] {
        let model = graph(
            "x:f32[N] k:i64[1]",
            "y",
            "y, _at = TopK<axis=0;largest=0>(x, k)",
        );
        let error = run(model, &[tensor1(&[1_f32, 2.]), tensor1(&[k])]).unwrap_err();
        assert!(format!("{error:?}").contains(expected), "{error:?}");
    }
}

/// A Scan without steps has the states that it began with.
#[test]
fn a_scan_of_nothing_keeps_its_states() {
    let model = |steps: &str, batch: &str| {
        whole(&format!(
            "s:f32[{batch},3] x:f32[{steps},{batch},3] -> last all
             last, all = Scan<num_scan_inputs=1;body=@body>(s, x)
             @body: s:f32[{batch},3] x:f32[{batch},3] -> t y
             t = Add(s, x)
             y = Tanh(t)"
        ))
    };
    let inputs = |steps: usize, batch: usize| {
        let state: Vec<f32> = (0..3 * batch).map(|it| it as f32).collect();
        let state = Tensor::from_shape(&[batch, 3], &state).unwrap();
        vec![state, Tensor::zero::<f32>(&[steps, batch, 3]).unwrap()]
    };
    for (steps, batch) in [(0, 2), (3, 2), (3, 0), (0, 0), (1, 1)] {
        let inputs = inputs(steps, batch);
        let found = run_optimized(model(&steps.to_string(), &batch.to_string()), &inputs).unwrap();
        assert_eq!(found[0], inputs[0], "{steps} steps of {batch}");
        assert_eq!(found[1].shape(), [steps, batch, 3]);
    }
    // tract's own Scan of symbolic sizes does not run for empty ones, if it checks its values.
    for (steps, batch) in [(3, 2), (1, 1)] {
        let inputs = inputs(steps, batch);
        let found = run_optimized(model("T", "N"), &inputs).unwrap();
        assert_eq!(found[0], inputs[0]);
    }
}

/// A body learns its sizes when it is wired, and not before.
#[test]
fn nothing_is_flattened_in_a_body() {
    let body = graph(
        "i:i64[] c:bool[] s:f32[]",
        "k t y",
        "k = Identity(c)\n t = Identity(s)\n f = Gather(x, i)\n y = Flatten<axis=1>(f)",
    );
    let model = graph(
        "n:i64[] x:f32[3,4,0,5] s:f32[]",
        "last all",
        "last, all = Loop<body=@body>(n, _, s)",
    );
    let inputs = [
        tensor0(3_i64),
        Tensor::zero::<f32>(&[3, 4, 0, 5]).unwrap(),
        tensor0(1_f32),
    ];
    let found = run_optimized(model.with("body", body), &inputs).unwrap();
    assert_eq!(found[1].shape(), [3, 4, 0]);
}

/// tract's Scan takes no state that folds.
#[test]
fn a_scan_may_set_its_states_to_constants() {
    let body = graph(
        "s:f32[2] r:i64[] x:f32[2]",
        "t u y",
        "t = Identity(c)\n z = Shape(x)\n u = ReduceSum<keepdims=0>(z)\n y = Add(s, x)",
    );
    let model = graph(
        "s:f32[2] r:i64[] x:f32[3,2]",
        "last sizes all",
        "last, sizes, all = Scan<num_scan_inputs=1;body=@body>(s, r, x)",
    );
    let model = model
        .with("body", body)
        .constant("c", tensor1(&[5_f32, 7.]));
    let x = Tensor::zero::<f32>(&[3, 2]).unwrap();
    let inputs = [tensor1(&[1_f32, 2.]), tensor0(9_i64), x];
    let found = run_optimized(model, &inputs).unwrap();
    let all = tensor2(&[[1_f32, 2.], [5., 7.], [5., 7.]]);
    assert_eq!(found, [tensor1(&[5_f32, 7.]), tensor0(2_i64), all]);
}
