//! From a run to the kernel that fits: how its rows move, the instructions, the stores.

use std::ops::Range;

use super::columns::{self, Tiling};
use super::job::Job;
use super::level::Level;
use super::nest::Nest;
use super::sink::{Cached, LINE, Sink, Streaming};
use super::threads::{Threads, Worthwhile};
#[cfg(target_arch = "aarch64")]
use super::vector::V128;
use super::vector::{LANE, Portable, Task, Vector};
#[cfg(target_arch = "x86_64")]
use super::vector::{V256, V512};
use super::walk::{self, Bytes, Element};
use super::{elements, narrow, processor, rows, short_rows};
use crate::plan::Strategy;
use crate::{Plan, SequenceLengths};

/// From this many bytes on the output is written past the caches.
///
/// Below it a copy through the caches is faster, above it one with streaming
/// stores. Where they meet depends on the last-level cache, which has to hold
/// input and output: measured at 8 to 16 MiB with 32 MiB of it.
const STREAMING_BYTES: usize = 12 << 20;

/// From this many bytes on, more than the innermost cache holds beside as many
/// of the input, it pays to ask for what is read and written next.
const ASKING_BYTES: usize = 48 << 10;

/// The same where that takes more instructions: vectors of less than a cache
/// line ask more than once for each.
const ASKING_BYTES_OF_NARROW_VECTORS: usize = 1 << 20;

/// The same for rows of less than [`SHORT_ROW_BYTES`]: to find out what is read
/// soon costs as much as they do.
const ASKING_BYTES_OF_SHORT_ROWS: usize = 2 << 20;

/// The same for processors that foresee what lies in their caches: Zen 4, 4 MiB,
/// 1.15 to 1.45 times a copy unasked and 1.2 to 1.7 asked, 8 MiB 1.2 and 1.1.
const ASKING_BYTES_OF_FORESIGHT: usize = 6 << 20;

/// Rows of less are short.
const SHORT_ROW_BYTES: usize = 256;

/// Below this many bytes a run costs less than to choose how it is made.
const SMALL_BYTES: usize = 1 << 10;

/// From this many bytes on it pays to look which lengths are equal.
const UNIFORM_BYTES: usize = 4 << 10;

/// How the rows of a plan move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// One by one, by any strides.
    Walk,
    /// Many bytes at a time.
    Rows,
    /// Contiguous along time, of the width of an element.
    Elements,
    /// Contiguous along time, and narrower than a cache line.
    Narrow,
    /// Contiguous across time, with lengths of their own.
    Columns(Tiling),
}

impl Kernel {
    pub(super) fn of(plan: &Plan) -> Self {
        if plan.moved_bytes() < SMALL_BYTES {
            return Self::Walk;
        }
        if plan.strategy() == Strategy::Elements {
            return Self::Elements;
        }
        match Tiling::new(plan) {
            Some(tiling) => Self::Columns(tiling),
            None if plan.row_bytes >= LINE => Self::Rows,
            None if (plan.time.input, plan.time.output) == (plan.row_bytes, plan.row_bytes) => {
                Self::Narrow
            }
            None => Self::Walk,
        }
    }

    /// The same, with tiles that start where cache lines of the output do.
    fn on_lines(self, plan: &Plan, output: *const u8) -> Self {
        match self {
            Self::Columns(tiling) => Self::Columns(tiling.on_lines(plan, output)),
            _ => self,
        }
    }

    /// From how many bytes on a second thread gains, as measured with two: with
    /// caches of their own, shared, and far apart (two of AMD's core complexes),
    /// where columns of short rows meet in lines at every border.
    fn worthwhile(self) -> Worthwhile {
        let (asleep, awake) = match self {
            Self::Walk => (512 << 10, 128 << 10),
            Self::Columns(_) => (4 << 20, 2 << 20),
            Self::Rows | Self::Elements | Self::Narrow => (6 << 20, 1 << 20),
        };
        Worthwhile { asleep, awake }
    }

