//! The sizes of inputs that weights fix, such as the features of a layer's input.
//!
//! An axis of an input is followed through the nodes that keep it.
//!
//! ```text
//! steps = Unsqueeze(x: [T, F], axes=[1])   y = RNN(steps, W: [1, 25, 236], …)   →   F: 236
//! ```

use std::collections::{BTreeMap, HashMap};

use revseq_onnx::constant;
use revseq_onnx::model::NodeProto;
use revseq_onnx::operators::{BROADCAST, ELEMENTWISE};
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes;

use crate::model::{Input, Model};

/// Operators besides elementwise ones whose first output has the axes of the first input.
const SAME_AXES: &[&str] = &[
    "BatchNormalization",
    "Clip",
    "CumSum",
    "Dropout",
    "Gelu",
    "HardSwish",
    "InstanceNormalization",
    "LayerNormalization",
    "LogSoftmax",
    "ReverseSequence",
    "Softmax",
];

/// An input's name, with the index of an axis.
pub(crate) type Axis = (String, usize);

/// Returns the sizes that weights fix, of axes of these inputs.
pub(super) fn fixed(model: &Model, inputs: &[Input]) -> BTreeMap<Axis, u64> {
    let mut features = Features::default();
    for input in inputs {
        let rank = input.value_type.shape.as_ref().map_or(0, Vec::len);
        let axes = (0..rank).map(|axis| Some((input.name.clone(), axis)));
        features.axes.insert(input.name.clone(), axes.collect());
    }
    if let Some(scope) = Scope::main(&model.proto, false) {
        features.graph(&scope);
    }
    features.fixed
}

#[derive(Default)]
struct Features {
    /// The axes of inputs that the axes of values are, by value.
    axes: HashMap<String, Vec<Option<Axis>>>,
    fixed: BTreeMap<Axis, u64>,
}

impl Features {
    /// Reads the nodes of a graph and of the graphs in it. A function's names are its own: those are
    /// left out.
    fn graph(&mut self, scope: &Scope<'_>) {
        for node in scope.nodes {
            if node.domain().is_empty() {
                self.fix(scope, node);
                for (index, axes) in self.kept(scope, node).into_iter().enumerate() {
                    if let Some(output) = node.output.get(index) {
                        self.axes.insert(output.clone(), axes);
                    }
                }
            }
            for inner in node.graphs() {
                self.graph(&Scope::graph(inner, Some(scope), scope.opset));
            }
        }
    }

    /// The axes of a node's input, of inputs of the model.
    fn of(&self, node: &NodeProto, input: usize) -> Option<&Vec<Option<Axis>>> {
        self.axes.get(node.input(input)?)
    }

    /// Fixes the size of an axis of a node's input, which counts from the end if it is negative.
    fn set(&mut self, node: &NodeProto, input: usize, axis: i64, size: Option<i64>) {
        let found = self.of(node, input).and_then(|axes| {
            let axis = constant::normal_axis(axis, axes.len())?;
            axes[axis].clone()
        });
        if let (Some(axis), Some(size)) = (found, size.and_then(|size| u64::try_from(size).ok())) {
            self.fixed.entry(axis).or_insert(size);
        }
    }

    /// Fixes the sizes that have to fit the weights of a node.
    fn fix(&mut self, scope: &Scope<'_>, node: &NodeProto) {
        let size = |input: usize, axis: i64| size(scope, node, input, axis);
        match node.op() {
            "LSTM" | "GRU" | "RNN" => {
                self.set(node, 0, 2, size(1, 2));
                for state in [5, 6] {
                    self.set(node, state, 2, size(2, 2));
                    if node.int("layout").or(0) == Some(0) {
                        self.set(node, state, 0, size(2, 0));
                    }
                }
            }
            "MatMul" => {
                self.set(node, 0, -1, size(1, -2));
                self.set(node, 1, -2, size(0, -1));
            }
            "Gemm" => {
                let axis = |turned: &str, usual: i64| match node.int(turned).or(0) {
                    Some(0) => usual,
                    _ => -3 - usual,
                };
                let (columns, rows) = (axis("transA", -1), axis("transB", -2));
                self.set(node, 0, columns, size(1, rows));
                self.set(node, 1, rows, size(0, columns));
            }
            "Conv" => {
                let groups = node.int("group").or(1).unwrap_or(1);
                self.set(node, 0, 1, size(1, 1).and_then(|it| it.checked_mul(groups)));
            }
            "ConvTranspose" => self.set(node, 0, 1, size(1, 0)),
            "BatchNormalization" | "InstanceNormalization" => self.set(node, 0, 1, size(1, 0)),
            "LayerNormalization" => self.set(node, 0, -1, size(1, -1)),
            op if BROADCAST.contains(&op) => self.fix_broadcast(scope, node),
            _ => {}
        }
    }

