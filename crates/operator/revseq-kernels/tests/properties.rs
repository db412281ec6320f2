//! Every way to run a plan, on random descriptors, against the reference.

use std::collections::HashSet;

use proptest::prelude::*;
use revseq_kernels::cpu::{self, KernelChoice, Options, SimdLevel, Threads};
use revseq_kernels::{
    DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, reference,
};

mod common;
#[cfg(unix)]
mod guarded;
use common::{Case, Lengths, WIDTHS, bytes, case};
#[cfg(unix)]
use guarded::Guarded;

#[test]
fn levels_of_other_processors_are_skipped_by_name() {
    let compiled = match std::env::consts::ARCH {
        "x86_64" => &[SimdLevel::Avx2, SimdLevel::Avx512][..],
        _ => &[],
    };
    for level in compiled.iter().filter(|level| !level.is_supported()) {
        let test = format!("every test of the kernels with {level}");
        revseq_skips::skip(&test, &format!("the processor has no {level}"));
    }
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

/// A case's input, and its expected output.
struct Checked<'a> {
    case: &'a Case,
    plan: Plan,
    input: Vec<u8>,
    before: Vec<u8>,
    expected: Vec<u8>,
    /// The same in place, if the strides allow it: bytes between them keep the
    /// values they have there.
    expected_in_place: Option<Vec<u8>>,
}

impl<'a> Checked<'a> {
    fn new(case: &'a Case) -> Self {
        let desc = &case.desc;
        let plan = Plan::new(desc).unwrap();
        let input = bytes(plan.input_bytes(), case.seed);
        let before = bytes(plan.output_bytes(), !case.seed);
        let reversed = |mut output: Vec<u8>| {
            reference::reverse_subsequences(desc, &input, case.lengths.data(), &mut output);
            output
        };
        let in_place = desc.input.strides == desc.output.strides;
        Self {
            expected: reversed(before.clone()),
            expected_in_place: in_place.then(|| reversed(input.clone())),
            case,
            plan,
            input,
            before,
        }
    }

    fn lengths(&self) -> SequenceLengths<'_> {
        let data = self.case.lengths.data();
        SequenceLengths::new(&self.plan, data, LengthsPolicy::Clamp).unwrap()
    }
}

fn check(case: &Case) {
    check_all(&Checked::new(case));
}

/// Every set of instructions that a run could use, the one it would use last.
fn all_levels() -> impl Iterator<Item = SimdLevel> {
    let current = SimdLevel::current();
    current.lower().chain([current])
}

