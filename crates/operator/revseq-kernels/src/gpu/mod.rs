//! The operator on a GPU, through [`wgpu`].
//!
//! A [`Context`] is a device; a [`ReverseSubsequencesPass`] is a
//! [`Plan`](crate::Plan) on it. A pipeline whose tensors live on the GPU records
//! the pass among its own ([`encode`](ReverseSubsequencesPass::encode)): nothing
//! is uploaded, read back or waited for. [`run`] and [`run_in_place`] do all of
//! that for slices on the host.
//!
//! ```no_run
//! use revseq_kernels::gpu::{self, Context, ContextOptions, ReverseSubsequencesPass};
//! use revseq_kernels::{DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths};
//!
//! let context = Context::new(&ContextOptions::default())?;
//! let desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &[3, 4], DataType::Uint32, 1);
//! let plan = Plan::new(&desc)?;
//! let pass = ReverseSubsequencesPass::new(&context, &plan)?;
//!
//! let lengths = SequenceLengths::new(&plan, &[2_u32, 4, 3], LengthsPolicy::Reject)?;
//! let mut data = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
//! gpu::run_in_place(&pass, &lengths, &mut data)?;
//! assert_eq!(data, [2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12]);
//! # Ok::<(), gpu::Error>(())
//! ```

#[cfg(target_endian = "big")]
compile_error!("the GPU kernels read 64-bit lengths as two words, the low one first");

mod adapter;
mod buffers;
mod context;
mod error;
mod host;
mod params;
mod pass;
mod shader;
mod slabs;
mod status;
mod sync;

pub use adapter::{AdapterChoice, AdapterInfo, adapters};
pub use buffers::LengthsSlice;
pub use context::{Context, ContextOptions};
pub use error::Error;
pub use host::{run, run_in_place};
pub use pass::{Bound, ReverseSubsequencesPass};
pub use status::STATUS_BYTES;

/// The version of wgpu whose types this module takes.
pub use wgpu;
