//! Functions of windows that slide over planes: pooling, and convolutions of single channels.
//!
//! A plane is the image, signal or volume of one channel. It is copied with its padding, and split
//! into phases: the elements that lie a stride apart. A tap of all windows is then one row of a
//! phase, and the windows are folded tap by tap, in blocks that stay in registers:
//!
//! ```text
//! windows of 3 by 2 over 0 1 2 3 4 5 6 have the taps 0 2 4, 1 3 5 and 2 4 6,
//! which lie in the phases 0 2 4 6 and 1 3 5
//! ```
//!
//! A plane of several rows is one row, too: the windows that would begin at the end of one row and
//! end in the next are folded, and dropped.

use std::ops::Range;

use rten_simd::{Isa, SimdOp};
use tract_onnx::tract_core::ops::cnn::{PaddingSpec, PoolSpec};
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;
use tract_onnx::tract_hir::internal::*;

/// The elements that are folded at once: two vectors of floats of AVX-512, eight of SSE2.
const BLOCK: usize = 32;

/// The most elements of a padded plane.
const MAX_ELEMENTS: usize = 1 << 28;

/// The windows along an axis of a plane, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) window: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// The padding in front.
    pub(crate) before: usize,
}

/// Checks that the windows along axes whose sizes are known fit between their paddings.
///
/// tract has none where they do not, or one for a pool. ONNX Runtime has one if the window of a pool
/// reaches beyond by less than a stride.
pub(crate) fn check_windows<D: DimLike>(spec: &PoolSpec, sizes: &[D]) -> TractResult<()> {
    for (axis, size) in sizes.iter().enumerate() {
        let Ok(size) = size.to_usize() else { continue };
        let (kernel, stride) = (spec.kernel_shape[axis], spec.stride(axis));
        let dilation = spec.dilation(axis);
        let padded = spec
            .padding
            .compute_one(axis, &size, kernel, dilation, stride);
        let room = size
            .saturating_add(padded.pad_before)
            .saturating_add(padded.pad_after);
        let reach = kernel.saturating_sub(1).saturating_mul(dilation);
        let window = reach.saturating_add(1);
        let beyond = match spec.padding {
            PaddingSpec::ExplicitOnnxPool(..) => stride,
            _ => 1,
        };
        ensure!(
            window < room.saturating_add(beyond),
            "its windows of {window} elements do not fit in axis {} of {size}, which has {room} with its \
             padding",
            axis + 2
        );
    }
    Ok(())
}

impl Axis {
    /// The axes of planes of these sizes, in which the windows have to fit.
    pub(crate) fn all(spec: &PoolSpec, sizes: &[usize]) -> TractResult<TVec<Self>> {
        check_windows(spec, sizes)?;
        let padded = spec.computed_padding(sizes);
        let axes = std::iter::zip(sizes, padded).enumerate();
        let axes = axes.map(|(axis, (&input, padded))| Self {
            input,
            output: padded.convoluted,
            window: spec.kernel_shape[axis],
            stride: spec.stride(axis),
            dilation: spec.dilation(axis),
            before: padded.pad_before,
        });
        Ok(axes.collect())
    }

    /// The elements of a phase that some tap reads.
    fn phase(&self) -> usize {
        self.output + (self.window.saturating_sub(1) * self.dilation) / self.stride
    }

    /// The elements of a phase that lie in the plane.
    fn within(&self, phase: usize) -> Range<usize> {
        let end = (self.input + self.before).saturating_sub(phase);
        let end = end.div_ceil(self.stride).min(self.phase());
        let start = self.before.saturating_sub(phase).div_ceil(self.stride);
        start.min(end)..end
    }

    /// Returns how many elements of a window lie in a range of the padded plane.
    pub(crate) fn count(&self, window: usize, range: &Range<usize>) -> usize {
        let first = window * self.stride;
        let before = |end: usize| {
            let taps = end.saturating_sub(first).div_ceil(self.dilation);
            taps.min(self.window)
        };
        before(range.end) - before(range.start)
    }

