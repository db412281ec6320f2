//! Sequence lengths: checked once for a run, by an explicit policy.

use crate::{DataType, Error, Plan};

/// A caller's lengths, in elements along the axis.
///
/// Converts [from](From) slices of these types and of `usize`.
#[derive(Clone, Copy, Debug)]
pub enum LengthsData<'a> {
    /// Signed 32-bit lengths.
    I32(&'a [i32]),
    /// Signed 64-bit lengths: ONNX ReverseSequence.
    I64(&'a [i64]),
    /// Unsigned 32-bit lengths: DirectML, all feature levels.
    U32(&'a [u32]),
    /// Unsigned 64-bit lengths: DirectML from feature level 5.0.
    U64(&'a [u64]),
}

/// The data types that lengths have.
pub(crate) const LENGTHS_DATA_TYPES: &[DataType] = &[
    DataType::Int32,
    DataType::Int64,
    DataType::Uint32,
    DataType::Uint64,
];

/// Evaluates an expression with the lengths as a slice, whatever their type.
macro_rules! with_lengths {
    ($data:expr, $all:ident => $body:expr) => {
        match $data {
            LengthsData::I32($all) => $body,
            LengthsData::I64($all) => $body,
            LengthsData::U32($all) => $body,
            LengthsData::U64($all) => $body,
        }
    };
}

macro_rules! lengths_from {
    ($($variant:ident($type:ty)),*) => {$(
        impl<'a> From<&'a [$type]> for LengthsData<'a> {
            fn from(lengths: &'a [$type]) -> Self {
                Self::$variant(lengths)
            }
        }
        impl<'a, const N: usize> From<&'a [$type; N]> for LengthsData<'a> {
            fn from(lengths: &'a [$type; N]) -> Self {
                Self::$variant(lengths)
            }
        }
        impl<'a> From<&'a Vec<$type>> for LengthsData<'a> {
            fn from(lengths: &'a Vec<$type>) -> Self {
                Self::$variant(lengths)
            }
        }
    )*};
}
lengths_from!(I32(i32), I64(i64), U32(u32), U64(u64));

impl<'a, const N: usize> From<&'a [usize; N]> for LengthsData<'a> {
    fn from(lengths: &'a [usize; N]) -> Self {
        lengths.as_slice().into()
    }
}

impl<'a> From<&'a Vec<usize>> for LengthsData<'a> {
    fn from(lengths: &'a Vec<usize>) -> Self {
        lengths.as_slice().into()
    }
}

impl<'a> From<&'a [usize]> for LengthsData<'a> {
    fn from(lengths: &'a [usize]) -> Self {
        #[cfg(target_pointer_width = "64")]
        type Fixed = u64;
        #[cfg(not(target_pointer_width = "64"))]
        type Fixed = u32;
        const {
            assert!(size_of::<Fixed>() == size_of::<usize>());
            assert!(align_of::<Fixed>() == align_of::<usize>());
        }
        // SAFETY: both are integers of the same size and alignment, checked above.
        let fixed: &'a [Fixed] =
            unsafe { std::slice::from_raw_parts(lengths.as_ptr().cast(), lengths.len()) };
        fixed.into()
    }
}

impl LengthsData<'_> {
    /// The number of lengths.
    #[must_use]
    pub fn len(&self) -> usize {
        with_lengths!(self, lengths => lengths.len())
    }

    /// Whether the slice is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length at an index, as a number of any type.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    #[must_use]
    pub fn value(&self, index: usize) -> i128 {
        with_lengths!(self, lengths => lengths[index].into())
    }
}

/// A length, clamped: to `maximum` from above, to 0 from below.
#[inline(always)]
fn clamped<T: Copy + Default + Ord>(length: T, maximum: usize) -> usize
where
    usize: TryFrom<T>,
{
    // A length that does not fit `usize` is above any maximum.
    usize::try_from(length.max(T::default())).map_or(maximum, |length| length.min(maximum))
}

