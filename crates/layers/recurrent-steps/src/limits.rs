//! What a run may take.

use crate::elements::Lane;
use crate::error::{Error, values};
use crate::plan::{Buffer, Source};

/// Limits of a run, whose loop may be endless; by default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most steps.
    pub steps: Option<u64>,
    /// The most bytes of memory that the run makes, its outputs included.
    pub bytes: Option<u64>,
    /// The most programs that the run makes: a step that no other is like has one of its own, which takes far
    /// longer to make than to run. Those that earlier runs made do not count; a loop has too many at last, and runs
    /// no more within this limit.
    pub programs: Option<usize>,
}

impl Limits {
    /// Checks the steps of a run, before they run.
    pub(crate) fn allow_steps(self, steps: usize) -> Result<(), Error> {
        match self.steps {
            Some(limit) if steps as u64 > limit => Err(Error::Steps { limit }),
            _ => Ok(()),
        }
    }

    /// Checks the programs that a run has made, before another one.
    pub(crate) fn allow_another(self, made: usize) -> Result<(), Error> {
        match self.programs {
            Some(limit) if made >= limit => values(format!("more than {limit} programs")),
            _ => Ok(()),
        }
    }

    /// Checks the bytes of a run, before they are allocated.
    pub(crate) fn allow_bytes(self, bytes: u64) -> Result<(), Error> {
        match self.bytes {
            Some(limit) if bytes > limit => Err(Error::Bytes { bytes, limit }),
            _ => Ok(()),
        }
    }
}

/// The bytes of so many numbers.
pub(crate) fn bytes(lane: Lane, len: usize) -> u64 {
    let width = match lane {
        Lane::Float => 4,
        Lane::Int => 8,
    };
    (len as u64).saturating_mul(width)
}

/// The bytes of the buffers that a run makes.
pub(crate) fn bytes_of(buffers: &[Buffer]) -> u64 {
    let made = buffers.iter().filter(|buffer| match buffer.source {
        Source::Program | Source::Collected(_) => true,
        Source::Data(..) | Source::Input(_) => false,
    });
    let bytes = made.map(|buffer| bytes(buffer.lane, buffer.len));
    bytes.fold(0, u64::saturating_add)
}
