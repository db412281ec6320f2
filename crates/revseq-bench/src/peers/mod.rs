//! Other runtimes that have the operator, to compare with.
//!
//! Each is a feature of this crate. Regimes that a runtime does not support (an
//! element type, axes beyond the first two) are left out for it.

#[cfg(any(feature = "ort", feature = "rten"))]
mod model;
#[cfg(feature = "ort")]
mod onnxruntime;
#[cfg(feature = "rten")]
mod rten;

#[cfg(feature = "ort")]
pub use onnxruntime::Onnxruntime;

use crate::buffer::Buffer;
use crate::{Contestant, Error, Machine, Regime};

/// The message of a runtime's error.
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A runtime.
trait Runtime {
    fn contestant(&self) -> Contestant;

    /// Whether it takes a regime.
    fn takes(&self, regime: &Regime) -> bool;

    /// The number of tensors of a regime's size that it holds as inputs and outputs.
    fn tensors(&self) -> usize;

    /// Notes its version.
    fn describe(&self, machine: &mut Machine);

    /// Makes it ready for a regime that it takes.
    fn prepare(
        &self,
        regime: &Regime,
        input: &[u8],
        lengths: &[i64],
    ) -> Result<Box<dyn Prepared>, Failure>;
}

/// A runtime that is ready for a regime.
trait Prepared {
    fn run(&mut self, input: &[u8], repeats: u64) -> Result<(), Failure>;

    /// The bytes of the last output.
    fn output(&self) -> Result<&[u8], Failure>;
}

/// The runtimes to compare with: none by default.
#[derive(Default)]
pub struct Peers(Vec<Box<dyn Runtime>>);

impl Peers {
    /// Adds an ONNX Runtime that is loaded.
    #[cfg(feature = "ort")]
    #[must_use]
    pub fn with_onnxruntime(mut self, onnxruntime: Onnxruntime) -> Self {
        self.0.push(Box::new(onnxruntime));
        self
    }

    /// Adds rten.
    #[cfg(feature = "rten")]
    #[must_use]
    pub fn with_rten(mut self) -> Self {
        self.0.push(Box::new(rten::Rten));
        self
    }

    /// Whether a runtime is there and takes a regime.
    pub(crate) fn takes(&self, contestant: Contestant, regime: &Regime) -> bool {
        let mut own = self.0.iter().filter(|it| it.contestant() == contestant);
        own.any(|it| it.takes(regime))
    }

    /// Notes their versions.
    pub(crate) fn describe(&self, machine: &mut Machine) {
        self.0.iter().for_each(|it| it.describe(machine));
    }

    /// The number of tensors of a regime's size that they hold as inputs and outputs.
    pub(crate) fn tensors(&self) -> usize {
        self.0.iter().map(|it| it.tensors()).sum()
    }

    /// Makes each ready that takes the regime.
    pub(crate) fn prepare(
        &self,
        regime: Regime,
        input: &Buffer,
        lengths: &[i64],
    ) -> Result<PeerRuns, Error> {
        let mut runs = Vec::new();
        for runtime in self.0.iter().filter(|it| it.takes(&regime)) {
            let contestant = runtime.contestant();
            let prepared = runtime.prepare(&regime, input.bytes(), lengths);
            runs.push((contestant, prepared.map_err(failed(&regime, contestant))?));
        }
        Ok(PeerRuns { regime, runs })
    }
}

/// The runtimes that take a regime, ready to run it.
pub(crate) struct PeerRuns {
    regime: Regime,
    runs: Vec<(Contestant, Box<dyn Prepared>)>,
}

impl PeerRuns {
    /// Runs one a number of times; nothing if it is not there.
    pub(crate) fn run(
        &mut self,
        contestant: Contestant,
        input: &[u8],
        repeats: u64,
    ) -> Result<(), Error> {
        match self.runs.iter_mut().find(|(it, _)| *it == contestant) {
            Some((_, prepared)) => {
                let ran = prepared.run(input, repeats);
                ran.map_err(failed(&self.regime, contestant))
            }
            None => Ok(()),
        }
    }

    /// The bytes of a contestant's last output; empty if the runtime is absent.
    pub(crate) fn output(&self, contestant: Contestant) -> Result<&[u8], Error> {
        match self.runs.iter().find(|(it, _)| *it == contestant) {
            Some((_, prepared)) => {
                let output = prepared.output();
                output.map_err(failed(&self.regime, contestant))
            }
            None => Ok(&[]),
        }
    }
}

/// The error of a runtime in a regime.
fn failed(regime: &Regime, contestant: Contestant) -> impl FnOnce(Failure) -> Error {
    move |Failure(message)| Error::Peer {
        regime: regime.to_string(),
        contestant,
        message,
    }
}
