//! Sizes that come from data: slices, counts and repetitions.

use revseq_tract_operators::Limits;
use tract_onnx::prelude::*;

use crate::build::{
    Graph, Optimize, examples, fails, graph, ops, parse, parse_within, run, run_each,
    run_optimized, whole,
};

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_shape(shape, values).unwrap()
}

/// Numbers from 1.
fn counted(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (1..=count).map(|it| it as f32).collect();
    floats(shape, &values)
}

/// A Slice of `x:f32[T]`, with an operator after it.
fn slice(step: i64) -> Graph {
    graph(
        "x:f32[T] s:i64[1] e:i64[1]",
        "y",
        "part = Slice(x, s, e, [-1], steps)
         size = Shape(part)
         n = Cast<to=1>(size)
         y = Add(part, n)",
    )
    .constant("steps", tensor1(&[step]))
}

#[test]
fn slices_go_by_onnx_s_rule() {
    for (start, end, step, expected) in [
        (0_i64, 2_i64, 1, &[1_f32, 2.][..]),
        (1, 1_000_000_000, 1, &[2., 3., 4., 5.]),
        (-2, i64::MAX, 1, &[4., 5.]),
        (-9, 2, 1, &[1., 2.]),
        (3, 2, 1, &[]),
        (7, 9, 1, &[]),
        (0, -1, 1, &[1., 2., 3., 4.]),
        (0, 5, 2, &[1., 3., 5.]),
        (4, i64::MIN, -1, &[5., 4., 3., 2., 1.]),
        (9, -9, -2, &[5., 3., 1.]),
        (1, 3, -1, &[]),
    ] {
        let inputs = [counted(&[5]), tensor1(&[start]), tensor1(&[end])];
        let found = run(slice(step), &inputs).unwrap();
        let count = expected.len() as f32;
        let expected: Vec<f32> = expected.iter().map(|it| it + count).collect();
        assert_eq!(found[0], tensor1(&expected), "{start}:{end}:{step}");
    }
}

/// `x[b, :n]` for a row and a length that come from data, as exported by TensorFlow.
#[test]
fn an_axis_of_one_element_is_known_beside_one_that_comes_from_data() {
    let model = graph(
        "x:f32[B,T,2] b:i64[] n:i64[]",
        "y",
        "row = Unsqueeze(b, [0])
         count = Unsqueeze(n, [0])
         start = Concat<axis=0>(row, [0])
         far = Max(count, [1000000000])
         end = Concat<axis=0>(far, count)
         part = Slice(x, start, end, [0 1], [1000000000 1])
         y = Squeeze(part, [0])",
    );
    let decluttered = parse(model.clone()).unwrap().into_typed().unwrap();
    let found = ops(&decluttered.into_decluttered().unwrap());
    assert!(found.iter().any(|op| op == "Gather"), "{found:?}");
    let inputs = [counted(&[2, 3, 2]), tensor0(1_i64), tensor0(2_i64)];
    let found = run(model, &inputs).unwrap();
    assert_eq!(found[0], floats(&[2, 2], &[7., 8., 9., 10.]));
}

/// ONNX Runtime does the same.
#[test]
fn a_squeeze_of_an_empty_list_of_axes_removes_all_of_one_element() {
    let model = "x:f32[1,2,1] -> y\n y = Squeeze(x, [])";
    examples(model, "[1.0 2.0]@1x2x1 => [1.0 2.0]");
}

/// tract removes axes one after another.
#[test]
fn a_squeeze_may_list_its_axes_in_any_order() {
    for (shape, axes, left) in [
        (&[1, 6, 1, 4][..], "[-2 0]", &[6, 4][..]),
        (&[1, 1, 5], "[1 0]", &[5]),
        (&[1, 1], "[-1 0]", &[]),
        (&[1, 3, 1], "[2 -1]", &[1, 3]),
    ] {
        let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let sizes = sizes.join(",");
        let model = whole(&format!("x:f32[{sizes}] -> y\n y = Squeeze(x, {axes})"));
        let found = run(model, &[counted(shape)]).unwrap();
        assert_eq!(found[0].shape(), left, "{shape:?}");
    }
}

#[test]
fn a_squeeze_finds_out_whether_there_is_one_element() {
    examples(
        "x:f32[T,2] n:i64[1] -> y
         part = Slice(x, n, [3], [0])
         y = Squeeze(part, [0])",
        "[1.0 2.0 3.0 4.0 5.0 6.0]@3x2, [2] => [5.0 6.0]
         [1.0 2.0 3.0 4.0 5.0 6.0]@3x2, [1] => ! 2 elements along it, expected 1",
    );
}

