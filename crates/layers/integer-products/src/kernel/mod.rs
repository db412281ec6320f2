//! The product of packed matrices with the instructions of a processor.
//!
//! A kernel multiplies a tile of rows with the columns of a panel. Both lie in *quads*: four numbers
//! of one row or column, one after another in the inner axis, which dot products take at once.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// The numbers of a quad.
pub(crate) const QUAD: usize = 4;

/// The numbers of a row that become parts of quads at once.
pub(crate) const LANES: usize = 32;

/// The columns of a panel.
pub const WIDTH: usize = 64;

/// The most rows of a tile.
pub(crate) const ROWS: usize = 6;

/// The sums of a tile.
pub(crate) type Sums = [[i32; WIDTH]; ROWS];

/// Makes quads of four rows, with some bits flipped.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn interleave(rows: [&[u8; LANES]; QUAD], flipped: u8, to: &mut [u8; QUAD * LANES]) {
    *to = std::array::from_fn(|at| rows[at % QUAD][at / QUAD] ^ flipped);
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::interleave;

/// The instructions of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Dot products of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// The same in vectors of 256 bits, without AVX-512.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// Products of 16 bits: those of 8 bits saturate their sums.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Dot products of Arm.
    #[cfg(target_arch = "aarch64")]
    Dot,
    /// Products of 16 bits.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Any processor's.
    Plain,
}

/// What a kernel multiplies: tiles of rows, and panels of columns.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    /// The quads of all tiles.
    pub(crate) left: &'a [u8],
    pub(crate) rows: usize,
    /// The quads of some panels.
    pub(crate) panels: &'a [u8],
    /// The number of quads in a row or column.
    pub(crate) quads: usize,
}

impl Operands<'_> {
    /// The tiles of all rows: their first row and their number.
    pub(crate) fn tiles(rows: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        // Tiles of about equal size, since sums of few rows wait for each other.
        let tiles = rows.div_ceil(ROWS);
        let (size, larger) = match tiles {
            1 => (rows, 0),
            _ => (
                rows.checked_div(tiles).unwrap_or_default(),
                rows.checked_rem(tiles).unwrap_or_default(),
            ),
        };
        (0..tiles).map(move |tile| {
            let first = tile * size + tile.min(larger);
            (first, size + usize::from(tile < larger))
        })
    }
}

/// Takes the sums of a tile of rows: its panel, first row and number of rows.
pub(crate) trait Tiles {
    fn take(&mut self, panel: usize, first: usize, rows: usize, sums: &mut Sums);
}

/// Writes the function that multiplies operands, for the target features and tile function of a kernel.
macro_rules! multiply {
    ($name:ident, $tile:ident $(, $features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        pub(super) fn $name(operands: Operands<'_>, tiles: &mut impl Tiles) {
            let Operands { left, rows, panels, quads } = operands;
            let mut sums = [[0; WIDTH]; ROWS];
            let all = Operands::tiles(rows);
            for (index, panel) in panels.chunks_exact((quads * QUAD * WIDTH).max(1)).enumerate() {
                for (first, count) in all.clone() {
                    let left = &left[first * quads * QUAD..][..count * quads * QUAD];
                    match count {
                        1 => $tile::<1>(left, panel, &mut sums),
                        2 => $tile::<2>(left, panel, &mut sums),
                        3 => $tile::<3>(left, panel, &mut sums),
                        4 => $tile::<4>(left, panel, &mut sums),
                        5 => $tile::<5>(left, panel, &mut sums),
                        _ => $tile::<6>(left, panel, &mut sums),
                    }
                    tiles.take(index, first, count, &mut sums);
                }
            }
        }
    };
}
use multiply;

impl Kernel {
    /// The fastest kernel of this processor.
    pub(crate) fn fastest() -> Self {
        Self::available().next().unwrap_or(Self::Plain)
    }

    /// The kernels of this processor, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = x86_64::available();
        #[cfg(target_arch = "aarch64")]
        let vectors = aarch64::available();
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vectors = std::iter::empty();
        vectors.chain([Self::Plain])
    }

    /// Whether it takes the rows as unsigned numbers, as it takes columns as signed ones.
    pub(crate) fn has_unsigned_rows(self) -> bool {
        cfg!(target_arch = "x86_64")
    }

    /// Multiplies all tiles with all panels.
    #[inline]
    pub(crate) fn multiply(self, operands: Operands<'_>, tiles: &mut impl Tiles) {
        match self {
            // SAFETY: The processor has the instructions of an available kernel.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => unsafe { x86_64::avx512_vnni(operands, tiles) },
            // SAFETY: As above.
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => unsafe { x86_64::avx_vnni(operands, tiles) },
            // SAFETY: As above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86_64::avx2(operands, tiles) },
            // SAFETY: As above.
            #[cfg(target_arch = "aarch64")]
            Self::Dot => unsafe { aarch64::dot(operands, tiles) },
            // SAFETY: As above.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { aarch64::neon(operands, tiles) },
            Self::Plain => plain::plain(operands, tiles),
        }
    }
}
