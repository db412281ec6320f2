//! Checks proofs about sizes against an interpreter, on random graphs that compute sizes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::interpreter::{Tensor, UNKNOWN, places, run};

use revseq_onnx::model::{
    self, AttributeProto, BOOL, FLOAT, GraphProto, INT32, INT64, NodeProto, TensorProto, int, ints,
    value,
};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes::{self, Size};

/// A graph under construction, with its values for two input shapes.
pub(super) struct Made {
    choices: std::vec::IntoIter<u32>,
    pub(super) nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    /// The values that nodes may read.
    pub(super) names: Vec<String>,
    pub(super) values: HashMap<String, [Option<Tensor>; 2]>,
    /// The declared sizes of `x`.
    declared: Vec<Option<i64>>,
}

impl Made {
    pub(super) fn choose(&mut self, below: usize) -> usize {
        self.choices.next().unwrap_or(0) as usize % below.max(1)
    }

    pub(super) fn any_value(&mut self) -> String {
        // Prefer recent values.
        let back = self.choose(self.names.len().min(6));
        self.names[self.names.len() - 1 - back].clone()
    }

    pub(super) fn first(&self, name: &str) -> Tensor {
        self.values[name][0]
            .clone()
            .expect("made for the first sizes")
    }

    pub(super) fn add(&mut self, name: String, values: [Option<Tensor>; 2]) {
        self.values.insert(name.clone(), values);
        self.names.push(name);
    }

    fn constant(&mut self, sizes: &[usize], elements: &[i64]) -> String {
        self.typed_constant(INT64, sizes, elements)
    }

    pub(super) fn typed_constant(
        &mut self,
        code: i32,
        sizes: &[usize],
        elements: &[i64],
    ) -> String {
        let name = format!("c{}", self.constants.len());
        let tensor = Tensor {
            code,
            sizes: sizes.to_vec(),
            elements: elements.to_vec(),
        };
        let tensor = tensor.typed(code);
        let dims: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let width = match code {
            BOOL => 1,
            INT32 => 4,
            _ => 8,
        };
        let elements = tensor.elements.iter();
        let bytes = elements.flat_map(|it| it.to_le_bytes()[..width].to_vec());
        self.constants.push(TensorProto {
            name: Some(name.clone()),
            dims,
            data_type: Some(code),
            raw_data: Some(bytes.collect()),
            ..TensorProto::default()
        });
        self.values
            .insert(name.clone(), [Some(tensor.clone()), Some(tensor)]);
        name
    }

    pub(super) fn ints(&mut self, elements: &[i64]) -> String {
        self.constant(&[elements.len()], elements)
    }

    /// A table of small numbers, of rank 0 to 2.
    fn table(&mut self, below: usize, negative: bool) -> String {
        let rank = self.choose(3);
        let sizes: Vec<usize> = (0..rank).map(|_| 1 + self.choose(2)).collect();
        let count = sizes.iter().product();
        let elements: Vec<i64> = (0..count)
            .map(|_| self.choose(below) as i64 - if negative { 1 } else { 0 })
            .collect();
        self.constant(&sizes, &elements)
    }

    pub(super) fn graph(&self) -> GraphProto {
        GraphProto {
            node: self.nodes.clone(),
            initializer: self.constants.clone(),
            input: vec![value("x", FLOAT, &self.declared)],
            ..GraphProto::default()
        }
    }

