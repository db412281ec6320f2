//! This plugin: its execution provider, its custom op, and the kernel of both.

pub(crate) mod custom_op;
pub(crate) mod ep;
pub(crate) mod error;
pub(crate) mod factory;
pub(crate) mod gpu;
pub(crate) mod kernel;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod plans;
