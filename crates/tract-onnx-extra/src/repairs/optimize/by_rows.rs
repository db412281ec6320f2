//! Functions of two operands, of which one or both are broadcast.
//!
//! tract has kernels for operands of the same sizes, and for one whose first axes are those of the
//! other and whose last axes have size 1. It takes all others element by element, and so all
//! divisions and comparisons. Here the loops over axes that lie alike in both operands become one,
//! and the innermost is a row, in each of which an operand is a row, too, or a number:
//!
//! ```text
//! Mul(x: [1, 64, 256, 1], y: [1, 1, 256, 16])   is 64 · 256 rows of a number by 16
//! ```

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use crate::binary::{Binary, Pairs};

/// The operator of a node that tract would compute element by element.
pub(super) fn by_rows(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<TypedModelPatch>> {
    rule_if_some!(op = node.op_as::<TypedBinOp>());
    rule_if_some!(function = Binary::of(&*op.0));
    let (inputs, outputs) = model.node_facts(node.id)?;
    let is_plain = |fact: &&TypedFact| fact.datum_type == f32::datum_type() && !fact.is_exotic();
    rule_if!(inputs.len() == 2 && inputs.iter().all(is_plain));
    let output = outputs[0].datum_type;
    rule_if!(output == f32::datum_type() || output == bool::datum_type());
    let op = ByRows {
        function,
        is_truth: output == bool::datum_type(),
    };
    TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
}

/// A function of two float operands that broadcast; truth values become bools.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByRows {
    function: Binary,
    is_truth: bool,
}

impl Op for ByRows {
    fn name(&self) -> StaticName {
        format!("{:?}ByRows", self.function).into()
    }

    op_as_typed_op!();
}

impl EvalOp for ByRows {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (a, b) = args_2!(inputs);
        let sizes = multi_broadcast(&[a.shape(), b.shape()])?;
        let output = if self.is_truth {
            self.whole::<bool>(&sizes, &a, &b)?
        } else {
            self.whole::<f32>(&sizes, &a, &b)?
        };
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for ByRows {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let sizes = multi_broadcast(&[&*inputs[0].shape, &*inputs[1].shape])?;
        let datum_type = match self.is_truth {
            true => bool::datum_type(),
            false => f32::datum_type(),
        };
        Ok(tvec!(datum_type.fact(sizes)))
    }

    as_op!();
}

impl ByRows {
    fn whole<T: Datum + Number>(
        &self,
        sizes: &[usize],
        a: &Tensor,
        b: &Tensor,
    ) -> TractResult<Tensor> {
        let mut output = Tensor::zero_dt(T::datum_type(), sizes)?;
        let mut to = output.try_as_plain_ram_mut()?;
        let to = to.as_slice_mut::<T>()?;
        let loops = loops(sizes, [a.shape(), b.shape()]);
        let (a, b) = (a.try_as_plain_ram()?, b.try_as_plain_ram()?);
        let (a, b) = (a.as_slice::<f32>()?, b.as_slice::<f32>()?);
        let steps = loops[0].steps;
        let row = to.len() / loops[0].size.max(1);
        if row > 0 {
            par_chunks_mut(to, row, to.len(), |first, to| {
                let mut loops = loops.clone();
                loops[0].size = to.len() / row;
                self.function.apply(Nest {
                    loops: &loops,
                    to,
                    a: &a[first * steps[0]..],
                    b: &b[first * steps[1]..],
                });
                Ok(())
            })?;
        }
        Ok(output)
    }
}

/// A loop over an axis, and the elements by which it steps in each operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loop {
    size: usize,
    steps: [usize; 2],
}

/// The loops over the elements of an output, the outermost first, as few as possible but one.
fn loops(sizes: &[usize], operands: [&[usize]; 2]) -> TVec<Loop> {
    let mut loops: TVec<Loop> = tvec![];
    let mut within = [1; 2];
    for (axis, &size) in sizes.iter().enumerate().rev() {
        let mut steps = [0; 2];
        for (operand, step) in steps.iter_mut().enumerate() {
            let own = operands[operand][axis];
            *step = if own == 1 { 0 } else { within[operand] };
            within[operand] *= own;
        }
        match loops.last_mut() {
            _ if size == 1 => {}
            Some(inner) if (0..2).all(|it| steps[it] == inner.size * inner.steps[it]) => {
                inner.size *= size;
            }
            _ => loops.push(Loop { size, steps }),
        }
    }
    if loops.is_empty() {
        loops.push(Loop {
            size: 1,
            steps: [0; 2],
        });
    }
    loops.reverse();
    loops
}

/// What a function's value becomes.
trait Number: Copy + Send {
    fn of(value: f32) -> Self;
}

impl Number for f32 {
    fn of(value: f32) -> Self {
        value
    }
}

impl Number for bool {
    fn of(value: f32) -> Self {
        value != 0.0
    }
}

/// The loops over all pairs.
struct Nest<'a, T> {
    loops: &'a [Loop],
    to: &'a mut [T],
    a: &'a [f32],
    b: &'a [f32],
}

impl<T: Number> Pairs for Nest<'_, T> {
    fn each(self, function: impl Fn(f32, f32) -> f32 + Copy) {
        let Self { loops, to, a, b } = self;
        match *loops {
            [] => {}
            [row] => match row.steps {
                [0, _] => {
                    let a = a[0];
                    for (to, b) in std::iter::zip(to, b) {
                        *to = T::of(function(a, *b));
                    }
                }
                [_, 0] => {
                    let b = b[0];
                    for (to, a) in std::iter::zip(to, a) {
                        *to = T::of(function(*a, b));
                    }
                }
                _ => {
                    for (to, (a, b)) in std::iter::zip(to, std::iter::zip(a, b)) {
                        *to = T::of(function(*a, *b));
                    }
                }
            },
            [Loop { size, steps }, ref inner @ ..] => {
                let row = to.len() / size;
                for (index, to) in to.chunks_exact_mut(row).enumerate() {
                    let nest = Nest {
                        loops: inner,
                        to,
                        a: &a[index * steps[0]..],
                        b: &b[index * steps[1]..],
                    };
                    nest.each(function);
                }
            }
        }
    }
}
