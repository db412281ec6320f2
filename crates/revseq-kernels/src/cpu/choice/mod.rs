//! Which kernel fits a plan: how its rows move, the instructions, how far away the bytes are.

pub(crate) mod dispatch;
pub(crate) mod processor;
pub(crate) mod with_const;

use crate::Plan;
use crate::cpu::kernels::columns::Tiling;
use crate::cpu::loop_nest::LoopNest;
use crate::cpu::memory::LINE;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::threads::ParallelMin;
use crate::plan::Strategy;

/// From this many bytes on the output is written past the caches.
///
/// Below it a copy through the caches is faster, above it one with streaming
/// stores. Where they meet depends on the last-level cache, which has to hold
/// input and output: measured at 7 to 16 MiB with 32 MiB of it that others share.
const STREAMING_BYTES: usize = 8 << 20;

/// From this many bytes on, more than the innermost cache holds beside as many
/// of the input, it pays to prefetch what is read and written next.
const ASKING_BYTES: usize = 48 << 10;

/// The same where that takes more instructions: vectors of less than a cache
/// line ask more than once for each.
const ASKING_BYTES_OF_NARROW_VECTORS: usize = 1 << 20;

/// The same for rows of less than [`SHORT_ROW_BYTES`]: to find out what is read
/// soon costs as much as they do.
const ASKING_BYTES_OF_SHORT_ROWS: usize = 2 << 20;

/// The same for processors that foresee what lies in their caches: Zen 4, 4 MiB,
/// 1.15 to 1.45 times a copy without prefetch and 1.2 to 1.7 asked, 8 MiB 1.2 and 1.1.
const ASKING_BYTES_OF_FORESIGHT: usize = 6 << 20;

/// From this many bytes on it pays to prefetch what is exchanged next.
///
/// Not measured: more than a second level holds. Processors of foresight are asked as
/// soon as copies are: Zen 4, sequences of 4 KiB, without prefetch, of the time asked, 8 MiB 1.2,
/// 2 MiB 0.93.
const ASKING_BYTES_IN_PLACE: usize = 1 << 20;

/// Rows of less are short.
const SHORT_ROW_BYTES: usize = 256;

/// From how many bytes on a row is copied as one though it is less than a cache
/// line and its neighbours have lengths of their own, by the widest vectors and
/// by others: there it takes as long as its part of a tile, or less.
///
/// Zen 4, 200 to 600 KB, of the time by tiles, out of place and in place: AVX-512 33
/// bytes 0.55 and 0.25, 40 bytes 0.8 and 0.4, 32 bytes 0.9 to 1.3 and 0.6 to 1.4; AVX2
/// 20 bytes 0.9 to 1.05 and 0.5, 16 bytes 1.35 and 0.7; SSE2 20 bytes 0.85 and 0.3.
///
/// Where its neighbours are the time steps before and after it, of the time that
/// [`narrow`](crate::cpu::kernels::shuffle_rows) takes: in place 0.45 to 0.65, SSE2 0.75 to 0.95; out of
/// place AVX-512 0.7 to 0.85, the others 0.95 to 1.45, and past the caches 1.5 to 3.
const WIDE_ROW_BYTES: (usize, usize) = (33, 20);

/// As long as no more than this has to be moved: past the caches the part of a
/// line that is not read would be read again later. In place 3 MiB take 0.85 of
/// the time by tiles, 5 MiB 1.1, 20 MiB 1.5.
const WIDE_ROWS_TOGETHER: usize = 4 << 20;

/// Below this many bytes a run of few rows costs less than to choose how it is made.
const SMALL_BYTES: usize = 1 << 10;

/// Below this many rows, too: each takes as long, whatever its bytes.
///
/// Zen 4, by the kernel that fits, of the time one by one: 64 elements of 4x16
/// 0.7, 900 of 30x30 0.1; columns of 16x4 1.5 to 1.9, of 10x16 0.85, of 30x30 0.3.
const SMALL_ROWS: usize = 128;

/// The same where they are elements that lie one after the other.
const SMALL_ELEMENTS: usize = 48;

/// Whether a plan is so small that its rows are best moved one by one.
pub(crate) fn is_small(plan: &Plan) -> bool {
    let rows = match plan.strategy() {
        Strategy::Elements => SMALL_ELEMENTS,
        _ => SMALL_ROWS,
    };
    plan.moved_bytes() < SMALL_BYTES.min(rows * plan.row_bytes)
}

