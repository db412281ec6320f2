//! A whole layer as one operator, over the crate recurrent-layers.
//!
//! It packs weights that are no constants. Sizes and lengths were checked by operators before it
//! (`checked.rs`).

use std::borrow::Borrow;
use std::sync::Mutex;

use recurrent_layers::{
    Cell, Element, Error, Inputs, Layer, Mask, Memory, Outputs, PackedLayer, ValidSteps,
    is_worth_packing,
};
use tract_onnx::tract_hir::internal::*;

use super::quantized;
use super::threads::Executor;
use super::unwritten::Unwritten;
use crate::wire::is_read;

/// The valid steps; at others, states do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidityInput {
    All,
    /// Steps below an input's lengths, int64 of [batch], each 0 to the number of steps. Other
    /// outputs are zeros, and so are final states without steps.
    Lengths,
    /// Steps that are true in an input, [steps, batch].
    Masked(Mask),
}

/// The layer that an operator computes.
#[derive(Clone, Debug)]
pub(super) enum Weights<T> {
    Packed(Arc<PackedLayer<T>>),
    /// Layer whose weights are inputs, [`WeightInputs`].
    Inputs {
        form: Layer,
        bias: bool,
        peepholes: bool,
    },
}

/// The inputs W and R, and B and P if they are present.
pub(super) struct WeightInputs<V> {
    pub(super) w: V,
    pub(super) r: V,
    /// The scales and the zero points of W and of R, if they are quantised.
    pub(super) quantization: Option<[V; 4]>,
    pub(super) bias: Option<V>,
    pub(super) peepholes: Option<V>,
}

impl<V> WeightInputs<V> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &V> {
        let weights = [&self.w, &self.r].into_iter();
        let weights = weights.chain(self.quantization.iter().flatten());
        weights.chain(&self.bias).chain(&self.peepholes)
    }

    /// The constants that all weights are; `None` if one is none.
    pub(super) fn constants<C>(
        &self,
        constant: impl Fn(&V) -> TractResult<Option<C>>,
    ) -> TractResult<Option<WeightInputs<C>>> {
        let mut all = vec![];
        for of in self.iter() {
            rule_if_some!(known = constant(of)?);
            all.push(known);
        }
        let shape = [
            self.quantization.is_some(),
            self.bias.is_some(),
            self.peepholes.is_some(),
        ];
        WeightInputs::of(&mut all.into_iter(), shape).map(Some)
    }

    /// The next values, as they are [listed](Self::iter), if weights are quantised, and if there are a bias
    /// and peepholes.
    fn of(
        values: &mut impl Iterator<Item = V>,
        [quantizes, bias, peepholes]: [bool; 3],
    ) -> TractResult<Self> {
        let mut next = || values.next().context("a layer has its weights");
        Ok(Self {
            w: next()?,
            r: next()?,
            quantization: match quantizes {
                true => Some([next()?, next()?, next()?, next()?]),
                false => None,
            },
            bias: bias.then(&mut next).transpose()?,
            peepholes: peepholes.then(&mut next).transpose()?,
        })
    }
}

/// The elements of a tensor that may be there.
fn plain<V: Borrow<Tensor>>(tensor: Option<&V>) -> TractResult<Option<PlainView<'_>>> {
    tensor.map(|it| it.borrow().try_as_plain_ram()).transpose()
}

impl<V: Borrow<Tensor>> WeightInputs<V> {
    /// Packs the weights of a layer, whose sizes follow from them, or leaves those to a run that are not worth it
    /// for so many rows.
    pub(super) fn pack<T: Element + Datum>(
        &self,
        form: &Layer,
        rows: usize,
    ) -> TractResult<PackedLayer<T>> {
        let (w, r) = (self.w.borrow(), self.r.borrow());
        let (b, p) = (plain(self.bias.as_ref())?, plain(self.peepholes.as_ref())?);
        // Quantised weights are transposed.
        let inputs = 2 - usize::from(form.quantizes);
        let layer = Layer {
            units: r.shape()[inputs],
            features: w.shape()[inputs],
            ..form.clone()
        };
        let (w, r) = match &self.quantization {
            Some(quantization) => {
                let [of_w @ .., r_scale, r_zero] = quantization.each_ref().map(Borrow::borrow);
                let w = quantized::packed("W", w, of_w, |w| layer.pack_quantized_input::<T>(w));
                let of_r = [r_scale, r_zero];
                let r = quantized::packed("R", r, of_r, |r| layer.pack_quantized_state::<T>(r));
                (w?, r?)
            }
            None => {
                let (w, r) = (w.try_as_plain_ram()?, r.try_as_plain_ram()?);
                let (w, r) = (w.as_slice::<T>()?, r.as_slice::<T>()?);
                let w = match is_worth_packing(w.len(), rows) {
                    true => layer.pack_input(w),
                    false => layer.input_of_run(),
                };
                let r = match is_worth_packing(r.len(), rows) {
                    true => layer.pack_state(r),
                    false => layer.state_of_run(),
                };
                (w?, r?)
            }
        };
        let b = b.as_ref().map(|it| it.as_slice()).transpose()?;
        let p = p.as_ref().map(|it| it.as_slice()).transpose()?;
        Ok(layer.packed(&w, &r, b, p)?)
    }
}

