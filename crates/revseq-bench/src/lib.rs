//! Measures the kernels and their competitors beside a copy of the same bytes.
//!
//! Reversing sequences moves bytes and computes nothing, so a copy of the same
//! bytes is as fast as it can get: the [`floor`]. [`regimes`] are the measured
//! shapes, a [`Case`] is a prepared regime, [`timing`] alternates between the
//! contestants, and a [`Report`] has the figures.
//!
//! Both `revseq bench` and the Criterion benchmarks use it.

#![deny(unsafe_code)]

mod buffer;
mod case;
mod contestant;
mod error;
pub mod floor;
mod machine;
mod moment;
pub mod peers;
mod plain;
mod regime;
pub mod render;
mod report;
pub mod timing;

pub use case::{Arena, Case};
pub use contestant::Contestant;
pub use error::Error;
pub use machine::Machine;
pub use moment::Moment;
pub use regime::{Kind, LARGE, Lengths, Regime, regimes};
pub use report::{Measurement, Report, Row, report, select};
