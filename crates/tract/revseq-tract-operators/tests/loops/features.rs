//! Features of Loop, one by one.

use tract_onnx::prelude::*;

use crate::build::{Graph, Names, examples, graph, parse, run, run_once, value, whole};

fn check(graph: Graph, inputs: &[Tensor], expected: &[Tensor]) {
    let outputs = run(graph, inputs).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(outputs, expected);
}

/// Adds the captured `x` to a state, and scans it.
const SUM: &str = "@sum: i c s -> c s1 s1
    s1 = Add(s, x)";

/// The same while the state is below the captured `limit`.
const SUM_BELOW: &str = "@sum: i c s -> c1 s1 s1
    s1 = Add(s, x)
    c1 = Less(s1, limit)";

#[test]
fn a_trip_count_ends_it() {
    examples(
        &format!("n:i64[] s:f32[] x:f32[] -> y ys\n y, ys = Loop<body=@sum>(n, _, s)\n {SUM}"),
        "3, 1.0, 2.0 => 7.0, [3.0 5.0 7.0]
         1, 1.0, 2.0 => 3.0, [3.0]
         0, 1.0, 2.0 => 1.0, []f32
         -3, 1.0, 2.0 => 1.0, []f32",
    );
}

#[test]
fn a_condition_ends_it() {
    examples(
        &format!(
            "c:bool[] s:f32[] x:f32[] limit:f32[] -> y ys
             y, ys = Loop<body=@sum>(_, c, s)
             {SUM_BELOW}"
        ),
        // The initial condition is checked before the first step, the body's after it.
        "true, 1.0, 2.0, 6.0 => 7.0, [3.0 5.0 7.0]
         true, 1.0, 2.0, 0.0 => 3.0, [3.0]
         false, 1.0, 2.0, 6.0 => 1.0, []f32",
    );
}

#[test]
fn the_earlier_of_trip_count_and_condition_ends_it() {
    examples(
        &format!(
            "n:i64[1] c:bool[1] s:f32[] x:f32[] limit:f32[] -> y ys
             y, ys = Loop<body=@sum>(n, c, s)
             {SUM_BELOW}"
        ),
        "[2], [true], 1.0, 2.0, 100.0 => 5.0, [3.0 5.0]
         [100], [true], 1.0, 2.0, 4.0 => 5.0, [3.0 5.0]",
    );
}

#[test]
fn a_condition_of_the_body_counts_without_one_of_the_node() {
    examples(
        &format!(
            "s:f32[] x:f32[] limit:f32[] -> y ys
             y, ys = Loop<body=@sum>(_, _, s)
             {SUM_BELOW}"
        ),
        "1.0, 2.0, 6.0 => 7.0, [3.0 5.0 7.0]",
    );
}

#[test]
fn there_may_be_no_states_and_no_scan_outputs() {
    examples(
        "n:i64[] -> ys
         ys = Loop<body=@steps>(n, _)
         @steps: i c -> c i",
        "4 => [0 1 2 3]",
    );
    examples(
        "n:i64[] s:f32[2] -> y
         y = Loop<body=@double>(n, _, s)
         @double: i c s -> c s1
         s1 = Add(s, s)",
        "4, [1.0 2.0] => [16.0 32.0]",
    );
}

#[test]
fn outputs_may_be_left_out() {
    let body = "@body: i c a b -> c a1 b1 a b
        a1 = Add(a, b)
        b1 = Identity(a)";
    examples(
        &format!(
            "n:i64[] a:i64[] b:i64[] -> b1 bs
             _, b1, _, bs = Loop<body=@body>(n, _, a, b)
             {body}"
        ),
        "4, 1, 1 => 5, [1 1 2 3]",
    );
    examples(
        &format!("n:i64[] a:i64[] b:i64[] -> a1\n a1 = Loop<body=@body>(n, _, a, b)\n {body}"),
        "4, 1, 1 => 8",
    );
}

/// Each value is also scanned before it moves.
#[test]
fn states_may_be_permuted() {
    examples(
        "n:i64[] a:f32[1] b:f32[1] d:f32[1] -> x y z xs ys
         x, y, z, xs, ys = Loop<body=@body>(n, _, a, b, d)
         @body: i c a b d -> c b d a a b",
        "4, [1.0], [2.0], [3.0]
         => [2.0], [3.0], [1.0], [1.0 2.0 3.0 1.0]@4x1, [2.0 3.0 1.0 2.0]@4x1",
    );
}

