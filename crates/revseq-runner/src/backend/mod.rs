//! The runtimes that models run on.

pub(crate) mod gpu;
pub(crate) mod ort;
pub(crate) mod tract;
