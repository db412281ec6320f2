//! The runtimes that models run on.

pub(crate) mod ort;
pub(crate) mod tract;
