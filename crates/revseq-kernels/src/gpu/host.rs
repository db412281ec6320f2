//! The operator on the host's slices: up, run, back.

use std::ops::Range;

use super::buffers::Buffers;
use super::params::Offsets;
use super::slabs::{Excess, ExcessKind, LengthsLayout, Motion, Nest, Slab, slabs};
use super::staging::Transfer;
use super::{Error, ReverseSubsequencesPass};
use crate::error::check_buffer;
use crate::{LengthsData, SequenceLengths, Tensor};

/// Reverses subsequences of `input` into `output`, both in bytes, on the device.
///
/// As [`cpu::run`](crate::cpu::run): bytes of the output between its strides
/// keep their values, and nothing is written unless all checks pass. Buffers
/// are kept for the next run ([`Context::trim`](super::Context::trim) frees them); tensors larger
/// than a buffer of the device take several, one after another.
///
/// # Errors
/// [`crate::Error::BufferTooShort`] and [`crate::Error::LengthsOfAnotherPlan`] as
/// on the CPU; [`Error::DeviceLost`], [`Error::OutOfMemory`] and
/// [`Error::UnsupportedSize`], after which the output may be written in part.
pub fn run(
    pass: &ReverseSubsequencesPass,
    lengths: &SequenceLengths<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Result<(), Error> {
    let plan = pass.plan();
    lengths.check_plan(plan)?;
    check_buffer(Tensor::Input, input.len(), plan.input_bytes())?;
    check_buffer(Tensor::Output, output.len(), plan.output_bytes())?;
    run_slabs(pass, lengths.data(), Some(input), output)
}

/// Reverses subsequences of `data`, in bytes, in place on the device.
///
/// # Errors
/// As [`run`], and [`crate::Error::NotInPlace`] if input and output have different layouts.
pub fn run_in_place(
    pass: &ReverseSubsequencesPass,
    lengths: &SequenceLengths<'_>,
    data: &mut [u8],
) -> Result<(), Error> {
    let plan = pass.plan();
    lengths.check_plan(plan)?;
    plan.check_in_place()?;
    check_buffer(Tensor::Output, data.len(), plan.output_bytes())?;
    run_slabs(pass, lengths.data(), None, data)
}

/// Runs slab by slab, each as large as a buffer can be: one, unless tensors are larger. In place
/// if there is no input.
fn run_slabs(
    pass: &ReverseSubsequencesPass,
    lengths: LengthsData<'_>,
    input: Option<&[u8]>,
    output: &mut [u8],
) -> Result<(), Error> {
    let motion = if input.is_some() {
        Motion::Copy
    } else {
        Motion::Swap
    };
    let Some(nest) = Nest::new(pass.plan(), motion) else {
        return Ok(());
    };
    let (lengths, layout) = bytes_of(lengths);
    let maximum = pass.context().limits().max_buffer_size;
    let slabs = slabs(&nest, Slab::whole(&nest), |slab| {
        for (kind, range) in [
            (ExcessKind::Input, slab.input(&nest)),
            (ExcessKind::Lengths, slab.lengths(&nest, layout)),
            (ExcessKind::Output, slab.output(&nest)),
        ] {
            Excess::check(kind, (range.end - range.start).next_multiple_of(4), maximum)?;
        }
        Ok(())
    })?;
    for (slab, ()) in slabs {
        run_slab(pass, &nest, slab, (lengths, layout), input, output)?;
    }
    Ok(())
}

/// Runs a slab, with its part of every tensor in a separate buffer.
fn run_slab(
    pass: &ReverseSubsequencesPass,
    nest: &Nest,
    slab: Slab,
    (lengths, layout): (&[u8], LengthsLayout),
    input: Option<&[u8]>,
    output: &mut [u8],
) -> Result<(), Error> {
    let context = pass.context();
    let ranges = [
        slab.input(nest),
        slab.lengths(nest, layout),
        slab.output(nest),
    ];
    // The bytes of each tensor that precede its buffer.
    let missing = ranges.each_ref().map(|range| -range.start.cast_signed());
    let [input_range, lengths_range, output_range] = ranges.map(to_usize);
    let (written, mut mirrored) = if slab.is_apart(nest) {
        // The second halves of pairs are elsewhere.
        let overlap = |_| Error::UnsupportedSize {
            what: "bytes of an interleaved tensor to be reversed in place",
            actual: pass.plan().output_bytes() as u64,
            maximum: context.limits().max_buffer_size,
        };
        let [written, mirrored] = output
            .get_disjoint_mut([output_range, input_range.clone()])
            .map_err(overlap)?;
        (written, Some(mirrored))
    } else {
        (&mut output[output_range], None)
    };
    let mut transfer = Transfer::new(context);
    let keeps = nest.motion == Motion::Swap || !slab.fills(nest);
    let output = transfer.tensor(written.len(), if keeps { written } else { &[] })?;
    let mut copied = |bytes: &[u8]| transfer.tensor(bytes.len(), bytes);
    let lengths = copied(&lengths[lengths_range])?;
    let input = match (input, &mirrored) {
        (Some(input), _) => Some(copied(&input[input_range])?),
        (None, Some(mirrored)) => Some(copied(mirrored)?),
        (None, None) => None,
    };
    let buffers = Buffers {
        input: input.as_ref().unwrap_or(&output),
        lengths: &lengths,
        output: &output,
        offsets: Offsets {
            input: missing[0],
            lengths: missing[1],
            output: missing[2],
        },
        layout,
        shared: false,
    };
    let bound = pass.bind_slab(nest, slab, &buffers)?;
    let mut downloads = vec![(&output, 0, written)];
    if let Some(mirrored) = &mut mirrored {
        downloads.push((buffers.input, 0, mirrored));
    }
    transfer.run(|encoder| bound.encode(encoder), downloads)
}

/// The lengths as the device reads them.
fn bytes_of(lengths: LengthsData<'_>) -> (&[u8], LengthsLayout) {
    let layout = |words, signed| LengthsLayout { words, signed };
    match lengths {
        LengthsData::I32(lengths) => (bytemuck::cast_slice(lengths), layout(1, true)),
        LengthsData::I64(lengths) => (bytemuck::cast_slice(lengths), layout(2, true)),
        LengthsData::U32(lengths) => (bytemuck::cast_slice(lengths), layout(1, false)),
        LengthsData::U64(lengths) => (bytemuck::cast_slice(lengths), layout(2, false)),
    }
}

/// A range of bytes that are on the host.
fn to_usize(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
