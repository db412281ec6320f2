//! Operators whose elements along some axes depend on each other.
//!
//! tract computes an operator of a Scan's body for all steps at once, and passes slices on to its inputs,
//! if its elements along an axis are independent. Of some operators it says so of every axis:
//!
//! ```text
//! Scan { y = Softmax<axis=0>(Unsqueeze<0>(x_t)) }   is not   y = Softmax<axis=0>(x)
//! ```
//!
//! These are wrapped where they are made.

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::ops::fft::Stft;
use tract_onnx::tract_core::ops::nn::Softmax;
use tract_onnx::tract_hir::internal::*;

use crate::typed_op::{Stateless, Typed};

/// An operator that knows which of its axes are independent.
#[derive(Clone, Debug)]
pub(crate) struct AlongAxes(pub(crate) Box<dyn TypedOp>);

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
            node.op = Box::new(Typed(AlongAxes(node.op.clone())));
        }
    }
}

impl Stateless for AlongAxes {
    const NAME: &str = "AlongAxes";

    fn name(&self) -> StaticName {
        self.0.name()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        self.0.info()
    }

    fn eval(&self, ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        self.0.eval(ctx, inputs)
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
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
        let axes = mapping.iter_all_axes();
        let (dependent, mut axes): (TVec<Axis>, TVec<Axis>) = axes.cloned().partition(is_dependent);
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

    fn with_axes(&self, _inputs: &[&TypedFact], change: &AxisOp) -> Option<Self> {
        let op = self.0.downcast_ref::<Softmax>()?;
        let axes = op.axes.iter().map(|axis| change.transform_axis(*axis));
        Some(Self(Box::new(Softmax {
            axes: axes.collect::<Option<_>>()?,
            ..op.clone()
        })))
    }
}
