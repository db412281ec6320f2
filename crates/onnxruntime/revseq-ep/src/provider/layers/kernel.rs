//! The kernel of a layer's node.
//!
//! Weights that are constants are packed when ONNX Runtime offers them, which then releases them, or
//! in the first run; others in each run.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recurrent_layers::{
    Element, Inputs, Layer, Layout, Mask, Memory, Outputs, PackedInput, PackedLayer, PackedState,
    Quantized, Recurrent, ValidSteps, is_worth_packing,
};

use super::super::ep::Ep;
use super::super::error::Error;
use super::super::kernel::named;
use super::super::schemas::{DOUBLE, HALF};
use super::super::threads::Seen;
use super::inputs::{
    B, Given, INITIAL_C, INITIAL_H, LENGTHS, NAMES, P, R, SCALES, Scales, Sizes, Tensors, W, X,
};
use super::operands::{Output, Plain, apart, bytes, check, elements, outputs, three, words};
use super::taken::{Operator, Taken};
use crate::plugin::error::Error as HostError;
use crate::plugin::info::KernelInfo;
use crate::plugin::provider::provider_of;
use crate::plugin::runs::Runs;
use crate::plugin::tensor::{Context, Tensor};
use crate::plugin::{fence, kernel};

const OUTPUTS: [&str; 3] = ["Y", "Y_h", "Y_c"];

/// A layer's kernel. Any number of runs may be in progress at once.
#[derive(Debug)]
pub(crate) struct LayerKernel {
    label: String,
    runs: Arc<Runs>,
    of: Of,
}

/// A layer of either type.
#[derive(Debug)]
enum Of {
    Floats(Node<f32>),
    Doubles(Node<f64>),
}

impl kernel::Kernel for LayerKernel {
    type Failure = Error;
    const PACKS: bool = true;

    fn create(info: KernelInfo<'_>) -> Result<Self, Error> {
        named(info, |name| {
            let ep: &Ep = provider_of(info)?;
            let outputs = info.output_names()?;
            let unknown = "the node is none that the provider has taken";
            let unknown = HostError::argument("OrtKernelCreateFunc", unknown);
            // What is left out is read by nothing.
            let Some(Taken {
                operator: Operator::Recurrent(form),
                read: outputs,
            }) = ep.layer(&outputs)
            else {
                return Err(unknown.into());
            };
            let label = format!("{} node {name:?}", form.name());
            let of = match info.element(X)? {
                Some(DOUBLE) => Of::Doubles(Node::new(info, form, outputs)?),
                _ => Of::Floats(Node::new(info, form, outputs)?),
            };
            Ok(Self {
                label,
                runs: ep.runs(),
                of,
            })
        })
    }

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        fence::fault("layer");
        let computed = match &self.of {
            Of::Floats(node) => node.compute(context, &self.runs),
            Of::Doubles(node) => node.compute(context, &self.runs),
        };
        computed.map_err(|error| error.of_node(self.label.clone()))
    }

    fn pack<'a>(
        &self,
        input: usize,
        read: impl FnOnce() -> Result<Tensor<'a>, HostError>,
    ) -> Result<bool, Error> {
        let packed = match &self.of {
            Of::Floats(node) => node.offer(input, read),
            Of::Doubles(node) => node.offer(input, read),
        };
        packed.map_err(|error| error.of_node(self.label.clone()))
    }
}

/// A node with its packed weights.
#[derive(Debug)]
struct Node<T> {
    form: Recurrent,
    /// Whether each input is there.
    inputs: Vec<bool>,
    /// Whether each output is read.
    outputs: Vec<bool>,
    /// Whether its numbers are half floats.
    is_half: bool,
    /// Whether each input is a constant.
    constant: [bool; NAMES.len()],
    w: OnceLock<PackedInput<T>>,
    r: OnceLock<PackedState<T>>,
    /// Those of W and R, if they are constants.
    scales: [Option<Scales>; 2],
    /// The layer, if all weights are constants.
    layer: OnceLock<Arc<PackedLayer<T>>>,
    /// The memory of runs that have ended.
    memories: Mutex<Vec<Memory<T>>>,
    seen: Seen,
}

