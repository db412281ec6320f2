//! Products of matrices of 8-bit integers, for quantised models.
//!
//! ```text
//! product[row, column] = sum over k of (a[row, k] - zero of the row) * (b[k, column] - zero of the column)
//! ```
//!
//! Sums are of 32 bits and exact on every processor, but for wrapping around as ONNX Runtime's do.
//! A matrix on the left is packed as [`PackedRows`], one on the right as [`PackedColumns`]; each is
//! packed once if it is constant. A [`Sink`] takes the sums while they are in the cache.
//!
//! ```
//! use integer_products::{Bytes, Dense, Matrix, PackedColumns, PackedRows, ZeroPoints};
//!
//! let rows = PackedRows::pack(Matrix::dense(Bytes::U8(&[1, 2, 255, 128]), [2, 2]));
//! let columns = PackedColumns::pack(Matrix::dense(Bytes::I8(&[1, -128, 3, 4]), [2, 2]));
//! let zeros = ZeroPoints { rows: &[128], columns: &[0] };
//! let mut products = [0; 4];
//! columns.multiply(&rows, zeros, &mut Dense { elements: &mut products, columns: 2 });
//! assert_eq!(products, [-505, 15752, 127, -16256]);
//! ```

mod columns;
mod kernel;
mod matrix;
mod product;
mod rows;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use columns::PackedColumns;
pub use kernel::WIDTH;
pub use matrix::{Bytes, Matrix};
pub use product::{Dense, Sink, ZeroPoints};
pub use rows::PackedRows;
