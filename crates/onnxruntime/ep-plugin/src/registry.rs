//! The registry of the kernels that an EP has.

use std::ffi::{CStr, c_int};
use std::ptr;

use ort_sys::ONNXTensorElementDataType as ElementType;

use super::abi::{OrtDataType, OrtKernelDefBuilder, OrtKernelRegistry};
use super::error::Error;
use super::host::{Host, Owned, ort_own, ort_status, ort_try};
use super::kernel::{self, Kernel};

/// The schemas that a kernel serves.
pub struct Registration {
    /// The domain of the operator.
    pub domain: &'static CStr,
    /// The operator.
    pub op_type: &'static CStr,
    /// The first and the last `since_version`.
    pub since_versions: (c_int, c_int),
    /// A type parameter and the types that it may be, each by its
    /// `ONNXTensorElementDataType`. A custom op's schema has no parameters.
    pub types: Option<(&'static CStr, Vec<c_int>)>,
    /// An input and an output that may be one buffer, if nobody else reads the input.
    pub in_place: Option<(c_int, c_int)>,
}

impl Registration {
    /// An operator's first version, with any types, not in place.
    pub fn new(domain: &'static CStr, op_type: &'static CStr) -> Self {
        Self {
            domain,
            op_type,
            since_versions: (1, 1),
            types: None,
            in_place: None,
        }
    }
}

/// The registry of the EP's kernels.
pub struct Registry {
    host: Host,
    registry: Owned<OrtKernelRegistry>,
}

impl Registry {
    /// A registry without kernels.
    pub fn new(host: Host) -> Result<Self, Error> {
        // SAFETY: the host copies the parts of a registry that it needs.
        let registry =
            unsafe { ort_own!(host, ep CreateKernelRegistry() => ReleaseKernelRegistry) };
        Ok(Self { host, registry })
    }

    /// Registers a type of kernels.
    pub fn add<K: Kernel>(
        &self,
        ep_name: &CStr,
        registrations: &[Registration],
    ) -> Result<(), Error> {
        for registration in registrations {
            let builder = Builder::new(self.host)?;
            builder.describe(ep_name, registration)?;
            builder.add_to::<K>(self)?;
        }
        Ok(())
    }

    /// The host's registry.
    pub fn as_ptr(&self) -> *const OrtKernelRegistry {
        self.registry.as_ptr()
    }
}

/// The types of complex numbers.
const COMPLEX: [c_int; 2] = [
    ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 as c_int,
    ElementType::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128 as c_int,
];

/// A kernel definition in the making.
struct Builder {
    host: Host,
    builder: Owned<OrtKernelDefBuilder>,
}

impl Builder {
    fn new(host: Host) -> Result<Self, Error> {
        // SAFETY: the builder that comes back is this struct's.
        let builder =
            unsafe { ort_own!(host, ep CreateKernelDefBuilder() => ReleaseKernelDefBuilder) };
        Ok(Self { host, builder })
    }

    fn describe(&self, ep_name: &CStr, registration: &Registration) -> Result<(), Error> {
        let (host, builder) = (self.host, self.builder.as_ptr());
        let (start, end) = registration.since_versions;
        // SAFETY: the builder is this struct's; the host copies strings and numbers.
        unsafe {
            ort_try!(host, ep KernelDefBuilder_SetOperatorType(builder, registration.op_type.as_ptr()));
            ort_try!(host, ep KernelDefBuilder_SetDomain(builder, registration.domain.as_ptr()));
            ort_try!(host, ep KernelDefBuilder_SetSinceVersion(builder, start, end));
            ort_try!(host, ep KernelDefBuilder_SetExecutionProvider(builder, ep_name.as_ptr()));
        }
        if let Some((input, output)) = registration.in_place {
            // SAFETY: as above.
            unsafe {
                ort_try!(
                    host,
                    ep KernelDefBuilder_AddInputOutputMutableAliases(builder, &raw const input, &raw const output, 1)
                );
            }
        }
        let Some((parameter, elements)) = &registration.types else {
            return Ok(());
        };
        let mut types: Vec<*const OrtDataType> = Vec::new();
        for &element in elements {
            let mut out = ptr::null();
            // SAFETY: the result is a place for a constant of the host's.
            let status = unsafe { ort_status!(host, ep GetTensorDataType(element, &raw mut out)) };
            match host.check("GetTensorDataType", status) {
                Ok(()) => types.push(out),
                // ONNX Runtime has no tensors of complex numbers; one that has, gets them.
                Err(_) if COMPLEX.contains(&element) => {}
                Err(error) => return Err(error),
            }
        }
        // SAFETY: as above; the types are the host's own constants.
        unsafe {
            ort_try!(
                host,
                ep KernelDefBuilder_AddTypeConstraint(builder, parameter.as_ptr(), types.as_ptr(), types.len())
            );
        }
        Ok(())
    }

    fn add_to<K: Kernel>(self, registry: &Registry) -> Result<(), Error> {
        let (host, builder) = (self.host, self.builder.as_ptr());
        // The kernels' state, from which `create` has its host.
        let api = host.api.cast_mut().cast();
        // SAFETY: the host copies the definition; its table outlives its kernels.
        unsafe {
            let definition = ort_own!(host, ep KernelDefBuilder_Build(builder) => ReleaseKernelDef);
            let (registry, definition) = (registry.registry.as_ptr(), definition.as_ptr());
            ort_try!(host, ep KernelRegistry_AddKernel(registry, definition, kernel::create::<K>, api));
        }
        Ok(())
    }
}
