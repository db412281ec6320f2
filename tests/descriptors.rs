//! The descriptors that DirectML and a plan take, and the errors for others.

use std::fmt::Write as _;

use revseq_kernels::cpu::KernelChoice;
use revseq_kernels::{DataType, FeatureLevel, Plan, ReverseSubsequencesDesc, Tensor, TensorDesc};

/// The page's tables, word for word: level, dimension counts, data types of
/// input and output, data types of the lengths.
const PAGE: [(FeatureLevel, [usize; 2], &str, &str); 4] = [
    (
        FeatureLevel::V5_0,
        [1, 8],
        "FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8",
        "UINT64, UINT32",
    ),
    (
        FeatureLevel::V4_0,
        [1, 8],
        "FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16, UINT8",
        "UINT32",
    ),
    (
        FeatureLevel::V3_0,
        [4, 5],
        "FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16, UINT8",
        "UINT32",
    ),
    (
        FeatureLevel::V2_1,
        [4, 4],
        "FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16, UINT8",
        "UINT32",
    ),
];

#[test]
fn each_level_takes_exactly_the_types_that_the_page_lists() {
    for (level, [fewest, most], data_types, lengths_types) in PAGE {
        for rank in 1..=9 {
            for data_type in DataType::ALL {
                for lengths_type in DataType::ALL {
                    let sizes = vec![2; rank];
                    let desc = ReverseSubsequencesDesc::packed(data_type, &sizes, lengths_type, 0);
                    let listed = |types: &str, data_type: DataType| {
                        types.split(", ").any(|name| name == data_type.name())
                    };
                    let takes = (fewest..=most).contains(&rank)
                        && listed(data_types, data_type)
                        && listed(lengths_types, lengths_type);
                    let result = desc.validate(level);
                    assert_eq!(result.is_ok(), takes, "{level} {desc:?} {result:?}");
                }
            }
        }
    }
}

#[test]
fn the_tables_are_in_the_page_s_order() {
    for (level, [fewest, most], data_types, lengths_types) in PAGE {
        assert_eq!(level.dimension_counts(), (fewest, most));
        for (tensor, listed) in [
            (Tensor::Input, data_types),
            (Tensor::Output, data_types),
            (Tensor::SequenceLengths, lengths_types),
        ] {
            let names: Vec<_> = level.data_types(tensor).iter().map(|t| t.name()).collect();
            assert_eq!(names.join(", "), listed);
        }
    }
}

/// The first page example, changed in one way.
fn changed(change: impl FnOnce(&mut ReverseSubsequencesDesc)) -> ReverseSubsequencesDesc {
    let mut desc =
        ReverseSubsequencesDesc::packed(DataType::Float32, &[2, 1, 3, 4], DataType::Uint32, 3);
    change(&mut desc);
    desc
}

/// The results of every level and a plan for a descriptor.
fn describe(desc: &ReverseSubsequencesDesc) -> String {
    let mut text = String::new();
    for level in FeatureLevel::ALL {
        match desc.validate(level) {
            Ok(()) => writeln!(text, "{level}: yes").unwrap(),
            Err(error) => writeln!(text, "{level}: {error}").unwrap(),
        }
    }
    match Plan::new(desc) {
        Ok(plan) => writeln!(
            text,
            "plan: rows of {} bytes, axis {}; {} bytes in, {} out, {} lengths; {}",
            plan.row_bytes(),
            plan.axis_size(),
            plan.input_bytes(),
            plan.output_bytes(),
            plan.lengths_count(),
            KernelChoice::of_plan(&plan),
        )
        .unwrap(),
        Err(error) => writeln!(text, "plan: {error}").unwrap(),
    }
    text
}

fn strided(desc: &mut TensorDesc, strides: [u64; 4]) {
    desc.strides = Some(strides.into_iter().collect());
}

type Change = fn(&mut ReverseSubsequencesDesc);

