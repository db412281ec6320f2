//! `revseq::ReverseSubsequences` as custom ops: its schema for every session,
//! and its kernel on the CPU EP for sessions without this EP.
//!
//! ONNX Runtime merges custom ops of one name into one schema, so there is one
//! for each type of lengths; the data may be of any type.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use ort_sys::{
    ONNXTensorElementDataType, OrtApi, OrtCustomOp, OrtCustomOpDomain,
    OrtCustomOpInputOutputCharacteristic, OrtKernelContext, OrtKernelInfo, OrtMemType,
    OrtShapeInferContext, OrtStatusPtr,
};

use super::error::Error;
use super::kernel::Kernel;
use crate::plugin::abi::API_VERSION;
use crate::plugin::host::{Host, ort, ort_try};
use crate::plugin::node::TypeAndSizes;
use crate::plugin::{fence, kernel};

/// The domain's name, as revseq-graph has it.
pub(crate) const DOMAIN: &CStr = c"revseq";
/// The operator's name.
pub(crate) const OP_TYPE: &CStr = c"ReverseSubsequences";

/// The types of lengths.
const LENGTHS: [ONNXTensorElementDataType; 4] = [
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
];

/// The domain with its custom ops, for a host; released when dropped.
pub(crate) struct Domain {
    host: Host,
    domain: *mut OrtCustomOpDomain,
    /// The custom ops, out of a box; the domain points to them.
    ops: *mut [CustomOp; LENGTHS.len()],
}

// SAFETY: a domain is not changed once it is made.
unsafe impl Send for Domain {}

impl Domain {
    pub(crate) fn new(host: Host) -> Result<Self, Error> {
        let mut domain = ptr::null_mut();
        // SAFETY: the domain that comes back is this struct's, which keeps the
        // ops that it points to.
        unsafe {
            ort_try!(host, CreateCustomOpDomain(DOMAIN.as_ptr(), &raw mut domain));
            let ops = Box::new(LENGTHS.map(|lengths| CustomOp::new(host, lengths)));
            let made = Self {
                host,
                domain,
                ops: Box::into_raw(ops),
            };
            for index in 0..LENGTHS.len() {
                let op = made.ops.cast::<CustomOp>().add(index);
                ort_try!(host, CustomOpDomain_Add(domain, op.cast()));
            }
            Ok(made)
        }
    }

    pub(crate) fn host(&self) -> Host {
        self.host
    }

    pub(crate) fn as_ptr(&self) -> *mut OrtCustomOpDomain {
        self.domain
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: the domain and its ops are this struct's. The host requires that no
        // session uses them when the library is unregistered.
        unsafe {
            ort!(self.host, ReleaseCustomOpDomain(self.domain));
            drop(Box::from_raw(self.ops));
        }
    }
}

/// A custom op for one type of lengths.
#[repr(C)]
struct CustomOp {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtCustomOp,
    host: Host,
    lengths: ONNXTensorElementDataType,
}

impl CustomOp {
    fn new(host: Host, lengths: ONNXTensorElementDataType) -> Self {
        let table = OrtCustomOp {
            version: API_VERSION,
            CreateKernel: None,
            GetName: Some(get_name),
            GetExecutionProviderType: Some(get_execution_provider_type),
            GetInputType: Some(get_input_type),
            GetInputTypeCount: Some(get_input_type_count),
            GetOutputType: Some(get_output_type),
            GetOutputTypeCount: Some(get_output_type_count),
            KernelCompute: None,
            KernelDestroy: Some(kernel_destroy),
            GetInputCharacteristic: Some(get_characteristic),
            GetOutputCharacteristic: Some(get_characteristic),
            GetInputMemoryType: Some(get_input_memory_type),
            GetVariadicInputMinArity: None,
            GetVariadicInputHomogeneity: None,
            GetVariadicOutputMinArity: None,
            GetVariadicOutputHomogeneity: None,
            CreateKernelV2: Some(create_kernel),
            KernelComputeV2: Some(kernel_compute),
            InferOutputShapeFn: Some(infer_output_shape),
            GetStartVersion: Some(get_version),
            GetEndVersion: Some(get_version),
            GetMayInplace: Some(get_may_inplace),
            ReleaseMayInplace: Some(release_may_inplace),
            GetAliasMap: None,
            ReleaseAliasMap: None,
        };
        Self {
            table,
            host,
            lengths,
        }
    }
}

/// # Safety
/// `op` is one of this module.
unsafe fn custom_op<'a>(op: *const OrtCustomOp) -> &'a CustomOp {
    // SAFETY: the caller's; the table is the first field of a `CustomOp`.
    unsafe { &*op.cast() }
}

