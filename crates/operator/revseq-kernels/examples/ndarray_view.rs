//! Transposed views of `ndarray` without a copy: a descriptor has strides, too.
//!
//! ```sh
//! cargo run -p revseq-kernels --example ndarray_view
//! ```

use std::error::Error;

use ndarray::{Array, Array3, ArrayView, Dimension};
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, Element, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, TensorDesc,
};

/// Reverses `input` along the axis `time`, by a length for each entry of the axis `batch`.
fn reverse_sequence<T: Element + Default, D: Dimension>(
    input: &ArrayView<'_, T, D>,
    lengths: &[i64],
    [batch, time]: [u32; 2],
) -> Result<Array<T, D>, Box<dyn Error>> {
    let sizes: Vec<u64> = input.shape().iter().map(|&size| size as u64).collect();
    let strides = input.strides().iter();
    let strides: Result<Vec<u64>, _> = strides.map(|&stride| stride.try_into()).collect();
    // Packed in any order of the axes: the view does not borrow the bytes
    // between a slice's elements, and a descriptor has no negative strides.
    let (Ok(strides), Some(elements)) = (strides, input.as_slice_memory_order()) else {
        return Err(format!("strides {:?}: expected a packed array", input.strides()).into());
    };
    let packed = ReverseSubsequencesDesc::reverse_sequence(
        T::DATA_TYPE,
        &sizes,
        batch,
        time,
        DataType::Int64,
    )?;
    let desc = ReverseSubsequencesDesc {
        input: TensorDesc::strided(T::DATA_TYPE, sizes, strides),
        ..packed
    };
    let plan = Plan::new(&desc)?;
    let lengths = SequenceLengths::new(&plan, lengths, LengthsPolicy::Reject)?;
    let mut output = vec![T::default(); input.len()];
    cpu::run_elements(&plan, &lengths, elements, &mut output, Threads::Serial)?;
    Ok(Array::from_shape_vec(input.raw_dim(), output)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    // 2 sequences of 4 steps and 3 features, of which the second has 2 steps.
    let data = Array3::from_shape_fn((2, 4, 3), |(b, t, f)| (100 * b + 10 * t + f) as f32);
    let batch_major = reverse_sequence(&data.view(), &[4, 2], [0, 1])?;
    println!("{batch_major}");
    assert_eq!(batch_major[[1, 0, 2]], 112.0);

    // The same data seen time-major.
    let time_major = data.view().permuted_axes([1, 0, 2]);
    let time_major = reverse_sequence(&time_major, &[4, 2], [1, 0])?;
    assert_eq!(time_major.permuted_axes([1, 0, 2]), batch_major);
    Ok(())
}
