//! The output of `revseq run`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{OutputFiles, Results};
use crate::backend::Engine;
use crate::backend::ort::Placement;
use crate::backend::profile::{NodeTime, Profile, median};
use crate::commands;
use crate::escape::printable;
use crate::note::note;
use crate::style::BOLD;
use crate::tensor::{Tensor, print};
use crate::units::{Time, count, time};

/// How many times as long as others profiled runs are if that is said.
const NOTED_SLOWER: f64 = 1.5;

/// Number of nodes that a profile names in text.
const NODES_TOLD: usize = 5;

/// The least time of a run, counted in whole microseconds, of which operators' shares are told.
const SHARED: Duration = Duration::from_micros(100);

/// The times of several runs.
#[derive(Serialize)]
struct Summary {
    runs: usize,
    median_seconds: Time,
    mean_seconds: Time,
    /// The standard deviation; 0 of one run.
    standard_deviation_seconds: Time,
    min_seconds: Time,
    max_seconds: Time,
    /// The 90th and 99th percentiles.
    p90_seconds: Time,
    p99_seconds: Time,
    runs_per_second: f64,
}

fn summary(times: &[Duration]) -> Option<Summary> {
    let mut sorted = times.to_vec();
    sorted.sort();
    let percentile = |percent: usize| Time(sorted[(sorted.len() * percent).div_ceil(100) - 1]);
    let count = times.len() as f64;
    let sum: f64 = times.iter().map(Duration::as_secs_f64).sum();
    let mean = sum / count;
    let squares = times.iter().map(|time| (time.as_secs_f64() - mean).powi(2));
    let variance = squares.sum::<f64>() / (count - 1.0).max(1.0);
    Some(Summary {
        runs: times.len(),
        min_seconds: Time(*sorted.first()?),
        max_seconds: Time(*sorted.last()?),
        median_seconds: Time(median(times)),
        mean_seconds: Time(Duration::from_secs_f64(mean)),
        standard_deviation_seconds: Time(Duration::from_secs_f64(variance.sqrt())),
        p90_seconds: percentile(90),
        p99_seconds: percentile(99),
        runs_per_second: count / sum.max(1e-9),
    })
}

/// An operator's share of a profile.
struct OperatorTime<'a> {
    operator: &'a str,
    nodes: usize,
    /// The median of the time of all its nodes in a run.
    median: Duration,
}

/// The operators of a profile, the slowest first.
fn by_operator(nodes: &[NodeTime]) -> Vec<OperatorTime<'_>> {
    let mut operators: BTreeMap<&str, (usize, Vec<Duration>)> = BTreeMap::new();
    for node in nodes {
        let none = || (0, vec![Duration::ZERO; node.times.len()]);
        let (count, times) = operators.entry(&node.operator).or_insert_with(none);
        *count += 1;
        for (sum, time) in std::iter::zip(times, &node.times) {
            *sum += *time;
        }
    }
    let operators = operators.into_iter();
    let operators = operators.map(|(operator, (nodes, times))| OperatorTime {
        operator,
        nodes,
        median: median(&times),
    });
    let mut operators: Vec<_> = operators.collect();
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.median));
    operators
}

/// The words for the times of a profile.
struct Words {
    /// Whether they are whole microseconds.
    is_coarse: bool,
    /// The time of all operators.
    total: Duration,
}

impl Words {
    fn have_shares(&self) -> bool {
        !self.is_coarse || self.total >= SHARED
    }

    fn time(&self, it: Duration) -> String {
        match self.is_coarse && it < SHARED {
            true => format!("{:.0} µs", it.as_secs_f64() * 1e6),
            false => time(it),
        }
    }

    fn share(&self, time: Duration) -> String {
        if !self.have_shares() {
            return "-".to_owned();
        }
        let share = 100.0 * time.as_secs_f64() / self.total.as_secs_f64().max(1e-12);
        format!("{share:.1}%")
    }
}