    /// An axis whose windows are its elements.
    pub(crate) fn whole(size: usize) -> Self {
        Self {
            input: size,
            output: size,
            window: 1,
            stride: 1,
            dilation: 1,
            before: 0,
        }
    }
}

/// What becomes of a window: its elements are folded one after another.
pub(crate) trait Fold<E>: Sync {
    /// What stands in the padding.
    const PADDING: E;

    /// The value before the first tap, in a plane of the output.
    fn first(&self, plane: usize) -> E;

    /// Returns what folds the elements of each tap, in a plane of the output.
    fn taps(&self, plane: usize) -> impl Iterator<Item = impl Fn(E, E) -> E> + Clone;

    /// Finishes a plane of the output.
    fn finish(&self, _plane: &mut [E]) {}
}

/// Folds the windows of planes. Each input has the same number of outputs, in order.
pub(crate) fn slide<E: Copy + Send + Sync>(
    axes: &[Axis],
    from: &[E],
    to: &mut [E],
    fold: &impl Fold<E>,
) -> TractResult<()> {
    let size = |of: fn(&Axis) -> usize| axes.iter().map(of).product::<usize>();
    let (input, output) = (size(|axis| axis.input), size(|axis| axis.output));
    if to.is_empty() {
        return Ok(());
    }
    if input == 0 {
        // There is only padding.
        for (plane, to) in to.chunks_exact_mut(output).enumerate() {
            to.fill(fold.first(plane));
            fold.finish(to);
        }
        return Ok(());
    }
    let windows = Windows::new(axes)?;
    let outputs = (to.len() / output) / (from.len() / input);
    let work = to.len() * windows.taps.len();
    par_chunks_mut(to, output, work, |first, to| {
        Planes {
            windows: &windows,
            inputs: from,
            input,
            outputs,
            first,
            to,
            output,
            fold,
        }
        .dispatch();
        Ok(())
    })
}

/// Folds the windows of a tensor of floats, [`batch`, `channels`, ...].
pub(crate) fn slide_floats<F: Fold<f32>>(
    spec: &PoolSpec,
    input: &Tensor,
    fold: impl FnOnce(&[Axis]) -> F,
) -> TractResult<Tensor> {
    let shape = spec.data_format.shape(input.shape())?;
    let axes = Axis::all(spec, shape.hw_dims())?;
    let mut output = Tensor::zero::<f32>(&spec.output_shape(input.shape())?.shape)?;
    let mut to = output.try_as_plain_ram_mut()?;
    let from = input.try_as_plain_ram()?;
    slide(&axes, from.as_slice()?, to.as_slice_mut()?, &fold(&axes))?;
    Ok(output)
}

/// Infers the facts of a function of windows.
pub(crate) fn window_facts(spec: &PoolSpec, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
    let shape = spec.data_format.shape(inputs[0].shape.to_tvec())?;
    check_windows(spec, shape.hw_dims())?;
    let mut facts = spec.output_facts(inputs)?;
    for (axis, most) in most_windows(spec, &inputs[0].shape.to_tvec())? {
        let output = &mut facts[0].shape;
        let windows = at_most(output[axis].clone(), most);
        output.set(axis, windows);
    }
    Ok(facts)
}