/// Operators whose sizes are the maximum of lengths `n`, each with an operator after it.
#[test]
fn sizes_may_be_the_longest_length() {
    for (nodes, y) in [
        (
            "to = Concat<axis=0>(n, [2])\n made = ConstantOfShape(to)",
            "[0.5 0.5 0.5 0.5 0.5 0.5]@3x2",
        ),
        (
            "row = Slice(x, [0], [1], [0])\n to = Concat<axis=0>(n, [1])\n made = Expand(row, to)",
            "[1.5 2.5 1.5 2.5 1.5 2.5]@3x2",
        ),
        (
            "times = Concat<axis=0>([1], n)\n made = Tile(x, times)",
            "[1.5 2.5 1.5 2.5 1.5 2.5 3.5 4.5 3.5 4.5 3.5 4.5]@2x6",
        ),
        (
            "pads = Concat<axis=0>([0 0], [0], n)\n made = Pad(x, pads)",
            "[1.5 2.5 0.5 0.5 0.5 3.5 4.5 0.5 0.5 0.5]@2x5",
        ),
        (
            "at = Sub(lengths, [1])\n made = OneHot<axis=-1>(at, n, [-1.0 1.0])",
            "[1.5 -0.5 -0.5 -0.5 -0.5 1.5]@2x3",
        ),
        (
            "less = Sub(n, [2])\n to = Concat<axis=0>(less, [-1])\n made = Reshape(x, to)",
            "[1.5 2.5 3.5 4.5]@1x4",
        ),
    ] {
        let model = format!(
            "x:f32[B,2] lengths:i64[B] -> y
             n = ReduceMax<keepdims=1>(lengths)
             {nodes}
             y = Add(made, 0.5)"
        );
        examples(&model, &format!("[1.0 2.0 3.0 4.0]@2x2, [1 3] => {y}"));
    }
}

#[test]
fn a_compress_keeps_elements_by_condition() {
    for (attribute, rows) in [
        (
            "<axis=0>",
            "[1 2 3] => [6.0 8.0 10.0 12.0]@2x2
             [0 0 0] => []f32@0x2",
        ),
        ("<axis=-2>", "[2 0 0] => [2.0 4.0]@1x2"),
        ("", "[2 0 2] => [2.0 6.0]"),
        ("<axis=1>", "[0 0 2] => ! element 2 of 2"),
    ] {
        let model = format!(
            "lengths:i64[B] x:f32[B,2] -> y
             long = Greater(lengths, [1])
             kept = Compress{attribute}(x, long)
             y = Add(kept, kept)"
        );
        examples(
            &model,
            &rows.replace("] =>", "], [1.0 2.0 3.0 4.0 5.0 6.0]@3x2 =>"),
        );
    }
}

/// An index counts from the end if negative; outside of the depth there is nothing to mark.
#[test]
fn a_one_hot_takes_any_index() {
    for depth in ["n", "3"] {
        for (axis, y) in [
            (
                1,
                "[1.0 -1.0 -1.0 -1.0 -1.0 1.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0 1.0 -1.0]@5x3",
            ),
            (
                0,
                "[1.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0 1.0 -1.0 1.0 -1.0 -1.0 -1.0]@3x5",
            ),
        ] {
            let node = format!("y = OneHot<axis={axis}>(at, {depth}, [-1.0 1.0])");
            let model = format!("at:i64[B] n:i64[] -> y\n {node}");
            examples(&model, &format!("[0 -1 3 -4 1], 3 => {y}"));
        }
    }
    let model = "at:i64[B] n:i64[] -> y\n y = OneHot<axis=1>(at, n, [-1.0 1.0])";
    examples(model, "[0], -1 => ! depth [-1], expected one");
}

#[test]
fn negative_pads_remove_elements() {
    for (pads, y) in [
        ("x, [1 -1 -1 1]", "[0.0 0.0 0.0 2.0 3.0 0.0]"),
        ("x, n", "[0.0 0.0 0.0 2.0 3.0 0.0]"),
        ("x, [-1 1], 0.0, [-1]", "[2.0 3.0 0.0 5.0 6.0 0.0]"),
    ] {
        let model = format!("x:f32[B,3] n:i64[4] -> y\n y = Pad({pads})");
        let row = format!("[1.0 2.0 3.0 4.0 5.0 6.0]@2x3, [1 -1 -1 1] => {y}@2x3");
        examples(&model, &row);
    }
    examples(
        "x:f32[B,3] n:i64[4] -> y\n y = Pad(x, n)",
        "[1.0 2.0 3.0 4.0 5.0 6.0]@2x3, [0 -2 0 -2]
         => ! remove 2 and 2 of 3 elements along axis 1",
    );
}