fn print_profile(out: &mut dyn Write, profile: &Profile, timed: &[Duration]) -> Result<()> {
    let operators = by_operator(&profile.nodes);
    let words = Words {
        is_coarse: profile.is_coarse,
        total: operators.iter().map(|it| it.median).sum(),
    };
    writeln!(
        out,
        "{}: median {}, of which operators take {}",
        count(profile.runs.len(), "profiled run"),
        words.time(median(&profile.runs)),
        words.time(words.total)
    )?;
    if !words.have_shares() {
        writeln!(
            out,
            "ONNX Runtime counts whole microseconds, too few here for shares of them"
        )?;
    }
    let slower = median(&profile.runs).as_secs_f64() / median(timed).as_secs_f64();
    if slower.is_finite() && slower >= NOTED_SLOWER {
        writeln!(
            out,
            "the profiler makes a run {slower:.1} times as long, so small operators have too large a share"
        )?;
    }
    let width = operators.iter().map(|it| printable(it.operator).len());
    let width = width.max().unwrap_or(0).max("operator".len());
    writeln!(
        out,
        "{BOLD}{:width$}  nodes  time of a run  share{BOLD:#}",
        "operator"
    )?;
    for it in &operators {
        let (operator, nodes) = (printable(it.operator), it.nodes);
        let (each, share) = (words.time(it.median), words.share(it.median));
        writeln!(out, "{operator:width$}  {nodes:>5}  {each:>13}  {share:>5}")?;
    }
    writeln!(out, "{BOLD}slowest nodes{BOLD:#}")?;
    for node in profile.nodes.iter().take(NODES_TOLD) {
        print_node(out, node, &words)?;
    }
    Ok(())
}

fn print_node(out: &mut dyn Write, node: &NodeTime, words: &Words) -> Result<()> {
    let own = node.median();
    let mut each = words.time(own);
    if words.have_shares() {
        each = format!("{each} {}", words.share(own));
    }
    let provider = node.provider.as_deref().map(|name| format!(" on {name}"));
    let provider = provider.unwrap_or_default();
    let whole = median(&node.times_with_inner);
    let inner = match whole > own {
        true => format!(", {} with the nodes in it", time(whole)),
        false => String::new(),
    };
    let (operator, name) = (printable(&node.operator), &node.node);
    writeln!(out, "  {each}  {operator} {name:?}{provider}{inner}")?;
    Ok(())
}

/// Prints the outputs, or where they were written.
pub(super) fn print_outputs(
    out: &mut dyn Write,
    files: &OutputFiles<'_>,
    results: &Results,
) -> Result<()> {
    let outputs = &results.outputs;
    for (index, (name, output)) in std::iter::zip(&files.names, outputs).enumerate() {
        let (name, shape) = (printable(name), output.type_and_shape());
        match files.by_output.get(&index) {
            Some(file) => writeln!(out, "{BOLD}{name}{BOLD:#}: {shape} -> {}", file.display())?,
            None if files.is_empty() => {
                writeln!(out, "{BOLD}{name}{BOLD:#}: {shape}")?;
                writeln!(out, "{}", print::values(output, "  "))?;
            }
            None => {}
        }
    }
    if let Some(archive) = files.archive {
        let count = count(outputs.len(), "output");
        writeln!(out, "{count} -> {}", archive.display())?;
    }
    Ok(())
}

/// Prints how long the runs took, and which operators took it.
pub(super) fn print_times(out: &mut dyn Write, results: &Results) -> Result<()> {
    if let Some(summary) = summary(&results.times) {
        writeln!(
            out,
            "{}: median {}, mean {}, standard deviation {}, min {}, max {}, p90 {}, p99 {}",
            count(summary.runs, "run"),
            summary.median_seconds,
            summary.mean_seconds,
            summary.standard_deviation_seconds,
            summary.min_seconds,
            summary.max_seconds,
            summary.p90_seconds,
            summary.p99_seconds
        )?;
        let speed = summary.runs_per_second;
        let (places, load) = (if speed < 100.0 { 1 } else { 0 }, time(results.load));
        writeln!(out, "{speed:.places$} runs per second; loaded in {load}")?;
    }
    match &results.profile {
        Some(profile) => print_profile(out, profile, &results.times),
        None => Ok(()),
    }
}

