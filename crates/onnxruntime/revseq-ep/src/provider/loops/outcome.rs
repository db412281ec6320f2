//! What became of the loops of a graph, for the session's report.

use revseq_rewrite::{Outcome, Step};

use super::super::error::Error;
use super::super::report::OfGraph;
use super::find::Found;
use crate::plugin::graph::GraphNode;

/// Reports the loops among the nodes of a graph: what was found, or why nothing could be looked for.
pub(super) fn tell(
    report: &OfGraph<'_>,
    nodes: &[GraphNode<'_>],
    is_loop: &[bool],
    found: &Result<Found, String>,
) -> Result<(), Error> {
    for (index, &node) in nodes.iter().enumerate() {
        if !is_loop[index] {
            continue;
        }
        let label = match node.name()? {
            name if name.is_empty() => format!("{}#{index}", node.operator()?.1),
            name => name,
        };
        match found {
            Ok(found) => tell_of(report, node, index, &steps(found, &label), found)?,
            Err(reason) => report.left(node, reason.clone())?,
        }
    }
    Ok(())
}

/// Reports the loop at a place of a graph, by the steps of the rewrite that are about it.
fn tell_of(
    report: &OfGraph<'_>,
    node: GraphNode<'_>,
    index: usize,
    steps: &[&Step],
    found: &Found,
) -> Result<(), Error> {
    let mut regions = found
        .layers
        .regions
        .iter()
        .filter(|(_, made)| made.is_some());
    if regions.any(|(region, _)| region.nodes.contains(&index)) {
        return report.replaced(node, becomes(steps));
    }
    let mut programs = found.programs.iter();
    let program = programs.find(|(place, _)| *place == index).map(|it| &it.1);
    if let Some(Ok(_)) = program {
        return report.replaced(node, String::from("a program of its steps"));
    }
    let mut staying = found
        .layers
        .staying
        .iter()
        .filter(|it| it.nodes.contains(&index));
    if let (Some(Err(reason)), None) = (program, staying.clone().next()) {
        return report.left(node, format!("it is no program: {reason}"));
    }
    match (refusal(steps), staying.next()) {
        (Some(reason), _) => report.left(node, reason),
        (None, Some(staying)) => report.kept(node, staying.reason.clone()),
        (None, None) => report.left(node, String::from("no pass knows it")),
    }
}

/// The steps of the rewrite that are about a node of the main graph.
fn steps<'a>(found: &'a Found, label: &str) -> Vec<&'a Step> {
    let steps = found.layers.report.steps.iter();
    let steps = steps.filter(|step| step.graph.is_empty() && step.node == label);
    steps.collect()
}

/// What a loop becomes.
fn becomes(steps: &[&Step]) -> String {
    let mut last = steps.iter().rev().filter_map(|step| match &step.outcome {
        Outcome::Rewritten(to) => Some(to.clone()),
        Outcome::LeftAlone(_) => None,
    });
    last.next().unwrap_or_else(|| String::from("other nodes"))
}

/// Why a loop cannot be replaced, if it cannot: a report lists what is left alone in the end.
fn refusal(steps: &[&Step]) -> Option<String> {
    let reasons = steps.iter().filter_map(|step| match &step.outcome {
        Outcome::Rewritten(_) => None,
        Outcome::LeftAlone(reason) => Some(reason.as_str()),
    });
    let reasons: Vec<&str> = reasons.collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
