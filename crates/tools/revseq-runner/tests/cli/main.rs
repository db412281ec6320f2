//! The binary as its users meet it.

mod bench;
mod checker;
mod common;
mod compare;
#[cfg(unix)]
mod files;
mod forms;
mod hostile;
mod inspect;
mod made_up;
#[cfg(target_os = "linux")]
mod memory;
mod names;
mod options;
mod ort;
mod random;
mod random_conditions;
mod random_loads;
mod random_loops;
mod random_maps;
mod random_provider;
mod random_quantized;
mod random_rewrites;
mod random_unrolled;
mod rewrite;
mod rewrite_output;
mod run;
mod sequence_lens;
mod sessions;
mod settings;
#[cfg(unix)]
mod signals;
mod sizes;
mod snapshot;
mod tensors;
mod verify;