/// Says on standard error where the model ran.
pub(super) fn say(results: &Results) {
    let Results {
        times,
        placements,
        providers,
        data_set,
        ..
    } = results;
    if let Some(set) = data_set {
        note(format!("recorded in {}", set.display()));
    }
    // Those with a reason were noted when the model was prepared, and so was what loops became.
    let placements = placements.iter().flatten();
    let is_new = |it: &&Placement| it.reason.is_none() && it.to.is_none();
    placements.filter(is_new).for_each(note);
    if let Some(providers) = providers {
        let providers = providers.iter();
        let counts = providers.map(|(provider, nodes)| format!("{nodes} on {provider}"));
        note(format!("nodes: {}", counts.collect::<Vec<_>>().join(", ")));
    }
    if !times.is_empty() {
        commands::say_unoptimised();
    }
}

pub(super) fn as_json(
    files: &OutputFiles<'_>,
    engine: &Engine,
    model: &Path,
    results: &Results,
) -> Json {
    let Results {
        outputs,
        times,
        load,
        profile,
        placements,
        providers,
        data_set,
        is_interrupted,
    } = results;
    let mut json = json!({
        "model": model.display().to_string(),
        "backend": engine.name(),
        "outputs": outputs_json(files, outputs),
    });
    if let Some(placements) = placements {
        json["nodes"] = json!(placements);
        json["providers"] = json!(providers);
    }
    if let Some(archive) = files.archive {
        json["file"] = archive.display().to_string().into();
    }
    if let Some(set) = data_set {
        json["data_set"] = set.display().to_string().into();
    }
    if let Some(profile) = profile {
        json["profile"] = profile_json(profile);
    }
    json["load_seconds"] = load.as_secs_f64().into();
    if let Some(summary) = summary(times) {
        json["timing"] = json!(summary);
        json["timing"]["interrupted"] = json!(is_interrupted);
    }
    json
}

fn outputs_json(files: &OutputFiles<'_>, outputs: &[Tensor]) -> Json {
    let outputs = std::iter::zip(&files.names, outputs).enumerate();
    let outputs = outputs.map(|(index, (name, output))| {
        let mut json = json!({
            "name": name,
            "type": output.element_type().name(),
            "shape": output.shape(),
        });
        match files.by_output.get(&index) {
            Some(file) => json["file"] = file.display().to_string().into(),
            None if files.is_empty() => {
                let values = (0..output.len()).map(|index| output.value(index).json());
                json["values"] = values.collect();
            }
            None => {}
        }
        json
    });
    outputs.collect()
}

fn profile_json(profile: &Profile) -> Json {
    let nodes = profile.nodes.iter().map(|node| {
        json!({
            "operator": node.operator,
            "node": node.node,
            "provider": node.provider,
            "calls": node.calls,
            "median_seconds": node.median().as_secs_f64(),
            "median_seconds_with_inner": median(&node.times_with_inner).as_secs_f64(),
            "seconds": node.times.iter().sum::<Duration>().as_secs_f64(),
        })
    });
    json!({
        "runs": profile.runs.len(),
        "median_seconds": median(&profile.runs).as_secs_f64(),
        "nodes": nodes.collect::<Json>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::profile::{Call, NodeTimes};

    #[test]
    fn whole_microseconds_are_shown_as_such() {
        let text = |time: u64, is_coarse: bool| {
            let time = Duration::from_micros(time);
            let mut times = NodeTimes::default();
            for node in ["a", "b"] {
                let call = Call {
                    operator: "Neg",
                    node,
                    provider: None,
                    time,
                    time_with_inner: time,
                };
                times.add(0, call);
            }
            let profile = Profile {
                is_coarse,
                ..times.of(vec![2 * time], None)
            };
            let mut text = Vec::new();
            print_profile(&mut text, &profile, &[2 * time]).unwrap();
            String::from_utf8(text).unwrap()
        };
        let few = text(2, true);
        assert!(
            few.contains(
                "ONNX Runtime counts whole microseconds, too few here for shares of them\n"
            ) && few.contains("  2 µs  Neg \"a\"\n"),
            "{few}"
        );
        let enough = text(60, true);
        assert!(enough.contains("  60 µs 50.0%  Neg \"a\"\n"), "{enough}");
        let exact = text(2, false);
        assert!(exact.contains("  2.00 µs 50.0%  Neg \"a\"\n"), "{exact}");
    }
}