    /// Fixes the sizes of an operand that has to fit another of known sizes, such as a mean.
    fn fix_broadcast(&mut self, scope: &Scope<'_>, node: &NodeProto) {
        for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
            let (Some(axes), Some(name)) = (self.of(node, one), node.input(other)) else {
                continue;
            };
            if self.axes.contains_key(name) {
                continue;
            }
            let ranks = (axes.len(), sizes::rank(scope, name).unwrap_or(0));
            for axis in 1..=ranks.0.min(ranks.1) as i64 {
                let fixed = size(scope, node, other, -axis).filter(|&size| size > 1);
                self.set(node, one, -axis, fixed);
            }
        }
    }

    /// The axes of the result of operands that broadcast: those of one that has them all.
    fn broadcast(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<Vec<Option<Axis>>> {
        let mut most = 0;
        for name in node.inputs() {
            let known = self.axes.get(name).map(Vec::len);
            most = most.max(known.or_else(|| sizes::rank(scope, name))?);
        }
        let mut operands = (0..node.input.len()).filter_map(|input| self.of(node, input));
        operands.find(|axes| axes.len() == most).cloned()
    }

    /// The axes of inputs of the model that the axes of each output of a node are.
    fn kept(&self, scope: &Scope<'_>, node: &NodeProto) -> Vec<Vec<Option<Axis>>> {
        if BROADCAST.contains(&node.op()) {
            return self.broadcast(scope, node).into_iter().collect();
        }
        let Some(axes) = self.of(node, 0) else {
            return Vec::new();
        };
        let rank = axes.len();
        let without = |gone: &[usize]| -> Vec<Option<Axis>> {
            let axes = axes.iter().enumerate();
            axes.map(|(at, axis)| axis.clone().filter(|_| !gone.contains(&at)))
                .collect()
        };
        let attribute = |name: &str, default: i64| {
            let axis = node.int(name).or(default)?;
            constant::normal_axis(axis, rank)
        };
        let moved: Option<Vec<Option<Axis>>> = match node.op() {
            op if ELEMENTWISE.contains(&op) || SAME_AXES.contains(&op) => Some(axes.clone()),
            "Transpose" => {
                let reversed: Vec<i64> = (0..rank as i64).rev().collect();
                let perm = node.ints("perm").or(&reversed).unwrap_or_default();
                let of = |&at: &i64| axes.get(usize::try_from(at).ok()?)?.clone();
                Some(perm.iter().map(of).collect())
            }
            "Unsqueeze" => constant::axes(scope, node).and_then(|added| {
                let rank = rank + added.len();
                let added = normal(&added, rank)?;
                let mut kept = axes.iter().cloned();
                let of = |axis| match added.contains(&axis) {
                    true => None,
                    false => kept.next().flatten(),
                };
                Some((0..rank).map(of).collect())
            }),
            "Squeeze" => constant::axes(scope, node).and_then(|gone| {
                let gone = normal(&gone, rank)?;
                let kept = (0..rank).filter(|axis| !gone.contains(axis));
                Some(kept.map(|axis| axes[axis].clone()).collect())
            }),
            "MatMul" if rank > 0 => Some(without(&[rank - 1])),
            "Conv" | "ConvTranspose" | "MaxPool" | "AveragePool" => {
                let kept = if node.op().starts_with("Conv") { 1 } else { 2 };
                let gone: Vec<usize> = (kept..rank).collect();
                Some(without(&gone))
            }
            "Concat" => attribute("axis", 0).map(|axis| without(&[axis])),
            "Slice" => sliced(scope, node, rank).map(|gone| without(&gone)),
            "Gather" => attribute("axis", 0).and_then(|axis| {
                let indices = sizes::rank(scope, node.input(1)?)?;
                let mut kept = axes.clone();
                kept.splice(axis..=axis, vec![None; indices]);
                Some(kept)
            }),
            "Split" => {
                let axis = attribute("axis", 0);
                return axis
                    .map_or_else(Vec::new, |axis| vec![without(&[axis]); node.output.len()]);
            }
            "LSTM" | "GRU" | "RNN" if rank == 3 && node.int("layout").or(0) == Some(0) => {
                let [time, batch] = [0, 1].map(|at| axes[at].clone());
                let state = vec![None, batch.clone(), None];
                return vec![vec![time, None, batch, None], state.clone(), state];
            }
            _ => None,
        };
        moved.into_iter().collect()
    }
}

/// The axes that a Slice cuts; `None` if they are not known.
fn sliced(scope: &Scope<'_>, node: &NodeProto, rank: usize) -> Option<Vec<usize>> {
    match node.input(3) {
        Some(axes) => normal(&constant::ints(scope, axes)?, rank),
        None => normal(node.ints("axes").value()?, rank),
    }
}

/// Axes that may count from the end.
fn normal(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes = axes.iter();
    axes.map(|&axis| constant::normal_axis(axis, rank))
        .collect()
}

/// The size of an axis of a node's input, which counts from the end if it is negative.
fn size(scope: &Scope<'_>, node: &NodeProto, input: usize, axis: i64) -> Option<i64> {
    let name = node.input(input)?;
    let axis = constant::normal_axis(axis, sizes::rank(scope, name)?)?;
    sizes::axis(scope, name, axis)?.number()
}
