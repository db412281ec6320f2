//! Checks proofs about sizes against an interpreter, on random graphs that compute sizes.

use std::collections::HashMap;

use proptest::prelude::*;
use revseq_onnx::model::{
    self, AttributeProto, FLOAT, GraphProto, NodeProto, TensorProto, int, int64_tensor, ints, value,
};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes::{self, Size};

/// A tensor in a run; a float tensor's elements are all equal.
#[derive(Clone, Debug)]
struct Tensor {
    sizes: Vec<usize>,
    elements: Vec<i64>,
}

/// All indices of a tensor, row-major.
fn places(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &size in sizes {
        all = all
            .into_iter()
            .flat_map(|place| (0..size).map(move |at| [place.as_slice(), &[at]].concat()))
            .collect();
    }
    all
}

impl Tensor {
    fn new(sizes: &[usize], at: impl Fn(&[usize]) -> i64) -> Self {
        let places = places(sizes);
        Self {
            sizes: sizes.to_vec(),
            elements: places.iter().map(|place| at(place)).collect(),
        }
    }

    fn vector(elements: &[i64]) -> Self {
        Self {
            sizes: vec![elements.len()],
            elements: elements.to_vec(),
        }
    }

    fn at(&self, place: &[usize]) -> i64 {
        let index =
            std::iter::zip(&self.sizes, place).fold(0, |index, (size, at)| index * size + at);
        self.elements[index]
    }

    /// An element of a tensor broadcast to a higher rank.
    fn at_broadcast(&self, place: &[usize]) -> i64 {
        let place = &place[place.len() - self.sizes.len()..];
        let own =
            std::iter::zip(&self.sizes, place).map(|(&size, &at)| if size == 1 { 0 } else { at });
        self.at(&own.collect::<Vec<_>>())
    }

    fn with_sizes(&self, sizes: Vec<usize>) -> Option<Self> {
        let count: usize = sizes.iter().product();
        let elements = self.elements.clone();
        (count == elements.len()).then_some(Self { sizes, elements })
    }
}

fn broadcast(one: &[usize], other: &[usize]) -> Option<Vec<usize>> {
    let rank = one.len().max(other.len());
    let size = |sizes: &[usize], axis: usize| match (axis + sizes.len()).checked_sub(rank) {
        Some(axis) => sizes[axis],
        None => 1,
    };
    let both = (0..rank).map(|axis| match (size(one, axis), size(other, axis)) {
        (1, size) | (size, 1) => Some(size),
        (one, other) => (one == other).then_some(one),
    });
    both.collect()
}

fn from_front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

fn all_from_front(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> = axes
        .iter()
        .map(|&axis| from_front(axis, rank))
        .collect::<Option<_>>()?;
    let is_twice = (0..axes.len()).any(|at| axes[..at].contains(&axes[at]));
    (!is_twice).then_some(axes)
}

