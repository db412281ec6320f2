//! What is done with a run, and why: one decision, made by [`choose`].
//!
//! The thresholds were measured: docs/notebook.md has the figures, by the ids in brackets.

use std::borrow::Cow;

use super::choice::{Kernel, KernelChoice, Tier};
use super::columns::Tiling;
use super::write::LINE;
use crate::simd_level::SimdLevel;
use crate::{Plan, SequenceLengths};

/// Below this many bytes a run of few rows costs less than to choose how it is made. [M1]
const SMALL_BYTES: usize = 1 << 10;

/// Below this many rows, too: each takes as long, whatever its bytes. [M1]
const SMALL_ROWS: usize = 128;

/// The same where they are elements of lines.
const SMALL_ELEMENTS: usize = 48;

/// From this many bytes on it pays to look which lengths are equal.
const EQUAL_LENGTHS_BYTES: usize = 4 << 10;

/// The least bytes of the parts that rows are cut into, which are what a thread gets.
const ROW_PART: usize = 32 << 10;

/// From this many bytes on stores are non-temporal: when the last-level cache no longer holds
/// input and output. [M2]
const STREAMED_BYTES: usize = 8 << 20;

/// From this many bytes on, more than the first level holds beside as many of the input, it pays
/// to prefetch. [M3]
const FAR_BYTES: usize = 48 << 10;

/// The same for lines, by vectors of less than a cache line: they prefetch more than once for
/// each. [M3]
const FAR_BYTES_OF_NARROW_VECTORS: usize = 1 << 20;

/// The same for rows of less than [`NARROW_ROW_BYTES`]: to find out what is read soon costs as
/// much as they do. [M3]
const FAR_BYTES_OF_NARROW_ROWS: usize = 2 << 20;

/// Rows of less are narrow.
const NARROW_ROW_BYTES: usize = 256;

/// The same in place.
const FAR_BYTES_IN_PLACE: usize = 1 << 20;

/// From how many bytes on a row of less than a cache line is copied as one rather than as part
/// of a tile, by the widest vectors and by others. [M4]
const WIDE_ROW_BYTES: (usize, usize) = (33, 20);

/// As long as no more than this is moved: beyond the caches the part of a line that is not read
/// would be read again later. [M4]
const WIDE_ROWS_TOGETHER: usize = 4 << 20;

impl KernelChoice {
    /// What a run of a plan takes for these lengths, or for lengths of all kinds if `None`, out of
    /// place or in place, by the instructions of [`SimdLevel::current`].
    #[must_use]
    pub fn new(plan: &Plan, lengths: Option<&SequenceLengths<'_>>, in_place: bool) -> Self {
        choose(plan, lengths, in_place, SimdLevel::current()).1
    }

    /// What a run out of place takes for lengths of all kinds.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        Self::new(plan, None, false)
    }
}

/// Chooses what is done with a run that is not empty, and the plan that it follows: a simpler one
/// if lengths are equal, and of parts of rows if they are long.
pub(crate) fn choose<'a>(
    plan: &'a Plan,
    lengths: Option<&SequenceLengths<'_>>,
    in_place: bool,
    simd: SimdLevel,
) -> (Cow<'a, Plan>, KernelChoice) {
    let mut choice = KernelChoice {
        kernel: Kernel::Small,
        tier: Tier::Near,
        simd,
        in_place,
    };
    let mut plan = Cow::Borrowed(plan);
    if is_small(&plan) {
        return (plan, choice);
    }
    if let Some(simpler) = lengths.and_then(|lengths| fold_equal_lengths(&plan, lengths)) {
        plan = Cow::Owned(simpler);
    }
    if let Some(parts) = parts_of_row(plan.row_bytes) {
        plan = Cow::Owned(plan.with_cut_rows(parts));
    }
    choice.kernel = kernel(&plan, in_place, simd);
    choice.tier = tier(&plan, &choice);
    (plan, choice)
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

/// Into how many equal parts long rows are cut.
fn parts_of_row(bytes: usize) -> Option<usize> {
    // Sizes have small factors; a row that has none stays whole.
    let mut parts = (2..=bytes / ROW_PART).rev().take(ROW_PART);
    parts.find(|&parts| bytes.is_multiple_of(parts))
}

/// The kernel of a plan that is not small.
fn kernel(plan: &Plan, in_place: bool, simd: SimdLevel) -> Kernel {
    let row = plan.row_bytes;
    let wide = match simd {
        SimdLevel::Avx512 => WIDE_ROW_BYTES.0,
        _ => WIDE_ROW_BYTES.1,
    };
    let together = plan.moved_bytes() <= WIDE_ROWS_TOGETHER;
    let packed = plan.is_packed_along_time();
    match row {
        _ if plan.has_lines() => Kernel::Lines,
        _ if packed && in_place && row >= wide => Kernel::Rows,
        _ if packed && row < LINE.min(simd.vector_bytes() + 1) => Kernel::Lines,
        _ if packed || row >= LINE || row >= wide && together => Kernel::Rows,
        _ if Tiling::takes(plan) => Kernel::Columns,
        _ => Kernel::Small,
    }
}

/// How far away the bytes of a plan are.
fn tier(plan: &Plan, choice: &KernelChoice) -> Tier {
    let bytes = plan.moved_bytes();
    // What lies between the output's strides is to stay in its lines.
    let streams = !choice.in_place && bytes == plan.output_bytes();
    #[cfg(fuzzing)]
    match crate::fuzzing::tier() {
        1 => return Tier::Near,
        3 if streams => return Tier::Streamed,
        2 | 3 => return Tier::Far,
        _ => {}
    }
    let far = match choice.kernel {
        _ if choice.in_place => FAR_BYTES_IN_PLACE,
        Kernel::Rows if plan.row_bytes < NARROW_ROW_BYTES => FAR_BYTES_OF_NARROW_ROWS,
        Kernel::Lines if choice.simd < SimdLevel::Avx512 => FAR_BYTES_OF_NARROW_VECTORS,
        _ => FAR_BYTES,
    };
    match choice.kernel {
        Kernel::Small => Tier::Near,
        _ if bytes >= STREAMED_BYTES && streams => Tier::Streamed,
        _ if bytes >= far => Tier::Far,
        _ => Tier::Near,
    }
}
