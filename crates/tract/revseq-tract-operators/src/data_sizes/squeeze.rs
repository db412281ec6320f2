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

use super::node_context::NodeContext;
use super::size_symbols::axis;
use crate::dims::{least, most};
use crate::operator::{Inferred, Inferring, Operator, Parsed, Wired, Wiring, over_tract, own};
use crate::typed_op::{Stateless, Typed};

/// Parses a Squeeze: like tract if its axes are known to have one element, otherwise as one that
/// checks at run time.
pub(crate) fn parse(ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let axes: Option<Vec<i64>> = match node.input.get(1).filter(|name| !name.is_empty()) {
        Some(axes) => NodeContext::new(ctx).constant(axes)?,
        None => node.get_attr_opt_vec("axes")?,
    };
    let is_without = node.input.get(1).is_none_or(String::is_empty) && axes.is_none();
    if is_without || axes.as_ref().is_some_and(Vec::is_empty) {
        return own(node, [node.input.len().min(2), 1], squeeze_all);
    }
    match axes {
        Some(axes) => over_tract(ctx, node, OnnxSqueeze { axes }),
        None => over_tract(ctx, node, AxesOfRun),
    }
}

/// The operator over one that gets its axes in a run: of an empty list tract takes none for all.
#[derive(Clone, Debug)]
struct AxesOfRun;

impl Operator for AxesOfRun {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let axes = node.inputs[1].shape.concretize();
        ensure!(
            axes.is_none_or(|axes| !axes.contains(&0.to_dim())),
            "its axes come from data, expected constant ones"
        );
        Ok(None)
    }
}

/// Wires a Squeeze without axes, or of an empty list of them: of all of size 1, as in ONNX Runtime.
fn squeeze_all(node: &mut Wiring<'_>) -> Wired {
    let mut ones = vec![];
    for (axis, size) in node.input(0)?.shape.iter().enumerate() {
        let may_be_one =
            least(size).is_none_or(|it| it <= 1) && most(size).is_none_or(|it| it >= 1);
        ensure!(
            size.is_one() || !may_be_one || size.to_i64().is_ok(),
            "it has no axes, and whether axis {axis} of its input has one element is not known: its \
             rank depends on data"
        );
        if size.is_one() {
            ones.push(axis as isize);
        }
    }
    let op = array::Squeeze::new(Some(ones));
    op.wire(node.name, node.model, &node.inputs[..1]).map(Some)
}

#[derive(Clone, Debug)]
struct OnnxSqueeze {
    axes: Vec<i64>,
}

impl OnnxSqueeze {
    /// The squeezed axes, last one first, if any of their sizes is unknown, or if they are not in order or
    /// one is there twice: tract removes one after another, and loses count.
    fn unknown(&self, shape: &[TDim]) -> TractResult<Option<Vec<usize>>> {
        let axes = self.axes.iter().map(|it| axis(*it, shape.len()));
        let mut axes: Vec<usize> = axes.collect::<TractResult<_>>()?;
        let is_mixed = !axes.is_sorted_by(|axis, next| axis < next);
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

impl Operator for OnnxSqueeze {
    fn infer(&self, node: &mut Inferring<'_>) -> Inferred {
        let data = node.inputs[0].datum_type.concretize();
        rule_if_some!((datum_type, mut shape) = data.zip(node.inputs[0].shape.concretize()));
        rule_if_some!(axes = self.unknown(&shape)?);
        for axis in axes {
            shape.remove(axis);
        }
        Ok(Some(node.output(datum_type, shape)))
    }

    fn wire(&self, node: &mut Wiring<'_>) -> Wired {
        let mut wire = node.inputs[0];
        let shape = node.input(0)?.shape.to_tvec();
        rule_if_some!(axes = self.unknown(&shape)?);
        for axis in axes {
            let op: Box<dyn TypedOp> = match shape[axis].is_one() {
                true => Box::new(AxisOp::Rm(axis)),
                false => Box::new(Typed(Only { axis })),
            };
            wire = node.op(&format!("axis{axis}"), op, &[wire])?;
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

impl Stateless for Only {
    const NAME: &str = "Only";

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {}", self.axis)])
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        let size = i64::try_from(data.shape()[self.axis])?;
        check(self.axis, size, data.shape())?;
        let mut data = data.into_tensor();
        data.remove_axis(self.axis)?;
        Ok(tvec![data.into_tvalue()])
    }

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
}
