//! What ONNX Runtime says of a node when its kernel is made.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use ort_sys::{OrtKernelInfo, OrtLogger, OrtStatusPtr, OrtTensorTypeAndShapeInfo, OrtTypeInfo};
use revseq_graph::{Attribute, AttributeValue, ElementType, Input, Node, Operator};

use crate::plugin::abi::OrtEp;
use crate::plugin::host::{Host, ort, ort_status, ort_try};
use crate::plugin::log::Log;
use crate::provider::error::Error;
use crate::provider::gpu::Gpu;
use crate::provider::plans::{Plans, Shape};

/// The node of a kernel in the making.
#[derive(Clone, Copy)]
pub(crate) struct KernelInfo {
    host: Host,
    info: *const OrtKernelInfo,
}

/// An input's element type and, as far as they are known, sizes; -1 is an unknown one.
pub(crate) struct TypeAndSizes {
    pub(crate) element: c_int,
    pub(crate) sizes: Option<Vec<i64>>,
}

impl TypeAndSizes {
    /// Reads a tensor's type; `None` for what is no tensor.
    ///
    /// # Safety
    /// `info` is null or a type of this host.
    pub(crate) unsafe fn read(host: Host, info: *const OrtTypeInfo) -> Result<Option<Self>, Error> {
        let mut tensor: *const OrtTensorTypeAndShapeInfo = ptr::null();
        if info.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's; what comes back lives as long as `info`.
        unsafe { ort_try!(host, CastTypeInfoToTensorInfo(info, &raw mut tensor)) };
        if tensor.is_null() {
            return Ok(None);
        }
        // SAFETY: as above.
        unsafe { Self::read_tensor(host, tensor) }.map(Some)
    }

    /// # Safety
    /// `tensor` is a tensor's type of this host.
    pub(crate) unsafe fn read_tensor(
        host: Host,
        tensor: *const OrtTensorTypeAndShapeInfo,
    ) -> Result<Self, Error> {
        let mut element: c_int = 0;
        // SAFETY: the caller's; an `ONNXTensorElementDataType` is a C enum.
        unsafe {
            ort_try!(
                host,
                GetTensorElementType(tensor, (&raw mut element).cast())
            );
        }
        // SAFETY: the caller's.
        let sizes = match unsafe { ort!(host, TensorTypeAndShape_HasShape(tensor)) } {
            false => None,
            true => {
                let mut rank = 0;
                // SAFETY: the caller's.
                unsafe { ort_try!(host, GetDimensionsCount(tensor, &raw mut rank)) };
                let mut sizes = vec![-1_i64; rank];
                // SAFETY: the caller's; the host writes `rank` sizes.
                unsafe { ort_try!(host, GetDimensions(tensor, sizes.as_mut_ptr(), rank)) };
                Some(sizes)
            }
        };
        Ok(Self { element, sizes })
    }

    /// The sizes as a node has them.
    pub(crate) fn known_sizes(&self) -> Option<Vec<Option<u64>>> {
        let sizes = self.sizes.as_ref()?;
        Some(sizes.iter().map(|&size| u64::try_from(size).ok()).collect())
    }

    /// The shape, if all of it is known.
    fn shape(&self) -> Option<Shape<'_>> {
        let sizes = self.sizes.as_deref()?;
        sizes.iter().all(|&size| size >= 0).then_some(Shape {
            element: self.element,
            sizes,
        })
    }
}

impl KernelInfo {
    /// # Safety
    /// `info` is one of this host, used while the kernel is being made.
    pub(crate) unsafe fn new(host: Host, info: *const OrtKernelInfo) -> Self {
        Self { host, info }
    }

    /// The EP that the node was given to.
    pub(crate) fn ep(self) -> Result<*const OrtEp, Error> {
        let mut ep = ptr::null();
        // SAFETY: the info is one of this host.
        unsafe { ort_try!(self.host, ep KernelInfo_GetEp(self.info, &raw mut ep)) };
        Ok(ep)
    }

    /// The session's logger.
    pub(crate) fn log(self) -> Result<Log, Error> {
        let mut logger: *const OrtLogger = ptr::null();
        // SAFETY: as above.
        unsafe { ort_try!(self.host, KernelInfo_GetLogger(self.info, &raw mut logger)) };
        // SAFETY: the logger lives as long as the session, which holds the kernel.
        Ok(unsafe { Log::new(self.host, logger) })
    }

    /// Makes something from the node's name, which errors then have.
    pub(crate) fn with_name<T>(
        self,
        make: impl FnOnce(String) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let host = self.host;
        // SAFETY: the info is one of this host, and the function fills a string.
        let name = unsafe {
            self.string("KernelInfo_GetNodeName", |out, size| {
                ort_status!(host, KernelInfo_GetNodeName(self.info, out, size))
            })?
        };
        let label = format!("node {name:?}");
        make(name).map_err(|error| error.of_node(label))
    }

