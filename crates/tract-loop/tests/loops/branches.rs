//! Ifs with any contents in their branches.

use tract_onnx::prelude::*;

use crate::build::{Graph, Names, graph, run};

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
fn they_need_no_names_of_their_own() {
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
    model
        .constant("zero", tensor1(&[0_i64]))
        .constant("one", tensor1(&[1_i64]))
        .constant("three", tensor0(3_i64))
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
fn ranks_and_types_may_not() {
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
