//! The operators of linear attention: `LinearAttention`, `CausalConvWithState` and `LinearAttentionGate`.

use recurrent_layers::{Attention, Error, Operand};
use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::OfNode;
use super::threads::Executor;
use super::unwritten::Unwritten;
use crate::interrupt;
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses one of the operators. Half floats are computed in floats.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let attention = Attention::of(&node.op_type, &OfNode(node));
    let attention = attention.with_context(|| format!("{} {:?}", node.op_type, node.name))?;
    let slots: Vec<Option<usize>> = optional_inputs(node).take(node.input.len()).collect();
    let count = slots.iter().flatten().count();
    let outputs = node.output.len().min(2);
    own(node, [count, outputs], move |node: &mut Wiring<'_>| {
        let types = node.types()?;
        let floats = [f32::datum_type(), f16::datum_type()];
        for datum_type in &types {
            ensure!(
                floats.contains(datum_type),
                "an input has elements of type {datum_type:?}, expected F32 or F16"
            );
        }
        let mut inputs = node.inputs.clone();
        for input in &mut inputs {
            *input = node.cast("float", *input, f32::datum_type())?;
        }
        let op = Typed(OfAttention {
            attention: attention.clone(),
            slots: slots.clone(),
            outputs,
        });
        let name = node.part("floats");
        let mut made = node.model.wire_node(name, op, &inputs)?;
        // A state has the type of the one before, other outputs have that of the first input.
        let past = attention.inputs().iter().position(|it| *it == "past_state");
        let past = past.and_then(|it| *slots.get(it)?);
        for (index, made) in made.iter_mut().enumerate() {
            let like = if index == 1 { past.unwrap_or(0) } else { 0 };
            *made = node.cast("output", *made, types[like])?;
        }
        Ok(Some(made))
    })
}

/// An operator of linear attention, in floats.
#[derive(Clone, Debug)]
struct OfAttention {
    attention: Attention,
    /// The inputs that the node has.
    slots: Vec<Option<usize>>,
    /// How many outputs it has.
    outputs: usize,
}

never_equal!(OfAttention);

impl Stateless for OfAttention {
    const NAME: &str = "Attention";

    fn name(&self) -> StaticName {
        self.attention.name().into()
    }

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let plain = inputs.iter().map(|input| input.try_as_plain_ram());
        let plain: Vec<PlainView<'_>> = plain.collect::<TractResult<_>>()?;
        let operand = |slot: &Option<usize>| -> TractResult<Option<Operand<'_>>> {
            let Some(slot) = *slot else { return Ok(None) };
            let (sizes, elements) = (inputs[slot].shape(), plain[slot].as_slice::<f32>()?);
            Ok(Some(Operand { sizes, elements }))
        };
        let operands: Vec<Option<Operand<'_>>> =
            self.slots.iter().map(operand).collect::<TractResult<_>>()?;
        let sizes: Vec<Option<&[usize]>> =
            operands.iter().map(|it| it.map(|it| it.sizes)).collect();
        let shapes = self.attention.sizes(&sizes)?;
        let outputs = shapes.iter().take(self.outputs);
        let mut outputs: Vec<Unwritten<f32>> = outputs
            .map(|sizes| Unwritten::new(sizes))
            .collect::<TractResult<_>>()?;
        let mut places = outputs.iter_mut().map(Unwritten::places);
        let places = [places.next(), places.next()];
        let run = self.attention.run(&operands, places, &Executor::current());
        if run == Err(Error::Stopped) {
            interrupt::check()?;
        }
        run?;
        #[expect(unsafe_code, reason = "they were allocated without being written")]
        let tensor = |output: Unwritten<f32>| {
            // SAFETY: a run that does not fail writes all.
            Ok(unsafe { output.written() }?.into_tvalue())
        };
        outputs.into_iter().map(tensor).collect()
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let sizes = |index: usize, rank: usize| -> TractResult<TVec<TDim>> {
            let name = self.attention.inputs()[index];
            let slot = self.slots.get(index).copied().flatten();
            let shape = &inputs[slot.with_context(|| format!("it lacks {name}"))?].shape;
            let found = shape.rank();
            ensure!(
                found >= rank,
                "its {name} has {found} axes, expected {rank}"
            );
            Ok(shape.to_tvec())
        };
        let first = sizes(0, 3)?;
        let (output, state, window) = match &self.attention {
            Attention::Linear(linear) => {
                let value = sizes(2, 3)?[2].clone();
                let (heads, states) = (linear.query_heads, linear.states);
                let [batch, steps, key] = [0, 1, 2].map(|axis| first[axis].clone());
                let output = tvec![batch.clone(), steps, value.clone() * heads.div_ceil(states)];
                let state = tvec![batch, states.to_dim(), key / heads, value / states];
                (output, state, linear.window)
            }
            Attention::Convolution(convolution) => {
                let taps = sizes(1, 3)?[2].clone();
                let mut state = first.clone();
                let axis = if convolution.channels_last { 1 } else { 2 };
                state[axis] = (taps - 1) * convolution.dilation;
                (first, state, convolution.window)
            }
            Attention::Gate(_) => (first.clone(), first, 0),
        };
        let window = (window > 0).then(|| window.to_dim());
        let state: TVec<TDim> = window.into_iter().chain(state).collect();
        let facts = [f32::fact(output), f32::fact(state)];
        Ok(facts.into_iter().take(self.outputs).collect())
    }
}
