//! Makes the [`KernelChoice`] of a run, once.
//!
//! The thresholds were measured: docs/notebook.md has the figures, by the ids in brackets.

use std::borrow::Cow;

use super::choice::{Kernel, KernelChoice, Tier};
use super::columns::Tiling;
use super::write::CACHE_LINE;
use crate::simd_level::SimdLevel;
use crate::{Plan, SequenceLengths};

/// The least bytes of the parts that rows are cut into for threads.
const ROW_PART: usize = 32 << 10;

/// Number of bytes from which on stores are non-temporal: the last-level cache then no longer holds
/// input and output. [M2]
const STREAMED_BYTES: usize = 8 << 20;

impl KernelChoice {
    /// The choice of [`run`](super::run) for lengths that differ.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        choose(plan, None, false, SimdLevel::current()).1
    }

    /// The choice of [`run`](super::run) for these lengths.
    #[must_use]
    pub fn of_run(plan: &Plan, lengths: &SequenceLengths<'_>) -> Self {
        choose(plan, Some(lengths), false, SimdLevel::current()).1
    }

    /// The choice of [`run_in_place`](super::run_in_place) for these lengths.
    #[must_use]
    pub fn of_run_in_place(plan: &Plan, lengths: &SequenceLengths<'_>) -> Self {
        choose(plan, Some(lengths), true, SimdLevel::current()).1
    }
}

/// Chooses for a plan that is not empty, and returns the plan to follow: a simpler one if lengths
/// are equal, and one of parts of rows if they are long.
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
    // Few rows take less time than to choose a kernel, each the same whatever its bytes; but
    // elements of lines are moved faster together. [M1]
    let rows = if plan.has_lines() { 48 } else { 128 };
    plan.moved_bytes() < (1 << 10).min(rows * plan.row_bytes)
}

/// A simpler plan for lengths that are all equal, or equal in groups of neighbours that together
/// fill a cache line, as where a length is given for every element of a row; if there is enough
/// to move. [M12]
pub(crate) fn fold_equal_lengths(plan: &Plan, lengths: &SequenceLengths<'_>) -> Option<Plan> {
    if plan.moved_bytes() < 4 << 10 {
        return None;
    }
    if let Some(length) = lengths.uniform(plan) {
        return plan.with_uniform_length(length);
    }
    if plan.has_lines() || plan.row_bytes >= CACHE_LINE {
        return None;
    }
    let group = lengths.group(plan, CACHE_LINE.div_ceil(plan.row_bytes));
    (group > 1).then(|| plan.with_grouped_lengths(group))
}

/// Returns the number of equal parts into which long rows are cut.
fn parts_of_row(bytes: usize) -> Option<usize> {
    // Sizes have small factors; a row that has none stays whole.
    let mut parts = (2..=bytes / ROW_PART).rev().take(ROW_PART);
    parts.find(|&parts| bytes.is_multiple_of(parts))
}

/// The kernel of a plan that is not small.
fn kernel(plan: &Plan, in_place: bool, simd: SimdLevel) -> Kernel {
    let row = plan.row_bytes;
    // From how many bytes on a row is copied as one rather than as part of a tile; but past the
    // caches the rest of its last cache line would be read again later. [M4]
    let wide = if simd == SimdLevel::Avx512 { 33 } else { 20 };
    let in_cache = plan.moved_bytes() <= 4 << 20;
    let packed = plan.is_packed_along_time();
    match row {
        _ if plan.has_lines() => Kernel::Lines,
        _ if packed && in_place && row >= wide => Kernel::Rows,
        _ if packed && row < CACHE_LINE.min(simd.vector_bytes() + 1) => Kernel::Lines,
        _ if packed || row >= CACHE_LINE || row >= wide && in_cache => Kernel::Rows,
        _ if Tiling::takes(plan) => Kernel::Columns,
        _ => Kernel::Small,
    }
}

/// Returns the tier of a plan: how far away its bytes are.
fn tier(plan: &Plan, choice: &KernelChoice) -> Tier {
    let bytes = plan.moved_bytes();
    // The bytes between the output's strides stay as they are, in lines that are not streamed.
    let streams = !choice.in_place && bytes == plan.output_bytes();
    #[cfg(fuzzing)]
    match crate::fuzzing::tier() {
        1 => return Tier::Near,
        3 if streams => return Tier::Streamed,
        2 | 3 => return Tier::Far,
        _ => {}
    }
    // From how many bytes on it pays to prefetch: more than the first level holds beside as many of
    // the input. [M3]
    let far = match choice.kernel {
        _ if choice.in_place => 1 << 20,
        // To find the rows to prefetch costs as much as to move a narrow one.
        Kernel::Rows if plan.row_bytes < 256 => 2 << 20,
        // Vectors of less than a cache line prefetch each more than once.
        Kernel::Lines if choice.simd < SimdLevel::Avx512 => 1 << 20,
        _ => 48 << 10,
    };
    match choice.kernel {
        Kernel::Small => Tier::Near,
        _ if bytes >= STREAMED_BYTES && streams => Tier::Streamed,
        _ if bytes >= far => Tier::Far,
        _ => Tier::Near,
    }
}