/// Runs a node by ONNX's specification; `None` if it is invalid.
fn run(node: &NodeProto, inputs: &[&Tensor]) -> Option<Tensor> {
    let attribute = |name: &str, default| node.int(name).or(default).expect("a value");
    let x = inputs[0];
    let rank = x.sizes.len();
    let axes = inputs.get(1).map_or(&[][..], |axes| &axes.elements);
    match node.op() {
        "Identity" | "Cast" | "Neg" => Some(x.clone()),
        "Shape" => {
            let place =
                |at: i64| (if at < 0 { at + rank as i64 } else { at }).clamp(0, rank as i64);
            let (start, end) = (
                place(attribute("start", 0)),
                place(attribute("end", rank as i64)),
            );
            let sizes: Vec<i64> = x.sizes.iter().map(|&size| size as i64).collect();
            Some(Tensor::vector(
                sizes.get(start as usize..end as usize).unwrap_or_default(),
            ))
        }
        "Transpose" => {
            let perm = node.ints("perm").value().expect("an order");
            if perm.len() != rank {
                return None;
            }
            let sizes: Vec<usize> = perm.iter().map(|&axis| x.sizes[axis as usize]).collect();
            Some(Tensor::new(&sizes, |place| {
                let mut before = vec![0; rank];
                for (&axis, &at) in std::iter::zip(perm, place) {
                    before[axis as usize] = at;
                }
                x.at(&before)
            }))
        }
        "Unsqueeze" => {
            let added = all_from_front(axes, rank + axes.len())?;
            let mut sizes = x.sizes.iter();
            let all = (0..rank + axes.len()).map(|axis| match added.contains(&axis) {
                true => 1,
                false => *sizes.next().expect("as many as there were"),
            });
            x.with_sizes(all.collect())
        }
        "Squeeze" => {
            let mut removed = all_from_front(axes, rank)?;
            if removed.is_empty() {
                removed = (0..rank).filter(|&axis| x.sizes[axis] == 1).collect();
            }
            let kept = (0..rank).filter(|axis| !removed.contains(axis));
            x.with_sizes(kept.map(|axis| x.sizes[axis]).collect())
        }
        "ReduceMax" | "ReduceSum" => {
            let mut reduced = all_from_front(axes, rank)?;
            if reduced.is_empty() && attribute("noop_with_empty_axes", 0) == 0 {
                reduced = (0..rank).collect();
            }
            let keep = attribute("keepdims", 1) != 0;
            let kept = (0..rank).filter(|axis| keep || !reduced.contains(axis));
            let sizes = kept.map(|axis| {
                if reduced.contains(&axis) {
                    1
                } else {
                    x.sizes[axis]
                }
            });
            // Elements are not proved.
            Some(Tensor::new(&sizes.collect::<Vec<_>>(), |_| i64::MIN))
        }
        "Gather" => {
            let axis = from_front(attribute("axis", 0), rank)?;
            let indices = inputs[1];
            let size = x.sizes[axis] as i64;
            if indices.elements.iter().any(|&at| at < -size || at >= size) {
                return None;
            }
            let sizes = [&x.sizes[..axis], &indices.sizes, &x.sizes[axis + 1..]].concat();
            let end = axis + indices.sizes.len();
            Some(Tensor::new(&sizes, |place| {
                let at = indices.at(&place[axis..end]);
                let at = if at < 0 { at + size } else { at } as usize;
                x.at(&[&place[..axis], &[at], &place[end..]].concat())
            }))
        }
        "Slice" => {
            let axes = all_from_front(&inputs[3].elements, rank)?;
            let mut taken: Vec<Vec<usize>> =
                x.sizes.iter().map(|&size| (0..size).collect()).collect();
            for (number, axis) in axes.into_iter().enumerate() {
                let size = x.sizes[axis] as i64;
                let [start, end, step] = [1, 2, 4].map(|input| inputs[input].elements[number]);
                let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
                let (mut at, end) = match step > 0 {
                    true => (place(start).clamp(0, size), place(end).clamp(0, size)),
                    false => (
                        place(start).clamp(-1, size - 1),
                        place(end).clamp(-1, size - 1),
                    ),
                };
                taken[axis].clear();
                while if step > 0 { at < end } else { at > end } {
                    taken[axis].push(at as usize);
                    at += step;
                }
            }
            let sizes: Vec<usize> = taken.iter().map(Vec::len).collect();
            Some(Tensor::new(&sizes, |place| {
                let before = std::iter::zip(&taken, place).map(|(taken, &at)| taken[at]);
                x.at(&before.collect::<Vec<_>>())
            }))
        }
        "Concat" => {
            let axis = from_front(attribute("axis", 0), rank)?;
            let mut sizes = x.sizes.clone();
            sizes[axis] = 0;
            for part in inputs {
                let mut own = part.sizes.clone();
                sizes[axis] += own.get(axis)?;
                own[axis] = sizes[axis];
                if own != sizes {
                    return None;
                }
            }
            Some(Tensor::new(&sizes, |place| {
                let mut place = place.to_vec();
                let part = inputs.iter().find(|part| {
                    let is_here = place[axis] < part.sizes[axis];
                    if !is_here {
                        place[axis] -= part.sizes[axis];
                    }
                    is_here
                });
                part.expect("one of them").at(&place)
            }))
        }
        "Reshape" => {
            let mut sizes = Vec::new();
            let mut open = None;
            for (axis, &size) in inputs[1].elements.iter().enumerate() {
                sizes.push(match size {
                    0 if attribute("allowzero", 0) == 0 => *x.sizes.get(axis)?,
                    -1 if open.is_none() => {
                        open = Some(axis);
                        1
                    }
                    size => usize::try_from(size).ok()?,
                });
            }
            if inputs[1].sizes.len() != 1 {
                return None;
            }
            if let Some(axis) = open {
                sizes[axis] = x.elements.len().checked_div(sizes.iter().product())?;
            }
            x.with_sizes(sizes)
        }
        "Expand" => {
            let wanted = inputs[1]
                .elements
                .iter()
                .map(|&size| usize::try_from(size).ok());
            let wanted: Vec<usize> = wanted.collect::<Option<_>>()?;
            if inputs[1].sizes.len() != 1 || wanted.iter().product::<usize>() > 1000 {
                return None;
            }
            Some(Tensor::new(&broadcast(&x.sizes, &wanted)?, |place| {
                x.at_broadcast(place)
            }))
        }
        "Add" => {
            let other = inputs[1];
            Some(Tensor::new(&broadcast(&x.sizes, &other.sizes)?, |_| {
                i64::MIN
            }))
        }
        "MatMul" => {
            let weights = &inputs[1].sizes;
            let mut sizes = x.sizes.clone();
            let last = sizes.last_mut()?;
            if weights.len() != 2 || *last != weights[0] {
                return None;
            }
            *last = weights[1];
            Some(Tensor::new(&sizes, |_| i64::MIN))
        }
        op => panic!("{op}"),
    }
}

