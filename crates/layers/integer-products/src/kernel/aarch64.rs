//! Kernels of AArch64.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use bytemuck::{cast, pod_read_unaligned};

use super::{Kernel, Operands, QUAD, ROWS, Sums, Tiles, WIDTH, multiply};

/// The kernels of this processor.
pub(super) fn available() -> impl Iterator<Item = Kernel> {
    let has_dot = is_aarch64_feature_detected!("dotprod");
    let dot = has_dot.then_some(Kernel::Dot);
    dot.into_iter().chain([Kernel::Neon])
}

multiply!(dot, tile_dot, "dotprod");
multiply!(neon, tile_neon, "neon");

/// Adds the products of quads to sums.
#[target_feature(enable = "dotprod")]
#[inline]
fn dot_product(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // The intrinsic is not stable.
    // SAFETY: The instruction reads and writes registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Four vectors of 4 columns at a time.
#[target_feature(enable = "dotprod")]
#[inline]
fn tile_dot<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    for part in 0..4 {
        let mut all = [[vdupq_n_s32(0); 4]; COUNT];
        let quads = panel.chunks_exact(QUAD * WIDTH);
        for (rows, columns) in left.chunks_exact(QUAD * COUNT).zip(quads) {
            let columns: [int8x16_t; 4] = pod_read_unaligned(&columns[part * 64..][..64]);
            for (row, sums) in all.iter_mut().enumerate() {
                let quad = vreinterpretq_s8_s32(vdupq_n_s32(quad(rows, row)));
                for (sum, columns) in sums.iter_mut().zip(columns) {
                    *sum = dot_product(*sum, quad, columns);
                }
            }
        }
        for (to, from) in std::iter::zip(&mut *sums, all) {
            to[part * 16..][..16].copy_from_slice(&cast::<_, [i32; 16]>(from));
        }
    }
}

/// Two vectors of 4 columns at a time, of which each sum is in two parts.
#[target_feature(enable = "neon")]
#[inline]
fn tile_neon<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    for part in 0..8 {
        let mut all = [[[vdupq_n_s32(0); 2]; 2]; COUNT];
        let quads = panel.chunks_exact(QUAD * WIDTH);
        for (rows, columns) in left.chunks_exact(QUAD * COUNT).zip(quads) {
            let columns: [int8x16_t; 2] = pod_read_unaligned(&columns[part * 32..][..32]);
            for (row, sums) in all.iter_mut().enumerate() {
                let quad = vreinterpretq_s8_s32(vdupq_n_s32(quad(rows, row)));
                for (sums, columns) in sums.iter_mut().zip(columns) {
                    let low = vmull_s8(vget_low_s8(quad), vget_low_s8(columns));
                    let high = vmull_high_s8(quad, columns);
                    *sums = [vpadalq_s16(sums[0], low), vpadalq_s16(sums[1], high)];
                }
            }
        }
        for (to, [[a, b], [c, d]]) in std::iter::zip(&mut *sums, all) {
            let pairs = [vpaddq_s32(a, b), vpaddq_s32(c, d)];
            to[part * 8..][..8].copy_from_slice(&cast::<_, [i32; 8]>(pairs));
        }
    }
}

/// A quad of a row.
#[inline(always)]
fn quad(rows: &[u8], row: usize) -> i32 {
    i32::from_le_bytes(pod_read_unaligned(&rows[row * QUAD..][..QUAD]))
}
