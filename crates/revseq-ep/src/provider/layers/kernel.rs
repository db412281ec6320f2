//! The kernel of a layer's node.
//!
//! Weights that are constants are packed while the kernel is made, or when ONNX Runtime offers them,
//! and released by it; others in each run.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use recurrent_layers::{
    Element, Inputs, Layer, Layout, Memory, Outputs, PackedInput, PackedLayer, PackedState,
    Quantized, ValidSteps,
};
use smallvec::SmallVec;

use super::super::ep::Ep;
use super::super::error::Error;
use super::super::kernel::{CORES, named, overlaps};
use super::super::schemas::DOUBLE;
use super::form::Form;
use super::operands::{Output, Plain, byte_count, bytes, check, elements, three, words};
use super::threads::{Pool, Seen};
use crate::plugin::error::Error as HostError;
use crate::plugin::info::KernelInfo;
use crate::plugin::tensor::{Context, ParallelLoop, Tensor};
use crate::plugin::{fence, kernel};

// The places of the inputs; GRU and RNN end with the state h.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENGTHS: usize = 4;
const INITIAL_H: usize = 5;
const INITIAL_C: usize = 6;
const P: usize = 7;
/// The scale of W, its zero point, and those of R.
const SCALES: [usize; 4] = [8, 9, 10, 11];

const NAMES: [&str; 12] = [
    "X",
    "W",
    "R",
    "B",
    "sequence_lens",
    "initial_h",
    "initial_c",
    "P",
    "W_scale",
    "W_zero_point",
    "R_scale",
    "R_zero_point",
];
const OUTPUTS: [&str; 3] = ["Y", "Y_h", "Y_c"];

/// A layer's kernel. Any number of runs may be in progress at once.
#[derive(Debug)]
pub(crate) struct LayerKernel {
    label: String,
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

    fn create(info: KernelInfo) -> Result<Self, Error> {
        named(info, |name| {
            // SAFETY: this library's EPs alone take nodes for this kernel, so
            // the node's is one of them, and it outlives its kernels.
            let ep = unsafe { Ep::from_table(info.ep()?) };
            let outputs = info.output_names()?;
            let form = ep.layer(&outputs).ok_or(HostError::HostArgument {
                function: "OrtKernelCreateFunc",
                problem: "the node is none that the provider has taken",
            })?;
            let label = format!("{} node {name:?}", form.name());
            let outputs = outputs.iter().map(|name| !name.is_empty()).collect();
            let of = match info.element(X)? {
                Some(DOUBLE) => Of::Doubles(Node::new(info, form, outputs)?),
                _ => Of::Floats(Node::new(info, form, outputs)?),
            };
            Ok(Self { label, of })
        })
    }

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        fence::fault("layer");
        let computed = match &self.of {
            Of::Floats(node) => node.compute(context),
            Of::Doubles(node) => node.compute(context),
        };
        computed.map_err(|error| error.of_node(self.label.clone()))
    }

    fn pack(&self, input: usize, tensor: Tensor<'_>) -> Result<bool, Error> {
        let packed = match &self.of {
            Of::Floats(node) => node.offer(input, tensor),
            Of::Doubles(node) => node.offer(input, tensor),
        };
        packed.map_err(|error| error.of_node(self.label.clone()))
    }
}

/// A node with its packed weights.
#[derive(Debug)]
struct Node<T> {
    form: Form,
    /// Whether each input and each output is there.
    inputs: Vec<bool>,
    outputs: Vec<bool>,
    w: OnceLock<PackedInput<T>>,
    r: OnceLock<PackedState<T>>,
    b: Option<Vec<T>>,
    p: Option<Vec<T>>,
    /// The layer, if all weights are constants.
    layer: OnceLock<Arc<PackedLayer<T>>>,
    /// The memory of runs that have ended.
    memories: Mutex<Vec<Memory<T>>>,
    seen: Seen,
}

/// The sizes of a run.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
}

