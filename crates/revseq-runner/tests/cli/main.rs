//! The binary as its users meet it.

mod bench;
mod common;
mod hostile;
mod inspect;
mod ort;
mod run;
mod tensors;
mod verify;
