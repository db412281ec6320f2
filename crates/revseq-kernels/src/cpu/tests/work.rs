//! How much work the kernels do, counted: a change that makes them slower shows
//! on any machine, however busy.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::ptr;

use crate::cpu::choice::{Kernel, KernelChoice, Memory, Place, choose_large};
use crate::cpu::kernels::columns::{self, Tiling};
use crate::cpu::kernels::{blended_lines, long_lines, long_rows, short_rows};
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::non_temporal::NonTemporal;
use crate::cpu::memory::store_policy::{StorePolicy, Temporal};
use crate::cpu::memory::{LINE, Line};
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::simd::{LANE, SimdTask, V128, Vector};
use crate::{DataType, LengthsPolicy, Plan, ReverseSubsequencesDesc, SequenceLengths, reference};

/// What vectors have done on this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    loaded: usize,
    stored: usize,
    streamed: usize,
    shuffles: usize,
}

thread_local! {
    static WORK: Cell<Work> = const { Cell::new(Work { loaded: 0, stored: 0, streamed: 0, shuffles: 0 }) };
    /// The lanes that were streamed: stores of any kind before a fence are not in
    /// order with them.
    static STREAMED: RefCell<HashSet<usize>> = RefCell::default();
}

/// Asserts that nothing that was streamed is written again.
fn check_written(to: *const u8) {
    let last = to.addr() + V128::BYTES - 1;
    STREAMED.with_borrow(|streamed| {
        let again = [to.addr(), last].map(|byte| streamed.contains(&(byte / LANE)));
        assert_eq!(again, [false; 2], "written after it was streamed");
    });
}

fn count(change: impl FnOnce(&mut Work)) {
    let mut work = WORK.get();
    change(&mut work);
    WORK.set(work);
}

/// A vector that counts.
#[derive(Clone, Copy)]
struct Counted(V128);

impl Vector for Counted {
    const BYTES: usize = V128::BYTES;
    type Half = Self;
    const SHUFFLES: bool = V128::SHUFFLES;

    unsafe fn run_outlined<T: SimdTask>(task: T) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { task.run::<Self>() }
    }

    unsafe fn load(from: *const u8) -> Self {
        count(|work| work.loaded += Self::BYTES);
        // SAFETY: the counted vector is V128's, with its conditions.
        Self(unsafe { V128::load(from) })
    }

    unsafe fn store(self, to: *mut u8) {
        count(|work| work.stored += Self::BYTES);
        check_written(to);
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { self.0.store(to) };
    }

    unsafe fn stream(self, to: *mut u8) {
        count(|work| work.streamed += Self::BYTES);
        check_written(to);
        STREAMED.with_borrow_mut(|streamed| streamed.insert(to.addr() / LANE));
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { self.0.stream(to) };
    }

    unsafe fn reversed<const W: usize>(self) -> Self {
        count(|work| work.shuffles += 1);
        // SAFETY: the counted vector is V128's, with its conditions.
        Self(unsafe { self.0.reversed::<W>() })
    }

    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        Self(unsafe { self.0.blend(other.0, mask.0) })
    }

    // What is moved is counted.
    unsafe fn load_mask(from: *const u8) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        Self(unsafe { V128::load(from) })
    }

    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        count(|work| work.shuffles += 2);
        // SAFETY: the counted vector is V128's, with its conditions.
        let (low, high) = unsafe { self.0.zip::<W>(other.0) };
        (Self(low), Self(high))
    }
}

/// Two of them as one, so that the last vector of a row may lie over the one before.
#[derive(Clone, Copy)]
struct Wide([Counted; 2]);

impl Vector for Wide {
    const BYTES: usize = 2 * LANE;
    type Half = Counted;
    const SHUFFLES: bool = false;

