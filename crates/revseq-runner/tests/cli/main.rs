//! The binary as its users meet it.

mod bench;
mod common;
mod gpu;
mod hostile;
mod inspect;
mod ort;
mod run;
mod tensors;
mod verify;
