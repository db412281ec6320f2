//! Loops as frameworks write them for recurrent layers, whose steps follow from sizes, and near misses.

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;

use crate::build::{Graph, Optimize, graph, parse, run, whole};

const STEPS: usize = 5;

/// A loop over time-major `x` as tf2onnx writes a recurrent layer: counters and a size as states, two
/// comparisons, and elements read by a counter. Its function is none of a layer.
fn recurrent(size: &str, index: &str, ends: &str) -> Graph {
    whole(&format!(
        "x:f32[{size},2,3] h:f32[2,4] -> last hs
         first = 0
         zero = 0i32
         shape = Shape(x)
         n = Gather<axis=0>(shape, first)
         steps = Cast<to=6>(n)
         starts = Less(zero, steps)
         _, _, last, _, hs = Loop<body=@body>(n, starts, zero, steps, h, w)
         @body: i c t steps h kept -> c1 t1 steps1 h1 kept1 out
         one = 1i32
         t1 = Add(t, one)
         steps1 = Identity(steps)
         kept1 = Identity(kept)
         {index}
         xt = Gather<axis=0>(x, index)
         wx = MatMul(xt, kept)
         uh = MatMul(h, u)
         sum = Add(wx, uh)
         signed = Tanh(sum)
         h1 = Abs(signed)
         out = Identity(h1)
         {ends}"
    ))
    .constant("w", values(&[3, 4], 3))
    .constant("u", values(&[4, 4], 4))
}

const FORWARD: &str = "index = Identity(t)";
const BACKWARD: &str = "before = Sub(steps, t)\n index = Sub(before, one)";
const ENDS: &str = "left = Less(t1, steps)\n n32 = Cast<to=6>(n)\n i32 = Cast<to=6>(i)
    within = Less(i32, n32)\n c1 = And(within, left)";

fn values(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|it| ((it * 7 + seed * 13) % 11) as f32 / 11. - 0.5)
        .collect();
    Tensor::from_shape(shape, &values).unwrap()
}

fn inputs() -> Vec<Tensor> {
    vec![values(&[STEPS, 2, 3], 1), values(&[2, 4], 2)]
}

fn decluttered(graph: Graph) -> TypedModel {
    let typed = parse(graph).unwrap().into_typed().unwrap();
    typed.into_decluttered().unwrap()
}

#[track_caller]
fn same(left: &[Tensor], right: &[Tensor]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in std::iter::zip(left, right) {
        left.close_enough(right, Approximation::Close).unwrap();
    }
}

/// Checks that a model with known sizes gives the same results as with a symbol.
fn check(index: &str, ends: &str) {
    same(
        &run(recurrent("5", index, ends), &inputs()).unwrap(),
        &run(recurrent("T", index, ends), &inputs()).unwrap(),
    );
}

#[test]
fn a_loop_goes_forward() {
    check(FORWARD, ENDS);
}

#[test]
fn a_loop_goes_backward() {
    check(BACKWARD, ENDS);
}

#[test]
fn a_trip_count_may_stand_alone() {
    check(FORWARD, "c1 = Identity(c)");
}

#[test]
fn a_loop_reads_a_part_of_the_steps() {
    // It ends after 3 of 5 steps, and reads from the second element on.
    check(
        "index = Add(t, one)",
        "two = Add(one, one)\n three = Add(one, two)\n left = Sub(steps, t1)\n ends = Less(left, three)\n c1 = Not(ends)",
    );
}

#[test]
fn a_loop_reads_steps_in_any_order() {
    // 0, 2, 4, 1, 3.
    check("double = Add(t, t)\n index = Mod(double, steps)", ENDS);
}

#[test]
fn a_condition_depends_on_data() {
    let ends = "norm = ReduceSum<keepdims=0>(h1)\n limit = ReduceMax<keepdims=0>(x)\n c1 = Less(norm, limit)";
    check(FORWARD, ends);
}

#[test]
fn counters_are_known_after_the_last_step() {
    let model = whole(
        "x:f32[3] s:f32[] -> t y ts is
         t, y, ts, is = Loop<body=@body>(3, _, 1i32, s)
         @body: i c t s -> c t1 s1 t i
         t1 = Add(t, 2i32)
         row = Gather<axis=0>(x, i)
         s1 = Add(s, row)",
    );
    let outputs = run(model, &[tensor1(&[1_f32, 2., 3.]), tensor0(0_f32)]).unwrap();
    assert_eq!(
        outputs,
        [
            tensor0(7_i32),
            tensor0(6_f32),
            tensor1(&[1_i32, 3, 5]),
            tensor1(&[0_i64, 1, 2])
        ]
    );
}

