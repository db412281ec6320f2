//! Lengths on the device: which of them are out of range.

use super::buffers::{Buffers, LengthsSlice, layout};
use super::host::read_after;
use super::slabs::Motion;
use super::{Error, ReverseSubsequencesPass};
use crate::{DataType, Tensor};

/// The bytes of a status.
pub const STATUS_BYTES: usize = 16;

impl ReverseSubsequencesPass {
    /// A buffer for a status, to be given to [`encode_check`](Self::encode_check).
    ///
    /// # Errors
    /// A device that is lost or out of memory.
    pub fn create_status_buffer(&self) -> Result<wgpu::Buffer, Error> {
        let context = self.context();
        context.catch("making a status buffer", || {
            context.device().create_buffer(&wgpu::BufferDescriptor {
                label: Some("revseq status"),
                size: STATUS_BYTES as u64,
                usage: wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_SRC
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        })
    }

    /// Records a check of lengths on the device.
    ///
    /// The operator clamps them in any case. Afterwards the first [`STATUS_BYTES`]
    /// of `status` encode which length, if any, is negative or longer than the
    /// axis: [`status_result`](Self::status_result) decodes them. `status` also
    /// needs [`BufferUsages::COPY_DST`](wgpu::BufferUsages::COPY_DST), since it is
    /// cleared first.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), and [`Error::UnsupportedSize`] for more than
    /// 2^32 − 1 lengths.
    pub fn encode_check(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        lengths: LengthsSlice<'_>,
        status: wgpu::BufferSlice<'_>,
    ) -> Result<(), Error> {
        let count = self.plan().lengths_count() as u64;
        if count > u32::MAX.into() {
            return Err(Error::UnsupportedSize {
                what: "lengths to check",
                actual: count,
                maximum: u32::MAX.into(),
            });
        }
        let usages = status.buffer().usage();
        if !usages.contains(wgpu::BufferUsages::COPY_DST) {
            return Err(Error::MissingUsage {
                tensor: Tensor::Output,
                actual: usages,
                required: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            });
        }
        let written = (status, STATUS_BYTES);
        let buffers = Buffers::new(self.plan(), None, lengths, "the status", written)?;
        let bound = self.bind_motion(Motion::Check, &buffers)?;
        encoder.clear_buffer(status.buffer(), status.offset(), Some(STATUS_BYTES as u64));
        bound.encode(encoder);
        Ok(())
    }

    /// Decodes a status of lengths of this data type.
    ///
    /// # Errors
    /// [`crate::Error::LengthOutOfRange`] with the first such length, like
    /// [`SequenceLengths::new`](crate::SequenceLengths::new) under
    /// [`LengthsPolicy::Reject`](crate::LengthsPolicy::Reject).
    pub fn status_result(
        &self,
        status: &[u8; STATUS_BYTES],
        data_type: DataType,
    ) -> Result<(), Error> {
        let word = |index: usize| {
            let bytes = [0, 1, 2, 3].map(|byte| status[4 * index + byte]);
            u32::from_ne_bytes(bytes)
        };
        if word(0) == 0 {
            return Ok(());
        }
        let bits = u64::from(word(2)) | u64::from(word(3)) << 32;
        let value = if layout(data_type)?.signed {
            i128::from(bits.cast_signed())
        } else {
            i128::from(bits)
        };
        Err(Error::Operator(crate::Error::LengthOutOfRange {
            index: !word(1) as usize,
            value,
            maximum: self.plan().axis_size() as u64,
        }))
    }

    /// Waits for all submitted work and reads a status back. `status` needs
    /// [`BufferUsages::COPY_SRC`](wgpu::BufferUsages::COPY_SRC).
    ///
    /// # Errors
    /// As [`status_result`](Self::status_result), and errors of the device.
    pub fn read_status(
        &self,
        status: wgpu::BufferSlice<'_>,
        data_type: DataType,
    ) -> Result<(), Error> {
        let mut bytes = [0; STATUS_BYTES];
        read_after(self.context(), |_| {}, status, &mut bytes)?;
        self.status_result(&bytes, data_type)
    }
}
