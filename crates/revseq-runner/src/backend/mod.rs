//! The runtimes that models run on.

mod bounded;
pub(crate) mod tract;
