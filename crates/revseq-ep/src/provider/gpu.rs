//! Nodes on a GPU, if a session asks for one.
//!
//! The tensors stay the host's: each run uploads its data and reads the result
//! back. A library without the feature `gpu` has none and says so.

#[cfg(not(feature = "gpu"))]
use std::convert::Infallible;
use std::fmt;

#[cfg(feature = "gpu")]
use revseq_kernels::gpu::{self, Context, ContextOptions};
use revseq_kernels::{Device, Plan, SequenceLengths};

use super::error::Error;
#[cfg(feature = "gpu")]
use crate::plugin::pin;

/// A GPU, opened for a session.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    #[cfg(feature = "gpu")]
    context: Context,
    #[cfg(not(feature = "gpu"))]
    none: Infallible,
}

/// A plan on a GPU.
#[cfg(feature = "gpu")]
pub(crate) type Pass = gpu::ReverseSubsequencesPass;
/// Nothing is of this type.
#[cfg(not(feature = "gpu"))]
pub(crate) type Pass = Infallible;

impl Gpu {
    /// Opens the GPU that a device is; the CPU is none.
    ///
    /// # Errors
    /// There is no such adapter, it gives no device, or there are no GPUs at all.
    pub(crate) fn open(device: &Device) -> Result<Option<Self>, Error> {
        match device.clone() {
            Device::Cpu => Ok(None),
            #[cfg(not(feature = "gpu"))]
            device => Err(Error::BuiltWithoutGpu { device }),
            #[cfg(feature = "gpu")]
            Device::Gpu(choice) => {
                // Drivers have threads, and clean up when the process ends.
                pin::library();
                let mut options = ContextOptions::default();
                options.adapter = choice;
                let context = Context::new(&options).map_err(|source| Error::OpenGpu {
                    device: device.clone(),
                    source,
                })?;
                Ok(Some(Self { context }))
            }
        }
    }

    /// A plan on this GPU.
    pub(crate) fn pass(&self, plan: &Plan) -> Result<Pass, Error> {
        #[cfg(feature = "gpu")]
        return Ok(Pass::new(&self.context, plan)?);
        #[cfg(not(feature = "gpu"))]
        match (self.none, plan) {}
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "gpu")]
        return self.context.adapter().fmt(f);
        #[cfg(not(feature = "gpu"))]
        match (self.none, f) {}
    }
}

/// Runs a plan, in place if there is no input.
pub(crate) fn run(
    pass: &Pass,
    lengths: &SequenceLengths<'_>,
    input: Option<&[u8]>,
    output: &mut [u8],
) -> Result<(), Error> {
    #[cfg(feature = "gpu")]
    return match input {
        Some(input) => gpu::run(pass, lengths, input, output),
        None => gpu::run_in_place(pass, lengths, output),
    }
    .map_err(Error::from);
    #[cfg(not(feature = "gpu"))]
    match (*pass, lengths, input, output) {}
}