impl<T: Element + Plain + Default + From<f32>> Node<T> {
    fn new(info: KernelInfo, form: Form, outputs: Vec<bool>) -> Result<Self, Error> {
        let inputs = info.given_inputs()?;
        let constant = |input: usize| match inputs.get(input) {
            Some(true) => info.constant(input),
            _ => Ok(None),
        };
        let vector = |input: usize| -> Result<Option<Vec<T>>, Error> {
            let constant = constant(input)?;
            let all = constant.map(|it| elements(NAMES[input], it).map(|all| all.into_owned()));
            all.transpose()
        };
        let mut node = Self {
            form,
            b: vector(B)?,
            p: vector(P)?,
            w: OnceLock::new(),
            r: OnceLock::new(),
            layer: OnceLock::new(),
            memories: Mutex::default(),
            seen: Seen::default(),
            inputs: vec![],
            outputs,
        };
        if let Some(w) = constant(W)?
            && let Some(packed) = node.pack_w(w, &constant)?
        {
            node.w = OnceLock::from(packed);
        }
        if let Some(r) = constant(R)?
            && let Some(packed) = node.pack_r(r, &constant)?
        {
            node.r = OnceLock::from(packed);
        }
        node.inputs = inputs;
        Ok(node)
    }

    /// Packs an input that ONNX Runtime offers, unless it is. Returns whether runs need it no more.
    fn offer(&self, input: usize, tensor: Tensor<'_>) -> Result<bool, Error> {
        let none = |_| Ok(None);
        match input {
            W if self.w.get().is_none() => {
                if let Some(packed) = self.pack_w(tensor, none)? {
                    let _ = self.w.set(packed);
                }
            }
            R if self.r.get().is_none() => {
                if let Some(packed) = self.pack_r(tensor, none)? {
                    let _ = self.r.set(packed);
                }
            }
            _ => {}
        }
        Ok(match input {
            W => self.w.get().is_some(),
            R => self.r.get().is_some(),
            _ => false,
        })
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

    /// Packs W, unless it is quantised and its scales are not at hand.
    fn pack_w<'a>(
        &self,
        w: Tensor<'a>,
        operand: impl Fn(usize) -> Result<Option<Tensor<'a>>, HostError>,
    ) -> Result<Option<PackedInput<T>>, Error> {
        let gates = self.form.layer.cell.gates();
        let [directions, mut rows, mut features] = three("W", w)?;
        if self.form.layer.quantizes {
            (rows, features) = (features, rows);
        }
        let layer = self.layer(features, rows / gates);
        self.check_weights("W", w, [directions, rows, features], &layer, features)?;
        if !self.form.layer.quantizes {
            return Ok(Some(layer.pack_input(&elements("W", w)?)?));
        }
        let sizes = [directions, features, rows];
        let floats = self.floats("W", w, [SCALES[0], SCALES[1]], sizes, operand)?;
        Ok(floats.map(|floats| layer.pack_input(&floats)).transpose()?)
    }