    /// Adds a node if it is valid for the first input shape.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) {
        let output = format!("v{}", self.nodes.len());
        let node = model::node(op, inputs, &[&output], attributes);
        let results = [0, 1].map(|at| {
            let inputs = inputs.iter().map(|&name| self.values[name][at].as_ref());
            run(&node, &inputs.collect::<Option<Vec<_>>>()?)
                .filter(|it| it.sizes.len() < 6 && it.elements.len() <= 24)
        });
        if results[0].is_some() {
            self.nodes.push(node);
            self.add(output, results);
        }
    }

    /// A value with an axes input: one axis, none, or no input.
    pub(super) fn with_axes(&mut self, name: &str, rank: usize) -> Vec<String> {
        let axis = self.choose(rank) as i64;
        let axes = match self.choose(3) {
            0 => None,
            1 => Some(self.ints(&[])),
            _ => Some(self.ints(&[axis])),
        };
        std::iter::once(name.to_owned()).chain(axes).collect()
    }

    pub(super) fn step(&mut self) {
        let name = self.any_value();
        let x = self.first(&name);
        let rank = x.sizes.len();
        let x_name = name.as_str();
        match self.choose(17) {
            16 => self.list_of_steps(),
            0 => {
                let attributes = match self.choose(3) {
                    0 => vec![],
                    1 => vec![int("start", self.choose(3) as i64 - 1)],
                    _ => vec![int("start", -2), int("end", self.choose(4) as i64 - 1)],
                };
                let name = if self.choose(2) == 0 { "x" } else { x_name };
                self.node("Shape", &[name], attributes);
            }
            1 | 2 => {
                let axis = self.choose(rank);
                let indices = self.table(x.sizes.get(axis).map_or(2, |size| size + 1), true);
                self.node(
                    "Gather",
                    &[x_name, &indices],
                    vec![int("axis", axis as i64)],
                );
            }
            3 | 4 => {
                let axis = self.choose(rank) as i64;
                let start = [0, 0, 1, -1, -2, i64::MAX][self.choose(6)];
                let end = [1, 2, -1, i64::from(i32::MAX), i64::MAX, -i64::MAX][self.choose(6)];
                let step = [1, 1, 2, -1][self.choose(4)];
                let inputs = [start, end, axis, step].map(|part| self.ints(&[part]));
                let [start, end, axis, step] = inputs.each_ref().map(String::as_str);
                self.node("Slice", &[x_name, start, end, axis, step], vec![]);
            }
            5 | 6 => {
                let other = self.any_value();
                let axis = int("axis", self.choose(rank) as i64);
                self.node("Concat", &[x_name, &other], vec![axis]);
            }
            7 => {
                let axis = self.choose(rank + 1) as i64 - i64::from(self.choose(2) == 0);
                let axes = self.ints(&[axis]);
                self.node("Unsqueeze", &[x_name, &axes], vec![]);
            }
            8 => {
                let inputs = self.with_axes(x_name, rank);
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                self.node("Squeeze", &inputs, vec![]);
            }
            9 => {
                let inputs = self.with_axes(x_name, rank);
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let op = ["ReduceSum", "ReduceMax"][self.choose(2)];
                let attributes = vec![
                    int("keepdims", self.choose(2) as i64),
                    int("noop_with_empty_axes", self.choose(2) as i64),
                ];
                self.node(op, &inputs, attributes);
            }
            10 => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                perm.rotate_left(self.choose(rank));
                let given = match self.choose(3) {
                    0 => vec![],
                    _ => vec![ints("perm", &perm)],
                };
                self.node("Transpose", &[x_name], given);
            }
            11 => {
                let sizes = self.any_value();
                self.node("Expand", &[x_name, &sizes], vec![]);
            }
            12 => {
                let count = x.elements.len() as i64;
                let last = x.sizes.last().copied().unwrap_or(1) as i64;
                let wanted = [
                    vec![-1],
                    vec![-1, last],
                    vec![0, -1],
                    vec![count],
                    vec![1, -1],
                    vec![],
                ];
                let wanted = &wanted[self.choose(6)];
                let shape = if self.choose(2) == 0 {
                    self.ints(wanted)
                } else {
                    self.any_value()
                };
                let allowzero = int("allowzero", i64::from(self.choose(3) == 0));
                self.node("Reshape", &[x_name, &shape], vec![allowzero]);
            }
            13 => {
                let (op, attributes) = [
                    ("Identity", vec![]),
                    ("Cast", vec![int("to", 6)]),
                    ("Cast", vec![int("to", 7)]),
                    ("Neg", vec![]),
                ][self.choose(4)]
                .clone();
                // Neg changes the numbers, but not the shape.
                let is_size = op == "Neg";
                let name = if is_size { "x" } else { x_name };
                self.node(op, &[name], attributes);
            }
            14 => {
                let other = self.any_value();
                self.node("Add", &[x_name, &other], vec![]);
            }
            _ => {
                // A Dense layer over the last axis.
                let last = x.sizes.last().copied().unwrap_or(1);
                let weights = self.constant(&[last, 2], &vec![1; last * 2]);
                let rows = self.ints(&[-1, last as i64]);
                let before = self.names.len();
                self.node("Shape", &[x_name], vec![]);
                self.node("Reshape", &[x_name, &rows], vec![]);
                if self.names.len() < before + 2 || rank < 2 {
                    return;
                }
                let [shape, flat] = [before, before + 1].map(|at| self.names[at].clone());
                self.node("MatMul", &[&flat, &weights], vec![]);
                let leading: Vec<i64> = (0..rank as i64 - 1).collect();
                let (leading, width) = (self.ints(&leading), self.ints(&[2]));
                let product = self.names.last().expect("it").clone();
                self.node("Gather", &[&shape, &leading], vec![]);
                let leading = self.names.last().expect("it").clone();
                self.node("Concat", &[&leading, &width], vec![int("axis", 0)]);
                let sizes = self.names.last().expect("it").clone();
                self.node("Reshape", &[&product, &sizes], vec![]);
            }
        }
    }

    /// The last value.
    fn last(&self) -> String {
        self.names.last().expect("a value").clone()
    }

    /// A list as TensorFlow's `pfor` makes it: a range, times whether it is longer than 1.
    fn list_of_steps(&mut self) {
        let place = self.choose(3);
        let index = self.constant(&[], &[place as i64 - 1]);
        self.node("Shape", &["x"], vec![]);
        self.node("Gather", &[&self.last(), &index], vec![int("axis", 0)]);
        let size = self.last();
        let [zero, one, some] = [0, 1, self.choose(3) as i64].map(|it| self.constant(&[], &[it]));
        let start = [&zero, &zero, &some][self.choose(3)];
        self.node("Range", &[start, &size, &one], vec![]);
        let range = self.last();
        let code = [FLOAT, INT32, INT64][self.choose(3)];
        self.node("Cast", &[&size], vec![int("to", code.into())]);
        let length = self.last();
        let limit = [1, 1, 1, 0, 2][self.choose(5)];
        let limit = self.typed_constant(code, &[], &[limit]);
        self.node("Greater", &[&length, &limit], vec![]);
        let longer = self.last();
        if self.choose(2) == 0 {
            let other = if self.choose(3) == 0 { &some } else { &zero };
            self.node("Where", &[&longer, &range, other], vec![]);
        } else {
            self.node("Cast", &[&longer], vec![int("to", INT64.into())]);
            let factor = self.last();
            self.node("Mul", &[&factor, &range], vec![]);
        }
        let list = self.last();
        match self.choose(4) {
            0 => self.node("Add", &[&list, &some], vec![]),
            1 => self.node("Gather", &[&range, &list], vec![int("axis", 0)]),
            2 => {
                let axis = self.choose(2) as i64;
                let axes = self.ints(&[axis]);
                self.node("Unsqueeze", &[&list, &axes], vec![]);
                let both = self.ints(&[1, 3]);
                let column = self.last();
                self.node("Add", &[&column, &both], vec![]);
            }
            _ => {}
        }
    }
}

