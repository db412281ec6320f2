//! Fuses small operators.
//!
//! A step of a recurrent layer is a few products of small matrices and some thirty operators on a
//! few elements each, and each costs tract half a microsecond regardless of its work. Here they
//! become one operator: a list of instructions with the same effects, on memory that is kept from
//! step to step.
//!
//! `groups.rs` finds what is fused and writes its program, `program.rs` runs it on elements that
//! `view.rs` selects, and `scan.rs` runs a Scan whose step is one such program.
//!
//! ```text
//! Sigmoid(Add(MatMul(h, R), x))  →  Fused [0 = h × R, 1 = 0 + x, 2 = sigmoid(1)]
//! ```

mod groups;
mod program;
mod scan;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tract_onnx::tract_hir::internal::*;

use crate::loops::alias::Alias;
use groups::Group;
pub(crate) use groups::fuse;
use program::{Elements, Program, Registers};
pub(crate) use scan::fuse as fuse_scan;

/// The symbols in the sizes.
pub(crate) fn symbols<'a>(facts: impl IntoIterator<Item = &'a TypedFact>) -> HashSet<Symbol> {
    let sizes = facts.into_iter().flat_map(|fact| fact.shape.iter());
    sizes.flat_map(TDim::symbols).collect()
}

/// Fuses every group of small operators of a model.
pub(crate) fn fuse_all(model: &mut TypedModel, known: &HashSet<Symbol>) -> TractResult<()> {
    while let Some(patch) = Alias::release(model)? {
        patch.apply(model)?;
    }
    model.compact()?;
    while let Some(patch) = fuse(model, known)? {
        patch.apply(model)?;
        model.compact()?;
    }
    Ok(())
}

/// The fused operators of a model.
#[derive(Clone, Debug)]
pub(crate) struct Fused {
    group: Arc<Group>,
    /// The latest program, by its [`Ready`]: symbolic sizes stay the same for many steps.
    latest: Arc<Mutex<Option<Arc<Ready>>>>,
}

/// A program for inputs of these shapes, and for these values of the symbols that no input's shape
/// tells: all that a program depends on.
#[derive(Debug)]
struct Ready {
    shapes: TVec<TVec<usize>>,
    sizes: TVec<Option<i64>>,
    program: Program,
}

impl Fused {
    fn new(group: Group) -> Self {
        Self {
            group: Arc::new(group),
            latest: Arc::default(),
        }
    }

    fn ready<'a>(
        &self,
        symbols: &SymbolValues,
        shapes: impl Iterator<Item = &'a [usize]> + Clone,
    ) -> TractResult<Arc<Ready>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |ready: &&Arc<Ready>| self.fits(ready, symbols, shapes.clone());
        if let Some(ready) = latest.as_ref().filter(fits) {
            return Ok(Arc::clone(ready));
        }
        self.group.check(symbols, shapes.clone())?;
        let ready = Arc::new(Ready {
            shapes: shapes.map(Into::into).collect(),
            sizes: self.group.other_sizes(symbols).collect(),
            program: self.group.program(symbols)?,
        });
        *latest = Some(Arc::clone(&ready));
        Ok(ready)
    }

    /// Whether a program is for inputs of these shapes and these values of symbols.
    fn fits<'a>(
        &self,
        ready: &Ready,
        symbols: &SymbolValues,
        shapes: impl Iterator<Item = &'a [usize]>,
    ) -> bool {
        shapes.eq(ready.shapes.iter().map(|shape| &**shape))
            && self
                .group
                .other_sizes(symbols)
                .eq(ready.sizes.iter().copied())
    }
}

never_equal!(Fused);

impl Op for Fused {
    fn name(&self) -> StaticName {
        "Fused".into()
    }

    op_as_typed_op!();
}

impl EvalOp for Fused {
    not_out_of_plan!();

    fn state(&self, _ctx: &EvalContext<'_>) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::<Running>::default()))
    }
}

impl TypedOp for Fused {
    fn output_facts(&self, _inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.group.facts()
    }

    as_op!();
}

/// A running program with its memory.
#[derive(Clone, Debug, Default)]
struct Running {
    ready: Option<Arc<Ready>>,
    registers: Registers,
}

impl Running {
    /// The program for inputs of these shapes, and its memory.
    fn prepare<'a>(
        &mut self,
        op: &Fused,
        symbols: &SymbolValues,
        shapes: impl Iterator<Item = &'a [usize]> + Clone,
    ) -> TractResult<(&Program, &mut Registers)> {
        let fits = |ready: &Arc<Ready>| op.fits(ready, symbols, shapes.clone());
        let ready = match self.ready.take().filter(fits) {
            Some(ready) => ready,
            None => {
                let ready = op.ready(symbols, shapes)?;
                self.registers = ready.program.registers();
                ready
            }
        };
        let ready = self.ready.insert(ready);
        Ok((&ready.program, &mut self.registers))
    }
}

impl OpState for Running {
    fn eval(
        &mut self,
        ctx: &EvalContext<'_>,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        let op = op.downcast_ref::<Fused>().context("its own op")?;
        let shapes = inputs.iter().map(|input| input.shape());
        let (program, registers) = self.prepare(op, ctx.symbols, shapes)?;
        let inputs = inputs.iter().map(|input| Elements::of(input));
        let inputs = inputs.collect::<TractResult<TVec<_>>>()?;
        program.run(&inputs, registers)?;
        program.tensors(&inputs, registers)
    }

    fn reset_lanes(&mut self, _lanes: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}