/// A run on some threads, by the instructions of a level.
fn options(threads: Threads<'_>, level: SimdLevel) -> Options<'_> {
    Options::from(threads).with_simd_level(level)
}

fn check_all(checked: &Checked<'_>) {
    let Checked {
        case,
        plan,
        input,
        before,
        expected,
        expected_in_place,
    } = checked;
    let lengths = checked.lengths();
    for level in all_levels() {
        // How work is shared among threads does not depend on the instructions.
        let all_threads = match level == SimdLevel::current() {
            true => &all_threads(pool())[..],
            false => &[Threads::Serial],
        };
        for &threads in all_threads {
            let mut output = before.clone();
            let options = options(threads, level);
            cpu::run(plan, &lengths, input, &mut output, options).unwrap();
            assert!(output == *expected, "{options:?}, {plan:?}");
            if let Some(expected) = expected_in_place {
                let mut data = input.clone();
                cpu::run_in_place(plan, &lengths, &mut data, options).unwrap();
                assert!(data == *expected, "in place, {options:?}, {plan:?}");
            }
        }
    }
    // A million strings show no more than a thousand.
    if expected_in_place.is_some() && input.len() < 1 << 20 {
        check_typed(case, plan, &lengths);
    }
    check_reject(case, plan);
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

/// Packed data with a length for every entry of a batch axis; every stride is
/// `spread` times its packed value.
fn check_large(
    data_type: DataType,
    sizes: &[u64],
    axis: usize,
    batch: usize,
    spread: u64,
) -> &'static str {
    let mut desc = ReverseSubsequencesDesc::reverse_sequence(
        data_type,
        sizes,
        batch as u32,
        axis as u32,
        DataType::Int64,
    )
    .unwrap();
    for tensor in [&mut desc.input, &mut desc.output] {
        let strides = tensor.effective_strides().unwrap();
        tensor.strides = Some(strides.iter().map(|stride| stride * spread).collect());
    }
    let longest = sizes[axis];
    let lengths = (0..sizes[batch])
        .map(|index| (index * 7919 % (longest + 1)) as i64)
        .collect();
    let plan = Plan::new(&desc).unwrap();
    let kernel = KernelChoice::of_plan(&plan).kernel();
    let case = Case {
        desc,
        lengths: Lengths::I64(lengths),
        seed: 3,
    };
    let checked = Checked::new(&case);
    check_all(&checked);
    check_places(&checked);
    kernel
}

/// Runs a case where its buffers start at a cache line, at a vector and at any byte.
fn check_places(checked: &Checked<'_>) {
    const LINE: usize = 64;
    /// Returns the start of the data in a buffer that has room for it after the wanted byte of a
    /// line.
    fn start(buffer: &[u8], byte: usize) -> usize {
        (byte + LINE - buffer.as_ptr().addr() % LINE) % LINE
    }
    let Checked {
        plan,
        input: content,
        before,
        expected,
        expected_in_place,
        ..
    } = checked;
    let lengths = checked.lengths();
    let places = [(0, 0), (0, 48), (21, 16), (16, 5)];
    for (level, (from, to)) in all_levels().flat_map(|level| places.map(|place| (level, place))) {
        let options = options(Threads::Serial, level);
        let mut input = vec![0; content.len() + LINE];
        let from = start(&input, from);
        let input = &mut input[from..from + content.len()];
        input.copy_from_slice(content);
        let mut output = vec![0xee; before.len() + LINE];
        let to = start(&output, to);
        let place = to..to + before.len();
        let mut check = |start: &[u8], expected: &[u8], run: &dyn Fn(&mut [u8])| {
            output[place.clone()].copy_from_slice(start);
            run(&mut output[place.clone()]);
            assert!(
                output[place.clone()] == *expected,
                "{from}, {to}, {level}, {plan:?}"
            );
            let mut outside = output[..to].iter().chain(&output[place.end..]);
            assert!(
                outside.all(|&byte| byte == 0xee),
                "{from}, {to}, {level}, {plan:?}"
            );
        };
        check(before, expected, &|output| {
            cpu::run(plan, &lengths, input, output, options).unwrap();
        });
        if let Some(expected) = expected_in_place {
            check(content, expected, &|data| {
                cpu::run_in_place(plan, &lengths, data, options).unwrap();
            });
        }
    }
}

/// Sizes of many pieces, lines and tiles, in every kernel and width.
#[test]
fn large_tensors_agree_with_the_reference() {
    let mut kernels = HashSet::new();
    for data_type in WIDTHS {
        let elements = |bytes: u64| bytes / data_type.size() as u64;
        for (sizes, axis, batch, spread) in [
            (vec![33, elements(1 << 14)], 1, 0, 1),
            (vec![elements(1 << 14), 33], 0, 1, 1),
            (vec![1, elements(600_000)], 1, 0, 1),
            (vec![elements(600_000), 1], 0, 1, 1),
            (vec![64, 50, elements(256)], 0, 1, 1),
            (vec![50, 64, elements(256)], 1, 0, 1),
            (vec![7, elements(1 << 13), 5, 3], 1, 3, 1),
            // Columns: whole tiles, the end of one, a length for several elements.
            (vec![elements(1 << 12), 700], 0, 1, 1),
            (vec![100, elements(1 << 13)], 0, 1, 1),
            (vec![elements(1 << 13), 67, 3], 0, 1, 1),
            (vec![5, elements(1 << 10), 67, 3], 1, 2, 1),
            // So few time steps that a column is a vector or two.
            (vec![20, 700], 0, 1, 1),
            (vec![elements(300).max(2), 90], 0, 1, 1),
            (vec![37, 500, 3], 0, 1, 1),
            // As many as the scratch memory holds for one lane of columns, for two, and for no
            // column.
            (vec![elements(30_000), 60], 0, 1, 1),
            (vec![70_000, 7], 0, 1, 1),
            // Lines shorter than a lane.
            (vec![5000, elements(15).max(2)], 1, 0, 1),
            (vec![5000, 3], 1, 0, 1),
            // Rows of few cache lines, on lines across time and along it.
            (vec![60, 200, elements(64)], 0, 1, 1),
            (vec![60, 7, 9, elements(64)], 0, 2, 1),
            (vec![9, 60, 7, elements(64)], 1, 2, 1),
            (vec![70, 9, elements(128)], 0, 1, 1),
            (vec![100, 60, elements(256)], 1, 0, 1),
            (vec![30, 80, elements(400)], 0, 1, 1),
            // Lines shorter than a vector, about as long, and longer than a block.
            (vec![5000, elements(32)], 1, 0, 1),
            (vec![5000, elements(48)], 1, 0, 1),
            (vec![5000, elements(80)], 1, 0, 1),
            (vec![1500, elements(180)], 1, 0, 1),
            (vec![1500, elements(250)], 1, 0, 1),
            (vec![1500, elements(384)], 1, 0, 1),
            (vec![9, elements(40_000)], 1, 0, 1),
            // Rows of some pages.
            (vec![5, 9, elements(9 << 10)], 1, 0, 1),
            // Rows too short for a cache line, packed along time.
            (vec![40, elements(1 << 13), 3], 1, 0, 1),
            (vec![33, elements(1 << 14)], 1, 0, 2),
        ] {
            kernels.insert(check_large(data_type, &sizes, axis, batch, spread));
        }
    }
    let all = ["small", "rows", "lines", "columns"];
    assert_eq!(kernels, HashSet::from(all));
}

// Sizes past those from which threads share a run, and the output is written past the caches:
// two tests, for two cores.

#[test]
fn streamed_rows_agree_with_the_reference() {
    check_large(DataType::Float32, &[1000, 13, 1 << 8], 0, 1, 1);
    check_large(DataType::Float32, &[3000, 70, 16], 0, 1, 1);
    check_large(DataType::Float32, &[70, 3000, 20], 1, 0, 1);
    check_large(DataType::Float32, &[400, 70, 128], 0, 1, 1);
    // Rows that are lanes but no lines, or neither; and of pages, with neighbours.
    check_large(DataType::Float32, &[300, 170, 52], 0, 1, 1);
    check_large(DataType::Float32, &[170, 300, 77], 1, 0, 1);
    check_large(DataType::Float32, &[120, 300, 77], 0, 1, 1);
    check_large(DataType::Float32, &[230, 9, 1300], 0, 1, 1);
    check_large(DataType::Uint8, &[100, 1300, 101], 0, 1, 1);
}

#[test]
fn streamed_lines_and_columns_agree_with_the_reference() {
    check_large(DataType::Complex64, &[200, 9000], 1, 0, 1);
    check_large(DataType::Complex128, &[9000, 100], 1, 0, 1);
    check_large(DataType::Float32, &[1000, 13 << 8], 1, 0, 1);
    check_large(DataType::Float32, &[9000, 257], 1, 0, 1);
    check_large(DataType::Float16, &[20_000, 256], 1, 0, 1);
    check_large(DataType::Float16, &[100, 65_000], 1, 0, 1);
    check_large(DataType::Uint8, &[13_000, 1001], 1, 0, 1);
    check_large(DataType::Uint8, &[40_000, 100], 1, 0, 1);
    check_large(DataType::Uint8, &[10, 1_000_001], 1, 0, 1);
    check_large(DataType::Float32, &[5, 500_000], 1, 0, 1);
    check_large(DataType::Uint8, &[1_900_000, 7], 1, 0, 1);
    check_large(DataType::Uint8, &[1001, 13_000], 0, 1, 1);
    check_large(DataType::Int64, &[250, 6400], 0, 1, 1);
}

/// ONNX's `[3]` lengths for data `[3, 4, 0]`: there, though no element is.
#[test]
fn lengths_of_data_without_elements_are_still_checked() {
    let desc = ReverseSubsequencesDesc::reverse_sequence(
        DataType::Uint8,
        &[1, 3, 4, 0],
        1,
        2,
        DataType::Int64,
    )
    .unwrap();
    let plan = Plan::new(&desc).unwrap();
    let lengths = SequenceLengths::new(&plan, &[4_i64, 0, 2], LengthsPolicy::Reject).unwrap();
    cpu::run(&plan, &lengths, &[], &mut [], Threads::Serial).unwrap();
    cpu::run_in_place(&plan, &lengths, &mut [], Threads::Serial).unwrap();
    assert_eq!(
        SequenceLengths::new(&plan, &[4_i64, 5, 2], LengthsPolicy::Reject).unwrap_err(),
        revseq_kernels::Error::LengthOutOfRange {
            index: 1,
            value: 5,
            maximum: 4
        }
    );
}

/// Neighbours with equal lengths move together, wherever the groups begin.
#[test]
fn lengths_that_are_equal_in_groups_agree_with_the_reference() {
    for data_type in WIDTHS {
        for (group, columns, lengths_stride) in
            [(64, 256, 1), (3, 300, 1), (128, 192, 1), (32, 96, 2)]
        {
            for time_axis in [1, 2] {
                let mut sizes = [3, columns, columns];
                sizes[time_axis] = 37;
                let mut desc = ReverseSubsequencesDesc::packed(
                    data_type,
                    &sizes,
                    DataType::Int64,
                    time_axis as u32,
                );
                let mut strides = [columns * lengths_stride, lengths_stride, lengths_stride];
                strides[time_axis] = 0;
                desc.sequence_lengths.strides = Some(strides.into_iter().collect());
                let lengths = (0..3 * columns * lengths_stride)
                    .map(|index| (index / lengths_stride / group * 7919 % 38) as i64)
                    .take(desc.sequence_lengths.extent().unwrap() as usize)
                    .collect();
                check(&Case {
                    desc,
                    lengths: Lengths::I64(lengths),
                    seed: 5,
                });
            }
        }
    }
}

/// Runs a plan of packed data between pages that cannot be touched, at the start of
/// its pages and at their end.
#[cfg(unix)]
fn check_guarded(data_type: DataType, sizes: [u64; 3], axis: usize, lengths: &[i64]) {
    let batch = 1 - axis;
    let desc = ReverseSubsequencesDesc::reverse_sequence(
        data_type,
        &sizes,
        batch as u32,
        axis as u32,
        DataType::Int64,
    )
    .unwrap();
    let plan = Plan::new(&desc).unwrap();
    let content = bytes(plan.input_bytes(), 7);
    let mut expected = content.clone();
    let data = revseq_kernels::LengthsData::from(lengths);
    reference::reverse_subsequences(&desc, &content, data, &mut expected);
    let lengths = SequenceLengths::new(&plan, data, LengthsPolicy::Reject).unwrap();
    for (level, last) in all_levels().flat_map(|level| [(level, false), (level, true)]) {
        let options = options(Threads::Serial, level);
        let mut input = Guarded::new(&content, last, 0);
        let mut output = Guarded::new(&vec![0; content.len()], !last, 0);
        let (from, to) = (input.slice(), output.slice());
        cpu::run(&plan, &lengths, from, to, options).unwrap();
        assert!(to == expected, "{level}, {plan:?}");
        cpu::run_in_place(&plan, &lengths, from, options).unwrap();
        assert!(from == expected, "{level}, {plan:?}");
    }
}

/// Lengths of 0 to `steps`, in no order.
#[cfg(unix)]
fn mixed(steps: u64, count: u64) -> Vec<i64> {
    let length = |index| index * 7919 % (steps + 1);
    (0..count).map(|index| length(index) as i64).collect()
}

/// No kernel reads or writes outside a buffer: sizes around every vector.
#[cfg(unix)]
#[test]
fn nothing_outside_a_buffer_is_touched() {
    for data_type in WIDTHS {
        let width = data_type.size() as u64;
        for (steps, columns, inner) in (1..=40)
            .map(|odd| (40, odd * 16 / width + odd % 3, 1))
            .chain((1..=40).map(|odd| (odd * 8 / width + odd % 5, 40, 1)))
            .chain((1..=40).map(|odd| (9, 7, odd)))
        {
            let (steps, columns) = (steps.max(1), columns.max(1));
            for (sizes, axis) in [([steps, columns, inner], 0), ([columns, steps, inner], 1)] {
                for lengths in [
                    vec![steps as i64; columns as usize],
                    (0..columns as i64).map(|index| index % 2).collect(),
                    mixed(steps, columns),
                ] {
                    check_guarded(data_type, sizes, axis, &lengths);
                }
            }
        }
    }
}

/// The same past the caches.
#[cfg(unix)]
#[test]
fn nothing_outside_a_large_buffer_is_touched() {
    for (data_type, sizes, axis) in [
        (DataType::Float32, [70, 850, 39], 0),
        (DataType::Float32, [850, 70, 39], 1),
        (DataType::Float32, [9, 1000, 257], 0),
        (DataType::Float32, [1000, 9, 257], 1),
        (DataType::Float32, [1700, 100, 13], 1),
        (DataType::Float32, [140_000, 16, 1], 1),
        (DataType::Float16, [40_000, 101, 1], 1),
        (DataType::Uint8, [140_000, 64, 1], 1),
        (DataType::Uint8, [6000, 1501, 1], 1),
        (DataType::Uint8, [1501, 6000, 1], 0),
        (DataType::Uint8, [300, 10_000, 3], 1),
    ] {
        let (steps, count) = (sizes[axis], sizes[1 - axis]);
        check_guarded(data_type, sizes, axis, &mixed(steps, count));
    }
}
