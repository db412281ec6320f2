//! Features of Loop, one by one.

use tract_onnx::prelude::*;

use crate::build::{Graph, Names, graph, parse, run, run_once};

fn check(graph: Graph, inputs: &[Tensor], expected: &[Tensor]) {
    let outputs = run(graph, inputs).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(outputs, expected);
}

/// Adds the captured `x` to a state, and scans it.
fn sum() -> Graph {
    graph("i c s", "c s1 s1", "s1 = Add(s, x)")
}

/// Adds the captured `x` to a state, like [`sum`], while the state is below the captured `limit`.
fn sum_below() -> Graph {
    graph(
        "i c s",
        "c1 s1 s1",
        "s1 = Add(s, x)
         c1 = Less(s1, limit)",
    )
}

#[test]
fn a_trip_count_ends_it() {
    let model = graph(
        "n:i64[] s:f32[] x:f32[]",
        "y ys",
        "y, ys = Loop<body=@sum>(n, _, s)",
    )
    .with("sum", sum());
    let inputs = |n: i64| [tensor0(n), tensor0(1_f32), tensor0(2_f32)];
    check(
        model.clone(),
        &inputs(3),
        &[tensor0(7_f32), tensor1(&[3_f32, 5., 7.])],
    );
    check(
        model.clone(),
        &inputs(1),
        &[tensor0(3_f32), tensor1(&[3_f32])],
    );
    let nothing = [tensor0(1_f32), Tensor::zero::<f32>(&[0]).unwrap()];
    check(model.clone(), &inputs(0), &nothing);
    check(model, &inputs(-3), &nothing);
}

#[test]
fn a_condition_ends_it() {
    let model = graph(
        "c:bool[] s:f32[] x:f32[] limit:f32[]",
        "y ys",
        "y, ys = Loop<body=@sum>(_, c, s)",
    )
    .with("sum", sum_below());
    let inputs = |c: bool, limit: f32| [tensor0(c), tensor0(1_f32), tensor0(2_f32), tensor0(limit)];
    check(
        model.clone(),
        &inputs(true, 6.),
        &[tensor0(7_f32), tensor1(&[3_f32, 5., 7.])],
    );
    // The initial condition is checked before the first step, the body's after it.
    check(
        model.clone(),
        &inputs(true, 0.),
        &[tensor0(3_f32), tensor1(&[3_f32])],
    );
    check(
        model,
        &inputs(false, 6.),
        &[tensor0(1_f32), Tensor::zero::<f32>(&[0]).unwrap()],
    );
}

#[test]
fn the_earlier_of_trip_count_and_condition_ends_it() {
    let model = graph(
        "n:i64[1] c:bool[1] s:f32[] x:f32[] limit:f32[]",
        "y ys",
        "y, ys = Loop<body=@sum>(n, c, s)",
    )
    .with("sum", sum_below());
    let inputs = |n: i64, limit: f32| {
        [
            tensor1(&[n]),
            tensor1(&[true]),
            tensor0(1_f32),
            tensor0(2_f32),
            tensor0(limit),
        ]
    };
    let two = [tensor0(5_f32), tensor1(&[3_f32, 5.])];
    check(model.clone(), &inputs(2, 100.), &two);
    check(model, &inputs(100, 4.), &two);
}

#[test]
fn a_condition_of_the_body_counts_without_one_of_the_node() {
    let model = graph(
        "s:f32[] x:f32[] limit:f32[]",
        "y ys",
        "y, ys = Loop<body=@sum>(_, _, s)",
    )
    .with("sum", sum_below());
    check(
        model,
        &[tensor0(1_f32), tensor0(2_f32), tensor0(6_f32)],
        &[tensor0(7_f32), tensor1(&[3_f32, 5., 7.])],
    );
}