impl<T: Element + Datum> Weights<T> {
    fn form(&self) -> (Cell, usize) {
        match self {
            Self::Packed(layer) => (layer.cell(), layer.directions()),
            Self::Inputs { form, .. } => (form.cell, form.directions.len()),
        }
    }
}

/// LSTM, GRU or RNN.
///
/// The inputs are X, [steps, batch, features], then the weights unless they are packed, then, if
/// present, the lengths or mask, and the initial states, [directions, batch, units]. The outputs are
/// Y, [steps, directions, batch, units], and the final states, as requested.
#[derive(Clone, Debug)]
pub(super) struct Recurrent<T> {
    pub(super) layer: Weights<T>,
    pub(super) counted: ValidityInput,
    /// Whether the initial states h and c are inputs.
    pub(super) initial: [bool; 2],
    /// Whether Y and the final states h and c are outputs.
    pub(super) outputs: [bool; 3],
}

never_equal!(Recurrent<T>, T);

impl<T: Element + Datum> Op for Recurrent<T> {
    fn name(&self) -> StaticName {
        format!("Packed{}", self.layer.form().0.name()).into()
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl<T: Element + Datum> EvalOp for Recurrent<T> {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::<KeptMemory<T>>::default()))
    }
}

impl<T: Element + Datum> TypedOp for Recurrent<T> {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = &inputs[0].shape;
        let (steps, batch) = (shape[0].clone(), shape[1].clone());
        let directions = self.layer.form().1.to_dim();
        let units = match &self.layer {
            Weights::Packed(layer) => layer.units().to_dim(),
            Weights::Inputs { form, .. } => {
                inputs[2].shape[2 - usize::from(form.quantizes)].clone()
            }
        };
        let state = [directions.clone(), batch.clone(), units.clone()];
        let y = [steps, directions, batch, units];
        let facts = [T::fact(y), T::fact(state.clone()), T::fact(state)];
        let facts = std::iter::zip(facts, self.outputs).filter(|(_, is_wanted)| *is_wanted);
        Ok(facts.map(|(fact, _)| fact).collect())
    }

    /// Leaves out outputs that nothing reads, and packs weights that have become constants.
    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        if let Some(patch) = self.without_unread(model, node)? {
            return Ok(Some(patch));
        }
        let Weights::Inputs {
            form,
            bias,
            peepholes,
        } = &self.layer
        else {
            return Ok(None);
        };
        let mut inputs = node.inputs.iter().copied();
        let x = inputs.next();
        let weights = WeightInputs::of(&mut inputs, [form.quantizes, *bias, *peepholes])?;
        let konst = |outlet: &OutletId| Ok(model.outlet_fact(*outlet)?.konst.clone());
        rule_if_some!(known = weights.constants(konst)?);
        let op = Self {
            layer: Weights::Packed(Arc::new(known.pack(form, usize::MAX)?)),
            ..self.clone()
        };
        let inputs: TVec<OutletId> = x.into_iter().chain(inputs).collect();
        TypedModelPatch::replace_single_op(model, node, &inputs, op).map(Some)
    }

    as_op!();
}

impl<T: Element + Datum> Recurrent<T> {
    /// The layer without the outputs that nothing reads, if there are such.
    fn without_unread(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let outlets = (0..node.outputs.len()).map(|slot| OutletId::new(node.id, slot));
        let (read, unread): (TVec<_>, TVec<_>) =
            outlets.partition(|outlet| is_read(model, *outlet));
        // A node of which nothing is read goes by itself.
        rule_if!(!unread.is_empty() && !read.is_empty());
        let mut op = self.clone();
        let present = op.outputs.iter_mut().filter(|it| **it);
        for (slot, is_wanted) in present.enumerate() {
            *is_wanted = read.contains(&OutletId::new(node.id, slot));
        }
        let mut patch = TypedModelPatch::default();
        let inputs = patch.taps(model, &node.inputs)?;
        let outputs = patch.wire_node(&*node.name, op, &inputs)?;
        for (outlet, output) in std::iter::zip(read, outputs) {
            patch.shunt_outside(model, outlet, output)?;
        }
        Ok(Some(patch))
    }
}

/// Memory that is kept from run to run, which each run fills anew for its sizes.
#[derive(Debug)]
struct KeptMemory<T>(Mutex<Memory<T>>);

