//! The only place where ONNX becomes tract's: for [`Session`](crate::Session), for
//! [`model_for_path`], and for the command.
//!
//! A model is checked, brought into a form that tract reads (`source`), completed (`adapt`), looked
//! through for what tract lacks (`lacking`), and parsed with operators whose outputs are bounded
//! (`bounded`, `register`). Its large constants become tensors once (`weights`).

pub(crate) mod adapt;
pub(crate) mod bounded;
pub(crate) mod inference;
mod lacking;
mod mixed;
mod register;
mod seen;
mod source;
mod weights;

use std::path::Path;

use tract_onnx::prelude::*;

use crate::{LoadOptions, fence};

pub(crate) use source::Source;

/// Reads the ONNX model in a file, with all operators that [`register`](crate::register) adds, in
/// the form that tract reads.
///
/// tract itself does not read models with functions, an `If` whose branches differ, a `Scan` of
/// opset 8, and several other forms of ONNX; [`revseq_rewrite::for_tract`] brings them into its
/// form. Types that the model declares for values between its nodes are ignored: they may be stale,
/// and tract infers its own.
///
/// This is for pipelines that go on with tract's own model; a [`Session`](crate::Session) opens and
/// runs a model in two calls.
///
/// ```no_run
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let model = revseq_tract::model_for_path("bidirectional.onnx")?;
/// let model = revseq_tract::into_optimized(model.into_typed()?)?.into_runnable()?;
/// let outputs = model.run(tvec!(Tensor::zero::<f32>(&[1, 7, 3])?.into()))?;
/// # Ok(())
/// # }
/// ```
///
/// tract may panic in the steps that follow: where it types, optimises or runs what it does not expect.
/// A session returns these panics as errors; a program that reads models of others does as well to
/// call them in [`catch_unwind`](std::panic::catch_unwind).
///
/// # Errors
/// The file is not a model, or tract does not support it, or panics while it reads it.
pub fn model_for_path(path: impl AsRef<Path>) -> TractResult<InferenceModel> {
    LoadOptions::new().model_for_path(path)
}

/// Reads an encoded ONNX model; like [`model_for_path`], without external data.
///
/// # Errors
/// As those of [`model_for_path`].
pub fn model_for_bytes(bytes: &[u8]) -> TractResult<InferenceModel> {
    LoadOptions::new().model_for_bytes(bytes)
}

impl LoadOptions {
    /// Reads the ONNX model in a file, as [`model_for_path`] does, whose nodes get these options.
    ///
    /// # Errors
    /// As those of [`model_for_path`].
    pub fn model_for_path(&self, path: impl AsRef<Path>) -> TractResult<InferenceModel> {
        let source = Source::open(path.as_ref())?;
        fence::catch(|| source.parse(self.template(), |_| Ok(())))
    }

    /// Reads an encoded ONNX model; like [`model_for_path`](Self::model_for_path), without external data.
    ///
    /// # Errors
    /// As those of [`model_for_path`].
    pub fn model_for_bytes(&self, bytes: &[u8]) -> TractResult<InferenceModel> {
        let source = Source::decode(bytes)?;
        fence::catch(|| source.parse(self.template(), |_| Ok(())))
    }
}
