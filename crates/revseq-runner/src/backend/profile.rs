//! Where the time of a run goes.

use std::collections::HashMap;
use std::time::Duration;

/// How long a node took, in all runs together.
#[derive(Clone, Debug)]
pub(crate) struct NodeTime {
    /// As the backend names it once the model is optimised.
    pub(crate) operator: String,
    pub(crate) node: String,
    /// Which provider of ONNX Runtime ran it.
    pub(crate) provider: Option<String>,
    /// How often it ran.
    pub(crate) calls: u64,
    pub(crate) time: Duration,
}

/// Adds up the times of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeTimes {
    nodes: Vec<NodeTime>,
    /// The places of nodes among them, by operator and name.
    places: HashMap<(String, String), usize>,
}

impl NodeTimes {
    pub(crate) fn add(
        &mut self,
        operator: &str,
        node: &str,
        provider: Option<&str>,
        time: Duration,
    ) {
        let key = (operator.to_owned(), node.to_owned());
        let place = *self.places.entry(key).or_insert_with(|| {
            self.nodes.push(NodeTime {
                operator: operator.to_owned(),
                node: node.to_owned(),
                provider: provider.map(str::to_owned),
                calls: 0,
                time: Duration::ZERO,
            });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[place];
        node.calls += 1;
        node.time += time;
    }

    /// The nodes, the slowest first.
    pub(crate) fn sorted(self) -> Vec<NodeTime> {
        let mut nodes = self.nodes;
        nodes.sort_by_key(|node| std::cmp::Reverse(node.time));
        nodes
    }
}
