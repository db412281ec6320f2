//! Loops as programs, against what their formulas give.

mod common;
mod convolutions;
mod functions;
mod graphs;
mod layers;
mod matrices;
mod steps;
