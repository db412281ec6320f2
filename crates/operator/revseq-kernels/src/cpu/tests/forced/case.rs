//! The layouts that every kernel is run on.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::cpu::write::CACHE_LINE;
use crate::{DataType, ReverseSubsequencesDesc, TensorDesc};

/// Layout of the elements of a tensor.
#[derive(Clone, Debug)]
struct Layout {
    /// The dimensions from the outermost on.
    order: Vec<usize>,
    /// The elements after each dimension.
    padding: Vec<u64>,
    /// The dimensions that repeat.
    repeated: Vec<bool>,
}

impl Layout {
    fn strides(&self, sizes: &[u64]) -> Vec<u64> {
        let mut strides = vec![0; sizes.len()];
        let mut next = 1;
        for &dimension in self.order.iter().rev() {
            if !self.repeated[dimension] {
                strides[dimension] = next;
                next = next * sizes[dimension] + self.padding[dimension];
            }
        }
        strides
    }
}

/// Place of a buffer in memory.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(miri, expect(dead_code, reason = "Miri has no pages"))]
pub(super) enum Place {
    /// Number of bytes after the start of a page; the page before is inaccessible.
    Start(usize),
    /// Number of bytes before the end of a page; the page after is inaccessible.
    End(usize),
    /// The heap, where a sanitizer watches the bytes around a buffer.
    Heap,
}

/// The threads that work on the pieces of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Workers {
    /// One thread, on pieces that are cut anywhere, in any order.
    One,
    /// Two threads, on such pieces.
    Two,
    /// A pool, on pieces of its own.
    Pool,
    /// A host's loop on two threads, in any order, on pieces of its own.
    Host,
}

#[derive(Clone, Debug)]
pub(in crate::cpu::tests) struct Case {
    pub(in crate::cpu::tests) desc: ReverseSubsequencesDesc,
    pub(in crate::cpu::tests) lengths: Vec<i64>,
    pub(super) places: [Place; 2],
    pub(super) workers: Workers,
    /// The indices at which the items of a run are cut, and the order of the pieces.
    pub(super) cuts: Vec<(Index, u8)>,
    /// Whether lengths that are equal fold the plan.
    pub(super) simplified: bool,
}

impl Case {
    /// Packed data, in one piece, with a length for each of `batch`.
    pub(in crate::cpu::tests) fn packed(
        width: usize,
        sizes: &[u64],
        axis: usize,
        batch: usize,
    ) -> Self {
        let (data_type, of_lengths) = (of_width(width), DataType::Int64);
        let axes = (batch as u32, axis as u32);
        let desc =
            ReverseSubsequencesDesc::reverse_sequence(data_type, sizes, axes.0, axes.1, of_lengths);
        let length = |index| (index * 7919 % (sizes[axis] + 1)) as i64;
        Self {
            desc: desc.unwrap(),
            lengths: (0..sizes[batch]).map(length).collect(),
            places: [Place::Start(0); 2],
            workers: Workers::One,
            cuts: Vec::new(),
            simplified: false,
        }
    }
}

fn of_width(bytes: usize) -> DataType {
    match bytes {
        1 => DataType::Uint8,
        2 => DataType::Float16,
        4 => DataType::Float32,
        8 => DataType::Complex64,
        _ => DataType::Complex128,
    }
}

/// The most bytes of a random tensor, as packed.
const MOST_BYTES: u64 = 24 << 10;

prop_compose! {
    fn sizes()(
        width in prop::sample::select(&[1_usize, 2, 4, 8, 16][..]),
        mut sizes in prop::collection::vec(
            prop_oneof![4 => 1_u64..6, 5 => 6_u64..48, 3 => 48_u64..400, 1 => 400_u64..20_000],
            1..5,
        ),
    ) -> (usize, Vec<u64>) {
        while sizes.iter().product::<u64>() * width as u64 > MOST_BYTES {
            if let Some(largest) = sizes.iter_mut().max() {
                *largest = largest.div_ceil(2);
            }
        }
        (width, sizes)
    }
}

prop_compose! {
    fn layout(rank: usize, repeats: f64)(
        order in prop_oneof![
            Just((0..rank).collect::<Vec<_>>()),
            Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        ],
        padding in prop::collection::vec(prop_oneof![6 => Just(0), 1 => 1_u64..40], rank),
        repeated in prop::collection::vec(prop::bool::weighted(repeats), rank),
    ) -> Layout {
        Layout { order, padding, repeated }
    }
}