#[test]
fn there_may_be_no_states_and_no_scan_outputs() {
    let steps = graph("i c", "c i", "");
    let model = graph("n:i64[]", "ys", "ys = Loop<body=@steps>(n, _)").with("steps", steps);
    check(model, &[tensor0(4_i64)], &[tensor1(&[0_i64, 1, 2, 3])]);

    let double = graph("i c s", "c s1", "s1 = Add(s, s)");
    let model =
        graph("n:i64[] s:f32[2]", "y", "y = Loop<body=@double>(n, _, s)").with("double", double);
    check(
        model,
        &[tensor0(4_i64), tensor1(&[1_f32, 2.])],
        &[tensor1(&[16_f32, 32.])],
    );
}

#[test]
fn outputs_may_be_left_out() {
    let body = graph(
        "i c a b",
        "c a1 b1 a b",
        "a1 = Add(a, b)\n b1 = Identity(a)",
    );
    let model = graph(
        "n:i64[] a:i64[] b:i64[]",
        "b1 bs",
        "_, b1, _, bs = Loop<body=@body>(n, _, a, b)",
    )
    .with("body", body.clone());
    let inputs = [tensor0(4_i64), tensor0(1_i64), tensor0(1_i64)];
    check(
        model,
        &inputs,
        &[tensor0(5_i64), tensor1(&[1_i64, 1, 2, 3])],
    );
    let model = graph(
        "n:i64[] a:i64[] b:i64[]",
        "a1",
        "a1 = Loop<body=@body>(n, _, a, b)",
    )
    .with("body", body);
    check(model, &inputs, &[tensor0(8_i64)]);
}

#[test]
fn states_may_be_permuted() {
    // Each value is also scanned before it moves.
    let body = graph("i c a b d", "c b d a a b", "");
    let model = graph(
        "n:i64[] a:f32[1] b:f32[1] d:f32[1]",
        "x y z xs ys",
        "x, y, z, xs, ys = Loop<body=@body>(n, _, a, b, d)",
    )
    .with("body", body);
    let one = |value: f32| tensor1(&[value]);
    check(
        model,
        &[tensor0(4_i64), one(1.), one(2.), one(3.)],
        &[
            one(2.),
            one(3.),
            one(1.),
            tensor2(&[[1_f32], [2.], [3.], [1.]]),
            tensor2(&[[2_f32], [3.], [1.], [2.]]),
        ],
    );
}

#[test]
fn states_may_be_unchanged() {
    let body = graph(
        "i c kept s",
        "c also s1 also",
        "also = Identity(kept)
         s1 = Add(s, kept)",
    );
    let model = graph(
        "n:i64[] kept:f32[2] s:f32[2]",
        "k y ks",
        "k, y, ks = Loop<body=@body>(n, _, kept, s)",
    )
    .with("body", body);
    let pair = |a: f32, b: f32| tensor1(&[a, b]);
    check(
        model.clone(),
        &[tensor0(2_i64), pair(1., 2.), pair(0., 0.)],
        &[
            pair(1., 2.),
            pair(2., 4.),
            tensor2(&[[1_f32, 2.], [1., 2.]]),
        ],
    );
    check(
        model,
        &[tensor0(0_i64), pair(1., 2.), pair(0., 3.)],
        &[
            pair(1., 2.),
            pair(0., 3.),
            Tensor::zero::<f32>(&[0, 2]).unwrap(),
        ],
    );
}

#[test]
fn bodies_have_constants_and_capture_values() {
    // The body outputs a captured value, and a constant of its own as a state.
    let body = graph(
        "i c s",
        "c one z w",
        "z = Add(s, outer)\n w = Mul(outer, two)",
    )
    .constant("one", tensor0(1_f32));
    let model = graph(
        "n:i64[] s:f32[] outer:f32[2]",
        "y zs ws",
        "y, zs, ws = Loop<body=@body>(n, _, s)",
    )
    .constant("two", tensor0(2_f32))
    .with("body", body);
    check(
        model,
        &[tensor0(2_i64), tensor0(5_f32), tensor1(&[1_f32, 2.])],
        &[
            tensor0(1_f32),
            tensor2(&[[6_f32, 7.], [2., 3.]]),
            tensor2(&[[2_f32, 4.], [2., 4.]]),
        ],
    );
}

