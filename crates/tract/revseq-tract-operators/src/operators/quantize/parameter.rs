//! Scales and zero points, which all elements share, or those at one place of an axis, or those of
//! a block.

use std::ops::Range;

use tract_onnx::tract_hir::internal::*;

/// Axis along which a scale or a zero point has several elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Along {
    pub(super) axis: usize,
    /// The elements along the axis that share one, if a block does.
    pub(super) block: Option<usize>,
}

impl Along {
    /// The parameters that elements along the axis have, for `size` elements.
    fn count(self, size: usize) -> usize {
        self.block.map_or(size, |block| size.div_ceil(block))
    }

    /// Checks the shape of a parameter for data of a shape, as far as both are known.
    pub(super) fn check<D: DimLike>(
        self,
        name: &str,
        parameter: &[D],
        data: &[D],
    ) -> TractResult<()> {
        let sizes = |shape: &[D]| -> Option<TVec<usize>> {
            shape.iter().map(|size| size.to_usize().ok()).collect()
        };
        let known = sizes(parameter);
        if known
            .as_ref()
            .is_some_and(|it| it.iter().all(|it| *it == 1) && it.len() <= 1)
        {
            return Ok(());
        }
        let rank = data.len();
        ensure!(
            self.axis < rank,
            "its axis is {}, of {rank} axes, and its {name} has the shape {parameter:?}",
            self.axis
        );
        let axes = if self.block.is_some() { rank } else { 1 };
        ensure!(
            parameter.len() == axes,
            "its {name} has {} axes, expected {axes}",
            parameter.len()
        );
        if let (Some(known), Some(mut expected)) = (known, sizes(data)) {
            let count = self.count(expected[self.axis]);
            match self.block {
                Some(_) => expected[self.axis] = count,
                None => expected = tvec![count],
            }
            ensure!(
                known == expected,
                "its {name} has the shape {known:?}, expected {expected:?}"
            );
        }
        Ok(())
    }

    /// Calls `each` with all runs of elements that share their parameters, and with the places of
    /// these: among several, or 0 if there is only one.
    pub(super) fn for_each_run(self, shape: &[usize], mut each: impl FnMut(Range<usize>, usize)) {
        let Self { axis, block } = self;
        let (size, inner) = match shape.get(axis) {
            Some(size) => (*size, shape[axis + 1..].iter().product::<usize>()),
            None => (1, 1),
        };
        let outer: usize = shape[..axis.min(shape.len())].iter().product();
        let mut start = 0;
        let mut run = |length: usize, place: usize| {
            each(start..start + length, place);
            start += length;
        };
        for outer in 0..outer {
            match block {
                None => (0..size).for_each(|at| run(inner, at)),
                Some(block) => {
                    let count = self.count(size);
                    for at in 0..size {
                        let first = (outer * count + at / block) * inner;
                        (0..inner).for_each(|it| run(1, first + it));
                    }
                }
            }
        }
    }
}
