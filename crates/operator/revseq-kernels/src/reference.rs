//! The operator by its definition, element by element: the oracle of every test.
//!
//! Follows the descriptor's own words and shares nothing with [`Plan`](crate::Plan)
//! and the kernels. It is never made fast.

use crate::{LengthsData, ReverseSubsequencesDesc};

/// Reverses subsequences of `input` into `output`, both in bytes; lengths clamp.
///
/// For every coordinate, the element at position `p` of a subsequence of length
/// `l` comes from position `l − 1 − p` if `p < l`, from `p` otherwise. Bytes of
/// the output between its strides keep their values.
///
/// # Panics
/// If the descriptor has no [`Plan`](crate::Plan) or a buffer is too short.
pub fn reverse_subsequences<'a>(
    desc: &ReverseSubsequencesDesc,
    input: &[u8],
    lengths: impl Into<LengthsData<'a>>,
    output: &mut [u8],
) {
    let lengths = lengths.into();
    let width = desc.input.data_type.size();
    let axis = desc.axis as usize;
    let input_strides = desc.input.effective_strides().expect("a valid input");
    let lengths_strides = desc
        .sequence_lengths
        .effective_strides()
        .expect("valid lengths");
    let output_strides = desc.output.effective_strides().expect("a valid output");
    // A loop of indices: with iterators, hardly optimised tests of properties take a third longer.
    let offset = |coordinates: &[u64], strides: &[u64]| -> usize {
        let mut elements = 0;
        for dimension in 0..coordinates.len() {
            elements += coordinates[dimension] * strides[dimension];
        }
        elements as usize
    };
    for_each_coordinate(&desc.input.sizes, |coordinates| {
        let position = coordinates[axis];
        let to = offset(coordinates, &output_strides) * width;
        coordinates[axis] = 0;
        let length = lengths.value(offset(coordinates, &lengths_strides));
        let length = length.clamp(0, i128::from(desc.input.sizes[axis])) as u64;
        if position < length {
            coordinates[axis] = length - 1 - position;
        } else {
            coordinates[axis] = position;
        }
        let from = offset(coordinates, &input_strides) * width;
        coordinates[axis] = position;
        output[to..to + width].copy_from_slice(&input[from..from + width]);
    });
}

/// Visits all coordinates, the last dimension fastest. A visit must leave them
/// unchanged.
fn for_each_coordinate(sizes: &[u64], mut visit: impl FnMut(&mut [u64])) {
    if sizes.contains(&0) {
        return;
    }
    let mut coordinates = vec![0; sizes.len()];
    loop {
        visit(&mut coordinates);
        let mut dimension = sizes.len();
        loop {
            if dimension == 0 {
                return;
            }
            dimension -= 1;
            coordinates[dimension] += 1;
            if coordinates[dimension] < sizes[dimension] {
                break;
            }
            coordinates[dimension] = 0;
        }
    }
}
