//! Ifs with any contents in their branches.

use tract_onnx::prelude::*;

use crate::build::{Graph, Names, fails, graph, parse, run, run_each, run_optimized, whole};

/// A model with nodes before `y`, and branches `yes` and `no` that output `v`.
fn model(nodes: &str, yes: Graph, no: Graph) -> Graph {
    let model = graph("c:bool[] x:f32[2]", "y", nodes);
    model.with("yes", yes).with("no", no)
}

const IF: &str = "If<then_branch=@yes;else_branch=@no>(c)";

#[track_caller]
fn check(model: &Graph, yes: [f32; 2], no: [f32; 2]) {
    for (condition, expected) in [(true, yes), (false, no)] {
        let inputs = [tensor0(condition), tensor1(&[1_f32, -2.])];
        let outputs = run(model.clone(), &inputs).unwrap();
        assert_eq!(outputs, [tensor1(&expected)], "{condition}");
    }
}

#[test]
fn branches_need_no_names() {
    let branch = |operator: &str| graph("", "v", &format!("v = {operator}(x)"));
    let nodes = format!("a = {IF}\n b = {IF}\n y = Add(a, b)");
    let model = model(&nodes, branch("Neg"), branch("Abs"));
    for names in [Names::None, Names::OfOutputs, Names::OfTheirOwn] {
        check(&model.clone().named(names), [-2., 4.], [2., 4.]);
    }
}

#[test]
fn constants_are_those_of_their_branch() {
    let branch = |value: f32| graph("", "v", "").constant("v", tensor1(&[value, 1.]));
    let nodes = format!("a = {IF}\n b = Mul(a, x)\n y = Add(b, a)");
    check(&model(&nodes, branch(0.), branch(3.)), [0., -1.], [6., -1.]);
}

#[test]
fn branches_may_output_captured_values() {
    let nodes = format!("x.out = Neg(x)\n a = {IF}\n y = Sub(a, x)");
    let branches = [graph("", "x", ""), graph("", "x.out", "")];
    let [yes, no] = branches;
    check(&model(&nodes, yes, no), [0., 0.], [-2., 4.]);
}

/// Runs a model with this `c`, and with `x` of 3 and 2 elements.
fn outputs(model: &Graph, condition: bool) -> TractResult<Vec<Tensor>> {
    let x = tensor2(&[[1_f32, -2.], [3., 4.], [5., 6.]]);
    run(model.clone(), &[tensor0(condition), x])
}

/// A model as above, with a known or unknown number of rows of `x`.
fn rows(rows: &str, nodes: &str, yes: &str, no: &str) -> Graph {
    let model = graph(&format!("c:bool[] x:f32[{rows},2]"), "y", nodes);
    let model = model
        .with("yes", graph("", "v", yes))
        .with("no", graph("", "v", no));
    model.constants("zero = [0], one = [1], three = 3")
}

#[test]
fn sizes_may_differ() {
    for known in ["3", "N"] {
        let first = "v = Slice(x, zero, one, zero)";
        let model = rows(
            known,
            &format!("a = {IF}\n y = Neg(a)"),
            first,
            "v = Abs(x)",
        );
        let yes = outputs(&model, true).unwrap();
        assert_eq!(yes, [tensor2(&[[-1_f32, 2.]])], "{known}");
        let no = outputs(&model, false).unwrap();
        let abs = tensor2(&[[-1_f32, -2.], [-3., -4.], [-5., -6.]]);
        assert_eq!(no, [abs], "{known}");
    }
}

#[test]
fn branches_of_different_ranks_or_types_are_refused() {
    let rows_of = |yes: &str| rows("3", &format!("y = {IF}"), yes, "v = Abs(x)");
    for (yes, expected) in [
        ("v = Flatten<axis=1>(x)\n", None),
        (
            "v = Unsqueeze(x, zero)",
            Some("F32 of 3 axes and F32 of 2 axes"),
        ),
        ("v = Shape(x)", Some("of 1 axis and F32 of 2 axes")),
    ] {
        let error = outputs(&rows_of(yes), true).err();
        match expected {
            None => assert!(error.is_none(), "{error:?}"),
            Some(expected) => {
                let error = format!("{:#}", error.expect("it is refused"));
                assert!(error.contains(expected), "{error}");
            }
        }
    }
}

#[test]
fn branches_that_are_not_taken_may_be_unsupported() {
    // The number of rows is known from the shapes of the first run at the latest.
    let condition = "s = Shape(x)\n n = Gather(s, k)\n d = Equal(n, three)\n";
    let nodes = format!("{condition} a = If<then_branch=@yes;else_branch=@no>(d)\n y = Neg(a)");
    for (yes, no) in [
        ("v = Flatten<axis=1>(x)", "v = Squeeze(x, zero)"),
        ("v = Abs(x)", "v = Unsqueeze(x, zero)"),
    ] {
        let model = rows("3", &nodes, yes, no).constant("k", tensor0(0_i64));
        assert!(outputs(&model, true).is_ok(), "{yes}");
    }
}

#[test]
fn the_size_of_an_output_may_be_read() {
    for known in ["3", "N"] {
        let nodes = format!("a = {IF}\n s = Shape(a)\n y = Cast<to=1>(s)");
        let model = rows(known, &nodes, "v = Slice(x, zero, one, zero)", "v = Abs(x)");
        let x = tensor2(&[[1_f32, -2.], [3., 4.], [5., 6.]]);
        for (condition, rows) in [(true, 1_f32), (false, 3.)] {
            let found = run_optimized(model.clone(), &[tensor0(condition), x.clone()]);
            assert_eq!(found.unwrap(), [tensor1(&[rows, 2.])], "{known}");
        }
    }
}

