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
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;

use super::part::{along, change_around, take};
use super::size_symbols::{SizeSymbols, axis};
use crate::node::check_domain;
use crate::operator::{Operator, Parsed, Wired, Wiring, own};

/// Parses a Compress; tract runs only constant ones.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    check_domain(node)?;
    let op = OnnxCompress {
        axis: node.get_attr_opt("axis")?,
        sizes: SizeSymbols::new(ctx),
    };
    own(node, [2, 1], op)
}

/// A Compress before types and shapes are known.
#[derive(Clone, Debug)]
struct OnnxCompress {
    axis: Option<i64>,
    sizes: SizeSymbols,
}

impl Operator for OnnxCompress {
    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let rank = node.input(0)?.rank();
        let axis = self.axis.map(|it| axis(it, rank)).transpose()?;
        node.whole(Compress {
            axis,
            size: self.sizes.of(axis.unwrap_or(0)),
        })
    }
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

named_op!(Compress, "Compress", mints_runtime_symbols);

impl EvalOp for Compress {
    // Its size is a symbol elsewhere, which a constant would not give a number.
    not_out_of_plan!();

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
}

impl TypedOp for Compress {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = self.shape(&inputs[0].shape.to_tvec());
        Ok(tvec![inputs[0].datum_type.fact(shape)])
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        rule_if_some!(axis = self.axis);
        Ok(change_around(axis, io, change, |axis| {
            let size = self.size.clone();
            Box::new(Self {
                axis: Some(axis),
                size,
            })
        }))
    }

    substitutes!(size);

    as_op!();
}