    /// Packs R, unless it is quantised and its scales are not at hand.
    fn pack_r<'a>(
        &self,
        r: Tensor<'a>,
        operand: impl Fn(usize) -> Result<Option<Tensor<'a>>, HostError>,
    ) -> Result<Option<PackedState<T>>, Error> {
        let [directions, mut rows, mut units] = three("R", r)?;
        if self.form.layer.quantizes {
            (rows, units) = (units, rows);
        }
        let layer = self.layer(0, units);
        self.check_weights("R", r, [directions, rows, units], &layer, layer.units)?;
        if !self.form.layer.quantizes {
            return Ok(Some(layer.pack_state(&elements("R", r)?)?));
        }
        let sizes = [directions, units, rows];
        let floats = self.floats("R", r, [SCALES[2], SCALES[3]], sizes, operand)?;
        Ok(floats.map(|floats| layer.pack_state(&floats)).transpose()?)
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
        let units = layer.units;
        let words = match self.form.layer.quantizes {
            true => format!("{directions},{columns},{gates}*{units}"),
            false => format!("{directions},{gates}*{units},{columns}"),
        };
        check(input, tensor, &[], || words)
    }

    /// The floats that quantised weights stand for, if their scales and zero points are at hand.
    fn floats<'a>(
        &self,
        input: &'static str,
        weights: Tensor<'a>,
        operands: [usize; 2],
        sizes: [usize; 3],
        operand: impl Fn(usize) -> Result<Option<Tensor<'a>>, HostError>,
    ) -> Result<Option<Vec<T>>, Error> {
        let [scales, zero_points] = operands;
        let (Some(scale), Some(zero_point)) = (operand(scales)?, operand(zero_points)?) else {
            return Ok(None);
        };
        let quantized = Quantized {
            weights: bytes(input, weights)?,
            scales: &elements(NAMES[scales], scale)?,
            zero_points: bytes(NAMES[zero_points], zero_point)?,
        };
        let floats = quantized.to_floats(input, sizes)?;
        Ok(Some(floats.into_iter().map(T::from).collect()))
    }

    /// The layer of a run: that of constants, or of weights that are packed now.
    fn packed(&self, given: &Given<'_>) -> Result<Arc<PackedLayer<T>>, Error> {
        if let Some(layer) = self.layer.get() {
            return Ok(Arc::clone(layer));
        }
        let operand = |input: usize| Ok(given.tensors[input]);
        let missing = HostError::HostArgument {
            function: "Compute",
            problem: "the weights or their scales are missing",
        };
        let w = match self.w.get() {
            Some(w) => Some(w.clone()),
            None => self.pack_w(given.input(W)?, operand)?,
        };
        let r = match self.r.get() {
            Some(r) => Some(r.clone()),
            None => self.pack_r(given.input(R)?, operand)?,
        };
        let (Some(w), Some(r)) = (w, r) else {
            return Err(missing.into());
        };
        let layer = self.layer(w.features(), r.units());
        let (directions, gates) = (layer.directions.len(), layer.cell.gates());
        let vector = |known: &Option<Vec<T>>, input: usize, times: usize| -> Result<_, Error> {
            let Some(tensor) = given.tensors[input] else {
                return Ok(known.as_deref().map(|all| all.to_vec()));
            };
            let sizes = [directions, times * layer.units];
            check(NAMES[input], tensor, &sizes, || {
                format!("{directions},{times}*{}", layer.units)
            })?;
            Ok(Some(elements(NAMES[input], tensor)?.into_owned()))
        };
        let (b, p) = (vector(&self.b, B, 2 * gates)?, vector(&self.p, P, 3)?);
        let packed = Arc::new(layer.packed(&w, &r, b.as_deref(), p.as_deref())?);
        let is_constant = self.w.get().is_some()
            && self.r.get().is_some()
            && [(B, &self.b), (P, &self.p)]
                .into_iter()
                .all(|(input, known)| known.is_some() || !self.has(input));
        if is_constant {
            let _ = self.layer.set(Arc::clone(&packed));
        }
        Ok(packed)
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
                B | P => is_packed,
                W => self.w.get().is_some(),
                R => self.r.get().is_some(),
                X | LENGTHS | INITIAL_H | INITIAL_C => false,
                _ => self.w.get().is_some() && self.r.get().is_some(),
            };
            if self.has(input) && !is_known {
                *tensor = context.optional_input(input)?;
            }
        }
        Ok(Given { tensors })
    }

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        let given = self.given(context)?;
        let packed = self.packed(&given)?;
        let x = given.input(X)?;
        let sizes = self.sizes(x, &packed)?;
        let lengths = given.lengths(sizes)?;
        let states = self.state_sizes(sizes, &packed);
        let words = || words(&states);
        for input in [INITIAL_H, INITIAL_C] {
            if let Some(tensor) = given.tensors[input] {
                check(NAMES[input], tensor, &states, words)?;
            }
        }
        let (h, c) = (given.numbers(INITIAL_H)?, given.numbers(INITIAL_C)?);
        let x = elements("X", x)?;
        let inputs = Inputs {
            x: &x,
            steps: sizes.steps,
            batch: sizes.batch,
            layout: self.form.layout,
            valid: match &lengths {
                Some(lengths) => ValidSteps::Lengths(lengths),
                None => ValidSteps::All,
            },
            initial_h: h.as_deref(),
            initial_c: c.as_deref(),
        };
        let mut outputs = self.outputs(context, &given, sizes, &packed)?;
        let [y, last_h, last_c] = &mut outputs;
        let slices = Outputs {
            y: y.as_mut().map(Output::elements),
            last_h: last_h.as_mut().map(Output::elements),
            last_c: last_c.as_mut().map(Output::elements),
        };
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = memories.pop().unwrap_or_default();
        drop(memories);
        let parallel = ParallelLoop::new(context);
        let threads = Pool::new(*CORES, &self.seen, &parallel);
        let run = packed.run(&inputs, slices, &mut memory, &threads);
        // Report the cause first: it says more than that some work was not done.
        parallel.finish()?;
        run?;
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.push(memory);
        drop(memories);
        outputs.into_iter().flatten().for_each(Output::finish);
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
                expected: format!(
                    "shape {{{directions},{gates}*{},{features}}}",
                    packed.units()
                ),
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
        given: &Given<'_>,
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
        let mut outputs = [const { None }; 3];
        for (index, output) in outputs.iter_mut().enumerate() {
            if !self.outputs.get(index).copied().unwrap_or_default() {
                continue;
            }
            let sizes = if index == 0 { &y[..] } else { &states };
            let Some(memory) = context.optional_output(index, sizes)? else {
                continue;
            };
            let count = sizes.iter().map(|&size| size as usize).product();
            if given.overlap(memory, count * size_of::<T>()) {
                let output = OUTPUTS[index];
                return Err(Error::LayerOverlap { output });
            }
            // SAFETY: the host's memory for these sizes, which nobody reads, is this run's.
            *output = Some(unsafe { Output::new(memory, count) });
        }
        Ok(outputs)
    }
}

