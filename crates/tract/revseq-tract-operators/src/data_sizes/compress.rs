//! Compress, whose output size depends on data.
//!
//! tract has it for constant conditions alone. Here the condition may come from data; it may be
//! shorter than the axis, whose other elements are then dropped, as ONNX says.
//!
//! ```text
//! Compress(x: [N, 4], condition, axis 0): [size, 4]
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::runtime_slice::{along, take};
use super::size_symbols::{SizeSymbols, axis};
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a Compress; tract runs only constant ones.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let along: Option<i64> = node.get_attr_opt("axis")?;
    let sizes = SizeSymbols::new(ctx);
    own(node, [2, 1], move |node: &mut Wiring<'_>| {
        let rank = node.input(0)?.rank();
        let axis = along.map(|it| axis(it, rank)).transpose()?;
        let size = sizes.of(axis.unwrap_or(0));
        node.whole(Typed(Compress { axis, size }))
    })
}

/// Keeps the elements whose condition is true, along an axis or of the flattened input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Compress {
    axis: Option<usize>,
    /// The size of the output's axis, a symbol of its own.
    size: TDim,
}

impl Compress {
    fn shape(&self, data: &[TDim]) -> TVec<TDim> {
        let mut shape: TVec<TDim> = match self.axis {
            Some(_) => data.into(),
            None => tvec![1.to_dim()],
        };
        shape[self.axis.unwrap_or(0)] = self.size.clone();
        shape
    }
}

impl Stateless for Compress {
    const NAME: &str = "Compress";

    fn defines_symbols(&self) -> bool {
        matches!(self.size, TDim::Sym(_))
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, condition) = args_2!(inputs);
        let (data, axis) = along(data, self.axis)?;
        let size = data.shape()[axis];
        let condition = condition.to_plain_array_view::<bool>()?;
        let mut kept = vec![];
        for (at, _) in condition.iter().enumerate().filter(|(_, holds)| **holds) {
            ensure!(
                at < size,
                "the condition of a Compress holds for element {at} of {size}"
            );
            kept.push(at);
        }
        Ok(tvec![take(&data, axis, &kept)?.into_tvalue()])
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = self.shape(&inputs[0].shape.to_tvec());
        Ok(tvec![inputs[0].datum_type.fact(shape)])
    }

    fn with_axes(&self, _inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        Some(Self {
            axis: Some(change.transform_axis(self.axis?)?),
            ..self.clone()
        })
    }

    substitutes!(size);
}
