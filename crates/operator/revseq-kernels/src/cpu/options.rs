//! The options of a run.

use super::Threads;
use crate::simd_level::SimdLevel;

/// Options of a run: its threads and its instructions.
///
/// They are made [from](From) [`Threads`], so that a run takes these as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    pub(crate) threads: Threads<'a>,
    simd: Option<SimdLevel>,
}

impl Options<'_> {
    /// Uses the instructions of a level, or of the highest one below it that the CPU has,
    /// in place of [`SimdLevel::current`]'s.
    #[must_use]
    pub fn with_simd_level(mut self, level: SimdLevel) -> Self {
        self.simd = Some(level.or_lower());
        self
    }

    /// The instructions of the run, which the CPU has.
    pub(crate) fn simd(&self) -> SimdLevel {
        self.simd.unwrap_or_else(SimdLevel::current)
    }
}

impl<'a> From<Threads<'a>> for Options<'a> {
    fn from(threads: Threads<'a>) -> Self {
        let simd = None;
        Self { threads, simd }
    }
}