/// One plan pads by the numbers of each run, and refuses those that repeat more than there is.
#[test]
fn pads_from_data_repeat_elements() {
    let found = |mode: &str, pads: [i64; 2]| {
        let nodes = format!("y = Pad<mode=\"{mode}\">(x, n)");
        let model = graph("x:f32[N] n:i64[2]", "y", &nodes);
        run_each(model, &[vec![counted(&[3]), tensor1(&pads)]])
    };
    for (mode, pads, expected) in [
        ("edge", [2, 1], &[1_f32, 1., 1., 2., 3., 3.][..]),
        ("edge", [-1, 2], &[2., 3., 3., 3.]),
        ("reflect", [2, 2], &[3., 2., 1., 2., 3., 2., 1.]),
        ("reflect", [1, -2], &[2., 1.]),
        ("constant", [-2, 1], &[3., 0.]),
        ("constant", [-2, -1], &[]),
    ] {
        let found = found(mode, pads).unwrap_or_else(|it| panic!("{mode} {pads:?}: {it:?}"));
        assert_eq!(found[0][0], tensor1(expected), "{mode} {pads:?}");
    }
    fails(
        found("reflect", [3, 0]),
        "pads 3 and 0 along axis 0 repeat more than its 3 elements",
    );
}

#[test]
fn the_last_input_may_have_no_name() {
    let model = "x:f32[2] -> y\n y = ReduceSum<keepdims=0>(x, _)";
    examples(model, "[3.0 4.0] => 7.0");
}

#[test]
fn a_unique_keeps_the_first_of_equals() {
    for (attributes, rows) in [
        (
            "",
            "[2.0 1.0 1.0 3.0 4.0 3.0] => [1.0 2.0 3.0 4.0], [1 0 3 4], [1 0 0 2 3 2], [2 1 2 1]
             []f32 => []f32, [], [], []",
        ),
        (
            "<sorted=0>",
            "[2.0 1.0 1.0 3.0 4.0 3.0] => [2.0 1.0 3.0 4.0], [0 1 3 4], [0 1 1 2 3 2], [1 2 2 1]",
        ),
    ] {
        let node = format!("y, first, inverse, counts = Unique{attributes}(x)");
        examples(
            &format!("x:f32[N] -> y first inverse counts\n {node}"),
            rows,
        );
    }
    examples(
        "x:i64[N,2] -> y first z
         y, first = Unique<axis=0>(x)
         z = Unique<axis=-1>(x)",
        "[1 0 0 9 1 0 0 1]@4x2 => [0 1 0 9 1 0]@3x2, [3 1 0], [0 1 9 0 0 1 1 0]@4x2",
    );
}

/// The indices and the updates have as many columns as each other, which two symbols stand for.
#[test]
fn two_symbols_may_stand_for_one_size() {
    examples(
        "x:f32[1,4] n:i64[] -> y
         positions = Range(0, n, 1)
         at = Reshape(positions, [1 -1])
         end = Unsqueeze(n, [0])
         updates = Slice(x, [0], end, [1])
         twice = Add(updates, updates)
         y = ScatterElements<axis=1>(x, at, twice)",
        "[1.0 2.0 3.0 4.0]@1x4, 2 => [2.0 4.0 3.0 4.0]@1x4",
    );
}

/// A loop that reads more of a value at each step, with a known number of steps.
#[test]
fn a_size_may_be_another_at_each_step() {
    for size in ["4", "T"] {
        let model = format!(
            "x:f32[{size}] s:f32[1] -> last sums
             first = [0]
             last, sums = Loop<body=@body>(3, true, s)
             @body: i c s -> c1 s1 sum
             next = Add(i, 1)
             end = Unsqueeze(next, first)
             part = Slice(x, first, end, first)
             twice = Mul(part, part)
             sum = ReduceSum(twice, first)
             times = Tile(s, [1])
             s1 = Concat<axis=0>(times, sum)
             c1 = Identity(c)"
        );
        let row = "[1.0 2.0 3.0 4.0], [0.0] => [0.0 1.0 5.0 14.0], [1.0 5.0 14.0]@3x1";
        examples(&model, row);
    }
}

