//! Which kernel a run takes, and why: one decision, made by [`choose`] and followed by
//! [`dispatch`].
//!
//! The thresholds were measured: docs/notebook.md has the figures, by the ids in brackets.

pub(crate) mod dispatch;

use std::borrow::Cow;
use std::fmt;

use crate::cpu::kernels::blended_lines::MAX_VECTORS_IN_PLACE;
use crate::cpu::kernels::columns::Tiling;
use crate::cpu::memory::LINE;
use crate::cpu::memory::non_temporal::MAX_RESERVE;
use crate::cpu::simd::LANE;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::threads::ParallelMin;
use crate::{Plan, SequenceLengths};

/// Below this many bytes a run of few rows costs less than to choose how it is made. [M1]
const SMALL_BYTES: usize = 1 << 10;

/// Below this many rows, too: each takes as long, whatever its bytes. [M1]
const SMALL_ROWS: usize = 128;

/// The same where they are elements of lines.
const SMALL_ELEMENTS: usize = 48;

/// From this many bytes on it pays to look which lengths are equal.
const EQUAL_LENGTHS_BYTES: usize = 4 << 10;

/// From this many bytes on stores are non-temporal: when the last-level cache no longer holds
/// input and output. [M2]
const NON_TEMPORAL_BYTES: usize = 8 << 20;

/// From this many bytes on, more than the first level holds beside as many of the input, it pays
/// to prefetch. [M3]
const PREFETCH_BYTES: usize = 48 << 10;

/// The same for lines, by vectors of less than a cache line: they prefetch more than once for
/// each. [M3]
const PREFETCH_BYTES_OF_NARROW_VECTORS: usize = 1 << 20;

/// The same for rows of less than [`NARROW_ROW_BYTES`]: to find out what is read soon costs as
/// much as they do. [M3]
const PREFETCH_BYTES_OF_NARROW_ROWS: usize = 2 << 20;

/// Rows of less are narrow.
const NARROW_ROW_BYTES: usize = 256;

/// The same in place.
const PREFETCH_BYTES_IN_PLACE: usize = 1 << 20;

/// From how many bytes on a row of less than a cache line is copied as one rather than as part
/// of a tile, by the widest vectors and by others. [M4]
const WIDE_ROW_BYTES: (usize, usize) = (33, 20);

/// As long as no more than this is moved: beyond the caches the part of a line that is not read
/// would be read again later. [M4]
const WIDE_ROWS_TOGETHER: usize = 4 << 20;

/// Rows of more bytes are long: a few steps of one are more than what is prefetched.
const MAX_SHORT_ROW: usize = 8 << 10;

/// The same along time where rows are prefetched: longer ones are prefetched as far as their
/// sequences reach. [M5]
const MAX_SHORT_ROW_ALONG_TIME: usize = 511;

/// The longest line that is blended past the caches, by vectors of more than a lane and by
/// others. [M6]
const MAX_BLENDED_PAST_CACHES: (usize, usize) = (16 << 10, 1 << 10);

/// The kernel of a run and its variant: what [`run`](super::run) and
/// [`run_in_place`](super::run_in_place) do, and why one shape takes longer than another.
///
/// Shown as in `short rows, prefetched`: what is shown of one plan differs between processors
/// only where the widths of their vectors decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    pub(crate) kernel: Kernel,
    pub(crate) memory: Memory,
    /// Whether the output, and all that is written at once, starts and ends at multiples of a
    /// lane, as non-temporal stores without a buffer need it.
    pub(crate) aligned: bool,
    pub(crate) simd: SimdLevel,
    pub(crate) in_place: bool,
}

/// A kernel: a file or a folder in `kernels/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Row by row, by any strides: what is small, and what no other kernel takes.
    Scalar,
    /// Rows of up to some pages: groups of neighbours go through time together.
    ShortRows,
    /// Rows that are copied or exchanged one by one, in pieces.
    LongRows,
    /// Rows of less than a cache line, packed along time: reversed by shuffles.
    ShuffleRows,
    /// Lines of elements of less than a lane, each reversed in an integer.
    SubVectorLines,
    /// Short lines of elements, read both ways and blended.
    BlendedLines,
    /// Long lines of elements, reversed and copied as runs.
    LongLines,
    /// Narrow rows beside each other with lengths of their own: tiles are transposed.
    Columns(Tiling),
}

impl Kernel {
    /// The name that is shown.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::ShortRows => "short rows",
            Self::LongRows => "long rows",
            Self::ShuffleRows => "shuffled rows",
            Self::SubVectorLines => "sub-vector lines",
            Self::BlendedLines => "blended lines",
            Self::LongLines => "long lines",
            Self::Columns(_) => "columns",
        }
    }
}

/// How far away a run's bytes are, and so how they are read ahead and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// In the first level of the cache: nothing is prefetched.
    Cached,
    /// In outer levels: prefetched, and written through the caches. In place, or beyond them.
    Prefetched,
    /// Beyond the caches: prefetched, and written past them.
    NonTemporal,
}