/// Policy for lengths that are negative or longer than the axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LengthsPolicy {
    /// Returns an error, like ONNX Runtime's CPU kernel for ReverseSequence.
    #[default]
    Reject,
    /// Treats the length as the axis, or as 0 if negative, as the page of
    /// `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC` specifies. DirectML 1.15.4 itself differs for a
    /// length above the axis: step `i` of `n` becomes step `min(length - 1 - i, n - 1)`, where
    /// `length` is the low 32 bits.
    Clamp,
}

/// Lengths that were checked against a [`Plan`]: each that it reads is 0 to the axis size.
///
/// Borrows the caller's lengths.
#[derive(Clone, Copy, Debug)]
pub struct SequenceLengths<'a> {
    data: LengthsData<'a>,
    maximum: usize,
    /// Whether all lengths in the buffer, read or not, are 0 to `maximum`, so that none is clamped.
    exact: bool,
}

impl<'a> SequenceLengths<'a> {
    /// Checks the lengths of a run against its plan.
    ///
    /// Their number must be the [`extent`](crate::TensorDesc::extent) of the
    /// descriptor's `sequence_lengths`. A value between strides, which no
    /// subsequence reads, may be anything. If the data has no elements, any number
    /// of lengths is accepted, as no layout reaches them; their values are still
    /// checked.
    ///
    /// # Errors
    /// [`Error::LengthCountMismatch`], and under [`LengthsPolicy::Reject`]
    /// [`Error::LengthOutOfRange`] with the first offending index.
    pub fn new(
        plan: &Plan,
        data: impl Into<LengthsData<'a>>,
        policy: LengthsPolicy,
    ) -> Result<Self, Error> {
        let data = data.into();
        if !fits(plan, data.len()) {
            return Err(Error::LengthCountMismatch {
                expected: plan.lengths_count(),
                actual: data.len(),
            });
        }
        let maximum = plan.axis_size();
        let exact = policy == LengthsPolicy::Reject && are_in_range(data, maximum);
        let offending = match policy {
            LengthsPolicy::Reject if !exact => first_out_of_range(plan, data, maximum),
            _ => None,
        };
        match offending {
            None => Ok(Self {
                data,
                maximum,
                exact,
            }),
            Some(index) => Err(Error::LengthOutOfRange {
                index,
                value: data.value(index),
                maximum: maximum as u64,
            }),
        }
    }

    /// Whether these lengths were checked against `plan` or one like it.
    pub(crate) fn check_plan(&self, plan: &Plan) -> Result<(), Error> {
        if !fits(plan, self.data.len()) || self.maximum != plan.axis_size() {
            return Err(Error::LengthsOfAnotherPlan {
                expected_count: plan.lengths_count(),
                expected_maximum: plan.axis_size() as u64,
                actual_count: self.data.len(),
                actual_maximum: self.maximum as u64,
            });
        }
        Ok(())
    }

    /// An upper bound of the lengths: the longest in the buffer, though perhaps
    /// no subsequence reads it; 0 if there is nothing to reverse.
    pub(crate) fn longest(&self, plan: &Plan) -> usize {
        #[inline(always)]
        fn longest<T: Copy + Default + Ord>(lengths: &[T], maximum: usize) -> usize
        where
            usize: TryFrom<T>,
        {
            let zero = T::default();
            let longest = lengths.iter().fold(zero, |longest, &one| longest.max(one));
            clamped(longest, maximum)
        }
        if plan.empty || plan.time.size <= 1 {
            return 0;
        }
        with_lengths!(self.data, lengths => longest(lengths, self.maximum))
    }

    /// The length of all subsequences of the plan, if it is the same for all;
    /// lengths of 0 and 1 count as the same, as both leave everything.
    pub(crate) fn uniform(&self, plan: &Plan) -> Option<usize> {
        let mut uniform = None;
        let all = plan.all_lengths(|index| {
            let length = self.get(index).max(1);
            *uniform.get_or_insert(length) == length
        });
        uniform.filter(|_| all)
    }