#[test]
fn an_index_outside_of_the_axis_is_an_error() {
    let model = graph("x:f32[T,2] i:i64[1]", "y", "y = Gather<axis=1>(x, i)");
    let typed = parse(model).unwrap().into_typed().unwrap();
    let optimized = revseq_tract_operators::into_optimized(typed).unwrap();
    let plan = optimized.into_runnable().unwrap();
    let run = |index: i64| plan.run(tvec![counted(&[3, 2]).into(), tensor1(&[index]).into()]);
    assert_eq!(*run(-2).unwrap()[0], floats(&[3, 1], &[1., 3., 5.]));
    for index in [2, -3] {
        let error = format!("{:?}", run(index).unwrap_err());
        let expected = format!("index {index} of a Gather lies outside of axis 1, which has 2");
        assert!(error.contains(&expected), "{error}");
    }
}

/// Operators that make an output of `n` elements or more, with `n` from data or a constant.
fn makers(is_constant: bool, n: i64) -> Vec<(&'static str, Graph)> {
    let nodes = [
        "y = ConstantOfShape(n)",
        "y = Expand(x, n)",
        "y = Tile(x, n)",
        "pads = Concat<axis=0>([0], n)\n y = Pad(x, pads)",
        "y = OneHot([0], n, [-1.0 1.0])",
    ];
    let makers = nodes.into_iter().map(|nodes| {
        let inputs = ["x:f32[1] n:i64[1]", "x:f32[1]"][usize::from(is_constant)];
        let graph = graph(inputs, "y", nodes);
        let graph = if is_constant {
            graph.constant("n", tensor1(&[n]))
        } else {
            graph
        };
        (nodes, graph)
    });
    makers.collect()
}

/// Sizes from data are limited like those of constants, before anything is allocated.
#[test]
fn sizes_far_too_large_are_errors() {
    let limited = Limits::none().with_bytes(1 << 20);
    for (n, limits, why) in [
        (
            (1 << 18) + 1,
            limited,
            "1048580 bytes, more than the 1048576",
        ),
        (
            (1 << 32) + 1,
            limited,
            "more than the 1048576 that are allowed",
        ),
        (1 << 40, limited, "more than the 1048576 that are allowed"),
        (1 << 50, Limits::none(), "for which there is no memory"),
        (1 << 62, Limits::none(), "larger than any memory"),
        (i64::MAX, Limits::none(), "larger than any memory"),
    ] {
        for is_constant in [false, true] {
            for (nodes, graph) in makers(is_constant, n) {
                let run = || {
                    let model = parse_within(limits, graph)?;
                    let mut inputs: TVec<TValue> = tvec![tensor1(&[2_f32]).into()];
                    if !is_constant {
                        inputs.push(tensor1(&[n]).into());
                    }
                    model.optimized()?.into_runnable()?.run(inputs)
                };
                let error = format!("{:?}", run().map(|_| ()).unwrap_err());
                // A Pad adds to one element.
                let is_pad = nodes.contains("Pad") && error.contains("1048584");
                assert!(
                    error.contains(why) || is_pad,
                    "{n} {is_constant} {nodes}: {error}"
                );
            }
        }
    }
}

/// tract keeps 32 bits of a number that it takes for a size.
#[test]
fn sizes_have_64_bits() {
    let sizes = tensor1(&[0_i64, (1 << 32) + 1]);
    let nodes = "made = ConstantOfShape(n)\n y = Shape(made)";
    let constant = graph("x:f32[1]", "y made", nodes).constant("n", sizes.clone());
    let x = tensor1(&[2_f32]);
    for (model, inputs) in [
        (graph("n:i64[2]", "y made", nodes), vec![sizes.clone()]),
        (constant, vec![x]),
    ] {
        let typed = parse(model).unwrap().into_typed().unwrap();
        let plan = revseq_tract_operators::into_optimized(typed).unwrap();
        let inputs = inputs.into_iter().map(IntoTensor::into_tensor);
        let inputs = inputs.map(TValue::from).collect();
        let found = plan.into_runnable().unwrap().run(inputs).unwrap();
        assert_eq!(*found[0], sizes);
        assert_eq!(found[1].shape(), [0, (1 << 32) + 1]);
    }
}