    unsafe fn run_outlined<T: SimdTask>(task: T) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { task.run::<Self>() }
    }

    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { Self::load_lanes(from, LANE) }
    }

    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { self.store_lanes(to, LANE) };
    }

    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe {
            self.0[0].stream(to);
            self.0[1].stream(to.add(LANE));
        }
    }

    unsafe fn stream_lanes(self, to: *mut u8) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe { self.stream(to) };
    }

    unsafe fn stream_last_lanes(self, to: *mut u8, bytes: usize) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe {
            match bytes > LANE {
                true => self.stream(to),
                false => self.0[1].stream(to.add(LANE)),
            }
        }
    }

    unsafe fn reversed<const W: usize>(self) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        Self(unsafe { [self.0[1].reversed::<W>(), self.0[0].reversed::<W>()] })
    }

    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        let lane = |index: usize| {
            // SAFETY: the counted vector is V128's, with its conditions.
            unsafe { self.0[index].blend(other.0[index], mask.0[index]) }
        };
        Self([lane(0), lane(1)])
    }

    unsafe fn load_mask(from: *const u8) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        Self([0, LANE].map(|at| unsafe { Counted::load_mask(from.add(at)) }))
    }

    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        // SAFETY: the counted vector is V128's, with its conditions.
        let [low, high] = [0, 1].map(|lane| unsafe { self.0[lane].zip::<W>(other.0[lane]) });
        (Self([low.0, high.0]), Self([low.1, high.1]))
    }

    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        // SAFETY: the counted vector is V128's, with its conditions.
        Self([0, pitch].map(|at| unsafe { Counted::load(from.add(at)) }))
    }

    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        // SAFETY: the counted vector is V128's, with its conditions.
        unsafe {
            self.0[0].store(to);
            self.0[1].store(to.add(pitch));
        }
    }
}

/// Packed data of two or three dimensions with a length for each of `batch`.
struct Case {
    desc: ReverseSubsequencesDesc,
    lengths: Vec<i64>,
    /// The bytes in reversed prefixes.
    reversed: usize,
}

impl Case {
    fn new(data_type: DataType, sizes: &[u64], axis: usize, batch: usize) -> Self {
        let desc = ReverseSubsequencesDesc::reverse_sequence(
            data_type,
            sizes,
            batch as u32,
            axis as u32,
            DataType::Int64,
        )
        .unwrap();
        let lengths: Vec<i64> = (0..sizes[batch])
            .map(|index| (index * 7919 % (sizes[axis] + 1)) as i64)
            .collect();
        let bytes = sizes.iter().product::<u64>() as usize * data_type.size();
        let steps = (sizes[axis] * sizes[batch]) as usize;
        let reversed = lengths.iter().filter(|&&length| length > 1).sum::<i64>() as usize;
        Self {
            desc,
            lengths,
            reversed: reversed * (bytes / steps),
        }
    }

