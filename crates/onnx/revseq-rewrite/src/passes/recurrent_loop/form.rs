//! The form of written layers, by what the host takes.

use crate::scope::Scope;

/// The form of what is written.
#[derive(Clone, Copy)]
pub(crate) enum Form<'a> {
    /// Standard operators, with zeros for an initial state that is 0: not every runtime can make them
    /// for any batch size. LSTM and GRU of a runtime may need a batch that is not empty.
    Lengths { needs_batch: bool },
    /// Operators of a host that takes masks, with the inputs and outputs that they need. States of
    /// this graph are enlarged if they do not provably fit.
    Masks(&'a Scope<'a>),
}

impl Form<'_> {
    pub(super) fn has_masks(self) -> bool {
        matches!(self, Self::Masks(_))
    }
}
