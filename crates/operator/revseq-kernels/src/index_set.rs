//! The set of indices that loops of sizes and strides reach.

use smallvec::SmallVec;

/// The iterations of a loop, and its stride.
type Loops = SmallVec<[(usize, usize); 4]>;

const WORD: usize = u64::BITS as usize;

/// Puts loops of strides other than 0 in the order of their strides, the largest
/// first, and makes one of two wherever it reaches the same indices: 3 rounds of 2
/// and 2 rounds of 4 are 5 rounds of 2.
pub(crate) fn merge(loops: &mut Loops) {
    loops.sort_unstable_by_key(|&(_, stride)| stride);
    loops.dedup_by(|(size, stride), (inner_size, inner_stride)| {
        let rounds = *stride / *inner_stride;
        let merges = stride.is_multiple_of(*inner_stride) && rounds <= *inner_size;
        if merges {
            *inner_size += (*size - 1) * rounds;
        }
        merges
    });
    loops.reverse();
}

/// A set of indices.
pub(crate) struct IndexSet {
    words: Vec<u64>,
}

impl IndexSet {
    /// The indices that [merged](merge) loops reach, all of which are below `limit`.
    ///
    /// Loops can reach few indices in more ways than can be counted, so this counts
    /// indices: no more than all for each doubling of a loop's rounds.
    pub(crate) fn of_loops(loops: &[(usize, usize)], limit: usize) -> Self {
        let mut set = Self {
            words: vec![0; limit.div_ceil(WORD)],
        };
        if let Some(word) = set.words.first_mut() {
            *word = 1;
        }
        let mut last = 0;
        for &(size, stride) in loops.iter().rev() {
            let mut rounds = 1;
            while rounds < size {
                let more = rounds.min(size - rounds);
                last += more * stride;
                set.add_shifted(more * stride, last);
                rounds += more;
            }
        }
        set
    }

    /// Adds each index plus `distance`, the largest of which is `last`.
    fn add_shifted(&mut self, distance: usize, last: usize) {
        let (words, bits) = (distance / WORD, distance % WORD);
        // From the last on, so that nothing is added before it is read.
        for to in (words..=last / WORD).rev() {
            let from = to - words;
            let mut shifted = self.words[from] << bits;
            if bits > 0 && from > 0 {
                shifted |= self.words[from - 1] >> (WORD - bits);
            }
            self.words[to] |= shifted;
        }
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        (self.words[index / WORD] >> (index % WORD)) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Every index, by counting through all coordinates.
    fn enumerated(loops: &[(usize, usize)]) -> BTreeSet<usize> {
        let mut indices = BTreeSet::from([0]);
        for &(size, stride) in loops {
            indices = indices
                .iter()
                .flat_map(|index| (0..size).map(move |round| index + round * stride))
                .collect();
        }
        indices
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn agrees_with_enumeration(
            loops in prop::collection::vec(
                (1_usize..9, prop_oneof![1_usize..9, 1_usize..200]),
                0..6,
            ),
        ) {
            let expected = enumerated(&loops);
            let mut merged = Loops::from(loops);
            merge(&mut merged);
            prop_assert_eq!(&enumerated(&merged), &expected);
            prop_assert!(merged.is_sorted_by(|one, next| one.1 > next.1));
            let limit = expected.last().unwrap() + 1;
            let set = IndexSet::of_loops(&merged, limit);
            let found: BTreeSet<_> = (0..limit).filter(|&index| set.contains(index)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn nested_and_colliding_loops_merge() {
        for (loops, expected) in [
            (&[(3, 2), (2, 4)][..], &[(5, 2)][..]),
            (&[(4, 15), (3, 5)], &[(12, 5)]),
            (&[(4, 16), (3, 5)], &[(4, 16), (3, 5)]),
            (&[(2, 1); 63], &[(64, 1)]),
        ] {
            let mut merged = Loops::from(loops);
            merge(&mut merged);
            assert_eq!(merged.as_slice(), expected);
        }
    }
}
