//! Every way to run the kernels on every software adapter, bit for bit against the reference.

use proptest::prelude::*;
use revseq_kernels::gpu::{self, Context, LengthsSlice, ReverseSubsequencesPass};
use revseq_kernels::{
    DataType, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, reference,
};

use crate::common::{Case, Lengths, bytes, case};

use crate::adapters::{Arena, contexts, contexts_with};

/// The reference's outputs for a case, out of place and, if possible, in place.
struct Expected {
    input: Vec<u8>,
    before: Vec<u8>,
    output: Vec<u8>,
    in_place: Option<Vec<u8>>,
}

impl Expected {
    fn new(case: &Case, plan: &Plan) -> Self {
        let input = bytes(plan.input_bytes(), case.seed);
        let before = bytes(plan.output_bytes(), !case.seed);
        let run = |before: &[u8]| {
            let mut output = before.to_vec();
            reference::reverse_subsequences(&case.desc, &input, case.lengths.data(), &mut output);
            output
        };
        let same_layout = case.desc.input.strides == case.desc.output.strides;
        Self {
            output: run(&before),
            in_place: same_layout.then(|| run(&input)),
            input,
            before,
        }
    }
}

/// Checks a run on the host's slices.
fn check_host(context: &Context, case: &Case) {
    let plan = Plan::new(&case.desc).unwrap();
    let expected = Expected::new(case, &plan);
    let lengths = SequenceLengths::new(&plan, case.lengths.data(), LengthsPolicy::Clamp).unwrap();
    let pass = ReverseSubsequencesPass::new(context, &plan).unwrap();
    let mut output = expected.before;
    gpu::run(&pass, &lengths, &expected.input, &mut output).unwrap();
    assert!(
        output == expected.output,
        "out of place, {context:?}, {plan:?}"
    );
    if let Some(expected_data) = expected.in_place {
        let mut data = expected.input;
        gpu::run_in_place(&pass, &lengths, &mut data).unwrap();
        assert!(data == expected_data, "in place, {context:?}, {plan:?}");
    }
}

/// Checks a run through an encoder, with tensors anywhere in one buffer or in several.
fn check_encoded(context: &Context, case: &Case, offsets: [u64; 3], one_buffer: bool) {
    let plan = Plan::new(&case.desc).unwrap();
    let expected = Expected::new(case, &plan);
    let lengths = bytes_of(case.lengths.data());
    let data_type = case.desc.sequence_lengths.data_type;
    let pass = ReverseSubsequencesPass::new(context, &plan).unwrap();

    // Out of place, twice in one encoder: the second run starts from the state that the first one
    // left.
    let tensors = [&expected.input[..], &lengths, &expected.before];
    let mut arena = Arena::new(context, &tensors, offsets, one_buffer);
    let ranges = arena.ranges.clone();
    let mut encoder = arena.encoder();
    for _ in 0..2 {
        let lengths = LengthsSlice {
            slice: arena.slice(1),
            data_type,
        };
        pass.encode(&mut encoder, arena.slice(0), lengths, arena.slice(2))
            .unwrap();
    }
    let found = arena.submit(encoder);
    // Nothing around the tensors has changed either.
    arena.place(2, &expected.output);
    assert!(
        found == arena.bytes,
        "encoded, {context:?}, {ranges:?}, {plan:?}"
    );

    let Some(expected_data) = expected.in_place else {
        return;
    };
    let tensors = [&expected.input[..], &lengths];
    let mut arena = Arena::new(context, &tensors, offsets, one_buffer);
    let mut encoder = arena.encoder();
    let lengths = LengthsSlice {
        slice: arena.slice(1),
        data_type,
    };
    pass.encode_in_place(&mut encoder, arena.slice(0), lengths)
        .unwrap();
    let found = arena.submit(encoder);
    arena.place(0, &expected_data);
    assert!(
        found == arena.bytes,
        "encoded in place, {context:?}, {ranges:?}, {plan:?}"
    );
}

/// Lengths as they lie in memory.
fn bytes_of(lengths: LengthsData<'_>) -> Vec<u8> {
    match lengths {
        LengthsData::I32(lengths) => bytemuck::cast_slice(lengths).to_vec(),
        LengthsData::I64(lengths) => bytemuck::cast_slice(lengths).to_vec(),
        LengthsData::U32(lengths) => bytemuck::cast_slice(lengths).to_vec(),
        LengthsData::U64(lengths) => bytemuck::cast_slice(lengths).to_vec(),
    }
}