    /// Returns the largest number that divides the size of every group of neighbours with equal
    /// lengths in the plan's innermost loop; 1 if it is below `worthwhile`.
    pub(crate) fn group(&self, plan: &Plan, worthwhile: usize) -> usize {
        let Some(columns) = plan.loops.last().filter(|columns| columns.lengths != 0) else {
            return 1;
        };
        let mut group = columns.size;
        // Lengths 0 and 1 are equivalent.
        let length = |index: usize| self.get(index).max(1);
        let found = plan.all_lines(|first| {
            (1..columns.size).all(|column| {
                let index = first + column * columns.lengths;
                if length(index) != length(index - columns.lengths) {
                    group = greatest_common_divisor(group, column);
                }
                group >= worthwhile
            })
        });
        if found { group } else { 1 }
    }

    /// The caller's lengths, not clamped.
    #[cfg(feature = "wgpu")]
    pub(crate) fn data(&self) -> LengthsData<'a> {
        self.data
    }

    /// The length at an index of the lengths' buffer: 0 to the axis size.
    ///
    /// # Panics
    /// If `index` is not less than the number of lengths.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: usize) -> usize {
        with_lengths!(self.data, lengths => clamped(lengths[index], self.maximum))
    }

    /// The lengths at `first` and every `stride` after it: as [`get`](Self::get), many at once.
    #[inline(never)]
    pub(crate) fn read(&self, first: usize, stride: usize, into: &mut [usize]) {
        #[inline(always)]
        fn read<T: Copy>(
            lengths: &[T],
            stride: usize,
            into: &mut [usize],
            length_of: impl Fn(T) -> usize,
        ) {
            match stride {
                0 => into.fill(length_of(lengths[0])),
                1 => {
                    for (into, &length) in into.iter_mut().zip(lengths) {
                        *into = length_of(length);
                    }
                }
                _ => {
                    for (into, &length) in into.iter_mut().zip(lengths.iter().step_by(stride)) {
                        *into = length_of(length);
                    }
                }
            }
        }
        with_lengths!(self.data, all => match self.exact {
            true => read(&all[first..], stride, into, |one| one as usize),
            false => read(&all[first..], stride, into, |one| clamped(one, self.maximum)),
        });
    }
}

fn greatest_common_divisor(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Whether a plan takes this many lengths.
fn fits(plan: &Plan, count: usize) -> bool {
    plan.empty || count == plan.lengths_count()
}

/// The index of the first length that a subsequence reads and that is out of range.
fn first_out_of_range(plan: &Plan, data: LengthsData<'_>, maximum: usize) -> Option<usize> {
    let out_of_range = |index: usize| !(0..=maximum as i128).contains(&data.value(index));
    // The lengths that subsequences read, not those between the strides; all of them if
    // there are no elements, since then no layout distinguishes them.
    let read = (data.len() == plan.lengths_count()).then(|| plan.lengths_read());
    let is_read = |index: usize| read.as_ref().is_none_or(|read| read.contains(index));
    (0..data.len()).find(|&index| out_of_range(index) && is_read(index))
}

/// Whether all in the buffer are 0 to `maximum`.
fn are_in_range(data: LengthsData<'_>, maximum: usize) -> bool {
    // A `u64` length above `i64::MAX` becomes negative and so out of range; the maximum must not.
    let most = i64::try_from(maximum).unwrap_or(i64::MAX);
    match data {
        LengthsData::I32(lengths) => all_in_range(lengths, most, i64::from),
        LengthsData::I64(lengths) => all_in_range(lengths, most, |length| length),
        LengthsData::U32(lengths) => all_in_range(lengths, most, i64::from),
        LengthsData::U64(lengths) => all_in_range(lengths, most, |length| length as i64),
    }
}

/// Whether all are 0 to `maximum`.
#[inline(always)]
fn all_in_range<T: Copy>(lengths: &[T], maximum: i64, signed: impl Fn(T) -> i64) -> bool {
    // If a length is out of range, it or its difference from the maximum is negative. Collect
    // the sign bits, as SSE2 has no 64-bit comparison.
    let signs = lengths.iter().fold(0, |signs, &length| {
        let length = signed(length);
        signs | length | maximum.wrapping_sub(length)
    });
    signs >= 0
}
