//! What became of the nodes that the EP of a session looked at: for the log, and for whoever asks the session.
//!
//! A session that is given the dynamic option [`OPTION`] leaves its report under the key that is the
//! option's value, where `RevSeqSessionReport` takes it. So any session can be asked, however it was made.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::json;

use super::error::Error;
use super::layers;
use crate::plugin::graph::{Graph, GraphNode, Value};
use crate::plugin::log::Log;

/// The option of a session by which its report is asked for.
pub(crate) const OPTION: &str = "ep.dynamic.revseq_report";

/// Reports that were asked for and not taken, by their keys.
static ASKED: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the report that a session left under a key.
pub(crate) fn take(key: &str) -> Option<String> {
    lock(&ASKED).as_mut()?.remove(key)
}

/// What became of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// The EP runs it.
    Runs,
    /// The EP runs something else instead of it.
    Replaced {
        /// What that is.
        to: String,
    },
    /// It is left to other EPs.
    Left {
        reason: String,
        /// Whether there is something that computes the same and could run instead.
        could_be_replaced: bool,
    },
}

/// A node that the EP looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    operator: String,
    node: String,
    /// The names of the nodes around it, from the outside in.
    graph: Vec<String>,
    #[serde(skip)]
    domain: String,
    /// Its outputs, which tell it from others of its name.
    #[serde(skip)]
    outputs: Vec<CString>,
}

impl Place {
    fn of(node: GraphNode<'_>, graph: &[String]) -> Result<Self, Error> {
        let (domain, operator) = node.operator()?;
        let outputs = node.outputs()?.into_iter().map(Value::bytes_of_name);
        let outputs: Vec<CString> = outputs.collect::<Result<_, _>>()?;
        let name = node.name()?;
        let node = match (&*name, outputs.first()) {
            ("", Some(output)) => output.to_string_lossy().into_owned(),
            _ => name,
        };
        Ok(Self {
            operator,
            node,
            graph: graph.to_vec(),
            domain,
            outputs,
        })
    }

    /// Whether it is in a graph of another node.
    fn is_in(&self, other: &Self) -> bool {
        let rest = self.graph.strip_prefix(&*other.graph);
        rest.is_some_and(|rest| rest.first() == Some(&other.node))
    }

    /// The line of the log that says what became of it.
    fn line(&self, fate: &Fate) -> Option<String> {
        let Self { operator, node, .. } = self;
        Some(match fate {
            Fate::Runs => return None,
            Fate::Replaced { to } => format!("{operator} {node:?} runs as {to}"),
            Fate::Left {
                reason,
                could_be_replaced: true,
            } => format!("{operator} {node:?} stays, though it could be replaced: {reason}"),
            Fate::Left { reason, .. } if matches!(&**operator, "Loop" | "Scan") => {
                format!("{operator} {node:?} stays: {reason}")
            }
            Fate::Left { reason, .. } => {
                format!("{operator} node {node:?} is left to other execution providers: {reason}")
            }
        })
    }
}

/// What became of the nodes of a session.
#[derive(Debug)]
pub(super) struct Report {
    log: Log,
    nodes: Mutex<Vec<(Place, Fate)>>,
}

impl Report {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            nodes: Mutex::default(),
        }
    }

    /// The report on the nodes of a graph.
    pub(super) fn on(&self, graph: Graph<'_>) -> OfGraph<'_> {
        OfGraph {
            report: self,
            // Where a node is, is not worth an error.
            graph: graph.around().unwrap_or_default(),
        }
    }

    /// Sets what became of a node, and logs it unless it is known: ONNX Runtime may ask for a graph again.
    fn set(&self, place: Place, fate: Fate) {
        let mut nodes = lock(&self.nodes);
        if matches!(fate, Fate::Replaced { .. }) {
            nodes.retain(|(other, _)| !other.is_in(&place));
        }
        let known = nodes.iter_mut().find(|(other, _)| *other == place);
        if known.as_ref().is_some_and(|(_, before)| *before == fate) {
            return;
        }
        if let Some(line) = place.line(&fate) {
            match fate {
                Fate::Left {
                    could_be_replaced: true,
                    ..
                } => self.log.warning(c"GetCapability", &line),
                _ => self.log.info(c"GetCapability", &line),
            }
        }
        match known {
            Some((_, before)) => *before = fate,
            None => nodes.push((place, fate)),
        }
    }

    /// The report in JSON, with the number of runs of the nodes that replace others.
    fn to_json(&self, fused_runs: u64) -> String {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        let [mut layers, mut reversals] = [0, 0];
        for (place, fate) in &*lock(&self.nodes) {
            let mut entry = json!(place);
            match fate {
                Fate::Runs if layers::is_known(&place.domain, &place.operator) => layers += 1,
                Fate::Runs => reversals += 1,
                Fate::Replaced { to } => {
                    entry["to"] = json!(to);
                    taken.push(entry);
                }
                Fate::Left {
                    reason,
                    could_be_replaced,
                } => {
                    entry["reason"] = json!(reason);
                    entry["could_be_replaced"] = json!(could_be_replaced);
                    left.push(entry);
                }
            }
        }
        let report = json!({
            "taken": taken,
            "left": left,
            "layers": layers,
            "reversals": reversals,
            "fused_runs": fused_runs,
        });
        report.to_string()
    }

    /// Leaves the report under a key.
    pub(super) fn leave(&self, key: &str, fused_runs: u64) {
        let report = self.to_json(fused_runs);
        let mut asked = lock(&ASKED);
        asked.get_or_insert_default().insert(key.to_owned(), report);
    }
}

