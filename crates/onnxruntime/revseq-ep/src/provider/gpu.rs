//! Nodes on a GPU, if a session asks for one.
//!
//! The tensors stay in host memory: each run uploads its data and reads the
//! result back. A library without the feature `gpu` returns an error.

#[cfg(not(feature = "gpu"))]
use std::convert::Infallible;
use std::fmt;

#[cfg(feature = "gpu")]
use revseq_kernels::gpu::{self, Context, ContextOptions};
use revseq_kernels::{Device, Plan, SequenceLengths};

use super::error::Error;

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
/// An uninhabited type.
#[cfg(not(feature = "gpu"))]
pub(crate) type Pass = Infallible;

impl Gpu {
    /// Opens the GPU of a device. `None` for the CPU.
    ///
    /// # Errors
    /// If there is no such adapter, it has no device, or GPU support was not built.
    pub(crate) fn open(device: &Device) -> Result<Option<Self>, Error> {
        match device.clone() {
            Device::Cpu => Ok(None),
            #[cfg(not(feature = "gpu"))]
            device => Err(Error::BuiltWithoutGpu { device }),
            #[cfg(feature = "gpu")]
            Device::Gpu(choice) => {
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

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use revseq_kernels::{DataType, LengthsPolicy, ReverseSubsequencesDesc};

    use super::*;

    #[test]
    fn a_gpu_that_is_lost_is_an_error() {
        let device: Device = "gpu:software".parse().unwrap();
        let gpu = match Gpu::open(&device) {
            Ok(gpu) => gpu.unwrap(),
            Err(error) => {
                revseq_skips::skip("a_gpu_that_is_lost_is_an_error", &error.to_string());
                return;
            }
        };
        let desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &[2, 3], DataType::Int64, 1);
        let plan = Plan::new(&desc).unwrap();
        let lengths = SequenceLengths::new(&plan, &[3_i64, 2], LengthsPolicy::Reject).unwrap();
        let pass = gpu.pass(&plan).unwrap();
        let mut data = [0, 1, 2, 3, 4, 5];
        run(&pass, &lengths, None, &mut data).unwrap();
        assert_eq!(data, [2, 1, 0, 4, 3, 5]);

        gpu.context.device().destroy();
        for input in [None, Some(&[0; 6][..])] {
            let error = run(&pass, &lengths, input, &mut data).unwrap_err();
            assert!(error.to_string().contains("the device is lost"), "{error}");
        }
    }
}
