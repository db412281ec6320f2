//! Einsum: tract reads an empty right side as none, and has no product of wide integers.
//!
//! An Einsum to a scalar is one to a letter, whose elements are summed:
//!
//! ```text
//! Einsum<"ij,jk->">  becomes  ReduceSum(Einsum<"ij,jk->i">)
//! ```
//!
//! Wide integers are refused while the node is wired: tract would panic once it chooses a kernel.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};
use crate::delegate::Facts;

/// Parses an Einsum.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let equation = node.get_attr::<&str>("equation")?;
    let left = equation.trim_end().strip_suffix("->");
    // Of letters that stand twice none is left where there is no right side.
    let is_single = |letter: &char| {
        letter.is_ascii_alphabetic() && equation.chars().filter(|it| it == letter).count() == 1
    };
    let letter = left.and_then(|left| left.chars().find(is_single));
    ensure!(
        left.is_none() || !equation.contains('.'),
        "its equation {equation:?} sums an ellipsis, which tract does not; name these axes"
    );
    let to_vector = letter.map(|letter| format!("{equation}{letter}").parse());
    let to_vector = to_vector.transpose()?;
    parse_overridden(ctx, node, |_| Ok(Einsum { to_vector }))
}

#[derive(Clone, Debug)]
struct Einsum {
    /// The axes of a sum to a vector, whose elements are summed.
    to_vector: Option<AxesMapping>,
}

impl Override for Einsum {
    fn infer(
        &self,
        _upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        _outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        rule_if!(self.to_vector.is_some());
        let scalar = InferenceFact {
            datum_type: inputs[0].datum_type,
            ..InferenceFact::shape([0_usize; 0])
        };
        let inputs = inputs.iter().map(|fact| (*fact).clone()).collect();
        Ok(Some((inputs, tvec![scalar], tvec![])))
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        for input in inputs {
            let name = match target.outlet_fact(*input)?.datum_type {
                DatumType::I64 | DatumType::TDim => "int64",
                DatumType::U64 => "uint64",
                DatumType::U32 => "uint32",
                _ => continue,
            };
            bail!(
                "its operands are of {name}, of which tract has no Einsum; cast them to int32 or float"
            );
        }
        rule_if_some!(axes = self.to_vector.clone());
        let operating_dt = target.outlet_fact(inputs[0])?.datum_type;
        let to_vector = EinSum {
            axes,
            operating_dt,
            q_params: None,
        };
        let vector = target.wire_node(format!("{name}.vector"), to_vector, inputs)?;
        let sum = Reduce::new(tvec![0], Reducer::Sum);
        let sum = target.wire_node(format!("{name}.sum"), sum, &vector)?;
        target.wire_node(name, AxisOp::Rm(0), &sum).map(Some)
    }
}
