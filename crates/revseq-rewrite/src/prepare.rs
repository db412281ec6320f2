//! A model in the form that tract reads.

use crate::model::{self, ModelProto};
use crate::passes::tract;
use crate::report::Report;
use crate::{Error, Options, driver};

/// The model in the bytes of a file in the form that tract reads, as bytes; `None` if
/// it has that form already.
///
/// Its inputs and outputs are the same, and their values, too: bit for bit, and up to rounding
/// where operators of `com.microsoft` become standard ones. Values and nodes that stay keep
/// their names; what was in a function or a branch is named after the node that had it.
///
/// # Errors
/// If the bytes are no model, or its functions cannot be inlined.
pub fn for_tract(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut model = model::decode(bytes)?;
    if let Some(graph) = model.graph.as_option_mut() {
        // A place says which node it was for as long as none moves.
        for (index, node) in graph.node.iter_mut().enumerate() {
            node.name = Some(node.label(index));
        }
    }
    let report = prepare(&mut model, &Options::default())?;
    if report.rewritten().next().is_none() {
        return Ok(None);
    }
    model::encode(&model).map(Some)
}

/// Whether [`for_tract`] may change a model with nodes of an operator. One without any, and
/// without functions, has the form that tract reads, but for the order of its nodes,
/// which tract does not need.
#[must_use]
pub fn concerns_tract(operator: &str) -> bool {
    tract::concerns(operator)
}

/// Takes the passes for tract over a model.
pub(crate) fn prepare(model: &mut ModelProto, options: &Options) -> Result<Report, Error> {
    tract::check_expansion(model)?;
    let mut report = Report {
        steps: tract::order::sort(model),
    };
    let inlined = driver::rewrite(model, &[&tract::FUNCTION], options);
    tract::remove_uncalled(model);
    report.steps.extend(inlined.steps);
    let rewritten = driver::rewrite(model, tract::PASSES, options);
    report.steps.extend(rewritten.steps);
    Ok(report)
}
