//! The fuzz targets, as functions of bytes: a fuzzer calls them (`libfuzzer/`,
//! `cargo xtask fuzz`), and a test runs them on the corpus (`corpus/`).
//!
//! Each panics, or is killed, where something does not hold.

#[cfg(unix)]
mod arena;
#[cfg(feature = "runner")]
mod layers;
#[cfg(unix)]
mod operator;
mod provider;
mod recurrent;
#[cfg(feature = "runner")]
mod rewrite;
#[cfg(feature = "runner")]
mod tract;

#[cfg(unix)]
pub use operator::operator;
pub use provider::provider;
#[cfg(feature = "runner")]
pub use revseq_runner::fuzzing::{model, tensor as tensors};
#[cfg(feature = "runner")]
pub use rewrite::rewrite;
#[cfg(feature = "runner")]
pub use tract::tract;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// The functions, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    #[cfg(unix)]
    ("operator", operator),
    ("provider", provider),
    #[cfg(feature = "runner")]
    ("model", model),
    #[cfg(feature = "runner")]
    ("tensors", tensors),
    #[cfg(feature = "runner")]
    ("tract", tract),
    #[cfg(feature = "runner")]
    ("rewrite", rewrite),
];
