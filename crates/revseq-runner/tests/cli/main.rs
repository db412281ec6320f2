//! The binary as its users meet it.

#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "rewrite")]
mod checker;
mod common;
mod compare;
#[cfg(all(unix, feature = "bench", feature = "rewrite"))]
mod files;
mod forms;
mod gpu;
mod hostile;
mod inspect;
#[cfg(not(all(feature = "bench", feature = "gpu")))]
mod left_out;
#[cfg(all(target_os = "linux", feature = "rewrite"))]
mod memory;
#[cfg(feature = "rewrite")]
mod names;
mod options;
mod ort;
#[cfg(feature = "rewrite")]
mod random_conditions;
mod random_loops;
#[cfg(feature = "rewrite")]
mod random_rewrites;
mod rewrite;
#[cfg(feature = "rewrite")]
mod rewrite_output;
mod run;
mod settings;
mod sizes;
mod snapshot;
mod tensors;
mod verify;
