//! Brings a model into the form that a runtime reads, above all tract.
//!
//! Nodes are sorted and functions inlined first, since the other passes look at one sorted graph at
//! a time. Then those run until none finds anything. Most models have no node that the passes
//! concern: these are only sorted. The door to tract calls [`for_tract`]; a rewrite with
//! [`Options::runtime`] goes through [`prepare`], and reports each step.

use crate::model::{GraphProto, ModelProto, NodeProto, all_nodes};
use crate::passes::{RECURRENT_LOOP, tract};
use crate::report::Report;
use crate::{Error, Options, driver};

/// Brings a model into the form that tract reads, and returns whether anything but names changed.
///
/// Inputs and outputs stay the same, and so do their values: bit for bit, or up to rounding where
/// operators of `com.microsoft` become standard ones and traced cells become layers. Remaining values
/// and nodes keep their names; nodes without a name get that of their operator and place, and those from
/// a function or a branch are named after the node that contained them.
///
/// # Errors
/// If its functions cannot be inlined.
pub fn for_tract(model: &mut ModelProto) -> Result<bool, Error> {
    if let Some(graph) = model.graph.as_option_mut() {
        // Label nodes by index before any of them moves.
        for (index, node) in graph.node.iter_mut().enumerate() {
            node.name = Some(node.label(index));
        }
    }
    let graph = model.graph.as_option();
    if model.functions.is_empty() && !graph.is_some_and(is_concerned) {
        return Ok(!tract::order::sort(model).is_empty());
    }
    let report = prepare(model, &Options::default(), &tract::NAMES)?;
    Ok(report.rewritten().next().is_some())
}

/// Whether the passes for tract concern a node of a graph, or of a graph in it. Most models have
/// none, and their large graphs need not be looked through.
fn is_concerned(graph: &GraphProto) -> bool {
    let concerns = |node: &NodeProto| tract::concerns(node.op());
    let mut graphs = graph.with_inner();
    graphs.any(|graph| graph.node.iter().any(concerns) || tract::may_be_unrolled(graph))
}

/// Replaces the loops of a prepared model that are recurrent layers by these: standard ones, and
/// [masked layers](crate::masked), which `revseq-tract-operators` reads.
///
/// It comes after [`compute_halves_in_floats`](crate::compute_halves_in_floats): a layer of half
/// floats is found by then. The layers are named after their loop.
///
/// # Errors
/// If the passes do not come to an end.
pub fn layers_for_tract(model: &mut ModelProto) -> Result<(), Error> {
    let is_loop = |node: &NodeProto| node.is("Loop") || node.is("Scan");
    let graph = model.graph.as_option();
    if graph.is_some_and(|graph| all_nodes(&graph.node).any(is_loop)) {
        let options = Options {
            masked_layers: true,
            ..Options::default()
        };
        driver::rewrite(model, &[&RECURRENT_LOOP], &options)?;
    }
    Ok(())
}

/// Runs those of the passes for tract that are named over a model.
pub(crate) fn prepare(
    model: &mut ModelProto,
    options: &Options,
    names: &[&str],
) -> Result<Report, Error> {
    let mut report = Report::default();
    if names.contains(&tract::order::NAME) {
        report.steps = tract::order::sort(model);
    }
    if names.contains(&tract::FUNCTION.info.name) {
        // Before anything is inlined: functions that call themselves would never end.
        tract::check_expansion(model)?;
        report.append(driver::rewrite(model, &[&tract::FUNCTION], options)?);
        // Before the other passes look at them: they would rewrite what nothing calls.
        tract::remove_uncalled(model);
    }
    let passes = tract::PASSES.iter().copied();
    let passes: Vec<_> = passes.filter(|it| names.contains(&it.info.name)).collect();
    report.append(driver::rewrite(model, &passes, options)?);
    Ok(report)
}