#[test]
fn a_step_may_read_an_element_twice_in_one_node() {
    let model = whole(
        "x:f32[3,2] s:f32[2] -> y ys
         y, ys = Loop<body=@body>(3, _, s)
         @body: i c s -> c s1 doubled
         row = Gather<axis=0>(x, i)
         negated = Neg(row)
         squared = Mul(negated, negated)
         larger = Where([true false], row, row)
         sum = Sum(row, row, row)
         s1 = Add(s, sum)
         both = Add(squared, larger)
         doubled = Add(both, both)",
    );
    let x = Tensor::from_shape(&[3, 2], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    let outputs = run(model, &[x, tensor1(&[0_f32, 1.])]).unwrap();
    let doubled = [4_f32, 12., 24., 40., 60., 84.];
    assert_eq!(
        outputs,
        [
            tensor1(&[27_f32, 37.]),
            Tensor::from_shape(&[3, 2], &doubled).unwrap(),
        ]
    );
}

/// TensorFlow and PyTorch export `x[t]` in this form.
#[test]
fn a_slice_of_one_element_that_is_squeezed_is_read_by_the_step() {
    let model = |nodes: &str, x: &str| {
        whole(&format!(
            "x:f32[{x}] s:f32[2] -> y
             one = 1
             ones = [1]
             first = [0]
             shape = Shape(x)
             n = Gather<axis=0>(shape, 1)
             y = Loop<body=@body>(_, true, s)
             @body: i c s -> c1 s1
             {nodes}
             element = Slice(x, start, end, [1])
             row = Squeeze(element, [1])
             s1 = Add(s, row)
             next = Add(i, one)
             c1 = Less(next, n)"
        ))
    };
    let x = Tensor::from_shape(&[2, 3], &[1_f32, 2., 3., 4., 5., 6.]).unwrap();
    for nodes in [
        "start = Unsqueeze(i, first)\n end = Add(start, ones)",
        "t = Identity(i)\n u = Add(one, t)\n start = Unsqueeze(t, first)\n end = Unsqueeze(u, first)",
        "i32 = Cast<to=6>(i)\n start = Unsqueeze(i32, first)\n u = Add(i, one)\n end64 = Unsqueeze(u, first)\n end = Cast<to=6>(end64)",
    ] {
        for sizes in ["2,3", "2,T"] {
            let outputs = run(model(nodes, sizes), &[x.clone(), tensor1(&[0.5_f32, 0.])]);
            assert_eq!(outputs.unwrap(), [tensor1(&[6.5_f32, 15.])], "{nodes}");
        }
    }
}

#[test]
fn ranges_go_down_as_well() {
    let check = |[start, limit, step]: [i64; 3], expected: &[i64]| {
        let model = graph(
            "x:i64[]",
            "y",
            "all = Range(start, limit, step)\n y = Add(all, x)",
        )
        .constant("start", tensor0(start))
        .constant("limit", tensor0(limit))
        .constant("step", tensor0(step));
        assert_eq!(run(model, &[tensor0(0_i64)]).unwrap(), [tensor1(expected)]);
    };
    check([4, -1, -1], &[4, 3, 2, 1, 0]);
    check([7, 0, -3], &[7, 4, 1]);
    check([0, 5, 2], &[0, 2, 4]);
    check([3, 3, -1], &[]);
    check([0, 3, -1], &[]);
}

/// TFLite keeps the last output in a list of one, as a state of one more axis.
#[test]
fn outputs_have_the_shape_of_the_loop() {
    let layer = |size: &str| {
        whole(&format!(
            "x:f32[{size},2,3] h:f32[2,70] -> last hs
             shape = Shape(x)
             n = Gather<axis=0>(shape, 0)
             _, last, hs = Loop<body=@body>(n, true, h, kept)
             @body: i c h kept -> c1 h1 kept1 out
             c1 = Identity(c)
             xt = Gather<axis=0>(x, i)
             wx = MatMul(xt, w)
             uh = MatMul(h, u)
             sum = Add(wx, uh)
             h1 = Tanh(sum)
             kept1 = Reshape(h1, [2 1 70])
             out = Reshape(h1, [1 2 70])"
        ))
        .constant("kept", values(&[2, 1, 70], 0))
        .constant("w", values(&[3, 70], 3))
        .constant("u", values(&[70, 70], 4))
    };
    let inputs = [values(&[STEPS, 2, 3], 1), values(&[2, 70], 2)];
    let run = |size: &str| {
        let inputs = inputs.iter().cloned().map(Tensor::into_tvalue).collect();
        let model = decluttered(layer(size)).optimized().unwrap();
        model.into_runnable().unwrap().run(inputs).unwrap()
    };
    let (known, symbolic) = (run("5"), run("T"));
    assert_eq!(known[0].shape(), [2, 1, 70]);
    assert_eq!(known[1].shape(), [STEPS, 1, 2, 70]);
    for (known, symbolic) in std::iter::zip(&known, &symbolic) {
        known
            .close_enough(symbolic, Approximation::Approximate)
            .unwrap();
    }
}
