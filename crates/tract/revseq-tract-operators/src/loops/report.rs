//! Reports on how the loops and recurrent layers of a model run.
//!
//! The answer is read off the operators of an optimised model, so it tells what happens and not
//! what was planned.

use std::fmt;

use tract_onnx::tract_hir::internal::*;

use crate::loops::branches::Branches;
use crate::loops::op::Loop;
use crate::loops::program::PROGRAM;

/// A loop or a recurrent layer of an optimised model, and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The name of its node, after those of the loops around it.
    pub node: String,
    /// The way in which it runs.
    pub how: How,
}

/// The way in which a loop or a recurrent layer runs, from the fastest to the slowest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// One operator, which packs its weights once: of an `LSTM`, `GRU` or `RNN`.
    Layer(String),
    /// A program, planned once for the sizes of a run.
    Program,
    /// A loop, whose states and conditions are looked at in each step.
    StepByStep {
        /// The number of nodes in a step.
        nodes: usize,
        /// Reason why it is no program.
        why: String,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(operator) => write!(f, "as a layer ({operator})"),
            Self::Program => f.write_str("as a program"),
            Self::StepByStep { nodes, why } => {
                let plural = if *nodes == 1 { "" } else { "s" };
                write!(f, "step by step, {nodes} node{plural} each: {why}")
            }
        }
    }
}

/// Returns how each loop and recurrent layer of an optimised model runs, in the order of its nodes,
/// those within loops and branches after the one around them.
///
/// ```
/// # use tract_onnx::prelude::*;
/// let model = TypedModel::default();
/// for execution in revseq_tract_operators::executions(&model) {
///     println!("{}: {}", execution.node, execution.how);
/// }
/// ```
#[must_use]
pub fn executions(model: &TypedModel) -> Vec<Execution> {
    let mut executions = vec![];
    add(model, "", &mut executions);
    executions
}

fn add(model: &TypedModel, around: &str, executions: &mut Vec<Execution>) {
    for node in model.nodes() {
        let name = match around {
            "" => node.name.clone(),
            around => format!("{around}/{}", node.name),
        };
        let mut is = |how| {
            executions.push(Execution {
                node: name.clone(),
                how,
            });
        };
        let operator = node.op.name();
        if let Some(layer) = operator.strip_prefix("Packed") {
            is(How::Layer(layer.to_owned()));
        } else if operator == PROGRAM {
            is(How::Program);
        } else if let Some(op) = node.op_as::<Loop>() {
            let body = op.running_body();
            is(How::StepByStep {
                nodes: body.nodes().len(),
                why: op.why().to_owned(),
            });
            add(body, &name, executions);
        } else if let Some(branches) = node.op_as::<Branches>() {
            add(&branches.bodies.then_body, &name, executions);
            add(&branches.bodies.else_body, &name, executions);
        }
    }
}
