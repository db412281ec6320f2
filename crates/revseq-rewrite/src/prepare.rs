//! Brings a model into the form that tract reads.

use crate::model::{self, ModelProto};
use crate::passes::tract;
use crate::report::Report;
use crate::{Error, Options, driver};

/// Brings an encoded model into the form that tract reads; `None` if it already has that form.
///
/// Inputs and outputs stay the same, and so do their values: bit for bit, or up to rounding where
/// operators of `com.microsoft` become standard ones. Remaining values and nodes keep their names;
/// those from a function or a branch are named after the node that contained them.
///
/// # Errors
/// If the bytes are not a model, or its functions cannot be inlined.
pub fn for_tract(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut model = model::decode(bytes)?;
    if let Some(graph) = model.graph.as_option_mut() {
        // Label nodes by index before any of them moves.
        for (index, node) in graph.node.iter_mut().enumerate() {
            node.name = Some(node.label(index));
        }
    }
    let report = prepare(&mut model, &Options::default())?;
    if report.rewritten().next().is_none() {
        return Ok(None);
    }
    Ok(Some(model::encode(&model)?))
}

/// Whether [`for_tract`] may change a model with nodes of an operator. A model without such nodes
/// and without functions already has the form that tract reads, except for node order, which tract
/// does not need.
#[must_use]
pub fn concerns_tract(operator: &str) -> bool {
    tract::concerns(operator)
}

/// Runs the passes for tract over a model.
pub(crate) fn prepare(model: &mut ModelProto, options: &Options) -> Result<Report, Error> {
    tract::check_expansion(model)?;
    let mut report = Report {
        steps: tract::order::sort(model),
        ..Report::default()
    };
    report.append(driver::rewrite(model, &[&tract::FUNCTION], options));
    tract::remove_uncalled(model);
    report.append(driver::rewrite(model, tract::PASSES, options));
    Ok(report)
}
