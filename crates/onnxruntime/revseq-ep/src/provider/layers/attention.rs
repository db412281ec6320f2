//! The kernel of a node of linear attention: LinearAttention, CausalConvWithState, and those of ONNX Runtime.

use std::borrow::Cow;
use std::sync::Arc;

use recurrent_layers::{Attention, Elements, Operand};
use smallvec::SmallVec;

use super::super::ep::Ep;
use super::super::error::Error;
use super::super::kernel::named;
use super::super::schemas::HALF;
use super::super::threads::Seen;
use super::operands::{Output, apart, elements, outputs};
use super::taken::{Operator, Taken};
use crate::plugin::error::Error as HostError;
use crate::plugin::info::KernelInfo;
use crate::plugin::provider::provider_of;
use crate::plugin::runs::Runs;
use crate::plugin::tensor::{Context, Tensor};
use crate::plugin::{fence, kernel};

/// As many as there are inputs, or axes.
type Few<T> = SmallVec<[T; 6]>;

/// The most outputs of an operator.
const OUTPUTS: usize = 3;

/// The elements of an input, which may be a copy.
enum Numbers<'a> {
    Floats(Cow<'a, [f32]>),
    Integers(Cow<'a, [i32]>),
}

impl Numbers<'_> {
    fn elements(&self) -> Elements<'_> {
        match self {
            Self::Floats(floats) => Elements::Floats(floats),
            Self::Integers(integers) => Elements::Integers(integers),
        }
    }
}

/// A kernel of linear attention. Any number of runs may be in progress at once.
#[derive(Debug)]
pub(crate) struct AttentionKernel {
    label: String,
    runs: Arc<Runs>,
    attention: Attention,
    inputs: usize,
    /// Whether each output is of half floats; `None` if nothing reads it.
    outputs: [Option<bool>; OUTPUTS],
    seen: Seen,
}

impl kernel::Kernel for AttentionKernel {
    type Failure = Error;

    fn create(info: KernelInfo<'_>) -> Result<Self, Error> {
        named(info, |name| {
            let ep: &Ep = provider_of(info)?;
            let names = info.output_names()?;
            let Some(Taken {
                operator: Operator::Attention(attention),
                read,
            }) = ep.layer(&names)
            else {
                let unknown = "the node is none that the provider has taken";
                return Err(HostError::argument("OrtKernelCreateFunc", unknown).into());
            };
            let inputs = info.input_names()?;
            let is_given = |input: usize| inputs.get(input).is_some_and(|it| !it.is_empty());
            let mut outputs = [None; OUTPUTS];
            for (index, is_half) in outputs.iter_mut().enumerate() {
                if read.get(index) == Some(&true) {
                    *is_half = Some(match attention.type_of_output(index, is_given) {
                        Some(like) => info.element(like)? == Some(HALF),
                        None => false,
                    });
                }
            }
            Ok(Self {
                label: format!("{} node {name:?}", attention.name()),
                runs: ep.runs(),
                inputs: inputs.len(),
                attention,
                outputs,
                seen: Seen::default(),
            })
        })
    }

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        fence::fault("layer");
        let computed = self.run(context);
        computed.map_err(|error| error.of_node(self.label.clone()))
    }
}

impl AttentionKernel {
    fn run(&self, context: Context<'_>) -> Result<(), Error> {
        let names = self.attention.inputs();
        let count = self.inputs.min(names.len());
        let tensors = (0..count).map(|input| context.optional_input(input));
        let tensors: Few<Option<Tensor<'_>>> = tensors.collect::<Result<_, _>>()?;
        let sizes = tensors.iter().map(|tensor| {
            let sizes = tensor.as_ref()?.sizes.iter();
            Some(sizes.map(|&size| size as usize).collect())
        });
        let sizes: Few<Option<Few<usize>>> = sizes.collect();
        let of_inputs: Few<Option<&[usize]>> = sizes.iter().map(|it| it.as_deref()).collect();
        let shapes = self.attention.sizes(&of_inputs)?;
        let shapes = shapes.iter();
        let shapes = shapes.map(|sizes| sizes.iter().map(|&size| size as i64).collect());
        let shapes: Few<Few<i64>> = shapes.collect();
        let wanted = std::array::from_fn(|index| {
            let is_half = self.outputs[index]?;
            Some((&shapes.get(index)?[..], is_half))
        });
        let of_outputs = self.attention.outputs();
        let of_outputs =
            std::array::from_fn(|index| of_outputs.get(index).copied().unwrap_or_default());
        let mut outputs = outputs::<f32, OUTPUTS>(context, &of_outputs, wanted)?;
        // A caller may bind one buffer as a state before and after the steps.
        let numbers = std::iter::zip(names, &tensors).enumerate();
        let numbers = numbers.map(|(index, (name, tensor))| {
            let Some(tensor) = *tensor else {
                return Ok(None);
            };
            let numbers = match self.attention.is_of_integers(index) {
                true => Numbers::Integers(elements(name, tensor)?),
                false => Numbers::Floats(apart(elements(name, tensor)?, &outputs)?),
            };
            Ok::<_, Error>(Some(numbers))
        });
        let numbers: Few<Option<Numbers<'_>>> = numbers.collect::<Result<_, _>>()?;
        let operands = std::iter::zip(&of_inputs, &numbers).map(|(sizes, numbers)| {
            let (sizes, elements) = ((*sizes)?, numbers.as_ref()?.elements());
            Some(Operand { sizes, elements })
        });
        let operands: Few<Option<Operand<'_>>> = operands.collect();
        let mut slices = (outputs.each_mut()).map(|it| it.as_mut().map(Output::elements));
        self.seen.run(context, self.runs.ending(), |threads| {
            self.attention.run(&operands, &mut slices, threads)
        })?;
        for output in outputs.into_iter().flatten() {
            // SAFETY: the run has written all elements.
            unsafe { output.finish() };
        }
        Ok(())
    }
}
