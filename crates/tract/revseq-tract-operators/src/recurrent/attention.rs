//! The operators of linear attention: `LinearAttention`, `CausalConvWithState`, and those of ONNX Runtime.

use recurrent_layers::{Attention, Elements, Operand};
use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::OfNode;
use super::threads::Executor;
use super::unwritten::Unwritten;
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed};

/// Parses one of the operators. Half floats are computed in floats.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let attention = Attention::of(&node.op_type, &OfNode(node));
    let attention = attention.with_context(|| format!("{} {:?}", node.op_type, node.name))?;
    let slots: Vec<Option<usize>> = optional_inputs(node).take(node.input.len()).collect();
    let count = slots.iter().flatten().count();
    let most = attention.inputs().len();
    let count_of_inputs = node.input.len();
    ensure!(
        count_of_inputs <= most,
        "{} {:?} has {count_of_inputs} inputs, expected {most} at most",
        node.op_type,
        node.name
    );
    let outputs = node.output.len().min(attention.outputs().len());
    own(node, [count, outputs], move |node: &mut Wiring<'_>| {
        let types = node.types()?;
        let mut inputs = node.inputs.clone();
        for (index, slot) in slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let datum_type = types[slot];
            let (types_of_input, expected) = match attention.is_of_integers(index) {
                true => (&[i32::datum_type()][..], "I32"),
                false => (&[f32::datum_type(), f16::datum_type()][..], "F32 or F16"),
            };
            let name = attention.inputs()[index];
            ensure!(
                types_of_input.contains(&datum_type),
                "its {name} has elements of type {datum_type:?}, expected {expected}"
            );
            if datum_type.is_float() {
                inputs[slot] = node.cast("float", inputs[slot], f32::datum_type())?;
            }
        }
        let op = Typed(OfAttention {
            attention: attention.clone(),
            slots: slots.clone(),
            outputs,
        });
        let name = node.part("floats");
        let mut made = node.model.wire_node(name, op, &inputs)?;
        let slot = |input: usize| slots.get(input).copied().flatten();
        for (index, made) in made.iter_mut().enumerate() {
            let like = attention.type_of_output(index, |input| slot(input).is_some());
            if let Some(like) = like.and_then(slot) {
                *made = node.cast("output", *made, types[like])?;
            }
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
            let elements = match inputs[slot].datum_type() == i32::datum_type() {
                true => Elements::Integers(plain[slot].as_slice()?),
                false => Elements::Floats(plain[slot].as_slice()?),
            };
            let sizes = inputs[slot].shape();
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
        let places = outputs.iter_mut().map(|it| Some(it.places()));
        let mut places: Vec<Option<_>> = places.collect();
        let result = (self.attention).run(&operands, &mut places, &Executor::current());
        #[expect(unsafe_code, reason = "they were allocated without being written")]
        // SAFETY: a run that does not fail writes all.
        unsafe {
            Unwritten::written(outputs, result)
        }
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let slot = |index: usize| self.slots.get(index).copied().flatten();
        let sizes = |index: usize, rank: usize| -> TractResult<TVec<TDim>> {
            let name = self.attention.inputs()[index];
            let shape = &inputs[slot(index).with_context(|| format!("it lacks {name}"))?].shape;
            let axes = shape.rank();
            ensure!(axes >= rank, "its {name} has {axes} axes, expected {rank}");
            Ok(shape.to_tvec())
        };
        // The number of sequences is one less than that of their offsets.
        let sequences = |index: usize| Ok::<_, TractError>(sizes(index, 1)?[0].clone() - 1);
        let windowed = |window: usize, state: TVec<TDim>| -> TVec<TDim> {
            let window = (window > 0).then(|| window.to_dim());
            window.into_iter().chain(state).collect()
        };
        let shapes: TVec<TVec<TDim>> = match &self.attention {
            Attention::Linear(linear) => {
                let first = sizes(0, 3)?;
                let value = sizes(2, 3)?[2].clone();
                let (heads, states) = (linear.query_heads, linear.states);
                let [batch, steps, key] = [0, 1, 2].map(|axis| first[axis].clone());
                let output = tvec![batch.clone(), steps, value.clone() * heads.div_ceil(states)];
                let state = tvec![batch, states.to_dim(), key / heads, value / states];
                tvec![output, windowed(linear.window, state)]
            }
            Attention::Convolution(convolution) => {
                let first = sizes(0, 3)?;
                let taps = sizes(1, 3)?[2].clone();
                let mut state = first.clone();
                let axis = if convolution.channels_last { 1 } else { 2 };
                state[axis] = (taps - 1) * convolution.dilation;
                tvec![first, windowed(convolution.window, state)]
            }
            Attention::Gate(_) => {
                let first = sizes(0, 3)?;
                tvec![first.clone(), first]
            }
            Attention::DeltaNet(net) => {
                let first = sizes(0, 2)?;
                let is_packed = slot(2).is_none();
                let (tokens, heads, [states, value, key]) = match is_packed {
                    true => {
                        let state = sizes(6, 4)?;
                        let of_state = [1, 2, 3].map(|axis| state[axis].clone());
                        (first.len() - 1, None, of_state)
                    }
                    false => {
                        let (first, values) = (sizes(0, 3)?, sizes(2, 3)?);
                        let tokens = first.len() - 2;
                        let of_value = |axis: usize| {
                            values
                                .get(tokens + axis)
                                .cloned()
                                .context("its value lacks axes")
                        };
                        let of_state = [of_value(0)?, of_value(1)?, first[tokens + 1].clone()];
                        (tokens, Some(first[tokens].clone()), of_state)
                    }
                };
                let batch = match (slot(3), tokens) {
                    (Some(_), _) => sequences(3)?,
                    (None, 2) => first[0].clone(),
                    (None, _) => sizes(6, 4)?[0].clone(),
                };
                let mut output: TVec<TDim> = first[..tokens].into();
                output.extend([states.clone(), value.clone()]);
                let decays = match slot(4) {
                    Some(_) if sizes(4, 2)?.len() == tokens + 2 => states.clone() * &key,
                    _ => states.clone(),
                };
                let of_values = states.clone() * &value;
                let of_keys = match heads {
                    Some(heads) => heads * &key,
                    None => (first[tokens].clone() - &of_values) / 2,
                };
                let captured = (decays + of_keys + of_values) * net.capacity;
                let state = tvec![batch.clone(), states, value, key];
                tvec![output, state, tvec![batch, captured]]
            }
            Attention::PackedConvolution(convolution) => {
                let first = sizes(0, 2)?;
                let (sequences, channels) = (sequences(2)?, first[1].clone());
                let taps = sizes(1, 3)?[2].clone();
                let state = (taps - 1) * convolution.dilation;
                let captured = convolution.capacity.to_dim();
                let state = tvec![sequences.clone(), channels.clone(), state];
                tvec![first, state, tvec![sequences, captured, channels]]
            }
        };
        let facts = shapes.into_iter().take(self.outputs).map(f32::fact);
        Ok(facts.collect())
    }
}
