//! Software adapters and buffers for the tests.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};

use revseq_kernels::gpu::{self, AdapterChoice, Context, ContextOptions, wgpu};

/// A context on every software adapter: they are the same everywhere.
///
/// Without one the tests are skipped, by name.
pub(crate) fn contexts() -> Vec<Context> {
    contexts_with(|_| {})
}

/// The same with other options, made once for each set of them.
pub(crate) fn contexts_with(change: impl FnOnce(&mut ContextOptions)) -> Vec<Context> {
    static CONTEXTS: OnceLock<Mutex<HashMap<String, Vec<Context>>>> = OnceLock::new();
    let mut changed = ContextOptions::default();
    change(&mut changed);
    let mut contexts = CONTEXTS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    contexts
        .entry(format!("{changed:?}"))
        .or_insert_with(|| {
            software_adapters()
                .into_iter()
                .map(|index| {
                    let mut options = changed.clone();
                    options.adapter = AdapterChoice::Index(index);
                    Context::new(&options).unwrap()
                })
                .collect()
        })
        .clone()
}

/// The indices of the software adapters.
pub(crate) fn software_adapters() -> Vec<usize> {
    static ADAPTERS: OnceLock<Vec<usize>> = OnceLock::new();
    let found = ADAPTERS.get_or_init(|| {
        let software = gpu::adapters(wgpu::Backends::all())
            .into_iter()
            .filter(|adapter| adapter.device_type == wgpu::DeviceType::Cpu);
        software
            .map(|adapter| {
                say(&format!("testing on {adapter}"));
                adapter.index
            })
            .collect()
    });
    if found.is_empty() {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        revseq_skips::skip(name, "no software adapter");
    }
    found.clone()
}

/// Prints a line once, past the test harness, which captures `println`.
fn say(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.to_owned()) {
        let mut stderr = std::io::stderr();
        stderr.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Tensors in buffers of the device, with other bytes around them.
pub(crate) struct Arena<'a> {
    context: &'a Context,
    /// The place of each tensor in `bytes`.
    pub(crate) ranges: Vec<Range<usize>>,
    /// The bytes of all buffers together.
    pub(crate) bytes: Vec<u8>,
    /// The buffers, each with its part of `bytes`.
    buffers: Vec<(wgpu::Buffer, Range<usize>)>,
}

impl<'a> Arena<'a> {
    /// Each tensor after a gap of its own, in one buffer or in one each.
    pub(crate) fn new(
        context: &'a Context,
        tensors: &[&[u8]],
        gaps: [u64; 3],
        one_buffer: bool,
    ) -> Self {
        let mut bytes: Vec<u8> = Vec::new();
        let (mut ranges, mut parts) = (Vec::new(), Vec::new());
        for (tensor, gap) in tensors.iter().zip(gaps) {
            let start = bytes.len();
            bytes.resize(start + gap as usize, 0xa5);
            ranges.push(bytes.len()..bytes.len() + tensor.len());
            bytes.extend_from_slice(tensor);
            bytes.resize(bytes.len().next_multiple_of(4) + 4, 0x5a);
            parts.push(start..bytes.len());
        }
        if one_buffer {
            parts.clear();
            parts.push(0..bytes.len());
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        let buffer = |part: Range<usize>| {
            let buffer = context.device().create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: part.len() as u64,
                usage,
                mapped_at_creation: false,
            });
            context
                .queue()
                .write_buffer(&buffer, 0, &bytes[part.clone()]);
            (buffer, part)
        };
        Self {
            context,
            ranges,
            buffers: parts.into_iter().map(buffer).collect(),
            bytes,
        }
    }

    /// A tensor.
    pub(crate) fn slice(&self, index: usize) -> wgpu::BufferSlice<'_> {
        let range = self.ranges[index].clone();
        let (buffer, part) = self
            .buffers
            .iter()
            .find(|(_, part)| part.contains(&range.start))
            .unwrap();
        buffer.slice((range.start - part.start) as u64..(range.end - part.start) as u64)
    }

    /// Changes the expected bytes of a tensor.
    pub(crate) fn place(&mut self, index: usize, tensor: &[u8]) {
        self.bytes[self.ranges[index].clone()].copy_from_slice(tensor);
    }

    pub(crate) fn encoder(&self) -> wgpu::CommandEncoder {
        self.context
            .device()
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Submits, waits, and reads all buffers back.
    pub(crate) fn submit(&self, mut encoder: wgpu::CommandEncoder) -> Vec<u8> {
        let device = self.context.device();
        let staging: Vec<_> = self
            .buffers
            .iter()
            .map(|(buffer, part)| {
                let staging = device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: part.len() as u64,
                    usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, None);
                staging
            })
            .collect();
        self.context.queue().submit([encoder.finish()]);
        let mut found = Vec::new();
        for staging in staging {
            let (sender, receiver) = mpsc::channel();
            staging.map_async(wgpu::MapMode::Read, .., move |result| {
                sender.send(result).unwrap();
            });
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
            receiver.recv().unwrap().unwrap();
            found.extend_from_slice(&staging.get_mapped_range(..).unwrap());
        }
        found
    }
}
