//! Measures the kernels and their competitors beside a copy of the same bytes.
//!
//! Reversing sequences moves bytes and computes nothing, so a copy of the same
//! bytes is as fast as it can get: the [`floor`]. [`regimes`] are the measured
//! shapes, a [`Case`] is a prepared regime, [`timing`] alternates between the
//! contestants, and [`table`] shows their times as multiples of the floor.

#![deny(unsafe_code)]

mod buffer;
mod case;
mod contestant;
mod error;
pub mod floor;
pub mod peers;
mod plain;
mod regime;
pub mod table;
pub mod timing;

pub use case::{Arena, Case};
pub use contestant::Contestant;
pub use error::Error;
pub use regime::{Kind, LARGE, Lengths, Regime, regimes};