/// The axes of unknown size along which a pool may have a window that begins in the padding behind,
/// with the windows that begin before it. tract drops such a window of known sizes alone.
pub(crate) fn most_windows(spec: &PoolSpec, sizes: &[TDim]) -> TractResult<TVec<(usize, TDim)>> {
    let PaddingSpec::ExplicitOnnxPool(before, after, true) = &spec.padding else {
        return Ok(tvec![]);
    };
    let shape = spec.data_format.shape(TVec::from(sizes))?;
    let axes = shape.hw_dims().iter().enumerate();
    let axes = axes.filter(|(axis, size)| {
        let taps = spec.kernel_shape[*axis].saturating_sub(1);
        let reach = taps.saturating_mul(spec.dilation(*axis));
        let may_begin_behind = after[*axis].saturating_add(spec.stride(*axis)) > reach + 1;
        may_begin_behind && size.to_usize().is_err()
    });
    let windows = axes.map(|(axis, size)| {
        let most = (size.clone() + before[axis]).divceil(spec.stride(axis));
        (shape.h_axis() + axis, most)
    });
    Ok(windows.collect())
}

/// The smaller one of two sizes.
pub(crate) fn at_most(size: TDim, most: TDim) -> TDim {
    TDim::Min(vec![size, most]).simplify()
}

/// Where the taps of all windows of a plane lie.
struct Windows {
    /// The rows of the phases that lie in the plane, and how far apart their elements lie there.
    rows: Vec<Row>,
    stride: usize,
    /// The elements of all phases, with those that a last block reads beyond.
    elements: usize,
    /// Where each tap of the first window lies in the phases.
    taps: Vec<usize>,
    /// The windows that are folded, in whole blocks.
    folded: usize,
    /// Where the rows of windows that are kept begin, and the windows of each.
    kept: Vec<usize>,
    row: usize,
}

/// Checks that the elements of a padded plane, and the taps of a window, have room.
fn check(axes: &[Axis]) -> TractResult<()> {
    let product = |of: fn(&Axis) -> Option<usize>| {
        let mut sizes = axes.iter().map(of);
        sizes.try_fold(1_usize, |all, size| all.checked_mul(size?))
    };
    let padded = product(|axis| {
        let last = axis.window.saturating_sub(1).checked_mul(axis.dilation)?;
        axis.output.checked_mul(axis.stride)?.checked_add(last)
    });
    let taps = product(|axis| Some(axis.window));
    let fits = |count: Option<usize>| count.is_some_and(|count| count <= MAX_ELEMENTS);
    ensure!(
        fits(padded) && fits(taps),
        "its windows reach over more than {MAX_ELEMENTS} elements of a channel, with the padding"
    );
    Ok(())
}

/// A row of a phase.
#[derive(Clone, Copy)]
struct Row {
    /// Where it begins in a plane.
    from: usize,
    /// Where it begins in the phases.
    to: usize,
    len: usize,
}

impl Windows {
    fn new(axes: &[Axis]) -> TractResult<Self> {
        let (last, outer) = axes.split_last().context("windows without an axis")?;
        check(axes)?;
        let phase = axes.iter().map(Axis::phase).product::<usize>() + BLOCK;
        let mut phases: Vec<TVec<usize>> = vec![];
        let taps: usize = axes.iter().map(|axis| axis.window).product();
        let taps = (0..taps).map(|tap| {
            let (mut rest, mut within, mut offset) = (tap, 1, 0);
            let mut of = tvec![0; axes.len()];
            for (axis, of) in std::iter::zip(axes, &mut of).rev() {
                let place = (rest % axis.window) * axis.dilation;
                rest /= axis.window;
                *of = place % axis.stride;
                offset += place / axis.stride * within;
                within *= axis.phase();
            }
            let known = phases.iter().position(|it| *it == of);
            let index = known.unwrap_or_else(|| {
                phases.push(of);
                phases.len() - 1
            });
            index * phase + offset
        });
        let taps = taps.collect();
        let mut rows = vec![];
        for (index, of) in phases.iter().enumerate() {
            let (from, to) = (0, index * phase);
            push_rows(axes, of, Row { from, to, len: 1 }, &mut rows);
        }
        let mut kept = vec![0];
        for axis in outer {
            let begins = kept
                .iter()
                .map(|begin| begin * axis.phase())
                .flat_map(|begin| begin..begin + axis.output);
            kept = begins.collect();
        }
        for begin in &mut kept {
            *begin *= last.phase();
        }
        let folded = kept.last().map_or(0, |begin| begin + last.output);
        Ok(Self {
            rows,
            stride: last.stride,
            elements: phases.len() * phase,
            taps,
            folded: folded.next_multiple_of(BLOCK),
            kept,
            row: last.output,
        })
    }
}

