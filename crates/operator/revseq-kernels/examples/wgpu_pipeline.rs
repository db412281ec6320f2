//! The operator between two passes of your own, all in one command encoder: the
//! tensors never leave the GPU.
//!
//! ```sh
//! cargo run --features wgpu --example wgpu_pipeline            # hardware
//! cargo run --features wgpu --example wgpu_pipeline software   # such as lavapipe
//! ```
//!
//! A bidirectional layer needs each sequence of a batch backwards, padding left
//! in place. Here the first pass fills a batch of sequences, the operator
//! reverses each up to its length, and the last pass adds the two.

use std::error::Error;

use revseq_kernels::gpu::{Context, ContextOptions, LengthsSlice, ReverseSubsequencesPass, wgpu};
use revseq_kernels::{DataType, Plan, ReverseSubsequencesDesc};

const BATCH: usize = 4;
const TIME: usize = 8;
const LENGTHS: [i32; BATCH] = [8, 5, 1, 0];

const SHADER: &str = "
    @group(0) @binding(0) var<storage, read_write> forwards: array<f32>;
    @group(0) @binding(1) var<storage, read_write> backwards: array<f32>;

    @compute @workgroup_size(32)
    fn fill(@builtin(global_invocation_id) id: vec3<u32>) {
        forwards[id.x] = f32(id.x);
        backwards[id.x] = 0.0;
    }

    @compute @workgroup_size(32)
    fn add(@builtin(global_invocation_id) id: vec3<u32>) {
        backwards[id.x] += forwards[id.x];
    }
";

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = ContextOptions::default();
    if let Some(adapter) = std::env::args().nth(1) {
        options.adapter = adapter.parse()?;
    }
    let context = Context::new(&options)?;
    println!("on {}", context.adapter());

    // Once for a shape: the plan, and its pass on this device.
    let sizes = [BATCH as u64, TIME as u64];
    let desc = ReverseSubsequencesDesc::reverse_sequence(
        DataType::Float32,
        &sizes,
        0,
        1,
        DataType::Int32,
    )?;
    let plan = Plan::new(&desc)?;
    let reverse = ReverseSubsequencesPass::new(&context, &plan)?;

    // Buffers and passes of your own.
    let (device, queue) = (context.device(), context.queue());
    let buffer = |bytes: usize, usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes as u64,
            usage,
            mapped_at_creation: false,
        })
    };
    let (storage, source) = (wgpu::BufferUsages::STORAGE, wgpu::BufferUsages::COPY_SRC);
    let target = wgpu::BufferUsages::COPY_DST;
    let forwards = buffer(plan.input_bytes(), storage);
    let backwards = buffer(plan.output_bytes(), storage | source);
    let lengths = buffer(size_of_val(&LENGTHS), storage | target);
    let result = buffer(plan.output_bytes(), wgpu::BufferUsages::MAP_READ | target);
    queue.write_buffer(&lengths, 0, bytemuck::cast_slice(&LENGTHS));

    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(SHADER.into()),
    });
    let dispatch = |encoder: &mut wgpu::CommandEncoder, entry_point| {
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some(entry_point),
            compilation_options: Default::default(),
            cache: None,
        });
        let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry {
                    binding: 0,
                    resource: forwards.as_entire_binding(),
                },
                wgpu::BindGroupEntry {
                    binding: 1,
                    resource: backwards.as_entire_binding(),
                },
            ],
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bind_group, &[]);
        pass.dispatch_workgroups((BATCH * TIME / 32) as u32, 1, 1);
    };

    // One encoder, three passes, and a status for the lengths; wgpu keeps their order.
    let status = reverse.create_status_buffer()?;
    let on_device = LengthsSlice {
        slice: lengths.slice(..),
        data_type: DataType::Int32,
    };
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    dispatch(&mut encoder, "fill");
    reverse.encode_check(&mut encoder, on_device, status.slice(..))?;
    reverse.encode(
        &mut encoder,
        forwards.slice(..),
        on_device,
        backwards.slice(..),
    )?;
    dispatch(&mut encoder, "add");
    encoder.copy_buffer_to_buffer(&backwards, 0, &result, 0, None);
    queue.submit([encoder.finish()]);

    // Only now does anything come back.
    reverse.read_status(status.slice(..), DataType::Int32)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    result.map_async(wgpu::MapMode::Read, .., move |mapped| {
        // The receiver is there until the end of `main`.
        let _ = sender.send(mapped);
    });
    device.poll(wgpu::PollType::wait_indefinitely())?;
    receiver.recv()??;
    let view = result.get_mapped_range(..)?;
    let values: &[f32] = bytemuck::cast_slice(&view);
    for (row, (values, length)) in values.chunks(TIME).zip(LENGTHS).enumerate() {
        println!("length {length}: {values:?}");
        for (time, &value) in values.iter().enumerate() {
            let length = length as usize;
            let from = if time < length {
                length - 1 - time
            } else {
                time
            };
            let expected = (2 * row * TIME + time + from) as f32;
            if value != expected {
                return Err(format!("row {row}, time {time}: {value}, expected {expected}").into());
            }
        }
    }
    Ok(())
}
