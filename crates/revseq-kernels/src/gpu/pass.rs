//! The operator in a command encoder of the caller's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::buffers::{Buffers, LengthsSlice};
use super::params::{Builder, Dispatch, Limits, Offsets, PARAMS_BYTES, Window};
use super::shader::{Kernel, Variant};
use super::slabs::{LengthsLayout, Motion, Nest, Slab, slabs};
use super::sync::lock;
use super::{Context, Error};
use crate::Plan;

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
    prepared: Mutex<HashMap<Key, Arc<[Prepared]>>>,
}

/// What the dispatches of a part of a plan depend on.
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
struct Prepared {
    dispatch: Dispatch,
    pipeline: wgpu::ComputePipeline,
    params: wgpu::Buffer,
}

/// The operator with its buffers: ready to be recorded any number of times.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    dispatches: Vec<(wgpu::ComputePipeline, wgpu::BindGroup, (u32, u32, u32))>,
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
        let written = (output, self.plan.output_bytes());
        let buffers = Buffers::new(&self.plan, Some(input), lengths, "the output", written)?;
        self.bind_motion(Motion::Copy, &buffers)
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
        let written = (data, self.plan.output_bytes());
        let buffers = Buffers::new(&self.plan, None, lengths, "the output", written)?;
        self.bind_motion(Motion::Swap, &buffers)
    }

    pub(super) fn bind_motion(
        &self,
        motion: Motion,
        buffers: &Buffers<'_>,
    ) -> Result<Bound, Error> {
        match Nest::new(&self.plan, motion) {
            Some(nest) => self.bind_slab(&nest, Slab::whole(&nest), buffers),
            None => Ok(Bound::default()),
        }
    }

    /// Binds buffers for all dispatches of a slab.
    pub(super) fn bind_slab(
        &self,
        nest: &Nest,
        slab: Slab,
        buffers: &Buffers<'_>,
    ) -> Result<Bound, Error> {
        let alignment = Limits::new(self.context.limits()).alignment();
        let key = Key {
            motion: nest.motion,
            offsets: buffers.offsets.map(|offset| offset.rem_euclid(alignment)),
            layout: buffers.layout,
            shared: buffers.shared,
        };
        let prepared = match slab == Slab::whole(nest) {
            true => self.prepared(nest, key)?,
            false => self.prepare(nest, slab, &key)?,
        };
        let device = self.context.device();
        let dispatches = self.context.catch("binding buffers", || {
            let bound = prepared.iter().map(|prepared| {
                let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some("revseq"),
                    layout: &prepared.pipeline.get_bind_group_layout(0),
                    entries: &prepared.entries(buffers, &key.offsets),
                });
                let workgroups = prepared.dispatch.workgroups;
                (prepared.pipeline.clone(), bind_group, workgroups)
            });
            bound.collect()
        })?;
        Ok(Bound { dispatches })
    }

    /// The dispatches of a whole motion, prepared by its first caller.
    fn prepared(&self, nest: &Nest, key: Key) -> Result<Arc<[Prepared]>, Error> {
        let mut cache = lock(&self.prepared);
        if let Some(prepared) = cache.get(&key) {
            return Ok(Arc::clone(prepared));
        }
        let prepared = self.prepare(nest, Slab::whole(nest), &key)?;
        if cache.len() >= PREPARED {
            cache.clear();
        }
        cache.insert(key, Arc::clone(&prepared));
        Ok(prepared)
    }

    /// All dispatches of a slab of tensors that start at the key's offsets.
    fn prepare(&self, nest: &Nest, slab: Slab, key: &Key) -> Result<Arc<[Prepared]>, Error> {
        let builder = Builder {
            nest,
            limits: Limits::new(self.context.limits()),
            offsets: key.offsets,
            layout: key.layout,
            // Checked when the pass was made.
            axis_size: self.plan.axis_size() as u32,
            unit_bytes: unit_bytes(nest, &key.offsets),
        };
        let made = slabs(nest, slab, |slab| builder.dispatch(slab))?;
        let mut dispatches: Vec<_> = made.into_iter().map(|(_, dispatch)| dispatch).collect();
        if key.motion == Motion::Check {
            // Once all lengths are counted, the one that came first is looked up.
            let reports = dispatches.clone().into_iter().map(|check| Dispatch {
                kernel: Kernel::ReportLength,
                workgroups: (1, 1, 1),
                ..check
            });
            dispatches.extend(reports.collect::<Vec<_>>());
        }
        let prepared = dispatches.into_iter().map(|it| self.prepare_one(key, it));
        prepared.collect()
    }

    fn prepare_one(&self, key: &Key, dispatch: Dispatch) -> Result<Prepared, Error> {
        let uses_units = matches!(dispatch.kernel, Kernel::CopyUnits | Kernel::SwapUnits);
        let pipeline = self.context.pipeline(Variant {
            kernel: dispatch.kernel,
            unit_bytes: if uses_units {
                dispatch.unit_bytes as usize
            } else {
                4
            },
            shared: key.shared && key.motion != Motion::Check,
            apart: dispatch.apart,
        })?;
        let params = self.context.catch("making a buffer of parameters", || {
            let device = self.context.device();
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("revseq parameters"),
                size: PARAMS_BYTES as u64,
                usage: wgpu::BufferUsages::UNIFORM,
                mapped_at_creation: true,
            });
            // A buffer that could not be made is not mapped; the error is caught outside.
            if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
                view.copy_from_slice(bytemuck::cast_slice(&dispatch.params));
            }
            buffer.unmap();
            buffer
        })?;
        Ok(Prepared {
            dispatch,
            pipeline,
            params,
        })
    }
}

impl Prepared {
    /// The bindings of buffers, for tensors whose offsets have these remainders.
    fn entries<'a>(
        &'a self,
        buffers: &Buffers<'a>,
        remainders: &Offsets,
    ) -> Vec<wgpu::BindGroupEntry<'a>> {
        let (dispatch, offsets) = (&self.dispatch, &buffers.offsets);
        let [input, lengths, output] = [
            offsets.input - remainders.input,
            offsets.lengths - remainders.lengths,
            offsets.output - remainders.output,
        ];
        let mut entries = vec![
            wgpu::BindGroupEntry {
                binding: 0,
                resource: self.params.as_entire_binding(),
            },
            entry(1, buffers.lengths, lengths, &dispatch.lengths),
        ];
        if dispatch.kernel.is_copy() || dispatch.apart {
            entries.push(entry(2, buffers.input, input, &dispatch.input));
        }
        entries.push(entry(3, buffers.output, output, &dispatch.output));
        entries
    }
}

fn entry<'a>(
    binding: u32,
    buffer: &'a wgpu::Buffer,
    start: i64,
    window: &Window,
) -> wgpu::BindGroupEntry<'a> {
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer,
            offset: window.offset.wrapping_add_signed(start),
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
    let all = steps as u64 | (offsets.input | offsets.output).cast_unsigned() | 16;
    1 << all.trailing_zeros()
}
