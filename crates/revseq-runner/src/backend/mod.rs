//! The runtimes that models run on.

pub(crate) mod tract;
