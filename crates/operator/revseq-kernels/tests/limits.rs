//! No descriptor takes more time or stack than its dimensions and lengths are worth.
#![cfg(target_pointer_width = "64")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use revseq_kernels::{
    DataType, Error, FeatureLevel, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths,
    TensorDesc,
};

/// Number of dimensions with which a quadratic algorithm takes minutes.
const MANY: usize = 1 << 18;

/// Runs work of less than a second on a thread with a small stack.
fn promptly<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || done.send(work()))
        .unwrap();
    // More than it takes, for a machine that does much else.
    wait.recv_timeout(Duration::from_secs(60))
        .expect("no answer in time")
}

/// Bytes with these strides in the output, and one length for all.
fn of_output(sizes: Vec<u64>, strides: Vec<u64>) -> ReverseSubsequencesDesc {
    let mut desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &sizes, DataType::Int64, 0);
    desc.input.strides = Some(sizes.iter().map(|_| 0).collect());
    desc.sequence_lengths.strides = desc.input.strides.clone();
    desc.output.strides = Some(strides.into());
    desc
}

/// Packed bytes with these strides of the lengths.
fn of_lengths(sizes: Vec<u64>, strides: Vec<u64>) -> ReverseSubsequencesDesc {
    let mut desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &sizes, DataType::Int64, 0);
    desc.input.strides = Some(sizes.iter().map(|_| 0).collect());
    desc.output.strides = None;
    desc.sequence_lengths.strides = Some(strides.into());
    if desc.input.sizes.contains(&0) {
        // Packed strides of this many dimensions do not fit 64 bits.
        desc.output.strides = desc.input.strides.clone();
    }
    desc
}

#[test]
fn an_output_of_many_dimensions_is_checked() {
    let plan = |sizes: Vec<u64>, stride: fn(u64) -> u64| {
        let strides = (0..sizes.len() as u64).map(stride).collect();
        let desc = of_output(sizes, strides);
        promptly(move || {
            assert!(matches!(
                desc.lowest_feature_level(),
                Err(Error::UnsupportedDimensionCount { .. })
            ));
            Plan::new(&desc)
        })
    };
    let overlapping = |dimension, size, stride| {
        Err(Error::OverlappingOutput {
            dimension,
            size,
            stride,
        })
    };
    assert_eq!(plan(vec![2; MANY], |_| 1), overlapping(1, 2, 1));
    assert_eq!(plan(vec![2; MANY], |_| 0), overlapping(0, 2, 0));
    let stride = |index| (1 << 40) + index;
    assert_eq!(plan(vec![2; MANY], stride), overlapping(2, 2, stride(2)));
    let stride = |index| 1 + index * index;
    assert_eq!(plan(vec![2; MANY], stride), overlapping(4, 2, stride(4)));
    assert_eq!(
        plan(vec![1; MANY], |index| index).unwrap().output_bytes(),
        1
    );
    let mut sizes = vec![1; MANY];
    sizes[7..67].fill(2);
    let nests = |index: u64| 1 << index.saturating_sub(7).min(60);
    assert_eq!(plan(sizes, nests).unwrap().output_bytes(), 1 << 60);
}

/// The search for two coordinates that share an element gives up.
#[test]
fn outputs_that_are_hard_to_check_are_refused() {
    let stride = |index: u64| (1 << 45) + ((index * index) << 22) + 7 * index;
    for dimensions in [8, 20, 30] {
        let strides = (0..dimensions).map(stride).collect();
        let desc = of_output(vec![3; dimensions as usize], strides);
        promptly(move || {
            for level in FeatureLevel::ALL {
                // An answer, whatever it is.
                let _ = desc.validate(level);
            }
            let _ = desc.lowest_feature_level();
            let _ = Plan::new(&desc);
        });
    }
}

/// Lengths that are all out of range but for those at multiples of `step`.
fn lengths_between(desc: &ReverseSubsequencesDesc, step: usize) -> Vec<i64> {
    let count = desc.sequence_lengths.extent().unwrap() as usize;
    (0..count)
        .map(|index| if index.is_multiple_of(step) { 0 } else { -1 })
        .collect()
}