#[test]
fn states_may_be_unchanged() {
    examples(
        "n:i64[] kept:f32[2] s:f32[2] -> k y ks
         k, y, ks = Loop<body=@body>(n, _, kept, s)
         @body: i c kept s -> c also s1 also
         also = Identity(kept)
         s1 = Add(s, kept)",
        "2, [1.0 2.0], [0.0 0.0] => [1.0 2.0], [2.0 4.0], [1.0 2.0 1.0 2.0]@2x2
         0, [1.0 2.0], [0.0 3.0] => [1.0 2.0], [0.0 3.0], []f32@0x2",
    );
}

/// The body outputs a captured value, and a constant of its own as a state.
#[test]
fn bodies_have_constants_and_capture_values() {
    examples(
        "n:i64[] s:f32[] outer:f32[2] -> y zs ws
         two = 2.0
         y, zs, ws = Loop<body=@body>(n, _, s)
         @body: i c s -> c one z w
         one = 1.0
         z = Add(s, outer)
         w = Mul(outer, two)",
        "2, 5.0, [1.0 2.0] => 1.0, [6.0 7.0 2.0 3.0]@2x2, [2.0 4.0 2.0 4.0]@2x2",
    );
}

/// As in models before IR version 4.
#[test]
fn constants_may_be_inputs_of_the_body_as_well() {
    examples(
        "n:i64[] s:f32[] -> y
         y = Loop<body=@body>(n, _, s)
         @body: i c s one -> c s1
         one = 1.0
         s1 = Add(s, one)",
        "3, 0.0 => 3.0",
    );
}

/// Row i of a triangle, times an outer value, plus the outer state.
#[test]
fn loops_run_in_loops() {
    examples(
        "n:i64[] s:f32[] -> y ys
         y, ys = Loop<body=@outer>(n, _, s)
         @outer: i c s -> c s1 last
         step = Cast<to=1>(i)
         count = Add(i, 1)
         last, all = Loop<body=@inner>(count, _, 0.0)
         total = ReduceSum<keepdims=0>(all)
         s1 = Add(s, total)
         @inner: j d t -> d t1 t1
         t1 = Add(t, step)",
        // Step i adds i (1 + 2 + ... + (i + 1)): 3 + 2 * 6 + 3 * 10.
        "4, 0.0 => 45.0, [0.0 2.0 6.0 12.0]",
    );
}

#[test]
fn loops_run_in_branches_and_branches_in_loops() {
    examples(
        &format!(
            "n:i64[] c:bool[] s:f32[] x:f32[] -> out
             out = If<then_branch=@loop;else_branch=@other>(c)
             @loop: -> y
             y, ys = Loop<body=@sum>(n, _, s)
             @other: -> z
             z = Neg(s)
             {SUM}"
        ),
        "3, true, 1.0, 2.0 => 7.0
         3, false, 1.0, 2.0 => -1.0",
    );
    examples(
        "n:i64[] s:f32[] x:f32[] -> y
         y = Loop<body=@body>(n, _, s)
         @body: i c s -> c s1
         one = 1.0
         is_small = Less(s, x)
         s1 = If<then_branch=@double;else_branch=@less>(is_small)
         @double: -> d
         d = Add(s, s)
         @less: -> l
         l = Sub(s, one)",
        // 1, 2, 4, 3, 2.
        "4, 1.0, 3.0 => 2.0",
    );
}

#[test]
fn scans_in_loops_start_anew_at_each_step() {
    examples(
        "n:i64[] s:f32[] x:f32[3] -> y ys
         y, ys = Loop<body=@body>(n, _, s)
         @body: i c s -> c total sums
         total, sums = Scan<body=@cumulate;num_scan_inputs=1>(0.0, x)
         @cumulate: t:f32[] e:f32[] -> t1 out
         t1 = Add(t, e)
         out = Identity(t1)",
        "2, 9.0, [1.0 2.0 3.0] => 6.0, [1.0 3.0 6.0 1.0 3.0 6.0]@2x3",
    );
    let model = whole(&format!(
        "n:i64[] s:f32[] x:f32[] es:f32[2] -> y ys
         y, ys = Scan<body=@step;num_scan_inputs=1>(s, es)
         @step: t:f32[] e:f32[] -> t1 out
         t1, outs = Loop<body=@sum>(n, _, t)
         out = Add(t1, e)
         {SUM}"
    ));
    let inputs = ["2", "1.0", "3.0", "[0.5 0.25]"].map(value);
    let expected = ["13.0", "[7.5 13.25]"].map(value);
    assert_eq!(run_once(model, &inputs).unwrap(), expected);
}