    /// Reads the node, which runs on a GPU if there is one, and plans it if the
    /// model says what its shape is.
    ///
    /// # Errors
    /// What its schema does not allow, naming the node.
    pub(crate) fn plans(self, name: String, gpu: Option<Gpu>) -> Result<Plans, Error> {
        let host = self.host;
        let (mut since_version, mut input_count) = (0, 0);
        // SAFETY: as above, and two of the functions fill a string.
        let (domain, op_type) = unsafe {
            ort_try!(
                host,
                KernelInfo_GetOperatorSinceVersion(self.info, &raw mut since_version)
            );
            ort_try!(
                host,
                KernelInfo_GetInputCount(self.info, &raw mut input_count)
            );
            (
                self.string("KernelInfo_GetOperatorDomain", |out, size| {
                    ort_status!(host, KernelInfo_GetOperatorDomain(self.info, out, size))
                })?,
                self.string("KernelInfo_GetOperatorType", |out, size| {
                    ort_status!(host, KernelInfo_GetOperatorType(self.info, out, size))
                })?,
            )
        };
        let mut names = Vec::with_capacity(input_count);
        let mut types = Vec::with_capacity(input_count);
        for index in 0..input_count {
            // SAFETY: as above; the index is less than the count.
            names.push(unsafe {
                self.string("KernelInfo_GetInputName", |out, size| {
                    ort_status!(host, KernelInfo_GetInputName(self.info, index, out, size))
                })?
            });
            types.push(self.input_type(index)?);
        }
        let sizes: Vec<_> = types
            .iter()
            .map(|input| input.as_ref().and_then(TypeAndSizes::known_sizes))
            .collect();
        let inputs: Vec<_> = (0..input_count)
            .map(|index| Input {
                name: &names[index],
                element_type: types[index]
                    .as_ref()
                    .and_then(|input| ElementType::from_onnx_code(input.element)),
                shape: sizes[index].as_deref(),
            })
            .collect();
        let mut attributes = Vec::new();
        for name in ["batch_axis", "time_axis", "axis"] {
            if let Some(value) = self.attribute(name)? {
                attributes.push(Attribute { name, value });
            }
        }
        let operator = Operator::from_node(&Node {
            name: &name,
            domain: &domain,
            op_type: &op_type,
            since_version: since_version.into(),
            attributes: &attributes,
            inputs: &inputs,
        })?;
        let mut plans = Plans::new(name, operator, gpu);
        if let [Some(data), Some(lengths)] = types.as_slice()
            && let (Some(data), Some(lengths)) = (data.shape(), lengths.shape())
        {
            plans.plan_known([data, lengths])?;
        }
        Ok(plans)
    }

    fn input_type(self, index: usize) -> Result<Option<TypeAndSizes>, Error> {
        let mut info: *mut OrtTypeInfo = ptr::null_mut();
        // SAFETY: the info is one of this host; the type that comes back is
        // this function's, and is released once it is read.
        unsafe {
            ort_try!(
                self.host,
                KernelInfo_GetInputTypeInfo(self.info, index, &raw mut info)
            );
            let read = TypeAndSizes::read(self.host, info);
            ort!(self.host, ReleaseTypeInfo(info));
            read
        }
    }

    /// An attribute of the operators: an integer, or what else it is.
    ///
    /// A kernel's attributes can be asked for by name and type only.
    fn attribute(self, name: &str) -> Result<Option<AttributeValue<'static>>, Error> {
        use AttributeValue::{Int, Other};

        let key = CString::new(name).unwrap_or_default();
        /// Returns what an attribute is if the function finds one of its type.
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
        find!(KernelInfoGetAttribute_int64(&raw mut integer) => Int(integer));
        find!(KernelInfoGetAttribute_float(&raw mut float) => Other("float"));
        find!(KernelInfoGetAttribute_string(ptr::null_mut(), &raw mut size) => Other("string"));
        find!(KernelInfoGetAttributeArray_int64(ptr::null_mut(), &raw mut size) => Other("list of integers"));
        find!(KernelInfoGetAttributeArray_float(ptr::null_mut(), &raw mut size) => Other("list of floats"));
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
    ) -> Result<String, Error> {
        let mut size = 0;
        self.host
            .check(function, fill(ptr::null_mut(), &raw mut size))?;
        let mut bytes = vec![0_u8; size];
        self.host
            .check(function, fill(bytes.as_mut_ptr().cast(), &raw mut size))?;
        let string = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(string.to_string_lossy().into_owned())
    }
}