    /// How far away the bytes of a run are, which writes all of its output if `whole`.
    fn tier(self, plan: &Plan, whole: bool) -> Tier {
        let bytes = plan.moved_bytes();
        let asking = match self {
            _ if processor::foresees() => ASKING_BYTES_OF_FORESIGHT,
            Self::Rows if plan.row_bytes < SHORT_ROW_BYTES => ASKING_BYTES_OF_SHORT_ROWS,
            Self::Elements if self.level() < Level::Avx512 => ASKING_BYTES_OF_NARROW_VECTORS,
            _ => ASKING_BYTES,
        };
        match bytes {
            STREAMING_BYTES.. if whole => Tier::Memory,
            _ if bytes >= asking => Tier::Outer,
            _ => Tier::Inner,
        }
    }

    /// The instructions that it takes: the best there are, with vectors no
    /// wider than a tile.
    fn level(self) -> Level {
        match (self, Level::current()) {
            (Self::Columns(tiling), Level::Avx2 | Level::Avx512) if tiling.bytes < LINE => {
                Level::Portable
            }
            (_, level) => level,
        }
    }
}

/// How far away a run's bytes are, by which it writes and asks for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// In the innermost cache.
    Inner,
    /// In an outer one.
    Outer,
    /// Beyond the caches.
    Memory,
}

/// Runs `$body` with `$sink` the sink of a tier.
macro_rules! with_sink {
    ($tier:expr, $V:ident, $job:expr, $sink:ident => $body:expr) => {
        match $tier {
            Tier::Inner => {
                let $sink = &mut Cached::<$V, false>::new($job.output);
                $body
            }
            Tier::Outer => {
                let $sink = &mut Cached::<$V, true>::new($job.output);
                $body
            }
            Tier::Memory => {
                let $sink = &mut Streaming::<$V>::new($job.output);
                $body;
                $sink.finish();
            }
        }
    };
}

/// Runs `$body` with the constant `$NAME` as `$value`, which is one of some.
macro_rules! with_const {
    ($value:expr, $NAME:ident in [$($each:literal),*] else $last:literal => $body:expr) => {
        match $value {
            $($each => {
                const $NAME: usize = $each;
                $body
            })*
            _ => {
                const $NAME: usize = $last;
                $body
            }
        }
    };
}

/// Runs `$body` with `$W` the width of an element and `$R` how many of them are a lane.
macro_rules! with_element {
    ($bytes:expr, $W:ident, $R:ident => $body:expr) => {
        with_const!($bytes, $W in [1, 2, 4, 8] else 16 => {
            const $R: usize = LANE / $W;
            $body
        })
    };
}

/// Runs `$body` with `$LANES` the lanes that hold `$bytes` bytes, less than a cache line.
macro_rules! with_lanes {
    ($bytes:expr, $LANES:ident => $body:expr) => {
        with_const!($bytes.div_ceil(LANE), $LANES in [1, 2, 3] else 4 => $body)
    };
}

/// Runs `$body` with `$width` bound to what moves rows of `$bytes` bytes.
macro_rules! with_width {
    ($bytes:expr, $width:ident => $body:expr) => {
        match $bytes {
            1 | 2 | 4 | 8 | 16 => with_element!($bytes, W, _R => {
                let $width = Element::<W>;
                $body
            }),
            bytes => {
                let $width = Bytes(bytes);
                $body
            }
        }
    };
}

/// Does a task with the instructions of a level.
///
/// # Safety
/// The CPU has them, as it has those of any level that [`Level::current`] gives;
/// and the task's condition holds.
unsafe fn run_at<T: Task>(level: Level, task: T) {
    // SAFETY: the caller's.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => V256::apart(task),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => V512::apart(task),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => V128::apart(task),
            _ => Portable::apart(task),
        }
    }
}

/// The items of a job that are copied, to where they are as far away as `tier` says.
struct CopyItems<'a, K> {
    job: &'a Job<'a>,
    items: Range<usize>,
    tier: Tier,
    kernel: K,
}

/// The items of a job in place that are exchanged.
struct SwapItems<'a, K> {
    job: &'a Job<'a>,
    items: Range<usize>,
    tier: Tier,
    kernel: K,
}

/// [`Kernel::Rows`], as a type.
struct Rows;
/// [`Kernel::Elements`], as a type.
struct Elements;
/// [`Kernel::Narrow`], as a type.
struct Narrow;