/// Whether a run works in place.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Copied,
    /// No length is more than `longest`.
    InPlace {
        longest: usize,
    },
}

impl KernelChoice {
    /// What a run of a plan takes for these lengths, or for lengths of all kinds if `None`; with
    /// its output at an address, of which only the alignment matters.
    #[must_use]
    pub fn new(
        plan: &Plan,
        lengths: Option<&SequenceLengths<'_>>,
        output: *const u8,
        in_place: bool,
    ) -> Self {
        let place = match in_place {
            true => Place::InPlace {
                longest: lengths.map_or(plan.axis_size(), |lengths| lengths.longest(plan)),
            },
            false => Place::Copied,
        };
        choose(plan, lengths, output, place).1
    }

    /// What a run out of place takes for lengths of all kinds, from and to buffers that start
    /// cache lines.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        Self::new(plan, None, std::ptr::null(), false)
    }

    /// The kernel's name, such as `short rows`.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    /// The instructions that it uses.
    #[must_use]
    pub fn simd(&self) -> SimdLevel {
        self.simd
    }

    /// Whether lines or rows that could be written at once go through a buffer.
    fn is_buffered(&self) -> bool {
        !self.aligned && matches!(self.kernel, Kernel::ShortRows | Kernel::BlendedLines)
    }

    /// Row by row.
    pub(crate) const fn scalar(simd: SimdLevel, in_place: bool) -> Self {
        Self {
            kernel: Kernel::Scalar,
            memory: Memory::Cached,
            aligned: false,
            simd,
            in_place,
        }
    }

    /// Whether anything is prefetched.
    pub(crate) fn prefetches(&self) -> bool {
        self.memory != Memory::Cached
    }

    /// From how many bytes on a second thread gains. [M7]
    pub(crate) fn parallel_min(&self) -> ParallelMin {
        let (rayon, host) = match self.kernel {
            Kernel::Scalar => (512 << 10, 128 << 10),
            Kernel::Columns(_) => (4 << 20, 2 << 20),
            _ => (6 << 20, 1 << 20),
        };
        match self.in_place {
            // Of the pairs about half are exchanged.
            true => ParallelMin {
                rayon: 2 * rayon,
                host: 2 * host,
            },
            false => ParallelMin { rayon, host },
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel())?;
        if self.kernel == Kernel::Scalar {
            return Ok(());
        }
        f.write_str(match self.memory {
            Memory::Cached => "",
            Memory::Prefetched => ", prefetched",
            Memory::NonTemporal if self.is_buffered() => ", non-temporal through a buffer",
            Memory::NonTemporal => ", non-temporal",
        })?;
        match self.in_place {
            true => f.write_str(", in place"),
            false => Ok(()),
        }
    }
}

/// Chooses the kernel of a run that is not empty, and the plan that it follows: a simpler one if
/// lengths are equal.
pub(crate) fn choose<'a>(
    plan: &'a Plan,
    lengths: Option<&SequenceLengths<'_>>,
    output: *const u8,
    place: Place,
) -> (Cow<'a, Plan>, KernelChoice) {
    if is_small(plan) {
        let in_place = matches!(place, Place::InPlace { .. });
        return (
            Cow::Borrowed(plan),
            KernelChoice::scalar(plan.simd(), in_place),
        );
    }
    let simpler = lengths.and_then(|lengths| fold_equal_lengths(plan, lengths));
    let plan = simpler.map_or(Cow::Borrowed(plan), Cow::Owned);
    let choice = choose_large(&plan, output, place, None);
    (plan, choice)
}

/// As [`choose`] for a plan that is not small, which is followed as it is; in some memory, or
/// where so many bytes lie.
pub(crate) fn choose_large(
    plan: &Plan,
    output: *const u8,
    place: Place,
    memory: Option<Memory>,
) -> KernelChoice {
    let in_place = matches!(place, Place::InPlace { .. });
    let family = Family::of(plan, output, in_place);
    let at_once = match family {
        Family::Lines => plan.time.size * plan.row_bytes,
        _ => plan.row_bytes | plan.time.output,
    };
    #[cfg(fuzzing)]
    let memory = memory.or_else(|| crate::fuzzing::memory(plan, in_place));
    let mut choice = KernelChoice {
        memory: memory.unwrap_or_else(|| family.memory(plan, in_place)),
        aligned: writes_lanes(plan, at_once, output),
        ..KernelChoice::scalar(plan.simd(), in_place)
    };
    choice.kernel = family.kernel(plan, place, &choice);
    choice
}

/// Whether a plan is so small that its rows are best moved one by one.
pub(crate) fn is_small(plan: &Plan) -> bool {
    let rows = match plan.has_lines() {
        true => SMALL_ELEMENTS,
        false => SMALL_ROWS,
    };
    plan.moved_bytes() < SMALL_BYTES.min(rows * plan.row_bytes)
}

