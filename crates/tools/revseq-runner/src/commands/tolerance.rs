//! Tolerances for the outputs of a model.

use anyhow::{Result, ensure};
use revseq_onnx::operators::{HalfFloats, Operator};

use super::inputs::list;
use crate::cli::ToleranceArguments;
use crate::model::values::ValueType;
use crate::model::{Bindings, Model, walk};
use crate::tensor::Tensor;
use crate::tensor::compare::{Difference, Tolerance, compare};
use crate::tensor::element::is_float;

/// The operators whose results are exact beside those that only move elements: they flip a sign, round as
/// IEEE 754 specifies, make constants, or run graphs. All others compute.
const EXACT: [&str; 10] = [
    "Abs",
    "Cast",
    "CastLike",
    "Constant",
    "ConstantOfShape",
    "EyeLike",
    "If",
    "Loop",
    "Neg",
    "Scan",
];

/// Whether an operator moves elements. Dropout and the Scatters compute, too, if they are asked to.
fn only_moves(operator: &str) -> bool {
    let moves = Operator::of(operator).is_some_and(|it| it.halves == HalfFloats::Moves);
    moves && operator != "Dropout" && !operator.starts_with("Scatter")
}

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
    pub(super) fn of(&self, output: &str, recorded: Option<Tolerance>) -> Tolerance {
        let given = self.given.of(output);
        given.or(recorded).unwrap_or(self.default)
    }

    /// The outputs that differ from the expected ones, by name.
    pub(super) fn differences(
        &self,
        names: &[String],
        expected: &[Tensor],
        got: &[Tensor],
    ) -> Vec<(String, Difference)> {
        let outputs = std::iter::zip(names, std::iter::zip(expected, got));
        let different = outputs.filter_map(|(name, (expected, got))| {
            let difference = compare(expected, got, self.of(name, None)).err()?;
            Some((name.clone(), difference))
        });
        different.collect()
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
        let op = site.node.op();
        exact &= site.is_call || EXACT.contains(&op) || only_moves(op) || integral();
    })?;
    Ok(exact)
}
