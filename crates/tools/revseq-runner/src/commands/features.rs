//! The sizes of inputs that weights fix, such as the features of a layer's input, and what other sizes count:
//! steps, or sequences.
//!
//! An axis of a node is traced to that of an input.
//!
//! ```text
//! steps = Unsqueeze(x: [T, F], axes=[1])   y = RNN(steps, W: [1, 25, 236], …)   →   F: 236
//! ```

use std::collections::{BTreeMap, HashMap};

use revseq_onnx::constant;
use revseq_onnx::model::NodeProto;
use revseq_onnx::operators::broadcasts;
use revseq_onnx::scope::{Scope, Source};
use revseq_onnx::sizes::{self, Size};

use crate::model::{Bindings, Input, Model};

/// The number of operands that broadcast through which an axis is traced.
const MAXIMUM_STEPS: usize = 256;

/// What the sizes of inputs' axes are, by the names that `--dim` takes.
#[derive(Default)]
pub(super) struct Features {
    /// The names of the open sizes of the inputs' axes.
    names: HashMap<(String, usize), String>,
    /// The sizes that weights fix.
    pub(super) fixed: BTreeMap<String, u64>,
    /// What the sizes count that some node tells of.
    pub(super) counted: BTreeMap<String, Counted>,
}

/// What the size of an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Steps of sequences.
    Steps,
    Sequences,
}

impl Features {
    /// Those of a model's inputs, as far as sizes are open.
    pub(super) fn of(model: &Model, inputs: &[Input], bindings: &Bindings) -> Self {
        let mut features = Self::default();
        for input in inputs {
            let open = input.open_axes(bindings);
            let names = open.map(|(axis, name)| ((input.name.clone(), axis), name));
            features.names.extend(names);
        }
        if !features.names.is_empty()
            && let Some(scope) = Scope::main(&model.proto, false)
        {
            features.graph(&scope);
        }
        features
    }

    /// Reads the nodes of a graph and of the graphs in it. A function's names are its own: those are
    /// left out.
    fn graph(&mut self, scope: &Scope<'_>) {
        for node in scope.nodes {
            if node.domain().is_empty() {
                self.fix(scope, node);
                self.count(scope, node);
            }
            for inner in node.graphs() {
                self.graph(&Scope::graph(inner, Some(scope), scope.opset));
            }
        }
    }

    /// Fixes the size of an axis of a node's input, which counts from the end if it is negative.
    fn set(
        &mut self,
        scope: &Scope<'_>,
        node: &NodeProto,
        input: usize,
        axis: i64,
        fixed: Option<i64>,
    ) {
        if let Some(fixed) = fixed.and_then(|size| u64::try_from(size).ok())
            && let Some(name) = self.name(scope, node, input, axis)
        {
            self.fixed.entry(name).or_insert(fixed);
        }
    }

    /// The name of the open size that an axis of a node's input has, if it is that of an input of the model.
    fn name(&self, scope: &Scope<'_>, node: &NodeProto, input: usize, axis: i64) -> Option<String> {
        let axis = traced(scope, node, input, axis)?;
        self.names.get(&axis).cloned()
    }

    /// Notes what axes of a node's inputs count: of those with steps, of sequences, and of lengths.
    fn count(&mut self, scope: &Scope<'_>, node: &NodeProto) {
        use Counted::{Sequences, Steps};

        let attribute = |name: &str, default| node.int(name).or(default).unwrap_or(default);
        let counted = match node.op() {
            "ReverseSequence" => {
                let (steps, sequences) = (attribute("time_axis", 0), attribute("batch_axis", 1));
                vec![
                    (0, steps, Steps),
                    (0, sequences, Sequences),
                    (1, 0, Sequences),
                ]
            }
            "LSTM" | "GRU" | "RNN" => {
                let steps = attribute("layout", 0);
                vec![
                    (0, steps, Steps),
                    (0, 1 - steps, Sequences),
                    (4, 0, Sequences),
                ]
            }
            "Scan" => {
                let count = usize::try_from(attribute("num_scan_inputs", 0)).unwrap_or(0);
                let first = node.input.len().saturating_sub(count);
                let axes = node.ints("scan_input_axes").value().unwrap_or_default();
                let axis = |index: usize| axes.get(index).copied().unwrap_or(0);
                let scanned = (0..count).map(|it| (first + it, axis(it), Steps));
                scanned.collect()
            }
            _ => Vec::new(),
        };
        for (input, axis, what) in counted {
            if let Some(name) = self.name(scope, node, input, axis) {
                self.counted.entry(name).or_insert(what);
            }
        }
    }

