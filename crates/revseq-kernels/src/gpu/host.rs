//! The operator on the host's slices: up, run, back.

use std::ops::Range;

use super::params::{LengthsLayout, Offsets};
use super::pass::Buffers;
use super::slabs::{Excess, ExcessKind, Motion, Nest, Slab, slabs};
use super::staging::Transfer;
use super::{Error, ReverseSubsequencesPass};
use crate::{LengthsData, SequenceLengths, Tensor};

/// Reverses subsequences of `input` into `output`, both in bytes, on the device.
///
/// As [`cpu::run`](crate::cpu::run): bytes of the output between its strides
/// keep their values, and nothing is written unless all checks pass. Buffers
/// are kept for the next run ([`Context::trim`](super::Context::trim) frees them); tensors larger than
/// a buffer of the device take several, one after another.
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
    let input =
        check(Tensor::Input, input.len(), plan.input_bytes()).map(|bytes| &input[..bytes])?;
    let bytes = check(Tensor::Output, output.len(), plan.output_bytes())?;
    let host = Host::Apart(input);
    run_motion(
        pass,
        Motion::Copy,
        lengths.data(),
        host,
        &mut output[..bytes],
    )
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
    let bytes = check(Tensor::Output, data.len(), plan.output_bytes())?;
    run_motion(
        pass,
        Motion::Swap,
        lengths.data(),
        Host::InPlace,
        &mut data[..bytes],
    )
}

/// The input's location on the host.
#[derive(Clone, Copy)]
enum Host<'a> {
    Apart(&'a [u8]),
    InPlace,
}

fn check(tensor: Tensor, actual: usize, required: usize) -> Result<usize, Error> {
    if actual < required {
        return Err(Error::Operator(crate::Error::BufferTooShort {
            tensor,
            actual,
            required,
        }));
    }
    Ok(required)
}

fn run_motion(
    pass: &ReverseSubsequencesPass,
    motion: Motion,
    lengths: LengthsData<'_>,
    host: Host<'_>,
    output: &mut [u8],
) -> Result<(), Error> {
    let Some(nest) = Nest::new(pass.plan(), motion) else {
        return Ok(());
    };
    let maximum = pass.context().limits().max_buffer_size;
    let (lengths, layout) = bytes_of(lengths);
    let input_bytes = pass.plan().input_bytes();
    let fits = [input_bytes, lengths.len(), output.len()]
        .iter()
        .all(|bytes| bytes.next_multiple_of(4) as u64 <= maximum);
    if fits {
        run_whole(pass, &nest, lengths, layout, host, output)
    } else {
        run_slabs(pass, &nest, lengths, layout, host, output)
    }
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

/// Runs with every tensor in a separate buffer.
fn run_whole(
    pass: &ReverseSubsequencesPass,
    nest: &Nest,
    lengths: &[u8],
    layout: LengthsLayout,
    host: Host<'_>,
    output: &mut [u8],
) -> Result<(), Error> {
    let context = pass.context();
    let mut transfer = Transfer::new(context);
    let lengths_buffer = transfer.tensor(lengths.len(), Some(lengths))?;
    let is_dense = pass.plan().moved_bytes() == output.len();
    let keeps = nest.motion == Motion::Swap || !is_dense;
    let output_buffer = transfer.tensor(output.len(), keeps.then_some(&*output))?;
    let input_buffer = match host {
        Host::Apart(input) => Some(transfer.tensor(input.len(), Some(input))?),
        Host::InPlace => None,
    };
    let buffers = Buffers {
        input: input_buffer.as_ref().unwrap_or(&output_buffer).buffer(),
        lengths: lengths_buffer.buffer(),
        output: output_buffer.buffer(),
        offsets: Offsets::default(),
    };
    let bound = pass.bind_motion(nest.motion, layout, false, &buffers)?;
    transfer.run(
        |encoder| bound.encode(encoder),
        &mut [(output_buffer.buffer(), 0, output)],
    )
}

/// Runs slab by slab, each as large as a buffer can be.
fn run_slabs(
    pass: &ReverseSubsequencesPass,
    nest: &Nest,
    lengths: &[u8],
    layout: LengthsLayout,
    host: Host<'_>,
    output: &mut [u8],
) -> Result<(), Error> {
    let length_bytes = 4 * u64::from(layout.words);
    let maximum = pass.context().limits().max_buffer_size;
    let slabs = slabs(nest, Slab::whole(nest), |slab| {
        let lengths = slab.lengths(nest);
        let sizes = [
            (ExcessKind::Input, slab.input(nest), 1),
            (ExcessKind::Lengths, lengths, length_bytes),
            (ExcessKind::Output, slab.output(nest), 1),
        ];
        for (kind, range, width) in sizes {
            let actual = ((range.end - range.start) * width).next_multiple_of(4);
            if actual > maximum {
                return Err(Excess {
                    kind,
                    actual,
                    maximum,
                });
            }
        }
        Ok(())
    })?;
    for (slab, ()) in slabs {
        let lengths_range = slab.lengths(nest);
        let missing = Offsets {
            input: slab.input(nest).start,
            lengths: lengths_range.start * length_bytes,
            output: slab.output(nest).start,
        };
        let lengths = &lengths
            [to_usize(lengths_range.start * length_bytes..lengths_range.end * length_bytes)];
        let mut transfer = Transfer::new(pass.context());
        let lengths_buffer = transfer.tensor(lengths.len(), Some(lengths))?;
        let (input_range, output_range) = (to_usize(slab.input(nest)), to_usize(slab.output(nest)));
        // The second halves of pairs, if they are elsewhere.
        let (written, mut mirrored) = if slab.is_apart(nest) {
            let [written, mirrored] = output
                .get_disjoint_mut([output_range, input_range.clone()])
                .map_err(|_| Error::UnsupportedSize {
                    what: "bytes of an interleaved tensor to be reversed in place",
                    actual: pass.plan().output_bytes() as u64,
                    maximum,
                })?;
            (written, Some(mirrored))
        } else {
            (&mut output[output_range], None)
        };
        let keeps = nest.motion == Motion::Swap || !slab.fills(nest);
        let output_buffer = transfer.tensor(written.len(), keeps.then_some(&*written))?;
        let input = match (host, &mirrored) {
            (Host::Apart(input), _) => Some(&input[input_range]),
            (Host::InPlace, Some(mirrored)) => Some(&**mirrored),
            (Host::InPlace, None) => None,
        };
        let input_buffer = input
            .map(|input| transfer.tensor(input.len(), Some(input)))
            .transpose()?;
        let input_buffer = input_buffer.as_ref().unwrap_or(&output_buffer).buffer();
        let buffers = Buffers {
            input: input_buffer,
            lengths: lengths_buffer.buffer(),
            output: output_buffer.buffer(),
            offsets: Offsets::default(),
        };
        let builder = pass.builder(nest, layout, &Offsets::default(), missing);
        let prepared: Vec<_> = builder
            .dispatches(slab, &Offsets::default())?
            .into_iter()
            .map(|dispatch| pass.prepare_one(nest, false, dispatch))
            .collect::<Result<_, Error>>()?;
        let bound = pass.bind_prepared(&prepared, &buffers, &Offsets::default())?;
        let mut downloads = vec![(output_buffer.buffer(), 0, written)];
        if let Some(mirrored) = &mut mirrored {
            downloads.push((input_buffer, 0, mirrored));
        }
        transfer.run(|encoder| bound.encode(encoder), &mut downloads)?;
    }
    Ok(())
}

/// A range of bytes that are on the host.
fn to_usize(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
