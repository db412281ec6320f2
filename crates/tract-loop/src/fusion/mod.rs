//! Small operators, run as one.
//!
//! A step of a recurrent layer is a few products of small matrices and some thirty
//! operators on a few elements each, for each of which tract takes half a microsecond
//! whatever it does. Here they become one operator: a list of instructions, each of
//! which does what the operator did, on memory that is kept from step to step.

mod groups;
mod program;
#[cfg(test)]
mod tests;
mod view;

use tract_onnx::tract_hir::internal::*;

pub(crate) use groups::fuse;
use program::{Program, Registers};

/// Operators of a model as one.
#[derive(Clone, Debug)]
pub(crate) struct Fused {
    program: Arc<Program>,
}

impl Fused {
    fn new(program: Program) -> Self {
        Self {
            program: Arc::new(program),
        }
    }
}

impl PartialEq for Fused {
    fn eq(&self, _other: &Self) -> bool {
        false
    }
}

impl Eq for Fused {}

impl Op for Fused {
    fn name(&self) -> StaticName {
        "Fused".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Fused {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        let program = Arc::clone(&self.program);
        let registers = program.registers();
        Ok(Some(Box::new(Running { program, registers })))
    }
}

impl TypedOp for Fused {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let outputs = self.program.outputs.iter();
        let facts = outputs.map(|output| output.datum_type.fact(&*output.shape));
        Ok(facts.collect())
    }

    as_op!();
}

/// The memory of a [`Fused`], kept from run to run.
#[derive(Clone, Debug)]
struct Running {
    program: Arc<Program>,
    registers: Registers,
}

impl OpState for Running {
    fn eval(
        &mut self,
        _ctx: &EvalContext<'_>,
        _op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        self.program.run(&inputs, &mut self.registers)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}
