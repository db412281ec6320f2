//! Which kernels the EP has.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use revseq_graph::ElementType;
use revseq_kernels::DataType;

use crate::plugin::abi::{
    OrtDataType, OrtKernelCreateFunc, OrtKernelDefBuilder, OrtKernelRegistry,
};
use crate::plugin::host::{Host, ort, ort_status, ort_try};
use crate::provider::error::Error;

/// A kernel and the schemas that it serves.
struct Registration {
    domain: &'static CStr,
    op_type: &'static CStr,
    /// The first and the last `since_version` of its schemas.
    since_versions: (c_int, c_int),
    /// The data's type parameter in the schema, and whether bfloat16 is among
    /// its types. A custom op's schema has no parameters.
    types: Option<(&'static CStr, bool)>,
}

/// The schemas of ReverseSequence (onnx/defs/tensor/defs.cc) and our own.
const REGISTRATIONS: [Registration; 3] = [
    Registration {
        domain: c"",
        op_type: c"ReverseSequence",
        since_versions: (10, 27),
        types: Some((c"T", false)),
    },
    Registration {
        domain: c"",
        op_type: c"ReverseSequence",
        since_versions: (28, 28),
        types: Some((c"T", true)),
    },
    Registration {
        domain: crate::provider::custom_op::DOMAIN,
        op_type: crate::provider::custom_op::OP_TYPE,
        since_versions: (1, 1),
        types: None,
    },
];

/// The registry of the EP's kernels; released when dropped.
pub(crate) struct Registry {
    host: Host,
    registry: *mut OrtKernelRegistry,
}

impl Registry {
    /// Registers all kernels, each made by `create` with `state`.
    ///
    /// # Safety
    /// `create` may be called with `state` as long as this lives and whatever
    /// the host makes from it.
    pub(crate) unsafe fn new(
        host: Host,
        create: OrtKernelCreateFunc,
        state: *mut c_void,
    ) -> Result<Self, Error> {
        let mut registry = ptr::null_mut();
        // SAFETY: the registry that comes back is this struct's.
        unsafe { ort_try!(host, ep CreateKernelRegistry(&raw mut registry)) };
        let registry = Self { host, registry };
        for registration in &REGISTRATIONS {
            let builder = Builder::new(host)?;
            builder.describe(registration)?;
            // SAFETY: the caller's.
            unsafe { builder.add_to(registry.registry, create, state)? };
        }
        Ok(registry)
    }

    pub(crate) fn as_ptr(&self) -> *const OrtKernelRegistry {
        self.registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // SAFETY: the registry is this struct's; the host copies what it needs of it.
        unsafe { ort!(self.host, ep ReleaseKernelRegistry(self.registry)) };
    }
}

/// A kernel definition in the making; released when dropped.
struct Builder {
    host: Host,
    builder: *mut OrtKernelDefBuilder,
}

impl Builder {
    fn new(host: Host) -> Result<Self, Error> {
        let mut builder = ptr::null_mut();
        // SAFETY: the builder that comes back is this struct's.
        unsafe { ort_try!(host, ep CreateKernelDefBuilder(&raw mut builder)) };
        Ok(Self { host, builder })
    }

    fn describe(&self, registration: &Registration) -> Result<(), Error> {
        let (host, builder) = (self.host, self.builder);
        let (start, end) = registration.since_versions;
        // The data's buffer may become the output's if nobody else reads it.
        let (input, output): (c_int, c_int) = (0, 0);
        // SAFETY: the builder is this struct's; the host copies strings and numbers.
        unsafe {
            ort_try!(host, ep KernelDefBuilder_SetOperatorType(builder, registration.op_type.as_ptr()));
            ort_try!(host, ep KernelDefBuilder_SetDomain(builder, registration.domain.as_ptr()));
            ort_try!(host, ep KernelDefBuilder_SetSinceVersion(builder, start, end));
            ort_try!(host, ep KernelDefBuilder_SetExecutionProvider(builder, crate::EP_NAME.as_ptr()));
            ort_try!(
                host,
                ep KernelDefBuilder_AddInputOutputMutableAliases(builder, &raw const input, &raw const output, 1)
            );
        }
        let Some((parameter, bfloat16)) = registration.types else {
            return Ok(());
        };
        let mut types: Vec<*const OrtDataType> = Vec::new();
        for data_type in DataType::ALL {
            if data_type == DataType::Bfloat16 && !bfloat16 {
                continue;
            }
            let mut out = ptr::null();
            let code = ElementType::from(data_type).onnx_code();
            // SAFETY: an `ONNXTensorElementDataType` has ONNX's code.
            let status = unsafe { ort_status!(host, ep GetTensorDataType(code, &raw mut out)) };
            match host.check("GetTensorDataType", status) {
                Ok(()) => types.push(out),
                // ONNX Runtime has no tensors of complex numbers; one that has, gets them.
                Err(_) if matches!(data_type, DataType::Complex64 | DataType::Complex128) => {}
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

    /// # Safety
    /// As [`Registry::new`]; `registry` is one of this host.
    unsafe fn add_to(
        self,
        registry: *mut OrtKernelRegistry,
        create: OrtKernelCreateFunc,
        state: *mut c_void,
    ) -> Result<(), Error> {
        let mut definition = ptr::null_mut();
        // SAFETY: the caller's; the host copies the definition, which is
        // this function's and is released.
        unsafe {
            ort_try!(self.host, ep KernelDefBuilder_Build(self.builder, &raw mut definition));
            let added = self.host.check(
                "KernelRegistry_AddKernel",
                ort_status!(self.host, ep KernelRegistry_AddKernel(registry, definition, create, state)),
            );
            ort!(self.host, ep ReleaseKernelDef(definition));
            added
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        // SAFETY: the builder is this struct's.
        unsafe { ort!(self.host, ep ReleaseKernelDefBuilder(self.builder)) };
    }
}

#[cfg(test)]
mod tests {
    use ort_sys::ONNXTensorElementDataType as Host;

    use super::*;

    #[test]
    fn the_hosts_element_types_have_onnxs_codes() {
        let hosts = [
            (DataType::Float32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
            (
                DataType::Float16,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
            ),
            (DataType::Uint32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32),
            (DataType::Uint16, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16),
            (DataType::Uint8, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8),
            (DataType::Int32, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32),
            (DataType::Int16, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16),
            (DataType::Int8, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8),
            (
                DataType::Float64,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
            ),
            (DataType::Uint64, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64),
            (DataType::Int64, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
            (DataType::Bool, Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL),
            (
                DataType::Bfloat16,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
            ),
            (
                DataType::Complex64,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64,
            ),
            (
                DataType::Complex128,
                Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128,
            ),
        ];
        assert_eq!(hosts.map(|(data_type, _)| data_type), DataType::ALL);
        for (data_type, host) in hosts {
            assert_eq!(ElementType::from(data_type).onnx_code(), host as c_int);
        }
        let string = Host::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING as c_int;
        assert_eq!(ElementType::String.onnx_code(), string);
    }
}