#[test]
fn lengths_of_any_number_of_subsequences_are_checked() {
    let empty = |dimensions: usize| {
        let mut sizes = vec![2; dimensions];
        sizes[0] = 0;
        sizes
    };
    for (sizes, stride) in [
        (empty(63), (|_| 2) as fn(u64) -> u64),
        (empty(MANY), |_| 2),
        (empty(MANY), |index| 2 * (index % 2)),
        // No two of them reach the same element.
        (empty(1000), |index| 2000 + 2 * index),
        // Elements that no memory holds, but that can be addressed.
        (vec![2; 62], |_| 2),
        (vec![2; 62], |index| 2000 + 2 * index),
    ] {
        let strides = (0..sizes.len() as u64).map(stride).collect();
        let desc = of_lengths(sizes, strides);
        promptly(move || {
            let plan = Plan::new(&desc).unwrap();
            let mut lengths = lengths_between(&desc, 2);
            let reject =
                |lengths: &[i64]| SequenceLengths::new(&plan, lengths, LengthsPolicy::Reject).err();
            assert_eq!(
                reject(&lengths),
                None,
                "only those between are out of range"
            );
            let last = lengths.len() - 1;
            lengths[last] = 3;
            let expected = Error::LengthOutOfRange {
                index: last,
                value: 3,
                maximum: plan.axis_size() as u64,
            };
            assert_eq!(reject(&lengths), Some(expected));
            assert!(SequenceLengths::new(&plan, &lengths, LengthsPolicy::Clamp).is_ok());
        });
    }
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        100 => 1_u64..4,
        1 => prop::sample::select(&[0, 100, 1 << 20, 1 << 32, 1 << 62, u64::MAX][..]),
    ]
}

fn stride() -> impl Strategy<Value = u64> {
    prop_oneof![
        100 => 0_u64..40,
        100 => 0_u64..1 << 14,
        1 => prop::sample::select(&[1 << 32, 1 << 40, 1 << 62, u64::MAX][..]),
    ]
}

prop_compose! {
    /// A descriptor of sizes that fit each other, and of any strides.
    fn any_descriptor()(
        few in any::<bool>(),
        sizes in prop::collection::vec(size(), 1..100),
        strides in prop::collection::vec((stride(), stride(), stride()), 100),
        packed in any::<[bool; 3]>(),
        axis in any::<prop::sample::Index>(),
        empty in any::<bool>(),
    ) -> ReverseSubsequencesDesc {
        let mut sizes = sizes;
        sizes.truncate(if few { 8 } else { sizes.len() });
        let rank = sizes.len();
        let axis = axis.index(rank);
        if empty {
            sizes[axis] = 0;
        }
        let mut desc = ReverseSubsequencesDesc::packed(
            DataType::Float16,
            &sizes,
            DataType::Uint32,
            axis as u32,
        );
        let set = |tensor: &mut TensorDesc, packed: bool, field: fn(&(u64, u64, u64)) -> u64| {
            tensor.strides = (!packed).then(|| strides[..rank].iter().map(field).collect());
        };
        set(&mut desc.input, packed[0], |strides| strides.0);
        set(&mut desc.sequence_lengths, packed[1], |strides| strides.1);
        set(&mut desc.output, packed[2], |strides| strides.2);
        desc
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_descriptor_has_an_answer(desc in any_descriptor()) {
        promptly(move || {
            let _ = desc.lowest_feature_level();
            let Ok(plan) = Plan::new(&desc) else {
                return;
            };
            if plan.lengths_count() < 1 << 22 {
                let mut lengths = vec![u32::MAX; plan.lengths_count()];
                if let Some(first) = lengths.first_mut() {
                    *first = 0;
                }
                let _ = SequenceLengths::new(&plan, &lengths, LengthsPolicy::Reject);
            }
        });
    }
}
