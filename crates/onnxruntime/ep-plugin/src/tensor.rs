//! A node's run, and its tensors, as ONNX Runtime holds them.

use std::borrow::Cow;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::{ptr, slice};

use ort_sys::{ONNXTensorElementDataType as Type, OrtKernelContext, OrtValue};

use super::error::Error;
use super::host::{Host, ort_get, ort_try};
use super::log::Log;
use super::workers::Workers;

/// A node's run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    host: Host,
    context: *mut OrtKernelContext,
    run: PhantomData<&'a OrtKernelContext>,
}

/// A tensor's type, sizes and memory.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its `ONNXTensorElementDataType`.
    pub element: c_int,
    /// Its sizes in elements, none of them negative.
    pub sizes: &'a [i64],
    /// Its first byte; anything if it has no elements.
    pub bytes: *mut u8,
}

/// A type of elements whose every pattern of bits is a value.
///
/// # Safety
/// So it is, and elements of `CODE` are of this type.
pub unsafe trait Element: Copy + 'static {
    /// Its `ONNXTensorElementDataType`.
    const CODE: c_int;
}

macro_rules! elements {
    ($($type:ty: $code:ident,)*) => {$(
        // SAFETY: they are numbers of the same width and kind.
        unsafe impl Element for $type {
            const CODE: c_int = Type::$code as c_int;
        }
    )*};
}

elements! {
    f32: ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
    f64: ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
    i8: ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
    i16: ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
    i32: ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
    i64: ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
    u8: ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
    u16: ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
    u32: ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
    u64: ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
}

impl<'a> Context<'a> {
    /// # Safety
    /// `context` is that of a run that goes on for `'a`, on a host of this `host`.
    pub unsafe fn new(host: Host, context: *mut OrtKernelContext) -> Self {
        Self {
            host,
            context,
            run: PhantomData,
        }
    }

    /// An input, which the schema does not let be left out.
    #[inline]
    pub fn input(self, index: usize) -> Result<Tensor<'a>, Error> {
        let missing = "a required input is missing";
        let input = self.optional_input(index)?;
        input.ok_or(Error::argument("Compute", missing))
    }

    /// The sizes of an input, and its elements one after the other, which may be where an output is written.
    ///
    /// # Errors
    /// If the host fails, or the input has another type or is not there.
    pub fn read<T: Element>(
        self,
        index: usize,
    ) -> Result<(&'a [i64], impl Iterator<Item = T> + 'a), Error> {
        let input = self.input(index)?;
        input.check::<T>("an input has elements of another type")?;
        let first = input.bytes.cast_const().cast::<T>();
        // SAFETY: the input has so many elements of this type, which may not be aligned.
        let element = move |index| unsafe { first.add(index).read_unaligned() };
        Ok((input.sizes, (0..input.count()).map(element)))
    }

    /// An input, if it is there.
    #[inline]
    pub fn optional_input(self, index: usize) -> Result<Option<Tensor<'a>>, Error> {
        let value = self.input_value(index)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the value is an input of the run, alive as long as that goes on.
        unsafe { Tensor::read(self.host, value.cast_mut()) }.map(Some)
    }

    /// An input as it is, which the host owns; null if it is left out.
    #[inline]
    pub fn input_value(self, index: usize) -> Result<*const OrtValue, Error> {
        // SAFETY: the context is that of a run that goes on; the result is a place for it.
        Ok(unsafe { ort_get!(self.host, KernelContext_GetInput(self.context, index)) })
    }

    /// Copies a tensor to an output, if that is wanted.
    ///
    /// # Safety
    /// `value` is a tensor of this host, of the output's type, whose elements have a fixed size.
    pub unsafe fn copy_to_output(self, index: usize, value: *mut OrtValue) -> Result<(), Error> {
        // SAFETY: the caller's; the output has the same type and sizes, so as many bytes.
        unsafe {
            let tensor = Tensor::read(self.host, value)?;
            let from = bytes(self.host, value)?;
            if let Some(to) = self.optional_output(index, tensor.sizes)? {
                ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
            }
        }
        Ok(())
    }

    /// The threads of the run.
    pub fn workers(self) -> Workers<'a> {
        // SAFETY: the context is that of a run that goes on.
        unsafe { Workers::new(self.host, self.context) }
    }

    /// The only output, with room for these sizes.
    #[inline]
    pub fn output(self, sizes: &[i64]) -> Result<*mut u8, Error> {
        let output = self.optional_output(0, sizes)?;
        output.ok_or(Error::argument("Compute", "the output is missing"))
    }

    /// An output, if it is wanted, with room for these sizes.
    #[inline]
    pub fn optional_output(self, index: usize, sizes: &[i64]) -> Result<Option<*mut u8>, Error> {
        let value = self.output_value(index, sizes)?;
        match value.is_null() {
            true => Ok(None),
            // SAFETY: the value is an output of the run.
            false => unsafe { data(self.host, value) }.map(Some),
        }
    }

    /// An output as it is, which the host owns; null if it is not wanted.
    #[inline]
    fn output_value(self, index: usize, sizes: &[i64]) -> Result<*mut OrtValue, Error> {
        let (context, first, rank) = (self.context, sizes.as_ptr(), sizes.len());
        // SAFETY: as in `input_value`; the host copies the sizes.
        Ok(unsafe {
            ort_get!(
                self.host,
                KernelContext_GetOutput(context, index, first, rank)
            )
        })
    }

    /// Writes an output of these sizes, if it is wanted. What it is made of may be an input that has the same
    /// memory, element by element.
    ///
    /// # Errors
    /// If the host fails, the output has another type, or there are fewer elements than places.
    pub fn write<T: Element>(
        self,
        index: usize,
        sizes: &[i64],
        elements: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let value = self.output_value(index, sizes)?;
        if value.is_null() {
            return Ok(());
        }
        // SAFETY: the value is an output of the run, alive as long as that goes on.
        let output = unsafe { Tensor::read(self.host, value) }?;
        output.check::<T>("an output has elements of another type")?;
        let mut elements = elements.into_iter();
        let place = output.bytes.cast::<T>();
        for index in 0..output.count() {
            let missing = "there are fewer elements than the output has";
            let element = elements.next().ok_or(Error::argument("Compute", missing))?;
            // SAFETY: the output has places for so many elements of this type, which may not be aligned.
            unsafe { place.add(index).write_unaligned(element) };
        }
        Ok(())
    }

    /// The logger of the run.
    pub fn log(self) -> Log {
        // SAFETY: as in `input_value`.
        let logger = || unsafe {
            Ok::<_, Error>(ort_get!(self.host, KernelContext_GetLogger(self.context)))
        };
        // SAFETY: the logger lives as long as the run, and so does its holder.
        unsafe { Log::new(self.host, logger().unwrap_or(ptr::null())) }
    }
}

