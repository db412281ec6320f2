//! Options for loading that a model does not contain.
//!
//! A model's [template](crate::template) has them. A parser stores what it finds in its operator.

use tract_onnx::model::ParsingContext;
use tract_onnx::tract_hir::internal::*;

use crate::{Limits, template};

/// The key of the options in a template.
const KEY: &str = "revseq_tract_operators.options";

/// Policy for sequence lengths of LSTM, GRU and RNN that are negative or above the number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LengthsPolicy {
    /// An error, as in ONNX Runtime: of the run, or of loading if the length is a constant.
    #[default]
    Reject,
    /// The number of steps, or 0 if the length is negative.
    Clamp,
}

/// Options for the nodes of ONNX models.
///
/// tract registers plain functions, which cannot hold options; the template of a model
/// [hands](Self::template) them on.
///
/// ```no_run
/// use revseq_tract_operators::{LengthsPolicy, Limits, LoadOptions};
/// use tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut onnx = tract_onnx::onnx();
/// revseq_tract_operators::register(&mut onnx);
/// let options = LoadOptions::new()
///     .with_lengths(LengthsPolicy::Clamp)
///     .with_limits(Limits::none().with_steps(100_000).with_bytes(1 << 30));
/// let model = onnx.proto_model_for_path("decoder.onnx")?;
/// let model = onnx.model_for_proto_model_with_model_template(&model, options.template())?;
/// let model = model.into_optimized()?.into_runnable()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadOptions {
    pub(crate) limits: Limits,
    pub(crate) lengths: LengthsPolicy,
    pub(crate) programs: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LoadOptions {
    /// Returns the defaults: there are no limits, and lengths out of range are rejected.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            limits: Limits::none(),
            lengths: LengthsPolicy::Reject,
            programs: true,
        }
    }

    /// Bounds all loops. A run that exceeds the limits fails.
    #[must_use]
    pub const fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the policy for sequence lengths out of range.
    #[must_use]
    pub const fn with_lengths(self, lengths: LengthsPolicy) -> Self {
        Self { lengths, ..self }
    }

    /// Sets whether loops run as [programs](crate::How::Program) where they can, which is the default.
    #[must_use]
    pub const fn with_programs(self, programs: bool) -> Self {
        Self { programs, ..self }
    }

    /// Returns an empty model as a template: the nodes of a model that is made of it get these options.
    #[must_use]
    pub fn template(self) -> InferenceModel {
        let mut template = InferenceModel::default();
        template::hand(&mut template, KEY, self);
        template
    }

    /// The options of a node that is parsed.
    pub(crate) fn of(context: &ParsingContext<'_>) -> Self {
        template::handed(context, KEY).copied().unwrap_or_default()
    }
}
