//! Sizes that are unknown when a model is prepared.

use proptest::prelude::*;
use revseq_tract_operators::{How, Limits};
use tract_onnx::prelude::*;

use crate::build::{Graph, Optimize, fails, graph, parse, parse_within, run, run_optimized, whole};

/// Sums the rows of `x:f32[T,2]` while a condition holds.
fn sum(ends: &str) -> Graph {
    whole(&format!(
        "x:f32[T,2] h:f32[2] starts:bool[] limit:i32[] -> hs
         one = 1i32
         shape = Shape(x)
         all = Cast<to=6>(shape)
         steps = Gather<axis=0>(all, 0)
         n = Cast<to=7>(steps)
         _, _, hs = Loop<body=@body>(n, starts, 0i32, h)
         @body: i c t h -> c1 t1 h1 h1
         row = Gather<axis=0>(x, t)
         h1 = Add(h, row)
         t1 = Add(t, one)
         {ends}"
    ))
}

fn inputs(starts: bool, limit: i32) -> [Tensor; 4] {
    let x: Vec<f32> = (0..10).map(|it| it as f32).collect();
    let x = Tensor::from_shape(&[5, 2], &x).unwrap();
    [x, tensor1(&[0.5_f32, 0.]), tensor0(starts), tensor0(limit)]
}

/// The size of the output's first axis, before it is known and for five rows.
fn steps(ends: &str) -> (String, usize) {
    let model = parse(sum(ends)).unwrap().optimized().unwrap();
    let size = model.output_fact(0).unwrap().shape[0].to_string();
    let outputs = run(sum(ends), &inputs(true, 3)).unwrap();
    (size, outputs[0].shape()[0])
}

#[test]
fn a_trip_count_that_the_condition_allows_is_the_size() {
    for ends in [
        "c1 = Less(t1, steps)",
        "c1 = Greater(steps, t1)",
        "c1 = LessOrEqual(t, steps)",
        "c1 = GreaterOrEqual(steps, t1)",
        "left = Cast<to=1>(t1)\n right = Cast<to=1>(steps)\n c1 = Less(left, right)",
        "i32 = Cast<to=6>(i)\n left = Less(i32, steps)\n right = Less(t1, steps)\n c1 = And(left, right)",
    ] {
        let (size, found) = steps(ends);
        assert_eq!((size.as_str(), found), ("T", 5), "{ends}");
    }
}

#[test]
fn a_loop_that_may_end_earlier_gets_a_new_symbol() {
    for (ends, expected) in [
        ("c1 = Less(t1, limit)", 3),
        ("t2 = Add(t1, one)\n c1 = Less(t2, steps)", 4),
        (
            "left = Less(t1, steps)\n right = Less(t1, limit)\n c1 = And(left, right)",
            3,
        ),
        ("more = Mul(t1, t1)\n c1 = Less(more, steps)", 3),
        (
            "all = ReduceSum<keepdims=0>(h1)\n ten = Cast<to=1>(steps)\n c1 = Less(all, ten)",
            2,
        ),
    ] {
        let (size, found) = steps(ends);
        assert!(size.starts_with("loop_steps"), "{ends}: {size}");
        assert_eq!(found, expected, "{ends}");
    }
}

/// Conditions that cannot be proved are checked at run time.
#[test]
fn a_loop_that_ends_early_nevertheless_is_an_error() {
    let model = sum("c1 = Less(t1, steps)");
    fails(run(model, &inputs(false, 0)), "ended it after 0 of 5 steps");
}

/// A loop over the rows of `x:f32[T,2]` with a state; some of its values are outputs.
fn layer(starts: &str, index: &str, outputs: &str) -> Graph {
    whole(&format!(
        "x:f32[T,2] h:f32[2] -> {outputs}
         first = 0
         zero = 0i32
         one = 1i32
         shape = Shape(x)
         all = Cast<to=6>(shape)
         steps = Gather<axis=0>(all, 0)
         n = Cast<to=7>(steps)
         {starts}
         count, last, hs = Loop<body=@body>(n, starts, 0i32, h)
         @body: i c t h -> c1 t1 h1 out
         {index}
         row = Gather<axis=0>(x, index)
         sum = Add(h, row)
         h1 = Tanh(sum)
         out = Identity(h1)
         t1 = Add(t, one)
         c1 = Less(t1, steps)"
    ))
}

const STARTS: &str = "starts = Less(zero, steps)";

