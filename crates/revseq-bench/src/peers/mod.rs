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

/// The runtimes to compare with: none by default.
#[derive(Default)]
pub struct Peers {
    #[cfg(feature = "ort")]
    onnxruntime: Option<Onnxruntime>,
    #[cfg(feature = "rten")]
    rten: bool,
}

impl Peers {
    /// Adds an ONNX Runtime that is loaded.
    #[cfg(feature = "ort")]
    #[must_use]
    pub fn with_onnxruntime(mut self, onnxruntime: Onnxruntime) -> Self {
        self.onnxruntime = Some(onnxruntime);
        self
    }

    /// Adds rten.
    #[cfg(feature = "rten")]
    #[must_use]
    pub fn with_rten(mut self) -> Self {
        self.rten = true;
        self
    }

    /// The runtimes that are available.
    #[must_use]
    pub fn contestants(&self) -> Vec<Contestant> {
        #[cfg_attr(
            not(any(feature = "ort", feature = "rten")),
            expect(unused_mut, reason = "no runtime is compiled in")
        )]
        let mut contestants = Vec::new();
        #[cfg(feature = "ort")]
        if self.onnxruntime.is_some() {
            contestants.push(Contestant::Onnxruntime);
        }
        #[cfg(feature = "rten")]
        if self.rten {
            contestants.push(Contestant::Rten);
        }
        contestants
    }

    /// Whether a runtime is there and takes a regime.
    #[cfg_attr(
        not(any(feature = "ort", feature = "rten")),
        expect(unused_variables, reason = "no runtime is compiled in")
    )]
    pub(crate) fn takes(&self, contestant: Contestant, regime: &Regime) -> bool {
        match contestant {
            #[cfg(feature = "ort")]
            Contestant::Onnxruntime => self.onnxruntime.is_some() && onnxruntime::takes(regime),
            #[cfg(feature = "rten")]
            Contestant::Rten => self.rten && rten::takes(regime),
            _ => false,
        }
    }

    /// Notes their versions.
    #[cfg_attr(
        not(any(feature = "ort", feature = "rten")),
        expect(unused_variables, reason = "no runtime is compiled in")
    )]
    pub(crate) fn describe(&self, machine: &mut Machine) {
        #[cfg(feature = "ort")]
        if let Some(runtime) = &self.onnxruntime {
            machine.onnxruntime = Some(runtime.version().to_owned());
        }
        #[cfg(feature = "rten")]
        if self.rten {
            machine.rten = Some(rten::VERSION.to_owned());
        }
    }

    /// The number of tensors of a regime's size that they hold as inputs and outputs.
    pub(crate) fn tensors(&self) -> usize {
        let own = self
            .contestants()
            .into_iter()
            .map(|contestant| match contestant {
                // Its output alone.
                Contestant::Rten => 1,
                _ => 2,
            });
        own.sum()
    }

    /// Makes each ready that takes the regime.
    #[cfg_attr(
        not(any(feature = "ort", feature = "rten")),
        expect(unused_variables, reason = "no runtime is compiled in")
    )]
    pub(crate) fn prepare(
        &self,
        regime: Regime,
        input: &Buffer,
        lengths: &[i64],
    ) -> Result<PeerRuns, Error> {
        Ok(PeerRuns {
            #[cfg(feature = "ort")]
            onnxruntime: match &self.onnxruntime {
                Some(runtime) if onnxruntime::takes(&regime) => {
                    Some(runtime.prepare(regime, input.bytes(), lengths)?)
                }
                _ => None,
            },
            #[cfg(feature = "rten")]
            rten: match self.rten && rten::takes(&regime) {
                true => Some(rten::LoadedModel::new(regime, lengths)?),
                false => None,
            },
        })
    }
}

/// The runtimes that take a regime, ready to run it.
pub(crate) struct PeerRuns {
    #[cfg(feature = "ort")]
    onnxruntime: Option<onnxruntime::BoundSession>,
    #[cfg(feature = "rten")]
    rten: Option<rten::LoadedModel>,
}

impl PeerRuns {
    /// Runs one a number of times; nothing if it is not there.
    pub(crate) fn run(
        &mut self,
        contestant: Contestant,
        regime: Regime,
        input: &[u8],
        repeats: u64,
    ) -> Result<(), Error> {
        #[cfg(not(feature = "rten"))]
        let _ = input;
        #[cfg(not(any(feature = "ort", feature = "rten")))]
        let _ = (regime, repeats);
        match contestant {
            #[cfg(feature = "ort")]
            Contestant::Onnxruntime => match &mut self.onnxruntime {
                Some(prepared) => prepared.run(regime, repeats),
                None => Ok(()),
            },
            #[cfg(feature = "rten")]
            Contestant::Rten => match &mut self.rten {
                Some(prepared) => prepared.run(regime, input, repeats),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The bytes of a contestant's last output; empty if the runtime is absent.
    pub(crate) fn output(&self, contestant: Contestant, regime: Regime) -> Result<&[u8], Error> {
        #[cfg(not(any(feature = "ort", feature = "rten")))]
        let _ = regime;
        match contestant {
            #[cfg(feature = "ort")]
            Contestant::Onnxruntime => match &self.onnxruntime {
                Some(prepared) => prepared.output(regime),
                None => Ok(&[]),
            },
            #[cfg(feature = "rten")]
            Contestant::Rten => match &self.rten {
                Some(prepared) => prepared.output(regime),
                None => Ok(&[]),
            },
            _ => Ok(&[]),
        }
    }
}