#[test]
fn constants_may_be_inputs_of_the_body_as_well() {
    // As in models before IR version 4.
    let body = graph("i c s one", "c s1", "s1 = Add(s, one)").constant("one", tensor0(1_f32));
    let model = graph("n:i64[] s:f32[]", "y", "y = Loop<body=@body>(n, _, s)").with("body", body);
    check(model, &[tensor0(3_i64), tensor0(0_f32)], &[tensor0(3_f32)]);
}

#[test]
fn loops_run_in_loops() {
    // Row i of a triangle, times an outer value, plus the outer state.
    let inner = graph("j d t", "d t1 t1", "t1 = Add(t, step)");
    let outer = graph(
        "i c s",
        "c s1 last",
        "step = Cast<to=1>(i)
         count = Add(i, 1)
         last, all = Loop<body=@inner>(count, _, 0.0)
         total = ReduceSum<keepdims=0>(all)
         s1 = Add(s, total)",
    )
    .with("inner", inner);
    let model = graph(
        "n:i64[] s:f32[]",
        "y ys",
        "y, ys = Loop<body=@outer>(n, _, s)",
    )
    .with("outer", outer);
    // Step i adds i (1 + 2 + ... + (i + 1)).
    check(
        model,
        &[tensor0(4_i64), tensor0(0_f32)],
        &[
            tensor0((3 + 2 * 6 + 3 * 10) as f32),
            tensor1(&[0_f32, 2., 6., 12.]),
        ],
    );
}

#[test]
fn loops_run_in_branches_and_branches_in_loops() {
    let branch = graph("", "y", "y, ys = Loop<body=@sum>(n, _, s)").with("sum", sum());
    let other = graph("", "z", "z = Neg(s)");
    let model = graph(
        "n:i64[] c:bool[] s:f32[] x:f32[]",
        "out",
        "out = If<then_branch=@loop;else_branch=@other>(c)",
    )
    .with("loop", branch)
    .with("other", other);
    let inputs = |c: bool| [tensor0(3_i64), tensor0(c), tensor0(1_f32), tensor0(2_f32)];
    check(model.clone(), &inputs(true), &[tensor0(7_f32)]);
    check(model, &inputs(false), &[tensor0(-1_f32)]);

    let body = graph(
        "i c s",
        "c s1",
        "is_small = Less(s, x)
         s1 = If<then_branch=@double;else_branch=@less>(is_small)",
    )
    .constant("one", tensor0(1_f32))
    .with("double", graph("", "d", "d = Add(s, s)"))
    .with("less", graph("", "l", "l = Sub(s, one)"));
    let model = graph(
        "n:i64[] s:f32[] x:f32[]",
        "y",
        "y = Loop<body=@body>(n, _, s)",
    )
    .with("body", body);
    check(
        model,
        &[tensor0(4_i64), tensor0(1_f32), tensor0(3_f32)],
        // 1, 2, 4, 3, 2.
        &[tensor0(2_f32)],
    );
}

#[test]
fn scans_in_loops_start_anew_at_each_step() {
    let cumulate = graph(
        "t:f32[] e:f32[]",
        "t1 out",
        "t1 = Add(t, e)\n out = Identity(t1)",
    );
    let body = graph(
        "i c s",
        "c total sums",
        "total, sums = Scan<body=@cumulate;num_scan_inputs=1>(0.0, x)",
    )
    .with("cumulate", cumulate);
    let model = graph(
        "n:i64[] s:f32[] x:f32[3]",
        "y ys",
        "y, ys = Loop<body=@body>(n, _, s)",
    )
    .with("body", body);
    check(
        model,
        &[tensor0(2_i64), tensor0(9_f32), tensor1(&[1_f32, 2., 3.])],
        &[tensor0(6_f32), tensor2(&[[1_f32, 3., 6.], [1., 3., 6.]])],
    );

    let step = graph(
        "t:f32[] e:f32[]",
        "t1 out",
        "t1, outs = Loop<body=@sum>(n, _, t)\n out = Add(t1, e)",
    )
    .with("sum", sum());
    let model = graph(
        "n:i64[] s:f32[] x:f32[] es:f32[2]",
        "y ys",
        "y, ys = Scan<body=@step;num_scan_inputs=1>(s, es)",
    )
    .with("step", step);
    let inputs = [
        tensor0(2_i64),
        tensor0(1_f32),
        tensor0(3_f32),
        tensor1(&[0.5_f32, 0.25]),
    ];
    assert_eq!(
        run_once(model, &inputs).unwrap(),
        [tensor0(13_f32), tensor1(&[7.5_f32, 13.25])]
    );
}

