//! Profiles: the time that each node of a run takes.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

/// The profile of some runs.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// The time of each run.
    pub(crate) runs: Vec<Duration>,
    /// The slowest first.
    pub(crate) nodes: Vec<NodeTime>,
    /// Whether the times are whole microseconds.
    pub(crate) is_coarse: bool,
    /// The start and duration of each call of a node, in the format of chrome://tracing.
    pub(crate) trace: Option<Vec<u8>>,
}

/// The time of a node, without that of other nodes inside it.
#[derive(Clone, Debug)]
pub(crate) struct NodeTime {
    /// The name of the operator in the optimised model, as the backend has it.
    pub(crate) operator: String,
    pub(crate) node: String,
    /// The provider of ONNX Runtime that ran it.
    pub(crate) provider: Option<String>,
    /// Number of calls in all runs together.
    pub(crate) calls: u64,
    /// The time of all its calls in each run.
    pub(crate) times: Vec<Duration>,
    /// The same, including other nodes inside it.
    pub(crate) times_with_inner: Vec<Duration>,
}

/// A call of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) operator: &'a str,
    pub(crate) node: &'a str,
    pub(crate) provider: Option<&'a str>,
    /// The time without that of other nodes inside it.
    pub(crate) time: Duration,
    pub(crate) time_with_inner: Duration,
}

impl NodeTime {
    /// Returns the median of its times in a run.
    pub(crate) fn median(&self) -> Duration {
        median(&self.times)
    }
}

/// The middle of some times, or the mean of the two in the middle; 0 of none.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => Duration::ZERO,
        (0, Some(&upper)) => (sorted[middle - 1] + upper) / 2,
        (_, Some(&middle)) => middle,
    }
}

/// Gathers the times of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeTimes {
    nodes: Vec<NodeTime>,
    /// The places of nodes among them, by operator and name.
    places: HashMap<(String, String), usize>,
}

impl NodeTimes {
    /// Adds a call of a node in a run.
    pub(crate) fn add(&mut self, run: usize, call: Call<'_>) {
        let key = (call.operator.to_owned(), call.node.to_owned());
        let place = *self.places.entry(key).or_insert_with(|| {
            self.nodes.push(NodeTime {
                operator: call.operator.to_owned(),
                node: call.node.to_owned(),
                provider: call.provider.map(str::to_owned),
                calls: 0,
                times: Vec::new(),
                times_with_inner: Vec::new(),
            });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[place];
        node.calls += 1;
        for (times, time) in [
            (&mut node.times, call.time),
            (&mut node.times_with_inner, call.time_with_inner),
        ] {
            if times.len() <= run {
                times.resize(run + 1, Duration::ZERO);
            }
            times[run] += time;
        }
    }

    /// The profile of runs that took so long.
    pub(crate) fn of(self, runs: Vec<Duration>, trace: Option<Vec<u8>>) -> Profile {
        let mut nodes = self.nodes;
        for node in &mut nodes {
            node.times.resize(runs.len(), Duration::ZERO);
            node.times_with_inner.resize(runs.len(), Duration::ZERO);
        }
        nodes.sort_by_cached_key(|node| std::cmp::Reverse(node.median()));
        Profile {
            runs,
            nodes,
            is_coarse: false,
            trace,
        }
    }
}

/// The calls of nodes as Chrome's trace events, in JSON.
#[derive(Debug, Default)]
pub(crate) struct Trace(String);

impl Trace {
    /// Adds a call that began at a time.
    pub(crate) fn add(&mut self, call: &Call<'_>, start: Duration) {
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let event = json!({
            "ph": "X",
            "cat": "Node",
            "name": call.node,
            "pid": 1,
            "tid": 1,
            "ts": microseconds(start),
            "dur": microseconds(call.time_with_inner),
            "args": { "op_name": call.operator },
        });
        self.0 += if self.0.is_empty() { "[\n" } else { ",\n" };
        self.0 += &event.to_string();
    }

    pub(crate) fn into_json(self) -> Vec<u8> {
        let begin = if self.0.is_empty() { "[" } else { "" };
        format!("{begin}{}\n]\n", self.0).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_run_does_not_count() {
        let milliseconds = Duration::from_millis;
        let mut times = NodeTimes::default();
        let call = |operator, node, time| Call {
            operator,
            node,
            provider: None,
            time,
            time_with_inner: time,
        };
        for (run, time) in [(0, 1), (0, 1), (1, 500), (2, 3), (2, 1)] {
            times.add(run, call("Cast", "a", milliseconds(time)));
        }
        times.add(2, call("Neg", "seldom", milliseconds(1000)));
        let profile = times.of([2, 501, 1004].map(milliseconds).to_vec(), None);
        let nodes = profile.nodes.iter();
        let found: Vec<_> = nodes
            .map(|node| (node.node.as_str(), node.calls, node.median()))
            .collect();
        assert_eq!(
            found,
            [("a", 5, milliseconds(4)), ("seldom", 1, Duration::ZERO)]
        );
        assert_eq!(median(&profile.runs), milliseconds(501));
        assert_eq!(
            median(&[milliseconds(1), milliseconds(2)]),
            milliseconds(3) / 2
        );
    }
}
