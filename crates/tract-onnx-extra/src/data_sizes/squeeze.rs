//! Squeezes of axes whose sizes come from data.
//!
//! An axis whose size is an expression is removed by an operator that checks the size at run time,
//! and turns into tract's own once the size is known to be 1. Without axes the rank depends on the
//! sizes, so all have to be known to be 1 or to be something else.
//!
//! ```text
//! Squeeze(x: [N, size], axes [1]): [N], checking that size is 1
//! ```

use std::fmt;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array;

use super::bounds::{least, most};
use super::node_context::NodeContext;
use super::size_symbols::{axis, inferred};
use super::with_fallback::{Override, with_fallback};
use crate::delegate::Facts;
use crate::node::{check_domain, parse_with_tract};

/// Parses a Squeeze: like tract if its axes are known to have one element, otherwise as one that
/// checks at run time.
pub(crate) fn parse(
    ctx: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    check_domain(node)?;
    let axes: Option<Vec<i64>> = match node.input.get(1).filter(|name| !name.is_empty()) {
        Some(axes) => NodeContext::new(ctx).constant(axes)?,
        None => node.get_attr_opt_vec("axes")?,
    };
    let is_without = node.input.get(1).is_none_or(String::is_empty) && axes.is_none();
    if is_without || axes.as_ref().is_some_and(Vec::is_empty) {
        return Ok((expand(SqueezeAll), vec![]));
    }
    let (upstream, captured) = parse_with_tract("Squeeze", ctx, node)?;
    Ok(match axes {
        Some(axes) => {
            let op = OnnxSqueeze { axes };
            (with_fallback(upstream, op), captured)
        }
        None => (upstream, captured),
    })
}

/// A Squeeze without axes, or of an empty list of them: of all of size 1, as in ONNX Runtime.
#[derive(Clone, Debug)]
struct SqueezeAll;

impl SqueezeAll {
    fn without_axes(shape: &[TDim]) -> TractResult<array::Squeeze> {
        let mut ones = vec![];
        for (axis, size) in shape.iter().enumerate() {
            let may_be_one =
                least(size).is_none_or(|it| it <= 1) && most(size).is_none_or(|it| it >= 1);
            ensure!(
                size.is_one() || !may_be_one || size.to_i64().is_ok(),
                "it has no axes, and whether axis {axis} of its input has one element is not \
                 known: its rank depends on data"
            );
            if size.is_one() {
                ones.push(axis as isize);
            }
        }
        Ok(array::Squeeze::new(Some(ones)))
    }
}

impl Expansion for SqueezeAll {
    fn name(&self) -> StaticName {
        "Squeeze".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_output_arity(outputs, 1)?;
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.given(&inputs[0].shape, move |s, shape| {
            let shape = Self::without_axes(&shape)?.output_shape(&shape)?;
            s.equals(&outputs[0].shape, shape)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let shape = model.outlet_fact(inputs[0])?.shape.to_tvec();
        Self::without_axes(&shape)?.wire(prefix, model, &inputs[..1])
    }
}

#[derive(Clone, Debug)]
struct OnnxSqueeze {
    axes: Vec<i64>,
}

impl OnnxSqueeze {
    /// The squeezed axes, last one first, if any of their sizes is unknown, or if they are not in order:
    /// tract removes one after another, and loses count.
    fn unknown(&self, shape: &[TDim]) -> TractResult<Option<Vec<usize>>> {
        let axes = self.axes.iter().map(|it| axis(*it, shape.len()));
        let mut axes: Vec<usize> = axes.collect::<TractResult<_>>()?;
        let is_mixed = !axes.is_sorted();
        axes.sort_unstable();
        axes.dedup();
        axes.reverse();
        for axis in &axes {
            if let Ok(size) = shape[*axis].to_i64() {
                check(*axis, size, shape)?;
            }
        }
        let is_unknown = axes.iter().any(|axis| shape[*axis].to_i64().is_err());
        Ok((is_unknown || is_mixed).then_some(axes))
    }
}

impl Override for OnnxSqueeze {
    fn name(&self, _upstream: &dyn InferenceOp) -> StaticName {
        "Squeeze".into()
    }

    fn infer(
        &self,
        _upstream: &mut dyn InferenceOp,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<Option<Facts>> {
        let data = inputs[0].datum_type.concretize();
        let Some((datum_type, mut shape)) = data.zip(inputs[0].shape.concretize()) else {
            return Ok(None);
        };
        let Some(axes) = self.unknown(&shape)? else {
            return Ok(None);
        };
        for axis in axes {
            shape.remove(axis);
        }
        Ok(Some(inferred(inputs, outputs, datum_type, shape)))
    }

    fn wire(
        &self,
        _upstream: &dyn InferenceOp,
        name: &str,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let mut wire = inputs[0];
        let shape = target.outlet_fact(wire)?.shape.to_tvec();
        let Some(axes) = self.unknown(&shape)? else {
            return Ok(None);
        };
        for axis in axes {
            let name = target
                .unique_name(format!("{name}.axis{axis}"))
                .into_owned();
            let op: Box<dyn TypedOp> = match shape[axis].is_one() {
                true => Box::new(AxisOp::Rm(axis)),
                false => Box::new(Only { axis }),
            };
            wire = target.wire_node(name, op, &[wire])?[0];
        }
        Ok(Some(tvec![wire]))
    }
}

/// Checks that an axis has one element.
fn check<D: fmt::Debug>(axis: usize, size: i64, shape: &[D]) -> TractResult<()> {
    ensure!(
        size == 1,
        "Squeeze of axis {axis} of {shape:?}, which has {size} elements along it, expected 1"
    );
    Ok(())
}

/// Removes an axis of one element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Only {
    axis: usize,
}

impl Op for Only {
    fn name(&self) -> StaticName {
        "Only".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {}", self.axis)])
    }

    op_as_typed_op!();
}

impl EvalOp for Only {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        let size = i64::try_from(data.shape()[self.axis])?;
        check(self.axis, size, data.shape())?;
        let mut data = data.into_tensor();
        data.remove_axis(self.axis)?;
        Ok(tvec![data.into_tvalue()])
    }
}

impl TypedOp for Only {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut shape = inputs[0].shape.clone();
        shape.remove_axis(self.axis)?;
        Ok(tvec![inputs[0].datum_type.fact(shape)])
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        rule_if!(model.outlet_fact(node.inputs[0])?.shape[self.axis].is_one());
        TypedModelPatch::replace_single_op(model, node, &node.inputs, AxisOp::Rm(self.axis))
            .map(Some)
    }

    as_op!();
}
