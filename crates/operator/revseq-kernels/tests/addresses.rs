//! Sizes and strides have 64 bits, addresses perhaps fewer: sizes that cannot be addressed are
//! refused, never truncated.

use revseq_kernels::{DataType, Plan, ReverseSubsequencesDesc};

/// A size beyond 32 bits; truncated it would be 3.
const FAR: u64 = (1 << 32) + 3;

fn desc(sizes: &[u64]) -> ReverseSubsequencesDesc {
    ReverseSubsequencesDesc::reverse_sequence(DataType::Uint8, sizes, 0, 1, DataType::Int64)
        .unwrap()
}

#[test]
fn sizes_beyond_the_address_space_are_refused() {
    let strides = |change: fn(&mut ReverseSubsequencesDesc)| {
        let mut desc = desc(&[2, 3]);
        change(&mut desc);
        desc
    };
    for (what, desc) in [
        ("data", desc(&[2, FAR])),
        ("lengths", desc(&[FAR, 2])),
        ("an axis without data", desc(&[0, FAR])),
        (
            "an input",
            strides(|desc| desc.input.strides = Some([FAR, 1].into())),
        ),
        (
            "an output",
            strides(|desc| desc.output.strides = Some([FAR, 1].into())),
        ),
        (
            "lengths apart",
            strides(|desc| desc.sequence_lengths.strides = Some([FAR, 0].into())),
        ),
    ] {
        let plan = Plan::new(&desc);
        assert_eq!(plan.is_ok(), usize::BITS == 64, "{what}: {plan:?}");
    }
}
