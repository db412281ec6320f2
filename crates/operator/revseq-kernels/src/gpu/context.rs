//! A device with its compiled pipelines.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::Error;
use super::adapter::{self, AdapterChoice, AdapterInfo};
use super::shader::Variant;
use super::sync::{lock, ready};

/// Options of a [`Context`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ContextOptions {
    /// The adapter.
    pub adapter: AdapterChoice,
    /// The graphics APIs to look at, of those that this crate was built with.
    pub backends: wgpu::Backends,
    /// Whether to enable timestamp queries, in encoders too, as far as the
    /// adapter has them.
    pub timestamps: bool,
    /// The most bytes of a buffer that one dispatch reaches, if less than the adapter's.
    pub max_binding_bytes: Option<u64>,
    /// The most workgroups of a dispatch in each dimension, if less than the adapter's.
    pub max_workgroups: Option<u32>,
}

/// A device with its compiled kernels.
///
/// Cheap to clone, and shared by any number of threads. Contexts are equal if
/// one is a clone of the other.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    adapter: AdapterInfo,
    limits: wgpu::Limits,
    /// Reason why the device was lost, once it is.
    lost: Arc<OnceLock<String>>,
    pipelines: Mutex<HashMap<Variant, wgpu::ComputePipeline>>,
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Context {}

impl Hash for Context {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.inner).hash(state);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("adapter", &self.inner.adapter)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Creates a context on the adapter that the options choose, with the adapter's limits.
    ///
    /// # Errors
    /// [`Error::NoAdapter`], which lists the adapters, or [`Error::NoDevice`].
    pub fn new(options: &ContextOptions) -> Result<Self, Error> {
        let (info, adapter) = adapter::choose(&options.adapter, options.backends)?;
        let mut limits = adapter.limits();
        limits.max_storage_buffer_binding_size = limits
            .max_storage_buffer_binding_size
            .min(options.max_binding_bytes.unwrap_or(u64::MAX));
        limits.max_compute_workgroups_per_dimension = limits
            .max_compute_workgroups_per_dimension
            .min(options.max_workgroups.unwrap_or(u32::MAX));
        let features = if options.timestamps {
            let timestamps =
                wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
            adapter.features() & timestamps
        } else {
            wgpu::Features::empty()
        };
        let (device, queue) = ready(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("revseq"),
            required_features: features,
            required_limits: limits,
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        }))
        .map_err(|error| Error::NoDevice {
            adapter: info.to_string(),
            reason: error.to_string(),
        })?;
        let context = Self::with_info(device, queue, info);
        let lost = Arc::clone(&context.inner.lost);
        context
            .device()
            .set_device_lost_callback(move |reason, message| {
                // The first reason is the one that counts.
                let _ = lost.set(format!("{reason:?}: {message}"));
            });
        Ok(context)
    }

    /// A context on the caller's device, within the limits that it was created with.
    ///
    /// The device's callbacks stay the caller's: of its loss this context
    /// learns only when something fails.
    #[must_use]
    pub fn from_device(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let (info, limits) = (device.adapter_info(), device.limits());
        let info = AdapterInfo::new(0, info, &limits, device.features());
        Self::with_info(device, queue, info)
    }

    fn with_info(device: wgpu::Device, queue: wgpu::Queue, adapter: AdapterInfo) -> Self {
        let limits = device.limits();
        Self {
            inner: Arc::new(Inner {
                device,
                queue,
                adapter,
                limits,
                lost: Arc::default(),
                pipelines: Mutex::default(),
            }),
        }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.device
    }

    /// The device's queue.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.inner.queue
    }

    /// The adapter; its limits may be higher than the device's.
    #[must_use]
    pub fn adapter(&self) -> &AdapterInfo {
        &self.inner.adapter
    }

    pub(super) fn limits(&self) -> &wgpu::Limits {
        &self.inner.limits
    }

    /// The error of a lost device, if it is.
    pub(super) fn check_lost(&self) -> Result<(), Error> {
        match self.inner.lost.get() {
            None => Ok(()),
            Some(reason) => Err(lost(reason)),
        }
    }

    /// Calls `body` and returns the first error that the device reports for it.
    pub(super) fn catch<T>(
        &self,
        action: &'static str,
        body: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        self.check_lost()?;
        let filters = [
            wgpu::ErrorFilter::Validation,
            wgpu::ErrorFilter::OutOfMemory,
            wgpu::ErrorFilter::Internal,
        ];
        let scopes = filters.map(|filter| self.device().push_error_scope(filter));
        let result = body();
        let mut first = None;
        for scope in scopes.into_iter().rev() {
            first = ready(scope.pop()).or(first);
        }
        self.check_lost()?;
        match first {
            None => Ok(result),
            Some(error) => Err(self.lost_or(reported(action, &error))),
        }
    }

    /// A buffer that begins with these bytes, filled up to a whole word.
    pub(super) fn buffer_of(
        &self,
        action: &'static str,
        usage: wgpu::BufferUsages,
        data: &[u8],
    ) -> Result<wgpu::Buffer, Error> {
        let size = data.len().next_multiple_of(4) as u64;
        let maximum = self.limits().max_buffer_size;
        if size > maximum {
            return Err(Error::UnsupportedSize {
                what: "bytes of a buffer",
                actual: size,
                maximum,
            });
        }
        let filled = self.catch(action, || {
            let buffer = self.device().create_buffer(&wgpu::BufferDescriptor {
                label: Some("revseq"),
                size,
                usage,
                mapped_at_creation: true,
            });
            let mut view = buffer.get_mapped_range_mut(..).ok()?;
            view.slice(..data.len()).copy_from_slice(data);
            drop(view);
            buffer.unmap();
            Some(buffer)
        })?;
        // Other errors were caught above.
        filled.ok_or_else(|| lost("a buffer was not made"))
    }

    /// Replaces an error by that of a lost device, if the device is lost.
    ///
    /// The objects of a lost device become invalid first. wgpu reports the loss only when the
    /// submitted work has ended, and perhaps on another thread.
    #[cold]
    pub(super) fn lost_or(&self, error: Error) -> Error {
        for _ in 0..10 {
            // That nothing can be waited for is no news.
            let _ = self.device().poll(wgpu::PollType::wait_indefinitely());
            if let Err(lost) = self.check_lost() {
                return lost;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        error
    }

    /// The pipeline of a variant, compiled by the first caller.
    pub(super) fn pipeline(&self, variant: Variant) -> Result<wgpu::ComputePipeline, Error> {
        let mut pipelines = lock(&self.inner.pipelines);
        if let Some(pipeline) = pipelines.get(&variant) {
            return Ok(pipeline.clone());
        }
        let pipeline = self.catch("compiling a kernel", || self.compile(variant))?;
        pipelines.insert(variant, pipeline.clone());
        Ok(pipeline)
    }

    fn compile(&self, variant: Variant) -> wgpu::ComputePipeline {
        let device = self.device();
        let label = Some(variant.kernel.entry_point());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label,
            source: wgpu::ShaderSource::Wgsl(Cow::Owned(variant.source())),
        });
        let entries: Vec<_> = bindings(variant)
            .into_iter()
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty,
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label,
            entries: &entries,
        });
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&layout),
            module: &module,
            entry_point: label,
            compilation_options: wgpu::PipelineCompilationOptions {
                // No kernel has memory of a workgroup's own, and all indices are in bounds.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        })
    }
}

