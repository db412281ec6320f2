//! The errors of a GPU.

use super::AdapterChoice;
use crate::Tensor;

/// An error of the GPU kernels, with the values that caused it and those that would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan, the lengths or a buffer's size: as on the CPU.
    #[error(transparent)]
    Operator(#[from] crate::Error),
    /// No adapter is the one asked for.
    #[error("no {wanted} adapter; found {}", list(found))]
    NoAdapter {
        /// The requested adapter.
        wanted: AdapterChoice,
        /// The adapters that there are, as [`AdapterInfo`](super::AdapterInfo) prints them.
        found: Vec<String>,
    },
    /// The adapter returned no device.
    #[error("{adapter}: no device: {reason}")]
    NoDevice {
        /// The adapter, as [`AdapterInfo`](super::AdapterInfo) prints it.
        adapter: String,
        /// The driver's message.
        reason: String,
    },
    /// The device is lost; a new context may get another one.
    #[error("the device is lost: {reason}")]
    DeviceLost {
        /// The driver's message.
        reason: String,
    },
    /// The device has not enough memory.
    #[error("the device has not enough memory for {action}")]
    OutOfMemory {
        /// The action that failed.
        action: &'static str,
    },
    /// The device refused a command.
    #[error("{action}: {reason}")]
    Validation {
        /// The action that failed.
        action: &'static str,
        /// Reason in wgpu's words.
        reason: String,
    },
    /// A tensor does not start at a multiple of 4 bytes in its buffer.
    #[error("{tensor}: starts at byte {offset} of its buffer, expected a multiple of {alignment}")]
    MisalignedOffset {
        /// The tensor.
        tensor: Tensor,
        /// The byte of the buffer at which it starts.
        offset: u64,
        /// The required alignment.
        alignment: u64,
    },
    /// A buffer was made without a usage that is needed.
    #[error("{tensor}: a buffer with usages {actual:?}, expected {required:?}")]
    MissingUsage {
        /// The tensor.
        tensor: Tensor,
        /// The buffer's usages.
        actual: wgpu::BufferUsages,
        /// The usages that are required.
        required: wgpu::BufferUsages,
    },
    /// The tensor that is written overlaps one that is read.
    #[error(
        "{tensor}: bytes {start} to {end} of its buffer, which overlap those of {written} \
         ({written_start} to {written_end})"
    )]
    Overlap {
        /// The tensor that is read.
        tensor: Tensor,
        /// Its first byte in the buffer.
        start: u64,
        /// Its end in the buffer.
        end: u64,
        /// The tensor that is written, in the same buffer.
        written: &'static str,
        /// Its first byte in the buffer.
        written_start: u64,
        /// Its end in the buffer.
        written_end: u64,
    },
    /// The device's limits leave no way to run this plan.
    #[error("{what}: {actual}, but here at most {maximum}")]
    UnsupportedSize {
        /// The thing that is too large.
        what: &'static str,
        /// The size found.
        actual: u64,
        /// The most that works.
        maximum: u64,
    },
}

fn list(found: &[String]) -> String {
    match found.is_empty() {
        true => "none".to_owned(),
        false => found.join("; "),
    }
}
