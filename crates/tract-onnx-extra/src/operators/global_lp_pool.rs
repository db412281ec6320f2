//! GlobalLpPool. tract's is a mean, and takes no absolute values.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::math::{abs, pow};
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::{Override, parse_overridden};

/// Parses a GlobalLpPool.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    parse_overridden(ctx, node, |node| {
        let p = node.get_attr_opt("p")?.unwrap_or(2_i64);
        ensure!(p > 0, "its p is {p}, expected at least 1");
        Ok(Norm { p })
    })
}

/// The norm of all elements of a channel.
#[derive(Clone, Debug)]
struct Norm {
    p: i64,
}

impl Override for Norm {
    fn lets_tract_compute(&self, _inputs: &TVec<&InferenceFact>) -> bool {
        false
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let fact = target.outlet_fact(inputs[0])?;
        let (rank, datum_type) = (fact.rank(), fact.datum_type);
        let power = |name: String, target: &mut TypedModel, of: OutletId, exponent: f64| {
            let exponent = tensor0(exponent).cast_to_dt(datum_type)?.into_owned();
            let exponent = target.add_const(format!("{name}.exponent"), exponent)?;
            wire_with_rank_broadcast(name, target, pow(), &[of, exponent])
        };
        let p = self.p as f64;
        let sizes = target.wire_node(format!("{name}.abs"), abs(), inputs)?[0];
        let powers = power(format!("{name}.powers"), target, sizes, p)?[0];
        let sum = Reduce::new((2..rank).collect(), Reducer::Sum);
        let sum = target.wire_node(format!("{name}.sum"), sum, &[powers])?[0];
        power(name.to_owned(), target, sum, p.recip()).map(Some)
    }
}
