//! Reports, as people read them.

mod html;
mod markdown;
mod table;
mod text;

pub use html::html;
pub use markdown::markdown;
pub use text::text;

#[cfg(test)]
mod tests;
