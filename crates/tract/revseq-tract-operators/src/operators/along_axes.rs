//! Operators whose elements along some axes depend on each other.
//!
//! tract computes an operator of a Scan's body for all steps at once, and passes slices on to its inputs,
//! if its elements along an axis are independent. Of some operators it says so of every axis:
//!
//! ```text
//! Scan { y = Softmax<axis=0>(Unsqueeze<0>(x_t)) }   is not   y = Softmax<axis=0>(x)
//! ```
//!
//! These are wrapped where they are made, and stand alone again once a model is optimised.

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::ops::fft::Stft;
use tract_onnx::tract_core::ops::nn::Softmax;
use tract_onnx::tract_hir::internal::*;

/// An operator that knows which of its axes are independent.
#[derive(Clone, Debug)]
pub(crate) struct AlongAxes(Box<dyn TypedOp>);

impl PartialEq for AlongAxes {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for AlongAxes {}

/// The axes of the input along which the elements of a result depend on each other; `None` if tract
/// knows them.
fn dependent(op: &dyn TypedOp, rank: usize) -> Option<TVec<usize>> {
    if let Some(op) = op.downcast_ref::<Softmax>() {
        return Some(op.axes.clone());
    }
    // Its last axis has real and imaginary parts.
    let op = op.downcast_ref::<Stft>()?;
    Some(tvec![op.axis, rank - 1])
}

/// Wraps the operators of a model from a node on.
pub(crate) fn wrap(model: &mut TypedModel, first: usize) {
    for node in &mut model.nodes[first..] {
        if dependent(&*node.op, 1).is_some() {
            node.op = Box::new(AlongAxes(node.op.clone()));
        }
    }
}

impl Op for AlongAxes {
    fn name(&self) -> StaticName {
        self.0.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.0.info()
    }

    fn validation(&self) -> Validation {
        self.0.validation()
    }

    op_as_typed_op!();
}

impl EvalOp for AlongAxes {
    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.0.eval(ctx, inputs)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        self.0.eval_out_of_plan(inputs)
    }
}

impl TypedOp for AlongAxes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        self.0.cost(inputs)
    }

    /// tract's axes, except that those of the input and of the output part where elements depend on each
    /// other.
    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let dependent = dependent(&*self.0, inputs[0].rank()).unwrap_or_default();
        let mapping = self.0.axes_mapping(inputs, outputs)?;
        let is_dependent = |axis: &Axis| axis.inputs[0].iter().any(|it| dependent.contains(it));
        let known = mapping.iter_all_axes();
        let (dependent, mut axes): (TVec<Axis>, TVec<Axis>) =
            known.cloned().partition(is_dependent);
        let taken: Vec<char> = mapping.iter_all_axes().map(|axis| axis.repr).collect();
        let mut names = ('A'..).filter(|name| !taken.contains(name));
        for axis in dependent {
            let mut output = axis.clone();
            output.inputs = tvec![tvec![]; inputs.len()];
            output.repr = names.next().context("there are enough letters")?;
            let input = Axis {
                outputs: tvec![tvec![]; outputs.len()],
                ..axis
            };
            axes.extend([input, output]);
        }
        AxesMapping::new(inputs.len(), outputs.len(), axes)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        let changed = self.0.change_axes(model, node, io, change)?;
        Ok(changed.map(|mut changed| {
            let wrap = |op| -> Box<dyn TypedOp> { Box::new(Self(op)) };
            changed.substitute_op = changed.substitute_op.map(wrap);
            changed
        }))
    }

    fn codegen(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        TypedModelPatch::replace_single_op(model, node, &node.inputs, self.0.clone()).map(Some)
    }

    as_op!();
}
