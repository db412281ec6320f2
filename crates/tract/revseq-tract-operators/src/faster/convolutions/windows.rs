//! Where the windows of a convolution lie in an image.

use tract_onnx::tract_core::ops::cnn::PoolSpec;
use tract_onnx::tract_hir::internal::*;

use crate::faster::sliding::{check_windows, strided};

/// The windows in the planes of an image.
///
/// Neighbouring windows of a row begin next to each other. Unless they do in the image itself, it is
/// laid out anew: with its padding, and with those columns of a row side by side that are as many
/// steps of the windows apart. The rows of all planes alternate, since a window reads from each:
///
/// ```text
/// 1 2 3 4 5, padded by 1, windows by 2:   . 2 4 .   1 3 5 .
/// ```
#[derive(Debug, Hash, PartialEq, Eq)]
pub(crate) struct Windows {
    axes: TVec<Axis>,
    /// Whether windows are read where the image lies.
    is_image: bool,
    /// The planes of an image.
    planes: usize,
    /// The images whose windows are numbered one after another.
    images: usize,
    /// Where the numbers of a window lie, from its first.
    taps: Vec<usize>,
}

/// A spatial axis.
#[derive(Debug, Hash, PartialEq, Eq)]
struct Axis {
    size: usize,
    pad: usize,
    stride: usize,
    windows: usize,
    /// The indices as they are laid out, a multiple of the stride in a row.
    extent: usize,
}

impl Windows {
    /// Returns the windows in images of this shape, of each or of all together.
    pub(crate) fn new(pool: &PoolSpec, shape: &[usize], is_joined: bool) -> TractResult<Self> {
        let shape = pool.data_format.shape(shape)?;
        check_windows(pool, shape.hw_dims())?;
        let padding = pool.computed_padding(shape.hw_dims());
        let mut axes: TVec<Axis> = tvec!();
        for (axis, padding) in padding.iter().enumerate() {
            let window = (pool.kernel_shape[axis] - 1) * pool.dilation(axis) + 1;
            axes.push(Axis {
                size: shape.hw_dims()[axis],
                pad: padding.pad_before,
                stride: pool.stride(axis),
                windows: padding.convoluted,
                extent: padding.convoluted.saturating_sub(1) * pool.stride(axis) + window,
            });
        }
        let planes = pool.input_channels;
        let row = axes.last_mut().context("a convolution without axes")?;
        row.extent = row.extent.next_multiple_of(row.stride);
        let is_image = row.stride == 1 && axes.iter().all(|it| it.pad == 0 && it.extent <= it.size);
        if is_image {
            axes.iter_mut().for_each(|axis| axis.extent = axis.size);
        }
        let between = if is_image { 1 } else { planes };
        let mut taps = vec![0];
        for (index, axis) in axes.iter().enumerate() {
            let indices = (0..pool.kernel_shape[index]).map(|tap| tap * pool.dilation(index));
            let along = |outer: usize| {
                let indices = indices.clone();
                indices.map(move |tap| (outer * axis.extent, tap))
            };
            let is_row = index + 1 == axes.len();
            let all = taps.iter().flat_map(|&outer| along(outer));
            taps = all
                .map(|(outer, tap)| match is_row {
                    true => outer * between + axis.column(tap),
                    false => outer + tap,
                })
                .collect();
        }
        Ok(Self {
            axes,
            is_image,
            planes,
            images: shape.n().copied().filter(|_| is_joined).unwrap_or(1),
            taps,
        })
    }

    /// Returns the number of windows.
    pub(crate) fn count(&self) -> usize {
        self.images * self.axes.iter().map(|axis| axis.windows).product::<usize>()
    }

    /// Returns the numbers of an image, as it is laid out.
    pub(crate) fn image(&self) -> usize {
        self.planes * self.axes.iter().map(|axis| axis.extent).product::<usize>()
    }

