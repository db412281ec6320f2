//! The integers that a model accepts: lengths within their axis, indices within the indexed axis.
//!
//! An input is followed through the nodes that only move its elements or add a number to them.
//!
//! ```text
//! last = Sub(lengths, 1)   y = Gather<axis=1>(x: [N, 5], last)   →   lengths: at most 5
//! ```

use std::collections::BTreeMap;

use revseq_graph::Operator;
use revseq_onnx::constant;
use revseq_onnx::model::NodeProto;
use revseq_onnx::scope::Scope;
use revseq_onnx::sizes::{self, Size};

use crate::model::values::{Dim, ValueType};
use crate::model::{Bindings, Model, dims};

/// Returns the greatest value that each input of lengths or indices may hold: the least bound of the
/// nodes that read it. The least value is 0.
pub(super) fn highest(model: &Model, bindings: &Bindings) -> BTreeMap<String, u64> {
    let mut ranges = Ranges {
        bindings,
        origins: BTreeMap::new(),
        highest: BTreeMap::new(),
    };
    for input in model.inputs() {
        let own = Origins::from([(input.name.clone(), 0)]);
        ranges.origins.insert(input.name, own);
    }
    if let Some(scope) = Scope::main(&model.proto, false) {
        ranges.graph(&scope);
    }
    ranges.highest
}

/// The inputs whose elements, and no others, a value holds, each with the number that is added.
type Origins = BTreeMap<String, i64>;

struct Ranges<'m> {
    bindings: &'m Bindings,
    /// Origins by value.
    origins: BTreeMap<String, Origins>,
    /// Greatest values by input.
    highest: BTreeMap<String, u64>,
}

impl Ranges<'_> {
    /// Reads the nodes of a graph and of the graphs in it. A function's names are its own: those are
    /// left out.
    fn graph(&mut self, scope: &Scope<'_>) {
        for node in scope.nodes {
            if let Some((index, most)) = self.limit(scope, node)
                && let Some(origins) = node.input(index).and_then(|name| self.origins.get(name))
            {
                for (input, added) in origins {
                    let most = i128::from(most) - i128::from(*added);
                    let most = u64::try_from(most).unwrap_or(0);
                    let entry = self.highest.entry(input.clone()).or_insert(most);
                    *entry = most.min(*entry);
                }
            }
            let moved = self.moved(scope, node);
            if !moved.is_empty() {
                for output in node.outputs() {
                    self.origins.insert(output.to_owned(), moved.clone());
                }
            }
            for inner in node.graphs() {
                self.graph(&Scope::graph(inner, Some(scope), scope.opset));
            }
        }
    }

    /// The origins of a node's outputs, if it only moves elements, or adds a number to them.
    fn moved(&self, scope: &Scope<'_>, node: &NodeProto) -> Origins {
        let inputs = node.input.as_slice();
        let number = |index: usize, choose: fn(Vec<i64>) -> Option<i64>| {
            choose(constant::ints(scope, node.input(index)?)?)
        };
        let greatest = |numbers: Vec<i64>| numbers.into_iter().max();
        let least = |numbers: Vec<i64>| numbers.into_iter().min();
        let (inputs, added) = match (node.domain(), node.op()) {
            (
                "",
                "Cast" | "CastLike" | "Expand" | "Flatten" | "Gather" | "Identity" | "Reshape"
                | "Slice" | "Split" | "Squeeze" | "Tile" | "Transpose" | "Unsqueeze",
            ) => (inputs.get(..1), 0),
            ("", "Concat") => (Some(inputs), 0),
            ("", "Where") => (inputs.get(1..), 0),
            ("", "Add") => match (number(0, greatest), number(1, greatest)) {
                (Some(added), None) => (inputs.get(1..), added),
                (None, Some(added)) => (inputs.get(..1), added),
                _ => (None, 0),
            },
            ("", "Sub") => match number(1, least) {
                Some(removed) => (inputs.get(..1), removed.saturating_neg()),
                None => (None, 0),
            },
            _ => (None, 0),
        };
        let mut moved = Origins::new();
        for (input, before) in inputs
            .into_iter()
            .flatten()
            .filter_map(|name| self.origins.get(name))
            .flatten()
        {
            let sum = before.saturating_add(added);
            let entry = moved.entry(input.clone()).or_insert(sum);
            *entry = sum.max(*entry);
        }
        moved
    }

    /// The input of a node that holds lengths or indices, and their greatest value. Where the size of
    /// the axis is unknown, it is taken to be 1: what holds for one element holds for more.
    fn limit(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<(usize, u64)> {
        let data = node.input(0)?;
        let attribute = |name: &str| node.int(name).or(0);
        let size = |axis: i64| self.size(scope, data, axis).unwrap_or(1);
        let last = |axis: i64| size(axis).saturating_sub(1);
        match (node.domain(), node.op()) {
            (domain, op) if Operator::is_known(domain, op) => {
                let axis = match op {
                    "ReverseSequence" => "time_axis",
                    _ => "axis",
                };
                Some((1, size(attribute(axis)?)))
            }
            ("", "Gather" | "GatherElements" | "ScatterElements" | "Scatter") => {
                Some((1, last(attribute("axis")?)))
            }
            ("", "GatherND" | "ScatterND") => {
                let first = attribute("batch_dims")?;
                let indices = node.input(1)?;
                let count = i64::try_from(self.size(scope, indices, -1).unwrap_or(1)).ok()?;
                let axes = first..first.checked_add(count)?;
                Some((1, axes.map(last).min().unwrap_or(0)))
            }
            ("", "LSTM" | "GRU" | "RNN") => Some((4, size(attribute("layout")?))),
            _ => None,
        }
    }

    /// The size of a value's axis, which counts from the end if it is negative.
    fn size(&self, scope: &Scope<'_>, name: &str, axis: i64) -> Option<u64> {
        let rank = sizes::rank(scope, name).or_else(|| Some(self.declared(scope, name)?.len()))?;
        let axis = constant::normal_axis(axis, rank)?;
        let declared = |scope: &Scope<'_>, name: &str, axis: usize| {
            self.declared(scope, name)?.get(axis)?.size()
        };
        match sizes::axis(scope, name, axis) {
            Some(Size::Known(size)) => u64::try_from(size).ok(),
            Some(Size::Axis { scope, value, axis }) => declared(scope, value, axis),
            None => None,
        }
        .or_else(|| declared(scope, name, axis))
    }

    /// The declared sizes of a value.
    fn declared(&self, scope: &Scope<'_>, name: &str) -> Option<Vec<Dim>> {
        let declared = ValueType::declared(scope.declaration(name)?);
        dims::bind(name, declared, self.bindings).shape
    }
}
