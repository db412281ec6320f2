//! wgpu's own validation of everything that is recorded, where there is no driver.
//!
//! Nothing runs here: an error of wgpu's validation is a panic, since nothing catches it.

use proptest::prelude::*;
use revseq_kernels::gpu::{self, Context, Error, LengthsSlice, ReverseSubsequencesPass, wgpu};
use revseq_kernels::{DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths};

use crate::common::{Case, case};

fn context(limits: wgpu::Limits) -> Context {
    let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor {
        required_limits: limits,
        ..Default::default()
    });
    Context::from_device(device, queue)
}

/// Records all there is for a plan, and submits it; returns the number of dispatches.
fn submit(context: &Context, desc: &ReverseSubsequencesDesc, offset: u64) -> usize {
    let plan = Plan::new(desc).unwrap();
    let pass = ReverseSubsequencesPass::new(context, &plan).unwrap();
    let data_type = desc.sequence_lengths.data_type;
    let device = context.device();
    let buffer = |bytes: usize| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: offset + bytes.next_multiple_of(4) as u64,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        })
    };
    let input = buffer(plan.input_bytes());
    let lengths = buffer(plan.lengths_count() * data_type.size());
    let output = buffer(plan.output_bytes());
    let lengths = LengthsSlice {
        slice: lengths.slice(offset..),
        data_type,
    };
    let (input, output) = (input.slice(offset..), output.slice(offset..));

    let mut bounds = vec![pass.bind(input, lengths, output).unwrap()];
    if desc.input.strides == desc.output.strides {
        bounds.push(pass.bind_in_place(output, lengths).unwrap());
    }
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut recorded = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for bound in &bounds {
            bound.record(&mut recorded);
        }
    }
    let status = pass.create_status_buffer().unwrap();
    pass.encode_check(&mut encoder, lengths, status.slice(..))
        .unwrap();
    context.queue().submit([encoder.finish()]);
    bounds.iter().map(|bound| bound.dispatch_count()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn everything_recorded_is_valid(case in case(), words in 0_u64..100) {
        let Case { desc, .. } = case;
        submit(&context(wgpu::Limits::default()), &desc, 4 * words);
    }
}

#[test]
fn more_workgroups_than_a_dimension_has_are_valid() {
    let desc = ReverseSubsequencesDesc::packed(
        DataType::Float32,
        &[1, 4 * 64 * 65_535 + 1],
        DataType::Int32,
        1,
    );
    assert_eq!(submit(&context(wgpu::Limits::default()), &desc, 0), 2);
}

#[test]
fn tensors_beyond_a_binding_are_valid() {
    let limits = wgpu::Limits {
        max_storage_buffer_binding_size: 1 << 16,
        ..Default::default()
    };
    // Rows of 48 KiB: one in a binding each. One row of 192 KiB: windows of 48 KiB,
    // each with itself and with those that mirror it at some length (10 with i + j < 4,
    // and two more on the diagonal), or in place those pairs whose first is in the
    // first half.
    for (sizes, copies, swaps) in [([4, 12 << 10], 4, 4), ([1, 48 << 10], 12, 6)] {
        let desc = ReverseSubsequencesDesc::packed(DataType::Float32, &sizes, DataType::Int64, 1);
        assert_eq!(submit(&context(limits.clone()), &desc, 0), copies + swaps);
    }
}

#[test]
fn a_tensor_of_the_host_that_is_larger_than_a_buffer_is_an_error() {
    let context = context(wgpu::Limits {
        max_buffer_size: 1 << 16,
        max_storage_buffer_binding_size: 1 << 16,
        ..Default::default()
    });
    let desc = ReverseSubsequencesDesc::packed(DataType::Uint8, &[1, 65_537], DataType::Int32, 1);
    let plan = Plan::new(&desc).unwrap();
    let pass = ReverseSubsequencesPass::new(&context, &plan).unwrap();
    let lengths = SequenceLengths::new(&plan, &[5_i32], LengthsPolicy::Reject).unwrap();
    let mut data = vec![7; 65_537];
    assert_eq!(
        gpu::run_in_place(&pass, &lengths, &mut data),
        Err(Error::UnsupportedSize {
            what: "bytes of a buffer",
            actual: 65_540,
            maximum: 1 << 16
        })
    );
}