    /// What a run by vectors of one lane counts.
    fn work(
        &self,
        memory: Memory,
        in_place: bool,
        run: impl FnOnce(&Job<'_>, KernelChoice),
    ) -> (f64, f64, f64) {
        self.work_of(SimdLevel::Portable, memory, in_place, run)
    }

    /// The loads, stores and shuffles for each byte that is moved by `run`, as chosen for a level.
    fn work_of(
        &self,
        simd: SimdLevel,
        memory: Memory,
        in_place: bool,
        run: impl FnOnce(&Job<'_>, KernelChoice),
    ) -> (f64, f64, f64) {
        let mut plan = Plan::new(&self.desc).unwrap();
        // Whether this CPU has the level or not: what is counted is not run by it.
        plan.simd = Some(simd);
        let lengths = SequenceLengths::new(&plan, &self.lengths, LengthsPolicy::Reject).unwrap();
        let input: Vec<u8> = (0..plan.input_bytes())
            .map(|byte| (byte * 31 % 251) as u8)
            .collect();
        let mut expected = vec![0; input.len()];
        reference::reverse_subsequences(
            &self.desc,
            &input,
            crate::LengthsData::from(&self.lengths),
            &mut expected,
        );
        let mut lines = vec![Line([0; LINE]); input.len().div_ceil(LINE)];
        let output = lines.as_mut_ptr().cast::<u8>();
        let steps = match in_place {
            true => lengths.longest(&plan) / 2,
            false => plan.time.size,
        };
        let aligned = ptr::null();
        let longest = lengths.longest(&plan);
        let place = match in_place {
            true => Place::InPlace { longest },
            false => Place::Copied,
        };
        let choice = choose_large(&plan, aligned, place, Some(memory));
        let (nest, _) = choice.kernel.nest(&plan, steps);
        // SAFETY: the output has as many bytes as the input.
        unsafe {
            if in_place {
                output.copy_from(input.as_ptr(), input.len());
            }
            let job = Job {
                plan: &plan,
                nest: &nest,
                lengths: &lengths,
                input: if in_place { output } else { input.as_ptr() },
                output,
            };
            WORK.set(Work::default());
            STREAMED.take();
            run(&job, choice);
            let found = std::slice::from_raw_parts(output, input.len());
            assert!(found == expected);
        }
        let work = WORK.get();
        let moved = match in_place {
            true => self.reversed,
            false => input.len(),
        };
        let per_byte = |count: usize| count as f64 / moved as f64;
        (
            per_byte(work.loaded),
            per_byte(work.stored + work.streamed),
            per_byte(work.shuffles * V128::BYTES),
        )
    }
}

/// Asserts that loads, stores and shuffles per byte are at most so many.
#[track_caller]
fn at_most(found: (f64, f64, f64), most: (f64, f64, f64)) {
    let fits = found.0 <= most.0 && found.1 <= most.1 && found.2 <= most.2;
    assert!(
        fits,
        "loads, stores and shuffles per byte: {found:?}, more than {most:?}"
    );
    // What moves without vectors is not counted, and slow.
    assert!(
        found.0 >= 0.9 * most.0 && found.1 >= 0.9 * most.1,
        "{found:?}, less than {most:?}"
    );
}

fn temporal(job: &Job<'_>) -> Temporal<Counted, false> {
    Temporal::new(job.output)
}

/// Copies all rows by the kernel that was chosen.
///
/// # Safety
/// The store policy writes to the job's output; `CLASS` is that of short rows.
unsafe fn copy_rows<S: StorePolicy, const CLASS: usize>(
    job: &Job<'_>,
    stores: &mut S,
    choice: KernelChoice,
) {
    let items = 0..job.nest.items();
    // SAFETY: the nest has all time steps of the plan.
    unsafe {
        match choice.kernel {
            Kernel::ShortRows => {
                short_rows::copy_items::<Counted, _, CLASS>(job, stores, items, choice.aligned);
            }
            Kernel::LongRows => long_rows::copy_items::<Counted, _>(job, stores, items),
            other => panic!("{other:?}"),
        }
    }
}

/// Copies some lines by the kernel that was chosen.
///
/// # Safety
/// The store policy writes to the job's output; `W` is the plan's `row_bytes`.
unsafe fn copy_lines<V: Vector, S: StorePolicy, const W: usize>(
    job: &Job<'_>,
    stores: &mut S,
    items: Range<usize>,
    choice: KernelChoice,
) {
    // SAFETY: the nest has all time steps of the plan.
    unsafe {
        match choice.kernel {
            Kernel::BlendedLines => {
                blended_lines::copy_items::<V, _, W>(job, stores, items, choice.aligned);
            }
            Kernel::LongLines => long_lines::copy_items::<V, _, W>(job, stores, items),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rows_are_read_once_and_written_once() {
    for (axis, batch) in [(0, 1), (1, 0)] {
        let case = Case::new(DataType::Float32, &[16, 16, 3 << 10], axis, batch);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            assert_eq!(choice.kernel, Kernel::LongRows);
            // SAFETY: the rows are not short.
            unsafe { copy_rows::<_, 0>(job, &mut temporal(job), choice) };
        };
        at_most(case.work(Memory::Cached, false, copy), (1.0, 1.0, 0.0));
        let swap = |job: &Job<'_>, choice: KernelChoice| {
            assert_eq!(choice.kernel, Kernel::LongRows);
            // SAFETY: the job is in place, and its nest one of pairs.
            unsafe { long_rows::swap_items::<Counted>(job, 0..job.nest.items(), true) };
        };
        at_most(case.work(Memory::Prefetched, true, swap), (1.0, 1.0, 0.0));

        const CLASS: usize = short_rows::size_class(64);
        let case = Case::new(DataType::Float32, &[64, 64, 16], axis, batch);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            assert_eq!(choice.kernel, Kernel::ShortRows);
            // SAFETY: a row has 64 bytes.
            unsafe { copy_rows::<_, CLASS>(job, &mut temporal(job), choice) };
        };
        at_most(case.work(Memory::Cached, false, copy), (1.0, 1.0, 0.0));
        let swap = |job: &Job<'_>, choice: KernelChoice| {
            assert_eq!(choice.kernel, Kernel::ShortRows);
            // SAFETY: as above; the job is in place, and its nest one of pairs.
            unsafe { short_rows::swap_items::<Counted, CLASS>(job, 0..job.nest.items(), false) };
        };
        at_most(case.work(Memory::Cached, true, swap), (1.0, 1.0, 0.0));
    }
}

#[test]
fn streamed_rows_are_written_past_the_caches() {
    for (sizes, axis, batch) in [
        ([16, 16, 256], 0, 1),
        ([64, 64, 16], 0, 1),
        ([64, 64, 16], 1, 0),
        ([8, 100, 28], 0, 1),
        ([8, 4, 4096], 0, 1),
    ] {
        let case = Case::new(DataType::Float32, &sizes, axis, batch);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let mut stores = NonTemporal::<Counted>::new(job.output);
            // SAFETY: the class is any; all rows that are given are whole.
            unsafe {
                const ANY: usize = short_rows::size_class(usize::MAX);
                copy_rows::<_, ANY>(job, &mut stores, choice);
                stores.finish();
            }
            assert_eq!(WORK.get().stored, 0);
        };
        let work = case.work(Memory::NonTemporal, false, copy);
        // Lanes that are less than a line are not counted.
        at_most(
            work,
            if sizes[2] == 28 {
                (0.58, 0.58, 0.0)
            } else {
                (1.0, 1.0, 0.0)
            },
        );
    }
}

