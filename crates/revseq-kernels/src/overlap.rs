//! Whether a layout gives two coordinates the same element.

use smallvec::SmallVec;

use crate::{Error, TensorDesc};

/// A dimension of more than one element.
#[derive(Clone, Copy)]
struct Span {
    dimension: usize,
    /// The largest difference between two coordinates: the size − 1.
    reach: i128,
    stride: i128,
}

/// How many partial differences the search looks at before it gives up; dense
/// layouts of a few dimensions need some dozens.
const SEARCH_LIMIT: u32 = 1 << 16;

/// Refuses an output in which two coordinates share an element.
///
/// Two coordinates share an element exactly if some difference `d` other than 0,
/// `|d[i]| < sizes[i]`, has `Σ d[i]·strides[i] = 0`. A dimension whose stride is
/// larger than all that the smaller ones reach together takes no part in such a
/// difference; in packed, padded and permuted layouts that is every dimension.
/// For what remains the differences are searched. An odd layout that the search
/// cannot finish in bounded time is refused, too.
///
/// The caller has checked that the [`extent`](TensorDesc::extent) fits 64 bits,
/// so sums of 128 bits do not overflow.
///
/// # Errors
/// [`Error::OverlappingOutput`] with the first dimension, from the smallest
/// stride up, whose stride is too small.
pub(crate) fn check_output(output: &TensorDesc) -> Result<(), Error> {
    let Some(strides) = &output.strides else {
        return Ok(());
    };
    if output.sizes.contains(&0) {
        return Ok(());
    }
    let mut spans: SmallVec<[Span; 8]> = output
        .sizes
        .iter()
        .zip(strides)
        .enumerate()
        .filter(|(_, (size, _))| **size > 1)
        .map(|(dimension, (size, stride))| Span {
            dimension,
            reach: i128::from(size - 1),
            stride: i128::from(*stride),
        })
        .collect();
    spans.sort_by_key(|span| span.stride);
    // From the largest stride on, drop what nests around the rest.
    while let Some((largest, rest)) = spans.split_last() {
        if largest.stride <= reach_of(rest) {
            break;
        }
        spans.pop();
    }
    let reaches_into = |index: usize| spans[index].stride <= reach_of(&spans[..index]);
    let Some(tangled) = (0..spans.len()).find(|&index| reaches_into(index)) else {
        return Ok(());
    };
    let mut budget = SEARCH_LIMIT;
    if spans[0].stride > 0 && !meets_zero(&spans, 0, false, &mut budget) && budget > 0 {
        return Ok(());
    }
    let dimension = spans[tangled].dimension;
    Err(Error::OverlappingOutput {
        dimension,
        size: output.sizes[dimension],
        stride: strides[dimension],
    })
}

/// The largest sum of differences.
fn reach_of(spans: &[Span]) -> i128 {
    spans.iter().map(|span| span.reach * span.stride).sum()
}

/// Whether `partial` plus some differences along `spans` is 0, the differences
/// not all being 0 (`moved` says that one outside already is not). Spends
/// `budget`; with none left the answer is worthless.
fn meets_zero(spans: &[Span], partial: i128, moved: bool, budget: &mut u32) -> bool {
    let Some((largest, rest)) = spans.split_last() else {
        return moved && partial == 0;
    };
    let slack = reach_of(rest);
    // Only these differences leave a sum that the rest can bring back to 0.
    let from = (-partial - slack)
        .div_euclid(largest.stride)
        .max(-largest.reach);
    let to = ((slack - partial).div_euclid(largest.stride)).min(largest.reach);
    // A difference and its negative meet 0 together: before the first move look at one half.
    let from = if moved { from } else { from.max(0) };
    let mut difference = from;
    while difference <= to {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        let sum = partial + difference * largest.stride;
        if meets_zero(rest, sum, moved || difference != 0, budget) {
            return true;
        }
        difference += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::check_output;
    use crate::{DataType, TensorDesc};

    /// Every element offset, by counting through all coordinates.
    fn overlaps_by_enumeration(sizes: &[u64], strides: &[u64]) -> bool {
        let mut offsets = vec![0_u64];
        for (&size, &stride) in sizes.iter().zip(strides) {
            offsets = offsets
                .iter()
                .flat_map(|offset| (0..size).map(move |index| offset + index * stride))
                .collect();
        }
        let distinct: HashSet<_> = offsets.iter().collect();
        distinct.len() != offsets.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn agrees_with_enumeration(
            dims in prop::collection::vec((0_u64..5, 0_u64..14), 1..5),
        ) {
            let (sizes, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let desc = TensorDesc::strided(DataType::Uint8, sizes.clone(), strides.clone());
            prop_assert_eq!(
                check_output(&desc).is_err(),
                overlaps_by_enumeration(&sizes, &strides),
                "sizes {:?} strides {:?}", sizes, strides
            );
        }
    }

    #[test]
    fn ends_promptly_on_layouts_made_to_be_hard() {
        let sizes = vec![1 << 20; 40];
        let strides: Vec<u64> = (0..40).map(|index| (1 << 20) + 2 * index + 1).collect();
        assert!(check_output(&TensorDesc::strided(DataType::Uint8, sizes, strides)).is_err());
    }
}