/// Sizes from data are what they are as long as they stay within the limits.
#[test]
fn sizes_within_the_limits_are_no_errors() {
    let limits = Limits::none().with_bytes(64);
    for is_constant in [false, true] {
        for (nodes, graph) in makers(is_constant, 15) {
            let model = parse_within(limits, graph).unwrap();
            let plan = model.optimized().unwrap().into_runnable().unwrap();
            let mut inputs: TVec<TValue> = tvec![tensor1(&[2_f32]).into()];
            if !is_constant {
                inputs.push(tensor1(&[15_i64]).into());
            }
            let found = plan.run(inputs).unwrap();
            let expected = 15 + usize::from(nodes.contains("Pad"));
            assert_eq!(found[0].len(), expected, "{nodes}");
        }
    }
}

/// A Pad cannot remove more elements than there are, also if the most negative number says so.
#[test]
fn a_pad_that_removes_more_than_there_is_is_an_error() {
    for pads in [[-4, 0], [-2, -2], [i64::MIN, 0], [i64::MIN, i64::MIN]] {
        for (x, is_constant) in [
            ("x:f32[3]", true),
            ("x:f32[N]", true),
            ("x:f32[3]", false),
            ("x:f32[N]", false),
        ] {
            let inputs = if is_constant {
                x.to_owned()
            } else {
                format!("{x} pads:i64[2]")
            };
            let model = graph(&inputs, "y", "y = Pad(x, pads)");
            let pads = tensor1(&pads);
            let mut values = vec![counted(&[3])];
            let model = if is_constant {
                model.constant("pads", pads)
            } else {
                values.push(pads);
                model
            };
            let found = run(model, &values);
            assert!(found.is_err(), "{inputs} {values:?}: {found:?}");
        }
    }
}

/// ONNX Runtime's Squeeze, too, looks at the sizes; here the rank has to be known before.
#[test]
fn a_squeeze_without_axes_of_an_unknown_size_is_refused() {
    for text in [
        "x:f32[3] -> y\n places = NonZero(x)\n y = Squeeze(places)",
        "x:f32[3] -> y\n places = NonZero(x)\n y = Squeeze(places, [])",
        "x:f32[N,1] -> y\n y = Squeeze(x)",
        "x:f32[N,1] -> y\n y = Squeeze(x, [])",
        "x:f32[N] -> y\n last = Slice(x, [-1], [9223372036854775807], [0])\n y = Squeeze(last)",
    ] {
        let typed = parse(whole(text)).and_then(InferenceModelExt::into_typed);
        fails(typed, "its rank depends on data");
    }
    examples(
        "x:f32[N,2] -> y
         rows:f32[2,2] = 1.0
         long = Concat<axis=0>(x, rows)
         y = Squeeze(long)",
        "[]f32@0x2 => [1.0 1.0 1.0 1.0]@2x2",
    );
}

/// `x[t:t + 1]` of the last element ends before the first.
#[test]
fn an_element_at_minus_one_is_none() {
    examples(
        "x:f32[N] t:i64[1] -> y
         next = Add(t, [1])
         part = Slice(x, t, next, [0])
         y = Squeeze(part, [0])",
        "[1.0 2.0 3.0], [0] => 1.0
         [1.0 2.0 3.0], [2] => 3.0
         [1.0 2.0 3.0], [-2] => 2.0
         [1.0 2.0 3.0], [-3] => 1.0
         [1.0 2.0 3.0], [-1] => ! from -1 to 0 takes no element along axis 0",
    );
}

/// ONNX Runtime 1.24 and the reference evaluator compare; a depth loses its fraction.
#[test]
fn a_one_hot_of_fractions_is_off() {
    let model = graph("x:f32[N] d:f32[]", "y", "y = OneHot(x, d, [0.0 1.0])");
    let x = tensor1(&[1.7_f32, -0.5, 2., -1., f32::NAN, f32::INFINITY, 1e30]);
    let found = run(model.clone(), &[x, tensor0(3.7_f32)]).unwrap();
    let mut expected = [0_f32; 21];
    expected[8] = 1.;
    expected[11] = 1.;
    assert_eq!(found[0], floats(&[7, 3], &expected));
    fails(
        run(model, &[tensor1(&[1_f32]), tensor0(f32::NAN)]),
        "depth [NaN], expected one number",
    );
}

