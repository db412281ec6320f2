//! The description of a node that ONNX Runtime passes when its kernel is made.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;

use ort_sys::{OrtKernelInfo, OrtStatusPtr};
use revseq_onnx::model::{self, AttributeProto, AttributeType};

use super::abi::OrtEp;
use super::error::Error;
use super::host::{Host, ort_get, ort_own, ort_status, ort_try};
use super::log::Log;
use super::node::{Node, TypeAndSizes};
use super::tensor::Tensor;

/// The node of a kernel that is being made for `'a`.
#[derive(Clone, Copy)]
pub struct KernelInfo<'a> {
    host: Host,
    info: *const OrtKernelInfo,
    life: PhantomData<&'a OrtKernelInfo>,
}

/// A string of the node, or of one of its inputs.
macro_rules! string {
    ($info:ident, $function:ident $(, $index:ident)?) => {
        // SAFETY: the info is one of this host, an index less than the count,
        // and the function fills a string.
        unsafe {
            $info.string(stringify!($function), |out, size| {
                ort_status!($info.host, $function($info.info, $($index,)? out, size))
            })?
        }
    };
}

impl<'a> KernelInfo<'a> {
    /// # Safety
    /// `info` is one of this host, whose kernel is being made for `'a`.
    pub unsafe fn new(host: Host, info: *const OrtKernelInfo) -> Self {
        Self {
            host,
            info,
            life: PhantomData,
        }
    }

    /// The EP that the node was given to.
    pub fn ep(self) -> Result<*const OrtEp, Error> {
        // SAFETY: the info is one of this host.
        Ok(unsafe { ort_get!(self.host, ep KernelInfo_GetEp(self.info)) })
    }

    /// The session's logger.
    pub fn log(self) -> Result<Log, Error> {
        // SAFETY: as above; the logger lives as long as the session, which holds the kernel.
        unsafe {
            let logger = ort_get!(self.host, KernelInfo_GetLogger(self.info));
            Ok(Log::new(self.host, logger))
        }
    }

    /// The node's name, for messages.
    pub fn name(self) -> Result<String, Error> {
        Ok(text(string!(self, KernelInfo_GetNodeName)))
    }

    /// The node, with those of these attributes that it has: a kernel can look up
    /// attributes only by name.
    pub fn node(self, name: String, attributes: &[&str]) -> Result<Node, Error> {
        let Self { host, info, .. } = self;
        // SAFETY: as above.
        let since_version = unsafe { ort_get!(host, KernelInfo_GetOperatorSinceVersion(info)) };
        let inputs = self.input_names()?.into_iter().enumerate();
        let inputs = inputs.map(|(index, name)| Ok((name, self.input_type(index)?)));
        let attributes = attributes.iter();
        let attributes = attributes.filter_map(|name| self.attribute(name).transpose());
        Ok(Node {
            name,
            domain: text(string!(self, KernelInfo_GetOperatorDomain)),
            op_type: text(string!(self, KernelInfo_GetOperatorType)),
            since_version,
            attributes: attributes.collect::<Result<_, Error>>()?,
            inputs: inputs.collect::<Result<_, Error>>()?,
            outputs: self.output_names()?,
        })
    }

    /// The inputs' names; one that is left out has none.
    pub fn input_names(self) -> Result<Vec<CString>, Error> {
        // SAFETY: as above.
        let count = unsafe { ort_get!(self.host, KernelInfo_GetInputCount(self.info)) };
        let name = |index| Ok(string!(self, KernelInfo_GetInputName, index));
        (0..count).map(name).collect()
    }

    /// The outputs' names; one that is left out has none.
    pub fn output_names(self) -> Result<Vec<CString>, Error> {
        // SAFETY: as above.
        let count = unsafe { ort_get!(self.host, KernelInfo_GetOutputCount(self.info)) };
        let name = |index| Ok(string!(self, KernelInfo_GetOutputName, index));
        (0..count).map(name).collect()
    }

    /// An input, if it is a constant. ONNX Runtime may release it once the kernel is made.
    pub fn constant(self, index: usize) -> Result<Option<Tensor<'a>>, Error> {
        let (mut is_constant, mut value) = (0, ptr::null());
        // SAFETY: as above.
        unsafe {
            ort_try!(
                self.host,
                KernelInfoGetConstantInput_tensor(
                    self.info,
                    index,
                    &raw mut is_constant,
                    &raw mut value
                )
            );
        }
        if is_constant == 0 || value.is_null() {
            return Ok(None);
        }
        // SAFETY: the constant is one of this host's, which holds it while the kernel is being made.
        unsafe { Tensor::read(self.host, value.cast_mut()) }.map(Some)
    }

    /// The element type of an input, an `ONNXTensorElementDataType`.
    pub fn element(self, index: usize) -> Result<Option<c_int>, Error> {
        Ok(self.input_type(index)?.map(|input| input.element))
    }

    fn input_type(self, index: usize) -> Result<Option<TypeAndSizes>, Error> {
        let Self { host, info, .. } = self;
        // SAFETY: the info is one of this host.
        unsafe {
            let info = ort_own!(host, KernelInfo_GetInputTypeInfo(info, index) => ReleaseTypeInfo);
            TypeAndSizes::read(host, info.as_ptr())
        }
    }

    /// An attribute, found by asking for one type after the other.
    fn attribute(self, name: &str) -> Result<Option<AttributeProto>, Error> {
        use AttributeType::{FLOAT, FLOATS, INTS, STRING};

        let key = CString::new(name).unwrap_or_default();
        /// Returns an attribute if the function finds one of its type.
        macro_rules! find {
            ($function:ident($out:expr) => $value:expr) => {
                find!($function($out,) => $value)
            };
            ($function:ident($out:expr, $($size:expr)?) => $value:expr) => {
                // SAFETY: the info is one of this host; a null place asks for
                // the size of a string or a list alone.
                let status = unsafe {
                    ort_status!(self.host, $function(self.info, key.as_ptr(), $out, $($size)?))
                };
                if self.host.check_found(stringify!($function), status)? {
                    return Ok(Some($value));
                }
            };
        }
        let (mut integer, mut float, mut size) = (0, 0.0, 0);
        find!(KernelInfoGetAttribute_int64(&raw mut integer) => model::int(name, integer));
        find!(KernelInfoGetAttribute_float(&raw mut float) => model::attribute(name, FLOAT));
        find!(KernelInfoGetAttribute_string(ptr::null_mut(), &raw mut size) => model::attribute(name, STRING));
        find!(KernelInfoGetAttributeArray_int64(ptr::null_mut(), &raw mut size) => model::attribute(name, INTS));
        find!(KernelInfoGetAttributeArray_float(ptr::null_mut(), &raw mut size) => model::attribute(name, FLOATS));
        Ok(None)
    }

    /// Reads a string in two steps: its size with its null, then its bytes.
    ///
    /// # Safety
    /// `fill` is a function of the host that writes a string of at most `size`
    /// bytes to `out`, and the size to `size`; for a null `out` the size alone.
    unsafe fn string(
        self,
        function: &'static str,
        fill: impl Fn(*mut c_char, *mut usize) -> OrtStatusPtr,
    ) -> Result<CString, Error> {
        let mut size = 0;
        self.host
            .check(function, fill(ptr::null_mut(), &raw mut size))?;
        let mut bytes = vec![0_u8; size];
        self.host
            .check(function, fill(bytes.as_mut_ptr().cast(), &raw mut size))?;
        let string = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(string.to_owned())
    }
}

/// A string for messages, or to be compared with ASCII.
fn text(string: CString) -> String {
    string.to_string_lossy().into_owned()
}