fn place() -> impl Strategy<Value = Place> {
    let distance =
        || prop_oneof![3 => Just(0), 1 => 1..2 * CACHE_LINE, 1 => Just(16), 1 => Just(48)];
    prop_oneof![
        distance().prop_map(Place::Start),
        distance().prop_map(Place::End),
        Just(Place::Heap),
    ]
}

prop_compose! {
    pub(super) fn case()((width, sizes) in sizes())(
        axis in any::<Index>(),
        input in layout(sizes.len(), 0.15),
        output in layout(sizes.len(), 0.0),
        // Whether it can run in place.
        alike in prop::bool::weighted(0.6),
        lengths in layout(sizes.len(), 0.4),
        kind in 0_u8..6,
        random in any::<u64>(),
        places in [place(), place()],
        cuts in prop::collection::vec(any::<(Index, u8)>(), 0..6),
        workers in prop_oneof![
            5 => Just(Workers::One),
            1 => Just(Workers::Two),
            1 => Just(Workers::Pool),
            1 => Just(Workers::Host),
        ],
        simplified in prop::bool::weighted(0.3),
        (width, sizes) in Just((width, sizes)),
    ) -> Case {
        let axis = axis.index(sizes.len());
        let mut lengths_sizes = sizes.clone();
        lengths_sizes[axis] = 1;
        let output = output.strides(&sizes);
        let input = match alike {
            true => output.clone(),
            false => input.strides(&sizes),
        };
        let data_type = of_width(width);
        let desc = ReverseSubsequencesDesc {
            input: TensorDesc::strided(data_type, sizes.clone(), input),
            sequence_lengths: TensorDesc::strided(
                DataType::Int64,
                lengths_sizes.clone(),
                lengths.strides(&lengths_sizes),
            ),
            output: TensorDesc::strided(data_type, sizes.clone(), output),
            axis: axis as u32,
        };
        let all = sizes[axis];
        let length = |index: u64| {
            let random = (index + 1).wrapping_mul(random | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            match kind {
                0 => all,
                1 => random % 3,
                // Equal in groups.
                2 => index / 32 * 7919 % (all + 1),
                _ => random % (all + 1),
            }
        };
        let count = desc.sequence_lengths.extent().unwrap();
        Case {
            desc,
            lengths: (0..count).map(|index| length(index).min(all) as i64).collect(),
            places,
            workers,
            cuts,
            simplified,
        }
    }
}

/// Packed cases that together reach every loop, whatever the random ones do.
pub(super) fn directed() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in [1, 2, 4, 8, 16] {
        let elements = |bytes: u64| (bytes / width as u64).max(2);
        for (sizes, axis, batch) in [
            // Lines of less than a lane, of about a vector, of some, and long ones.
            (vec![70, elements(15)], 1, 0),
            (vec![70, elements(64)], 1, 0),
            (vec![20, elements(80)], 1, 0),
            (vec![20, elements(256)], 1, 0),
            (vec![5, elements(5 << 10)], 1, 0),
            (vec![3, elements(20 << 10)], 1, 0),
            // Rows along time and across it, short and long.
            (vec![3, 9, elements(100)], 1, 0),
            (vec![9, 3, elements(100)], 0, 1),
            (vec![2, 5, elements(9 << 10)], 1, 0),
            (vec![5, 2, elements(9 << 10)], 0, 1),
            // Rows that are packed along time.
            (vec![3, 90, 3], 1, 0),
            (vec![3, 21, 3], 1, 0),
            // Columns: less than a lane of them, a vector, tiles.
            (vec![20, 3], 0, 1),
            (vec![20, elements(64)], 0, 1),
            (vec![30, elements(1000)], 0, 1),
            (vec![70, 4, elements(144)], 0, 2),
        ] {
            cases.push(Case::packed(width, &sizes, axis, batch));
        }
    }
    // As many time steps as the scratch memory holds for a lane of columns, and more.
    cases.push(Case::packed(1, &[20_000, 40], 0, 1));
    cases.push(Case::packed(1, &[66_000, 2], 0, 1));
    cases
}
