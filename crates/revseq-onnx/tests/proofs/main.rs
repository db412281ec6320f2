//! Proofs about sizes and conditions, against an interpreter.

mod conditions;
mod interpreter;
mod sizes;