/// A simpler plan for lengths that are all equal, or equal in groups of
/// neighbours that together fill a cache line, if there is enough to move.
fn simplify(plan: &Plan, lengths: &SequenceLengths<'_>) -> Option<Plan> {
    if plan.moved_bytes() < UNIFORM_BYTES {
        return None;
    }
    if let Some(length) = lengths.uniform(plan) {
        return plan.with_uniform_length(length);
    }
    if plan.strategy() == Strategy::Elements || plan.row_bytes >= LINE {
        return None;
    }
    let group = lengths.group(plan, LINE.div_ceil(plan.row_bytes));
    (group > 1).then(|| plan.with_grouped_lengths(group))
}

/// Moves every row from its place in `input` to its place in `output`.
///
/// # Safety
/// `input` is readable for the plan's `input_bytes`, `output` writable for its
/// `output_bytes`, and they do not overlap.
pub(super) unsafe fn out_of_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    input: *const u8,
    output: *mut u8,
    threads: Threads<'_>,
) {
    if plan.empty {
        return;
    }
    let bytes = plan.moved_bytes();
    if bytes < SMALL_BYTES {
        let nest = Nest::new(plan, plan.time.size);
        let items = 0..nest.items();
        let job = Job {
            plan,
            nest: &nest,
            lengths,
            input,
            output,
        };
        with_width!(plan.row_bytes, width => {
            // SAFETY: the caller's; the nest has all time steps.
            unsafe { walk::copy_items(&job, width, items) };
        });
        return;
    }
    let simpler = simplify(plan, lengths);
    let plan = simpler.as_ref().unwrap_or(plan);
    let kernel = Kernel::of(plan).on_lines(plan, output);
    let tier = kernel.tier(plan, bytes == plan.output_bytes());
    let (nest, item_bytes) = match kernel {
        Kernel::Columns(tiling) => (
            Nest::tiles(plan, tiling.tiles(plan)),
            plan.time.size * tiling.bytes,
        ),
        _ => (Nest::new(plan, plan.time.size), plan.row_bytes),
    };
    let job = Job {
        plan,
        nest: &nest,
        lengths,
        input,
        output,
    };
    let job = &job;
    let level = kernel.level();
    let worthwhile = kernel.worthwhile();
    threads.for_each_piece(job.nest.items(), item_bytes, worthwhile, |items| {
        // SAFETY: the caller's; the nest is the kernel's, with all time steps.
        unsafe {
            match kernel {
                Kernel::Walk => with_width!(plan.row_bytes, width => {
                    walk::copy_items(job, width, items);
                }),
                Kernel::Rows => run_at(
                    level,
                    CopyItems {
                        job,
                        items,
                        tier,
                        kernel: Rows,
                    },
                ),
                Kernel::Elements => run_at(
                    level,
                    CopyItems {
                        job,
                        items,
                        tier,
                        kernel: Elements,
                    },
                ),
                Kernel::Narrow => run_at(
                    level,
                    CopyItems {
                        job,
                        items,
                        tier,
                        kernel: Narrow,
                    },
                ),
                Kernel::Columns(tiling) => run_at(
                    level,
                    CopyItems {
                        job,
                        items,
                        tier,
                        kernel: tiling,
                    },
                ),
            }
        }
    });
}

impl Task for CopyItems<'_, Rows> {
    /// # Safety
    /// As [`rows::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_sink!(tier, V, job, sink => match short_rows::are_short(job, tier != Tier::Inner) {
                true => with_const!(job.plan.row_bytes, BYTES in [64, 128, 256] else 0 => {
                    short_rows::copy_items::<V, _, BYTES>(job, sink, items);
                }),
                false => rows::copy_items::<V, _>(job, sink, items),
            });
        }
    }
}

impl Task for CopyItems<'_, Elements> {
    /// # Safety
    /// As [`elements::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(job.plan.row_bytes, W, _R => {
                with_sink!(tier, V, job, sink => elements::copy_items::<V, _, W>(job, sink, items));
            });
        }
    }
}

impl Task for CopyItems<'_, Narrow> {
    /// # Safety
    /// As [`narrow::copy_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_lanes!(job.plan.row_bytes, LANES => {
                with_sink!(tier, V, job, sink => {
                    narrow::copy_items::<V, _, LANES>(job, sink, items);
                });
            });
        }
    }
}

