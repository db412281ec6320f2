//! ONNX's operators of linear attention, and ONNX Runtime's: `LinearAttention`, `LinearAttentionGate` and
//! `CausalConvWithState`.
//!
//! An operator checks the sizes of its inputs and says those of its outputs; a run writes them. Numbers are
//! floats; hosts read half floats as such.

mod convolution;
mod gate;
mod linear;
mod state;

use std::sync::{Mutex, PoisonError};

pub use convolution::CausalConvolution;
pub use gate::AttentionGate;
pub use linear::LinearAttention;

use crate::attributes::{Attributes, wrong};
use crate::error::{Error, check};
use crate::place::Place;
use crate::threads::{Stop, Threads};

/// An input: its elements, and its sizes.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The sizes of its axes.
    pub sizes: &'a [usize],
    /// As many elements as the sizes make.
    pub elements: &'a [f32],
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
}

/// The operators with their domains: ONNX's have the empty one.
const OPERATORS: [(&str, &str); 5] = [
    ("", "LinearAttention"),
    ("", "CausalConvWithState"),
    ("com.microsoft", "LinearAttention"),
    ("com.microsoft", "CausalConvWithState"),
    ("com.microsoft", "LinearAttentionGate"),
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
    /// An attribute has a value that it cannot have.
    pub fn of(operator: &str, attributes: &dyn Attributes) -> Result<Self, Error> {
        match operator {
            "LinearAttention" => LinearAttention::of(attributes).map(Self::Linear),
            "CausalConvWithState" => CausalConvolution::of(attributes).map(Self::Convolution),
            _ => Ok(Self::Gate(AttentionGate)),
        }
    }

    /// The name of the operator.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "LinearAttention",
            Self::Convolution(_) => "CausalConvWithState",
            Self::Gate(_) => "LinearAttentionGate",
        }
    }

    /// The names of its inputs, as ONNX has them.
    pub fn inputs(&self) -> &'static [&'static str] {
        match self {
            Self::Linear(_) => &linear::INPUTS,
            Self::Convolution(_) => &convolution::INPUTS,
            Self::Gate(_) => &gate::INPUTS,
        }
    }

    /// The sizes of both outputs, for inputs of these sizes.
    ///
    /// # Errors
    /// An input is missing, or one too many, or has other sizes than it should have.
    pub fn sizes(&self, inputs: &[Option<&[usize]>]) -> Result<[Vec<usize>; 2], Error> {
        match self {
            Self::Linear(linear) => Ok(linear.sizes(inputs)?.outputs()),
            Self::Convolution(convolution) => Ok(convolution.sizes(inputs)?.outputs().clone()),
            Self::Gate(gate) => gate.sizes(inputs),
        }
    }

    /// Writes all elements of the outputs, which have the [sizes](Self::sizes) of these inputs; `None` stands for one that
    /// nothing reads.
    ///
    /// # Errors
    /// Those of [`sizes`](Self::sizes); a slice has too few or too many elements; there is not enough memory;
    /// or the run is stopped.
    pub fn run<P: Place<f32>>(
        &self,
        inputs: &[Option<Operand<'_>>],
        outputs: [Option<&mut [P]>; 2],
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        let names = self.inputs();
        for (name, input) in std::iter::zip(names, inputs) {
            if let Some(Operand { sizes, elements }) = input {
                check(name, elements.len(), sizes)?;
            }
        }
        let sizes: Vec<Option<&[usize]>> = inputs.iter().map(|it| it.map(|it| it.sizes)).collect();
        let elements: Vec<Option<&[f32]>> =
            inputs.iter().map(|it| it.map(|it| it.elements)).collect();
        let elements = Elements(&elements);
        match self {
            Self::Linear(linear) => {
                let sizes = linear.sizes(&sizes)?;
                fit(&outputs, &sizes.outputs())?;
                linear.run(&sizes, elements, outputs, threads)
            }
            Self::Convolution(convolution) => {
                let sizes = convolution.sizes(&sizes)?;
                fit(&outputs, sizes.outputs())?;
                convolution.run(&sizes, elements, outputs, threads)
            }
            Self::Gate(gate) => {
                let shapes = gate.sizes(&sizes)?;
                fit(&outputs, &shapes)?;
                gate::run(elements, outputs, shapes[0].last().copied())
            }
        }
    }
}

/// Checks that outputs have as many elements as their sizes make.
fn fit<P>(outputs: &[Option<&mut [P]>; 2], shapes: &[Vec<usize>; 2]) -> Result<(), Error> {
    let names = ["output", "present_state"];
    for (name, (output, shape)) in std::iter::zip(names, std::iter::zip(outputs, shapes)) {
        if let Some(output) = output {
            check(name, output.len(), shape)?;
        }
    }
    Ok(())
}

/// The elements of inputs, by their places.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [Option<&'a [f32]>]);

impl<'a> Elements<'a> {
    fn get(self, input: usize) -> Option<&'a [f32]> {
        self.0.get(input).copied().flatten()
    }

    /// Those of an input that has to be there, which `sizes` has checked.
    fn required(self, input: usize) -> &'a [f32] {
        self.get(input).unwrap_or_default()
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

    /// The sizes of an input of so many axes.
    fn axes<const N: usize>(self, input: usize, expected: &str) -> Result<[usize; N], Error> {
        let sizes = self.required(input)?;
        let found = <[usize; N]>::try_from(sizes).ok();
        found.ok_or_else(|| self.wrong(input, expected.to_owned()))
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
    match attributes.integer("state_window")?.unwrap_or_default() {
        window @ 0..=8 => Ok(window as usize),
        other => wrong("state_window", other, "0 to 8"),
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
