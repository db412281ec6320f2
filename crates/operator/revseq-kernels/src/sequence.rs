//! ReverseSequence in one call.

use crate::cpu::{self, Threads};
use crate::{
    DataType, Dims, Element, Error, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc,
    SequenceLengths, Tensor,
};

/// Reverses the start of every sequence of a packed tensor in place: ONNX's ReverseSequence.
///
/// `sizes` are the tensor's, outermost first. Along `time_axis`, entry `i` of `batch_axis` has its
/// first `lengths[i]` steps reversed; the others keep their place. Uses all of rayon's threads
/// where that is faster.
///
/// A [`Plan`], made once for a shape, saves the preparation of each call. It adds strides, a length
/// for every subsequence, [a choice of threads](Threads), and elements of
/// [any type](cpu::reverse_in_place), such as `String`.
///
/// ```
/// // Two sequences of up to 3 steps with 2 features each.
/// let mut data = [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12_f32];
/// revseq_kernels::reverse_sequence(&mut data, &[2, 3, 2], 0, 1, &[3, 2])?;
/// assert_eq!(data, [5., 6., 3., 4., 1., 2., 9., 10., 7., 8., 11., 12.]);
/// # Ok::<(), revseq_kernels::Error>(())
/// ```
///
/// # Errors
/// [`Error::ElementCountMismatch`] if the data are not of these sizes, [`Error::AxisOutOfRange`]
/// and [`Error::SameAxis`] for the axes, [`Error::LengthCountMismatch`] unless there is a length for
/// every entry of the batch, and [`Error::LengthOutOfRange`] for one that is negative or more than
/// there are steps. The data then are as before.
pub fn reverse_sequence<'a, T: Element>(
    data: &mut [T],
    sizes: &[usize],
    batch_axis: usize,
    time_axis: usize,
    lengths: impl Into<LengthsData<'a>>,
) -> Result<(), Error> {
    let plan = plan::<T>(sizes, batch_axis, time_axis)?;
    check_count(Tensor::Input, data, sizes)?;
    let lengths = SequenceLengths::new(&plan, lengths, LengthsPolicy::Reject)?;
    cpu::run_elements_in_place(&plan, &lengths, data, Threads::default())
}

/// [`reverse_sequence`] from one slice into another.
///
/// ```
/// // Time-major: 3 steps of a batch of 2.
/// let mut output = [0; 6];
/// revseq_kernels::reverse_sequence_into(&[1, 2, 3, 4, 5, 6], &mut output, &[3, 2], 1, 0, &[3, 2])?;
/// assert_eq!(output, [5, 4, 3, 2, 1, 6]);
/// # Ok::<(), revseq_kernels::Error>(())
/// ```
///
/// # Errors
/// As [`reverse_sequence`], for each of the slices.
pub fn reverse_sequence_into<'a, T: Element>(
    input: &[T],
    output: &mut [T],
    sizes: &[usize],
    batch_axis: usize,
    time_axis: usize,
    lengths: impl Into<LengthsData<'a>>,
) -> Result<(), Error> {
    let plan = plan::<T>(sizes, batch_axis, time_axis)?;
    check_count(Tensor::Input, input, sizes)?;
    check_count(Tensor::Output, output, sizes)?;
    let lengths = SequenceLengths::new(&plan, lengths, LengthsPolicy::Reject)?;
    cpu::run_elements(&plan, &lengths, input, output, Threads::default())
}

fn plan<T: Element>(sizes: &[usize], batch_axis: usize, time_axis: usize) -> Result<Plan, Error> {
    let axis = |axis: usize| {
        u32::try_from(axis).map_err(|_| Error::AxisOutOfRange {
            axis: axis as u64,
            dimension_count: sizes.len(),
        })
    };
    let sizes: Dims = sizes.iter().map(|&size| size as u64).collect();
    // A plan reads lengths of any type.
    let lengths = DataType::Int64;
    let (batch_axis, time_axis) = (axis(batch_axis)?, axis(time_axis)?);
    Plan::new(&ReverseSubsequencesDesc::reverse_sequence(
        T::DATA_TYPE,
        &sizes,
        batch_axis,
        time_axis,
        lengths,
    )?)
}

/// Checks that a slice has the elements of these sizes, whose product a plan has shown to be
/// addressable.
fn check_count<T>(tensor: Tensor, elements: &[T], sizes: &[usize]) -> Result<(), Error> {
    let expected = match sizes.contains(&0) {
        true => 0,
        false => sizes.iter().product(),
    };
    if elements.len() != expected {
        return Err(Error::ElementCountMismatch {
            tensor,
            sizes: sizes.to_vec(),
            actual: elements.len(),
            expected,
        });
    }
    Ok(())
}
