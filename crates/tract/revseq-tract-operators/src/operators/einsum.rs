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

use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};

/// Parses an Einsum.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
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
    over_tract(ctx, node, Einsum { to_vector })
}

#[derive(Clone, Debug)]
struct Einsum {
    /// The axes of a sum to a vector, whose elements are summed.
    to_vector: Option<AxesMapping>,
}

impl Operator for Einsum {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        rule_if!(self.to_vector.is_some());
        let scalar = InferenceFact {
            datum_type: node.inputs[0].datum_type,
            ..InferenceFact::shape([0_usize; 0])
        };
        let inputs = node.inputs.iter().map(|fact| (*fact).clone()).collect();
        Ok(Some((inputs, tvec![scalar], tvec![])))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        for datum_type in node.types()? {
            let name = match datum_type {
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
        let operating_dt = node.input(0)?.datum_type;
        let to_vector = EinSum {
            axes,
            operating_dt,
            q_params: None,
        };
        let vector = node.op("vector", to_vector, &node.inputs.clone())?;
        let sum = node.op("sum", Reduce::new(tvec![0], Reducer::Sum), &[vector])?;
        node.last(AxisOp::Rm(0), &[sum])
    }
}