/// The bounds of a Slice were attributes before opset 10.
#[test]
fn a_slice_with_attributes_goes_by_the_same_rule() {
    let node = "y = Slice<axes=[-1];starts=[-2];ends=[9223372036854775807]>(x)";
    examples(
        &format!("x:f32[N] -> y\n {node}"),
        "[1.0 2.0 3.0 4.0 5.0] => [4.0 5.0]
         [1.0] => [1.0]
         []f32 => []f32",
    );
    examples(
        &format!("x:f32[5] -> y\n {node}"),
        "[1.0 2.0 3.0 4.0 5.0] => [4.0 5.0]",
    );
}

/// The sizes of usual slices over a symbol, which other operators compare.
#[test]
fn slices_of_a_symbol_keep_its_expressions() {
    for (start, end, step, expected) in [
        (0, i64::MAX, 1, "T"),
        (0, -1, 1, "max(0,T+-1)"),
        (1, 1_000_000_000, 1, "max(0,T+-1)"),
        (0, 100, 1, "min(T,100)"),
        (-5, i64::MAX, 1, "min(T,5)"),
        (0, i64::MAX, 2, "(T+1)/2"),
        (-1, i64::MIN, -1, "T"),
    ] {
        let nodes = "y = Slice(x, start, end, [0], step)";
        let model = graph("x:f32[T]", "y", nodes)
            .constant("start", tensor1(&[start]))
            .constant("end", tensor1(&[end]))
            .constant("step", tensor1(&[step]));
        let model = parse(model).unwrap().into_typed().unwrap();
        let shape = &model.output_fact(0).unwrap().shape;
        assert_eq!(format!("{shape:?}"), expected, "{start}:{end}:{step}");
    }
}

