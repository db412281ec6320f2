//! Plans: descriptors as loops over bytes.

use smallvec::SmallVec;

use crate::index_set::{self, IndexSet};
use crate::lengths::LENGTHS_DATA_TYPES;
use crate::{Error, ReverseSubsequencesDesc, Tensor, TensorDesc, overlap};

/// A loop of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Loop {
    /// The number of iterations.
    pub(crate) size: usize,
    /// Stride in the input, in bytes.
    pub(crate) input: usize,
    /// Stride in the output, in bytes.
    pub(crate) output: usize,
    /// Stride in the lengths, in lengths.
    pub(crate) lengths: usize,
}

impl Loop {
    /// A loop of one iteration.
    pub(crate) const ONCE: Self = Self {
        size: 1,
        input: 0,
        output: 0,
        lengths: 0,
    };
}

/// The moves of one shape, computed once.
///
/// Dimensions that stay contiguous in input, output and lengths are folded
/// into one. A plan knows bytes, but no axis and no data type. DirectML's
/// limits do not apply: sizes may be 0, dimensions more than 8, elements
/// more than 2^32.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The size of an element in bytes.
    pub(crate) element_bytes: usize,
    /// The bytes that stay together in input and output and share their length.
    pub(crate) row_bytes: usize,
    /// The loop along the axis; its `lengths` is 0.
    pub(crate) time: Loop,
    /// All other loops, from the largest output stride to the smallest.
    pub(crate) loops: SmallVec<[Loop; 4]>,
    /// Number of `loops` that have a larger output stride than `time`.
    pub(crate) outside_time: usize,
    /// The axis size, the upper bound of lengths. `time.size` is 1 if this is 0 or 1.
    axis_size: usize,
    /// Whether there is nothing to move.
    pub(crate) empty: bool,
    input_bytes: usize,
    output_bytes: usize,
    lengths_count: usize,
    /// The loops over the lengths themselves, [merged](index_set::merge), which are
    /// there even without elements.
    lengths_loops: SmallVec<[(usize, usize); 4]>,
    /// Reason why the plan cannot run in place: a dimension and its strides in input and output, in
    /// elements.
    layouts_differ: Option<(usize, u64, u64)>,
}

impl Plan {
    /// Plans a descriptor.
    ///
    /// Takes any strides on input and lengths, 0 included (broadcast), and any
    /// strides on the output that give no two coordinates the same element.
    /// Ignores `total_size_in_bytes` and the alignment: each run checks its
    /// buffers.
    ///
    /// # Errors
    /// If the descriptor is meaningless: dimension counts or sizes that do not
    /// match, an axis out of range, lengths that are not 32- or 64-bit integers,
    /// an output that overlaps itself, or a tensor whose end cannot be addressed.
    pub fn new(desc: &ReverseSubsequencesDesc) -> Result<Self, Error> {
        desc.check_shapes()?;
        if !LENGTHS_DATA_TYPES.contains(&desc.sequence_lengths.data_type) {
            return Err(Error::UnsupportedDataType {
                tensor: Tensor::SequenceLengths,
                level: None,
                actual: desc.sequence_lengths.data_type,
                supported: LENGTHS_DATA_TYPES,
            });
        }
        let element_bytes = desc.input.data_type.size();
        let input_bytes = addressable_bytes(Tensor::Input, &desc.input)?;
        let output_bytes = addressable_bytes(Tensor::Output, &desc.output)?;
        // The byte size of the lengths must be addressable; then their count is, too.
        let lengths_count = addressable_bytes(Tensor::SequenceLengths, &desc.sequence_lengths)?
            / desc.sequence_lengths.data_type.size();
        overlap::check_output(&desc.output)?;

        let axis = desc.axis as usize;
        // Lengths are compared with it even where nothing else says that it is addressable.
        let axis_size = usize::try_from(desc.input.sizes[axis])
            .map_err(|_| desc.input.overflow(Tensor::Input))?;
        let mut plan = Self {
            element_bytes,
            row_bytes: element_bytes,
            time: Loop::ONCE,
            loops: SmallVec::new(),
            outside_time: 0,
            axis_size,
            empty: desc.input.sizes.contains(&0),
            input_bytes,
            output_bytes,
            lengths_count,
            lengths_loops: SmallVec::new(),
            layouts_differ: None,
        };
        let mut strides = desc
            .tensors()
            .map(|(tensor, desc)| (tensor, desc, desc.strides_from_last()));
        for (dimension, &size) in desc.input.sizes.iter().enumerate().rev() {
            let mut found = [0; 3];
            for (found, (tensor, desc, strides)) in found.iter_mut().zip(&mut strides) {
                let stride = strides.next().flatten();
                *found = stride.ok_or_else(|| desc.overflow(*tensor))?;
            }
            let [input, lengths, output] = found;
            // Of lengths that there are, the last one is addressable, so these casts are exact.
            if dimension != axis && lengths != 0 && size > 1 && lengths_count > 0 {
                plan.lengths_loops.push((size as usize, lengths as usize));
            }
            if size <= 1 || plan.empty {
                continue;
            }
            if input != output {
                plan.layouts_differ = Some((dimension, input, output));
            }
            // The last byte is addressable, so these products of strides are, too; sizes
            // are, since no two coordinates of the output share an element.
            let round = Loop {
                size: size as usize,
                input: input as usize * element_bytes,
                output: output as usize * element_bytes,
                // An axis of one step has nothing to reverse: the length does not matter.
                lengths: match dimension != axis && axis_size > 1 {
                    true => lengths as usize,
                    false => 0,
                },
            };
            if dimension == axis {
                plan.time = round;
            } else {
                plan.loops.push(round);
            }
        }
        index_set::merge(&mut plan.lengths_loops);
        plan.loops.reverse();
        plan.settle();
        Ok(plan)
    }