#[test]
fn states_may_grow() {
    // Sizes that grow alike may be added; the scan output keeps its shape.
    let body = graph(
        "i c a b",
        "c a1 b1 size",
        "row = Gather<axis=0>(x, i)
         rows = Unsqueeze(row, [0])
         a1 = Concat<axis=0>(a, rows)
         b1 = Concat<axis=0>(rows, b)
         both = Add(a1, b1)
         size = ReduceSum<keepdims=0>(both)",
    );
    let model = graph(
        "n:i64[] a:f32[1,2] b:f32[1,2] x:f32[4,2]",
        "y z sums",
        "y, z, sums = Loop<body=@body>(n, _, a, b)",
    )
    .with("body", body);
    let x = tensor2(&[[1_f32, 2.], [3., 4.], [5., 6.], [7., 8.]]);
    let zero = tensor2(&[[0_f32, 0.]]);
    check(
        model.clone(),
        &[tensor0(2_i64), zero.clone(), zero.clone(), x.clone()],
        &[
            tensor2(&[[0_f32, 0.], [1., 2.], [3., 4.]]),
            tensor2(&[[3_f32, 4.], [1., 2.], [0., 0.]]),
            tensor1(&[6_f32, 20.]),
        ],
    );
    check(
        model,
        &[tensor0(0_i64), zero.clone(), zero.clone(), x],
        &[zero.clone(), zero, Tensor::zero::<f32>(&[0]).unwrap()],
    );
}

#[test]
fn states_may_start_empty() {
    let body = graph(
        "i c a",
        "c a1",
        "rows = Unsqueeze(i, [0])
         a1 = Concat<axis=0>(a, rows)",
    );
    let model = graph("n:i64[] a:i64[0]", "y", "y = Loop<body=@body>(n, _, a)").with("body", body);
    check(
        model,
        &[tensor0(3_i64), Tensor::zero::<i64>(&[0]).unwrap()],
        &[tensor1(&[0_i64, 1, 2])],
    );
}

#[test]
fn states_may_broadcast_at_the_first_step() {
    let model = graph(
        "n:i64[] s:f32[1] x:f32[3]",
        "y",
        "y, ys = Loop<body=@sum>(n, _, s)",
    )
    .with("sum", graph("i c s", "c s1 x", "s1 = Add(s, x)"));
    check(
        model,
        &[tensor0(2_i64), tensor1(&[1_f32]), tensor1(&[1_f32, 2., 3.])],
        &[tensor1(&[3_f32, 5., 7.])],
    );
}

#[test]
fn an_empty_scan_output_has_its_type_and_rank() {
    let body = graph("i c s", "c s s flags", "flags = Less(s, x)");
    let model = graph(
        "n:i64[] s:f32[B,3] x:f32[3]",
        "ys flags",
        "_, ys, flags = Loop<body=@body>(n, _, s)",
    )
    .with("body", body);
    let s = Tensor::zero::<f32>(&[2, 3]).unwrap();
    check(
        model,
        &[tensor0(0_i64), s, tensor1(&[1_f32, 2., 3.])],
        &[
            Tensor::zero::<f32>(&[0, 2, 3]).unwrap(),
            Tensor::zero_dt(DatumType::Bool, &[0, 2, 3]).unwrap(),
        ],
    );
}

