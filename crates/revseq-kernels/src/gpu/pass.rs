//! The operator in a command encoder of the caller's.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::buffers::{LengthsSlice, is_shared, layout, range};
use super::params::{Builder, Dispatch, LengthsLayout, Limits, Offsets, Window};
use super::shader::{Kernel, Variant};
use super::slabs::{Motion, Nest, Slab};
use super::sync::lock;
use super::{Context, Error};
use crate::{Plan, Tensor};

/// Number of sets of dispatches that a pass keeps, one for each way in which offsets are aligned.
const PREPARED: usize = 64;

/// A [`Plan`] on a device, which a pipeline records among its own passes.
///
/// Nothing here uploads, reads back or waits. Buffers need
/// [`BufferUsages::STORAGE`](wgpu::BufferUsages::STORAGE), tensors start at
/// multiples of 4 bytes, and the buffer extends to the end of the last whole
/// word. Lengths are clamped, as DirectML's page specifies;
/// [`encode_check`](Self::encode_check) finds lengths that were out of range.
#[derive(Debug)]
pub struct ReverseSubsequencesPass {
    context: Context,
    plan: Plan,
    prepared: Mutex<HashMap<Key, Arc<Vec<BoundDispatch>>>>,
}

/// The key of a plan's cached dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    motion: Motion,
    /// The remainders of the offsets by the alignment.
    offsets: Offsets,
    layout: LengthsLayout,
    shared: bool,
}

/// A dispatch with its pipeline and parameters.
#[derive(Debug)]
pub(super) struct BoundDispatch {
    dispatch: Dispatch,
    pipeline: wgpu::ComputePipeline,
    params: wgpu::Buffer,
}

/// The operator with its buffers: ready to be recorded any number of times.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    dispatches: Vec<(wgpu::ComputePipeline, wgpu::BindGroup, (u32, u32, u32))>,
}

/// The buffers of a motion and where the tensors start in them; for a swap and a
/// check the input is unused.
#[derive(Clone, Copy)]
pub(super) struct Buffers<'a> {
    pub(super) input: &'a wgpu::Buffer,
    pub(super) lengths: &'a wgpu::Buffer,
    pub(super) output: &'a wgpu::Buffer,
    pub(super) offsets: Offsets,
}

impl Bound {
    /// Records the dispatches in a compute pass of the caller's.
    pub fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        for (pipeline, bind_group, (width, height, layers)) in &self.dispatches {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bind_group, &[]);
            pass.dispatch_workgroups(*width, *height, *layers);
        }
    }

    /// The number of dispatches: 1 where the device reaches all bytes at once, 0 if there is
    /// nothing to move.
    #[must_use]
    pub fn dispatch_count(&self) -> usize {
        self.dispatches.len()
    }

    pub(super) fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        if !self.dispatches.is_empty() {
            self.record(
                &mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: Some("revseq"),
                    timestamp_writes: None,
                }),
            );
        }
    }
}

