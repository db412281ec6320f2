//! The GPU kernels on every software adapter, bit for bit against the reference.
#![cfg(feature = "wgpu")]

use proptest::prelude::*;
use revseq_kernels::gpu::{self, ReverseSubsequencesPass};
use revseq_kernels::{LengthsPolicy, Plan, SequenceLengths, reference};

mod common;
use common::{Case, bytes, case};

mod gpu_common;
use gpu_common::contexts;

fn check(context: &gpu::Context, case: &Case) {
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

    let pass = ReverseSubsequencesPass::new(context, &plan).unwrap();
    let mut output = before;
    gpu::run(&pass, &clamped, &input, &mut output).unwrap();
    assert!(output == expected, "out of place, {context:?}, {plan:?}");
    if desc.input.strides == desc.output.strides {
        let mut expected = input.clone();
        reference::reverse_subsequences(desc, &input, lengths.data(), &mut expected);
        let mut data = input.clone();
        gpu::run_in_place(&pass, &clamped, &mut data).unwrap();
        assert!(data == expected, "in place, {context:?}, {plan:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_host_entry_agrees_with_the_reference(case in case()) {
        for context in contexts() {
            check(context, &case);
        }
    }
}
