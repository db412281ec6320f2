//! Buffers that are kept from one run to the next: making one costs more than
//! filling it.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use super::sync::lock;
use super::{Context, Error};

/// The most free buffers that are kept.
const KEPT: usize = 16;

/// Free buffers.
#[derive(Default)]
pub(super) struct Pool {
    free: Mutex<Vec<wgpu::Buffer>>,
}

/// The use of a pooled buffer.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// A buffer that the host fills and that is copied to a tensor.
    Upload,
    /// A buffer that a tensor is copied to and that the host reads.
    Download,
    /// A tensor.
    Tensor,
}

impl Role {
    fn usages(self) -> wgpu::BufferUsages {
        use wgpu::BufferUsages;
        match self {
            Self::Upload => BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
            Self::Download => BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            Self::Tensor => BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        }
    }
}

/// A buffer of the pool, returned to it on drop.
pub(super) struct Pooled<'a> {
    context: &'a Context,
    /// The buffer, until dropped.
    buffer: Option<wgpu::Buffer>,
}

impl Pooled<'_> {
    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        self.buffer.as_ref().expect("taken only by drop")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.context.pool().put(buffer);
        }
    }
}

impl Pool {
    /// A buffer of at least `bytes` bytes, with anything in it.
    pub(super) fn take<'a>(
        context: &'a Context,
        role: Role,
        bytes: u64,
    ) -> Result<Pooled<'a>, Error> {
        let usages = role.usages();
        let mut free = lock(&context.pool().free);
        // The least that is large enough, unless it would waste more than it holds.
        let fitting = (0..free.len())
            .filter(|&index| free[index].usage() == usages)
            .filter(|&index| {
                (bytes..=bytes.saturating_mul(2).max(1 << 16)).contains(&free[index].size())
            })
            .min_by_key(|&index| free[index].size());
        let kept = fitting.map(|index| free.remove(index));
        drop(free);
        let buffer = match kept {
            Some(buffer) => buffer,
            None => {
                let size = bytes
                    .next_multiple_of(1 << 12)
                    .min(context.limits().max_buffer_size);
                context.catch("making a buffer", || {
                    context.device().create_buffer(&wgpu::BufferDescriptor {
                        label: Some("revseq"),
                        size: size.max(bytes),
                        usage: usages,
                        mapped_at_creation: false,
                    })
                })?
            }
        };
        Ok(Pooled {
            context,
            buffer: Some(buffer),
        })
    }

    fn put(&self, buffer: wgpu::Buffer) {
        let mut free = lock(&self.free);
        free.push(buffer);
        if free.len() > KEPT {
            free.remove(0);
        }
    }

    pub(super) fn clear(&self) {
        lock(&self.free).clear();
    }
}