impl<T> Default for KeptMemory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Clone for KeptMemory<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T: Element + Datum> OpState for KeptMemory<T> {
    fn eval(
        &mut self,
        _ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<Recurrent<T>>().context("its own op")?;
        let memory = self
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        op.run(&inputs, memory)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}

/// The inputs of a run, which have the sizes that they should have.
struct RunInputs<'a> {
    x: &'a TValue,
    /// W and R, if they are inputs.
    weights: [Option<&'a TValue>; 2],
    /// Lengths or a mask.
    counted: Option<&'a TValue>,
    /// The states h and c before the first step.
    initial: [Option<&'a TValue>; 2],
}

impl RunInputs<'_> {
    fn steps(&self) -> usize {
        self.x.shape()[0]
    }

    fn batch(&self) -> usize {
        self.x.shape()[1]
    }
}

impl<T: Element + Datum> Recurrent<T> {
    /// Runs the layer, and returns the outputs that are wanted.
    fn run(&self, inputs: &[TValue], memory: &mut Memory<T>) -> TractResult<TVec<TValue>> {
        let (x, inputs) = inputs.split_first().context("a layer has an input")?;
        let mut inputs = inputs.iter();
        let mut weights = None;
        let layer = &*match &self.layer {
            Weights::Packed(layer) => Arc::clone(layer),
            Weights::Inputs {
                form,
                bias,
                peepholes,
            } => {
                let shape = [form.quantizes, *bias, *peepholes];
                let of_run = WeightInputs::of(&mut inputs.by_ref().cloned(), shape)?;
                let rows = x.shape()[..2].iter().product();
                Arc::new(weights.insert(of_run).pack(form, rows)?)
            }
        };
        let mut input = |is_there: bool| if is_there { inputs.next() } else { None };
        let run_inputs = RunInputs {
            x,
            weights: match &weights {
                Some(of_run) => [Some(&of_run.w), Some(&of_run.r)],
                None => [None, None],
            },
            counted: input(self.counted != ValidityInput::All),
            initial: self.initial.map(input),
        };
        let sizes = [layer.directions(), run_inputs.batch(), layer.units()];
        let y_sizes = [run_inputs.steps(), sizes[0], sizes[1], sizes[2]];
        let shapes: [&[usize]; 3] = [&y_sizes, &sizes, &sizes];
        let mut outputs = [None, None, None];
        for (output, (shape, is_wanted)) in
            std::iter::zip(&mut outputs, std::iter::zip(shapes, self.outputs))
        {
            *output = is_wanted.then(|| Unwritten::new(shape)).transpose()?;
        }
        let result = self.run_layer(layer, &run_inputs, &mut outputs, memory)?;
        #[expect(unsafe_code, reason = "they were allocated without being written")]
        // SAFETY: a run that does not fail writes all.
        unsafe {
            Unwritten::written(outputs.into_iter().flatten(), result)
        }
    }

    /// Runs the layer into the outputs that are wanted, and returns its result: it writes all of them unless it
    /// fails.
    fn run_layer(
        &self,
        layer: &PackedLayer<T>,
        run_inputs: &RunInputs<'_>,
        outputs: &mut [Option<Unwritten<T>>; 3],
        memory: &mut Memory<T>,
    ) -> TractResult<Result<(), Error>> {
        let (x, counted) = (run_inputs.x.try_as_plain_ram()?, plain(run_inputs.counted)?);
        let [h, c] = run_inputs.initial;
        let (h, c) = (plain(h)?, plain(c)?);
        let mut lengths: Vec<usize> = vec![];
        let valid = match (self.counted, &counted) {
            (ValidityInput::Lengths, Some(numbers)) => {
                let steps_of = |length: &i64| usize::try_from(*length).unwrap_or(0);
                lengths.extend(numbers.as_slice::<i64>()?.iter().map(steps_of));
                ValidSteps::Lengths(&lengths)
            }
            (ValidityInput::Masked(it), Some(mask)) => ValidSteps::Mask {
                mask: mask.as_slice::<bool>()?,
                blends: it.blends,
                repeats: it.repeats,
            },
            _ => ValidSteps::All,
        };
        let mut inputs = Inputs::new(x.as_slice::<T>()?, run_inputs.steps(), run_inputs.batch());
        let mut views = [None, None];
        let of_run = std::iter::zip(run_inputs.weights, layer.reads());
        for (view, (weights, is_read)) in std::iter::zip(&mut views, of_run) {
            *view = plain(weights.filter(|_| is_read))?;
        }
        let [w, r] = views.each_ref().map(Option::as_ref);
        inputs.w = w.map(|it| it.as_slice()).transpose()?;
        inputs.r = r.map(|it| it.as_slice()).transpose()?;
        inputs.valid = valid;
        inputs.initial_h = h.as_ref().map(|it| it.as_slice()).transpose()?;
        inputs.initial_c = c.as_ref().map(|it| it.as_slice()).transpose()?;
        let [y, last_h, last_c] = outputs.each_mut().map(Option::as_mut);
        let outputs = Outputs {
            y: y.map(Unwritten::places),
            last_h: last_h.map(Unwritten::places),
            last_c: last_c.map(Unwritten::places),
        };
        Ok(layer.run(&inputs, outputs, memory, &Executor::current()))
    }
}