unsafe extern "system" fn get_name(_: *const OrtCustomOp) -> *const c_char {
    OP_TYPE.as_ptr()
}

unsafe extern "system" fn get_execution_provider_type(_: *const OrtCustomOp) -> *const c_char {
    // Null is the CPU EP. Where this EP takes the node, its own kernel runs.
    ptr::null()
}

unsafe extern "system" fn get_input_type(
    op: *const OrtCustomOp,
    index: usize,
) -> ONNXTensorElementDataType {
    match index {
        // The host says «any type» thus.
        0 => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED,
        // SAFETY: the host calls an op's functions with that op.
        _ => unsafe { custom_op(op) }.lengths,
    }
}

unsafe extern "system" fn get_input_type_count(_: *const OrtCustomOp) -> usize {
    2
}

unsafe extern "system" fn get_output_type(
    _: *const OrtCustomOp,
    _: usize,
) -> ONNXTensorElementDataType {
    ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
}

unsafe extern "system" fn get_output_type_count(_: *const OrtCustomOp) -> usize {
    1
}

unsafe extern "system" fn get_characteristic(
    _: *const OrtCustomOp,
    _: usize,
) -> OrtCustomOpInputOutputCharacteristic {
    OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED
}

unsafe extern "system" fn get_input_memory_type(_: *const OrtCustomOp, _: usize) -> OrtMemType {
    OrtMemType::OrtMemTypeDefault
}

unsafe extern "system" fn get_version(_: *const OrtCustomOp) -> c_int {
    1
}

/// The data's position among the inputs, and the output's: one buffer may be both.
static IN_PLACE: [c_int; 2] = [0, 0];

unsafe extern "system" fn get_may_inplace(
    inputs: *mut *mut c_int,
    outputs: *mut *mut c_int,
) -> usize {
    // SAFETY: the host passes places for two lists, which it only reads.
    unsafe {
        *inputs = (&raw const IN_PLACE[0]).cast_mut();
        *outputs = (&raw const IN_PLACE[1]).cast_mut();
    }
    1
}

unsafe extern "system" fn release_may_inplace(_: *mut c_int, _: *mut c_int) {
    // They are constants.
}

unsafe extern "system" fn infer_output_shape(
    op: *const OrtCustomOp,
    context: *mut OrtShapeInferContext,
) -> OrtStatusPtr {
    // SAFETY: the host calls an op's functions with that op.
    let host = unsafe { custom_op(op) }.host;
    fence::status(host, || {
        fence::fault("infer");
        let mut data = ptr::null_mut();
        // SAFETY: the context is the host's; the type that comes back stays its own.
        unsafe {
            ort_try!(
                host,
                ShapeInferContext_GetInputTypeShape(context, 0, &raw mut data)
            );
            let TypeAndSizes { sizes, names, .. } = TypeAndSizes::read_tensor(host, data)?;
            let sizes = sizes.unwrap_or_default();
            let mut dimensions = sizes.iter().zip(names);
            // An output's dimension can be given a size or a name. The host
            // takes one that has neither for one of size -1, so the shape is
            // then left unknown.
            let all_known = dimensions.all(|(&size, name)| size >= 0 || !name.is_empty());
            // The host shows a tensor of unknown rank as one of rank 0, which the data never has.
            if !sizes.is_empty() && all_known {
                ort_try!(host, ShapeInferContext_SetOutputTypeShape(context, 0, data));
            }
        }
        Ok::<(), Error>(())
    })
}

unsafe extern "system" fn create_kernel(
    op: *const OrtCustomOp,
    _: *const OrtApi,
    info: *const OrtKernelInfo,
    out: *mut *mut c_void,
) -> OrtStatusPtr {
    // SAFETY: the host calls an op's functions with that op.
    let host = unsafe { custom_op(op) }.host;
    // SAFETY: the host makes a kernel from the info, passes a place for it, and
    // passes it to `kernel_destroy`.
    unsafe { kernel::make(host, info, out.cast(), Kernel::of_custom_op) }
}

unsafe extern "system" fn kernel_compute(
    kernel: *mut c_void,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    // SAFETY: the host passes a kernel that `create_kernel` made, and the context of its run.
    unsafe { kernel::compute::<Kernel>(kernel.cast(), context) }
}

unsafe extern "system" fn kernel_destroy(kernel: *mut c_void) {
    // SAFETY: the host passes a kernel that `create_kernel` made, once.
    unsafe { kernel::release::<Kernel>(kernel.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_graph_crate() {
        assert_eq!(DOMAIN.to_str(), Ok(revseq_graph::DOMAIN));
        let operator = revseq_graph::Operator::ReverseSubsequences { axis: 0 };
        assert_eq!(OP_TYPE.to_str(), Ok(operator.op_type()));
    }
}