#[test]
fn a_loop_goes_over_a_symbolic_axis() {
    for index in ["index = Identity(t)", "index = Identity(i)"] {
        let graph = layer(STARTS, index, "hs count");
        for steps in [5, 1, 0] {
            let x: Vec<f32> = (0..2 * steps).map(|it| it as f32 / 8.).collect();
            let x = Tensor::from_shape(&[steps, 2], &x).unwrap();
            let h = tensor1(&[0.5_f32, 0.]);
            let found = run(graph.clone(), &[x.clone(), h.clone()]).unwrap();
            // With a state as an output.
            let expected = layer(STARTS, index, "hs count last");
            let expected = run(expected, &[x, h]).unwrap();
            assert_eq!(found[1], tensor0(steps as i32));
            found[0].close_enough(&expected[0], true).unwrap();
        }
    }
}

/// The number of steps comes from data, and has a symbol of tract's own.
#[test]
fn a_trip_count_may_come_out_of_the_data() {
    let body = graph(
        "i c s",
        "c1 s1 s1",
        "value = Gather<axis=1>(found, i)
         s1 = Add(s, value)
         next = Add(i, one)
         c1 = Less(next, n)",
    );
    let model = |starts: &str| {
        let graph = graph(
            "x:f32[N] given:bool[]",
            "sums",
            &format!(
                "found = NonZero(x)
                 shape = Shape(found)
                 n = Gather<axis=0>(shape, one)
                 {starts}
                 _, sums = Loop<body=@body>(n, starts, zeros)"
            ),
        );
        graph
            .constants("one = 1, zero = 0, zeros = [0]")
            .with("body", body.clone())
    };
    let x = tensor1(&[0_f32, 1., 0., 3., 4.]);
    for starts in ["starts = Less(zero, n)", "starts = Identity(given)"] {
        let inputs = [x.clone(), tensor0(true)];
        let expected = tensor2(&[[1_i64], [4], [8]]);
        assert_eq!(run(model(starts), &inputs).unwrap(), [expected]);
        let none = Tensor::zero::<f32>(&[3]).unwrap();
        let outputs = run(model(starts), &[none, tensor0(true)]).unwrap();
        assert_eq!(outputs[0].shape(), [0, 1]);
    }
    fails(
        run(model("starts = Identity(given)"), &[x, tensor0(false)]),
        "ended it after 0 of 3 steps",
    );
}

/// A model of nodes between `x:f32[N,3]` and `y`.
fn of_sizes(nodes: &str) -> Graph {
    let graph = graph("x:f32[N,3]", "y:i32[1]", nodes);
    graph.constants("zero = [0], one = [1]i32, value = 2.0")
}

/// Each inference and the wiring speak of the same sizes.
#[test]
fn a_number_of_steps_from_data_is_one_symbol() {
    let model = whole(
        "x:f32[N] n:i64[] -> y z
         last, all = Loop<body=@body>(n, _, x)
         y = Add(all, all)
         z = Add(last, last)
         @body: i:i64[] c:bool[] s:f32[N] -> d t e
         d = Identity(c)
         t = Add(s, s)
         e = Neg(s)",
    );
    for steps in [3_i64, 0, 1] {
        let inputs = [tensor1(&[1_f32, 2.]), tensor0(steps)];
        let found = run_optimized(model.clone(), &inputs).unwrap();
        assert_eq!(found[0].shape(), [steps as usize, 2]);
        let last = 2_f32.powi(1 + steps as i32);
        assert_eq!(found[1], tensor1(&[last, 2. * last]));
    }
}

/// tract would broadcast the numbers of all steps to the sizes of one.
#[test]
fn the_number_of_a_step_may_be_broadcast() {
    for sizes in ["", "n:i64[] "] {
        let (trips, inputs) = match sizes {
            "" => ("three", vec![]),
            _ => ("n", vec![tensor0(3_i64)]),
        };
        let model = whole(&format!(
            "{sizes} -> y
             three = 3
             y = Loop<body=@body>({trips}, _)
             @body: i:i64[] c:bool[] -> d e
             d = Identity(c)
             e = Expand(i, [1])"
        ));
        let found = run_optimized(model, &inputs).unwrap();
        assert_eq!(found[0], tensor2(&[[0_i64], [1], [2]]));
    }
}

