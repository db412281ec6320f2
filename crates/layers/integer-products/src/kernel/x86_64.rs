//! Kernels of x86-64.
//!
//! `vpmaddubsw`, of AVX2, saturates its sums of two products, so products are of 16 bits without VNNI.

use std::arch::x86_64::*;

use bytemuck::{cast, pod_read_unaligned};

use super::{Kernel, LANES, Operands, QUAD, ROWS, Sums, Tiles, WIDTH, multiply};

/// The kernels of this processor.
pub(super) fn available() -> impl Iterator<Item = Kernel> {
    let has_avx2 = is_x86_feature_detected!("avx2");
    let has_avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    [
        (
            Kernel::Avx512Vnni,
            has_avx512 && is_x86_feature_detected!("avx512vnni"),
        ),
        (
            Kernel::AvxVnni,
            has_avx2 && is_x86_feature_detected!("avxvnni"),
        ),
        (Kernel::Avx2, has_avx2),
    ]
    .into_iter()
    .filter_map(|(kernel, is_available)| is_available.then_some(kernel))
}

/// The numbers of a vector of SSE2.
const VECTOR: usize = 16;

/// Makes quads of four rows, with some bits flipped, by instructions that every processor has.
#[inline(always)]
pub(crate) fn interleave(rows: [&[u8; LANES]; QUAD], flipped: u8, to: &mut [u8; QUAD * LANES]) {
    // Vectors are stored one by one: all at once would be loaded before they are.
    let mut to = to.as_chunks_mut().0.iter_mut();
    for at in 0..LANES / VECTOR {
        let vector = |row: &[u8; LANES]| cast::<_, __m128i>(row.as_chunks::<VECTOR>().0[at]);
        let [a, b, c, d] = rows.map(vector);
        // SAFETY: SSE2 is part of x86-64.
        let quads = unsafe {
            let pairs = [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)];
            let others = [_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)];
            let quads = [
                _mm_unpacklo_epi16(pairs[0], others[0]),
                _mm_unpackhi_epi16(pairs[0], others[0]),
                _mm_unpacklo_epi16(pairs[1], others[1]),
                _mm_unpackhi_epi16(pairs[1], others[1]),
            ];
            quads.map(|quads| _mm_xor_si128(quads, _mm_set1_epi8(flipped as i8)))
        };
        for (quads, to) in quads.into_iter().zip(&mut to) {
            *to = cast::<_, [u8; VECTOR]>(quads);
        }
    }
}

multiply!(avx512_vnni, tile_512, "avx512f,avx512bw,avx512vnni");
multiply!(avx_vnni, tile_256, "avx2,avxvnni");
multiply!(avx2, tile_16_bits, "avx2");

/// A quad of a row, in each place of a vector.
macro_rules! quad {
    ($rows:ident, $row:ident) => {
        i32::from_le_bytes(pod_read_unaligned(&$rows[$row * QUAD..][..QUAD]))
    };
}

/// Four vectors of 16 columns. Sums of few rows, which wait for each other, are in two parts.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn tile_512<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    let mut all = [[_mm512_setzero_si512(); 4]; COUNT];
    let mut rest = (left, panel);
    if COUNT <= 2 {
        let mut others = all;
        let (lefts, panels) = (
            left.chunks_exact(2 * QUAD * COUNT),
            panel.chunks_exact(2 * QUAD * WIDTH),
        );
        rest = (lefts.remainder(), panels.remainder());
        for (rows, columns) in lefts.zip(panels) {
            let (rows, next_rows) = rows.split_at(QUAD * COUNT);
            let (columns, next_columns) = columns.split_at(QUAD * WIDTH);
            add_512(rows, columns, &mut all);
            add_512(next_rows, next_columns, &mut others);
        }
        for (sums, others) in all.iter_mut().zip(others) {
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = _mm512_add_epi32(*sum, other);
            }
        }
    }
    let panels = rest.1.chunks_exact(QUAD * WIDTH);
    for (rows, columns) in rest.0.chunks_exact(QUAD * COUNT).zip(panels) {
        add_512(rows, columns, &mut all);
    }
    for (to, from) in std::iter::zip(sums, all) {
        *to = cast(from);
    }
}

/// Adds the products of a quad of each row with one of each column.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn add_512<const COUNT: usize>(rows: &[u8], columns: &[u8], all: &mut [[__m512i; 4]; COUNT]) {
    let columns: [__m512i; 4] = [
        pod_read_unaligned(&columns[..64]),
        pod_read_unaligned(&columns[64..128]),
        pod_read_unaligned(&columns[128..192]),
        pod_read_unaligned(&columns[192..256]),
    ];
    for (row, sums) in all.iter_mut().enumerate() {
        let quad = _mm512_set1_epi32(quad!(rows, row));
        for (sum, columns) in sums.iter_mut().zip(columns) {
            *sum = _mm512_dpbusd_epi32(*sum, quad, columns);
        }
    }
}

/// Two vectors of 8 columns at a time: more sums than registers would not be faster.
#[target_feature(enable = "avx2,avxvnni")]
#[inline]
fn tile_256<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    for part in 0..4 {
        let mut all = [[_mm256_setzero_si256(); 2]; COUNT];
        let quads = panel.chunks_exact(QUAD * WIDTH);
        for (rows, columns) in left.chunks_exact(QUAD * COUNT).zip(quads) {
            let columns = &columns[part * 64..][..64];
            let columns: [__m256i; 2] = [
                pod_read_unaligned(&columns[..32]),
                pod_read_unaligned(&columns[32..]),
            ];
            for row in 0..COUNT {
                let quad = _mm256_set1_epi32(quad!(rows, row));
                for vector in 0..2 {
                    let sum = &mut all[row][vector];
                    *sum = _mm256_dpbusd_avx_epi32(*sum, quad, columns[vector]);
                }
            }
        }
        for (to, from) in std::iter::zip(&mut *sums, all) {
            to[part * 16..][..16].copy_from_slice(&cast::<_, [i32; 16]>(from));
        }
    }
}

/// Two vectors of 4 columns at a time, of which each sum is in two parts.
#[target_feature(enable = "avx2")]
#[inline]
fn tile_16_bits<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    for part in 0..8 {
        let mut all = [[_mm256_setzero_si256(); 2]; COUNT];
        let quads = panel.chunks_exact(QUAD * WIDTH);
        for (rows, columns) in left.chunks_exact(QUAD * COUNT).zip(quads) {
            let columns = &columns[part * 32..][..32];
            let columns: [__m256i; 2] = [
                _mm256_cvtepi8_epi16(pod_read_unaligned(&columns[..16])),
                _mm256_cvtepi8_epi16(pod_read_unaligned(&columns[16..])),
            ];
            for row in 0..COUNT {
                let quad = _mm256_cvtepu8_epi16(_mm_set1_epi32(quad!(rows, row)));
                for vector in 0..2 {
                    let sum = &mut all[row][vector];
                    let products = _mm256_madd_epi16(quad, columns[vector]);
                    *sum = _mm256_add_epi32(*sum, products);
                }
            }
        }
        for (to, [first, second]) in std::iter::zip(&mut *sums, all) {
            // The sums of neighbours lie in halves of each vector.
            let pairs = _mm256_hadd_epi32(first, second);
            let pairs = _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs);
            to[part * 8..][..8].copy_from_slice(&cast::<_, [i32; 8]>(pairs));
        }
    }
}