    /// Fixes the sizes that have to fit the weights of a node.
    fn fix(&mut self, scope: &Scope<'_>, node: &NodeProto) {
        let size = |input: usize, axis: i64| size(scope, node, input, axis)?.number();
        let mut set = |input, axis, size| self.set(scope, node, input, axis, size);
        match node.op() {
            "LSTM" | "GRU" | "RNN" => {
                set(0, 2, size(1, 2));
                for state in [5, 6] {
                    set(state, 2, size(2, 2));
                    if node.int("layout").or(0) == Some(0) {
                        set(state, 0, size(2, 0));
                    }
                }
            }
            "MatMul" => {
                set(0, -1, size(1, -2));
                set(1, -2, size(0, -1));
            }
            "Gemm" => {
                let axis = |turned: &str, usual: i64| match node.int(turned).or(0) {
                    Some(0) => usual,
                    _ => -3 - usual,
                };
                let (columns, rows) = (axis("transA", -1), axis("transB", -2));
                set(0, columns, size(1, rows));
                set(1, rows, size(0, columns));
            }
            "Conv" => {
                let groups = node.int("group").or(1).unwrap_or(1);
                set(0, 1, size(1, 1).and_then(|it| it.checked_mul(groups)));
            }
            "ConvTranspose" => set(0, 1, size(1, 0)),
            "BatchNormalization" | "InstanceNormalization" => set(0, 1, size(1, 0)),
            "LayerNormalization" => set(0, -1, size(1, -1)),
            // An operand has to fit another of known sizes, such as a mean.
            op if broadcasts(op) => {
                for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
                    let rank = |input| sizes::rank(scope, node.input(input)?);
                    let ranks = rank(one).min(rank(other)).unwrap_or(0) as i64;
                    for axis in 1..=ranks {
                        set(one, -axis, size(other, -axis).filter(|&size| size > 1));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The axis of an input of the model that an axis of a node's input is, which counts from the end if it is
/// negative.
fn traced(scope: &Scope<'_>, node: &NodeProto, input: usize, axis: i64) -> Option<(String, usize)> {
    let mut found = size(scope, node, input, axis)?;
    for _ in 0..MAXIMUM_STEPS {
        let Size::Axis { scope, value, axis } = found else {
            return None;
        };
        let (scope, source) = scope.source(value)?;
        let node = match source {
            Source::Node { node, .. } if broadcasts(node.op()) => node,
            Source::Input(_) if scope.parent.is_none() => return Some((value.to_owned(), axis)),
            _ => return None,
        };
        // What is not proved to be the size of all operands is that of one that has all axes.
        let rank = sizes::rank(scope, value);
        found = node.inputs().find_map(|operand| {
            let whole = sizes::rank(scope, operand) == rank;
            let size = sizes::axis(scope, operand, axis).filter(|_| whole)?;
            size.number().is_none().then_some(size)
        })?;
    }
    None
}

/// The size of an axis of a node's input, which counts from the end if it is negative.
fn size<'a>(
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    input: usize,
    axis: i64,
) -> Option<Size<'a>> {
    let name = node.input(input)?;
    let axis = constant::normal_axis(axis, sizes::rank(scope, name)?)?;
    sizes::axis(scope, name, axis)
}
