//! The tensors of a layer as slices of numbers.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::{ptr, slice};

use half::f16;
use half::slice::HalfFloatSliceExt;
use recurrent_layers::Bytes;

use super::super::error::{Error, list};
use super::super::kernel::overlaps;
use super::super::schemas::{BOOL, HALF};
use crate::plugin::tensor::{Context, Element, Tensor, collect, reserve};

/// A type of elements, and its name in messages.
pub(super) trait Plain: Element {
    const NAME: &'static str;

    /// Returns half floats as numbers of this type, if they are read as such.
    fn of_halves(_halves: &[f16]) -> Option<Result<Vec<Self>, Error>> {
        None
    }

    /// Makes numbers of this type the nearest half floats, if they are written as such. There are as many of both.
    fn to_halves(_numbers: &[Self], _halves: &mut [f16]) {}
}

impl Plain for f32 {
    const NAME: &'static str = "float";

    fn of_halves(halves: &[f16]) -> Option<Result<Vec<Self>, Error>> {
        let mut numbers = vec![];
        let room = reserve(&mut numbers, halves.len());
        Some(room.map_err(Error::from).map(|()| {
            let mut some = [0.0; AT_ONCE];
            for halves in halves.chunks(AT_ONCE) {
                let some = &mut some[..halves.len()];
                halves.convert_to_f32_slice(some);
                numbers.extend_from_slice(some);
            }
            numbers
        }))
    }

    fn to_halves(numbers: &[Self], halves: &mut [f16]) {
        halves.convert_from_f32_slice(numbers);
    }
}

macro_rules! plain {
    ($($type:ty: $name:literal;)*) => {$(
        impl Plain for $type {
            const NAME: &'static str = $name;
        }
    )*};
}

plain! {
    f64: "double";
    i32: "int32";
    u8: "uint8";
    i8: "int8";
}

/// The elements of an input.
pub(super) fn elements<'a, T: Plain>(
    input: &'static str,
    tensor: Tensor<'a>,
) -> Result<Cow<'a, [T]>, Error> {
    if tensor.element == HALF {
        // SAFETY: the tensor has half floats, and nobody writes to an input while it is read.
        let halves = unsafe { tensor.elements::<f16>() }?;
        if let Some(numbers) = T::of_halves(&halves) {
            return numbers.map(Cow::Owned);
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
    Ok(collect(bytes.len(), bytes.iter().map(|&byte| byte != 0))?)
}

/// Numbers, which are copied unless they are a copy.
pub(super) fn owned<T: Plain>(numbers: Cow<'_, [T]>) -> Result<Vec<T>, Error> {
    match numbers {
        Cow::Owned(numbers) => Ok(numbers),
        Cow::Borrowed(numbers) => Ok(collect(numbers.len(), numbers.iter().copied())?),
    }
}

/// A copy of integers.
#[derive(Debug)]
pub(super) enum OwnedBytes {
    I8(Vec<i8>),
    U8(Vec<u8>),
}

impl OwnedBytes {
    pub(super) fn of(bytes: Bytes<'_>) -> Result<Self, Error> {
        Ok(match bytes {
            Bytes::I8(all) => Self::I8(owned(all.into())?),
            Bytes::U8(all) => Self::U8(owned(all.into())?),
        })
    }

    pub(super) fn as_bytes(&self) -> Bytes<'_> {
        match self {
            Self::I8(all) => Bytes::I8(all),
            Self::U8(all) => Bytes::U8(all),
        }
    }
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

/// Numbers of an input that are no output's memory: a copy of them if they are.
pub(super) fn apart<'a, T: Plain>(
    numbers: Cow<'a, [T]>,
    outputs: &[Option<Output<T>>],
) -> Result<Cow<'a, [T]>, Error> {
    let bytes = numbers.as_ptr_range();
    let bytes = bytes.start.cast()..bytes.end.cast();
    match outputs
        .iter()
        .flatten()
        .any(|it| it.overlaps(bytes.clone()))
    {
        true => owned(numbers).map(Cow::Owned),
        false => Ok(numbers),
    }
}