/// Uploads, a run and downloads, in one submission.
pub(super) struct Transfer<'a> {
    context: &'a Context,
    uploads: Vec<(Pooled<'a>, wgpu::Buffer, u64)>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self {
            context,
            uploads: Vec::new(),
        }
    }

    /// A tensor of whole words for `bytes` bytes: a copy of `data`, or uninitialised.
    pub(super) fn tensor(
        &mut self,
        bytes: usize,
        data: Option<&[u8]>,
    ) -> Result<Pooled<'a>, Error> {
        let words = bytes.next_multiple_of(4) as u64;
        let tensor = Pool::take(self.context, Role::Tensor, words)?;
        if let Some(data) = data {
            self.upload(tensor.buffer(), data)?;
        }
        Ok(tensor)
    }

    /// Uploads `data` to the start of `tensor`, with zeros up to a whole word.
    fn upload(&mut self, tensor: &wgpu::Buffer, data: &[u8]) -> Result<(), Error> {
        let bytes = words(data);
        let staging = Pool::take(self.context, Role::Upload, bytes)?;
        map(self.context, staging.buffer(), wgpu::MapMode::Write, bytes)?;
        unmap(self.context, staging.buffer(), || {
            let mut view = staging.buffer().get_mapped_range_mut(0..bytes)?;
            view.slice(..data.len()).copy_from_slice(data);
            view.slice(data.len()..).fill(0);
            Ok(())
        })?;
        self.uploads.push((staging, tensor.clone(), bytes));
        Ok(())
    }

    /// Submits the commands of `encode`, then fills each slice from an offset of its buffer.
    pub(super) fn run(
        self,
        encode: impl FnOnce(&mut wgpu::CommandEncoder),
        downloads: &mut [(&wgpu::Buffer, u64, &mut [u8])],
    ) -> Result<(), Error> {
        let context = self.context;
        let mut staged = Vec::new();
        for (_, _, data) in downloads.iter() {
            staged.push(Pool::take(context, Role::Download, words(data))?);
        }
        context.catch("running", || {
            let descriptor = wgpu::CommandEncoderDescriptor {
                label: Some("revseq"),
            };
            let mut encoder = context.device().create_command_encoder(&descriptor);
            for (staging, tensor, bytes) in &self.uploads {
                encoder.copy_buffer_to_buffer(staging.buffer(), 0, tensor, 0, Some(*bytes));
            }
            encode(&mut encoder);
            for ((tensor, offset, data), staging) in downloads.iter().zip(&staged) {
                let bytes = Some(words(data));
                encoder.copy_buffer_to_buffer(tensor, *offset, staging.buffer(), 0, bytes);
            }
            context.queue().submit([encoder.finish()]);
        })?;
        for ((_, _, data), staging) in downloads.iter_mut().zip(&staged) {
            let bytes = words(data);
            map(context, staging.buffer(), wgpu::MapMode::Read, bytes)?;
            unmap(context, staging.buffer(), || {
                let view = staging.buffer().get_mapped_range(0..bytes)?;
                data.copy_from_slice(&view[..data.len()]);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The bytes of a slice, up to a whole word.
fn words(data: &[u8]) -> u64 {
    data.len().next_multiple_of(4) as u64
}

/// Maps the first `bytes` bytes of a buffer and waits until they are.
fn map(
    context: &Context,
    buffer: &wgpu::Buffer,
    mode: wgpu::MapMode,
    bytes: u64,
) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    context.catch("mapping a buffer", || {
        buffer.map_async(mode, 0..bytes, move |result| {
            // The receiver waits below; without it the result does not matter.
            let _ = sender.send(result);
        });
    })?;
    // An unused buffer is mapped at once; otherwise wait for the submitted work.
    let mut poll = wgpu::PollType::Poll;
    loop {
        context.check_lost()?;
        let polled = context.device().poll(poll);
        let lost = |reason: String| Error::DeviceLost { reason };
        // Another thread may have polled first, and may not yet have called back.
        match receiver.recv_timeout(Duration::from_micros(50)) {
            Ok(Ok(())) => return Ok(()),
            // Validation errors were caught above, so the device must be lost.
            Ok(Err(error)) => return Err(lost(error.to_string())),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(lost("a buffer was not mapped".to_owned()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        polled.map_err(|error| lost(error.to_string()))?;
        poll = wgpu::PollType::wait_indefinitely();
    }
}

/// Uses the memory of a mapped buffer, and unmaps it.
fn unmap(
    context: &Context,
    buffer: &wgpu::Buffer,
    used: impl FnOnce() -> Result<(), wgpu::MapRangeError>,
) -> Result<(), Error> {
    let action = "unmapping a buffer";
    let used = context.catch(action, || {
        let used = used();
        // An error if the device has gone since.
        buffer.unmap();
        used
    })?;
    used.map_err(|error| {
        context.lost_or(Error::Validation {
            action,
            reason: error.to_string(),
        })
    })
}

#[cfg(all(test, feature = "gpu-validation"))]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused() {
        let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor::default());
        let context = Context::from_device(device, queue);
        let take = |role, bytes| Pool::take(&context, role, bytes).unwrap().buffer().clone();
        let first = take(Role::Tensor, 1 << 20);
        assert_eq!(take(Role::Tensor, (1 << 20) - 4), first);
        // Too small for the one, too large for the other, for something else.
        assert_ne!(take(Role::Tensor, 1 << 21), first);
        assert_ne!(take(Role::Tensor, 1 << 16), first);
        assert_ne!(take(Role::Upload, 1 << 20), first);
        context.trim();
        assert_ne!(take(Role::Tensor, 1 << 20), first);
    }
}