/// A simpler plan for lengths that are all equal, or equal in groups of neighbours that together
/// fill a cache line, as where a length is given for every element of a row; if there is enough
/// to move. [M12]
pub(crate) fn fold_equal_lengths(plan: &Plan, lengths: &SequenceLengths<'_>) -> Option<Plan> {
    if plan.moved_bytes() < EQUAL_LENGTHS_BYTES {
        return None;
    }
    if let Some(length) = lengths.uniform(plan) {
        return plan.with_uniform_length(length);
    }
    if plan.has_lines() || plan.row_bytes >= LINE {
        return None;
    }
    let group = lengths.group(plan, LINE.div_ceil(plan.row_bytes));
    (group > 1).then(|| plan.with_grouped_lengths(group))
}

/// How the rows of a plan lie, which leaves some kernels.
#[derive(Clone, Copy)]
enum Family {
    Scalar,
    Rows,
    ShuffleRows,
    Lines,
    Columns(Tiling),
}

impl Family {
    fn of(plan: &Plan, output: *const u8, in_place: bool) -> Self {
        if plan.has_lines() {
            return Self::Lines;
        }
        if plan.row_bytes >= LINE {
            return Self::Rows;
        }
        let widest = plan.simd() == SimdLevel::Avx512;
        let wide = match widest {
            true => WIDE_ROW_BYTES.0,
            false => WIDE_ROW_BYTES.1,
        };
        let together = plan.moved_bytes() <= WIDE_ROWS_TOGETHER;
        let packed = plan.is_packed_along_time();
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

    fn memory(self, plan: &Plan, in_place: bool) -> Memory {
        let bytes = plan.moved_bytes();
        let prefetch = match self {
            _ if in_place => PREFETCH_BYTES_IN_PLACE,
            Self::Rows if plan.row_bytes < NARROW_ROW_BYTES => PREFETCH_BYTES_OF_NARROW_ROWS,
            Self::Lines if plan.simd() < SimdLevel::Avx512 => PREFETCH_BYTES_OF_NARROW_VECTORS,
            _ => PREFETCH_BYTES,
        };
        match bytes {
            // What lies between the output's strides is to stay in its lines.
            NON_TEMPORAL_BYTES.. if !in_place && bytes == plan.output_bytes() => {
                Memory::NonTemporal
            }
            _ if bytes >= prefetch => Memory::Prefetched,
            _ => Memory::Cached,
        }
    }

    fn kernel(self, plan: &Plan, place: Place, choice: &KernelChoice) -> Kernel {
        match self {
            Self::Scalar => Kernel::Scalar,
            Self::ShuffleRows => Kernel::ShuffleRows,
            Self::Columns(tiling) => Kernel::Columns(tiling),
            Self::Rows => {
                let along_time = plan.outside_time == plan.loops.len();
                let most = match choice.memory != Memory::Cached && along_time {
                    true => MAX_SHORT_ROW_ALONG_TIME,
                    false => MAX_SHORT_ROW,
                };
                match plan.row_bytes <= most {
                    true => Kernel::ShortRows,
                    false => Kernel::LongRows,
                }
            }
            Self::Lines => {
                let bytes = plan.time.size * plan.row_bytes;
                if bytes < LANE {
                    Kernel::SubVectorLines
                } else if is_blended(plan, bytes, place, choice) {
                    Kernel::BlendedLines
                } else {
                    Kernel::LongLines
                }
            }
        }
    }
}

/// Whether lines of so many bytes are read both ways and blended.
fn is_blended(plan: &Plan, bytes: usize, place: Place, choice: &KernelChoice) -> bool {
    let vector = choice.simd.vector_bytes();
    if let Place::InPlace { longest } = place {
        // What is read backward lies in the line before.
        let packed = plan.loops.last().is_some_and(|lines| lines.output == bytes);
        return packed && longest * plan.row_bytes <= MAX_VECTORS_IN_PLACE * vector;
    }
    let most = match choice.memory {
        Memory::Cached | Memory::Prefetched => vector * vector,
        Memory::NonTemporal if vector > LANE => MAX_BLENDED_PAST_CACHES.0,
        Memory::NonTemporal => MAX_BLENDED_PAST_CACHES.1,
    };
    let streams_through_buffer = choice.memory == Memory::NonTemporal && !choice.aligned;
    bytes <= most && !(streams_through_buffer && bytes > MAX_RESERVE)
}

/// Whether the output, and the `at_once` bytes that are written at once, start and end at
/// multiples of a lane.
pub(crate) fn writes_lanes(plan: &Plan, at_once: usize, output: *const u8) -> bool {
    let strides = plan
        .loops
        .iter()
        .fold(at_once, |all, round| all | round.output);
    (output.addr() | strides).is_multiple_of(LANE)
}
