//! ONNX's operators of linear attention, and ONNX Runtime's: `LinearAttention`, `LinearAttentionGate` and
//! `CausalConvWithState`, and those of sequences packed beside each other, `GatedDeltaNet` and
//! `VarlenCausalConvWithState`.
//!
//! An operator checks the sizes of its inputs and says those of its outputs; a run writes them. Numbers are
//! floats; hosts read half floats as such.

mod convolution;
mod delta_net;
mod gate;
mod linear;
mod packed_convolution;
mod packing;
mod state;
mod states;

use std::sync::{Mutex, PoisonError};

pub use convolution::CausalConvolution;
pub use delta_net::{DecayGate, GatedDeltaNet};
pub use gate::AttentionGate;
pub use linear::LinearAttention;
pub use packed_convolution::PackedConvolution;

use crate::attributes::{Attributes, wrong};
use crate::error::{Error, check};
use crate::place::Place;
use crate::threads::{Stop, Threads};

/// The elements of an input.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Numbers.
    Floats(&'a [f32]),
    /// Offsets, counts or a switch.
    Integers(&'a [i32]),
}

/// An input: its elements, and its sizes.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The sizes of its axes.
    pub sizes: &'a [usize],
    /// As many elements as the sizes make.
    pub elements: Elements<'a>,
}

/// An operator of linear attention.
#[derive(Clone, Debug, PartialEq)]
pub enum Attention {
    /// `LinearAttention`.
    Linear(LinearAttention),
    /// `CausalConvWithState`.
    Convolution(CausalConvolution),
    /// `LinearAttentionGate`.
    Gate(AttentionGate),
    /// `GatedDeltaNet`.
    DeltaNet(GatedDeltaNet),
    /// `VarlenCausalConvWithState`.
    PackedConvolution(PackedConvolution),
}

/// The operators with their domains: ONNX's have the empty one.
const OPERATORS: [(&str, &str); 7] = [
    ("", "LinearAttention"),
    ("", "CausalConvWithState"),
    ("com.microsoft", "LinearAttention"),
    ("com.microsoft", "CausalConvWithState"),
    ("com.microsoft", "LinearAttentionGate"),
    ("com.microsoft", "GatedDeltaNet"),
    ("com.microsoft", "VarlenCausalConvWithState"),
];

impl Attention {
    /// Whether a domain has the operator: ONNX's own is `""` or `"ai.onnx"`.
    pub fn is_known(domain: &str, operator: &str) -> bool {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        OPERATORS.contains(&(domain, operator))
    }

    /// Reads a node of an operator that [is known](Self::is_known).
    ///
    /// # Errors
    /// The operator is another one, or an attribute has a value that it cannot have.
    pub fn of(operator: &str, attributes: &dyn Attributes) -> Result<Self, Error> {
        match operator {
            "LinearAttention" => LinearAttention::of(attributes).map(Self::Linear),
            "CausalConvWithState" => CausalConvolution::of(attributes).map(Self::Convolution),
            "GatedDeltaNet" => GatedDeltaNet::of(attributes).map(Self::DeltaNet),
            "VarlenCausalConvWithState" => {
                PackedConvolution::of(attributes).map(Self::PackedConvolution)
            }
            "LinearAttentionGate" => Ok(Self::Gate(AttentionGate)),
            other => wrong("operator", format!("{other:?}"), "one of linear attention"),
        }
    }

