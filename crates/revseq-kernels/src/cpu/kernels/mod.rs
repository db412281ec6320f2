//! The kernels, a file or a folder each: all that moves rows.

pub(crate) mod columns;
pub(crate) mod elements;
pub(crate) mod long_rows;
pub(crate) mod scalar;
pub(crate) mod short_rows;
pub(crate) mod shuffle_rows;
