//! Small models from text, and what random ones are drawn from.
//!
//! Each line of a graph is a node: `y, z = Split<axis=0;num_outputs=2>(x)`, with `_` for an omitted name.
//! An attribute is an integer, a float with a decimal point, a list of these or of strings in brackets,
//! the name of a graph, as `body=@body`, or a string, with or without quotes. An operator of another
//! domain follows its name and a dot, of which `microsoft` stands for `com.microsoft`. Whole graphs, with
//! constants and the graphs within, are read by [`text::graph`].

#![forbid(unsafe_code)]

pub mod draw;
pub mod text;
mod writer;

pub use writer::Writer;
