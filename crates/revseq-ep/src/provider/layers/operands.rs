//! The tensors of a layer as slices of numbers.

use std::borrow::Cow;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;

use half::f16;
use recurrent_layers::Bytes;

use super::super::error::{Error, list};
use super::super::schemas::{BOOL, DOUBLE, FLOAT, HALF};
use crate::plugin::tensor::Tensor;

/// A type whose every pattern of bits is a value, and its name and number in ONNX Runtime.
pub(super) trait Plain: Copy + 'static {
    const NAME: &'static str;
    const CODE: c_int;

    /// The number of half floats, if they are read as numbers of this type.
    fn of_half(_half: f16) -> Option<Self> {
        None
    }

    /// The nearest half float, if numbers of this type are written as such.
    fn to_half(self) -> Option<f16> {
        None
    }
}

impl Plain for f32 {
    const NAME: &'static str = "float";
    const CODE: c_int = FLOAT;

    fn of_half(half: f16) -> Option<Self> {
        Some(half.to_f32())
    }

    fn to_half(self) -> Option<f16> {
        Some(f16::from_f32(self))
    }
}

macro_rules! plain {
    ($($type:ty: $name:literal, $code:expr;)*) => {$(
        impl Plain for $type {
            const NAME: &'static str = $name;
            const CODE: c_int = $code;
        }
    )*};
}

plain! {
    f64: "double", DOUBLE;
    i32: "int32", 6;
    u8: "uint8", 2;
    i8: "int8", 3;
}

/// The elements of an input.
pub(super) fn elements<'a, T: Plain>(
    input: &'static str,
    tensor: Tensor<'a>,
) -> Result<Cow<'a, [T]>, Error> {
    if tensor.element == HALF {
        // SAFETY: the tensor has half floats, and nobody writes to an input while it is read.
        let halves = unsafe { tensor.elements::<f16>() }?;
        if let Some(numbers) = halves.iter().map(|&half| T::of_half(half)).collect() {
            return Ok(Cow::Owned(numbers));
        }
    }
    if tensor.element != T::CODE {
        return Err(Error::LayerType {
            input,
            actual: tensor.element,
            expected: T::NAME,
        });
    }
    // SAFETY: the tensor has elements of this type, and nobody writes to an input while it is read.
    Ok(unsafe { tensor.elements() }?)
}

/// The integers of an input, which is of int8 or uint8.
pub(super) fn bytes<'a>(input: &'static str, tensor: Tensor<'a>) -> Result<Bytes<'a>, Error> {
    match tensor.element {
        // SAFETY: as in `elements`; bytes are at any address.
        i8::CODE => Ok(Bytes::I8(unsafe { tensor.aligned() })),
        // SAFETY: as above.
        u8::CODE => Ok(Bytes::U8(unsafe { tensor.aligned() })),
        actual => Err(Error::LayerType {
            input,
            actual,
            expected: "int8 or uint8",
        }),
    }
}

/// The truth values of an input.
pub(super) fn truths(input: &'static str, tensor: Tensor<'_>) -> Result<Vec<bool>, Error> {
    if tensor.element != BOOL {
        return Err(Error::LayerType {
            input,
            actual: tensor.element,
            expected: "bool",
        });
    }
    // SAFETY: as in `elements`; bytes are at any address.
    let bytes: &[u8] = unsafe { tensor.aligned() };
    Ok(bytes.iter().map(|&byte| byte != 0).collect())
}

/// A copy of integers.
#[derive(Debug)]
pub(super) enum OwnedBytes {
    I8(Vec<i8>),
    U8(Vec<u8>),
}

impl OwnedBytes {
    pub(super) fn of(bytes: Bytes<'_>) -> Self {
        match bytes {
            Bytes::I8(all) => Self::I8(all.to_vec()),
            Bytes::U8(all) => Self::U8(all.to_vec()),
        }
    }

    pub(super) fn as_bytes(&self) -> Bytes<'_> {
        match self {
            Self::I8(all) => Bytes::I8(all),
            Self::U8(all) => Bytes::U8(all),
        }
    }
}

/// The number of bytes of a tensor of one of these types.
pub(super) fn byte_count(tensor: Tensor<'_>) -> usize {
    let size = match tensor.element {
        u8::CODE | i8::CODE | BOOL => 1,
        HALF => size_of::<f16>(),
        DOUBLE => size_of::<f64>(),
        _ => size_of::<f32>(),
    };
    tensor.count() * size
}

/// The sizes of a tensor of three axes.
pub(super) fn three(input: &'static str, tensor: Tensor<'_>) -> Result<[usize; 3], Error> {
    let sizes: Result<[i64; 3], _> = tensor.sizes.try_into();
    sizes
        .map(|sizes| sizes.map(|size| size as usize))
        .map_err(|_| shape_error(input, "3 dimensions only".to_owned(), tensor))
}

/// Checks the sizes of an input; `words` are those of the expected shape in ONNX Runtime's message.
pub(super) fn check(
    input: &'static str,
    tensor: Tensor<'_>,
    sizes: &[usize],
    words: impl FnOnce() -> String,
) -> Result<(), Error> {
    let found = tensor.sizes.iter().map(|&size| size as usize);
    if found.eq(sizes.iter().copied()) {
        return Ok(());
    }
    Err(shape_error(input, format!("shape {{{}}}", words()), tensor))
}

#[cold]
fn shape_error(input: &'static str, expected: String, tensor: Tensor<'_>) -> Error {
    Error::LayerShape {
        input,
        expected,
        actual: tensor.sizes.to_vec(),
    }
}

/// Sizes in a message.
pub(super) fn words(sizes: &[usize]) -> String {
    list(&sizes.iter().map(|&size| size as i64).collect::<Vec<i64>>())
}

/// An output that is wanted.
pub(super) struct Output<T> {
    memory: *mut u8,
    count: usize,
    is_half: bool,
    /// The elements, if the host's memory is not aligned for them, or for half floats.
    own: Vec<T>,
}

impl<T: Plain + Default> Output<T> {
    /// An output in memory of the host for so many elements, or half floats.
    ///
    /// # Safety
    /// The memory has room for so many, and nobody else uses it while this lives.
    pub(super) unsafe fn new(memory: *mut u8, count: usize, is_half: bool) -> Self {
        let is_direct = !is_half && memory.cast::<T>().is_aligned();
        Self {
            memory,
            count,
            is_half,
            own: vec![T::default(); if is_direct { 0 } else { count }],
        }
    }

    /// The elements, which begin as zeros.
    pub(super) fn elements(&mut self) -> &mut [T] {
        if self.count == 0 || !self.own.is_empty() {
            return &mut self.own;
        }
        // SAFETY: `new`'s caller; no reference to an element that was not written is made.
        unsafe {
            let first = self.memory.cast::<T>();
            let memory = slice::from_raw_parts_mut(first.cast::<MaybeUninit<T>>(), self.count);
            memory.fill(MaybeUninit::new(T::default()));
            slice::from_raw_parts_mut(first, self.count)
        }
    }

    /// Writes elements that are not in the host's memory yet.
    pub(super) fn finish(self) {
        for (index, element) in self.own.into_iter().enumerate() {
            // SAFETY: `new`'s caller; the index is less than the count.
            unsafe {
                match element.to_half().filter(|_| self.is_half) {
                    Some(half) => self.memory.cast::<f16>().add(index).write_unaligned(half),
                    None => self.memory.cast::<T>().add(index).write_unaligned(element),
                }
            }
        }
    }
}
