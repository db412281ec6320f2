//! The kernel of any processor.

use super::{Operands, QUAD, ROWS, Sums, Tiles, WIDTH, multiply};

multiply!(plain, tile);

#[cfg(target_arch = "x86_64")]
type Row = u8;
#[cfg(not(target_arch = "x86_64"))]
type Row = i8;

fn tile<const COUNT: usize>(left: &[u8], panel: &[u8], sums: &mut Sums) {
    *sums = [[0; WIDTH]; ROWS];
    let quads = panel.chunks_exact(QUAD * WIDTH);
    for (rows, columns) in left.chunks_exact(QUAD * COUNT).zip(quads) {
        for (row, sums) in rows.chunks_exact(QUAD).zip(&mut *sums) {
            for (column, sum) in columns.chunks_exact(QUAD).zip(sums) {
                let products = std::iter::zip(row, column)
                    .map(|(a, b)| i32::from(*a as Row) * i32::from(*b as i8));
                *sum = sum.wrapping_add(products.sum());
            }
        }
    }
}