/// Makes a graph of `x`, with some declared sizes, in steps.
pub(super) fn made(choices: Vec<u32>, step: impl Fn(&mut Made)) -> Made {
    let mut made = Made {
        choices: choices.into_iter(),
        nodes: Vec::new(),
        constants: Vec::new(),
        names: Vec::new(),
        values: HashMap::new(),
        declared: Vec::new(),
    };
    let rank = 1 + made.choose(3);
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..rank {
        let sizes = [0, 1].map(|_| 1 + made.choose(4));
        let is_declared = made.choose(3) == 0;
        made.declared.push(is_declared.then_some(sizes[0] as i64));
        runs[0].push(sizes[0]);
        runs[1].push(if is_declared { sizes[0] } else { sizes[1] });
    }
    made.add(
        "x".to_owned(),
        runs.map(|sizes| Some(Tensor::new(&sizes, |_| UNKNOWN).typed(FLOAT))),
    );
    while made.choices.len() > 0 {
        step(&mut made);
    }
    made
}

/// The number of proofs.
#[derive(Debug, Default)]
struct Proved {
    ranks: usize,
    axes: usize,
    elements: usize,
    progressions: usize,
}

fn check(made: &Made, proved: &mut Proved) -> Result<(), TestCaseError> {
    let graph = made.graph();
    let scope = Scope::graph(&graph, None, 18);
    for (name, results) in &made.values {
        for run in [0, 1] {
            let Some(tensor) = &results[run] else {
                continue;
            };
            let is = |size: Size<'_>, actual: i64| match size {
                Size::Known(known) => known == actual,
                Size::Axis { value, axis, .. } => match &made.values[value][run] {
                    Some(size) => size
                        .sizes
                        .get(axis)
                        .is_some_and(|&size| size as i64 == actual),
                    None => true,
                },
            };
            let text = || {
                format!(
                    "{name} is {tensor:?} in run {run} of\n{:#?}\n{:#?}",
                    made.values["x"], graph.node
                )
            };
            if let Some(rank) = sizes::rank(&scope, name) {
                prop_assert_eq!(rank, tensor.sizes.len(), "{}", text());
                proved.ranks += 1;
            }
            for (axis, &actual) in tensor.sizes.iter().enumerate() {
                if let Some(size) = sizes::axis(&scope, name, axis) {
                    prop_assert!(is(size, actual as i64), "axis {axis}: {}", text());
                    proved.axes += 1;
                }
            }
            if let Some(found) = sizes::progression(&scope, name) {
                for place in places(&tensor.sizes) {
                    let number = found.first + place[found.axis] as i64;
                    prop_assert_eq!(tensor.at(&place), number, "{:?}: {}", found, text());
                }
                proved.progressions += 1;
            }
            for place in places(&tensor.sizes) {
                let (_, from, at) = sizes::origin(&scope, name, &place);
                if let Some(from) = &made.values[from][run] {
                    prop_assert_eq!(from.at(&at), tensor.at(&place), "{:?}: {}", place, text());
                }
                if let Some(size) = sizes::element_at(&scope, name, &place) {
                    prop_assert!(is(size, tensor.at(&place)), "element {place:?}: {}", text());
                    proved.elements += 1;
                }
            }
            if let Some(size) = sizes::scalar(&scope, name) {
                prop_assert!(
                    tensor.elements.len() == 1 && is(size, tensor.elements[0]),
                    "{}",
                    text()
                );
            }
            if let Some(size) = sizes::every_element(&scope, name) {
                let mut all = tensor.elements.iter();
                prop_assert!(all.all(|&element| is(size, element)), "{}", text());
            }
        }
    }
    Ok(())
}