    /// The name of the operator.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "LinearAttention",
            Self::Convolution(_) => "CausalConvWithState",
            Self::Gate(_) => "LinearAttentionGate",
            Self::DeltaNet(_) => "GatedDeltaNet",
            Self::PackedConvolution(_) => "VarlenCausalConvWithState",
        }
    }

    /// The names of its inputs, as ONNX has them.
    pub fn inputs(&self) -> &'static [&'static str] {
        match self {
            Self::Linear(_) => &linear::INPUTS,
            Self::Convolution(_) => &convolution::INPUTS,
            Self::Gate(_) => &gate::INPUTS,
            Self::DeltaNet(_) => &delta_net::INPUTS,
            Self::PackedConvolution(_) => &packed_convolution::INPUTS,
        }
    }

    /// Whether an input is of integers.
    pub fn is_of_integers(&self, input: usize) -> bool {
        let integers = [
            "cu_seqlens",
            "cumulative_sequence_length",
            "capture_count",
            "state_update_active",
        ];
        let name = self.inputs().get(input);
        name.is_some_and(|name| integers.contains(name))
    }

    /// The names of its outputs, as ONNX has them.
    pub fn outputs(&self) -> &'static [&'static str] {
        match self {
            Self::Linear(_) | Self::Convolution(_) => &["output", "present_state"],
            Self::Gate(_) => &["decay", "beta"],
            Self::DeltaNet(_) | Self::PackedConvolution(_) => {
                &["output", "final_state", "state_update"]
            }
        }
    }

    /// The input whose type an output has, where some inputs are given; `None` if it is of floats.
    pub fn type_of_output(&self, output: usize, is_given: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
            _ if output == 0 => Some(0),
            Self::Gate(_) | Self::PackedConvolution(_) => Some(0),
            Self::DeltaNet(_) => None,
            // A state has the type of the one before.
            Self::Linear(_) | Self::Convolution(_) => {
                let past = self.inputs().iter().position(|it| *it == "past_state");
                past.filter(|past| is_given(*past)).or(Some(0))
            }
        }
    }

    /// The sizes of all outputs, for inputs of these sizes.
    ///
    /// # Errors
    /// An input is missing, or one too many, or has other sizes than it should have.
    pub fn sizes(&self, inputs: &[Option<&[usize]>]) -> Result<Vec<Vec<usize>>, Error> {
        match self {
            Self::Linear(linear) => Ok(linear.sizes(inputs)?.outputs()),
            Self::Convolution(convolution) => Ok(convolution.sizes(inputs)?.outputs().to_vec()),
            Self::Gate(gate) => gate.sizes(inputs),
            Self::DeltaNet(net) => Ok(net.sizes(inputs)?.outputs()),
            Self::PackedConvolution(convolution) => Ok(convolution.sizes(inputs)?.outputs()),
        }
    }

    /// Writes all elements of the outputs, which have the [sizes](Self::sizes) of these inputs; `None` stands for one that
    /// nothing reads.
    ///
    /// # Errors
    /// Those of [`sizes`](Self::sizes); a slice has too few or too many elements, or an input those of another
    /// type; offsets do not go from the first token to the last; there is not enough memory; or the run is stopped.
    pub fn run<P: Place<f32>>(
        &self,
        inputs: &[Option<Operand<'_>>],
        outputs: &mut [Option<&mut [P]>],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        for (index, (operand, input)) in std::iter::zip(self.inputs(), inputs).enumerate() {
            let Some(Operand { sizes, elements }) = input else {
                continue;
            };
            let (len, expected) = match (elements, self.is_of_integers(index)) {
                (Elements::Floats(floats), false) => (floats.len(), None),
                (Elements::Integers(integers), true) => (integers.len(), None),
                (_, false) => (0, Some("floats")),
                (_, true) => (0, Some("integers")),
            };
            if let Some(expected) = expected {
                return Err(Error::Type { operand, expected });
            }
            check(operand, len, sizes)?;
        }
        let sizes: Vec<Option<&[usize]>> = inputs.iter().map(|it| it.map(|it| it.sizes)).collect();
        let inputs = Inputs(inputs);
        let mut fitting = |shapes: &[Vec<usize>]| {
            for (name, (output, shape)) in
                std::iter::zip(self.outputs(), std::iter::zip(&mut *outputs, shapes))
            {
                if let Some(output) = output {
                    check(name, output.len(), shape)?;
                }
            }
            Ok::<_, Error>(())
        };
        match self {
            Self::Linear(linear) => {
                let sizes = linear.sizes(&sizes)?;
                fitting(&sizes.outputs())?;
                linear.run(&sizes, inputs, outputs, threads)
            }
            Self::Convolution(convolution) => {
                let sizes = convolution.sizes(&sizes)?;
                fitting(sizes.outputs())?;
                convolution.run(&sizes, inputs, outputs, threads)
            }
            Self::Gate(gate) => {
                let shapes = gate.sizes(&sizes)?;
                fitting(&shapes)?;
                gate::run(inputs, outputs, shapes[0].last().copied())
            }
            Self::DeltaNet(net) => {
                let sizes = net.sizes(&sizes)?;
                fitting(&sizes.outputs())?;
                net.run(&sizes, inputs, outputs, threads)
            }
            Self::PackedConvolution(convolution) => {
                let sizes = convolution.sizes(&sizes)?;
                fitting(&sizes.outputs())?;
                convolution.run(&sizes, inputs, outputs, threads)
            }
        }
    }
}

/// The outputs by their places, of which there are three at most.
fn taken<'a, P>(outputs: &'a mut [Option<&mut [P]>]) -> [Option<&'a mut [P]>; 3] {
    let mut outputs = outputs.iter_mut();
    [(); 3].map(|()| outputs.next()?.as_deref_mut())
}

/// The inputs, by their places.
#[derive(Clone, Copy)]
struct Inputs<'a>(&'a [Option<Operand<'a>>]);

impl<'a> Inputs<'a> {
    /// The numbers of an input, if it is there.
    fn optional(self, input: usize) -> Option<&'a [f32]> {
        match self.0.get(input)?.as_ref()?.elements {
            Elements::Floats(floats) => Some(floats),
            Elements::Integers(_) => None,
        }
    }

    /// Those of an input that has to be there, which `sizes` has checked.
    fn floats(self, input: usize) -> &'a [f32] {
        self.optional(input).unwrap_or_default()
    }

    /// The integers of an input, if it is there.
    fn integers(self, input: usize) -> Option<&'a [i32]> {
        match self.0.get(input)?.as_ref()?.elements {
            Elements::Integers(integers) => Some(integers),
            Elements::Floats(_) => None,
        }
    }
}