#[test]
fn sizes_stay_known_through_int32() {
    let graph = of_sizes(
        "shape = Shape(x)
         sizes = Cast<to=6>(shape)
         size = Gather<axis=0>(sizes, zero)
         more = Add(size, one)
         both = Concat<axis=0>(more, one)
         as_int64 = Cast<to=7>(both)
         y = Expand(value, as_int64)",
    );
    let model = parse(graph.clone()).unwrap().optimized().unwrap();
    let shape = &model.output_fact(0).unwrap().shape;
    assert_eq!(format!("{shape:?}"), "N+1,1");
    let x = Tensor::zero::<f32>(&[4, 3]).unwrap();
    assert_eq!(run(graph, &[x]).unwrap()[0].shape(), [5, 1]);
}

/// A cast to int32 really casts where a symbol could do harm.
#[test]
fn sizes_that_are_output_or_computed_with_stay_int32() {
    for (nodes, expected) in [
        (
            "shape = Shape(x)\n sizes = Cast<to=6>(shape)\n y = Gather<axis=0>(sizes, zero)",
            4,
        ),
        (
            "shape = Shape(x)
             sizes = Cast<to=6>(shape)
             size = Gather<axis=0>(sizes, zero)
             y = Mod(size, three)",
            1,
        ),
    ] {
        let graph = of_sizes(nodes).constant("three", tensor1(&[3_i32]));
        let x = Tensor::zero::<f32>(&[4, 3]).unwrap();
        let outputs = run(graph, &[x]).unwrap();
        assert_eq!(outputs[0], tensor1(&[expected]), "{nodes}");
    }
}

/// A state keeps the type that the body declares.
#[test]
fn a_state_that_starts_as_a_size_is_the_body_s_integer() {
    let model = whole(
        "x:f32[N,3] -> y:i32[1]
         shape = Shape(x)
         sizes = Cast<to=6>(shape)
         size = Gather<axis=0>(sizes, [0])
         y = Loop<body=@body>(2, _, size)
         @body: i:i64[] c:bool[] s:i32[1] -> c s1
         s1 = Sub(s, [1]i32)",
    );
    let x = Tensor::zero::<f32>(&[7, 3]).unwrap();
    assert_eq!(run(model, &[x]).unwrap(), [tensor1(&[5_i32])]);
}

/// The loop ends by its condition alone, which compares with a size.
#[test]
fn a_condition_on_a_symbol_ends_it() {
    for (ends, expected) in [("c1 = Less(next, n)", 5), ("c1 = Less(next, half)", 2)] {
        let model = whole(&format!(
            "x:f32[T,2] h:f32[2] -> last hs
             one = 1
             shape = Shape(x)
             n = Gather<axis=0>(shape, 0)
             half = Div(n, 2)
             last, hs = Loop<body=@body>(_, true, h)
             @body: i c h -> c1 h1 h1
             row = Gather<axis=0>(x, i)
             h1 = Add(h, row)
             next = Add(i, one)
             {ends}"
        ));
        let [x, h, ..] = inputs(true, 0);
        let outputs = run(model, &[x, h]).unwrap();
        assert_eq!(outputs[1].shape(), [expected, 2], "{ends}");
    }
}

