//! The kernel of a node of linear attention: LinearAttention, CausalConvWithState or LinearAttentionGate.

use std::borrow::Cow;
use std::sync::Arc;

use recurrent_layers::{Attention, Operand};
use smallvec::SmallVec;

use super::super::ep::Ep;
use super::super::error::Error;
use super::super::kernel::{CORES, named};
use super::super::schemas::HALF;
use super::operands::{Output, apart, elements, outputs};
use super::taken::{Operator, Taken};
use super::threads::{Pool, Seen};
use crate::plugin::error::Error as HostError;
use crate::plugin::info::KernelInfo;
use crate::plugin::provider::provider_of;
use crate::plugin::runs::Runs;
use crate::plugin::tensor::{Context, Tensor};
use crate::plugin::workers::ParallelLoop;
use crate::plugin::{fence, kernel};

/// As many as there are inputs, or axes.
type Few<T> = SmallVec<[T; 6]>;

const OUTPUTS: [&str; 2] = ["output", "present_state"];

/// A kernel of linear attention. Any number of runs may be in progress at once.
#[derive(Debug)]
pub(crate) struct AttentionKernel {
    label: String,
    runs: Arc<Runs>,
    attention: Attention,
    inputs: usize,
    /// Whether each output is of half floats; `None` if nothing reads it.
    outputs: [Option<bool>; 2],
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
            // A state has the type of the one before, other outputs have that of the first input.
            let past = attention.inputs().iter().position(|it| *it == "past_state");
            let past = past.filter(|&it| inputs.get(it).is_some_and(|it| !it.is_empty()));
            let mut outputs = [None; 2];
            for (index, like) in [0, past.unwrap_or(0)].into_iter().enumerate() {
                if read.get(index) == Some(&true) {
                    outputs[index] = Some(info.element(like)? == Some(HALF));
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
        let shapes =
            shapes.map(|sizes| -> Few<i64> { sizes.iter().map(|&size| size as i64).collect() });
        let wanted = std::array::from_fn(|index| {
            let is_half = self.outputs[index]?;
            Some((&shapes[index][..], is_half))
        });
        let mut outputs = outputs::<f32, 2>(context, &OUTPUTS, wanted)?;
        // A caller may bind one buffer as a state before and after the steps.
        let numbers = std::iter::zip(names, &tensors).map(|(name, tensor)| {
            let numbers = tensor.map(|tensor| apart(elements::<f32>(name, tensor)?, &outputs));
            numbers.transpose()
        });
        let numbers: Few<Option<Cow<'_, [f32]>>> = numbers.collect::<Result<_, _>>()?;
        let operands = std::iter::zip(&of_inputs, &numbers).map(|(sizes, numbers)| {
            let (sizes, elements) = ((*sizes)?, numbers.as_deref()?);
            Some(Operand { sizes, elements })
        });
        let operands: Few<Option<Operand<'_>>> = operands.collect();
        let [output, present] = &mut outputs;
        let slices = [output, present].map(|it| it.as_mut().map(Output::elements));
        let parallel = ParallelLoop::new(context.workers());
        let threads = Pool::new(*CORES, &self.seen, &parallel, self.runs.ending());
        let run = self.attention.run(&operands, slices, &threads);
        // Report the cause first: it says more than that some work was not done.
        parallel.finish()?;
        run?;
        for output in outputs.into_iter().flatten() {
            // SAFETY: the run has written all elements.
            unsafe { output.finish() };
        }
        Ok(())
    }
}
