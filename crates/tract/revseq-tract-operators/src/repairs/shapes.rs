//! Shapes are compared with facts before an operator that believes its facts.
//!
//! tract's packed products, lowered convolutions and binary operators take their sizes from the facts
//! of the plan, and read the memory of their operands by them. A value of another shape, whose reason
//! may be an assumption that the data do not keep, would be read beyond its end. So each operator of
//! an optimised model is checked, except those that ask the values themselves.
//!
//! ```text
//! OptMatMul(a: [B, 3], b: [3, 4])  →  Checked { OptMatMul, a has B rows and 3 columns in this run, … }
//! ```

use tract_onnx::tract_core::ops::array::{Gather, MultiBroadcastTo, Pad, PadMode, Slice};
use tract_onnx::tract_core::ops::binary::{OptBinByScalar, OptBinUnicast, TypedBinOp};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::{AxisOp, IntoShape};
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::matmul::optimized::{MatMulOperand, OptMatMul, ProtoFusedSpec};
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_core::tract_linalg::mmm::{MMMInputValue, PackedMatrixStorage};
use tract_onnx::tract_hir::internal::*;

use crate::data_sizes::Agreed;
use crate::other_sizes::OtherSizes;
use crate::typed_op::Typed;

/// Makes the operators of an optimised model that believe their facts compare these with their inputs.
pub(crate) fn check_shapes(model: &mut TypedModel) -> TractResult<()> {
    for id in 0..model.nodes().len() {
        let node = model.node(id);
        if asks_its_inputs(node) || node.op.state(&EvalContext::out_of_plan())?.is_some() {
            continue;
        }
        let expected = ExpectedShapes::of(node, &model.node_input_facts(id)?);
        let node = model.node_mut(id);
        let op = node.op.clone();
        node.op = Box::new(Checked { op, expected });
    }
    Ok(())
}

/// Whether an operator computes with the shapes of its inputs, and refuses those that do not fit, in
/// memory that the compiler guards.
fn asks_its_inputs(node: &TypedNode) -> bool {
    node.inputs.is_empty()
        || node.op_is::<TypedSource>()
        || node.op_is::<Const>()
        || node.op_is::<ElementWiseOp>()
        || node.op_is::<TypedBinOp>()
        || node.op_is::<Cast>()
        || node.op_is::<Identity>()
        || node.op_is::<Slice>()
        || node.op_is::<MultiBroadcastTo>()
        || node.op_is::<IntoShape>()
        || node.op_is::<Typed<Agreed>>()
        || node.op_is::<Checked>()
        || node.op_is::<AxisOp>()
}

/// An axis of an input.
type Place = (usize, usize);

/// The sizes of an operator's inputs.
#[derive(Clone, Debug, Default)]
struct ExpectedShapes {
    /// The shapes of inputs whose sizes are all known.
    known: Vec<(usize, TVec<usize>)>,
    /// The ranks of the other inputs that are plain tensors.
    ranks: Vec<(usize, usize)>,
    /// Their axes that share a size, which is `None` if it is enough that they agree.
    shared: Vec<(Option<TDim>, TVec<Place>)>,
}

impl ExpectedShapes {
    fn of(node: &TypedNode, facts: &[&TypedFact]) -> Self {
        // These work on their inputs alone, which have to agree.
        let is_relative = node.op_is::<OptBinUnicast>() || node.op_is::<OptBinByScalar>();
        let mut expected = Self::default();
        let mut shared: Vec<(&TDim, TVec<Place>)> = vec![];
        for (input, fact) in facts.iter().enumerate().filter(|(_, fact)| fact.is_plain()) {
            if let Some(shape) = fact.shape.as_concrete() {
                expected.known.push((input, shape.into()));
                continue;
            }
            expected.ranks.push((input, fact.rank()));
            for (axis, size) in fact.shape.iter().enumerate() {
                let place = (input, axis);
                match shared.iter_mut().find(|(it, _)| *it == size) {
                    Some((_, places)) => places.push(place),
                    None => shared.push((size, tvec![place])),
                }
            }
        }
        let shared = shared.into_iter().map(|(size, places)| {
            let decides = !is_relative || size.to_i64().is_ok();
            (decides.then(|| size.clone()), places)
        });
        let says_something =
            |(size, places): &(Option<TDim>, TVec<Place>)| size.is_some() || places.len() > 1;
        expected.shared = shared.filter(says_something).collect();
        expected
    }