/// An operator of a step, and its effect.
type Operator = (&'static str, fn(f32, f32) -> f32);

const OPERATORS: [Operator; 3] = [
    ("Add", |a, b| a + b),
    ("Sub", |a, b| a - b),
    ("Mul", |a, b| a * b),
];

/// A loop over the rows of x with a state `k` of one row, which the first step broadcasts.
fn broadcasts(operators: [usize; 3], names: [&str; 2]) -> Graph {
    let [a, b, c] = operators.map(|it| OPERATORS[it].0);
    let [steps, batch] = names;
    whole(&format!(
        "x:f32[{steps},{batch},2] h:f32[{batch},2] -> ys last row joined
         shape = Shape(x)
         n = Gather<axis=0>(shape, 0)
         last, row, ys = Loop<body=@body>(n, true, h, k)
         joined = Concat<axis=0>(ys, x)
         @body: i c h k -> c1 h1 k1 out
         c1 = Identity(c)
         xt = Gather<axis=0>(x, i)
         k1 = {a}(k, xt)
         h1 = {b}(h, k1)
         out = {c}(h1, k)"
    ))
    .constant("k", tensor2(&[[0.5_f32, -2.]]))
}

/// The outputs of [`broadcasts`].
fn broadcast(operators: [usize; 3], x: &Tensor, h: &Tensor) -> [Tensor; 4] {
    let [a, b, c] = operators.map(|it| OPERATORS[it].1);
    let (steps, batch) = (x.shape()[0], x.shape()[1]);
    let x_at = x.to_plain_array_view::<f32>().unwrap();
    let mut h: Vec<f32> = h
        .to_plain_array_view::<f32>()
        .unwrap()
        .iter()
        .copied()
        .collect();
    let mut k: Vec<f32> = (0..2 * batch).map(|at| [0.5, -2.][at % 2]).collect();
    let mut ys = vec![];
    for step in 0..steps {
        for at in 0..2 * batch {
            let before = k[at];
            k[at] = a(before, x_at[[step, at / 2, at % 2]]);
            h[at] = b(h[at], k[at]);
            ys.push(c(h[at], before));
        }
    }
    // Without steps, one row is left.
    let rows = if steps > 0 { batch } else { 1 };
    if steps == 0 {
        k = vec![0.5, -2.];
    }
    let ys = Tensor::from_shape(&[steps, batch, 2], &ys).unwrap();
    let joined = Tensor::stack_tensors(0, &[ys.clone(), x.clone()]).unwrap();
    let h = Tensor::from_shape(&[batch, 2], &h).unwrap();
    [ys, h, Tensor::from_shape(&[rows, 2], &k).unwrap(), joined]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_state_of_one_row_settles_in_the_first_step(operators in [0usize..3, 0..3, 0..3]) {
        let model = parse(broadcasts(operators, ["T", "N"])).unwrap();
        let model = model.into_typed().unwrap();
        for (output, size) in [(0, "T,N,2,F32"), (1, "N,2,F32"), (3, "2*T,N,2,F32")] {
            let fact = format!("{:?}", model.output_fact(output).unwrap());
            prop_assert_eq!(&fact, size);
        }
        let plan = model.optimized().unwrap().into_runnable().unwrap();
        for (steps, batch) in [(3, 4), (1, 2), (0, 3), (2, 1), (3, 4), (2, 0)] {
            let numbers = |count: usize| -> Vec<f32> {
                (0..count).map(|it| (it % 7) as f32 / 2. - 1.).collect()
            };
            let x = Tensor::from_shape(&[steps, batch, 2], &numbers(steps * batch * 2)).unwrap();
            let h = Tensor::from_shape(&[batch, 2], &numbers(batch * 2)).unwrap();
            let expected = broadcast(operators, &x, &h);
            let sizes = [steps.to_string(), batch.to_string()];
            let known = broadcasts(operators, [&sizes[0], &sizes[1]]);
            let inputs = [x, h];
            let found = plan.run(inputs.iter().cloned().map(Tensor::into_tvalue).collect());
            let found = found.unwrap().into_iter().map(IntoTensor::into_tensor);
            for found in [found.collect(), run(known, &inputs).unwrap()] {
                prop_assert_eq!(&found[..], &expected[..], "{} steps of {}", steps, batch);
            }
        }
    }
}

/// Ordinary models join values whose sizes are equal by different expressions, and reshape them.
#[test]
fn expressions_may_stand_for_one_size() {
    for nodes in [
        // The last step, beside a value per sequence.
        "last = Slice(x, [-1], [9223372036854775807], [1])
         row = Reshape(last, [-1 2])
         y = Concat<axis=1>(row, s)",
        "last = Slice(x, [-1], [9223372036854775807], [1])
         row = Reshape(last, [0 2])
         y = Add(row, s)",
        // Each step beside the one before it.
        "first = Slice(x, [0], [1], [1])
         before = Slice(x, [0], [-1], [1])
         shifted = Concat<axis=1>(first, before)
         y = Concat<axis=2>(x, shifted)",
        // A longer value, cropped.
        "shape = Shape(x)
         t = Slice(shape, [1], [2], [0])
         longer = Concat<axis=1>(z, x)
         cropped = Slice(longer, [0], t, [1])
         y = Concat<axis=2>(cropped, x)",
    ] {
        let model = |b: &str, t: &str| {
            let inputs = format!("x:f32[{b},{t},2] s:f32[{b},2] z:f32[{b},1,2]");
            graph(&inputs, "y", nodes)
        };
        let plan = |model: Graph| {
            let typed = parse(model)?.into_typed()?;
            revseq_tract_operators::into_optimized(typed)?.into_runnable()
        };
        let symbolic = plan(model("B", "T")).unwrap_or_else(|it| panic!("{nodes}: {it:?}"));
        for (b, t) in [(2, 4), (1, 1), (3, 2), (2, 4)] {
            let counted = |shape: &[usize]| {
                let count: usize = shape.iter().product();
                let values: Vec<f32> = (0..count).map(|it| it as f32).collect();
                Tensor::from_shape(shape, &values).unwrap().into_tvalue()
            };
            let inputs = [counted(&[b, t, 2]), counted(&[b, 2]), counted(&[b, 1, 2])];
            let known = plan(model(&b.to_string(), &t.to_string())).unwrap();
            let expected = known.run(inputs.iter().cloned().collect()).unwrap();
            let found = symbolic.run(inputs.into_iter().collect()).unwrap();
            assert_eq!(found, expected, "{nodes} {b} {t}");
        }
    }
}

/// Sizes that may be equal are compared when the model runs.
#[test]
fn a_concat_of_other_sizes_is_an_error() {
    let model = graph("x:f32[N,2] z:f32[M,2]", "y", "y = Concat<axis=1>(x, z)");
    let typed = parse(model).unwrap().into_typed().unwrap();
    let plan = revseq_tract_operators::into_optimized(typed).unwrap();
    let plan = plan.into_runnable().unwrap();
    let run = |n: usize, m: usize| {
        let inputs = [n, m].map(|rows| Tensor::zero::<f32>(&[rows, 2]).unwrap().into_tvalue());
        plan.run(inputs.into_iter().collect())
    };
    assert_eq!(run(3, 3).unwrap()[0].shape(), [3, 4]);
    fails(run(3, 2), "axis 0 has 2 elements, expected 3");
    assert_eq!(run(0, 0).unwrap()[0].shape(), [0, 4]);
}

#[test]
fn limits_hold_for_a_symbolic_number_of_steps() {
    let graph = || layer(STARTS, "index = Identity(t)", "hs count");
    // Two floats a step.
    for (limits, most, why) in [
        (
            Limits::none().with_steps(3),
            3,
            "it does not end within 3 steps, which are all that are allowed",
        ),
        (
            Limits::none().with_bytes(4 * 8 + 24),
            4,
            "its values take 64 bytes, more than the 56 that are allowed",
        ),
    ] {
        let model = parse_within(limits, graph()).unwrap();
        let model = revseq_tract_operators::into_optimized(model.into_typed().unwrap()).unwrap();
        let how = revseq_tract_operators::executions(&model);
        assert!(matches!(how[0].how, How::StepByStep { .. }), "{how:?}");
        let model = model.into_runnable().unwrap();
        let run = |steps: usize| {
            let x = Tensor::zero::<f32>(&[steps, 2]).unwrap();
            model.run(tvec!(x.into(), tensor1(&[0.5_f32, 0.]).into()))
        };
        for steps in [0, 1, most] {
            assert_eq!(run(steps).unwrap()[0].shape(), [steps, 2]);
        }
        let error = run(most + 1).expect_err("it is beyond the limit");
        assert_eq!(error.root_cause().to_string(), why);
        // What a run has spent is not held against the next.
        assert!(run(most).is_ok());
    }
}

#[test]
fn limits_hold_for_steps_and_sizes_from_data() {
    let model = || {
        whole(
            "x:f32[T,1] r:bool[T] z:f32[K] k:bool[K] -> ys
             rows = Compress<axis=0>(x, r)
             columns = Compress<axis=0>(z, k)
             shape = Shape(rows)
             n = Gather<axis=0>(shape, 0)
             _, ys = Loop<body=@body>(n, true, [0.0])
             @body: i c h -> c1 h1 ys1
             c1 = Identity(c)
             row = Gather<axis=0>(rows, i)
             h1 = Add(h, row)
             ys1 = Add(h1, columns)",
        )
    };
    let limits = Limits::none().with_steps(3).with_bytes(1 << 20);
    let model = parse_within(limits, model()).unwrap();
    let model = revseq_tract_operators::into_optimized(model.into_typed().unwrap()).unwrap();
    let model = model.into_runnable().unwrap();
    let run = |rows: &[bool], columns: &[bool]| {
        let x = Tensor::zero::<f32>(&[rows.len(), 1]).unwrap();
        let z = Tensor::zero::<f32>(&[columns.len()]).unwrap();
        model.run(tvec!(
            x.into(),
            tensor1(rows).into(),
            z.into(),
            tensor1(columns).into()
        ))
    };
    let ys = run(&[true, false, true, true], &[false, true, true]).unwrap();
    assert_eq!(ys[0].shape(), [3, 2]);
    let error = run(&[true; 4], &[true]).expect_err("it is beyond the limit");
    assert!(format!("{error:?}").contains("within 3 steps"), "{error:?}");
}
