//! Other runtimes that have the operator, to compare with.
//!
//! Regimes that a runtime does not support (an
//! element type, axes beyond the first two) are left out for it.

mod model;
mod onnxruntime;
#[cfg(feature = "rten")]
mod rten;

use onnxruntime::Onnxruntime;

use std::ffi::OsString;

use crate::buffer::Buffer;
use crate::{Contestant, Error, Regime};

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
    /// Those that there are: the ONNX Runtime that `ORT_DYLIB_PATH` names, and rten with its feature.
    ///
    /// # Errors
    /// If ONNX Runtime does not load.
    pub fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let library = std::env::var_os("ORT_DYLIB_PATH");
        Self::with_onnxruntime(library.filter(|path| !path.is_empty()))
    }

    /// The same, with the ONNX Runtime of a library.
    pub(crate) fn with_onnxruntime(
        library: Option<OsString>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut peers = Self::default();
        #[cfg(feature = "rten")]
        peers.0.push(Box::new(rten::Rten));
        if let Some(path) = library {
            let environment = ort::init_from(&path)?.with_telemetry(false).build()?;
            peers.0.push(Box::new(Onnxruntime(environment)));
        }
        Ok(peers)
    }

    /// Whether a runtime is there.
    pub(crate) fn has(&self, contestant: Contestant) -> bool {
        self.0.iter().any(|it| it.contestant() == contestant)
    }

    /// Whether a runtime is there and takes a regime.
    pub(crate) fn takes(&self, contestant: Contestant, regime: &Regime) -> bool {
        let mut own = self.0.iter().filter(|it| it.contestant() == contestant);
        own.any(|it| it.takes(regime))
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
