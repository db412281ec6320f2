//! Times on the device's own clock, of one command at a time.

use std::ops::RangeInclusive;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use revseq_kernels::gpu::wgpu::{self, BufferUsages};
use revseq_kernels::gpu::{Context, LengthsSlice, ReverseSubsequencesPass};
use revseq_kernels::{DataType, Plan, reference};

use crate::rows::Row;

/// Medians, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// `copy_buffer_to_buffer`.
    pub(crate) copy: f64,
    /// The kernels, from one buffer to another.
    pub(crate) apart: f64,
    /// The kernels, where the data lies.
    pub(crate) in_place: f64,
}

/// Time after which the rounds of a row end, once the fewest are done.
const ENOUGH: Duration = Duration::from_secs(2);

/// Two timestamps, and the way they come back.
struct Clock<'a> {
    context: &'a Context,
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readable: wgpu::Buffer,
}

impl<'a> Clock<'a> {
    fn new(context: &'a Context) -> Self {
        let device = context.device();
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        Self {
            context,
            queries,
            resolved: buffer(
                context,
                16,
                BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
            ),
            readable: buffer(context, 16, BufferUsages::MAP_READ | BufferUsages::COPY_DST),
        }
    }

    /// Returns the time that commands take while nothing else runs, in nanoseconds.
    fn time(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> Result<f64> {
        let (device, queue) = (self.context.device(), self.context.queue());
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.write_timestamp(&self.queries, 0);
        record(&mut encoder);
        encoder.write_timestamp(&self.queries, 1);
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, None);
        queue.submit([encoder.finish()]);
        let bytes = read(self.context, &self.readable)?;
        let ticks: &[u64] = bytemuck::try_cast_slice(&bytes)
            .map_err(|error| anyhow::anyhow!("timestamps: {error}"))?;
        let ticks = ticks[1].saturating_sub(ticks[0]);
        Ok(ticks as f64 * f64::from(queue.get_timestamp_period()))
    }
}

/// Checks the output of a row's kernels, then measures them and a copy in turn.
pub(crate) fn measure(
    context: &Context,
    row: &Row,
    rounds: RangeInclusive<usize>,
) -> Result<Times> {
    let desc = row.desc()?;
    let plan = Plan::new(&desc)?;
    let pass = ReverseSubsequencesPass::new(context, &plan)?;
    let (data, lengths) = (row.data(), row.lengths());
    let mut expected = vec![0; data.len()];
    reference::reverse_subsequences(&desc, &data, &lengths, &mut expected);

    let tensor = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let [input, output, copied, in_place] = [(); 4].map(|()| buffer(context, row.bytes(), tensor));
    let lengths_bytes: &[u8] = bytemuck::cast_slice(&lengths);
    let lengths = buffer(context, lengths_bytes.len() as u64, tensor);
    let queue = context.queue();
    queue.write_buffer(&input, 0, &data);
    queue.write_buffer(&in_place, 0, &data);
    queue.write_buffer(&lengths, 0, lengths_bytes);
    let lengths = LengthsSlice {
        slice: lengths.slice(..),
        data_type: DataType::Int64,
    };
    let apart = pass.bind(input.slice(..), lengths, output.slice(..))?;
    let swapping = pass.bind_in_place(in_place.slice(..), lengths)?;

    let clock = Clock::new(context);
    let copy = |encoder: &mut wgpu::CommandEncoder| {
        encoder.copy_buffer_to_buffer(&input, 0, &copied, 0, None);
    };
    let kernels = |bound: &revseq_kernels::gpu::Bound, encoder: &mut wgpu::CommandEncoder| {
        bound.record(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
    };
    clock.time(copy)?;
    clock.time(|encoder| kernels(&apart, encoder))?;
    clock.time(|encoder| kernels(&swapping, encoder))?;
    for (what, buffer, expected) in [
        ("the copy", &copied, &data),
        ("out of place", &output, &expected),
        ("in place", &in_place, &expected),
    ] {
        let found = download(context, buffer).with_context(|| row.name())?;
        ensure!(found == *expected, "{}: {what}: wrong bytes", row.name());
    }

    let mut times = [const { Vec::new() }; 3];
    let start = Instant::now();
    for round in 0..*rounds.end() {
        if round >= *rounds.start() && start.elapsed() > ENOUGH {
            break;
        }
        times[0].push(clock.time(copy)?);
        times[1].push(clock.time(|encoder| kernels(&apart, encoder))?);
        times[2].push(clock.time(|encoder| kernels(&swapping, encoder))?);
    }
    let [copy, apart, in_place] = times.map(median);
    Ok(Times {
        copy,
        apart,
        in_place,
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn buffer(context: &Context, bytes: u64, usage: BufferUsages) -> wgpu::Buffer {
    context.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: bytes,
        usage,
        mapped_at_creation: false,
    })
}

/// The bytes of a buffer.
fn download(context: &Context, from: &wgpu::Buffer) -> Result<Vec<u8>> {
    let readable = buffer(
        context,
        from.size(),
        BufferUsages::MAP_READ | BufferUsages::COPY_DST,
    );
    let descriptor = wgpu::CommandEncoderDescriptor::default();
    let mut encoder = context.device().create_command_encoder(&descriptor);
    encoder.copy_buffer_to_buffer(from, 0, &readable, 0, None);
    context.queue().submit([encoder.finish()]);
    read(context, &readable)
}

/// The bytes of a mappable buffer, once all submitted work is done.
fn read(context: &Context, buffer: &wgpu::Buffer) -> Result<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    buffer.map_async(wgpu::MapMode::Read, .., move |mapped| {
        // The receiver waits below.
        let _ = sender.send(mapped);
    });
    context.device().poll(wgpu::PollType::wait_indefinitely())?;
    receiver.recv()??;
    let bytes = buffer.get_mapped_range(..)?.to_vec();
    buffer.unmap();
    Ok(bytes)
}
