//! The kernels, a file or a folder each: all that moves rows.

pub(crate) mod blended_lines;
pub(crate) mod columns;
pub(crate) mod long_lines;
pub(crate) mod long_rows;
pub(crate) mod scalar;
pub(crate) mod short_rows;
pub(crate) mod shuffle_rows;
pub(crate) mod sub_vector_lines;
