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

use rten_simd::{Isa, SimdOp};
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

use crate::binary::{Binary, Pairs};
use crate::typed_op::{Stateless, Typed, broadcast_facts};

/// The operator of a node that tract would compute element by element.
pub(crate) fn by_rows(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Box<dyn TypedOp>>> {
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
    Ok(Some(Box::new(Typed(op))))
}

/// A function of two float operands that broadcast; truth values become bools.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByRows {
    function: Binary,
    is_truth: bool,
}

impl Stateless for ByRows {
    const NAME: &str = "ByRows";

    fn name(&self) -> StaticName {
        format!("{:?}{}", self.function, Self::NAME).into()
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (a, b) = args_2!(inputs);
        let sizes = multi_broadcast(&[a.shape(), b.shape()])?;
        let mut output = Tensor::zero_dt(self.datum_type(), &sizes)?;
        let mut to = output.try_as_plain_ram_mut()?;
        if self.is_truth {
            self.run::<bool>(to.as_slice_mut()?, &sizes, [&a, &b])?;
        } else {
            self.run::<f32>(to.as_slice_mut()?, &sizes, [&a, &b])?;
        }
        Ok(tvec!(output.into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        broadcast_facts(self.datum_type(), inputs)
    }
}

impl ByRows {
    fn datum_type(&self) -> DatumType {
        match self.is_truth {
            true => bool::datum_type(),
            false => f32::datum_type(),
        }
    }

    fn run<T: Number>(&self, to: &mut [T], sizes: &[usize], of: [&Tensor; 2]) -> TractResult<()> {
        let loops = loops(sizes, of.map(|operand| operand.shape()));
        let [a, b] = of.map(|operand| operand.try_as_plain_ram());
        let (a, b) = (a?, b?);
        let (a, b) = (a.as_slice::<f32>()?, b.as_slice::<f32>()?);
        let steps = loops[0].steps;
        let row = to.len() / loops[0].size.max(1);
        if row == 0 {
            return Ok(());
        }
        par_chunks_mut(to, row, to.len(), |first, to| {
            let mut loops = loops.clone();
            loops[0].size = to.len() / row;
            BroadcastRows {
                function: self.function,
                loops: &loops,
                to,
                a: &a[first * steps[0]..],
                b: &b[first * steps[1]..],
            }
            .dispatch();
            Ok(())
        })
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

/// The rows of an output that one thread computes.
struct BroadcastRows<'a, T> {
    function: Binary,
    loops: &'a [Loop],
    to: &'a mut [T],
    a: &'a [f32],
    b: &'a [f32],
}

impl<T: Number> SimdOp for BroadcastRows<'_, T> {
    type Output = ();

    // Everything is inlined, so that it is compiled for the instructions of the processor.
    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        self.function.apply(self);
    }
}

impl<T: Number> Pairs for BroadcastRows<'_, T> {
    #[inline(always)]
    fn each(self, function: impl Fn(f32, f32) -> f32 + Copy) {
        let Some((row, outer)) = self.loops.split_last() else {
            return;
        };
        let mut indices: TVec<usize> = tvec![0; outer.len()];
        let mut at = [0; 2];
        for to in self.to.chunks_exact_mut(row.size) {
            let (a, b) = (&self.a[at[0]..], &self.b[at[1]..]);
            // Three loops, so that each is vectorised.
            match row.steps {
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
            }
            for (index, outer) in std::iter::zip(&mut indices, outer).rev() {
                *index += 1;
                let is_over = *index == outer.size;
                for (at, step) in std::iter::zip(&mut at, outer.steps) {
                    *at = *at + step - if is_over { step * outer.size } else { 0 };
                }
                if !is_over {
                    break;
                }
                *index = 0;
            }
        }
    }
}