    /// The least size of the input's buffer, in bytes.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// The least size of the output's buffer, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// The number of lengths that a run needs.
    #[must_use]
    pub fn lengths_count(&self) -> usize {
        self.lengths_count
    }

    /// The size of the axis in elements: the longest length.
    #[must_use]
    pub fn axis_size(&self) -> usize {
        self.axis_size
    }

    /// The bytes that move as one piece: neighbours on both sides that share their length.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The bytes that a run out of place writes.
    #[must_use]
    pub fn moved_bytes(&self) -> usize {
        if self.empty {
            return 0;
        }
        self.row_bytes
            * self.time.size
            * self.loops.iter().map(|round| round.size).product::<usize>()
    }

    /// The plan for lengths that are all `length`, if that makes it simpler.
    ///
    /// Where all lengths are the same they do not keep neighbours apart, and a
    /// length of at most 1 reverses nothing, so that time is a loop like any other.
    pub(crate) fn with_uniform_length(&self, length: usize) -> Option<Self> {
        if self.time.size <= 1 || self.loops.iter().all(|round| round.lengths == 0) && length > 1 {
            return None;
        }
        let mut plan = self.clone();
        plan.loops.push(self.elements());
        for round in &mut plan.loops {
            round.lengths = 0;
        }
        if length <= 1 {
            plan.loops.insert(self.outside_time, self.time);
            plan.time = Loop::ONCE;
        }
        plan.settle();
        Some(plan)
    }

    /// The plan for lengths of which `group` neighbours at a time are equal: they
    /// are one row.
    pub(crate) fn with_grouped_lengths(&self, group: usize) -> Self {
        let mut plan = self.clone();
        if let Some(columns) = plan.loops.pop() {
            plan.loops.push(Loop {
                size: columns.size / group,
                input: columns.input * group,
                output: columns.output * group,
                lengths: columns.lengths * group,
            });
            plan.loops.push(Loop {
                size: group,
                lengths: 0,
                ..columns
            });
        }
        plan.loops.push(self.elements());
        plan.settle();
        plan
    }

    /// Whether the rows of a subsequence are contiguous in input and output.
    pub(crate) fn is_packed_along_time(&self) -> bool {
        (self.time.input, self.time.output) == (self.row_bytes, self.row_bytes)
    }

    /// Whether they are lines of elements, of 1, 2, 4, 8 or 16 bytes each.
    pub(crate) fn has_lines(&self) -> bool {
        self.is_packed_along_time() && matches!(self.row_bytes, 1 | 2 | 4 | 8 | 16)
    }

    /// The loop inside a row.
    fn elements(&self) -> Loop {
        Loop {
            size: self.row_bytes / self.element_bytes,
            input: self.element_bytes,
            output: self.element_bytes,
            lengths: 0,
        }
    }

