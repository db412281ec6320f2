//! Checks proofs of conditions against an interpreter, on random graphs of integers.

use std::cell::Cell;

use proptest::prelude::*;

use super::interpreter::{Tensor, UNKNOWN};
use super::sizes::{Made, made};
use revseq_onnx::model::{BOOL, FLOAT, INT32, INT64, int};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes;

/// Numbers at which types end, and small ones.
const NUMBERS: [i64; 14] = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    7,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 31,
    1 << 32,
    (1 << 32) + 1,
    i64::MAX,
    i64::MIN,
];

fn constant(made: &mut Made) -> String {
    let code = [INT64, INT64, INT32, BOOL][made.choose(4)];
    let rank = made.choose(3);
    let sizes: Vec<usize> = (0..rank)
        .map(|_| [1, 1, 2, 2, 3, 0][made.choose(6)])
        .collect();
    let few = if made.choose(3) == 0 {
        NUMBERS.len()
    } else {
        6
    };
    let elements: Vec<i64> = (0..sizes.iter().product())
        .map(|_| NUMBERS[made.choose(few)])
        .collect();
    made.typed_constant(code, &sizes, &elements)
}

/// A value of a type, if there is one.
fn value_of(made: &mut Made, accepts: impl Fn(&Tensor) -> bool) -> Option<String> {
    (0..6).find_map(|_| {
        let name = match made.choose(5) {
            0 => constant(made),
            _ => made.any_value(),
        };
        accepts(&made.first(&name)).then_some(name)
    })
}

pub(super) fn step(made: &mut Made) {
    let is_whole = |it: &Tensor| [INT32, INT64].contains(&it.code);
    let is_number = |it: &Tensor| it.code != BOOL;
    match made.choose(17) {
        0 | 1 => {
            let name = constant(made);
            made.node("Identity", &[&name], vec![]);
        }
        2..=4 => made.step(),
        5 => {
            let to = [BOOL, INT32, INT64, FLOAT][made.choose(4)];
            // Numbers that a float does not hold are not known after it.
            let is_known = |it: &Tensor| !it.elements.contains(&UNKNOWN);
            let Some(name) = value_of(made, is_known) else {
                return;
            };
            made.node("Cast", &[&name], vec![int("to", to.into())]);
        }
        6 => {
            let axis = made.choose(4) as i64 - 1;
            let name = made.any_value();
            made.node("Flatten", &[&name], vec![int("axis", axis)]);
        }
        7 => {
            let name = made.any_value();
            made.node("Size", &[&name], vec![]);
        }
        16 => {
            let Some(condition) = value_of(made, |it| it.code == BOOL) else {
                return;
            };
            let one = made.any_value();
            let code = made.first(&one).code;
            if let Some(other) = value_of(made, |it| it.code == code) {
                made.node("Where", &[&condition, &one, &other], vec![]);
            }
        }
        8 | 9 => {
            let Some(name) = value_of(made, is_whole) else {
                return;
            };
            let rank = made.first(&name).sizes.len();
            let inputs = made.with_axes(&name, rank);
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            let op = ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"][made.choose(4)];
            let attributes = vec![
                int("keepdims", made.choose(2) as i64),
                int("noop_with_empty_axes", made.choose(2) as i64),
            ];
            made.node(op, &inputs, attributes);
        }
        10 => {
            let op = ["Max", "Min"][made.choose(2)];
            let Some(first) = value_of(made, is_number) else {
                return;
            };
            let code = made.first(&first).code;
            let others = (0..made.choose(3)).filter_map(|_| value_of(made, |it| it.code == code));
            let inputs: Vec<String> = others.chain([first]).collect();
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            made.node(op, &inputs, vec![]);
        }
        11 => {
            let op = ["Add", "Sub", "Mul", "Div", "Mod"][made.choose(5)];
            let Some(one) = value_of(made, is_number) else {
                return;
            };
            let code = made.first(&one).code;
            let fmod = int("fmod", made.choose(2) as i64);
            let attributes = if op == "Mod" { vec![fmod] } else { vec![] };
            if let Some(other) = value_of(made, |it| it.code == code) {
                made.node(op, &[&one, &other], attributes);
            }
        }
        12 | 13 => {
            let ops = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
            let op = ops[made.choose(5)];
            let Some(one) = value_of(made, |it| is_number(it) || op == "Equal") else {
                return;
            };
            let code = made.first(&one).code;
            if let Some(other) = value_of(made, |it| it.code == code) {
                made.node(op, &[&one, &other], vec![]);
            }
        }
        _ => {
            let is_truth = |it: &Tensor| it.code == BOOL;
            let Some(one) = value_of(made, is_truth) else {
                return;
            };
            let op = ["And", "Not", "Or", "Xor"][made.choose(4)];
            if op == "Not" {
                made.node(op, &[&one], vec![]);
            } else if let Some(other) = value_of(made, is_truth) {
                made.node(op, &[&one, &other], vec![]);
            }
        }
    }
}

/// Adds a condition for each value: that it is what it is in the first run.
fn probe(made: &mut Made) {
    for name in made.names.clone() {
        let value = made.first(&name);
        if ![INT32, INT64, BOOL].contains(&value.code) || value.elements.is_empty() {
            continue;
        }
        let same = made.typed_constant(value.code, &value.sizes, &value.elements);
        made.node("Equal", &[&name, &same], vec![]);
        for (op, attribute) in [
            ("Cast", int("to", INT32.into())),
            ("ReduceMin", int("keepdims", 0)),
            ("Cast", int("to", BOOL.into())),
        ] {
            let last = made.names.last().expect("a value").clone();
            made.node(op, &[&last], vec![attribute]);
        }
    }
}

#[test]
fn proved_conditions_hold() {
    // The conditions that are always false, always true, and not proved to be either.
    let counts = Cell::new([0_usize; 3]);
    let config = ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(choices in proptest::collection::vec(any::<u32>(), 40..160))| {
        let mut made = made(choices, step);
        probe(&mut made);
        let graph = made.graph();
        let scope = Scope::graph(&graph, None, 18);
        for (name, runs) in &made.values {
            let found = sizes::truth(&scope, name);
            let mut count = counts.get();
            count[found.map_or(2, usize::from)] += 1;
            counts.set(count);
            let Some(found) = found else { continue };
            for run in runs.iter().flatten() {
                let is_it = run.code == BOOL && run.elements == [i64::from(found)];
                prop_assert!(is_it, "{name} is {run:?}, not {found}:\n{:#?}", graph.node);
            }
        }
    });
    // Many conditions are proved, so the proofs are really tested.
    let [no, yes, _] = counts.get();
    assert!(no > 1_000 && yes > 10_000, "{:?}", counts.get());
}