/// The error of a device that is lost.
pub(super) fn lost(reason: impl ToString) -> Error {
    let reason = reason.to_string();
    Error::DeviceLost { reason }
}

/// An error that the device reported.
fn reported(action: &'static str, error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => Error::OutOfMemory { action },
        wgpu::Error::Validation { .. } | wgpu::Error::Internal { .. } => Error::Validation {
            action,
            reason: error.to_string(),
        },
    }
}

/// The bindings of a variant, as the shader declares them.
fn bindings(variant: Variant) -> Vec<(u32, wgpu::BufferBindingType)> {
    let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
    let mut bindings = vec![
        (0, wgpu::BufferBindingType::Uniform),
        (1, storage(!variant.shared)),
    ];
    if variant.kernel.is_copy() {
        bindings.push((2, storage(!variant.shared)));
    } else if variant.apart {
        bindings.push((2, storage(false)));
    }
    bindings.push((3, storage(false)));
    bindings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No device that tests run on can be made to run out of memory.
    #[test]
    fn too_little_memory_is_a_separate_error() {
        let error = wgpu::Error::OutOfMemory {
            source: "64 GiB".into(),
        };
        let action = "making a buffer";
        assert_eq!(reported(action, &error), Error::OutOfMemory { action });
    }

    #[test]
    fn contexts_go_from_thread_to_thread() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Context>();
        shared::<crate::gpu::ReverseSubsequencesPass>();
        shared::<crate::gpu::Bound>();
        shared::<Error>();
    }
}
