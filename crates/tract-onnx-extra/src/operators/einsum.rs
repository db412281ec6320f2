//! Einsum of wide integers, which tract has no product of.
//!
//! It is refused while the node is wired: tract would panic once it chooses a kernel.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};

/// Parses an Einsum.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, |_| Ok(Einsum))
}

#[derive(Clone, Debug)]
struct Einsum;

impl Override for Einsum {
    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        _name: &str,
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
        Ok(None)
    }
}
