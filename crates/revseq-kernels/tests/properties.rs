//! Every way to run a plan, on random descriptors, against the reference.

use std::collections::HashSet;

use proptest::prelude::*;
use revseq_kernels::cpu::{self, Threads};
use revseq_kernels::{
    DataType, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, Strategy,
    TensorDesc, reference,
};

/// Strides for sizes: any order of the dimensions, with padding after each.
#[derive(Clone, Debug)]
struct Layout {
    /// The dimension with the smallest key is innermost; none: packed.
    keys: Option<Vec<u8>>,
    padding: Vec<u64>,
    repeated: Vec<bool>,
}

/// As many dimensions as any case has.
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
enum Lengths {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Lengths {
    fn data(&self) -> LengthsData<'_> {
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
struct Case {
    desc: ReverseSubsequencesDesc,
    lengths: Lengths,
    seed: u8,
}

const WIDTHS: [DataType; 5] = [
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
    fn case()(
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

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count)
        .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}

/// A host's pool: each piece on a thread of its own, last first.
fn host(count: usize, work: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for index in (0..count).rev() {
            scope.spawn(move || work(index));
        }
    });
}

fn all_threads(pool: &rayon::ThreadPool) -> [Threads<'_>; 3] {
    [
        Threads::Serial,
        Threads::RayonPool(pool),
        Threads::Host {
            threads: 3,
            parallel_for: &host,
        },
    ]
}

fn pool() -> &'static rayon::ThreadPool {
    static POOL: std::sync::OnceLock<rayon::ThreadPool> = std::sync::OnceLock::new();
    POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap()
    })
}

fn check(case: &Case) {
    let Case {
        desc,
        lengths,
        seed,
    } = case;
    let plan = Plan::new(desc).unwrap();
    let clamped = SequenceLengths::new(&plan, lengths.data(), LengthsPolicy::Clamp).unwrap();
    let input = bytes(plan.input_bytes(), *seed);
    let before = bytes(plan.output_bytes(), !*seed);
    let mut expected = before.clone();
    reference::reverse_subsequences(desc, &input, lengths.data(), &mut expected);

    for threads in all_threads(pool()) {
        let mut output = before.clone();
        cpu::run(&plan, &clamped, &input, &mut output, threads).unwrap();
        assert!(output == expected, "out of place, {threads:?}, {plan:?}");
        if desc.input.strides == desc.output.strides {
            // Bytes between the strides keep the values they have in place.
            let mut expected = input.clone();
            reference::reverse_subsequences(desc, &input, lengths.data(), &mut expected);
            let mut data = input.clone();
            cpu::run_in_place(&plan, &clamped, &mut data, threads).unwrap();
            assert!(data == expected, "in place, {threads:?}, {plan:?}");
        }
    }
    if desc.input.strides == desc.output.strides {
        check_typed(case, &plan, &clamped);
    }
    check_reject(case, &plan);
}

/// The typed entry, against the reference on the elements' indices.
fn check_typed(case: &Case, plan: &Plan, lengths: &SequenceLengths<'_>) {
    let mut desc = case.desc.clone();
    desc.input.data_type = DataType::Uint32;
    desc.output.data_type = DataType::Uint32;
    let count = desc.input.extent().unwrap() as u32;
    let input: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
    let mut expected = input.clone();
    reference::reverse_subsequences(&desc, &input, case.lengths.data(), &mut expected);
    let expected: Vec<String> = expected
        .chunks_exact(4)
        .map(|index| u32::from_ne_bytes(index.try_into().unwrap()).to_string())
        .collect();
    let mut data: Vec<String> = (0..count).map(|index| index.to_string()).collect();
    cpu::reverse_in_place(plan, lengths, &mut data).unwrap();
    assert_eq!(data, expected);
}

/// `Reject` names the first length that a subsequence reads and that is out of range.
fn check_reject(case: &Case, plan: &Plan) {
    let lengths = &case.desc.sequence_lengths;
    let strides = lengths.effective_strides().unwrap();
    let mut read = vec![0_usize];
    for (&size, &stride) in lengths.sizes.iter().zip(&strides) {
        read = read
            .iter()
            .flat_map(|&index| (0..size).map(move |round| index + (round * stride) as usize))
            .collect();
    }
    let range = 0..=plan.axis_size() as i128;
    let first = read
        .into_iter()
        .filter(|&index| !range.contains(&case.lengths.data().value(index)))
        .min();
    let rejected = SequenceLengths::new(plan, case.lengths.data(), LengthsPolicy::Reject);
    match (first, rejected) {
        (None, Ok(_)) => {}
        (Some(first), Err(revseq_kernels::Error::LengthOutOfRange { index, .. })) => {
            assert_eq!(index, first);
        }
        (first, rejected) => panic!("expected {first:?}, got {rejected:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_way_to_run_agrees_with_the_reference(case in case()) {
        check(&case);
    }
}

/// Sizes past the threshold for threads, in every strategy and width.
#[test]
fn large_tensors_are_split_and_agree_with_the_reference() {
    let mut strategies = HashSet::new();
    for data_type in WIDTHS {
        let elements = |bytes: u64| bytes / data_type.size() as u64;
        for (sizes, axis, batch, padding) in [
            (vec![33, elements(1 << 14)], 1, 0, 0),
            (vec![elements(1 << 14), 33], 0, 1, 0),
            (vec![1, elements(600_000)], 1, 0, 0),
            (vec![elements(600_000), 1], 0, 1, 0),
            (vec![64, 50, elements(256)], 0, 1, 0),
            (vec![50, 64, elements(256)], 1, 0, 0),
            (vec![7, elements(1 << 13), 5, 3], 1, 3, 0),
            (vec![33, elements(1 << 14)], 1, 0, 1),
            // Past the size from which the output is streamed.
            (vec![1000, elements(13 << 10)], 1, 0, 0),
            (vec![1000, 13, elements(1 << 10)], 0, 1, 0),
        ] {
            let mut desc =
                ReverseSubsequencesDesc::packed(data_type, &sizes, DataType::Int64, axis as u32);
            let only_batch = (0..sizes.len()).map(|d| u64::from(d == batch)).collect();
            desc.sequence_lengths.strides = Some(only_batch);
            for tensor in [&mut desc.input, &mut desc.output] {
                let strides = tensor.effective_strides().unwrap();
                tensor.strides = Some(strides.iter().map(|s| s * (1 + padding)).collect());
            }
            let longest = sizes[axis];
            let lengths = (0..sizes[batch])
                .map(|index| (index * 7919 % (longest + 1)) as i64)
                .collect();
            strategies.insert(Plan::new(&desc).unwrap().strategy());
            check(&Case {
                desc,
                lengths: Lengths::I64(lengths),
                seed: 3,
            });
        }
    }
    let all = [
        Strategy::Rows,
        Strategy::Elements,
        Strategy::Columns,
        Strategy::Strided,
    ];
    assert_eq!(strategies, HashSet::from(all));
}