/// How the rows of a plan move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// One by one, by any strides.
    Scalar,
    /// Many bytes at a time.
    Rows,
    /// Contiguous along time, of the width of an element.
    Elements,
    /// Contiguous along time, and narrower than a cache line.
    ShuffleRows,
    /// Contiguous across time, with lengths of their own.
    Columns(Tiling),
}

impl Kernel {
    /// That of a plan that is not [small](is_small), whose output is at `output`.
    pub(crate) fn of(plan: &Plan, output: *const u8, in_place: bool) -> Self {
        if plan.strategy() == Strategy::Elements {
            return Self::Elements;
        }
        if plan.row_bytes >= LINE {
            return Self::Rows;
        }
        let widest = SimdLevel::current() == SimdLevel::Avx512;
        let wide = match widest {
            true => WIDE_ROW_BYTES.0,
            false => WIDE_ROW_BYTES.1,
        };
        let together = plan.moved_bytes() <= WIDE_ROWS_TOGETHER;
        let packed = (plan.time.input, plan.time.output) == (plan.row_bytes, plan.row_bytes);
        let as_rows = match packed {
            true => in_place || widest && together,
            false => together,
        };
        if plan.row_bytes >= wide && as_rows {
            return Self::Rows;
        }
        if packed {
            return Self::ShuffleRows;
        }
        Tiling::new(plan, output).map_or(Self::Scalar, Self::Columns)
    }

    /// What it walks along, if time has so many steps, and the bytes of an item.
    pub(crate) fn nest(self, plan: &Plan, time_steps: usize) -> (LoopNest, usize) {
        match self {
            Self::Columns(tiling) => (
                LoopNest::tiles(plan, tiling.tiles(plan)),
                // Tiles of few columns end behind them.
                time_steps.saturating_mul(tiling.bytes),
            ),
            _ => (LoopNest::new(plan, time_steps), plan.row_bytes),
        }
    }

    /// From how many bytes on a second thread gains, as measured with two: with
    /// caches of their own, shared, and far apart (two of AMD's core complexes),
    /// where columns of short rows meet in lines at every border.
    pub(crate) fn parallel_min(self) -> ParallelMin {
        let (rayon, host) = match self {
            Self::Scalar => (512 << 10, 128 << 10),
            Self::Columns(_) => (4 << 20, 2 << 20),
            Self::Rows | Self::Elements | Self::ShuffleRows => (6 << 20, 1 << 20),
        };
        ParallelMin { rayon, host }
    }

    /// How far away the bytes of a run are, which writes all of its output if `whole`.
    pub(crate) fn tier(self, plan: &Plan, whole: bool) -> Tier {
        #[cfg(fuzzing)]
        if let Some(tier) = Tier::chosen(whole) {
            return tier;
        }
        let bytes = plan.moved_bytes();
        let asking = match self {
            _ if processor::has_strong_prefetcher() => ASKING_BYTES_OF_FORESIGHT,
            Self::Rows if plan.row_bytes < SHORT_ROW_BYTES => ASKING_BYTES_OF_SHORT_ROWS,
            Self::Elements if SimdLevel::current() < SimdLevel::Avx512 => {
                ASKING_BYTES_OF_NARROW_VECTORS
            }
            _ => ASKING_BYTES,
        };
        match bytes {
            STREAMING_BYTES.. if whole => Tier::Memory,
            _ if bytes >= asking => Tier::Outer,
            _ => Tier::Inner,
        }
    }
}

/// How far away the bytes of a run in place are: [`Tier::Memory`] if it pays to ask
/// for what is exchanged next.
pub(crate) fn tier_in_place(plan: &Plan) -> Tier {
    #[cfg(fuzzing)]
    if let Some(tier) = Tier::chosen(true) {
        return match tier {
            Tier::Outer => Tier::Inner,
            tier => tier,
        };
    }
    let asking = match processor::has_strong_prefetcher() {
        true => ASKING_BYTES_OF_FORESIGHT,
        false => ASKING_BYTES_IN_PLACE,
    };
    match plan.moved_bytes() >= asking {
        true => Tier::Memory,
        false => Tier::Inner,
    }
}

/// How far away a run's bytes are, by which it writes and prefetches what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// In the innermost cache.
    Inner,
    /// In an outer one.
    Outer,
    /// Beyond the caches.
    Memory,
}

#[cfg(fuzzing)]
impl Tier {
    /// What a fuzzer chooses: the outermost only if all of the output is written.
    fn chosen(whole: bool) -> Option<Self> {
        Some(match crate::fuzzing::tier() {
            1 => Self::Inner,
            3 if whole => Self::Memory,
            2 | 3 => Self::Outer,
            _ => return None,
        })
    }
}
