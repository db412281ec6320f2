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
use crate::tensor::fill::Accepted;

/// Returns what each input of lengths or indices may hold: the least bound of the nodes that read it. What is a
/// length in one of them is one.
pub(super) fn accepted(model: &Model, bindings: &Bindings) -> BTreeMap<String, Accepted> {
    let mut ranges = Ranges {
        bindings,
        origins: BTreeMap::new(),
        accepted: BTreeMap::new(),
    };
    for input in model.inputs() {
        let own = Origins::from([(input.name.clone(), 0)]);
        ranges.origins.insert(input.name, own);
    }
    if let Some(scope) = Scope::main(&model.proto, false) {
        ranges.graph(&scope);
    }
    ranges.accepted
}

/// The inputs whose elements, and no others, a value holds, each with the number that is added.
type Origins = BTreeMap<String, i64>;

struct Ranges<'m> {
    bindings: &'m Bindings,
    /// Origins by value.
    origins: BTreeMap<String, Origins>,
    /// What is accepted, by input.
    accepted: BTreeMap<String, Accepted>,
}

impl Ranges<'_> {
    /// Reads the nodes of a graph and of the graphs in it. A function's names are its own: those are
    /// left out.
    fn graph(&mut self, scope: &Scope<'_>) {
        for node in scope.nodes {
            if let Some((index, limit)) = self.limit(scope, node)
                && let Some(origins) = node.input(index).and_then(|name| self.origins.get(name))
            {
                for (input, added) in origins {
                    let most = i128::from(limit.most()) - i128::from(*added);
                    let most = u64::try_from(most).unwrap_or(0);
                    let before = self.accepted.get(input).copied();
                    let least = before.map_or(most, |before| most.min(before.most()));
                    let is_length = |it| matches!(it, Accepted::Lengths(_));
                    let accepted = match is_length(limit) || before.is_some_and(is_length) {
                        true => Accepted::Lengths(least),
                        false => Accepted::Indices(least),
                    };
                    self.accepted.insert(input.clone(), accepted);
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

    /// The input of a node that holds lengths or indices, and which it accepts. Where the size of
    /// the axis is unknown, it is taken to be 1: what holds for one element holds for more.
    fn limit(&self, scope: &Scope<'_>, node: &NodeProto) -> Option<(usize, Accepted)> {
        let data = node.input(0)?;
        let attribute = |name: &str| node.int(name).or(0);
        let size = |axis: i64| self.size(scope, data, axis).unwrap_or(1);
        let last = |axis: i64| size(axis).saturating_sub(1);
        let lengths = |axis: i64| Accepted::Lengths(size(axis));
        match (node.domain(), node.op()) {
            (domain, op) if Operator::is_known(domain, op) => {
                let axis = match op {
                    "ReverseSequence" => "time_axis",
                    _ => "axis",
                };
                Some((1, lengths(attribute(axis)?)))
            }
            ("", "Gather" | "GatherElements" | "ScatterElements" | "Scatter") => {
                Some((1, Accepted::Indices(last(attribute("axis")?))))
            }
            ("", "GatherND" | "ScatterND") => {
                let first = attribute("batch_dims")?;
                let indices = node.input(1)?;
                let count = i64::try_from(self.size(scope, indices, -1).unwrap_or(1)).ok()?;
                let axes = first..first.checked_add(count)?;
                Some((1, Accepted::Indices(axes.map(last).min().unwrap_or(0))))
            }
            ("", "LSTM" | "GRU" | "RNN") => Some((4, lengths(attribute("layout")?))),
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
