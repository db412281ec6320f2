//! Nodes on a GPU, if a session asks for one.
//!
//! The tensors stay the host's: each run uploads its data and reads the result
//! back. A library without the feature `gpu` has none and says so.

#[cfg(not(feature = "gpu"))]
use std::convert::Infallible;
use std::fmt;

#[cfg(not(feature = "gpu"))]
use revseq_kernels::SequenceLengths;
#[cfg(feature = "gpu")]
use revseq_kernels::gpu::{self, Context, ContextOptions};
use revseq_kernels::{Device, Plan};

use super::error::Error;

/// A GPU, opened for a session.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    #[cfg(feature = "gpu")]
    context: Context,
    #[cfg(not(feature = "gpu"))]
    none: Pass,
}

/// A plan on a GPU.
#[cfg(feature = "gpu")]
pub(crate) type Pass = gpu::ReverseSubsequencesPass;
/// Nothing is of this type.
#[cfg(not(feature = "gpu"))]
pub(crate) type Pass = Infallible;

#[cfg(feature = "gpu")]
impl Gpu {
    /// Opens the GPU that a device is; the CPU is none.
    ///
    /// # Errors
    /// [`Error::OpenGpu`]: there is no such adapter, or it gives no device.
    pub(crate) fn open(device: &Device) -> Result<Option<Self>, Error> {
        let Device::Gpu(choice) = device else {
            return Ok(None);
        };
        // Drivers have threads, and clean up when the process ends.
        crate::plugin::pin::library();
        let mut options = ContextOptions::default();
        options.adapter = choice.clone();
        let context = Context::new(&options).map_err(|source| Error::OpenGpu {
            device: device.clone(),
            source,
        })?;
        Ok(Some(Self { context }))
    }

    /// A plan on this GPU.
    pub(crate) fn pass(&self, plan: &Plan) -> Result<Pass, Error> {
        Ok(Pass::new(&self.context, plan)?)
    }
}

#[cfg(feature = "gpu")]
pub(crate) use gpu::{run, run_in_place};

#[cfg(feature = "gpu")]
impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.adapter().fmt(f)
    }
}

#[cfg(not(feature = "gpu"))]
impl Gpu {
    pub(crate) fn open(device: &Device) -> Result<Option<Self>, Error> {
        match device {
            Device::Cpu => Ok(None),
            Device::Gpu(_) => Err(Error::BuiltWithoutGpu {
                device: device.clone(),
            }),
        }
    }

    pub(crate) fn pass(&self, _: &Plan) -> Result<Pass, Error> {
        match self.none {}
    }
}

#[cfg(not(feature = "gpu"))]
pub(crate) fn run(
    pass: &Pass,
    _: &SequenceLengths<'_>,
    _: &[u8],
    _: &mut [u8],
) -> Result<(), Infallible> {
    match *pass {}
}

#[cfg(not(feature = "gpu"))]
pub(crate) fn run_in_place(
    pass: &Pass,
    _: &SequenceLengths<'_>,
    _: &mut [u8],
) -> Result<(), Infallible> {
    match *pass {}
}

#[cfg(not(feature = "gpu"))]
impl fmt::Display for Gpu {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.none {}
    }
}
