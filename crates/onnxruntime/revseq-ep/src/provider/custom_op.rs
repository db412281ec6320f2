//! The domain `revseq`: the schemas of its operators for every session.
//!
//! `ReverseSubsequences` has a kernel on the CPU EP as well, for sessions without this EP. ONNX
//! Runtime merges custom ops of one name into one schema, so there is one for each type of lengths;
//! the data may be of any type. Masked layers are for the inner sessions of this EP alone.

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
use crate::plugin::host::{Host, ort, ort_get, ort_try};
use crate::plugin::node::TypeAndSizes;
use crate::plugin::{fence, kernel};

/// The domain's name, as revseq-graph has it.
pub(crate) const DOMAIN: &CStr = c"revseq";
/// The operator's name.
pub(crate) const OP_TYPE: &CStr = c"ReverseSubsequences";

/// The layers with a mask in the place of their lengths, as the rewriter names them, each with its number
/// of inputs and of outputs.
pub(super) const MASKED: [(&CStr, usize, usize); 3] = [
    (c"MaskedLSTM", 8, 3),
    (c"MaskedGRU", 6, 2),
    (c"MaskedRNN", 6, 2),
];
/// The place of the mask among the inputs, and the number of inputs that have to be there.
const MASK: usize = 4;
const REQUIRED: usize = 3;

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
    ops: *mut [CustomOp],
}

