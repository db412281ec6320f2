//! The loop that one would write without thinking about it twice.

/// The data as a nest of five loops: the dimensions outside both axes, the
/// outer axis, those between, the inner axis, and those inside both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nest {
    sizes: [usize; 5],
    /// Whether the outer of the two axes is time.
    is_time_outer: bool,
}

impl Nest {
    pub(crate) fn new(dims: &[u64], batch_axis: usize, time_axis: usize) -> Self {
        let (outer, inner) = (batch_axis.min(time_axis), batch_axis.max(time_axis));
        let product = |dims: &[u64]| dims.iter().product::<u64>() as usize;
        Self {
            sizes: [
                product(&dims[..outer]),
                dims[outer] as usize,
                product(&dims[outer + 1..inner]),
                dims[inner] as usize,
                product(&dims[inner + 1..]),
            ],
            is_time_outer: time_axis < batch_axis,
        }
    }

    /// Calls `visit` with where each row of the output lies, and where it comes
    /// from, both in elements.
    #[inline(always)]
    fn for_each_row(&self, lengths: &[i64], mut visit: impl FnMut(usize, usize)) {
        let [before, outer, between, inner, after] = self.sizes;
        for a in 0..before {
            for b in 0..outer {
                for c in 0..between {
                    for d in 0..inner {
                        let (batch, time) = if self.is_time_outer { (d, b) } else { (b, d) };
                        let length = lengths[batch] as usize;
                        let from = if time < length {
                            length - 1 - time
                        } else {
                            time
                        };
                        let (b_from, d_from) = if self.is_time_outer {
                            (from, d)
                        } else {
                            (b, from)
                        };
                        let row = |b, d| (((a * outer + b) * between + c) * inner + d) * after;
                        visit(row(b, d), row(b_from, d_from));
                    }
                }
            }
        }
    }

    /// Reverses sequences element by element, or row by row where rows are whole.
    #[inline(never)]
    pub(crate) fn reverse<T: Copy>(&self, lengths: &[i64], input: &[T], output: &mut [T]) {
        match self.sizes[4] {
            1 => self.for_each_row(lengths, |to, from| output[to] = input[from]),
            row => self.for_each_row(lengths, |to, from| {
                output[to..to + row].copy_from_slice(&input[from..from + row]);
            }),
        }
    }

    /// Whether `output` is `input` with its sequences of elements of `width` bytes reversed.
    pub(crate) fn is_reversed(
        &self,
        width: usize,
        lengths: &[i64],
        input: &[u8],
        output: &[u8],
    ) -> bool {
        let row = self.sizes[4] * width;
        let mut is_reversed = true;
        self.for_each_row(lengths, |to, from| {
            is_reversed &= output[to * width..][..row] == input[from * width..][..row];
        });
        is_reversed
    }
}

/// [`Nest::reverse`] of bytes that hold elements of `width` bytes.
///
/// # Panics
/// If the bytes are not aligned to the elements or not a whole number of them.
pub(crate) fn reverse_bytes(
    nest: &Nest,
    width: usize,
    lengths: &[i64],
    input: &[u8],
    output: &mut [u8],
) {
    use bytemuck::{cast_slice, cast_slice_mut};
    match width {
        1 => nest.reverse(lengths, input, output),
        2 => nest.reverse::<u16>(lengths, cast_slice(input), cast_slice_mut(output)),
        4 => nest.reverse::<u32>(lengths, cast_slice(input), cast_slice_mut(output)),
        8 => nest.reverse::<u64>(lengths, cast_slice(input), cast_slice_mut(output)),
        _ => nest.reverse::<u128>(lengths, cast_slice(input), cast_slice_mut(output)),
    }
}

#[cfg(test)]
mod tests {
    use revseq_kernels::reference;

    use super::*;
    use crate::buffer::Buffer;
    use crate::regime::{Regime, regimes};

    /// The same axes and elements with few of each.
    fn small(regime: Regime) -> Regime {
        let sizes = [5_u64, 7, 3, 6, 2];
        Regime {
            dims: Box::leak(sizes[..regime.dims.len()].into()),
            ..regime
        }
    }

    #[test]
    fn the_loop_and_the_check_are_the_definition() {
        for regime in regimes().into_iter().map(small) {
            let lengths = regime.sequence_lengths();
            let input = Buffer::random(regime.bytes()).unwrap();
            let mut expected = Buffer::new(regime.bytes()).unwrap();
            reference::reverse_subsequences(
                &regime.desc(),
                input.bytes(),
                &lengths,
                expected.bytes_mut(),
            );
            let nest = Nest::new(regime.dims, regime.batch_axis, regime.time_axis);
            let width = regime.data_type.size();
            let mut output = Buffer::new(regime.bytes()).unwrap();
            reverse_bytes(&nest, width, &lengths, input.bytes(), output.bytes_mut());
            assert_eq!(output.bytes(), expected.bytes(), "{regime}");
            let is_right =
                |output: &Buffer| nest.is_reversed(width, &lengths, input.bytes(), output.bytes());
            assert!(is_right(&output), "{regime}");
            for byte in 0..regime.bytes() {
                output.bytes_mut()[byte] ^= 1;
                assert!(!is_right(&output), "{regime}: byte {byte}");
                output.bytes_mut()[byte] ^= 1;
            }
        }
    }
}