/// Asks for outputs of these sizes, each of half floats or not; `None` stands for one that nothing reads.
pub(super) fn outputs<T: Plain, const N: usize>(
    context: Context<'_>,
    names: &[&'static str; N],
    wanted: [Option<(&[i64], bool)>; N],
) -> Result<[Option<Output<T>>; N], Error> {
    let mut outputs = [const { None }; N];
    for (index, wanted) in wanted.into_iter().enumerate() {
        let Some((sizes, is_half)) = wanted else {
            continue;
        };
        let Some(memory) = context.optional_output(index, sizes)? else {
            continue;
        };
        let count = sizes.iter().map(|&size| size as usize).product();
        // SAFETY: the host's memory for these sizes is this run's. Nobody else writes to it if no
        // other output shares it, and nobody reads it but through inputs, which are kept apart.
        let output = unsafe { Output::new(memory, count, is_half) }?;
        let is_shared = |other: &Option<Output<T>>| {
            let other = other.as_ref();
            other.is_some_and(|other| other.overlaps(output.bytes()))
        };
        if let Some(other) = outputs.iter().position(is_shared) {
            return Err(Error::LayerOverlap {
                outputs: [names[other], names[index]],
            });
        }
        outputs[index] = Some(output);
    }
    Ok(outputs)
}

/// The number of half floats that are read or written at once.
const AT_ONCE: usize = 256;

/// An output that is wanted.
pub(super) struct Output<T> {
    memory: *mut u8,
    count: usize,
    is_half: bool,
    /// The elements, if the host's memory is not aligned for them, or for half floats.
    own: Vec<MaybeUninit<T>>,
}

impl<T: Plain> Output<T> {
    /// An output in memory of the host for so many elements, or half floats.
    ///
    /// # Safety
    /// The memory has room for so many, and nobody else uses it while [elements](Self::elements) are
    /// borrowed, and in [`finish`](Self::finish).
    pub(super) unsafe fn new(memory: *mut u8, count: usize, is_half: bool) -> Result<Self, Error> {
        let is_direct = !is_half && memory.cast::<T>().is_aligned();
        let mut own = Vec::new();
        if !is_direct {
            reserve(&mut own, count)?;
            // SAFETY: there is room for so many, and none has to have a value.
            unsafe { own.set_len(count) };
        }
        Ok(Self {
            memory,
            count,
            is_half,
            own,
        })
    }

    /// The first byte of the host's memory, and the one behind the last.
    pub(super) fn bytes(&self) -> Range<*const u8> {
        let size = if self.is_half {
            size_of::<f16>()
        } else {
            size_of::<T>()
        };
        let first = self.memory.cast_const();
        first..first.wrapping_add(self.count * size)
    }

    /// Whether bytes are among those of the host's memory.
    pub(super) fn overlaps(&self, bytes: Range<*const u8>) -> bool {
        let len = |bytes: &Range<*const u8>| bytes.end.addr().saturating_sub(bytes.start.addr());
        let own = self.bytes();
        overlaps(own.start, len(&own), bytes.start, len(&bytes))
    }

    /// The elements, which nobody may have written yet.
    pub(super) fn elements(&mut self) -> &mut [MaybeUninit<T>] {
        if self.count == 0 || !self.own.is_empty() {
            return &mut self.own;
        }
        // SAFETY: `new`'s caller; the memory is aligned.
        unsafe { slice::from_raw_parts_mut(self.memory.cast(), self.count) }
    }

    /// Writes elements that are not in the host's memory yet.
    ///
    /// # Safety
    /// All elements were written.
    pub(super) unsafe fn finish(self) {
        // SAFETY: the caller's.
        let elements = unsafe { self.own.assume_init_ref() };
        if !self.is_half {
            let (from, size) = (elements.as_ptr().cast(), size_of_val(elements));
            // SAFETY: `new`'s caller; these are as many elements.
            unsafe { ptr::copy_nonoverlapping(from, self.memory, size) };
            return;
        }
        let mut halves = [f16::ZERO; AT_ONCE];
        for (index, part) in elements.chunks(AT_ONCE).enumerate() {
            let halves = &mut halves[..part.len()];
            T::to_halves(part, halves);
            let (from, size) = (halves.as_ptr().cast(), size_of_val(halves));
            // SAFETY: as above; the parts before are so long, and the memory need not be aligned.
            unsafe {
                let to = self.memory.cast::<f16>().add(index * AT_ONCE);
                ptr::copy_nonoverlapping(from, to.cast::<u8>(), size);
            }
        }
    }
}