    /// Folds the loops and splits off the row.
    fn settle(&mut self) {
        self.loops.retain(|round| round.size > 1);
        self.loops
            .sort_by_key(|round| std::cmp::Reverse((round.output, round.input)));
        fold(&mut self.loops);
        self.row_bytes = self.element_bytes;
        if let Some(last) = self.loops.last()
            && (last.input, last.output, last.lengths) == (self.row_bytes, self.row_bytes, 0)
        {
            self.row_bytes *= last.size;
            self.loops.pop();
        }
        self.find_time();
    }

    /// Counts the loops outside time.
    fn find_time(&mut self) {
        let time = self.time;
        self.outside_time = self
            .loops
            .partition_point(|round| round.output > time.output);
    }

    /// The plan with each row cut into `parts` equal parts.
    pub(crate) fn with_cut_rows(&self, parts: usize) -> Self {
        let mut plan = self.clone();
        plan.row_bytes /= parts;
        plan.loops.push(Loop {
            size: parts,
            input: plan.row_bytes,
            output: plan.row_bytes,
            lengths: 0,
        });
        plan.find_time();
        plan
    }

    /// Whether `test` holds for the index of every length that a subsequence
    /// reads; asks no further once it does not. Asks no more often than there
    /// are subsequences, which without elements can be any number.
    pub(crate) fn all_lengths(&self, mut test: impl FnMut(usize) -> bool) -> bool {
        self.empty || all_indices(&self.lengths_loops, 0, &mut test)
    }

    /// The index of every length that a subsequence reads.
    pub(crate) fn lengths_read(&self) -> IndexSet {
        IndexSet::of_loops(&self.lengths_loops, self.lengths_count)
    }

    /// Whether `test` holds for the index of the first length of every round of
    /// the innermost loop.
    pub(crate) fn all_lines(&self, mut test: impl FnMut(usize) -> bool) -> bool {
        let outer = self.loops.iter().rev().skip(1).rev();
        let loops: SmallVec<[(usize, usize); 4]> = outer
            .filter(|round| round.lengths != 0)
            .map(|round| (round.size, round.lengths))
            .collect();
        self.empty || all_indices(&loops, 0, &mut test)
    }

    /// The loops over the lengths themselves, merged; they move nothing else.
    #[cfg(feature = "wgpu")]
    pub(crate) fn lengths_loops(&self) -> SmallVec<[Loop; 4]> {
        let of_lengths = |&(size, lengths): &(usize, usize)| Loop {
            size,
            input: 0,
            output: 0,
            lengths,
        };
        self.lengths_loops.iter().map(of_lengths).collect()
    }

    /// Checks that one buffer can be input and output.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        match self.layouts_differ {
            None => Ok(()),
            Some((dimension, input_stride, output_stride)) => Err(Error::NotInPlace {
                dimension,
                input_stride,
                output_stride,
            }),
        }
    }
}

/// The extent of a tensor in bytes, checked to be addressable by one allocation.
fn addressable_bytes(tensor: Tensor, desc: &TensorDesc) -> Result<usize, Error> {
    desc.extent()
        .and_then(|extent| extent.checked_mul(desc.data_type.size() as u64))
        // No allocation in Rust is larger than `isize::MAX`.
        .and_then(|bytes| isize::try_from(bytes).ok())
        .map(isize::unsigned_abs)
        .ok_or_else(|| desc.overflow(tensor))
}

/// Whether `test` holds for every index that loops of sizes and strides reach.
fn all_indices(
    loops: &[(usize, usize)],
    index: usize,
    test: &mut impl FnMut(usize) -> bool,
) -> bool {
    match loops {
        [] => test(index),
        [(size, stride)] => (0..*size).all(|round| test(index + round * stride)),
        [(size, stride), inner @ ..] => {
            (0..*size).all(|round| all_indices(inner, index + round * stride, test))
        }
    }
}

/// Merges neighbours that one loop can serve in input, output and lengths alike.
fn fold(loops: &mut SmallVec<[Loop; 4]>) {
    let mut kept = 0;
    for next in 1..loops.len() {
        let (outer, inner) = (loops[kept], loops[next]);
        let nests = |outer: usize, per_round: usize| outer == per_round * inner.size;
        if nests(outer.output, inner.output)
            && nests(outer.input, inner.input)
            && nests(outer.lengths, inner.lengths)
        {
            loops[kept] = Loop {
                size: outer.size * inner.size,
                ..inner
            };
        } else {
            kept += 1;
            loops[kept] = inner;
        }
    }
    loops.truncate(kept + 1);
}