impl<T: Element + Plain + From<f32>> Node<T> {
    fn new(info: KernelInfo<'_>, form: Recurrent, outputs: Vec<bool>) -> Result<Self, Error> {
        let names = info.input_names()?;
        let inputs: Vec<bool> = names.iter().map(|name| !name.is_empty()).collect();
        let mut constants = [None; NAMES.len()];
        for (input, constant) in constants.iter_mut().enumerate() {
            if inputs.get(input) == Some(&true) {
                *constant = info.constant(input)?;
            }
        }
        let scales = SCALES.map(|inputs| Scales::of(&constants, inputs));
        let [of_w, of_r] = scales;
        Ok(Self {
            form,
            inputs,
            outputs,
            is_half: info.element(X)? == Some(HALF),
            constant: constants.map(|it| it.is_some()),
            w: OnceLock::new(),
            r: OnceLock::new(),
            scales: [of_w?, of_r?],
            layer: OnceLock::new(),
            memories: Mutex::default(),
            seen: Seen::default(),
        })
    }

    /// Packs an input that ONNX Runtime offers, unless it is. Returns whether runs need it no more.
    fn offer<'a>(
        &self,
        input: usize,
        read: impl FnOnce() -> Result<Tensor<'a>, HostError>,
    ) -> Result<bool, Error> {
        let none = &[None; NAMES.len()];
        match input {
            W => keep(&self.w, || self.pack_w(read()?, none, usize::MAX)),
            R => keep(&self.r, || self.pack_r(read()?, none, usize::MAX)),
            _ => Ok(false),
        }
    }

    /// The layer of weights of these sizes.
    fn layer(&self, features: usize, units: usize) -> Layer {
        Layer {
            features,
            units: self.units(units),
            ..self.form.layer.clone()
        }
    }

    /// The number of units, which R has if the node does not say it.
    fn units(&self, of_r: usize) -> usize {
        match self.form.layer.units {
            0 => of_r,
            units => units,
        }
    }

    /// Packs W, or leaves it to a run of few rows; `None` if it is quantised and its scales are not at hand.
    fn pack_w(
        &self,
        w: Tensor<'_>,
        tensors: &Tensors<'_>,
        rows_of_run: usize,
    ) -> Result<Option<PackedInput<T>>, Error> {
        let gates = self.form.layer.cell.gates();
        let [directions, mut rows, mut features] = three("W", w)?;
        if self.form.layer.quantizes {
            (rows, features) = (features, rows);
        }
        let layer = self.layer(features, rows / gates);
        self.check_weights("W", w, [directions, rows, features], &layer, features)?;
        if !self.form.layer.quantizes {
            return Ok(Some(match is_worth_packing(w.count(), rows_of_run) {
                true => layer.pack_input(&elements("W", w)?)?,
                false => layer.input_of_run()?,
            }));
        }
        self.quantized(W, w, tensors, |w| layer.pack_quantized_input(w))
    }

    /// Packs R, as W is packed.
    fn pack_r(
        &self,
        r: Tensor<'_>,
        tensors: &Tensors<'_>,
        rows_of_run: usize,
    ) -> Result<Option<PackedState<T>>, Error> {
        let [directions, mut rows, mut units] = three("R", r)?;
        if self.form.layer.quantizes {
            (rows, units) = (units, rows);
        }
        let layer = self.layer(0, units);
        self.check_weights("R", r, [directions, rows, units], &layer, layer.units)?;
        if !self.form.layer.quantizes {
            return Ok(Some(match is_worth_packing(r.count(), rows_of_run) {
                true => layer.pack_state(&elements("R", r)?)?,
                false => layer.state_of_run()?,
            }));
        }
        self.quantized(R, r, tensors, |r| layer.pack_quantized_state(r))
    }

    /// Checks the sizes of W or R, [directions, gates * units, columns].
    fn check_weights(
        &self,
        input: &'static str,
        tensor: Tensor<'_>,
        found: [usize; 3],
        layer: &Layer,
        columns: usize,
    ) -> Result<(), Error> {
        let (directions, gates) = (layer.directions.len(), layer.cell.gates());
        if found == [directions, gates * layer.units, columns] {
            return Ok(());
        }
        let rows = gates * layer.units;
        let expected = match layer.quantizes {
            true => [directions, columns, rows],
            false => [directions, rows, columns],
        };
        check(input, tensor, &expected, || words(&expected))
    }

    /// Packs quantised weights, if their scales and zero points are at hand.
    fn quantized<P>(
        &self,
        input: usize,
        weights: Tensor<'_>,
        tensors: &Tensors<'_>,
        pack: impl FnOnce(&Quantized<'_>) -> Result<P, recurrent_layers::Error>,
    ) -> Result<Option<P>, Error> {
        let index = usize::from(input == R);
        let given = Scales::of(tensors, SCALES[index])?;
        let Some(scales) = given.as_ref().or(self.scales[index].as_ref()) else {
            return Ok(None);
        };
        let packed = pack(&Quantized {
            weights: bytes(NAMES[input], weights)?,
            scales: &scales.scales,
            zero_points: scales.zero_points.as_bytes(),
        })?;
        Ok(Some(packed))
    }

    /// The layer of a run: that of constants, or of weights that are packed now.
    fn packed(&self, given: &Given<'_>) -> Result<Arc<PackedLayer<T>>, Error> {
        if let Some(layer) = self.layer.get() {
            return Ok(Arc::clone(layer));
        }
        // Constants are multiplied in other runs, too.
        let rows = |input| -> Result<usize, Error> {
            let [steps, batch, _] = three("X", given.input(X)?)?;
            Ok(match self.is_constant([input]) {
                true => usize::MAX,
                false => steps.saturating_mul(batch),
            })
        };
        let (of_w, of_r) = (rows(W)?, rows(R)?);
        let tensors = &given.tensors;
        let w = self.weights(&self.w, W, || self.pack_w(given.input(W)?, tensors, of_w))?;
        let r = self.weights(&self.r, R, || self.pack_r(given.input(R)?, tensors, of_r))?;
        let layer = self.layer(w.features(), r.units());
        let (directions, gates) = (layer.directions.len(), layer.cell.gates());
        let vector = |input: usize, times: usize| -> Result<Option<Cow<'_, [T]>>, Error> {
            if let Some(tensor) = given.tensors[input] {
                let sizes = [directions, times * layer.units];
                check(NAMES[input], tensor, &sizes, || match input {
                    B => format!("{directions},{times}*{}", layer.units),
                    _ => words(&sizes),
                })?;
            }
            given.numbers(input)
        };
        let (b, p) = (vector(B, 2 * gates)?, vector(P, 3)?);
        let packed = Arc::new(layer.packed(&w, &r, b.as_deref(), p.as_deref())?);
        let weights = [W, R, B, P].into_iter().chain(SCALES.into_iter().flatten());
        if self.is_constant(weights) {
            let _ = self.layer.set(Arc::clone(&packed));
        }
        Ok(packed)
    }

    /// W or R of a run, packed before or now; constants are kept.
    fn weights<P: Clone>(
        &self,
        kept: &OnceLock<P>,
        input: usize,
        pack: impl FnOnce() -> Result<Option<P>, Error>,
    ) -> Result<P, Error> {
        if let Some(packed) = kept.get() {
            return Ok(packed.clone());
        }
        let missing = HostError::argument("Compute", "the scales of the weights are missing");
        let packed = pack()?.ok_or(missing)?;
        let [scales, zero_points] = SCALES[usize::from(input == R)];
        if self.is_constant([input, scales, zero_points]) {
            let _ = kept.set(packed.clone());
        }
        Ok(packed)
    }

    /// Whether those of these inputs that the node has are constants.
    fn is_constant(&self, inputs: impl IntoIterator<Item = usize>) -> bool {
        let mut given = inputs.into_iter().filter(|input| self.has(*input));
        given.all(|input| self.constant[input])
    }

    /// Whether the node has an input.
    fn has(&self, input: usize) -> bool {
        self.inputs.get(input).copied().unwrap_or_default()
    }

    /// The inputs of a run, but for weights that are packed.
    fn given<'a>(&self, context: Context<'a>) -> Result<Given<'a>, Error> {
        let mut tensors = [None; NAMES.len()];
        let is_packed = self.layer.get().is_some();
        for (input, tensor) in tensors.iter_mut().enumerate() {
            let is_known = match input {
                X | LENGTHS | INITIAL_H | INITIAL_C => false,
                W => self.w.get().is_some(),
                R => self.r.get().is_some(),
                _ => is_packed,
            };
            if self.has(input) && !is_known {
                *tensor = context.optional_input(input)?;
            }
        }
        Ok(Given { tensors })
    }

    fn compute(&self, context: Context<'_>, runs: &Runs) -> Result<(), Error> {
        let given = self.given(context)?;
        let packed = self.packed(&given)?;
        let x = given.input(X)?;
        let sizes = self.sizes(x, &packed)?;
        let (mut lengths, mut mask) = (None, None);
        match self.form.mask {
            None => lengths = given.lengths(sizes)?,
            Some(_) => mask = given.mask(sizes)?,
        }
        let states = self.state_sizes(sizes, &packed);
        let words = || words(&states);
        for input in [INITIAL_H, INITIAL_C] {
            if let Some(tensor) = given.tensors[input] {
                check(NAMES[input], tensor, &states, words)?;
            }
        }
        let mut outputs = self.outputs(context, sizes, &packed)?;
        // A caller may bind one buffer as a state before and after the steps.
        let apart = |numbers| apart(numbers, &outputs);
        let (h, c) = (given.numbers(INITIAL_H)?, given.numbers(INITIAL_C)?);
        let (h, c) = (h.map(apart).transpose()?, c.map(apart).transpose()?);
        let x = apart(elements("X", x)?)?;
        let [reads_w, reads_r] = packed.reads();
        let weights = |input, reads: bool| match reads {
            true => given.numbers(input)?.map(apart).transpose(),
            false => Ok(None),
        };
        let (w, r) = (weights(W, reads_w)?, weights(R, reads_r)?);
        let inputs = Inputs {
            x: &x,
            w: w.as_deref(),
            r: r.as_deref(),
            steps: sizes.steps,
            batch: sizes.batch,
            layout: self.form.layout,
            valid: match (&lengths, &mask, self.form.mask) {
                (_, Some(mask), Some(Mask { blends, repeats })) => ValidSteps::Mask {
                    mask,
                    blends,
                    repeats,
                },
                (Some(lengths), ..) => ValidSteps::Lengths(lengths),
                _ => ValidSteps::All,
            },
            initial_h: h.as_deref(),
            initial_c: c.as_deref(),
        };
        let [y, last_h, last_c] = &mut outputs;
        let slices = Outputs {
            y: y.as_mut().map(Output::elements),
            last_h: last_h.as_mut().map(Output::elements),
            last_c: last_c.as_mut().map(Output::elements),
        };
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = memories.pop().unwrap_or_default();
        drop(memories);
        self.seen.run(context, runs.ending(), |threads| {
            packed.run(&inputs, slices, &mut memory, threads)
        })?;
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.push(memory);
        drop(memories);
        for output in outputs.into_iter().flatten() {
            // SAFETY: the run has written all elements.
            unsafe { output.finish() };
        }
        Ok(())
    }

    fn sizes(&self, x: Tensor<'_>, packed: &PackedLayer<T>) -> Result<Sizes, Error> {
        let [first, second, features] = three("X", x)?;
        let (steps, batch) = match self.form.layout {
            Layout::TimeFirst => (first, second),
            Layout::BatchFirst => (second, first),
        };
        if features != packed.features() {
            let (directions, gates) = (packed.directions(), packed.cell().gates());
            let actual = [directions, gates * packed.units(), packed.features()];
            return Err(Error::LayerShape {
                input: "W",
                expected: format!("shape {{{directions},{},{features}}}", actual[1]),
                actual: actual.map(|size| size as i64).to_vec(),
            });
        }
        Ok(Sizes { steps, batch })
    }

    fn state_sizes(&self, sizes: Sizes, packed: &PackedLayer<T>) -> [usize; 3] {
        let (directions, units) = (packed.directions(), packed.units());
        match self.form.layout {
            Layout::TimeFirst => [directions, sizes.batch, units],
            Layout::BatchFirst => [sizes.batch, directions, units],
        }
    }

    /// Asks for the outputs that are wanted.
    fn outputs(
        &self,
        context: Context<'_>,
        sizes: Sizes,
        packed: &PackedLayer<T>,
    ) -> Result<[Option<Output<T>>; 3], Error> {
        let states = self.state_sizes(sizes, packed).map(|size| size as i64);
        let [directions, units] = [packed.directions(), packed.units()].map(|it| it as i64);
        let [steps, batch] = [sizes.steps, sizes.batch].map(|it| it as i64);
        let y = match self.form.layout {
            Layout::TimeFirst => [steps, directions, batch, units],
            Layout::BatchFirst => [batch, steps, directions, units],
        };
        let all = [&y[..], &states, &states];
        let are_read = |index| self.outputs.get(index).copied().unwrap_or_default();
        let wanted =
            std::array::from_fn(|index| are_read(index).then_some((all[index], self.is_half)));
        outputs(context, &OUTPUTS, wanted)
    }
}

/// Packs weights and keeps them, unless they are kept. Returns whether they are now.
fn keep<P>(
    kept: &OnceLock<P>,
    pack: impl FnOnce() -> Result<Option<P>, Error>,
) -> Result<bool, Error> {
    if kept.get().is_none()
        && let Some(packed) = pack()?
    {
        let _ = kept.set(packed);
    }
    Ok(kept.get().is_some())
}