#[test]
fn elements_are_written_once() {
    /// Lines of `bytes` bytes.
    fn lines<const W: usize>(data_type: DataType, bytes: usize) -> Case {
        Case::new(data_type, &[64, (bytes / W) as u64], 1, 0)
    }
    /// Each byte is read and written so often.
    fn check_copy<const W: usize>(case: &Case, read: f64, written: f64) {
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let items = 0..job.nest.items();
            // SAFETY: a row is an element of the width.
            unsafe { copy_lines::<Counted, _, W>(job, &mut temporal(job), items, choice) };
        };
        let work = case.work(Memory::Cached, false, copy);
        at_most(work, (read, written, 1.0));
    }
    fn swapped<const W: usize>(case: &Case, memory: Memory) -> (f64, f64, f64) {
        let swap = |job: &Job<'_>, choice: KernelChoice| {
            let (items, prefetches) = (0..job.nest.items(), choice.prefetches());
            // SAFETY: the job is in place, and its nest one of pairs.
            unsafe {
                match choice.kernel {
                    Kernel::BlendedLines => {
                        blended_lines::swap_items::<Counted, W>(job, items, prefetches);
                    }
                    Kernel::LongLines => {
                        long_lines::swap_items::<Counted, W>(job, items, prefetches);
                    }
                    other => panic!("{other:?}"),
                }
            }
        };
        case.work(memory, true, swap)
    }
    fn check<const W: usize>(data_type: DataType) {
        // Short lines are read both ways, in place as far as the longest of them is reversed.
        for bytes in [48, 256] {
            check_copy::<W>(&lines::<W>(data_type, bytes), 2.0, 1.0);
        }
        let case = lines::<W>(data_type, 128);
        let turned = case.lengths.iter().filter(|&&length| length > 1).count();
        // A vector more for the first line, before which nothing may be read.
        let touched = turned * 128 + V128::BYTES;
        let of_reversed = touched as f64 / case.reversed as f64;
        at_most(
            swapped::<W>(&case, Memory::Cached),
            (2.0 * of_reversed, of_reversed, of_reversed),
        );
        for bytes in [1024, 8192, 8208] {
            let case = lines::<W>(data_type, bytes);
            // A vector for what is less than one, on both sides of a border.
            let once = 1.0 + 2.0 * V128::BYTES as f64 / bytes as f64;
            check_copy::<W>(&case, once, once);
            at_most(swapped::<W>(&case, Memory::Cached), (1.05, 1.05, 1.05));
            at_most(swapped::<W>(&case, Memory::Prefetched), (1.05, 1.05, 1.05));
        }
    }
    check::<1>(DataType::Uint8);
    check::<2>(DataType::Float16);
    check::<4>(DataType::Float32);
    check::<8>(DataType::Int64);
    check::<16>(DataType::Complex128);
}

/// Short lines whole, of long ones all but the lines of the cache that one of
/// their borders lies in.
#[test]
fn streamed_elements_are_written_past_the_caches() {
    for (bytes, stored) in [(1024, 0.0), (65536, 0.01)] {
        let case = Case::new(DataType::Float32, &[64, bytes / 4], 1, 0);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let mut stores = NonTemporal::<Counted>::new(job.output);
            let (first, rest) = (0..job.nest.line.size, job.nest.line.size..job.nest.items());
            // SAFETY: a row is an element of the width; all lines that are given are whole.
            unsafe {
                // Before the first line nothing may be read.
                copy_lines::<Counted, _, 4>(job, &mut stores, first, choice);
                let before = WORK.get();
                copy_lines::<Counted, _, 4>(job, &mut stores, rest, choice);
                stores.finish();
                let work = WORK.get();
                let most = (stored * job.plan.output_bytes() as f64) as usize;
                assert!(work.stored - before.stored <= most, "{work:?}");
            }
        };
        case.work(Memory::NonTemporal, false, copy);
    }
}