/// The inputs of a run that are there and not packed.
struct Given<'a> {
    tensors: [Option<Tensor<'a>>; NAMES.len()],
}

impl<'a> Given<'a> {
    /// An input that has to be there.
    fn input(&self, input: usize) -> Result<Tensor<'a>, Error> {
        let missing = HostError::HostArgument {
            function: "Compute",
            problem: "a required input is missing",
        };
        Ok(self.tensors[input].ok_or(missing)?)
    }

    fn numbers<T: Plain>(&self, input: usize) -> Result<Option<Cow<'a, [T]>>, Error> {
        self.tensors[input]
            .map(|tensor| elements(NAMES[input], tensor))
            .transpose()
    }

    /// The lengths, each 0 to the number of steps.
    fn lengths(&self, sizes: Sizes) -> Result<Option<SmallVec<[usize; 32]>>, Error> {
        let Some(tensor) = self.tensors[LENGTHS] else {
            return Ok(None);
        };
        let name = NAMES[LENGTHS];
        check(name, tensor, &[sizes.batch], || sizes.batch.to_string())?;
        let lengths = elements::<i32>(name, tensor)?;
        let lengths = lengths.iter().map(|&length| {
            let length = usize::try_from(length).ok();
            let length = length.filter(|length| *length <= sizes.steps);
            length.ok_or(Error::LayerLengths { steps: sizes.steps })
        });
        lengths.collect::<Result<_, _>>().map(Some)
    }

    /// Whether memory of an output is that of an input.
    fn overlap(&self, memory: *mut u8, bytes: usize) -> bool {
        let mut tensors = self.tensors.iter().flatten();
        tensors.any(|tensor| overlaps(memory, bytes, tensor.bytes, byte_count(*tensor)))
    }
}