/// Lengths on the device: the first one out of range, as the host finds it.
fn check_status(context: &Context, case: &Case) {
    let plan = Plan::new(&case.desc).unwrap();
    let pass = ReverseSubsequencesPass::new(context, &plan).unwrap();
    let lengths = bytes_of(case.lengths.data());
    let data_type = case.desc.sequence_lengths.data_type;
    let arena = Arena::new(context, &[&lengths], [4; 3], false);
    let status = pass.create_status_buffer().unwrap();
    let mut encoder = arena.encoder();
    let slice = LengthsSlice {
        slice: arena.slice(0),
        data_type,
    };
    pass.encode_check(&mut encoder, slice, status.slice(..))
        .unwrap();
    context.queue().submit([encoder.finish()]);
    let found = pass.read_status(status.slice(..), data_type);
    let rejected = SequenceLengths::new(&plan, case.lengths.data(), LengthsPolicy::Reject);
    let expected = rejected.map(|_| ()).map_err(gpu::Error::from);
    assert_eq!(found, expected, "{context:?}, {plan:?}");
}

prop_compose! {
    /// Cases of which a binding of 512 bytes holds a fair part.
    fn small_case()(
        case in case().prop_filter("at most 8 KiB", |case| {
            [&case.desc.input, &case.desc.output]
                .iter()
                .all(|tensor| tensor.minimum_total_size_in_bytes() <= Some(8 << 10))
        }),
    ) -> Case {
        case
    }
}

prop_compose! {
    /// Offsets of three tensors: aligned to vectors or only to words.
    fn offsets()(offsets in prop::array::uniform3(prop_oneof![Just(0_u64), 0_u64..80])) -> [u64; 3] {
        offsets.map(|words| 4 * words)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_host_entry_agrees_with_the_reference(case in case()) {
        for context in contexts() {
            check_host(&context, &case);
        }
    }

    #[test]
    fn an_encoded_pass_agrees_with_the_reference(
        case in case(),
        offsets in offsets(),
        one_buffer in any::<bool>(),
    ) {
        for context in contexts() {
            check_encoded(&context, &case, offsets, one_buffer);
        }
    }

    #[test]
    fn the_status_holds_the_first_length_out_of_range(case in case()) {
        for context in contexts() {
            check_status(&context, &case);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Bindings of 512 bytes: slabs and windows.
    #[test]
    fn small_bindings_agree_with_the_reference(
        case in small_case(),
        offsets in offsets(),
        one_buffer in any::<bool>(),
    ) {
        for context in contexts_with(|options| options.max_binding_bytes = Some(512)) {
            check_host(&context, &case);
            check_encoded(&context, &case, offsets, one_buffer);
            check_status(&context, &case);
        }
    }

    /// Dispatches of 2 × 2 workgroups: rows of workgroups, and slabs by items.
    #[test]
    fn small_dispatches_agree_with_the_reference(case in small_case(), offsets in offsets()) {
        for context in contexts_with(|options| options.max_workgroups = Some(2)) {
            check_encoded(&context, &case, offsets, true);
            check_status(&context, &case);
        }
    }
}

/// One length out of range, far from the first binding of lengths.
#[test]
fn a_late_length_out_of_range_is_found_in_small_bindings() {
    let desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &[1000, 3], DataType::Int64, 1);
    for value in [-5, 4, i64::MAX] {
        let mut lengths = vec![2; 1000];
        lengths[777] = value;
        let case = Case {
            desc: desc.clone(),
            lengths: Lengths::I64(lengths),
            seed: 1,
        };
        for context in contexts_with(|options| options.max_binding_bytes = Some(512)) {
            check_status(&context, &case);
        }
    }
}

/// Rows of two and three bytes with lengths of their own, whose time steps start at odd bytes.
#[test]
fn narrow_rows_at_odd_bytes_agree_with_the_reference() {
    for row in [2, 3] {
        let sizes = [7, 4, row];
        let data_type = DataType::Uint8;
        let mut desc =
            ReverseSubsequencesDesc::reverse_sequence(data_type, &sizes, 1, 0, DataType::Int64)
                .unwrap();
        let strides = [4 * row + 1, row, 1];
        desc.input.strides = Some(strides.into());
        desc.output.strides = Some(strides.into());
        let case = Case {
            desc,
            lengths: Lengths::I64(vec![7, 5, 2, 6]),
            seed: 3,
        };
        for context in contexts() {
            check_encoded(&context, &case, [0; 3], false);
        }
    }
}

/// Several time steps an invocation, along rows and along columns, of whole words and not.
#[test]
fn large_dispatches_agree_with_the_reference() {
    let types = [
        DataType::Uint8,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
    ];
    let shapes = [
        ([3, 600_000], 1),
        ([3, 600_003], 1),
        ([1200, 1000], 0),
        ([1200, 1001], 0),
    ];
    for (data_type, (sizes, axis)) in types
        .into_iter()
        .flat_map(|it| shapes.map(|shape| (it, shape)))
    {
        let desc = ReverseSubsequencesDesc::packed(data_type, &sizes, DataType::Int64, axis);
        // Neighbours of equal lengths, too.
        let (steps, count) = (sizes[axis as usize], sizes[1 - axis as usize]);
        let lengths = (0..count).map(|it| (steps - it / 8 * 37 % 1100) as i64);
        let case = Case {
            desc,
            lengths: Lengths::I64(lengths.collect()),
            seed: 7,
        };
        for context in contexts() {
            check_encoded(&context, &case, [0; 3], false);
        }
    }
}