/// Checks graphs that are made in steps.
fn check_all(step: impl Fn(&mut Made), choices: std::ops::Range<usize>) -> Proved {
    let proved = std::cell::RefCell::new(Proved::default());
    let config = ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let choices = proptest::collection::vec(any::<u32>(), choices);
    proptest::test_runner::TestRunner::new(config)
        .run(&choices, |choices| {
            check(&made(choices, &step), &mut proved.borrow_mut())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    proved.into_inner()
}

#[test]
fn proved_sizes_hold() {
    let proved = check_all(Made::step, 20..60);
    // Most facts are proved, so the proofs are really tested.
    assert!(
        proved.ranks > 30_000
            && proved.axes > 40_000
            && proved.elements > 25_000
            && proved.progressions > 1_000,
        "{proved:?}"
    );
}

#[test]
fn proved_elements_hold_after_comparisons() {
    let proved = check_all(super::conditions::step, 40..120);
    assert!(proved.elements > 25_000, "{proved:?}");
}

#[test]
fn letters_of_an_einsum_have_sizes() {
    let sizes = |equation: &str, shapes: &[&[i64]]| -> Option<Vec<Option<i64>>> {
        let names = ["a", "b", "c"];
        let inputs = &names[..shapes.len()];
        let declared = |(name, shape): (&&str, &&[i64])| {
            let shape: Vec<Option<i64>> = shape.iter().map(|it| Some(*it)).collect();
            value(name, FLOAT, &shape)
        };
        let equation = model::text("equation", equation);
        let graph = GraphProto {
            node: vec![model::node("Einsum", inputs, &["y"], vec![equation])],
            input: std::iter::zip(inputs, shapes).map(declared).collect(),
            ..GraphProto::default()
        };
        let scope = Scope::graph(&graph, None, 13);
        let rank = sizes::rank(&scope, "y")?;
        let axis = |axis| sizes::axis(&scope, "y", axis)?.number();
        Some((0..rank).map(axis).collect())
    };
    let known = |sizes: &[i64]| Some(sizes.iter().map(|it| Some(*it)).collect::<Vec<_>>());
    assert_eq!(sizes("bdn,bn->bd", &[&[2, 3, 4], &[2, 4]]), known(&[2, 3]));
    assert_eq!(
        sizes(
            " bld , bln, bld -> bldn",
            &[&[1, 3, 4], &[2, 3, 5], &[2, 3, 4]]
        ),
        known(&[2, 3, 4, 5])
    );
    // All letters that occur once, in the order of the alphabet.
    assert_eq!(sizes("kj,ji", &[&[5, 4], &[4, 6]]), known(&[6, 5]));
    assert_eq!(sizes("ii->i", &[&[3, 3]]), known(&[3]));
    assert_eq!(sizes("ij->", &[&[3, 4]]), known(&[]));
    // Axes of an ellipsis are counted, no more.
    let of_ellipsis = sizes("...ij,...jk->...ik", &[&[7, 2, 3, 4], &[4, 5]]);
    assert_eq!(of_ellipsis, Some(vec![None; 4]));
    assert_eq!(sizes("...ij", &[&[7, 3, 4]]), Some(vec![None; 3]));
    assert_eq!(sizes("...ij->...", &[&[4]]), None);
}

/// A chain of more nodes than a proof follows at once, of which the last one is asked first.
#[test]
fn sizes_are_proved_through_chains_of_any_length() {
    let name = |index: usize| format!("v{index}");
    let link = |index: usize| model::node("Relu", &[&name(index)], &[&name(index + 1)], vec![]);
    let graph = GraphProto {
        node: (0..2000).map(link).collect(),
        input: vec![value("v0", FLOAT, &[None, Some(3)])],
        ..GraphProto::default()
    };
    let scope = Scope::graph(&graph, None, 13);
    let axis = |index: usize, axis| sizes::axis(&scope, &name(index), axis);
    assert!(axis(2000, 1) == Some(sizes::Size::Known(3)));
    assert!(axis(2000, 0) == axis(0, 0));
    assert!(axis(2000, 0).is_some());
}