/// The tiling of columns.
fn tiling(choice: KernelChoice) -> Tiling {
    match choice.kernel {
        Kernel::Columns(tiling) => tiling,
        other => panic!("{other:?}"),
    }
}

/// Tiles that begin and end inside a line.
#[test]
fn columns_of_parts_of_lines_are_streamed_as_far_as_they_go() {
    let case = Case::new(DataType::Uint8, &[100, 2, 96], 0, 2);
    let stream = |job: &Job<'_>, choice: KernelChoice| {
        let items = 0..job.nest.items();
        // SAFETY: the nest is the tiling's, and a lane is as wide as the vector.
        unsafe { columns::copy_tiles::<Counted, 1, 16>(job, tiling(choice), items, true) };
        assert_eq!(WORK.get().streamed, 100 * LINE);
    };
    case.work(Memory::NonTemporal, false, stream);
}

/// Their last vector lies over the one before.
#[test]
fn streamed_lines_of_parts_of_vectors_are_written_once() {
    for bytes in [80, 176, 1040] {
        let case = Case::new(DataType::Float32, &[64, bytes / 4], 1, 0);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let mut stores = NonTemporal::<Wide>::new(job.output);
            let items = 0..job.nest.items();
            // SAFETY: a row is an element of the width; all lines are whole.
            unsafe {
                copy_lines::<Wide, _, 4>(job, &mut stores, items, choice);
                stores.finish();
            }
            // All but the first line, before which nothing may be read.
            assert!(WORK.get().streamed >= job.plan.output_bytes() - bytes as usize);
        };
        case.work_of(SimdLevel::Avx2, Memory::NonTemporal, false, copy);
    }
}

/// The last vector of a row lies over the one before.
#[test]
fn streamed_columns_of_parts_of_vectors_are_written_once() {
    fn check<const W: usize, const R: usize>(data_type: DataType) {
        let case = Case::new(data_type, &[100, 4, 144 / W as u64], 0, 2);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let items = 0..job.nest.items();
            // SAFETY: the nest is the tiling's.
            unsafe { columns::copy_tiles::<Wide, W, R>(job, tiling(choice), items, true) };
            // Of every fourth tile, which starts a line, a line of each row at least.
            assert!(WORK.get().streamed >= 100 * LINE);
        };
        case.work_of(SimdLevel::Avx2, Memory::NonTemporal, false, copy);
    }
    check::<1, 16>(DataType::Uint8);
    check::<2, 8>(DataType::Float16);
    check::<4, 4>(DataType::Float32);
    check::<8, 2>(DataType::Int64);
    check::<16, 1>(DataType::Complex128);
}

#[test]
fn columns_are_transposed_twice_and_reversed_once() {
    fn check<const W: usize, const R: usize>(data_type: DataType) {
        let case = Case::new(data_type, &[256, 256], 0, 1);
        let copy = |job: &Job<'_>, choice: KernelChoice| {
            let (items, streams) = (0..job.nest.items(), choice.memory == Memory::NonTemporal);
            // SAFETY: the nest is the tiling's, and a lane is as wide as the vector.
            unsafe { columns::copy_tiles::<Counted, W, R>(job, tiling(choice), items, streams) };
            let streamed = if streams { job.plan.output_bytes() } else { 0 };
            assert_eq!(WORK.get().streamed, streamed);
        };
        let stages = f64::from(R.ilog2());
        // Lines are put together before they are streamed, unless they are anyway.
        let moved = if R > 1 { 3.55 } else { 2.55 };
        at_most(
            case.work(Memory::NonTemporal, false, copy),
            (moved, moved, 2.0 * stages + 0.55),
        );
        at_most(
            case.work(Memory::Cached, false, copy),
            (2.55, 2.55, 2.0 * stages + 0.55),
        );
        let swap = |job: &Job<'_>, choice: KernelChoice| {
            let items = 0..job.nest.items();
            // SAFETY: as above, and the job is in place.
            unsafe { columns::swap_tiles::<Counted, W, R>(job, tiling(choice), items) };
        };
        at_most(
            case.work(Memory::Cached, true, swap),
            (5.1, 5.1, 4.0 * stages + 1.1),
        );
    }
    check::<1, 16>(DataType::Uint8);
    check::<2, 8>(DataType::Float16);
    check::<4, 4>(DataType::Float32);
    check::<8, 2>(DataType::Int64);
    check::<16, 1>(DataType::Complex128);
}
