//! ONNX Runtime's profile: a trace of events in JSON.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;

use crate::backend::profile::{Call, NodeTimes, Profile};

/// The suffix that ONNX Runtime appends to a node's name for the time of its kernel.
const KERNEL: &str = "_kernel_time";

/// A node's event.
struct Event<'a> {
    thread: i64,
    /// Start and end in microseconds since the session began.
    start: u64,
    end: u64,
    call: Call<'a>,
}

/// The time of each run, and in it of each node without that of the nodes in its own graphs.
/// The first run counts for nothing: it allocates.
pub(super) fn read(text: &[u8]) -> Result<Profile> {
    let json: Json = serde_json::from_slice(text)?;
    let events = json.as_array().context("it is no list of events")?;
    let runs = events.iter().filter(|event| event["name"] == "model_run");
    let mut runs: Vec<(u64, u64)> = runs
        .filter_map(|run| Some((run["ts"].as_u64()?, run["dur"].as_u64()?)))
        .collect();
    runs.sort_unstable();
    ensure!(!runs.is_empty(), "it has no run");
    runs.remove(0);
    // In which run something began.
    let run_of = |start: u64| {
        let after = runs.partition_point(|&(begin, _)| begin <= start);
        after.checked_sub(1)
    };
    let nodes = events.iter().filter(|event| event["cat"] == "Node");
    let mut events: Vec<Event<'_>> = nodes.filter_map(event).collect();
    // Of events that begin in the same microsecond, the longer one is the outer one.
    events.sort_by_key(|event| (event.thread, event.start, u64::MAX - event.end));
    let mut around: Vec<usize> = Vec::new();
    for index in 0..events.len() {
        let Event {
            thread, end, call, ..
        } = events[index];
        around.retain(|&outer| events[outer].thread == thread && events[outer].end >= end);
        if let Some(&outer) = around.last() {
            let time = &mut events[outer].call.time;
            *time = time.saturating_sub(call.time_with_inner);
        }
        around.push(index);
    }
    let mut sum = NodeTimes::default();
    for event in &events {
        if let Some(run) = run_of(event.start) {
            sum.add(run, event.call);
        }
    }
    let runs = runs.into_iter();
    let runs = runs.map(|(_, time)| Duration::from_micros(time));
    Ok(sum.of(runs.collect(), None))
}

fn event(json: &Json) -> Option<Event<'_>> {
    let (start, time) = (json["ts"].as_u64()?, json["dur"].as_u64()?);
    Some(Event {
        thread: json["tid"].as_i64().unwrap_or_default(),
        start,
        end: start + time,
        call: Call {
            operator: json["args"]["op_name"].as_str()?,
            node: json["name"].as_str()?.strip_suffix(KERNEL)?,
            provider: json["args"]["provider"].as_str(),
            time: Duration::from_micros(time),
            time_with_inner: Duration::from_micros(time),
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::backend::profile::median;

    #[test]
    fn a_loop_s_time_excludes_its_body() {
        let event = |name: &str, operator: &str, start: u64, time: u64| {
            serde_json::json!({
                "cat": "Node", "tid": 1, "ts": start, "dur": time,
                "name": format!("{name}_kernel_time"),
                "args": { "op_name": operator, "provider": "CPUExecutionProvider" },
            })
        };
        let mut events = vec![
            event("l", "Loop", 10, 100),
            event("m", "MatMul", 10, 30),
            event("m", "MatMul", 50, 40),
            event("n", "Neg", 120, 5),
        ];
        for (start, time) in [(0, 9), (10, 120)] {
            events.push(serde_json::json!({
                "cat": "Session", "name": "model_run", "ts": start, "dur": time,
            }));
        }
        events.push(event("m", "MatMul", 2, 5));
        let text = serde_json::to_vec(&events).unwrap();
        let found: Vec<_> = super::read(&text)
            .unwrap()
            .nodes
            .into_iter()
            .map(|node| {
                let with_inner = median(&node.times_with_inner).as_micros();
                (
                    node.node.clone(),
                    node.calls,
                    node.median().as_micros(),
                    with_inner,
                )
            })
            .collect();
        let expected = [("m", 2, 70, 70), ("l", 1, 30, 100), ("n", 1, 5, 5)];
        assert_eq!(
            found,
            expected.map(|(node, calls, time, inner)| (node.to_owned(), calls, time, inner))
        );
    }
}
