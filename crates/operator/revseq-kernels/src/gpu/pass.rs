//! The operator in a command encoder of the caller's.

use super::buffers::{Buffers, LengthsSlice};
use super::params::{Builder, Dispatch, Limits, Offsets, Window};
use super::shader::{Kernel, Variant};
use super::slabs::{Motion, Nest, dispatches};
use super::{Context, Error};
use crate::Plan;

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
}

/// A pipeline, its bindings and the workgroups.
type BoundDispatch = (wgpu::ComputePipeline, wgpu::BindGroup, (u32, u32, u32));

/// The operator with its buffers: ready to be recorded any number of times.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    dispatches: Vec<BoundDispatch>,
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
        let Some(nest) = Nest::new(&self.plan, motion) else {
            return Ok(Bound::default());
        };
        let builder = Builder {
            nest: &nest,
            limits: Limits::new(self.context.limits()),
            offsets: buffers.offsets,
            layout: buffers.layout,
            // Checked when the pass was made.
            axis_size: self.plan.axis_size() as u32,
            unit_bytes: unit_bytes(&nest, &buffers.offsets),
        };
        let mut dispatches = dispatches(&nest, |slab| builder.dispatch(slab))?;
        if motion == Motion::Check {
            // Once all lengths are counted, the one that came first is looked up.
            let reports = dispatches.clone().into_iter().map(|check| Dispatch {
                kernel: Kernel::ReportLength,
                workgroups: (1, 1, 1),
                ..check
            });
            dispatches.extend(reports.collect::<Vec<_>>());
        }
        let shared = buffers.shared && motion != Motion::Check;
        let bound = dispatches.iter().map(|it| self.bound(it, buffers, shared));
        Ok(Bound {
            dispatches: bound.collect::<Result<_, _>>()?,
        })
    }

    /// A dispatch with its pipeline and bindings.
    fn bound(
        &self,
        dispatch: &Dispatch,
        buffers: &Buffers<'_>,
        shared: bool,
    ) -> Result<BoundDispatch, Error> {
        let uses_units = matches!(dispatch.kernel, Kernel::CopyUnits | Kernel::SwapUnits);
        let pipeline = self.context.pipeline(Variant {
            kernel: dispatch.kernel,
            unit_bytes: if uses_units {
                dispatch.unit_bytes as usize
            } else {
                4
            },
            shared,
            apart: dispatch.apart,
        })?;
        let params = self.context.buffer_of(
            "making a buffer of parameters",
            wgpu::BufferUsages::UNIFORM,
            bytemuck::cast_slice(&dispatch.params),
        )?;
        let bind_group = self.context.catch("binding buffers", || {
            let mut entries = vec![
                wgpu::BindGroupEntry {
                    binding: 0,
                    resource: params.as_entire_binding(),
                },
                entry(1, buffers.lengths, &dispatch.lengths),
            ];
            if dispatch.kernel.is_copy() || dispatch.apart {
                entries.push(entry(2, buffers.input, &dispatch.input));
            }
            entries.push(entry(3, buffers.output, &dispatch.output));
            let device = self.context.device();
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("revseq"),
                layout: &pipeline.get_bind_group_layout(0),
                entries: &entries,
            })
        })?;
        Ok((pipeline, bind_group, dispatch.workgroups))
    }
}

fn entry<'a>(binding: u32, buffer: &'a wgpu::Buffer, window: &Window) -> wgpu::BindGroupEntry<'a> {
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer,
            offset: window.offset,
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