/// The report on the nodes of one graph.
pub(super) struct OfGraph<'a> {
    report: &'a Report,
    /// The names of the nodes around the graph.
    graph: Vec<String>,
}

impl OfGraph<'_> {
    /// Notes that the EP runs a node.
    pub(super) fn runs(&self, node: GraphNode<'_>) -> Result<(), Error> {
        self.set(node, Fate::Runs)
    }

    /// Notes what runs instead of a node.
    pub(super) fn replaced(&self, node: GraphNode<'_>, to: String) -> Result<(), Error> {
        self.set(node, Fate::Replaced { to })
    }

    /// Notes why a node is left to other EPs.
    pub(super) fn left(&self, node: GraphNode<'_>, reason: String) -> Result<(), Error> {
        let could_be_replaced = false;
        let fate = Fate::Left {
            reason,
            could_be_replaced,
        };
        self.set(node, fate)
    }

    /// Notes why a node stays that something else could run instead of.
    pub(super) fn kept(&self, node: GraphNode<'_>, reason: String) -> Result<(), Error> {
        let could_be_replaced = true;
        let fate = Fate::Left {
            reason,
            could_be_replaced,
        };
        self.set(node, fate)
    }

    /// Writes a line for whoever asks for everything.
    pub(super) fn detail(&self, line: &str) {
        self.report.log.verbose(c"GetCapability", line);
    }

    fn set(&self, node: GraphNode<'_>, fate: Fate) -> Result<(), Error> {
        self.report.set(Place::of(node, &self.graph)?, fate);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::fake_host;

    fn report() -> Report {
        // SAFETY: there is no logger.
        Report::new(unsafe { Log::new(fake_host::host(), std::ptr::null()) })
    }

    fn place(operator: &str, node: &str, graph: &[&str]) -> Place {
        Place {
            operator: operator.to_owned(),
            node: node.to_owned(),
            graph: graph.iter().map(|&it| it.to_owned()).collect(),
            domain: String::new(),
            outputs: vec![CString::new(node).unwrap()],
        }
    }

    fn left(reason: &str, could_be_replaced: bool) -> Fate {
        let reason = reason.to_owned();
        Fate::Left {
            reason,
            could_be_replaced,
        }
    }

    fn replaced() -> Fate {
        let to = String::from("LSTM, forward");
        Fate::Replaced { to }
    }

    #[test]
    fn what_became_of_a_node_last_counts() {
        let report = report();
        report.set(place("Loop", "a", &[]), left("it is far away", true));
        report.set(place("Loop", "a", &[]), replaced());
        report.set(place("Loop", "a", &["b"]), left("its condition", false));
        report.set(place("LSTM", "c", &[]), Fate::Runs);
        report.set(place("LSTM", "c", &[]), Fate::Runs);
        report.set(place("ReverseSequence", "d", &[]), Fate::Runs);
        report.leave("a key", 3);
        let json: serde_json::Value = serde_json::from_str(&take("a key").unwrap()).unwrap();
        let expected = json!({
            "taken": [{ "operator": "Loop", "node": "a", "graph": [], "to": "LSTM, forward" }],
            "left": [{
                "operator": "Loop",
                "node": "a",
                "graph": ["b"],
                "reason": "its condition",
                "could_be_replaced": false,
            }],
            "layers": 1,
            "reversals": 1,
            "fused_runs": 3,
        });
        assert_eq!(json, expected);
        assert_eq!(take("a key"), None);
    }

    #[test]
    fn what_was_in_a_loop_goes_with_it() {
        let report = report();
        for graph in [&["outer"][..], &["outer", "middle"], &["outer2"], &[]] {
            report.set(place("Loop", "inner", graph), left("its cell", false));
        }
        report.set(place("Loop", "outer", &[]), replaced());
        let nodes = lock(&report.nodes);
        let rest: Vec<_> = nodes.iter().map(|(place, _)| &*place.graph).collect();
        assert_eq!(rest, [&["outer2".to_owned()][..], &[], &[]]);
    }

    #[test]
    fn a_line_says_what_became_of_a_node() {
        let line = |operator, fate| place(operator, "a", &[]).line(&fate);
        for (operator, fate, expected) in [
            ("LSTM", Fate::Runs, None),
            ("Loop", replaced(), Some("Loop \"a\" runs as LSTM, forward")),
            (
                "Scan",
                left("it is large", true),
                Some("Scan \"a\" stays, though it could be replaced: it is large"),
            ),
            (
                "Loop",
                left("its cell", false),
                Some("Loop \"a\" stays: its cell"),
            ),
            (
                "GRU",
                left("its clip", false),
                Some("GRU node \"a\" is left to other execution providers: its clip"),
            ),
        ] {
            assert_eq!(line(operator, fate).as_deref(), expected);
        }
    }
}
