//! Whether a layout maps two coordinates to the same element.

use smallvec::SmallVec;

use crate::{Error, TensorDesc};

/// A dimension of more than one element.
#[derive(Clone, Copy)]
struct Span {
    dimension: usize,
    /// The largest difference between two coordinates: the size − 1.
    reach: i128,
    stride: i128,
    /// The largest sum of differences along the dimensions of smaller strides.
    inside: i128,
}

/// The number of partial differences after which the search gives up; dense
/// layouts of a few dimensions need some dozens.
const SEARCH_LIMIT: u32 = 1 << 16;

/// Refuses an output in which two coordinates share an element.
///
/// Two coordinates share an element exactly if some difference `d` other than 0,
/// `|d[i]| < sizes[i]`, has `Σ d[i]·strides[i] = 0`. A dimension whose stride
/// exceeds the combined reach of the smaller ones takes no part in such a
/// difference; in packed, padded and permuted layouts that is every dimension.
/// If the remaining dimensions have more coordinates than elements in reach, two
/// coordinates share one. Otherwise there are no more dimensions than an index has
/// bits, and the differences are searched. An odd layout that the search cannot
/// finish in bounded time is refused, too.
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
            inside: 0,
        })
        .collect();
    spans.sort_by_key(|span| span.stride);
    let mut inside = 0;
    for span in &mut spans {
        span.inside = inside;
        inside += span.reach * span.stride;
    }
    let tangled = |span: &Span| span.stride <= span.inside;
    let (Some(first), Some(last)) = (
        spans.iter().position(tangled),
        spans.iter().rposition(tangled),
    ) else {
        return Ok(());
    };
    // Leave out the dimensions that nest around the rest.
    let (spans, largest) = (&spans[..=last], spans[last]);
    let elements = largest.inside + largest.reach * largest.stride + 1;
    let coordinates = |all: i128, span: &Span| all.saturating_mul(span.reach + 1);
    let mut budget = SEARCH_LIMIT;
    if spans.iter().fold(1, coordinates) <= elements
        && spans[0].stride > 0
        && !meets_zero(spans, 0, false, &mut budget)
        && budget > 0
    {
        return Ok(());
    }
    let dimension = spans[first].dimension;
    Err(Error::OverlappingOutput {
        dimension,
        size: output.sizes[dimension],
        stride: strides[dimension],
    })
}

/// Whether `partial` plus some differences along `spans` is 0, where not all
/// differences are 0 (`moved`: one outside already is not). Spends `budget`;
/// the answer is meaningless once it is 0.
fn meets_zero(spans: &[Span], partial: i128, moved: bool, budget: &mut u32) -> bool {
    let Some((largest, rest)) = spans.split_last() else {
        return moved && partial == 0;
    };
    let slack = largest.inside;
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
        let check = |sizes: Vec<u64>, stride: fn(u64) -> u64| {
            let strides: Vec<u64> = (0..sizes.len() as u64).map(stride).collect();
            check_output(&TensorDesc::strided(DataType::Uint8, sizes, strides))
        };
        // More coordinates than elements.
        assert!(check(vec![1 << 20; 40], |index| (1 << 20) + 2 * index + 1).is_err());
        assert!(check(vec![2; 60_000], |_| 1).is_err());
        assert!(check(vec![2; 60_000], |index| (1 << 40) + index).is_err());
        // Not more: the difference, if any, lies beyond the search limit.
        assert!(check(vec![3; 24], |index| (1 << 50) + ((index * index) << 20) + 1).is_err());
        assert_eq!(check(vec![1; 60_000], |index| index), Ok(()));
    }
}
