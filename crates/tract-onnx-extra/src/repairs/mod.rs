//! Passes and functions of tract, mended.

pub(crate) mod kernel;
pub(crate) mod optimize;
pub(crate) mod shapes;
