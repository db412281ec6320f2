//! Operators that need axes which their input may not have: tract's read beyond its shape, or count up
//! to an axis that there is not.
//!
//! ```text
//! BatchNormalization(x: [4])  →  an error; tract reads the second of one size
//! ```

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::axis;
use crate::operator::{Inferred, Inferring, Operator, over};

/// Puts an operator over one that needs axes.
pub(crate) fn mended(
    node: &NodeProto,
    upstream: Box<dyn InferenceOp>,
) -> TractResult<Box<dyn InferenceOp>> {
    let needs = match node.op_type.as_str() {
        "LayerNormalization" => RequiredAxes::Axis(node.get_attr_opt("axis")?.unwrap_or(-1)),
        "BatchNormalization" | "GroupNormalization" | "InstanceNormalization" | "LRN" => {
            RequiredAxes::Axes(2)
        }
        "AveragePool" | "Conv" | "ConvInteger" | "ConvTranspose" | "GlobalAveragePool"
        | "GlobalLpPool" | "GlobalMaxPool" | "LpPool" | "MaxPool" | "QLinearConv" => {
            RequiredAxes::Axes(3)
        }
        _ => return Ok(upstream),
    };
    Ok(over(upstream, needs))
}

/// The operator over one whose first input, and so its output, has to have some axes.
#[derive(Clone, Debug)]
enum RequiredAxes {
    /// At least so many.
    Axes(usize),
    /// This one.
    Axis(i64),
}

impl RequiredAxes {
    fn check(&self, fact: &InferenceFact) -> TractResult<()> {
        let Some(rank) = fact.shape.rank().concretize() else {
            return Ok(());
        };
        let rank = usize::try_from(rank)?;
        match *self {
            Self::Axis(named) => axis(named, rank).map(drop),
            Self::Axes(least) => {
                ensure!(
                    rank >= least,
                    "its input has {rank} axes, expected at least {least}"
                );
                Ok(())
            }
        }
    }
}

impl Operator for RequiredAxes {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        for fact in node.inputs.first().iter().chain(&node.outputs.first()) {
            self.check(fact)?;
        }
        Ok(None)
    }
}