// SAFETY: a domain is not changed once it is made.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(crate) fn new(host: Host) -> Result<Self, Error> {
        // SAFETY: the domain that comes back is this struct's, which keeps the
        // ops that it points to.
        unsafe {
            let domain = ort_get!(host, CreateCustomOpDomain(DOMAIN.as_ptr()));
            let reversals = LENGTHS
                .into_iter()
                .map(|lengths| CustomOp::reversal(host, lengths));
            let masked = MASKED.into_iter();
            let masked =
                masked.map(|(name, inputs, outputs)| CustomOp::masked(host, name, inputs, outputs));
            let ops: Box<[CustomOp]> = reversals.chain(masked).collect();
            let made = Self {
                host,
                domain,
                ops: Box::into_raw(ops),
            };
            for index in 0..made.ops.len() {
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

/// A custom op.
#[repr(C)]
struct CustomOp {
    /// The table, first so that a pointer to it is one to the whole.
    table: OrtCustomOp,
    host: Host,
    name: &'static CStr,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
}

/// An input or output.
#[derive(Clone, Copy)]
struct Slot {
    /// Its type; the host says «any type» by UNDEFINED.
    element: ONNXTensorElementDataType,
    is_optional: bool,
}

impl CustomOp {
    /// The operator for lengths of one type.
    fn reversal(host: Host, lengths: ONNXTensorElementDataType) -> Self {
        let any = ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        let [any, lengths] = [any, lengths].map(|element| Slot {
            element,
            is_optional: false,
        });
        let mut op = Self::new(host, OP_TYPE, vec![any, lengths], vec![any]);
        op.table.InferOutputShapeFn = Some(infer_output_shape);
        op.table.GetMayInplace = Some(get_may_inplace);
        op.table.ReleaseMayInplace = Some(release_may_inplace);
        op
    }

    /// A layer with a mask, of so many inputs and outputs.
    fn masked(host: Host, name: &'static CStr, inputs: usize, outputs: usize) -> Self {
        let input = |index| Slot {
            element: match index {
                MASK => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
                _ => ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            },
            is_optional: index >= REQUIRED,
        };
        let output = Slot {
            element: ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            is_optional: true,
        };
        let inputs = (0..inputs).map(input).collect();
        let mut op = Self::new(host, name, inputs, vec![output; outputs]);
        op.table.CreateKernelV2 = Some(refuse_kernel);
        op
    }

    fn new(host: Host, name: &'static CStr, inputs: Vec<Slot>, outputs: Vec<Slot>) -> Self {
        let table = OrtCustomOp {
            version: API_VERSION,
            CreateKernel: None,
            GetName: Some(get_name),
            GetExecutionProviderType: Some(get_execution_provider_type),
            GetInputType: Some(get_type::<true>),
            GetInputTypeCount: Some(get_count::<true>),
            GetOutputType: Some(get_type::<false>),
            GetOutputTypeCount: Some(get_count::<false>),
            KernelCompute: None,
            KernelDestroy: Some(kernel_destroy),
            GetInputCharacteristic: Some(get_characteristic::<true>),
            GetOutputCharacteristic: Some(get_characteristic::<false>),
            GetInputMemoryType: Some(get_input_memory_type),
            GetVariadicInputMinArity: None,
            GetVariadicInputHomogeneity: None,
            GetVariadicOutputMinArity: None,
            GetVariadicOutputHomogeneity: None,
            CreateKernelV2: Some(create_kernel),
            KernelComputeV2: Some(kernel_compute),
            InferOutputShapeFn: None,
            GetStartVersion: Some(get_version),
            GetEndVersion: Some(get_version),
            GetMayInplace: None,
            ReleaseMayInplace: None,
            GetAliasMap: None,
            ReleaseAliasMap: None,
        };
        Self {
            table,
            host,
            name,
            inputs,
            outputs,
        }
    }
}

/// # Safety
/// `op` is one of this module.
unsafe fn custom_op<'a>(op: *const OrtCustomOp) -> &'a CustomOp {
    // SAFETY: the caller's; the table is the first field of a `CustomOp`.
    unsafe { &*op.cast() }
}

unsafe extern "system" fn get_name(op: *const OrtCustomOp) -> *const c_char {
    // SAFETY: the host calls an op's functions with that op.
    unsafe { custom_op(op) }.name.as_ptr()
}

unsafe extern "system" fn get_execution_provider_type(_: *const OrtCustomOp) -> *const c_char {
    // Null is the CPU EP. Where this EP takes the node, its own kernel runs.
    ptr::null()
}

/// The inputs of an op, or its outputs.
///
/// # Safety
/// `op` is one of this module.
unsafe fn slots<'a, const INPUTS: bool>(op: *const OrtCustomOp) -> &'a [Slot] {
    // SAFETY: the caller's.
    let op = unsafe { custom_op(op) };
    if INPUTS { &op.inputs } else { &op.outputs }
}

unsafe extern "system" fn get_count<const INPUTS: bool>(op: *const OrtCustomOp) -> usize {
    // SAFETY: as in `get_name`.
    unsafe { slots::<INPUTS>(op) }.len()
}

unsafe extern "system" fn get_type<const INPUTS: bool>(
    op: *const OrtCustomOp,
    index: usize,
) -> ONNXTensorElementDataType {
    let undefined = ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    // SAFETY: the host calls an op's functions with that op, and an input or output that it has.
    fence::value(undefined, || unsafe { slots::<INPUTS>(op) }[index].element)
}

unsafe extern "system" fn get_characteristic<const INPUTS: bool>(
    op: *const OrtCustomOp,
    index: usize,
) -> OrtCustomOpInputOutputCharacteristic {
    let required = OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED;
    fence::value(required, || {
        // SAFETY: as in `get_type`.
        match unsafe { slots::<INPUTS>(op) }[index].is_optional {
            true => OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_OPTIONAL,
            false => required,
        }
    })
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
        // SAFETY: the context is the host's; the type that comes back stays its own.
        unsafe {
            let data = ort_get!(host, ShapeInferContext_GetInputTypeShape(context, 0));
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

/// Masked layers have kernels of the EP alone.
unsafe extern "system" fn refuse_kernel(
    op: *const OrtCustomOp,
    _: *const OrtApi,
    _: *const OrtKernelInfo,
    _: *mut *mut c_void,
) -> OrtStatusPtr {
    // SAFETY: the host calls an op's functions with that op.
    let host = unsafe { custom_op(op) }.host;
    fence::status(host, || Err::<(), _>(Error::MaskedLayer))
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
        assert_eq!(DOMAIN.to_str(), Ok(revseq_rewrite::masked::DOMAIN));
        let is_masked = |name: &CStr| {
            let name = name.to_str().unwrap();
            name.starts_with(revseq_rewrite::masked::PREFIX)
        };
        assert!(MASKED.iter().all(|(name, ..)| is_masked(name)));
    }
}