/// A size that is known once a model runs may be equal to another, and may be 1, which broadcasts.
#[test]
fn a_size_from_data_may_be_equal_or_broadcast() {
    let x = Tensor::from_shape(&[3, 1, 2], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    let cut = "u = Slice(x, [0], end, [0])";
    let run = |nodes: &str, end: i64| {
        let model = graph("x:f32[3,1,2] end:i64[1]", "y", &format!("{cut}\n{nodes}"))
            .constant("[0]", tensor1(&[0_i64]))
            .constant(
                "squares",
                Tensor::from_shape(&[3, 1, 2], &[2_f32; 6]).unwrap(),
            )
            .constant(
                "w",
                Tensor::from_shape(&[3, 2, 1], &[1_f32, 1., 2., 2., 3., 3.]).unwrap(),
            );
        let inputs = [x.clone(), tensor1(&[end])];
        run_optimized(model, &inputs).unwrap().remove(0)
    };
    for end in 1..=3 {
        let found = run("s = Shape(u)\nn = Gather(s, 0)\ny = Equal(n, 2)", end);
        assert_eq!(found, tensor0(end == 2), "{end}");
    }
    for (end, products, powers) in [
        (1, [3_f32, 6., 9.], [1_f32, 4., 1., 4., 1., 4.]),
        (3, [3., 14., 33.], [1., 4., 9., 16., 25., 36.]),
    ] {
        let found = run("y = MatMul(u, w)", end);
        assert_eq!(found, Tensor::from_shape(&[3, 1, 1], &products).unwrap());
        let found = run("y = Pow(u, squares)", end);
        assert_eq!(found, Tensor::from_shape(&[3, 1, 2], &powers).unwrap());
    }
}

/// PyTorch's exporter writes -1 for a size that stays, and compares each with it.
#[test]
fn sizes_that_an_expand_keeps_are_known() {
    let body = "sizes = Shape(x)
        batch = Gather(sizes, [0])
        given = Concat<axis=0>(batch, [-1], [-1])
        count = Shape(given)
        ones = Expand([1], count)
        keeps = Mul(ones, [-1])
        is_kept = Equal(given, keeps)
        to = Where(is_kept, ones, given)
        all = Expand(token, to)
        joined = Concat<axis=1>(all, x)
        y = Add(joined, places)";
    for batch in ["2", "B"] {
        let model = graph(&format!("x:f32[{batch},2,3]"), "y", body)
            .constant("token", floats(&[1, 1, 3], &[1., 2., 3.]))
            .constant("places", counted(&[1, 3, 3]));
        let typed = parse(model.clone()).unwrap().into_typed().unwrap();
        let known = &typed.output_fact(0).unwrap().shape[1..];
        assert_eq!(known, [3.to_dim(), 3.to_dim()]);
        let found = run(model, &[floats(&[2, 2, 3], &[0.; 12])]).unwrap();
        let rows = [2., 4., 6., 4., 5., 6., 7., 8., 9.];
        assert_eq!(found[0], floats(&[2, 3, 3], &[rows, rows].concat()));
    }
}

/// One plan resizes to the sizes of other inputs, and to those that come from data.
#[test]
fn a_resize_may_be_to_any_sizes() {
    let resize = "y = Resize<mode=\"nearest\";nearest_mode=\"floor\">(x, _, _, sizes)";
    let to_input = graph(
        "x:f32[1,N] other:f32[1,M]",
        "y",
        &format!("sizes = Shape(other)\n{resize}"),
    );
    let to_data = graph(
        "x:f32[1,N] other:f32[1,M] kept:bool[M]",
        "y",
        &format!("some = Compress<axis=1>(other, kept)\nsizes = Shape(some)\n{resize}"),
    );
    let expected = [
        (2, 4, floats(&[1, 4], &[1., 1., 1., 2.])),
        (4, 2, floats(&[1, 2], &[1., 3.])),
        (3, 3, counted(&[1, 3])),
    ];
    for (from, to, expected) in expected {
        let x = counted(&[1, from]);
        let inputs = [x.clone(), counted(&[1, to])];
        let found = run_each(to_input.clone(), &[inputs.to_vec()]).unwrap();
        assert_eq!(found[0][0], expected);
        let kept: Vec<bool> = (0..to + 2).map(|it| it < to).collect();
        let inputs = [x, counted(&[1, to + 2]), tensor1(&kept)];
        let found = run_each(to_data.clone(), &[inputs.to_vec()]).unwrap();
        assert_eq!(found[0][0], expected);
    }
}

/// torchvision's detectors compute what they pad so, of images of one size.
#[test]
fn what_known_values_become_is_known() {
    let nodes = "most = ReduceMax<keepdims=0>([2.5 3.5])
        rounded = Ceil(most)
        whole = Cast<to=7>(rounded)
        missing = Sub(whole, 3)
        behind = Unsqueeze(missing, [0])
        pads = Concat<axis=0>(none, behind)
        padded = Pad(x, pads)
        y = Conv(padded, w)";
    let model = graph("x:f32[1,2,N]", "y", nodes)
        .constant("none", tensor1(&[0_i64; 5]))
        .constant("w", floats(&[1, 2, 1], &[1., 10.]));
    let typed = parse(model.clone()).unwrap().into_typed().unwrap();
    let size = typed.output_fact(0).unwrap().shape[2].to_string();
    assert_eq!(size, "N+1");
    let found = run(model, &[counted(&[1, 2, 2])]).unwrap();
    assert_eq!(found[0], floats(&[1, 1, 3], &[31., 42., 0.]));
}

/// tract has no Equal of truth values, known or not.
#[test]
fn known_truth_values_may_be_compared() {
    examples(
        "x:f32[N] -> y
         known = Equal([true false], true)
         y = Where(known, x, 0.0)",
        "[5.0 6.0] => [5.0 0.0]",
    );
}

/// `out[:n] = x[:n]`, as exported by PyTorch: both sides have a number of rows from data.
#[test]
fn rows_expand_to_as_many() {
    let model = |rows: &str| {
        graph(
            &format!("x:f32[{rows},2] m:i64[1] n:i64[1]"),
            "y size",
            "s = Slice(x, zero, m, zero)
             v = Slice(x, zero, n, zero)
             to = Shape(v)
             e = Expand(s, to)
             size = Shape(e)
             y = ReduceSum<keepdims=0>(e, zero)",
        )
        .constant("zero", tensor1(&[0_i64]))
    };
    let inputs = |m: i64, n: i64| vec![counted(&[4, 2]), tensor1(&[m]), tensor1(&[n])];
    let runs = [(3, 3), (1, 4), (4, 1), (4, 4), (1, 1)];
    let wrong = inputs(2, 3);
    for rows in ["4", "N"] {
        let inputs = runs.map(|(m, n)| inputs(m, n));
        let found = run_each(model(rows), &inputs).unwrap();
        for ((m, n), found) in std::iter::zip(runs, found) {
            let count = m.max(n);
            let sums = [1_i64, 2].map(|first| {
                let rows = (0..count).map(|row| if m == 1 { first } else { first + 2 * row });
                rows.sum::<i64>() as f32
            });
            assert_eq!(found[0], tensor1(&sums), "{m} rows to {n} of {rows}");
            assert_eq!(found[1], tensor1(&[count, 2]), "{m} rows to {n} of {rows}");
        }
        fails(
            run_each(model(rows), std::slice::from_ref(&wrong)),
            "broadcast 2 against 3",
        );
    }
    let model = whole(
        "x:f32[N,T,2] lens:i64[N] -> y
         shape = Shape(x)
         count = Gather(shape, 0)
         y = Loop<body=@body>(count, true)
         @body: i c -> d q
         n = Gather(lens, i)
         xi = Gather(x, i)
         end = Unsqueeze(n, [0])
         s = Slice(xi, [0], end, [0])
         v = Slice(xi, [0], end, [0])
         to = Shape(v)
         e = Expand(s, to)
         q = ReduceSum<keepdims=0>(e, [0])
         d = Identity(c)",
    );
    let inputs = [counted(&[2, 3, 2]), tensor1(&[3_i64, 1])];
    let found = run_optimized(model, &inputs).unwrap();
    assert_eq!(found[0], floats(&[2, 2], &[9., 12., 7., 8.]));
    // So do those in the branches of an If.
    let branch = |name: &str| {
        let nodes = format!(
            "s = Slice(x, zero, m, zero)
             v = Slice(x, zero, m, zero)
             to = Shape(v)
             e = Expand(s, to)
             {name} = ReduceSum<keepdims=0>(e, zero)"
        );
        graph("", name, &nodes)
    };
    let model = graph(
        "x:f32[N,2] m:i64[1] c:bool[]",
        "y",
        "y = If<then_branch=@then;else_branch=@other>(c)",
    )
    .with("then", branch("a"))
    .with("other", branch("b"))
    .constant("zero", tensor1(&[0_i64]));
    let inputs = [counted(&[4, 2]), tensor1(&[3_i64]), tensor0(false)];
    let found = run_optimized(model, &inputs).unwrap();
    assert_eq!(found[0], tensor1(&[9_f32, 12.]));
}

/// tract reads the last elements of a Concat from its last part, and drops the value before it.
#[test]
fn a_size_stays_known_once_its_value_is_simplified_away() {
    let model = graph(
        "all:f32[M] kept:bool[M]",
        "size last",
        "x = Compress<axis=0>(all, kept)
         sum = Concat<axis=0>(x, [4.0 5.0 6.0])
         last = Slice(sum, [-3], [-2], axis)
         size = Shape(sum)",
    )
    .constant("axis", tensor1(&[0_i64]));
    let inputs = [counted(&[3]), tensor1(&[true, false, true])];
    let found = run_optimized(model, &inputs).unwrap();
    assert_eq!(found, [tensor1(&[5_i64]), tensor1(&[4_f32])]);
}

/// A plan that is kept for a value is not used for another one that equals it.
#[test]
fn a_pad_keeps_the_sign_of_zero() {
    let model = graph("x:f32[2] p:i64[2] v:f32[]", "y", "y = Pad(x, p, v)");
    let inputs = [0_f32, -0., 0., -0.]
        .map(|value| vec![counted(&[2]), tensor1(&[1_i64, 0]), tensor0(value)]);
    let plan = parse(model).unwrap().into_typed().unwrap();
    let plan = revseq_tract_operators::into_optimized(plan)
        .unwrap()
        .into_runnable()
        .unwrap();
    let mut state = plan.spawn().unwrap();
    for inputs in inputs {
        let values = inputs.iter().map(|it| it.clone().into_tvalue()).collect();
        let found = state.run(values).unwrap();
        let found = found[0].to_plain_array_view::<f32>().unwrap();
        let value: f32 = inputs[2].cast_to_scalar().unwrap();
        assert_eq!(found[0].to_bits(), value.to_bits());
    }
}

/// The sizes of a Pad that a run needs are numbers once it is wired; what reads it was inferred before.
#[test]
fn a_cast_reads_sizes_that_are_known_once_they_are_wired() {
    let model = whole(
        "x:f32[2,3] m:f32[2,2] row:f32[B,1] -> y
         all = Shape<start=1>(x)
         own = Shape<start=1>(m)
         missing = Sub(all, own)
         pads = Concat<axis=0>([0], missing)
         value = CastLike(7.0, m)
         wide = Pad(m, pads, value, [-1])
         both = Add(wide, row)
         y = Cast<to=11>(both)",
    );
    let inputs = [counted(&[2, 3]), counted(&[2, 2]), counted(&[2, 1])];
    let expected = tensor2(&[[2_f64, 3., 8.], [5., 6., 9.]]);
    assert_eq!(run(model, &inputs).unwrap(), [expected]);
}