impl ReverseSubsequencesPass {
    /// A pass for a plan.
    ///
    /// # Errors
    /// [`Error::UnsupportedSize`] for an axis of 2^32 elements or more.
    pub fn new(context: &Context, plan: &Plan) -> Result<Self, Error> {
        if u32::try_from(plan.axis_size()).is_err() {
            return Err(Error::UnsupportedSize {
                what: "elements of the axis",
                actual: plan.axis_size() as u64,
                maximum: u32::MAX.into(),
            });
        }
        Ok(Self {
            context: context.clone(),
            plan: plan.clone(),
            prepared: Mutex::default(),
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Records a compute pass that reverses subsequences of `input` into `output`.
    ///
    /// Bytes of the output between its strides keep their values. The tensors
    /// may share a buffer if they do not overlap.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        input: wgpu::BufferSlice<'_>,
        lengths: LengthsSlice<'_>,
        output: wgpu::BufferSlice<'_>,
    ) -> Result<(), Error> {
        self.bind(input, lengths, output)?.encode(encoder);
        Ok(())
    }

    /// Records a compute pass that reverses subsequences of `data` in place.
    ///
    /// Touches the reversed prefixes only.
    ///
    /// # Errors
    /// As [`bind_in_place`](Self::bind_in_place).
    pub fn encode_in_place(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        data: wgpu::BufferSlice<'_>,
        lengths: LengthsSlice<'_>,
    ) -> Result<(), Error> {
        self.bind_in_place(data, lengths)?.encode(encoder);
        Ok(())
    }

    /// Binds buffers for any number of recordings.
    ///
    /// # Errors
    /// A buffer that is too short ([`crate::Error::BufferTooShort`]), lacks a
    /// usage, starts at a misaligned offset, overlaps the output or belongs to
    /// another device (wgpu detects this only within one [`wgpu::Instance`]);
    /// lengths of another data type; a device that is lost or out of memory.
    /// wgpu reports errors of the encoder when the encoder is finished.
    pub fn bind(
        &self,
        input: wgpu::BufferSlice<'_>,
        lengths: LengthsSlice<'_>,
        output: wgpu::BufferSlice<'_>,
    ) -> Result<Bound, Error> {
        let layout = layout(lengths.data_type)?;
        let input_range = range(Tensor::Input, input, self.plan.input_bytes())?;
        let lengths_range = self.lengths_range(lengths)?;
        let output_range = range(Tensor::Output, output, self.plan.output_bytes())?;
        let mut shared = false;
        for (tensor, slice, range) in [
            (Tensor::Input, input, &input_range),
            (Tensor::SequenceLengths, lengths.slice, &lengths_range),
        ] {
            shared |= is_shared(tensor, slice, range, "the output", output, &output_range)?;
        }
        let buffers = Buffers {
            input: input.buffer(),
            lengths: lengths.slice.buffer(),
            output: output.buffer(),
            offsets: Offsets {
                input: input.offset(),
                lengths: lengths.slice.offset(),
                output: output.offset(),
            },
        };
        self.bind_motion(Motion::Copy, layout, shared, &buffers)
    }

    /// Binds a buffer to work in place.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), and [`crate::Error::NotInPlace`] if input and
    /// output have different layouts.
    pub fn bind_in_place(
        &self,
        data: wgpu::BufferSlice<'_>,
        lengths: LengthsSlice<'_>,
    ) -> Result<Bound, Error> {
        self.plan.check_in_place()?;
        let layout = layout(lengths.data_type)?;
        let data_range = range(Tensor::Output, data, self.plan.output_bytes())?;
        let lengths_range = self.lengths_range(lengths)?;
        let shared = is_shared(
            Tensor::SequenceLengths,
            lengths.slice,
            &lengths_range,
            "the output",
            data,
            &data_range,
        )?;
        let buffers = Buffers {
            input: data.buffer(),
            lengths: lengths.slice.buffer(),
            output: data.buffer(),
            offsets: Offsets {
                input: data.offset(),
                lengths: lengths.slice.offset(),
                output: data.offset(),
            },
        };
        self.bind_motion(Motion::Swap, layout, shared, &buffers)
    }

    pub(super) fn lengths_range(&self, lengths: LengthsSlice<'_>) -> Result<Range<u64>, Error> {
        let bytes = self.plan.lengths_count() * lengths.data_type.size();
        range(Tensor::SequenceLengths, lengths.slice, bytes)
    }

    pub(super) fn bind_motion(
        &self,
        motion: Motion,
        layout: LengthsLayout,
        shared: bool,
        buffers: &Buffers<'_>,
    ) -> Result<Bound, Error> {
        let Some(nest) = Nest::new(&self.plan, motion) else {
            return Ok(Bound::default());
        };
        let alignment = Limits::new(self.context.limits()).alignment();
        let offsets = buffers.offsets;
        let past = Offsets {
            input: offsets.input % alignment,
            lengths: offsets.lengths % alignment,
            output: offsets.output % alignment,
        };
        let key = Key {
            motion,
            offsets: past,
            layout,
            shared,
        };
        let mut cache = lock(&self.prepared);
        let prepared = match cache.get(&key) {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let prepared = Arc::new(self.prepare(&nest, &key)?);
                if cache.len() >= PREPARED {
                    cache.clear();
                }
                cache.insert(key, Arc::clone(&prepared));
                prepared
            }
        };
        drop(cache);
        let starts = Offsets {
            input: offsets.input - past.input,
            lengths: offsets.lengths - past.lengths,
            output: offsets.output - past.output,
        };
        self.bind_prepared(&prepared, buffers, &starts)
    }

    /// All dispatches of a motion whose tensors start at the key's offsets.
    fn prepare(&self, nest: &Nest, key: &Key) -> Result<Vec<BoundDispatch>, Error> {
        let builder = self.builder(nest, key.layout, &key.offsets, Offsets::default());
        let mut prepared = Vec::new();
        for dispatch in builder.dispatches(Slab::whole(nest), &key.offsets)? {
            prepared.push(self.prepare_one(nest, key.shared, dispatch)?);
        }
        if key.motion == Motion::Check {
            // Once all lengths are counted, the one that came first is looked up.
            for index in 0..prepared.len() {
                let dispatch = Dispatch {
                    kernel: Kernel::ReportLength,
                    workgroups: (1, 1, 1),
                    ..prepared[index].dispatch.clone()
                };
                prepared.push(self.prepare_one(nest, key.shared, dispatch)?);
            }
        }
        Ok(prepared)
    }

    /// The builder of dispatches for tensors at these offsets, minus the bytes
    /// before them that are missing from the buffers.
    pub(super) fn builder<'a>(
        &self,
        nest: &'a Nest,
        layout: LengthsLayout,
        offsets: &Offsets,
        missing: Offsets,
    ) -> Builder<'a> {
        Builder {
            nest,
            limits: Limits::new(self.context.limits()),
            missing,
            layout,
            // Checked when the pass was made.
            axis_size: self.plan.axis_size() as u32,
            unit_bytes: unit_bytes(nest, offsets),
        }
    }

    pub(super) fn prepare_one(
        &self,
        nest: &Nest,
        shared: bool,
        dispatch: Dispatch,
    ) -> Result<BoundDispatch, Error> {
        let uses_units = matches!(dispatch.kernel, Kernel::CopyUnits | Kernel::SwapUnits);
        let variant = Variant {
            kernel: dispatch.kernel,
            unit_bytes: if uses_units {
                dispatch.unit_bytes as usize
            } else {
                4
            },
            shared: shared && nest.motion != Motion::Check,
            apart: dispatch.apart,
        };
        let pipeline = self.context.pipeline(variant)?;
        let bytes: Vec<u8> = dispatch
            .params
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let params = self.context.catch("making a buffer of parameters", || {
            let buffer = self
                .context
                .device()
                .create_buffer(&wgpu::BufferDescriptor {
                    label: Some("revseq parameters"),
                    size: bytes.len() as u64,
                    usage: wgpu::BufferUsages::UNIFORM,
                    mapped_at_creation: true,
                });
            // A buffer that could not be made is not mapped; the error is caught outside.
            if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
                view.copy_from_slice(&bytes);
            }
            buffer.unmap();
            buffer
        })?;
        Ok(BoundDispatch {
            dispatch,
            pipeline,
            params,
        })
    }

    pub(super) fn bind_prepared(
        &self,
        prepared: &[BoundDispatch],
        buffers: &Buffers<'_>,
        starts: &Offsets,
    ) -> Result<Bound, Error> {
        let device = self.context.device();
        let dispatches = self.context.catch("binding buffers", || {
            prepared
                .iter()
                .map(|prepared| {
                    let dispatch = &prepared.dispatch;
                    let mut entries = vec![
                        wgpu::BindGroupEntry {
                            binding: 0,
                            resource: prepared.params.as_entire_binding(),
                        },
                        entry(1, buffers.lengths, starts.lengths, &dispatch.lengths),
                    ];
                    if dispatch.kernel.is_copy() || dispatch.apart {
                        entries.push(entry(2, buffers.input, starts.input, &dispatch.input));
                    }
                    entries.push(entry(3, buffers.output, starts.output, &dispatch.output));
                    let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                        label: Some("revseq"),
                        layout: &prepared.pipeline.get_bind_group_layout(0),
                        entries: &entries,
                    });
                    (prepared.pipeline.clone(), bind_group, dispatch.workgroups)
                })
                .collect()
        })?;
        Ok(Bound { dispatches })
    }
}

fn entry<'a>(
    binding: u32,
    buffer: &'a wgpu::Buffer,
    start: u64,
    window: &Window,
) -> wgpu::BindGroupEntry<'a> {
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer,
            offset: start + window.offset,
            size: std::num::NonZeroU64::new(window.bytes),
        }),
    }
}

/// The most bytes of which everything is a multiple: rows, steps and offsets.
fn unit_bytes(nest: &Nest, offsets: &Offsets) -> u64 {
    let steps = nest
        .loops
        .iter()
        .chain([&nest.time])
        .fold(nest.row_bytes, |all, round| {
            all | round.input | round.output
        });
    let all = steps as u64 | offsets.input | offsets.output | 16;
    1 << all.trailing_zeros()
}