/// The sizes of inputs, by their places.
#[derive(Clone, Copy)]
struct Shapes<'a> {
    names: &'static [&'static str],
    sizes: &'a [Option<&'a [usize]>],
}

impl<'a> Shapes<'a> {
    fn get(self, input: usize) -> Option<&'a [usize]> {
        self.sizes.get(input).copied().flatten()
    }

    fn required(self, input: usize) -> Result<&'a [usize], Error> {
        let operand = self.names[input];
        self.get(input).ok_or(Error::Missing { operand })
    }

    /// The sizes of an input that is there if an attribute says so, and only then.
    fn used(
        self,
        input: usize,
        is_used: bool,
        attribute: &'static str,
    ) -> Result<Option<&'a [usize]>, Error> {
        let operand = self.names[input];
        match (is_used, self.get(input)) {
            (true, _) => self.required(input).map(Some),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(Error::Unused { operand, attribute }),
        }
    }

    /// The sizes of an input of so many axes.
    fn axes<const N: usize>(self, input: usize, expected: &str) -> Result<[usize; N], Error> {
        let sizes = self.required(input)?;
        let axes = <[usize; N]>::try_from(sizes).ok();
        axes.ok_or_else(|| self.wrong(input, expected.to_owned()))
    }

    /// Checks the sizes of an input, if it is there.
    fn check(self, input: usize, expected: &[usize]) -> Result<(), Error> {
        match self.get(input) {
            Some(sizes) if sizes != expected => Err(self.wrong(input, format!("{expected:?}"))),
            _ => Ok(()),
        }
    }

    #[cold]
    fn wrong(self, input: usize, expected: String) -> Error {
        Error::Shape {
            operand: self.names[input],
            actual: self.get(input).unwrap_or_default().to_vec(),
            expected,
        }
    }
}

/// The number of states that a window holds.
fn window(attributes: &dyn Attributes) -> Result<usize, Error> {
    up_to_8(attributes, "state_window")
}

/// The number of the first steps that are captured.
fn capacity(attributes: &dyn Attributes) -> Result<usize, Error> {
    up_to_8(attributes, "state_update_capacity")
}

fn up_to_8(attributes: &dyn Attributes, name: &'static str) -> Result<usize, Error> {
    match attributes.integer(name)?.unwrap_or_default() {
        count @ 0..=8 => Ok(count as usize),
        other => wrong(name, other, "0 to 8"),
    }
}

/// Whether states decay, and whether what they recall is corrected.
fn rule(attributes: &dyn Attributes) -> Result<(bool, bool), Error> {
    let rule = attributes.text("update_rule")?;
    match rule.as_deref().unwrap_or("gated_delta") {
        "linear" => Ok((false, false)),
        "gated" => Ok((true, false)),
        "delta" => Ok((false, true)),
        "gated_delta" => Ok((true, true)),
        other => {
            let rules = "linear, gated, delta or gated_delta";
            wrong("update_rule", format!("{other:?}"), rules)
        }
    }
}

/// Whether what a convolution makes goes through SiLU.
fn silu(attributes: &dyn Attributes) -> Result<bool, Error> {
    let activation = attributes.text("activation")?;
    match activation.as_deref().unwrap_or("none") {
        "none" => Ok(false),
        "silu" | "swish" => Ok(true),
        other => wrong("activation", format!("{other:?}"), "none, silu or swish"),
    }
}

/// The elements that are worth a thread of their own.
const SHARE: usize = 1 << 15;

/// Does tasks that share nothing but memory of a thread's own, on as many threads as so many elements of work
/// are worth.
fn share<T: Send, M: Default>(
    tasks: Vec<T>,
    work: usize,
    threads: &dyn Threads,
    run: impl Fn(T, &mut M) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let stop = threads.stop();
    let is_stopped = || stop.is_some_and(Stop::is_wanted);
    let workers = threads.count().min(work / SHARE).min(tasks.len()).max(1);
    let tasks = Mutex::new(tasks.into_iter());
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let work = || {
        let mut memory = M::default();
        loop {
            // The lock ends with the statement.
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = next else { break };
            let done = match is_stopped() {
                true => Err(Error::Stopped),
                false => run(task, &mut memory),
            };
            if let Err(error) = done {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                break;
            }
        }
    };
    match workers {
        1 => work(),
        workers => threads.run(workers, &work),
    }
    let left = tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (failed, left.len()) {
        (Some(error), _) => Err(error),
        (None, 0) => Ok(()),
        // Threads have not come.
        (None, _) => Err(Error::Stopped),
    }
}
