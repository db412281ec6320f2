//! Ifs, whatever is in their branches.

use tract_onnx::prelude::*;

use crate::build::{Graph, Names, graph, run};

/// A model of nodes before `y`, where the branches `yes` and `no` output `v`.
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
fn branches_may_output_what_they_capture() {
    let nodes = format!("x.out = Neg(x)\n a = {IF}\n y = Sub(a, x)");
    let branches = [graph("", "x", ""), graph("", "x.out", "")];
    let [yes, no] = branches;
    check(&model(&nodes, yes, no), [0., 0.], [-2., 4.]);
}