#[test]
fn sizes_may_be_symbols() {
    // As many steps as the input has rows, which are read by step.
    let body = graph(
        "i c s",
        "c s1 s1",
        "row = Gather<axis=0>(x, i)\n s1 = Add(s, row)",
    );
    let model = graph(
        "x:f32[T,B] s:f32[B]",
        "y ys",
        "shape = Shape(x)
         n = Gather<axis=0>(shape, 0)
         y, ys = Loop<body=@body>(n, _, s)",
    )
    .with("body", body);
    for steps in [3, 1, 0] {
        let x: Vec<f32> = (0..steps * 2).map(|it| it as f32).collect();
        let sums: Vec<f32> = (0..steps * 2)
            .map(|it| (0..=it / 2).map(|row| (row * 2 + it % 2) as f32).sum())
            .collect();
        let last = match steps {
            0 => [0., 0.],
            _ => [sums[steps * 2 - 2], sums[steps * 2 - 1]],
        };
        check(
            model.clone(),
            &[
                Tensor::from_shape(&[steps, 2], &x).unwrap(),
                tensor1(&[0_f32, 0.]),
            ],
            &[
                tensor1(&last),
                Tensor::from_shape(&[steps, 2], &sums).unwrap(),
            ],
        );
    }
}

#[test]
fn sizes_may_be_states() {
    // Sizes have tract's own type until they are computed with.
    let body = graph("i c s", "c s1 s1", "s1 = Add(s, size)");
    let model = graph(
        "x:f32[T,B] n:i64[]",
        "y ys",
        "shape = Shape(x)
         size = Gather<axis=0>(shape, 0)
         y, ys = Loop<body=@body>(n, _, size)",
    )
    .with("body", body);
    check(
        model,
        &[Tensor::zero::<f32>(&[3, 2]).unwrap(), tensor0(2_i64)],
        &[tensor0(9_i64), tensor1(&[6_i64, 9])],
    );
}

#[test]
fn every_datum_type_is_carried_and_scanned() {
    let numbers = tensor1(&[1_i64, 0, 3]);
    for datum_type in [
        DatumType::Bool,
        DatumType::U8,
        DatumType::U16,
        DatumType::U32,
        DatumType::U64,
        DatumType::I8,
        DatumType::I16,
        DatumType::I32,
        DatumType::I64,
        DatumType::F16,
        DatumType::F32,
        DatumType::F64,
        DatumType::String,
    ] {
        let name = format!("{datum_type:?}").to_lowercase();
        let a = match datum_type {
            DatumType::Bool => tensor1(&[true, false, true]),
            _ => numbers.cast_to_dt(datum_type).unwrap().into_owned(),
        };
        let b = a.slice(0, 0, 1).unwrap();
        let body = graph("i c a b", "c b a a", "");
        let model = graph(
            &format!("n:i64[] a:{name}[3] b:{name}[1]"),
            "x y",
            "x, y, _ = Loop<body=@body>(n, _, a, b)",
        )
        .with("body", body);
        check(
            model,
            &[tensor0(3_i64), a.clone(), b.clone()],
            &[b.clone(), a.clone()],
        );
        let model = graph(
            &format!("n:i64[] a:{name}[3]"),
            "ys firsts",
            "_, ys, firsts = Loop<body=@body>(n, _, a)",
        )
        .constant("zero", tensor0(0_i64))
        .with(
            "body",
            graph("i c a", "c a a first", "first = Gather<axis=0>(a, zero)"),
        );
        let rows = Tensor::stack_tensors(0, &[a.clone(), a.clone()]).unwrap();
        let firsts = Tensor::stack_tensors(0, &[b.clone(), b]).unwrap();
        check(
            model,
            &[tensor0(2_i64), a],
            &[rows.into_shape(&[2, 3]).unwrap(), firsts],
        );
    }
}

/// Nested loops; each runs its body `n` times.
pub(crate) fn nested(depth: usize) -> Graph {
    if depth == 0 {
        return graph("i c s", "c s1", "s1 = Add(s, x)");
    }
    graph("i c s", "c s1", "s1 = Loop<body=@inner>(n, _, s)").with("inner", nested(depth - 1))
}

#[test]
fn loops_may_be_nested_deeply() {
    // At the very first step, the state takes the size of `x`.
    let model = graph(
        "n:i64[] s:f32[1] x:f32[2]",
        "y",
        "y = Loop<body=@body>(n, _, s)",
    )
    .with("body", nested(7));
    let x = tensor1(&[1_f32, 2.]);
    check(
        model,
        &[tensor0(2_i64), tensor1(&[0_f32]), x],
        &[tensor1(&[256_f32, 512.])],
    );
}

