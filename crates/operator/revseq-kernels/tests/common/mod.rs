//! Random descriptors with lengths and data, for every test that compares a way
//! to run them with the reference.

use proptest::prelude::*;
use revseq_kernels::{DataType, LengthsData, ReverseSubsequencesDesc, TensorDesc};

/// Strides for sizes: any order of the dimensions, with padding after each.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The dimension with the smallest key is innermost; none: packed.
    keys: Option<Vec<u8>>,
    padding: Vec<u64>,
    repeated: Vec<bool>,
}

/// Number of dimensions that a case has at most.
const RANKS: usize = 11;

prop_compose! {
    fn layout()(
        keys in prop::option::of(prop::collection::vec(any::<u8>(), RANKS)),
        padding in prop::collection::vec(prop_oneof![4 => Just(0), 1 => 1_u64..3], RANKS),
        repeated in prop::collection::vec(prop::bool::weighted(0.3), RANKS),
    ) -> Layout {
        Layout { keys, padding, repeated }
    }
}

impl Layout {
    fn strides(&self, sizes: &[u64]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
        if let Some(keys) = &self.keys {
            order.sort_by_key(|&dimension| keys[dimension]);
        }
        let mut strides = vec![0; sizes.len()];
        let mut next = 1;
        for dimension in order {
            strides[dimension] = next;
            next = next * sizes[dimension].max(1) + self.padding[dimension];
        }
        strides
    }

    /// The same with some strides 0, by which those dimensions repeat.
    fn broadcast_strides(&self, sizes: &[u64]) -> Vec<u64> {
        let mut strides = self.strides(sizes);
        for (stride, &repeated) in strides.iter_mut().zip(&self.repeated) {
            *stride *= u64::from(!repeated);
        }
        strides
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Lengths {
    pub(crate) fn data(&self) -> LengthsData<'_> {
        match self {
            Self::I32(lengths) => lengths.into(),
            Self::I64(lengths) => lengths.into(),
            Self::U32(lengths) => lengths.into(),
            Self::U64(lengths) => lengths.into(),
        }
    }

    /// `count` lengths for an axis: out of range now and then if `wild`, else
    /// all full, or 0, or 1, or any.
    fn new(data_type: DataType, count: usize, axis_size: u64, kind: u8, seed: u64) -> Self {
        let value = |index: usize| {
            let random = (index as u64 + 1)
                .wrapping_mul(seed | 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                >> 33;
            match kind {
                0 => axis_size,
                1 => random % 2,
                2 | 3 => random % (axis_size + 1),
                _ if random.is_multiple_of(11) => u64::MAX - random % 3,
                _ => random % (axis_size + 4),
            }
        };
        let values = (0..count).map(value);
        // A cast from u64::MAX is −1 where the type has a sign, and far too long otherwise.
        match data_type {
            DataType::Int32 => Self::I32(values.map(|value| value as i32).collect()),
            DataType::Int64 => Self::I64(values.map(|value| value as i64).collect()),
            DataType::Uint32 => Self::U32(values.map(|value| value as u32).collect()),
            _ => Self::U64(values.collect()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) desc: ReverseSubsequencesDesc,
    pub(crate) lengths: Lengths,
    pub(crate) seed: u8,
}

pub(crate) const WIDTHS: [DataType; 5] = [
    DataType::Uint8,
    DataType::Float16,
    DataType::Float32,
    DataType::Complex64,
    DataType::Complex128,
];
const LENGTHS: [DataType; 4] = [
    DataType::Int32,
    DataType::Int64,
    DataType::Uint32,
    DataType::Uint64,
];

prop_compose! {
    pub(crate) fn case()(
        sizes in prop_oneof![
            prop::collection::vec(0_u64..6, 1..6),
            prop::collection::vec(1_u64..40, 1..4),
            // Ranks beyond DirectML's.
            prop::collection::vec(1_u64..3, 9..RANKS),
        ],
        axis in any::<prop::sample::Index>(),
        data_type in prop::sample::select(&WIDTHS[..]),
        lengths_type in prop::sample::select(&LENGTHS[..]),
        input in layout(),
        lengths in layout(),
        output in layout(),
        in_place in any::<bool>(),
        kind in 0_u8..6,
        random in any::<u64>(),
    ) -> Case {
        let axis = axis.index(sizes.len());
        let mut lengths_sizes = sizes.clone();
        lengths_sizes[axis] = 1;
        let output_strides = output.strides(&sizes);
        let input_strides = if in_place {
            output_strides.clone()
        } else {
            input.broadcast_strides(&sizes)
        };
        let lengths_strides = lengths.broadcast_strides(&lengths_sizes);
        let desc = ReverseSubsequencesDesc {
            input: TensorDesc::strided(data_type, sizes.clone(), input_strides),
            sequence_lengths: TensorDesc::strided(lengths_type, lengths_sizes, lengths_strides),
            output: TensorDesc::strided(data_type, sizes.clone(), output_strides),
            axis: axis as u32,
        };
        let count = desc.sequence_lengths.extent().unwrap() as usize;
        let lengths = Lengths::new(lengths_type, count, sizes[axis], kind, random);
        Case { desc, lengths, seed: random as u8 }
    }
}

pub(crate) fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count)
        .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}
