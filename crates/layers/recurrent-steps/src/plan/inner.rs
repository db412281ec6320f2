//! Loops and branches in a body: programs within the program.

use std::sync::Arc;

use revseq_onnx::proto::NodeProto;

use super::planner::{KNOWN_INPUT, Planner, Run, RunInput};
use super::value::Value;
use super::{Operation, Plan, Source, StatePlan, Work};
use crate::body::Body;
use crate::elements::{Elements, Kind};
use crate::error::{Error, values};
use crate::function::Function;
use crate::kernels::Kernel;
use crate::view::View;

/// Branches with so many elements and fewer are both computed: that costs less than to run one of them.
const SMALL: usize = 1 << 14;

/// A program of a graph in the body.
struct Made {
    plan: Arc<Plan>,
    inputs: Vec<View>,
    /// The outputs that are read: their index, type and sizes.
    outputs: Vec<(usize, Kind, Vec<usize>)>,
}

impl<'a> Planner<'a> {
    fn bodies(&self, node: &NodeProto) -> &'a [Body] {
        let name = node.outputs().next().unwrap_or_default();
        self.body.bodies.get(name).map_or(&[], Vec::as_slice)
    }

    /// Makes the program of a graph for the values that it reads.
    fn program(&mut self, body: &'a Body) -> Result<Made, Error> {
        let mut inputs = vec![];
        let mut read = vec![];
        for (name, kind) in &body.inputs {
            let value = self.value(name)?;
            let known = match value.view.len() <= KNOWN_INPUT {
                true => self.integers(&value),
                false => self.known_integers(&value),
            };
            inputs.push(self.contiguous(&value)?.view);
            read.push((*kind, value.sizes(), known));
        }
        let run_inputs: Vec<RunInput<'_>> = read
            .iter()
            .map(|(kind, sizes, known)| RunInput {
                kind: *kind,
                sizes,
                elements: known.as_deref().map(Elements::Int64),
            })
            .collect();
        let run = Run {
            inputs: &run_inputs,
            first: 0,
            states: None,
        };
        let (plan, _) = Planner::plan(body, run)?;
        if plan.is_single && plan.most != Some(1) {
            return values("each of its steps is another program");
        }
        let mut outputs = vec![];
        for (index, state) in plan.states.iter().enumerate() {
            let Some(kind) = body.outputs[index] else {
                continue;
            };
            let sizes = match state {
                StatePlan::Nothing => continue,
                StatePlan::Line(_, sizes) => sizes.clone(),
                StatePlan::Buffer(state) if plan.steps == Some(0) => state.sizes.clone(),
                StatePlan::Buffer(state) => state.next_sizes.clone(),
            };
            outputs.push((index, kind, sizes));
        }
        for (index, output) in plan.collected.iter().enumerate() {
            let Some(output) = output else { continue };
            if !plan.is_whole && !plan.is_single {
                return values("how much it collects depends on a step");
            }
            let index = plan.states.len() + index;
            outputs.push((index, output.kind, output.sizes.clone()));
        }
        Ok(Made {
            plan: Arc::new(plan),
            inputs,
            outputs,
        })
    }

    /// Adds what runs programs, and returns the values of their outputs, which are of these types and sizes.
    fn run_of(
        &mut self,
        programs: Vec<Made>,
        condition: Option<View>,
        outputs: &[(usize, Kind, Vec<usize>)],
    ) -> Result<Vec<(usize, Value)>, Error> {
        let mut inputs: Vec<View> = condition.into_iter().collect();
        let mut plans = vec![];
        for made in programs {
            plans.push((made.plan, made.inputs.len()));
            inputs.extend(made.inputs);
        }
        let run = self.add(Operation::Inner(plans), Kind::Bool.lane(), inputs, &[1])?;
        let mut made = vec![];
        for (index, kind, sizes) in outputs {
            let operation = Operation::OfInner(*index);
            let view = self.add(operation, kind.lane(), vec![run.clone()], sizes)?;
            made.push((*index, Value::new(*kind, view)));
        }
        Ok(made)
    }

    /// Plans a loop in the body.
    pub(super) fn inner_loop(&mut self, node: &'a NodeProto) -> Result<(), Error> {
        let [body] = self.bodies(node) else {
            return values("it has no body");
        };
        let made = self.program(body)?;
        let outputs = made.outputs.clone();
        let made = self.run_of(vec![made], None, &outputs)?;
        for (index, value) in made {
            self.names.insert(node.output[index].as_str().into(), value);
        }
        Ok(())
    }

    /// Plans an If whose condition a step computes.
    pub(super) fn both_branches(
        &mut self,
        node: &'a NodeProto,
        condition: &Value,
    ) -> Result<(), Error> {
        let [one, other] = self.bodies(node) else {
            return values("it lacks a branch");
        };
        if condition.view.len() != 1 {
            return values(format!("a condition of {:?}", condition.sizes()));
        }
        let condition = self.materialised(condition)?;
        let condition = Value::new(Kind::Bool, condition.reshape(&[]).unwrap_or(condition));
        let (one, other) = (self.program(one)?, self.program(other)?);
        // What a branch collects has an axis of its only run.
        let sizes = |made: &Made| -> Vec<(usize, Kind, Vec<usize>)> {
            let outputs = made.outputs.iter().cloned();
            let outputs = outputs.map(|(index, kind, sizes)| (index, kind, sizes[1..].to_vec()));
            outputs.collect()
        };
        let outputs = sizes(&one);
        if let Some((one, other)) =
            std::iter::zip(&outputs, &sizes(&other)).find(|(one, other)| one != other)
        {
            return values(format!(
                "sizes {:?} and {:?} in its branches",
                one.2, other.2
            ));
        }
        if is_small(&one.plan) && is_small(&other.plan) {
            let (one, other) = (
                self.graph(node, "then_branch")?,
                self.graph(node, "else_branch")?,
            );
            let mut made = vec![];
            for (one, other) in std::iter::zip(&one, &other) {
                let select = Function::Select(one.kind.lane());
                made.push(self.map(select, one.kind, &[&condition, one, other])?);
            }
            self.name(node, made);
            return Ok(());
        }
        let made = self.run_of(vec![one, other], Some(condition.view), &outputs)?;
        for (index, value) in made {
            self.names.insert(node.output[index].as_str().into(), value);
        }
        Ok(())
    }
}

/// Whether a program has a few functions of elements alone, which never fail.
fn is_small(plan: &Plan) -> bool {
    let mut elements = 0;
    for buffer in &plan.buffers {
        if matches!(buffer.source, Source::Program | Source::Collected(_)) {
            elements += buffer.len;
        }
    }
    let mut all = plan.phases.iter().flatten();
    let is_cheap = all.all(|scheduled| match &scheduled.work {
        Work::Kernel(kernel) => {
            matches!(
                **kernel,
                Kernel::Group(_) | Kernel::Rows(_) | Kernel::Count(_)
            )
        }
        Work::Inner { .. } => false,
    });
    is_cheap && elements <= SMALL
}
