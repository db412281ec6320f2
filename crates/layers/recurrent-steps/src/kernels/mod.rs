//! What a program runs, one after another.

mod functions;
mod group;
mod log;
mod memory;
mod multiply;
mod others;
mod rows;
mod strided;

pub(crate) use group::{
    BLOCK, Group, Instruction, Load, MAXIMUM_AXES, Operand, Place, Registers, Store,
};
pub(crate) use memory::{Memory, zeros};
pub(crate) use multiply::{LEAST_COLUMNS, Multiply, Other};
pub(crate) use others::{At, Best, Count, Pick, Product, Scatter};

pub(crate) use rows::{Line, MOST as MOST_IN_ROWS, RowOp, Rows, Update};

use recurrent_layers::Threads;

use crate::error::Error;

/// A part of a program that runs at once.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    Group(Group),
    Rows(Rows),
    Product(Product),
    Multiply(Multiply),
    Pick(Pick),
    Scatter(Scatter),
    Best(Best),
    Count(Count),
}

impl Kernel {
    /// Runs it at a step.
    pub(crate) fn run(
        &self,
        memory: &mut [Memory<'_>],
        registers: &mut Registers,
        step: usize,
        threads: &dyn Threads,
    ) -> Result<(), Error> {
        match self {
            Self::Group(group) => group.run(memory, registers, step),
            Self::Rows(rows) => rows.run(memory, step),
            Self::Product(product) => product.run(memory, step, threads)?,
            Self::Multiply(multiply) => multiply.run(memory, step),
            Self::Pick(pick) => pick.run(memory, step)?,
            Self::Scatter(scatter) => scatter.run(memory, step)?,
            Self::Best(best) => best.run(memory, step),
            Self::Count(count) => count.run(memory, step),
        }
        Ok(())
    }
}
