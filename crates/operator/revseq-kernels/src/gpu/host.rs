//! The operator on the host's slices: up, run, back. Each run makes its buffers anew: it is there to
//! check the kernels.

use std::sync::mpsc;
use std::time::Duration;

use wgpu::BufferUsages;

use super::context::lost;
use super::{Context, Error, LengthsSlice, ReverseSubsequencesPass};
use crate::error::check_buffer;
use crate::{DataType, LengthsData, SequenceLengths, Tensor};

/// Reverses subsequences of `input` into `output`, both in bytes, on the device.
///
/// As [`cpu::run`](crate::cpu::run): bytes of the output between its strides
/// keep their values, and nothing is written unless all checks pass.
///
/// # Errors
/// [`crate::Error::BufferTooShort`] and [`crate::Error::LengthsOfAnotherPlan`] as
/// on the CPU; [`Error::DeviceLost`], [`Error::OutOfMemory`] and, of a tensor larger than
/// a buffer of the device can be, [`Error::UnsupportedSize`].
pub fn run(
    pass: &ReverseSubsequencesPass,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), Error> {
    let plan = pass.plan();
    lengths.check_plan(plan)?;
    check_buffer(Tensor::Input, input.len(), plan.input_bytes())?;
    check_buffer(Tensor::Output, output.len(), plan.output_bytes())?;
    let input = &input[..plan.input_bytes()];
    run_on_device(pass, lengths.data(), Some(input), output)
}

/// Reverses subsequences of `data`, in bytes, in place on the device.
///
/// # Errors
/// As [`run`], and [`crate::Error::NotInPlace`] if input and output have different layouts.
pub fn run_in_place(
    pass: &ReverseSubsequencesPass,
    lengths: &SequenceLengths<'_>,
    data: &mut [u8],
) -> Result<(), Error> {
    let plan = pass.plan();
    lengths.check_plan(plan)?;
    plan.check_in_place()?;
    check_buffer(Tensor::Output, data.len(), plan.output_bytes())?;
    run_on_device(pass, lengths.data(), None, data)
}

/// Uploads, runs and reads back; in place if there is no input.
fn run_on_device(
    pass: &ReverseSubsequencesPass,
    lengths: LengthsData<'_>,
    input: Option<&[u8]>,
    output: &mut [u8],
) -> Result<(), Error> {
    let output = &mut output[..pass.plan().output_bytes()];
    if output.is_empty() {
        return Ok(());
    }
    let context = pass.context();
    let upload = |bytes: &[u8]| {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
        context.buffer_of("uploading a tensor", usage, bytes)
    };
    let (lengths, data_type) = bytes_of(lengths);
    let lengths = upload(lengths)?;
    let lengths = LengthsSlice {
        slice: lengths.slice(..),
        data_type,
    };
    // Bytes between the strides are read back, too.
    let device_output = upload(output)?;
    let bound = match input {
        Some(input) => pass.bind(upload(input)?.slice(..), lengths, device_output.slice(..)),
        None => pass.bind_in_place(device_output.slice(..), lengths),
    }?;
    read_after(
        context,
        |encoder| bound.encode(encoder),
        device_output.slice(..),
        output,
    )
}

/// The lengths as the device reads them.
fn bytes_of(lengths: LengthsData<'_>) -> (&[u8], DataType) {
    match lengths {
        LengthsData::I32(lengths) => (bytemuck::cast_slice(lengths), DataType::Int32),
        LengthsData::I64(lengths) => (bytemuck::cast_slice(lengths), DataType::Int64),
        LengthsData::U32(lengths) => (bytemuck::cast_slice(lengths), DataType::Uint32),
        LengthsData::U64(lengths) => (bytemuck::cast_slice(lengths), DataType::Uint64),
    }
}

/// Submits the commands of `encode`, and reads the first bytes of a slice once they and all submitted
/// before are done.
pub(super) fn read_after(
    context: &Context,
    encode: impl FnOnce(&mut wgpu::CommandEncoder),
    from: wgpu::BufferSlice<'_>,
    data: &mut [u8],
) -> Result<(), Error> {
    let bytes = data.len().next_multiple_of(4) as u64;
    let staging = context.catch("making a buffer", || {
        context.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("revseq"),
            size: bytes,
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    })?;
    context.catch("running", || {
        let descriptor = wgpu::CommandEncoderDescriptor {
            label: Some("revseq"),
        };
        let mut encoder = context.device().create_command_encoder(&descriptor);
        encode(&mut encoder);
        encoder.copy_buffer_to_buffer(from.buffer(), from.offset(), &staging, 0, Some(bytes));
        context.queue().submit([encoder.finish()]);
    })?;
    map(context, &staging)?;
    let action = "reading a buffer";
    let read = context.catch(action, || {
        let view = staging.get_mapped_range(..);
        view.map(|view| data.copy_from_slice(&view[..data.len()]))
    })?;
    read.map_err(|error| {
        context.lost_or(Error::Validation {
            action,
            reason: error.to_string(),
        })
    })
}

/// Maps a buffer to be read, and waits until it is.
fn map(context: &Context, buffer: &wgpu::Buffer) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    context.catch("mapping a buffer", || {
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            // The receiver waits below; without it the result does not matter.
            let _ = sender.send(result);
        });
    })?;
    loop {
        context.check_lost()?;
        let polled = context.device().poll(wgpu::PollType::wait_indefinitely());
        // Another thread may have polled first, and may not yet have called back.
        match receiver.recv_timeout(Duration::from_micros(50)) {
            Ok(Ok(())) => return Ok(()),
            // Validation errors were caught above, so the device must be lost.
            Ok(Err(error)) => return Err(lost(error)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(lost("a buffer was not mapped"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        polled.map_err(lost)?;
    }
}
