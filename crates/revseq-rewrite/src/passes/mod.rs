//! The passes, one file each: the node it matches, the conditions, and the replacement.
//!
//! A pass returns `Other` for a node that is not its own, which the report does not mention, and
//! `Left` for one that it would take if a condition held. Makers and readers are found by name, so
//! the names of values have to be unique within a graph; an inner graph may use a name again.

mod bidirectional;
mod cancel;
mod direction;
mod full_flip;
mod map;
mod portable;
mod recurrent_loop;
mod reversal;
mod sequence_lens;
mod steps;
pub(crate) mod tract;
mod transpose;

use crate::error::Error;
use crate::pass::{Options, Pass, PassInfo};

/// All passes, in the order in which they run.
///
/// Flips come first, since others know a whole axis when they see one. A layer is no map, but its
/// input may be one, so loops become layers first. `direction` leaves a
/// reversal behind, which `cancel` removes. `sequence-lens` refuses bidirectional layers, so it
/// precedes `bidirectional`; it may write a ReverseSequence, so `portable` comes last.
const ALL: [&Pass; 9] = [
    &full_flip::PASS,
    &transpose::PASS,
    &recurrent_loop::PASS,
    &map::PASS,
    &direction::PASS,
    &cancel::PASS,
    &sequence_lens::PASS,
    &bidirectional::PASS,
    &portable::PASS,
];

/// All passes, in the order in which they run.
pub const PASSES: &[&PassInfo] = &{
    let mut infos = [&ALL[0].info; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        infos[index] = &ALL[index].info;
        index += 1;
    }
    infos
};

/// Passes that require another one to run first.
const BROUGHT_ALONG: &[(&str, &str)] = &[
    // To recognise layers that run backwards.
    ("recurrent-loop", "full-flip"),
];

/// The requested passes, in their order.
pub(crate) fn select(options: &Options) -> Result<Vec<&'static Pass>, Error> {
    if let Some(unknown) = options
        .passes
        .iter()
        .find(|name| !PASSES.iter().any(|pass| pass.name == name.as_str()))
    {
        let known: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        return Err(Error::UnknownPass {
            name: unknown.clone(),
            known: known.join(", "),
        });
    }
    let is_named = |wanted: &str| options.passes.iter().any(|name| name == wanted);
    let wanted = |pass: &&&'static Pass| {
        let info = &pass.info;
        let mut others = BROUGHT_ALONG.iter();
        info.portable && options.portable
            || info.fast && options.fast
            || is_named(info.name)
            || others.any(|&(other, brought)| brought == info.name && is_named(other))
    };
    Ok(ALL.iter().filter(wanted).copied().collect())
}