#[test]
fn the_example_shows_how_loops_run() {
    let lines = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models");
        let path = format!("{folder}/{name}/model.onnx");
        crate::example::loops(&path).unwrap_or_else(|error| panic!("{error:#}"))
    };
    assert_eq!(lines("loops/test_loop11"), ["res_y: as a program"]);
    let keras = lines("exported/keras_lstm_gru_simplernn");
    let layers = keras.iter().map(|line| line.split_once(": ").unwrap().1);
    assert!(
        layers.eq(["LSTM", "GRU", "RNN"].map(|it| format!("as a layer ({it})"))),
        "{keras:?}"
    );
    let both = lines("recurrent/test_lstm_bidirectional");
    assert!(
        both.len() == 1 && both[0].ends_with(": as a layer (LSTM)"),
        "{both:?}"
    );
}

/// tract tells them from each other by the name of the node.
#[test]
fn random_numbers_have_the_shape_that_their_operator_says() {
    for (operator, mean) in [("RandomNormal", 0.), ("RandomUniform", 0.5)] {
        let nodes = format!("rLike = {operator}<shape=[400,5]>()\n r = {operator}Like(x)");
        for names in [Names::OfTheirOwn, Names::OfOutputs, Names::None] {
            for size in ["400", "N"] {
                let model = graph(&format!("x:f32[{size},5]"), "rLike r", &nodes).named(names);
                let model = parse(model).unwrap().into_typed().unwrap();
                let model = revseq_tract_operators::into_optimized(model).unwrap();
                let x = Tensor::zero::<f32>(&[400, 5]).unwrap();
                let found = model.into_runnable().unwrap().run(tvec!(x.into())).unwrap();
                for found in found {
                    let found = found.to_plain_array_view::<f32>().unwrap();
                    assert_eq!(found.shape(), [400, 5], "{operator} {names:?}");
                    let sum: f32 = found.iter().sum();
                    assert!((sum / 2000. - mean).abs() < 0.15, "{operator}: {sum}");
                }
            }
        }
    }
}

/// An output that nothing reads has no name.
#[test]
fn last_outputs_may_be_left_out() {
    let x = Tensor::from_shape(&[1, 2, 4], &[3_f32, -1., 4., 1., -5., 9., 2., -6.]).unwrap();
    for (node, expected) in [
        ("Dropout(x)", x.clone()),
        (
            "MaxPool<kernel_shape=[2];strides=[2]>(x)",
            Tensor::from_shape(&[1, 2, 2], &[3_f32, 4., 9., 2.]).unwrap(),
        ),
    ] {
        for (sizes, opset) in [("1,2,4", 9), ("N,2,4", 11), ("1,2,4", 13), ("N,2,4", 17)] {
            let nodes = format!("y, _ = {node}");
            let model = graph(&format!("x:f32[{sizes}]"), "y", &nodes).opset(opset);
            let found = run(model, std::slice::from_ref(&x));
            let found = found.unwrap_or_else(|error| panic!("{nodes}, {opset}: {error:#}"));
            assert_eq!(found, std::slice::from_ref(&expected), "{nodes}, {opset}");
        }
    }
}

/// As in ONNX Runtime, which says only later that nothing is dropped.
#[test]
fn the_mask_of_an_early_dropout_has_zeros() {
    let x = tensor1(&[1_f32, -2., 0.]);
    for (opset, expected) in [
        (7, tensor1(&[0_f32; 3])),
        (9, tensor1(&[0_f32; 3])),
        (10, tensor1(&[false; 3])),
        (12, tensor1(&[true; 3])),
    ] {
        for size in ["3", "N"] {
            let model = graph(&format!("x:f32[{size}]"), "y mask", "y, mask = Dropout(x)");
            let found = run(model.opset(opset), std::slice::from_ref(&x)).unwrap();
            assert_eq!(found, [x.clone(), expected.clone()], "opset {opset}");
        }
    }
}
