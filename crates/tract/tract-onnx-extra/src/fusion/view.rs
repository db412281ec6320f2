//! Views of elements: which elements of a base are meant, and in which order.
//!
//! Slices, moved axes and broadcasts need no copy: they only change a view, and are checked against
//! the one that they change. Elements are copied when an instruction needs them contiguous.
//! `groups.rs` checks each view against its base, so reading needs no further check.
//!
//! ```text
//! x: [2, 3] → x[:, 1:] has offset 1, sizes [2, 2] and strides [3, 1]
//! ```

use std::ops::Range;

use tract_onnx::tract_hir::internal::*;

/// The source of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Input(usize),
    Constant(usize),
    /// The result of an instruction.
    Value(usize),
}

/// Elements of a base in some order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) base: Base,
    offset: usize,
    /// Sizes and strides, in elements; the last is the innermost.
    dims: TVec<(usize, usize)>,
}

impl View {
    /// All elements of a base with these sizes.
    pub(super) fn whole(base: Base, sizes: &[usize]) -> Self {
        let mut dims: TVec<(usize, usize)> = tvec![];
        let mut stride = 1;
        for &size in sizes.iter().rev() {
            dims.push((size, stride));
            stride *= size;
        }
        dims.reverse();
        let offset = 0;
        Self { base, offset, dims }
    }

    /// The same, starting at another element.
    pub(super) fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    pub(super) fn sizes(&self) -> TVec<usize> {
        self.dims.iter().map(|dim| dim.0).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.0).product()
    }

    /// A slice along an axis, within it.
    pub(super) fn slice(mut self, axis: usize, range: Range<usize>) -> TractResult<Self> {
        let dim = self.dims.get_mut(axis).context("an axis of the view")?;
        ensure!(
            range.start <= range.end && range.end <= dim.0,
            "elements {} to {} of an axis of {}",
            range.start,
            range.end,
            dim.0
        );
        self.offset += range.start * dim.1;
        dim.0 = range.len();
        Ok(self)
    }

    /// Reorders the axes, which may leave out those of size 1.
    pub(super) fn permute(self, axes: &[usize]) -> TractResult<Self> {
        let dims = axes.iter().map(|&axis| self.dims.get(axis).copied());
        let dims = dims.collect::<Option<_>>().context("axes of the view")?;
        Ok(Self { dims, ..self })
    }

    /// Broadcasts axes of size 1 to another shape of the same rank.
    pub(super) fn broadcast(mut self, to: &[usize]) -> TractResult<Self> {
        ensure!(
            self.dims.len() == to.len(),
            "sizes {to:?} of {} axes",
            self.dims.len()
        );
        for (dim, &to) in std::iter::zip(&mut self.dims, to) {
            if dim.0 != to {
                ensure!(dim.0 == 1, "a size of {} broadcast to {to}", dim.0);
                *dim = (to, 0);
            }
        }
        Ok(self)
    }

    /// The number of elements that a base needs to have.
    pub(super) fn extent(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let beyond = self.dims.iter().map(|(size, stride)| (size - 1) * stride);
        self.offset + beyond.sum::<usize>() + 1
    }

    /// Reshapes by inserting and removing axes of size 1, if that gives these sizes.
    pub(super) fn with_unit_axes(&self, to: &[usize]) -> Option<Self> {
        let mut wide = self.dims.iter().copied().filter(|dim| dim.0 != 1);
        let dims: TVec<(usize, usize)> = to
            .iter()
            .map(|&size| if size == 1 { Some((1, 0)) } else { wide.next() })
            .collect::<Option<_>>()?;
        let fits = wide.next().is_none() && std::iter::zip(&dims, to).all(|(dim, to)| dim.0 == *to);
        fits.then(|| Self {
            dims,
            ..self.clone()
        })
    }

    /// Merges as many axes as possible.
    fn merged(&self) -> TVec<(usize, usize)> {
        let mut dims: TVec<(usize, usize)> = tvec![];
        for &(size, stride) in &self.dims {
            match dims.last_mut() {
                _ if size == 1 => {}
                Some(outer) if outer.1 == size * stride => *outer = (outer.0 * size, stride),
                _ => dims.push((size, stride)),
            }
        }
        dims
    }

    /// The range of the elements, if they are contiguous.
    pub(super) fn contiguous(&self) -> Option<Range<usize>> {
        match *self.merged() {
            [] => Some(self.offset..self.offset + 1),
            [(size, 1)] => Some(self.offset..self.offset + size),
            _ => None,
        }
    }

    /// Reads the elements in order.
    pub(super) fn read<T: Copy>(
        &self,
        from: &[T],
        to: &mut [f32],
        convert: impl Fn(T) -> f32 + Copy,
    ) {
        // Without elements, there may be no first one.
        if !to.is_empty() {
            read(&from[self.offset..], &self.dims, to, convert);
        }
    }

    /// The same view with as few axes as possible.
    pub(super) fn into_merged(mut self) -> Self {
        self.dims = self.merged();
        self
    }
}

fn read<T: Copy>(
    from: &[T],
    dims: &[(usize, usize)],
    to: &mut [f32],
    convert: impl Fn(T) -> f32 + Copy,
) {
    match *dims {
        [] | [(_, 0)] => to.fill(convert(from[0])),
        [(_, stride)] => {
            for (to, from) in std::iter::zip(to, from.iter().step_by(stride)) {
                *to = convert(*from);
            }
        }
        [(size, stride), ref inner @ ..] => {
            for (index, to) in to.chunks_exact_mut(to.len() / size).enumerate() {
                read(&from[index * stride..], inner, to, convert);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_stays_within_its_base() {
        let whole = View::whole(Base::Input(0), &[2, 3]);
        assert_eq!(whole.extent(), 6);
        let part = whole.clone().slice(1, 1..3).unwrap();
        assert_eq!((part.extent(), part.len()), (6, 4));
        assert_eq!(part.clone().slice(0, 0..1).unwrap().extent(), 3);
        assert_eq!(part.clone().slice(0, 2..2).unwrap().extent(), 0);
        for (axis, range) in [(1, 0..3), (1, 2..3), (0, 1..3), (2, 0..1)] {
            assert!(
                part.clone().slice(axis, range.clone()).is_err(),
                "{axis} {range:?}"
            );
        }
        #[expect(
            clippy::reversed_empty_ranges,
            reason = "a slice that ends before it starts"
        )]
        let reversed = part.clone().slice(0, 1..0);
        assert!(reversed.is_err());
        assert!(part.clone().permute(&[0, 2]).is_err());
        assert!(part.clone().broadcast(&[2, 4]).is_err());
        assert!(part.clone().broadcast(&[2]).is_err());
        let column = part.slice(1, 1..2).unwrap().broadcast(&[2, 9]).unwrap();
        assert_eq!((column.extent(), column.len()), (6, 18));
        let mut elements = [0.0; 18];
        column.read(&[0., 1., 2., 3., 4., 5.], &mut elements, |it: f32| it);
        assert_eq!(elements[..9], [2.; 9]);
        assert_eq!(elements[9..], [5.; 9]);
    }
}