/// The sizes of what is outside of the branches are known in both, as symbols as well.
#[test]
fn branches_may_need_a_size() {
    for known in ["3", "N"] {
        for yes in [
            "s = Shape(x)\n v = ConstantOfShape(s)",
            "v = ConstantOfShape(sizes)",
            "n = Shape<start=0;end=1>(x)\n r = Cast<to=1>(n)\n o = Mul(x, r)\n v = Sub(o, o)",
            "r = Cast<to=1>(sizes)\n o = Mul(x, r)\n v = Sub(o, o)",
        ] {
            let nodes = format!("sizes = Shape(x)\n a = {IF}\n y = Neg(a)");
            let model = rows(known, &nodes, yes, "v = Abs(x)");
            let zeros = Tensor::zero::<f32>(&[3, 2]).unwrap();
            let found = outputs(&model, true).unwrap_or_else(|it| panic!("{yes}: {it:?}"));
            found[0].close_enough(&zeros, true).unwrap();
            let abs = tensor2(&[[-1_f32, -2.], [-3., -4.], [-5., -6.]]);
            assert_eq!(outputs(&model, false).unwrap(), [abs], "{known} {yes}");
        }
    }
}

#[test]
fn a_size_may_be_beside_an_int64() {
    let number =
        "m = ReduceMin<keepdims=0>(x)\n p = Sub(m, m)\n f = Add(p, fours)\n v = Cast<to=7>(f)";
    for known in ["3", "N"] {
        for (yes, no, expected) in [
            ("v = Shape(x)", number, [[3_f32, 2.], [4., 4.]]),
            (number, "v = Shape(x)", [[4., 4.], [3., 2.]]),
            (
                "v = Shape(x)",
                "s = Shape(x)\n v = Add(s, one)",
                [[3., 2.], [4., 3.]],
            ),
        ] {
            let nodes = format!("a = {IF}\n b = Add(a, one)\n d = Sub(b, one)\n y = Cast<to=1>(d)");
            let model = rows(known, &nodes, yes, no).constant("fours", tensor1(&[4_f32, 4.]));
            assert_eq!(
                outputs(&model, true).unwrap(),
                [tensor1(&expected[0])],
                "{no}"
            );
            assert_eq!(
                outputs(&model, false).unwrap(),
                [tensor1(&expected[1])],
                "{no}"
            );
        }
    }
}

/// One plan takes either branch, for several sizes, and each run is a run of its own.
#[test]
fn one_plan_takes_either_branch() {
    let nodes = format!("a = {IF}\n s = Shape(a)\n n = Cast<to=1>(s)\n y = Add(a, n)");
    let model = rows("N", &nodes, "v = Slice(x, zero, one, zero)", "v = Abs(x)");
    let inputs = |condition: bool, rows: usize| {
        let x: Vec<f32> = (0..2 * rows).map(|it| it as f32).collect();
        vec![
            tensor0(condition),
            Tensor::from_shape(&[rows, 2], &x).unwrap(),
        ]
    };
    let cases = [
        (true, 3),
        (false, 3),
        (false, 1),
        (true, 1),
        (false, 0),
        (false, 4),
    ];
    let found = run_each(
        model,
        &cases.map(|(condition, rows)| inputs(condition, rows)),
    )
    .unwrap();
    for ((condition, rows), found) in std::iter::zip(cases, found) {
        let kept = if condition { 1 } else { rows };
        let expected =
            (0..kept).flat_map(|row| [(2 * row + kept) as f32, (2 * row + 1 + 2) as f32]);
        let expected: Vec<f32> = expected.collect();
        assert_eq!(found[0], Tensor::from_shape(&[kept, 2], &expected).unwrap());
    }
}

#[test]
fn an_index_outside_of_the_axis_is_an_error_in_bodies_too() {
    let gather = "v = Gather<axis=1>(x, i)";
    let inputs = "c:bool[] x:f32[T,2] i:i64[1]";
    let branches = whole(&format!(
        "{inputs} -> y
         zero = [0]
         y = {IF}
         @yes: -> v
         {gather}
         @no: -> v
         v = Gather<axis=1>(x, zero)"
    ));
    // The index is scanned, so that the Gather stays in the body.
    let body = graph(
        "s:f32[2] j:i64[1]",
        "s1 v",
        "s1 = Add(s, s)\n v = Gather<axis=0>(s, j)",
    );
    let scan = graph(
        inputs,
        "y",
        "j = Unsqueeze(i, axis)\n js = Concat<axis=0>(j, j)
         last, y = Scan<body=@body;num_scan_inputs=1>([1.0 2.0], js)",
    )
    .constant("axis", tensor1(&[0_i64]))
    .with("body", body);
    for model in [branches, scan] {
        let typed = parse(model).unwrap().into_typed().unwrap();
        let plan = revseq_tract_operators::into_optimized(typed).unwrap();
        let plan = plan.into_runnable().unwrap();
        let x = Tensor::zero::<f32>(&[3, 2]).unwrap();
        let run = |index: i64| {
            let inputs = tvec![
                tensor0(true).into(),
                x.clone().into(),
                tensor1(&[index]).into()
            ];
            plan.run(inputs)
        };
        assert!(run(1).is_ok());
        fails(run(2), "index 2 of a Gather lies outside of axis");
    }
}
