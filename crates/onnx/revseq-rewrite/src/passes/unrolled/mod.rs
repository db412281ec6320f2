//! Layers that were traced step by step, to LSTM, GRU and RNN.
//!
//! A loop in Python around LSTMCell, GRUCell or RNNCell becomes the cell's operators once for each
//! step when it is traced. `slices` finds values that are steps of one sequence, `cells` the cells that
//! read them, by `passes/cells`. `chain` puts those together whose state is the output of
//! another with the same weights, and `write` writes their layer; `reason` says what looks like one and is
//! none. `stack` finds steps that were taken apart and put together again.
//!
//! ```text
//! h1 = Tanh(x[0] W + h0 R), h2 = Tanh(x[1] W + h1 R), ...   becomes   RNN(x, W, R, h0)
//! ```

mod cells;
mod chain;
mod reason;
mod slices;
mod stack;
mod write;

use std::collections::{HashMap, HashSet};

use crate::model::{GraphProto, NodeProto};
use crate::pass::{Find, Pass, Verdict};
use crate::passes::steps::body::Facts;
use crate::scope::{Names, Scope};

use slices::Slices;

/// The fewest steps that are worth a layer.
const MINIMUM_STEPS: usize = 3;

pub(super) const PASS: Pass = pass(|at| {
    let needs_batch = at.context.options.may_be_onnx_runtime();
    let host = Host::Any { needs_batch };
    at.context.verdict(at, || find(at.scope, at.names, host))
});

/// The same before tract loads a model: sizes of inputs that are declared under one name are equal.
pub(super) const TRACT: Pass = pass(|at| {
    at.scope.prove_more();
    at.context
        .verdict(at, || find(at.scope, at.names, Host::Tract))
});

/// What runs the layers.
#[derive(Clone, Copy, PartialEq)]
enum Host {
    /// Any runtime, of which LSTM and GRU may need a batch that is not empty.
    Any { needs_batch: bool },
    /// tract. Initial states have to fit provably, and nobody reads what is left.
    Tract,
}

const fn pass(find: Find) -> Pass {
    let about = "Cells that were traced step by step, to LSTM, GRU and RNN";
    Pass::rounding("unrolled", about, find).fast()
}

/// Whether a graph may have such steps: several products with the same weights.
pub(crate) fn concerns(graph: &GraphProto) -> bool {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut nodes = graph.node.iter().filter(|node| is_product(node));
    nodes.any(|node| {
        let count = counts.entry(node.input(1).unwrap_or_default()).or_default();
        *count += 1;
        *count >= MINIMUM_STEPS
    })
}

fn is_product(node: &NodeProto) -> bool {
    node.is("MatMul") || node.is("Gemm")
}

/// A graph, and its nodes by what they read.
struct Graph<'a> {
    scope: &'a Scope<'a>,
    /// The nodes that read each value.
    readers: HashMap<&'a str, Vec<usize>>,
    /// Facts about its values.
    facts: Facts,
}

impl<'a> Graph<'a> {
    fn of(scope: &'a Scope<'a>) -> Self {
        let mut graph = Self {
            scope,
            readers: HashMap::new(),
            facts: Facts::default(),
        };
        for (index, node) in scope.nodes.iter().enumerate() {
            for input in node.inputs() {
                graph.readers.entry(input).or_default().push(index);
            }
        }
        graph
    }

    fn readers(&self, value: &str) -> &[usize] {
        self.readers.get(value).map_or(&[], Vec::as_slice)
    }
}

/// The verdicts about all nodes of a graph.
fn find(scope: &Scope<'_>, names: &Names, host: Host) -> HashMap<usize, Verdict> {
    let mut verdicts = HashMap::new();
    let slices = Slices::of(scope);
    stack::find(scope, &slices, names, &mut verdicts);
    if slices.sequences.is_empty() && host == Host::Tract {
        return verdicts;
    }
    let graph = Graph::of(scope);
    let cells = cells::find(&graph, &slices);
    let mut chains = chain::find(&cells);
    // A single cell is none.
    chains.retain(|chain| chain.cells.len() > 1);
    if host != Host::Tract {
        reason::leave(&graph, &chains, &mut verdicts);
    }
    let mut replaced = HashSet::new();
    for chain in &chains {
        let (index, verdict) = write::chain(&graph, chain, names, host, &mut replaced);
        verdicts.insert(index, verdict);
    }
    verdicts
}
