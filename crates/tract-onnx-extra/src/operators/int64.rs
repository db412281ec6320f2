//! Operators that compute with int64 as numbers, never as symbolic sizes.
//!
//! tract holds int64 values that depend on sizes as TDim, which its versions of these operators
//! refuse. They get a cast to int64 before such an input, or the numbers themselves if these are
//! known; so a symbol gets lost here, and its number is used when the model runs.
//!
//! ```text
//! NonZero(Shape(x))  →  NonZero(Cast(Shape(x), int64))
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract};

/// Parses an operator that computes with numbers.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    over_tract(ctx, node, OnNumbers)
}

/// The operator over one that gets int64 for TDim.
#[derive(Clone, Debug)]
pub(crate) struct OnNumbers;

impl Operator for OnNumbers {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let number = |fact: &&InferenceFact| {
            let value = fact.value.concretize();
            // One with symbols is no number.
            let number = value.and_then(|it| Some(it.cast_to::<i64>().ok()?.into_owned()));
            fact.datum_type
                .concretize()?
                .is_tdim()
                .then(|| InferenceFact {
                    datum_type: i64::datum_type().into(),
                    shape: fact.shape.clone(),
                    value: number.map_or(GenericFactoid::Any, |it| GenericFactoid::Only(it.into())),
                })
        };
        let numbers: Vec<Option<InferenceFact>> = node.inputs.iter().map(number).collect();
        node.with_others(&numbers).map(Some)
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        node.replace_inputs(|node, outlet| {
            rule_if!(node.fact(outlet)?.datum_type.is_tdim());
            node.cast("number", outlet, i64::datum_type()).map(Some)
        })?;
        Ok(None)
    }
}
