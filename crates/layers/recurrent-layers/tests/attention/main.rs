//! Operators of linear attention, against their definitions in doubles. One program, since each compiles all forms
//! of their states.

mod evenly;
#[path = "../given/mod.rs"]
mod given;
mod packed;
mod tensor;
