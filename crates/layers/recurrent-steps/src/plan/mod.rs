//! A program for values of certain sizes.
//!
//! The nodes of a body become primitives on views, one after another ([`Planner`]); nodes that only look
//! at elements otherwise vanish. [`phases`] says which run before the steps, in each, or after them, and
//! [`units`] joins functions of elements to groups and writes the kernels.

mod end;
mod group;
mod inner;
mod phases;
mod planner;
mod rows;
mod unit;
mod units;
mod value;
mod values;

use std::sync::Arc;

use recurrent_layers::PackedMatrix;

use crate::elements::{Kind, Lane};
use crate::function::{Function, Reduction};
use crate::kernels::{At, Kernel};
use crate::known::Line;
use crate::view::View;

pub(crate) use planner::{Planner, Run, RunInput};
pub(crate) use value::{Value, broadcast, count};

/// What a value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    Nothing,
    /// The number of the step, or what that selects.
    Number,
    /// The steps before.
    States,
}

/// Elements that are known before a run.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Floats(Arc<[f32]>),
    Ints(Arc<[i64]>),
}

/// Where the elements of a buffer come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Primitives write them.
    Program,
    /// They are known; those of a constant of the model with its index.
    Data(Data, Option<usize>),
    Input(usize),
    /// They are what steps collect, by the index of the output.
    Collected(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) lane: Lane,
    pub(crate) len: usize,
    pub(crate) source: Source,
    pub(crate) needs: Needs,
}

/// What a primitive does, from input views to an output view.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A function of elements at the same places; all views have the same sizes.
    Map(Function),
    /// The elements of the input become one along axes where the output has no stride.
    Reduce(Reduction),
    /// Rows times constant matrices.
    Product {
        matrices: Vec<PackedMatrix<f32>>,
        lens: [usize; 2],
    },
    /// Products of matrices: the last two axes of the first view, and what follows the same batch in the
    /// second: so many axes of terms, and axes of columns.
    Multiply {
        terms: usize,
    },
    /// Looks the first input up at indices, the second, along an axis of this size and stride.
    Pick {
        axis: (usize, isize),
    },
    /// Writes the second input to the output at indices, the first, or what a reduction makes of both.
    Scatter {
        targets: Vec<(usize, isize)>,
        apart: isize,
        reduction: Option<Reduction>,
    },
    /// The indices of so many largest or smallest elements along an axis of this size and stride.
    Best {
        axis: (usize, isize),
        is_least: bool,
        takes_last: bool,
        count: usize,
    },
    Count(Vec<Line>),
    /// Runs one of some programs, by the first input if there are several: each reads so many of the inputs
    /// behind. The output has no elements of theirs.
    Inner(Vec<(Arc<Plan>, usize)>),
    /// An output of the programs that the input is of, by its index.
    OfInner(usize),
}

impl Operation {
    /// Writes the elements of the input, which are of this type.
    pub(crate) fn moved(kind: Kind) -> Self {
        Self::Map(Function::Move(kind.lane()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Primitive {
    pub(crate) operation: Operation,
    pub(crate) inputs: Vec<View>,
    pub(crate) output: View,
    /// Whether it repeats another for the one that reads it: it stays with that.
    pub(crate) is_copy: bool,
}

impl Primitive {
    pub(crate) fn is_grouped(&self) -> bool {
        matches!(self.operation, Operation::Map(_) | Operation::Reduce(_))
    }

    /// The buffers that it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().filter_map(View::buffer)
    }

    /// The buffer that it writes.
    pub(crate) fn writes(&self) -> usize {
        // No primitive writes known numbers.
        self.output.buffer().unwrap_or(usize::MAX)
    }
}

/// A state of a program.
#[derive(Clone, Debug)]
pub(crate) struct StateBuffers {
    /// Its elements before the first step.
    pub(crate) initial: View,
    pub(crate) current: usize,
    /// The buffer that changes places with `current` after each step.
    pub(crate) next: Option<usize>,
    pub(crate) sizes: Vec<usize>,
    /// The sizes after a step.
    pub(crate) next_sizes: Vec<usize>,
}

/// What a state is in a program.
#[derive(Clone, Debug)]
pub(crate) enum StatePlan {
    /// Nothing depends on it.
    Nothing,
    Buffer(StateBuffers),
    /// A number that follows the step's.
    Line(Line, Vec<usize>),
}

/// What steps collect.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    pub(crate) buffer: usize,
    pub(crate) kind: Kind,
    /// The sizes of all steps' together, of which this axis is the steps.
    pub(crate) sizes: Vec<usize>,
    pub(crate) axis: usize,
    /// The elements of a step.
    pub(crate) len: usize,
}

/// A program within a program, and where the elements of its inputs are.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: Vec<(At, usize)>,
}

/// What runs at once.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Kernel(Box<Kernel>),
    /// One of some programs.
    Inner {
        programs: Vec<Inner>,
        /// What chooses the first of two.
        condition: Option<At>,
        /// The outputs that are read, by their index.
        outputs: Vec<(usize, At)>,
    },
}

/// Some work, and whether it runs once for each step.
#[derive(Clone, Debug)]
pub(crate) struct Scheduled {
    pub(crate) work: Work,
    pub(crate) is_each: bool,
}

/// A program for values of certain sizes.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The number of steps that it runs, unless a step decides.
    pub(crate) steps: Option<usize>,
    /// The most steps from its first on, if the loop says so.
    pub(crate) most: Option<usize>,
    /// Whether the next step needs another program, since sizes change.
    pub(crate) is_single: bool,
    /// Whether it runs so many that what they collect is whole.
    pub(crate) is_whole: bool,
    pub(crate) buffers: Vec<Buffer>,
    /// What runs before the steps, in each, and after them.
    pub(crate) phases: [Vec<Scheduled>; 3],
    pub(crate) states: Vec<StatePlan>,
    pub(crate) collected: Vec<Option<Collected>>,
    /// Where the condition of the next step lies, and how far it moves with a step.
    pub(crate) condition: Option<(usize, isize, isize)>,
}

impl StatePlan {
    /// Whether a step changes its sizes.
    pub(crate) fn changes_sizes(&self) -> bool {
        match self {
            Self::Buffer(state) => state.sizes != state.next_sizes,
            Self::Line(..) | Self::Nothing => false,
        }
    }
}