#[test]
fn violations_name_the_tensor_the_dimension_and_the_values() {
    let changes: &[(&str, Change)] = &[
        ("nothing wrong", |_| {}),
        ("rank 3", |desc| {
            *desc =
                ReverseSubsequencesDesc::packed(DataType::Int8, &[3, 4, 5], DataType::Uint32, 1);
        }),
        ("rank 9", |desc| {
            *desc = ReverseSubsequencesDesc::packed(DataType::Int8, &[1; 9], DataType::Uint32, 1);
        }),
        ("rank 0", |desc| {
            *desc = ReverseSubsequencesDesc::packed(DataType::Int8, &[], DataType::Uint32, 0);
        }),
        ("64-bit data", |desc| {
            desc.input.data_type = DataType::Int64;
            desc.output.data_type = DataType::Int64;
        }),
        ("bool data", |desc| {
            desc.input.data_type = DataType::Bool;
            desc.output.data_type = DataType::Bool;
        }),
        ("64-bit lengths", |desc| {
            desc.sequence_lengths.data_type = DataType::Uint64
        }),
        ("signed lengths", |desc| {
            desc.sequence_lengths.data_type = DataType::Int32
        }),
        ("float lengths", |desc| {
            desc.sequence_lengths.data_type = DataType::Float32
        }),
        ("lengths of another rank", |desc| {
            desc.sequence_lengths.sizes = desc.sequence_lengths.sizes[1..].into();
        }),
        ("axis out of range", |desc| desc.axis = 4),
        ("lengths not 1 on the axis", |desc| {
            desc.sequence_lengths.sizes[3] = 4
        }),
        ("lengths of another size", |desc| {
            desc.sequence_lengths.sizes[2] = 2
        }),
        ("output of another size", |desc| desc.output.sizes[0] = 3),
        ("output of another type", |desc| {
            desc.output.data_type = DataType::Int32
        }),
        ("a size of 0", |desc| {
            *desc = ReverseSubsequencesDesc::packed(
                DataType::Float32,
                &[2, 0, 3, 4],
                DataType::Uint32,
                3,
            );
        }),
        ("too few strides", |desc| {
            desc.input.strides = Some([4, 1].into_iter().collect());
        }),
        ("broadcast input and lengths", |desc| {
            strided(&mut desc.input, [0, 0, 0, 1]);
            strided(&mut desc.sequence_lengths, [0, 0, 1, 0]);
        }),
        ("padded output", |desc| {
            strided(&mut desc.output, [16, 16, 5, 1])
        }),
        ("interleaved output", |desc| {
            strided(&mut desc.output, [1, 1, 8, 2])
        }),
        ("output of stride 0", |desc| {
            strided(&mut desc.output, [12, 12, 4, 0])
        }),
        ("overlapping output", |desc| {
            strided(&mut desc.output, [12, 12, 3, 1])
        }),
        ("2^32 elements", |desc| {
            *desc = ReverseSubsequencesDesc::packed(
                DataType::Uint8,
                &[1, 1, 1 << 16, 1 << 16],
                DataType::Uint32,
                3,
            );
        }),
        ("2^32 - 1 elements", |desc| {
            *desc = ReverseSubsequencesDesc::packed(
                DataType::Uint8,
                &[1, 1, (1 << 16) - 1, (1 << 16) + 1],
                DataType::Uint32,
                3,
            );
        }),
        ("more than an address space", |desc| {
            *desc = ReverseSubsequencesDesc::packed(
                DataType::Float32,
                &[1 << 40, 1 << 20, 1, 4],
                DataType::Uint32,
                3,
            );
        }),
        ("strides beyond 64 bits", |desc| {
            strided(&mut desc.input, [u64::MAX, 12, u64::MAX, 1])
        }),
        ("total size too small", |desc| {
            desc.input.total_size_in_bytes = Some(95)
        }),
        ("total size large enough", |desc| {
            desc.input.total_size_in_bytes = Some(96)
        }),
        ("odd alignment", |desc| {
            desc.output.guaranteed_base_offset_alignment = 12
        }),
        ("alignment below an element", |desc| {
            desc.sequence_lengths.guaranteed_base_offset_alignment = 2;
        }),
    ];
    let mut text = String::new();
    for (name, change) in changes {
        writeln!(text, "# {name}\n{}", describe(&changed(change))).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// Dimensions fold as the snapshot shows.
#[test]
fn plans_fold_contiguous_dimensions() {
    let mut text = String::new();
    let mut plan = |name: &str, desc: ReverseSubsequencesDesc| {
        let plan = Plan::new(&desc).unwrap();
        writeln!(
            text,
            "# {name}: {:?} axis {}\n{plan:#?}\n",
            desc.input.sizes, desc.axis
        )
        .unwrap();
    };
    let packed = |sizes: &[u64], axis, lengths_strides: &[u64]| {
        let mut desc =
            ReverseSubsequencesDesc::packed(DataType::Float32, sizes, DataType::Uint64, axis);
        desc.sequence_lengths.strides = Some(lengths_strides.iter().copied().collect());
        desc
    };
    plan("time-major rows", packed(&[1, 7, 3, 5], 1, &[0, 0, 1, 0]));
    plan(
        "batch-major elements",
        packed(&[1, 1, 7, 3], 3, &[0, 0, 1, 0]),
    );
    plan(
        "time-major columns",
        packed(&[1, 1, 7, 3], 2, &[0, 0, 0, 1]),
    );
    plan(
        "one length for all",
        packed(&[2, 3, 4, 5], 2, &[0, 0, 0, 0]),
    );
    plan("an axis of 1", packed(&[2, 3, 1, 5], 2, &[15, 5, 5, 1]));
    plan(
        "a length for every subsequence",
        packed(&[2, 3, 4, 5], 1, &[20, 20, 5, 1]),
    );
    let mut strided = packed(&[2, 3, 4, 5], 3, &[12, 4, 1, 1]);
    strided.output.strides = Some([1, 2, 6, 24].into_iter().collect());
    plan("reversed layout", strided);
    insta::assert_snapshot!(text);
}