/// Adds the rows of a phase that lie in the plane, behind a row of the axes before.
fn push_rows(axes: &[Axis], phase: &[usize], outer: Row, rows: &mut Vec<Row>) {
    let ([axis, axes @ ..], [of, phase @ ..]) = (axes, phase) else {
        return;
    };
    let size = |of: fn(&Axis) -> usize| axes.iter().map(of).product::<usize>();
    let (plane, row) = (size(|axis| axis.input), size(Axis::phase));
    let within = axis.within(*of);
    let at = |index: usize, len: usize| Row {
        from: outer.from + (index * axis.stride + of - axis.before) * plane,
        to: outer.to + index * row,
        len,
    };
    if axes.is_empty() && !within.is_empty() {
        rows.push(at(within.start, within.len()));
    } else {
        for index in within {
            push_rows(axes, phase, at(index, 1), rows);
        }
    }
}

/// Copies elements that lie a stride apart.
#[inline(always)]
pub(crate) fn strided<E: Copy>(from: &[E], stride: usize, to: &mut [E]) {
    match stride {
        1 => to.copy_from_slice(&from[..to.len()]),
        2 => {
            // The last one may have no neighbour.
            let (pairs, rest) = from.as_chunks::<2>();
            for (to, [from, _]) in std::iter::zip(&mut *to, pairs) {
                *to = *from;
            }
            if let ([from], Some(to)) = (rest, to.get_mut(pairs.len())) {
                *to = *from;
            }
        }
        stride => {
            for (to, from) in std::iter::zip(to, from.iter().step_by(stride)) {
                *to = *from;
            }
        }
    }
}

/// Planes that one thread computes.
struct Planes<'a, E, F> {
    windows: &'a Windows,
    inputs: &'a [E],
    /// The elements of an input plane, of which each has this many outputs.
    input: usize,
    outputs: usize,
    /// The first output plane, and the elements of one.
    first: usize,
    to: &'a mut [E],
    output: usize,
    fold: &'a F,
}

impl<E: Copy, F: Fold<E>> SimdOp for Planes<'_, E, F> {
    type Output = ();

    // Everything is inlined, so that it is compiled for the instructions of the processor.
    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) {
        let Windows {
            rows,
            stride,
            taps,
            kept,
            ..
        } = self.windows;
        let mut loaded = None;
        let mut elements = vec![F::PADDING; self.windows.elements];
        let mut windows = vec![F::PADDING; self.windows.folded];
        for (index, to) in self.to.chunks_exact_mut(self.output).enumerate() {
            let plane = self.first + index;
            let source = plane / self.outputs;
            if loaded != Some(source) {
                let from = &self.inputs[source * self.input..][..self.input];
                for row in rows {
                    strided(
                        &from[row.from..],
                        *stride,
                        &mut elements[row.to..][..row.len],
                    );
                }
                loaded = Some(source);
            }
            let functions = self.fold.taps(plane);
            for (block, to) in windows.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                let mut folded = [self.fold.first(plane); BLOCK];
                let elements = &elements[block * BLOCK..];
                for (function, tap) in std::iter::zip(functions.clone(), taps) {
                    let taps = &elements[*tap..][..BLOCK];
                    for (folded, element) in std::iter::zip(&mut folded, taps) {
                        *folded = function(*folded, *element);
                    }
                }
                *to = folded;
            }
            for (begin, to) in std::iter::zip(kept, to.chunks_exact_mut(self.windows.row)) {
                to.copy_from_slice(&windows[*begin..][..to.len()]);
            }
            self.fold.finish(to);
        }
    }
}
