//! GlobalLpPool. tract's is a mean, and takes no absolute values.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::math::{abs, pow};
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

use crate::operator::{Operator, Parsed, Wired, Wiring, over_tract};

/// Parses a GlobalLpPool.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let p = node.get_attr_opt("p")?.unwrap_or(2_i64);
    ensure!(p > 0, "its p is {p}, expected at least 1");
    over_tract(ctx, node, Norm { p })
}

/// The norm of all elements of a channel.
#[derive(Clone, Debug)]
struct Norm {
    p: i64,
}

impl Operator for Norm {
    const COMPUTES: bool = false;

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let fact = node.input(0)?;
        let (rank, datum_type) = (fact.rank(), fact.datum_type);
        let power = |node: &mut Wiring<'_>, name: String, of: OutletId, exponent: f64| {
            let exponent = tensor0(exponent).cast_to_dt(datum_type)?.into_owned();
            let exponent = node.constant("exponent", exponent)?;
            wire_with_rank_broadcast(name, node.model, pow(), &[of, exponent])
        };
        let p = self.p as f64;
        let sizes = node.op("abs", abs(), &[node.inputs[0]])?;
        let powers = power(node, node.part("powers"), sizes, p)?[0];
        let sum = Reduce::new((2..rank).collect(), Reducer::Sum);
        let sum = node.op("sum", sum, &[powers])?;
        power(node, node.name.to_owned(), sum, p.recip()).map(Some)
    }
}
