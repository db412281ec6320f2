//! Tolerances for the outputs of a model.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::inputs::list;
use crate::cli::ToleranceArguments;
use crate::model::values::ValueType;
use crate::model::{Bindings, Model, walk};
use crate::tensor::compare::Tolerance;
use crate::tensor::element::is_float;

/// The operators whose results are exact: they move or select elements, flip a
/// sign, or round as IEEE 754 specifies. All others compute.
const EXACT: [&str; 44] = [
    "Abs",
    "And",
    "Cast",
    "CastLike",
    "Compress",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "DepthToSpace",
    "Equal",
    "Expand",
    "EyeLike",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "If",
    "Less",
    "LessOrEqual",
    "Loop",
    "Neg",
    "NonZero",
    "Not",
    "OneHot",
    "Or",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "ReverseSubsequences",
    "Scan",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
    "Xor",
];

/// The tolerance of each output.
pub(super) struct Tolerances<'a> {
    given: &'a ToleranceArguments,
    /// The tolerance of outputs that have no specific one.
    default: Tolerance,
}

impl<'a> Tolerances<'a> {
    /// The tolerances of a model's outputs.
    ///
    /// # Errors
    /// One is given for an output that there is not.
    pub(super) fn new(given: &'a ToleranceArguments, model: &Model) -> Result<Self> {
        let default = match is_exact(model)? {
            true => Tolerance::Exact,
            false => Tolerance::Computed,
        };
        Self::with_default(given, model, default)
    }

    /// The same, with another default than the model's.
    ///
    /// # Errors
    /// One is given for an output that there is not.
    pub(super) fn with_default(
        given: &'a ToleranceArguments,
        model: &Model,
        default: Tolerance,
    ) -> Result<Self> {
        let outputs = model.output_names();
        for name in given.names() {
            ensure!(
                outputs.iter().any(|output| output == name),
                "there is no output {name:?} to set a tolerance for; the outputs are {}",
                list(&outputs)
            );
        }
        Ok(Self { given, default })
    }

    /// The tolerance of an output: given on the command line, or recorded.
    pub(super) fn of(&self, output: &str, recorded: &BTreeMap<String, Tolerance>) -> Tolerance {
        let recorded = || recorded.get(output).copied();
        self.given
            .of(output)
            .or_else(recorded)
            .unwrap_or(self.default)
    }
}

/// Whether every output has to be the expected one bit for bit.
pub(crate) fn is_exact(model: &Model) -> Result<bool> {
    let mut exact = true;
    walk::walk(model, &Bindings::new(), |site| {
        let integral = || {
            let mut types = site.outputs.iter().map(ValueType::known_element_type);
            types.all(|it| it.is_some_and(|it| !is_float(it)))
        };
        if !site.is_call && !EXACT.contains(&site.node.op()) && !integral() {
            exact = false;
        }
    })?;
    Ok(exact)
}