    fn check(&self, ctx: &EvalContext<'_>, inputs: &[TValue]) -> TractResult<()> {
        for (input, expected) in &self.known {
            let found = inputs[*input].shape();
            if *found != **expected {
                let sizes: TVec<TDim> = expected.iter().map(|it| it.to_dim()).collect();
                return OtherSizes::check(found, &sizes, ctx.symbols);
            }
        }
        for (input, rank) in &self.ranks {
            let found = inputs[*input].rank();
            if found != *rank {
                return Err(OtherSizes::error(format!(
                    "an operand has {found} axes, expected {rank}"
                )));
            }
        }
        let size = |(input, axis): Place| inputs[input].shape()[axis];
        for (expected, places) in &self.shared {
            let expected = expected.as_ref();
            let expected = expected.and_then(|it| it.maybe_eval_to_i64(ctx.symbols));
            let expected = match expected {
                Some(expected) => expected,
                None => i64::try_from(size(places[0]))?,
            };
            for (input, axis) in places {
                if usize::try_from(expected) != Ok(size((*input, *axis))) {
                    return Err(OtherSizes::at(inputs[*input].shape(), *axis, expected));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the packed operands of a product are as large as the product reads them.
fn check_product(op: &OptMatMul, ctx: &EvalContext<'_>, inputs: &[TValue]) -> TractResult<()> {
    let size = |axis: Option<usize>| match axis {
        None => Ok(1),
        Some(axis) => usize::try_from(op.c_fact.shape[axis].eval_to_i64(ctx.symbols)?)
            .context("a product with a size below 0"),
    };
    let (rows, columns) = (size(op.c_m_axis)?, size(op.c_n_axis)?);
    for step in &op.micro_ops {
        let ProtoFusedSpec::AddMatMul { a, b, .. } = step else {
            continue;
        };
        let (a, b) = (packed(a, inputs)?, packed(b, inputs)?);
        let (Some(first), false) = (a.first(), b.is_empty()) else {
            // An empty batch has no matrices, and none is read.
            continue;
        };
        let inner = first.k();
        for (matrices, size) in [(a, rows), (b, columns)] {
            for matrix in matrices {
                let found = [matrix.mn(), matrix.k()];
                let differs = std::iter::zip(found, [size, inner]).position(|(a, b)| a != b);
                if let Some(axis) = differs {
                    return Err(OtherSizes::at(&found, axis, [size, inner][axis] as i64));
                }
            }
        }
    }
    Ok(())
}

/// The packed matrices of an operand.
fn packed<'a>(
    operand: &'a MatMulOperand,
    inputs: &'a [TValue],
) -> TractResult<&'a [Box<dyn MMMInputValue>]> {
    Ok(match operand {
        MatMulOperand::Const(value) => std::slice::from_ref(value),
        MatMulOperand::Input(input) => {
            let storage = inputs[*input].try_storage_as::<PackedMatrixStorage>()?;
            storage.values()
        }
    })
}

/// Checks that a reflection has as many elements as it adds: tract takes its own padding for more.
fn check_reflection(op: &Pad, shape: &[usize]) -> TractResult<()> {
    for (axis, (size, (before, after))) in std::iter::zip(shape, &op.pads).enumerate() {
        let added = *before.max(after);
        ensure!(
            added == 0 || added < *size,
            "it reflects {added} elements along axis {axis}, which has {size}, one of them the edge"
        );
    }
    Ok(())
}

/// Checks that the indices of a Gather lie within its axis: tract panics where they do not. One with an
/// output type reads packed weights.
fn check_indices(op: &Gather, inputs: &[TValue]) -> TractResult<()> {
    if op.output_type.is_some() {
        return Ok(());
    }
    let axis = op.axis;
    let size = i64::try_from(inputs[0].shape()[axis])?;
    let indices = inputs[1].to_plain_array_view::<i64>()?;
    if let Some(index) = indices.iter().find(|it| !(-size..size).contains(*it)) {
        bail!("index {index} of a Gather lies outside of axis {axis}, which has {size} elements");
    }
    Ok(())
}

/// Whether a value lies in memory as its shape says, with other strides. An axis of size 1 that tract adds
/// has those of the axis behind it, and tract computes with such a value element by element.
fn has_other_strides(value: &Tensor) -> bool {
    let (mut natural, mut differs) = (1, false);
    for (size, own) in std::iter::zip(value.shape(), value.strides()).rev() {
        if *own != natural {
            if *size != 1 {
                return false;
            }
            differs = true;
        }
        natural *= *size as isize;
    }
    differs && value.has_plain_ram_storage()
}

/// The value with the strides of its shape.
fn with_strides_of_shape(value: TValue) -> TractResult<TValue> {
    if !has_other_strides(&value) {
        return Ok(value);
    }
    let mut tensor = value.into_tensor();
    let shape: TVec<usize> = tensor.shape().into();
    tensor.set_shape(&[tensor.len()])?;
    tensor.set_shape(&shape)?;
    Ok(tensor.into_tvalue())
}

/// An operator that computes with its facts, behind a comparison of its inputs with them.
#[derive(Clone, Debug)]
struct Checked {
    op: Box<dyn TypedOp>,
    expected: ExpectedShapes,
}

never_equal!(Checked);

impl Op for Checked {
    fn name(&self) -> StaticName {
        self.op.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.op.info()
    }

    fn validation(&self) -> Validation {
        self.op.validation()
    }

    fn mints_runtime_symbols(&self) -> bool {
        self.op.mints_runtime_symbols()
    }

    fn required_bound_symbols(&self, inputs: &[&TypedFact]) -> TVec<Symbol> {
        self.op.required_bound_symbols(inputs)
    }

    op_as_typed_op!();
}

impl EvalOp for Checked {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.expected.check(ctx, &inputs)?;
        if let Some(op) = self.op.downcast_ref::<OptMatMul>() {
            check_product(op, ctx, &inputs)?;
        } else if let Some(op) = self.op.downcast_ref::<Gather>() {
            check_indices(op, &inputs)?;
        } else if let Some(op) = self.op.downcast_ref::<Pad>()
            && op.mode == PadMode::Reflect
        {
            check_reflection(op, inputs[0].shape())?;
        }
        if !inputs.iter().any(|input| has_other_strides(input)) {
            return self.op.eval(ctx, inputs);
        }
        let inputs = inputs.into_iter().map(with_strides_of_shape);
        self.op.eval(ctx, inputs.collect::<TractResult<_>>()?)
    }

    fn forwards_input(&self) -> Option<usize> {
        self.op.forwards_input()
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.op.eval_out_of_plan(inputs)
    }

    fn drop_session(&self, session: SessionId, node_id: usize) {
        self.op.drop_session(session, node_id);
    }
}

impl TypedOp for Checked {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.op.output_facts(inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        self.op.cost(inputs)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_axis_has_the_strides_of_the_shape() {
        for axis in 0..3 {
            let mut value = tensor2(&[[1_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
            value.insert_axis(axis).expect("it has the axis");
            let expected = value.clone().into_tvalue();
            let found = with_strides_of_shape(value.into_tvalue()).expect("it stays");
            assert_eq!(found, expected);
            assert_eq!(*found.strides(), *Tensor::natural_strides(found.shape()));
        }
    }
}
