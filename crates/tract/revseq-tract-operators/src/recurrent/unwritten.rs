//! Outputs that nothing writes before the layer does.
//!
//! Zeroing those of many steps takes as long as hundreds of steps, and no deadline ends it.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use recurrent_layers::{Element, Error};
use tract_onnx::tract_hir::internal::*;

use crate::run::check;

/// A tensor whose elements are to be written.
pub(super) struct Unwritten<T> {
    shape: TVec<usize>,
    count: usize,
    /// No tensor yet: tract fills a new one if it has debug assertions.
    memory: Blob,
    elements: PhantomData<T>,
}

#[expect(
    unsafe_code,
    reason = "tract has no safe way to allocate a tensor without writing it twice"
)]
impl<T: Element + Datum> Unwritten<T> {
    pub(super) fn new(shape: &[usize]) -> TractResult<Self> {
        let mut sizes = shape.iter();
        let count = sizes.try_fold(1_usize, |count, size| count.checked_mul(*size));
        let layout = count.and_then(|count| Layout::array::<T>(count).ok());
        let (Some(count), Some(layout)) = (count, layout) else {
            bail!("an output of shape {shape:?} is too large");
        };
        let layout = layout.align_to(vector_size())?;
        Ok(Self {
            shape: shape.into(),
            count,
            // SAFETY: `places` and `written` alone hand the memory out.
            memory: unsafe { Blob::for_layout(layout) },
            elements: PhantomData,
        })
    }

    /// The places of all elements.
    pub(super) fn places(&mut self) -> &mut [MaybeUninit<T>] {
        if self.count == 0 {
            // It has no memory.
            return &mut [];
        }
        let places = self.memory.as_bytes_mut().as_mut_ptr().cast();
        // SAFETY: the memory has room for so many elements, is aligned, and is borrowed for as long as
        // the places.
        unsafe { std::slice::from_raw_parts_mut(places, self.count) }
    }

    /// The outputs of a run that has ended.
    ///
    /// # Safety
    /// The run has written all places of all outputs, or failed.
    pub(super) unsafe fn written(
        outputs: impl IntoIterator<Item = Self>,
        result: Result<(), Error>,
    ) -> TractResult<TVec<TValue>> {
        if result == Err(Error::Stopped) {
            check()?;
        }
        result?;
        let tensors = outputs.into_iter().map(|output| {
            let mut tensor = Tensor::zero_dt(T::datum_type(), &[0])?;
            let storage = tensor.as_plain_ram_storage_mut();
            *storage.context("a new tensor is in memory")? = output.memory.into();
            // SAFETY: the memory has the elements of this shape, and they have been written.
            unsafe { tensor.set_shape_unchecked(&output.shape) };
            Ok(tensor.into_tvalue())
        });
        tensors.collect()
    }
}
