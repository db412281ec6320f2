//! Primitives that run at once, and where their values lie.

use std::collections::{HashMap, HashSet};

use super::Buffer;
use crate::elements::Lane;
use crate::kernels::At;
use crate::view::{Axis, View};

/// Primitives that run at once.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) primitives: Vec<usize>,
    /// The number of steps, if it runs for all at once.
    pub(super) steps: Option<usize>,
}

/// The axes of a view that have elements, with that of the steps first if it runs for all at once.
pub(super) fn axes(view: &View, steps: Option<usize>) -> Vec<Axis> {
    let lead = steps.map(|size| Axis {
        size,
        stride: view.step,
    });
    let all = lead.into_iter().chain(view.axes.iter().copied());
    all.filter(|axis| axis.size != 1).collect()
}

/// What tells whether two views of a buffer have the same elements at the same places.
pub(super) fn place(view: &View, steps: Option<usize>) -> (isize, isize, Vec<Axis>) {
    (view.offset, view.step, axes(view, steps))
}

/// The buffers of a program.
pub(super) struct MemoryOf<'a> {
    pub(super) buffers: &'a [Buffer],
    /// The buffers that others lie in.
    pub(super) places: &'a HashMap<usize, usize>,
    /// The buffers that others than primitives read.
    pub(super) outside: &'a HashSet<usize>,
}

impl MemoryOf<'_> {
    pub(super) fn at(&self, view: &View) -> At {
        At {
            buffer: self.buffer(view),
            offset: view.offset,
            step: view.step,
        }
    }

    /// Where a view's buffer lies.
    pub(super) fn buffer(&self, view: &View) -> usize {
        let own = view.buffer().unwrap_or(usize::MAX);
        self.places.get(&own).copied().unwrap_or(own)
    }

    pub(super) fn lane(&self, view: &View) -> Lane {
        self.buffers[self.buffer(view)].lane
    }
}
