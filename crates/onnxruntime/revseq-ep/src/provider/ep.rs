//! The provider of a session, as its kernels see it.

use std::ffi::CString;
use std::sync::Arc;

use super::layers::{Taken, TakenLayers};
use super::loops::Claims;
use super::options::Options;
use super::report::Report;
use crate::plugin::log::Log;
use crate::plugin::runs::Runs;
use crate::plugin::session::Around;

/// The provider of one session.
pub(crate) struct Ep {
    pub(super) options: Options,
    pub(super) log: Log,
    /// The runs in progress, if kernels or inner sessions ask for them.
    pub(super) runs: Arc<Runs>,
    /// The layers that were taken.
    pub(super) layers: TakenLayers,
    /// The loops that were taken.
    pub(super) loops: Claims,
    /// What became of the nodes.
    pub(super) report: Report,
    /// What inner sessions have of the session, if there may be any.
    pub(super) around: Option<Around>,
}

impl Ep {
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The layer that a node which was taken is, by its outputs.
    pub(super) fn layer(&self, outputs: &[CString]) -> Option<Taken> {
        self.layers.get(outputs)
    }

    pub(crate) fn log(&self) -> Log {
        self.log
    }

    pub(super) fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }
}
