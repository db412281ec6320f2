//! The passes: each in a file, with the node that it is about, what has to
//! hold, and what takes its place.

mod bidirectional;
mod cancel;
mod direction;
mod full_flip;
mod keras_loop;
mod portable;
mod reversal;
mod sequence_lens;
mod transpose;

use crate::driver::Context;
use crate::model::NodeProto;
use crate::report::Exactness;
use crate::scope::{Names, Scope};
use crate::{Error, Options};

/// What the caller vouches for, and a graph cannot prove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// In every mask the steps that count come first.
    pub right_padded: bool,
}

/// A pass, as it is described.
#[derive(Debug)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// How equal what it does is.
    pub exactness: Exactness,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether it is one of those that leave no operator behind that a runtime may lack.
    pub portable: bool,
    /// Whether it is one of those that make models cheaper.
    pub fast: bool,
}

/// All passes, in the order in which they are taken.
pub const PASSES: &[&PassInfo] = &[
    &full_flip::PASS.info,
    &transpose::PASS.info,
    &keras_loop::PASS.info,
    &direction::PASS.info,
    &cancel::PASS.info,
    &sequence_lens::PASS.info,
    &bidirectional::PASS.info,
    &portable::PASS.info,
];

const ALL: &[&Pass] = &[
    &full_flip::PASS,
    &transpose::PASS,
    &keras_loop::PASS,
    &direction::PASS,
    &cancel::PASS,
    &sequence_lens::PASS,
    &bidirectional::PASS,
    &portable::PASS,
];

/// A pass.
pub(crate) struct Pass {
    pub(crate) info: PassInfo,
    /// Looks at a node.
    pub(crate) find: fn(&Scope<'_>, usize, &Context<'_>, &mut Names) -> Verdict,
}

/// What a pass has to say of a node.
pub(crate) enum Verdict {
    /// It is none that the pass is about.
    Other,
    /// It is, but is left alone: why.
    Left(String),
    /// It is replaced.
    Edit(Edit),
}

/// What takes a node's place. All of the node's outputs that are read are given
/// by it under the same names.
pub(crate) struct Edit {
    pub(crate) nodes: Vec<NodeProto>,
    /// Later nodes that it also replaces, by their first outputs.
    pub(crate) also: Vec<String>,
    /// Outputs that are the same as another value.
    pub(crate) same: Vec<(String, String)>,
    /// What it is, for the report.
    pub(crate) what: String,
}

/// The passes that are asked for, in their order.
pub(crate) fn select(options: &Options) -> Result<Vec<&'static Pass>, Error> {
    if let Some(unknown) = options
        .passes
        .iter()
        .find(|name| !ALL.iter().any(|pass| pass.info.name == name.as_str()))
    {
        let known: Vec<&str> = ALL.iter().map(|pass| pass.info.name).collect();
        return Err(Error::UnknownPass {
            name: unknown.clone(),
            known: known.join(", "),
        });
    }
    let wanted = |pass: &&&'static Pass| {
        let info = &pass.info;
        info.portable && options.portable
            || info.fast && options.fast
            || options.passes.iter().any(|name| name == info.name)
    };
    Ok(ALL.iter().filter(wanted).copied().collect())
}
