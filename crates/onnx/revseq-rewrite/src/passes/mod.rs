//! The passes, one file each: the node it matches, the conditions, and the replacement.
//!
//! A pass returns `Other` for a node that is not its own, which the report does not mention, and
//! `Left` for one that it would take if a condition held. Makers and readers are found by name, so
//! the names of values have to be unique within a graph; an inner graph may use a name again.

mod bidirectional;
mod cancel;
mod cells;
mod direction;
mod forward;
mod full_flip;
mod invariant;
mod loop_edit;
mod map;
mod portable;
mod recurrent_loop;
mod reversal;
mod scattered_rows;
mod sequence_lens;
mod steps;
pub(crate) mod tract;
mod transpose;
mod unrolled;

pub(crate) use recurrent_loop::PASS as RECURRENT_LOOP;

use crate::constant;
use crate::emit::Emit;
use crate::error::Error;
use crate::model::{ModelProto, NodeProto};
use crate::pass::{At, Options, Pass, PassInfo};
use crate::runtimes::Runtime;
use crate::scope::Scope;
use crate::sizes;

/// All passes, in the order in which they run.
///
/// Flips come first, since others know a whole axis when they see one. Rows that steps write are outputs of
/// layers and maps. A layer is no map, but its
/// input may be one, so loops become layers first.
/// `direction` leaves a reversal behind, which `cancel` removes. `bidirectional` joins layers whose
/// lengths `sequence-lens` has removed, and `forward` turns those that are left alone.
/// `sequence-lens` may write a ReverseSequence, so `portable` comes behind it. `scan-loop`,
/// `invariant` and `partial-map` wait for all others, which know loops as they were written.
const ALL: &[&Pass] = &[
    &full_flip::PASS,
    &transpose::PASS,
    &scattered_rows::PASS,
    &tract::LIST,
    &tract::APPENDED_LIST,
    &recurrent_loop::PASS,
    &map::PASS,
    &tract::SCAN_LOOP,
    &unrolled::PASS,
    &direction::PASS,
    &cancel::PASS,
    &sequence_lens::PASS,
    &bidirectional::PASS,
    &forward::PASS,
    &portable::OTHER_AXES,
    &portable::PASS,
    &invariant::PASS,
    &map::partial::PASS,
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

/// The size of an axis of a value, if it is a number.
fn known_size(scope: &Scope<'_>, name: &str, axis: usize) -> Option<i64> {
    sizes::axis(scope, name, axis)?.number()
}

/// The sizes of a value, as far as they are numbers; `None` if their count is not known.
fn known_sizes(scope: &Scope<'_>, name: &str) -> Option<Vec<Option<i64>>> {
    let size = |axis| known_size(scope, name, axis);
    Some((0..sizes::rank(scope, name)?).map(size).collect())
}

/// An axis of a value counted from the front; `None` if it counts from an end that is not known, or is not
/// there.
fn axis_from_front(scope: &Scope<'_>, value: &str, axis: i64) -> Option<usize> {
    match sizes::rank(scope, value) {
        Some(rank) => constant::normal_axis(axis, rank),
        None => usize::try_from(axis).ok(),
    }
}

/// Removes an attribute of a node.
fn remove_attribute(node: &mut NodeProto, name: &str) {
    node.attribute.retain(|attribute| attribute.name() != name);
}

/// Writes a layer whose outputs at all steps come in the wrong order, and puts those that are read in order.
fn write_turned(
    at: &At<'_>,
    emit: &Emit<'_>,
    mut layer: NodeProto,
    in_order: impl FnOnce(&str) -> String,
) {
    match at.node.output.first().filter(|y| at.scope.uses(y) > 0) {
        Some(y) => {
            let turned = emit.name("backwards");
            layer.output[0].clone_from(&turned);
            emit.copy(layer);
            emit.give(y, in_order(&turned));
        }
        None => emit.copy(layer),
    }
}

/// Drops the inputs at the end that are left out.
fn trim_inputs(node: &mut NodeProto) {
    while node.input.last().is_some_and(String::is_empty) {
        node.input.pop();
    }
}

/// Whether passes need the model's functions inlined: the axes of what they replace there are the callers'.
pub(crate) fn need_functions_inlined(passes: &[&Pass], model: &ModelProto) -> bool {
    let of_reversals = [&portable::PASS, &portable::OTHER_AXES].map(|pass| pass.info.name);
    let mut names = passes.iter().map(|pass| pass.info.name);
    names.any(|name| of_reversals.contains(&name))
        && portable::depends_on_callers(model)
        && tract::check_expansion(model).is_ok()
}

/// The requested passes, in their order.
pub(crate) fn select(
    options: &Options,
    runtime: Option<&Runtime>,
) -> Result<Vec<&'static Pass>, Error> {
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
    let is_named = |wanted: &str| {
        // Those that have a form of their own there have run by now.
        let of_runtime = runtime.is_some_and(|runtime| runtime.info.passes.contains(&wanted));
        let of_runtime = of_runtime && !tract::is_one(wanted);
        of_runtime || options.passes.iter().any(|name| name == wanted)
    };
    let wanted = |pass: &&&'static Pass| {
        let info = &pass.info;
        // The second undoes what the first does.
        if info.name == direction::PASS.info.name && is_named(forward::PASS.info.name) {
            return false;
        }
        // A host of masks asks for what runs instead of loops.
        if pass.keeps_loops && options.masked_layers {
            return false;
        }
        // Layers that run backwards are recognised by their flips.
        let recognises = info.name == full_flip::PASS.info.name;
        info.portable && options.portable
            || info.fast && options.fast
            || is_named(info.name)
            || recognises && is_named(RECURRENT_LOOP.info.name)
    };
    Ok(ALL.iter().filter(wanted).copied().collect())
}
