//! Bytes of the host in buffers of the device, and back. Buffers are kept from one run to the next:
//! making one costs more than filling it.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use wgpu::BufferUsages;

use super::sync::lock;
use super::{Context, Error};

/// The most free buffers that are kept.
const KEPT: usize = 16;

/// Free buffers, the latest last.
pub(super) type Pool = Mutex<Vec<wgpu::Buffer>>;

/// Uploads, a run and downloads, in one submission.
pub(super) struct Transfer<'a> {
    context: &'a Context,
    /// All buffers of the transfer, which are free after it.
    used: Vec<wgpu::Buffer>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        let used = Vec::new();
        Self { context, used }
    }

    /// A tensor of whole words for `size` bytes, of which these are the first.
    pub(super) fn tensor(&mut self, size: usize, data: &[u8]) -> Result<wgpu::Buffer, Error> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let tensor = self.buffer(usage, size)?;
        if let Some(bytes) = wgpu::BufferSize::new(words(data.len())) {
            let filled = self.context.catch("filling a buffer", || {
                let view = self.context.queue().write_buffer_with(&tensor, 0, bytes);
                view.map(|mut view| {
                    view.slice(..data.len()).copy_from_slice(data);
                    view.slice(data.len()..).fill(0);
                })
            })?;
            // Other errors were caught above.
            filled.ok_or_else(|| lost("a buffer was not filled"))?;
        }
        Ok(tensor)
    }

    /// A buffer of at least `bytes` bytes, with anything in it.
    fn buffer(&mut self, usage: BufferUsages, bytes: usize) -> Result<wgpu::Buffer, Error> {
        let (context, bytes) = (self.context, words(bytes));
        // Not one that would waste more than it holds.
        let sizes = bytes..=bytes.saturating_mul(2).max(1 << 16);
        let mut free = lock(context.pool());
        let fits = |free: &wgpu::Buffer| free.usage() == usage && sizes.contains(&free.size());
        let kept = free.iter().rposition(fits).map(|index| free.remove(index));
        drop(free);
        let buffer = match kept {
            Some(buffer) => buffer,
            None => context.catch("making a buffer", || {
                context.device().create_buffer(&wgpu::BufferDescriptor {
                    label: Some("revseq"),
                    size: bytes,
                    usage,
                    mapped_at_creation: false,
                })
            })?,
        };
        self.used.push(buffer.clone());
        Ok(buffer)
    }

    /// Submits the commands of `encode`, then fills each slice from an offset of its buffer.
    pub(super) fn run(
        mut self,
        encode: impl FnOnce(&mut wgpu::CommandEncoder),
        downloads: Vec<(&wgpu::Buffer, u64, &mut [u8])>,
    ) -> Result<(), Error> {
        let context = self.context;
        let mut staged = Vec::new();
        for (_, _, data) in &downloads {
            let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
            staged.push(self.buffer(usage, data.len())?);
        }
        context.catch("running", || {
            let descriptor = wgpu::CommandEncoderDescriptor {
                label: Some("revseq"),
            };
            let mut encoder = context.device().create_command_encoder(&descriptor);
            encode(&mut encoder);
            for ((tensor, offset, data), staging) in downloads.iter().zip(&staged) {
                let bytes = Some(words(data.len()));
                encoder.copy_buffer_to_buffer(tensor, *offset, staging, 0, bytes);
            }
            context.queue().submit([encoder.finish()]);
        })?;
        for ((_, _, data), staging) in downloads.into_iter().zip(&staged) {
            read(context, staging, data)?;
        }
        let mut free = lock(context.pool());
        free.append(&mut self.used);
        let most = free.len().saturating_sub(KEPT);
        free.drain(..most);
        Ok(())
    }
}

fn lost(reason: impl ToString) -> Error {
    let reason = reason.to_string();
    Error::DeviceLost { reason }
}

/// Bytes, up to a whole word.
fn words(bytes: usize) -> u64 {
    bytes.next_multiple_of(4) as u64
}

/// Reads the first bytes of a buffer, once the submitted work is done.
fn read(context: &Context, buffer: &wgpu::Buffer, data: &mut [u8]) -> Result<(), Error> {
    let bytes = words(data.len());
    map(context, buffer, bytes)?;
    let action = "unmapping a buffer";
    let read = context.catch(action, || {
        let view = buffer.get_mapped_range(0..bytes);
        let read = view.map(|view| data.copy_from_slice(&view[..data.len()]));
        // An error if the device has gone since.
        buffer.unmap();
        read
    })?;
    read.map_err(|error| {
        context.lost_or(Error::Validation {
            action,
            reason: error.to_string(),
        })
    })
}

/// Maps the first `bytes` bytes of a buffer to be read, and waits until they are.
fn map(context: &Context, buffer: &wgpu::Buffer, bytes: u64) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    context.catch("mapping a buffer", || {
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |result| {
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

#[cfg(all(test, feature = "gpu-validation"))]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused() {
        let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor::default());
        let context = Context::from_device(device, queue);
        let take = |usage, bytes| {
            let mut transfer = Transfer::new(&context);
            let buffer = transfer.buffer(usage, bytes).unwrap();
            transfer.run(|_| {}, vec![]).unwrap();
            buffer
        };
        let (tensor, download) = (BufferUsages::STORAGE, BufferUsages::COPY_DST);
        let first = take(tensor, 1 << 20);
        assert_eq!(take(tensor, (1 << 20) - 4), first);
        // Too small for the one, too large for the other, for something else.
        assert_ne!(take(tensor, 1 << 21), first);
        assert_ne!(take(tensor, 1 << 16), first);
        assert_ne!(take(download, 1 << 20), first);
        context.trim();
        assert_ne!(take(tensor, 1 << 20), first);
    }
}