impl<'a> Tensor<'a> {
    /// # Safety
    /// `value` is a tensor of this host that lives for `'a`.
    #[inline]
    pub unsafe fn read(host: Host, value: *mut OrtValue) -> Result<Self, Error> {
        let mut element: c_int = 0;
        let (mut sizes, mut rank) = (ptr::null(), 0);
        // SAFETY: the value is the caller's; the results are places for them, and
        // an `ONNXTensorElementDataType` is a C enum.
        unsafe {
            ort_try!(
                host,
                GetTensorElementTypeAndShapeDataReference(
                    value,
                    (&raw mut element).cast(),
                    &raw mut sizes,
                    &raw mut rank
                )
            );
        }
        let sizes = match rank {
            0 => &[],
            // SAFETY: pointer and rank come from the host and describe the value's own sizes.
            _ => unsafe { slice::from_raw_parts(sizes, rank) },
        };
        Ok(Tensor {
            element,
            sizes,
            // SAFETY: the value is the caller's.
            bytes: unsafe { data(host, value) }?,
        })
    }

    /// The number of elements.
    #[inline]
    pub fn count(self) -> usize {
        self.sizes.iter().map(|&size| size as usize).product()
    }

    fn check<T: Element>(self, problem: &'static str) -> Result<(), Error> {
        match self.element == T::CODE {
            true => Ok(()),
            false => Err(Error::argument("Compute", problem)),
        }
    }

    /// The elements, which are copied if they are not aligned: a caller of ONNX Runtime may bind any memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Safety
    /// The tensor has elements of this type, and nobody writes to them for `'a`.
    #[inline]
    pub unsafe fn elements<T: Copy>(self) -> Result<Cow<'a, [T]>, Error> {
        let (first, count) = (self.bytes.cast_const().cast::<T>(), self.count());
        if count == 0 || first.is_aligned() {
            // SAFETY: the caller's, and the elements are aligned.
            return Ok(Cow::Borrowed(unsafe { self.aligned() }));
        }
        // SAFETY: the caller's; each index is less than the count.
        let copied = (0..count).map(|index| unsafe { first.add(index).read_unaligned() });
        collect(count, copied).map(Cow::Owned)
    }

    /// The elements.
    ///
    /// # Safety
    /// As [`elements`](Self::elements), and they are aligned if there are any.
    #[inline]
    pub unsafe fn aligned<T>(self) -> &'a [T] {
        match self.count() {
            0 => &[],
            // SAFETY: the caller's.
            count => unsafe { slice::from_raw_parts(self.bytes.cast_const().cast(), count) },
        }
    }
}

/// # Safety
/// `value` is a tensor of this host.
#[inline]
unsafe fn data(host: Host, value: *mut OrtValue) -> Result<*mut u8, Error> {
    // SAFETY: the value is the caller's. An input's memory is only read
    // through this, unless it is the output's as well.
    let data = unsafe { ort_get!(host, GetTensorMutableData(value)) };
    Ok(data.cast())
}

/// The bytes of a tensor.
///
/// # Safety
/// `value` is a tensor of this host that lives for `'a`, whose elements have a fixed size.
pub(super) unsafe fn bytes<'a>(host: Host, value: *mut OrtValue) -> Result<&'a [u8], Error> {
    // SAFETY: the caller's.
    unsafe {
        match ort_get!(host, GetTensorSizeInBytes(value)) {
            0 => Ok(&[]),
            size => Ok(slice::from_raw_parts(data(host, value)?, size)),
        }
    }
}

/// Returns so many items in a vector, whose size is a model's or a caller's.
///
/// # Errors
/// [`Error::OutOfMemory`], where Rust would end the process.
pub fn collect<T>(count: usize, items: impl Iterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut made = Vec::new();
    reserve(&mut made, count)?;
    made.extend(items.take(count));
    Ok(made)
}

/// Makes room for so many items in an empty vector.
///
/// # Errors
/// As [`collect`].
pub fn reserve<T>(made: &mut Vec<T>, count: usize) -> Result<(), Error> {
    let reserved = made.try_reserve_exact(count);
    reserved.map_err(|_| Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
    })
}