    /// Returns where the first number of a plane lies in an image.
    pub(crate) fn plane(&self, index: usize) -> usize {
        let row = self.axes.last().map_or(1, |row| row.extent);
        index
            * if self.is_image {
                self.image() / self.planes.max(1)
            } else {
                row
            }
    }

    /// Returns where the numbers of a window lie, from its first.
    pub(crate) fn taps(&self) -> &[usize] {
        &self.taps
    }

    /// Returns the windows from one on, at most this many, in runs that begin next to each other: the
    /// start of the first, and their number.
    pub(crate) fn runs(&self, first: usize, count: usize) -> TVec<(usize, usize)> {
        let row = self.axes.last().map_or(1, |axis| axis.windows);
        let end = self.count().min(first + count);
        let mut runs = tvec!();
        let mut at = first;
        while at < end {
            let count = (row - at % row).min(end - at);
            runs.push((self.start(at), count));
            at += count;
        }
        runs
    }

    fn start(&self, window: usize) -> usize {
        let (mut rest, mut start, mut step) = (window, 0, 1);
        for (back, axis) in self.axes.iter().rev().enumerate() {
            let index = rest % axis.windows;
            rest /= axis.windows;
            start += step * index * if back == 0 { 1 } else { axis.stride };
            step *= axis.extent;
            if back == 0 && !self.is_image {
                step *= self.planes;
            }
        }
        start + rest * self.image()
    }

    /// Lays out images, one after another.
    pub(crate) fn lay_out<T: Datum + Copy>(
        &self,
        images: TValue,
        batch: usize,
        padding: T,
    ) -> TractResult<TValue> {
        let size: usize = self.axes.iter().map(|axis| axis.size).product();
        let (Some((row, outer)), false) = (self.axes.split_last(), self.is_image) else {
            return Ok(images);
        };
        let mut all = Tensor::zero_dt(T::datum_type(), &[batch, self.image()])?;
        let from = images.try_as_plain_ram()?.as_slice::<T>()?;
        let rows = self.planes * row.extent;
        // Planes may be nothing but their padding.
        if all.len() * size > 0 {
            let work = all.len();
            let mut all = all.try_as_plain_ram_mut()?;
            multithread::par_chunks_mut(all.as_slice_mut()?, rows, work, |first, part| {
                part.fill(padding);
                for (index, to) in part.chunks_exact_mut(rows).enumerate() {
                    let (mut rest, mut start, mut step) = (first + index, Some(0), row.size);
                    for axis in outer.iter().rev() {
                        let index = (rest % axis.extent).checked_sub(axis.pad);
                        let index = index.filter(|index| *index < axis.size);
                        start = start.zip(index).map(|(start, index)| start + step * index);
                        rest /= axis.extent;
                        step *= axis.size;
                    }
                    let Some(start) = start else { continue };
                    let image = &from[rest * self.planes * size..][..self.planes * size];
                    let planes = image.chunks_exact(size);
                    for (plane, to) in planes.zip(to.chunks_exact_mut(row.extent)) {
                        row.lay_out(&plane[start..start + row.size], to);
                    }
                }
                Ok(())
            })?;
        }
        Ok(all.into_tvalue())
    }
}

impl Axis {
    /// Returns where the column of a row lies as it is laid out.
    fn column(&self, index: usize) -> usize {
        index % self.stride * (self.extent / self.stride) + index / self.stride
    }

    /// Lays out a row, without the padding.
    fn lay_out<T: Copy>(&self, from: &[T], to: &mut [T]) {
        for (first, to) in to.chunks_exact_mut(self.extent / self.stride).enumerate() {
            let skipped = self.pad.saturating_sub(first).div_ceil(self.stride);
            let begin = skipped * self.stride + first - self.pad;
            let (Some(to), Some(from)) = (to.get_mut(skipped..), from.get(begin..)) else {
                continue;
            };
            let count = to.len().min(from.len().div_ceil(self.stride));
            strided(from, self.stride, &mut to[..count]);
        }
    }
}