/// A graph under construction, with its values for two input shapes.
struct Made {
    choices: std::vec::IntoIter<u32>,
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    names: Vec<String>,
    values: HashMap<String, [Option<Tensor>; 2]>,
}

impl Made {
    fn choose(&mut self, below: usize) -> usize {
        self.choices.next().unwrap_or(0) as usize % below.max(1)
    }

    fn any_value(&mut self) -> String {
        // Prefer recent values.
        let back = self.choose(self.names.len().min(6));
        self.names[self.names.len() - 1 - back].clone()
    }

    fn first(&self, name: &str) -> Tensor {
        self.values[name][0]
            .clone()
            .expect("made for the first sizes")
    }

    fn add(&mut self, name: String, values: [Option<Tensor>; 2]) {
        self.values.insert(name.clone(), values);
        self.names.push(name);
    }

    fn constant(&mut self, sizes: &[usize], elements: &[i64]) -> String {
        let name = format!("c{}", self.constants.len());
        let dims: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        self.constants.push(TensorProto {
            name: Some(name.clone()),
            ..int64_tensor(&dims, elements)
        });
        let tensor = Tensor {
            sizes: sizes.to_vec(),
            elements: elements.to_vec(),
        };
        self.values
            .insert(name.clone(), [Some(tensor.clone()), Some(tensor)]);
        name
    }

    fn ints(&mut self, elements: &[i64]) -> String {
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

    /// Adds a node if it is valid for the first input shape.
    fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) {
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
    fn with_axes(&mut self, name: &str, rank: usize) -> Vec<String> {
        let axis = self.choose(rank) as i64;
        let axes = match self.choose(3) {
            0 => None,
            1 => Some(self.ints(&[])),
            _ => Some(self.ints(&[axis])),
        };
        std::iter::once(name.to_owned()).chain(axes).collect()
    }

    fn step(&mut self) {
        let name = self.any_value();
        let x = self.first(&name);
        let rank = x.sizes.len();
        let x_name = name.as_str();
        match self.choose(16) {
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
                self.node("Transpose", &[x_name], vec![ints("perm", &perm)]);
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
}

/// Makes a graph of `x` with some declared sizes.
fn made(choices: Vec<u32>) -> (Made, GraphProto) {
    let mut made = Made {
        choices: choices.into_iter(),
        nodes: Vec::new(),
        constants: Vec::new(),
        names: Vec::new(),
        values: HashMap::new(),
    };
    let rank = 1 + made.choose(3);
    let mut declared = Vec::new();
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..rank {
        let sizes = [0, 1].map(|_| 1 + made.choose(4));
        let is_declared = made.choose(3) == 0;
        declared.push(is_declared.then_some(sizes[0] as i64));
        runs[0].push(sizes[0]);
        runs[1].push(if is_declared { sizes[0] } else { sizes[1] });
    }
    made.add(
        "x".to_owned(),
        runs.map(|sizes| Some(Tensor::new(&sizes, |_| i64::MIN))),
    );
    while made.choices.len() > 0 {
        made.step();
    }
    let graph = GraphProto {
        node: made.nodes.clone(),
        initializer: made.constants.clone(),
        input: vec![value("x", FLOAT, &declared)],
        ..GraphProto::default()
    };
    (made, graph)
}

/// The number of proofs.
#[derive(Debug, Default)]
struct Proved {
    ranks: usize,
    axes: usize,
    elements: usize,
}

fn check(choices: Vec<u32>, proved: &mut Proved) -> Result<(), TestCaseError> {
    let (made, graph) = made(choices);
    let scope = Scope::graph(&graph, None, 18);
    for (name, results) in &made.values {
        for run in [0, 1] {
            let Some(tensor) = &results[run] else {
                continue;
            };
            let is = |size: Size<'_>, actual: i64| match size {
                Size::Known(known) => known == actual,
                Size::Axis { value, axis, .. } => match &made.values[value][run] {
                    Some(of) => of
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
            for place in places(&tensor.sizes) {
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

#[test]
fn proved_sizes_hold() {
    let mut proved = Proved::default();
    let config = ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cell = std::cell::RefCell::new(&mut proved);
    proptest::test_runner::TestRunner::new(config)
        .run(
            &proptest::collection::vec(any::<u32>(), 20..60),
            |choices| check(choices, &mut cell.borrow_mut()),
        )
        .unwrap_or_else(|error| panic!("{error}"));
    // Most facts are proved, so the proofs are really tested.
    assert!(
        proved.ranks > 30_000 && proved.axes > 40_000 && proved.elements > 25_000,
        "{proved:?}"
    );
}