/// Sizes that grow alike may be added; the scan output keeps its shape.
#[test]
fn states_may_grow() {
    examples(
        "n:i64[] a:f32[1,2] b:f32[1,2] x:f32[4,2] -> y z sums
         y, z, sums = Loop<body=@body>(n, _, a, b)
         @body: i c a b -> c a1 b1 size
         row = Gather<axis=0>(x, i)
         rows = Unsqueeze(row, [0])
         a1 = Concat<axis=0>(a, rows)
         b1 = Concat<axis=0>(rows, b)
         both = Add(a1, b1)
         size = ReduceSum<keepdims=0>(both)",
        "2, [0.0 0.0]@1x2, [0.0 0.0]@1x2, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]@4x2
         => [0.0 0.0 1.0 2.0 3.0 4.0]@3x2, [3.0 4.0 1.0 2.0 0.0 0.0]@3x2, [6.0 20.0]
         0, [0.0 0.0]@1x2, [0.0 0.0]@1x2, [1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0]@4x2
         => [0.0 0.0]@1x2, [0.0 0.0]@1x2, []f32",
    );
}

#[test]
fn states_may_start_empty() {
    examples(
        "n:i64[] a:i64[0] -> y
         y = Loop<body=@body>(n, _, a)
         @body: i c a -> c a1
         rows = Unsqueeze(i, [0])
         a1 = Concat<axis=0>(a, rows)",
        "3, [] => [0 1 2]",
    );
}

#[test]
fn states_may_broadcast_at_the_first_step() {
    examples(
        "n:i64[] s:f32[1] x:f32[3] -> y
         y, ys = Loop<body=@sum>(n, _, s)
         @sum: i c s -> c s1 x
         s1 = Add(s, x)",
        "2, [1.0], [1.0 2.0 3.0] => [3.0 5.0 7.0]",
    );
}

#[test]
fn an_empty_scan_output_has_its_type_and_rank() {
    examples(
        "n:i64[] s:f32[B,3] x:f32[3] -> ys flags
         _, ys, flags = Loop<body=@body>(n, _, s)
         @body: i c s -> c s s flags
         flags = Less(s, x)",
        "0, [0.0 0.0 0.0 0.0 0.0 0.0]@2x3, [1.0 2.0 3.0] => []f32@0x2x3, []bool@0x2x3",
    );
}

/// As many steps as the input has rows, which are read by step.
#[test]
fn sizes_may_be_symbols() {
    examples(
        "x:f32[T,B] s:f32[B] -> y ys
         shape = Shape(x)
         n = Gather<axis=0>(shape, 0)
         y, ys = Loop<body=@body>(n, _, s)
         @body: i c s -> c s1 s1
         row = Gather<axis=0>(x, i)
         s1 = Add(s, row)",
        "[0.0 1.0 2.0 3.0 4.0 5.0]@3x2, [0.0 0.0] => [6.0 9.0], [0.0 1.0 2.0 4.0 6.0 9.0]@3x2
         [0.0 1.0]@1x2, [0.0 0.0] => [0.0 1.0], [0.0 1.0]@1x2
         []f32@0x2, [0.0 0.0] => [0.0 0.0], []f32@0x2",
    );
}

/// Sizes have tract's own type until they are computed with.
#[test]
fn sizes_may_be_states() {
    examples(
        "x:f32[T,B] n:i64[] -> y ys
         shape = Shape(x)
         size = Gather<axis=0>(shape, 0)
         y, ys = Loop<body=@body>(n, _, size)
         @body: i c s -> c s1 s1
         s1 = Add(s, size)",
        "[0.0 0.0 0.0 0.0 0.0 0.0]@3x2, 2 => 9, [6 9]",
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
        let model = whole(&format!(
            "n:i64[] a:{name}[3] b:{name}[1] -> x y
             x, y, _ = Loop<body=@body>(n, _, a, b)
             @body: i c a b -> c b a a"
        ));
        check(
            model,
            &[tensor0(3_i64), a.clone(), b.clone()],
            &[b.clone(), a.clone()],
        );
        let model = whole(&format!(
            "n:i64[] a:{name}[3] -> ys firsts
             _, ys, firsts = Loop<body=@body>(n, _, a)
             @body: i c a -> c a a first
             first = Gather<axis=0>(a, 0)"
        ));
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
    let inputs = "n:i64[] s:f32[1] x:f32[2]";
    let model = graph(inputs, "y", "y = Loop<body=@body>(n, _, s)").with("body", nested(7));
    let inputs = ["2", "[0.0]", "[1.0 2.0]"].map(value);
    check(model, &inputs, &[value("[256.0 512.0]")]);
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
