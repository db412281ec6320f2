//! Proofs about sizes and conditions, most of them against an interpreter.

mod conditions;
mod interpreter;
mod loops;
mod sizes;
