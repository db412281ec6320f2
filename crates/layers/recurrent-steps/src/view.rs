//! Views of elements: which elements of a base are meant, in which order, and how far they move with
//! each step.
//!
//! Slices, moved axes, broadcasts and reads by the step's number need no copy: they only change a view.
//!
//! ```text
//! x: [5, 3] → row t of x has sizes [3], strides [1] and moves 3 elements with each step
//! ```

use std::sync::Arc;

use crate::known::Scalar;

/// The source of elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Base {
    /// Memory of the program, by its index.
    Buffer(usize),
    /// Numbers that are known while the program is made.
    Known(Arc<[Scalar]>),
}

/// An axis of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    pub(crate) size: usize,
    /// In elements.
    pub(crate) stride: isize,
}

/// Elements of a base in some order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) base: Base,
    pub(crate) offset: isize,
    /// How far the elements move with a step.
    pub(crate) step: isize,
    pub(crate) axes: Vec<Axis>,
}

/// The strides of contiguous elements with these sizes.
pub(crate) fn contiguous(sizes: &[usize]) -> Vec<Axis> {
    let mut stride = 1;
    let mut axes: Vec<Axis> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let axis = Axis { size, stride };
            stride *= size as isize;
            axis
        })
        .collect();
    axes.reverse();
    axes
}

impl View {
    /// All elements of a base with these sizes.
    pub(crate) fn whole(base: Base, sizes: &[usize]) -> Self {
        Self {
            base,
            offset: 0,
            step: 0,
            axes: contiguous(sizes),
        }
    }

    pub(crate) fn buffer(&self) -> Option<usize> {
        match self.base {
            Base::Buffer(buffer) => Some(buffer),
            Base::Known(_) => None,
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.size).collect()
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Whether the elements are contiguous, in their order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let expected = contiguous(&self.sizes());
        let mut pairs = std::iter::zip(&self.axes, expected);
        self.len() == 0 || pairs.all(|(axis, other)| axis.size == 1 || axis.stride == other.stride)
    }

    /// Whether it has the same elements as another, in the same order; axes of one element do not matter.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let wide = |view: &Self| -> Vec<Axis> {
            let axes = view.axes.iter().filter(|axis| axis.size != 1);
            axes.copied().collect()
        };
        let places = (&self.base, self.offset, self.step);
        places == (&other.base, other.offset, other.step) && wide(self) == wide(other)
    }

    /// Broadcasts to other sizes, which are right.
    pub(crate) fn broadcast(&self, sizes: &[usize]) -> Self {
        let added = sizes.len() - self.rank();
        let of = |(index, &size): (usize, &usize)| {
            let own = index.checked_sub(added).map(|index| self.axes[index]);
            match own {
                Some(axis) if axis.size == size => axis,
                _ => Axis { size, stride: 0 },
            }
        };
        Self {
            axes: sizes.iter().enumerate().map(of).collect(),
            ..self.clone()
        }
    }

    /// Reorders the axes.
    pub(crate) fn permute(&self, order: &[usize]) -> Self {
        Self {
            axes: order.iter().map(|&axis| self.axes[axis]).collect(),
            ..self.clone()
        }
    }

    /// Some elements along an axis: the first, how many, and how far apart.
    pub(crate) fn slice(&self, axis: usize, start: isize, size: usize, apart: isize) -> Self {
        let mut view = self.clone();
        let of = &mut view.axes[axis];
        if size > 0 {
            view.offset += start * of.stride;
        }
        of.size = size;
        of.stride *= apart;
        view
    }

    /// The elements at an index of an axis, without that axis, which move along it with each step.
    pub(crate) fn at(&self, axis: usize, index: i64, slope: i64) -> Self {
        let mut view = self.clone();
        let of = view.axes.remove(axis);
        view.offset += index as isize * of.stride;
        view.step += slope as isize * of.stride;
        view
    }

    /// Leaves out axes, which have one element.
    pub(crate) fn without(&self, gone: &[usize]) -> Self {
        let axes = self.axes.iter().enumerate();
        let axes = axes.filter(|(place, _)| !gone.contains(place));
        Self {
            axes: axes.map(|(_, axis)| *axis).collect(),
            ..self.clone()
        }
    }

    /// Inserts an axis of size 1.
    pub(crate) fn unsqueeze(&self, axis: usize) -> Self {
        let mut view = self.clone();
        view.axes.insert(axis, Axis { size: 1, stride: 0 });
        view
    }

    /// Reshapes without a copy, if that is possible.
    pub(crate) fn reshape(&self, sizes: &[usize]) -> Option<Self> {
        let axes = if self.is_contiguous() {
            contiguous(sizes)
        } else {
            regroup(&self.axes, sizes)?
        };
        Some(Self {
            axes,
            ..self.clone()
        })
    }

    /// Where each element lies in the base at step 0, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        offsets(&self.axes).map(|offset| (self.offset + offset) as usize)
    }
}

/// How far each element along these axes lies behind the first, in order.
pub(crate) fn offsets(axes: &[Axis]) -> impl Iterator<Item = isize> {
    let count = axes.iter().map(|axis| axis.size).product();
    (0..count).map(move |index: usize| {
        let (mut rest, mut offset) = (index, 0);
        for axis in axes.iter().rev() {
            offset += (rest % axis.size) as isize * axis.stride;
            rest /= axis.size;
        }
        offset
    })
}

/// Splits and merges axes so that they have these sizes, if strides allow it.
fn regroup(axes: &[Axis], sizes: &[usize]) -> Option<Vec<Axis>> {
    let mut runs = merged(axes);
    runs.reverse();
    let mut made = Vec::with_capacity(sizes.len());
    // From the innermost outwards: each axis takes its part of the innermost run.
    let mut runs = runs.into_iter();
    let mut current = Axis { size: 1, stride: 1 };
    for &size in sizes.iter().rev() {
        if size == 1 {
            made.push(Axis { size, stride: 0 });
            continue;
        }
        if current.size == 1 {
            current = runs.next()?;
        }
        if size == 0 || !current.size.is_multiple_of(size) {
            return None;
        }
        made.push(Axis {
            size,
            stride: current.stride,
        });
        current.stride *= size as isize;
        current.size /= size;
    }
    made.reverse();
    (current.size == 1 && runs.next().is_none()).then_some(made)
}

/// Merges as many axes as possible, and leaves out those of size 1.
pub(crate) fn merged(axes: &[Axis]) -> Vec<Axis> {
    let mut made: Vec<Axis> = vec![];
    for &axis in axes.iter().filter(|axis| axis.size != 1) {
        match made.last_mut() {
            Some(outer) if outer.stride == axis.stride * axis.size as isize => {
                outer.size *= axis.size;
                outer.stride = axis.stride;
            }
            _ => made.push(axis),
        }
    }
    made
}
