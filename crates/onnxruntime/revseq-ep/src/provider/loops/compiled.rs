//! A fused node, and what runs it: a program, or an inner session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recurrent_steps::Limits;
use revseq_onnx::encode;
use revseq_onnx::proto::{ModelProto, NodeProto, TensorProto};
use revseq_rewrite::Region;

use super::super::error::Error;
use super::super::options::Options;
use super::super::threads::Seen;
use super::message;
use super::other::Other;
use super::program::Program;
use crate::plugin::error::Error as HostError;
use crate::plugin::fused::Fused;
use crate::plugin::graph::{GraphNode, Value};
use crate::plugin::runs::Runs;
use crate::plugin::session::{Around, Model, Prepared, Session};
use crate::plugin::tensor::Context;

/// What runs a fused node.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The name of the first loop, for messages.
    label: String,
    runner: Runner,
    /// The names of the inputs and outputs.
    names: [Vec<String>; 2],
    /// Their places among those of the node.
    places: [Vec<usize>; 2],
    /// The number of runs of all fused nodes of the session.
    ran: Arc<AtomicU64>,
}

/// What runs the nodes.
#[derive(Debug)]
enum Runner {
    Session(Session),
    Program(Box<OfSteps>),
}

/// A program, and the loop that it stands for.
#[derive(Debug)]
struct OfSteps {
    program: Program,
    other: Option<Other>,
    runs: Arc<Runs>,
    seen: Seen,
}

impl Compiled {
    /// Has a program run a loop.
    pub(super) fn program(
        label: String,
        program: Program,
        node: &NodeProto,
        (other, around): (Option<Other>, &Around),
    ) -> Self {
        Self {
            label,
            names: [program.inputs(), program.outputs(node)],
            runner: Runner::Program(Box::new(OfSteps {
                program,
                other,
                runs: around.runs(),
                seen: Seen::default(),
            })),
            places: Default::default(),
            ran: Arc::default(),
        }
    }

    /// Makes a session of a replacement, whose constants are among these.
    pub(super) fn new(
        label: String,
        region: &Region,
        constants: &HashMap<String, Value<'_>>,
        options: &Options,
        around: &Around,
    ) -> Result<Self, Error> {
        let model = encode(&fill(region.replacement.clone(), constants)?);
        let bytes = model.map_err(|error| Error::Replacement {
            problem: error.to_string(),
        })?;
        let (inputs, outputs) = (&region.inputs, &region.outputs);
        let model = Model {
            bytes: &bytes,
            inputs,
            outputs,
        };
        let prepared = Prepared::new(around, options.of_inner_session())?;
        Ok(Self {
            label,
            runner: Runner::Session(prepared.session(model)?),
            names: [inputs.clone(), outputs.clone()],
            places: Default::default(),
            ran: Arc::default(),
        })
    }

    /// Takes the place of a node that was fused, and counts its runs.
    pub(super) fn place(
        mut self,
        fused: GraphNode<'_>,
        ran: &Arc<AtomicU64>,
    ) -> Result<Self, Error> {
        self.ran = Arc::clone(ran);
        let [inputs, outputs] = &self.names;
        let of_node = [
            message::names(fused.inputs()?)?,
            message::names(fused.outputs()?)?,
        ];
        self.places = [places(inputs, &of_node[0])?, places(outputs, &of_node[1])?];
        if let Runner::Program(steps) = &mut self.runner {
            let other = steps.other.take();
            steps.other = other.and_then(|it| it.place([&of_node[0], &of_node[1]]));
        }
        Ok(self)
    }

    /// An error with the loop that it is of.
    #[cold]
    pub(super) fn error(&self, error: Error) -> Error {
        error.of_node(self.label.clone())
    }
}

impl Fused for Compiled {
    type Failure = Error;

    fn compute(&self, context: Context<'_>) -> Result<(), Error> {
        let [inputs, outputs] = &self.places;
        self.ran.fetch_add(1, Ordering::Relaxed);
        let run = match &self.runner {
            Runner::Session(session) => session.run(context, inputs, outputs).map_err(Error::from),
            Runner::Program(steps) => {
                let limits = Limits {
                    // The first step may be unlike all others; where each is, ONNX Runtime is faster.
                    programs: steps.other.as_ref().map(|_| 2),
                    ..Limits::default()
                };
                let run = steps.seen.run(context, steps.runs.ending(), |threads| {
                    let places = [&**inputs, &**outputs];
                    steps.program.run(context, (limits, threads), places)
                });
                match (&run, &steps.other) {
                    // The values allow no program, or the loop is wrong: then this says why.
                    (Err(Error::Steps(recurrent_steps::Error::Values(_))), Some(other)) => {
                        match other.run(context) {
                            Some(Ok(())) => Ok(()),
                            _ => run,
                        }
                    }
                    _ => run,
                }
            }
        };
        run.map_err(|error| self.error(error))
    }
}

/// The places of values among those of a node.
fn places(names: &[String], known: &[String]) -> Result<Vec<usize>, Error> {
    let missing = "the fused node lacks a value of the nodes that it is made of";
    let place = |name: &String| {
        let place = known.iter().position(|it| it == name);
        place.ok_or(HostError::argument("Compile", missing))
    };
    Ok(names.iter().map(place).collect::<Result<_, _>>()?)
}

/// Copies the constants into a model that the host has of those it reads.
fn fill(
    mut replacement: ModelProto,
    constants: &HashMap<String, Value<'_>>,
) -> Result<ModelProto, Error> {
    let tensors = replacement.graph.as_option_mut().into_iter();
    let tensors = tensors.flat_map(|graph| &mut graph.initializer);
    for tensor in tensors.filter(|tensor| tensor.is_external()) {
        let name = tensor.name.clone();
        let value = name.as_ref().and_then(|name| constants.get(name));
        let constant = value.map(|value| value.constant()).transpose()?;
        let constant = constant.flatten().ok_or_else(|| Error::Replacement {
            problem: format!("the constant {:?} is missing", tensor.name()),
        })?;
        *tensor = TensorProto {
            name,
            ..constant.to_proto()
        };
    }
    Ok(replacement)
}