impl Task for CopyItems<'_, Tiling> {
    /// # Safety
    /// As [`columns::copy_tiles`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job,
            items,
            tier,
            kernel,
        } = self;
        let streams = tier == Tier::Memory;
        // SAFETY: the caller's.
        unsafe {
            with_element!(kernel.element, W, R => {
                columns::copy_tiles::<V, W, R>(job, kernel, items, streams);
            });
        }
    }
}

/// Exchanges every row of a reversed prefix with its mirror image.
///
/// # Safety
/// `data` is readable and writable for the plan's `output_bytes`, and the
/// plan's input has the output's layout.
pub(super) unsafe fn in_place(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    data: *mut u8,
    threads: Threads<'_>,
) {
    let longest = lengths.longest(plan);
    if plan.empty || longest <= 1 {
        return;
    }
    let simpler = simplify(plan, lengths);
    let plan = simpler.as_ref().unwrap_or(plan);
    let kernel = Kernel::of(plan).on_lines(plan, data);
    let (nest, item_bytes) = match kernel {
        Kernel::Columns(tiling) => (
            Nest::tiles(plan, tiling.tiles(plan)),
            longest * tiling.bytes,
        ),
        _ => (Nest::new(plan, longest / 2), 2 * plan.row_bytes),
    };
    let job = Job {
        plan,
        nest: &nest,
        lengths,
        input: data,
        output: data,
    };
    let job = &job;
    let tier = kernel.tier(plan, true);
    let level = kernel.level();
    // Of the pairs, about half are exchanged.
    let worthwhile = kernel.worthwhile().of_half();
    threads.for_each_piece(job.nest.items(), item_bytes, worthwhile, |items| {
        // SAFETY: the caller's; the nest is the kernel's, of all pairs.
        unsafe {
            match kernel {
                Kernel::Walk => with_width!(plan.row_bytes, width => {
                    walk::swap_items(job, width, items);
                }),
                Kernel::Narrow => run_at(
                    level,
                    SwapItems {
                        job,
                        items,
                        tier,
                        kernel: Narrow,
                    },
                ),
                Kernel::Rows => run_at(
                    level,
                    SwapItems {
                        job,
                        items,
                        tier,
                        kernel: Rows,
                    },
                ),
                Kernel::Elements => run_at(
                    level,
                    SwapItems {
                        job,
                        items,
                        tier,
                        kernel: Elements,
                    },
                ),
                Kernel::Columns(tiling) => run_at(
                    level,
                    SwapItems {
                        job,
                        items,
                        tier,
                        kernel: tiling,
                    },
                ),
            }
        }
    });
}

impl Task for SwapItems<'_, Rows> {
    /// # Safety
    /// As [`rows::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            match short_rows::are_short(job, tier == Tier::Memory) {
                true => with_const!(job.plan.row_bytes, BYTES in [64, 128, 256] else 0 => {
                    short_rows::swap_items::<V, BYTES>(job, items);
                }),
                false => rows::swap_items::<V>(job, items),
            }
        }
    }
}

impl Task for SwapItems<'_, Narrow> {
    /// # Safety
    /// As [`narrow::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { job, items, .. } = self;
        // SAFETY: the caller's.
        unsafe {
            with_lanes!(job.plan.row_bytes, LANES => narrow::swap_items::<V, LANES>(job, items));
        }
    }
}

impl Task for SwapItems<'_, Elements> {
    /// # Safety
    /// As [`elements::swap_items`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, tier, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(job.plan.row_bytes, W, _R => match tier == Tier::Memory {
                true => elements::swap_items::<V, W, true>(job, items),
                false => elements::swap_items::<V, W, false>(job, items),
            });
        }
    }
}

impl Task for SwapItems<'_, Tiling> {
    /// # Safety
    /// As [`columns::swap_tiles`].
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self {
            job, items, kernel, ..
        } = self;
        // SAFETY: the caller's.
        unsafe {
            with_element!(kernel.element, W, R => {
                columns::swap_tiles::<V, W, R>(job, kernel, items);
            });
        }
    }
}
