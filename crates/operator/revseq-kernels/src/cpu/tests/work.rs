//! Counts of the bytes that the kernels load and store: a change that makes them slower shows on
//! any machine, however busy.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::forced;
use crate::cpu::choice::{Kernel, KernelChoice, Tier};
use crate::cpu::choose::choose;
use crate::cpu::move_as_chosen;
use crate::cpu::simd::{LANE, Portable, Vector};
use crate::cpu::write::{CACHE_LINE, CacheLine};
use crate::simd_level::SimdLevel;
use crate::{LengthsPolicy, Plan, SequenceLengths, reference};

/// The bytes that vectors have moved on this thread, or those for each byte that is copied or lies
/// in a reversed prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    loaded: f64,
    stored: f64,
    streamed: f64,
}

thread_local! {
    /// `None` unless it is counted.
    static WORK: Cell<Option<Work>> = const { Cell::new(None) };
    /// The lanes that were streamed: stores of any kind before a fence are not in
    /// order with them.
    static STREAMED: RefCell<HashSet<usize>> = RefCell::default();
}

/// Whether tasks are done by [`Counted`] vectors on this thread.
pub(crate) fn is_counting() -> bool {
    WORK.get().is_some()
}

fn count(change: impl FnOnce(&mut Work)) {
    let mut work = WORK.get().unwrap_or_default();
    change(&mut work);
    WORK.set(Some(work));
}

/// Asserts that nothing that was streamed is written again.
fn check_written(to: *const u8) {
    let last = to.addr() + Portable::BYTES - 1;
    STREAMED.with_borrow(|streamed| {
        let again = [to.addr(), last].map(|byte| streamed.contains(&(byte / LANE)));
        assert_eq!(again, [false; 2], "written after it was streamed");
    });
}

/// A vector that counts: two lanes, of which one is its half, so that the last one of a row can lie
/// over the one before.
#[derive(Clone, Copy)]
pub(crate) struct Counted<const LANES: usize = 2>([Portable; LANES]);

// SAFETY of all methods: the counted vector is some of `Portable`, with its conditions.
impl<const LANES: usize> Vector for Counted<LANES> {
    const BYTES: usize = LANES * LANE;
    type Half = Counted<1>;

    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self::load_lanes(from, LANE) }
    }

    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { self.store_lanes(to, LANE) };
    }

    unsafe fn stream(self, to: *mut u8) {
        count(|work| work.streamed += Self::BYTES as f64);
        for (index, lane) in self.0.into_iter().enumerate() {
            let to = to.wrapping_add(index * LANE);
            check_written(to);
            STREAMED.with_borrow_mut(|streamed| streamed.insert(to.addr() / LANE));
            // SAFETY: see above.
            unsafe { lane.stream(to) };
        }
    }

    unsafe fn reversed<const W: usize>(self) -> Self {
        let mut lanes = self.0;
        lanes.reverse();
        // SAFETY: see above.
        Self(lanes.map(|lane| unsafe { lane.reversed::<W>() }))
    }

    unsafe fn blend(self, other: Self, mask: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            // SAFETY: see above.
            unsafe { self.0[lane].blend(other.0[lane], mask.0[lane]) }
        }))
    }

    unsafe fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        // SAFETY: see above.
        let zip = |lane: usize| unsafe { self.0[lane].zip::<W>(other.0[lane]) };
        (
            Self(std::array::from_fn(|lane| zip(lane).0)),
            Self(std::array::from_fn(|lane| zip(lane).1)),
        )
    }

    unsafe fn load_lanes(from: *const u8, pitch: usize) -> Self {
        count(|work| work.loaded += Self::BYTES as f64);
        // SAFETY: see above.
        Self(std::array::from_fn(|lane| unsafe {
            Portable::load(from.add(lane * pitch))
        }))
    }

    unsafe fn store_lanes(self, to: *mut u8, pitch: usize) {
        count(|work| work.stored += Self::BYTES as f64);
        for (index, lane) in self.0.into_iter().enumerate() {
            let to = to.wrapping_add(index * pitch);
            check_written(to);
            // SAFETY: see above.
            unsafe { lane.store(to) };
        }
    }
}

/// Packed data with a length for each of `batch`, moved in a tier.
struct Case {
    width: usize,
    sizes: Vec<u64>,
    axis: usize,
    batch: usize,
    tier: Tier,
    in_place: bool,
}

impl Case {
    fn new(width: usize, sizes: &[u64], axis: usize, batch: usize) -> Self {
        Self {
            width,
            sizes: sizes.to_vec(),
            axis,
            batch,
            tier: Tier::Near,
            in_place: false,
        }
    }

    fn streamed(mut self) -> Self {
        self.tier = Tier::Streamed;
        self
    }

    fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// The work of a run by `kernel`, which it chooses.
    fn work(&self, kernel: Kernel) -> Work {
        let (sizes, axis, batch) = (&self.sizes, self.axis, self.batch);
        let forced::Case { desc, lengths, .. } =
            forced::Case::packed(self.width, sizes, axis, batch);
        let plan = Plan::new(&desc).unwrap();
        let checked = SequenceLengths::new(&plan, &lengths[..], LengthsPolicy::Reject).unwrap();
        let byte = |index: usize| (index * 31 % 251) as u8;
        let input: Vec<u8> = (0..plan.input_bytes()).map(byte).collect();
        let mut expected = vec![0; input.len()];
        reference::reverse_subsequences(&desc, &input, &lengths[..], &mut expected);
        let mut lines = vec![CacheLine([0; CACHE_LINE]); input.len().div_ceil(CACHE_LINE)];
        let output = lines.as_mut_ptr().cast::<u8>();
        let (_, choice) = choose(&plan, None, self.in_place, SimdLevel::Portable);
        assert_eq!(choice.kernel, kernel);
        let choice = KernelChoice {
            tier: self.tier,
            ..choice
        };
        let from = match self.in_place {
            true => output.cast_const(),
            false => input.as_ptr(),
        };
        // SAFETY: the output has as many bytes as the input.
        unsafe {
            output.copy_from(input.as_ptr(), input.len());
            if !self.in_place {
                output.write_bytes(0, input.len());
            }
            STREAMED.take();
            WORK.set(Some(Work::default()));
            move_as_chosen(&plan, &checked, (from, output), choice, |items, _, work| {
                work(0..items);
            });
            let found = std::slice::from_raw_parts(output, input.len());
            assert!(found == expected);
        }
        let work = WORK.take().unwrap();
        let column = input.len() as f64 / (sizes[axis] * sizes[batch]) as f64;
        let moved = match self.in_place {
            true => lengths.iter().filter(|&&length| length > 1).sum::<i64>() as f64 * column,
            false => input.len() as f64,
        };
        Work {
            loaded: work.loaded / moved,
            stored: work.stored / moved,
            streamed: work.streamed / moved,
        }
    }
}

/// Asserts that loads and stores per byte are about these: no more, and not much less, as moves
/// without vectors are slow and not counted.
#[track_caller]
fn about(found: Work, loaded: f64, stored: f64) {
    let stores = found.stored + found.streamed;
    let fits = |found: f64, most: f64| (0.9 * most..=most).contains(&found);
    let fit = fits(found.loaded, loaded) && fits(stores, stored);
    assert!(fit, "{found:?}, not about {loaded} and {stored}");
}

const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];

#[test]
fn rows_are_read_once_and_written_once() {
    for (axis, batch) in [(0, 1), (1, 0)] {
        for inner in [16, 64, 3 << 10] {
            let case = || Case::new(4, &[16, 16, inner], axis, batch);
            about(case().work(Kernel::Rows), 1.0, 1.0);
            about(case().in_place().work(Kernel::Rows), 1.0, 1.0);
            let streamed = case().streamed().work(Kernel::Rows);
            assert_eq!(streamed.streamed, 1.0);
            about(streamed, 1.0, 1.0);
        }
    }
}

/// Rows that are no lanes as far as they fill cache lines, others whole.
#[test]
fn streamed_rows_are_written_past_the_caches() {
    for (inner, least) in [(28, 1.0), (257, 0.93), (1001, 0.98)] {
        let case = Case::new(4, &[8, 16, inner], 0, 1).streamed();
        let found = case.work(Kernel::Rows);
        assert!(found.streamed >= least, "{inner}: {found:?}");
    }
}

#[test]
fn elements_are_written_once() {
    for width in WIDTHS {
        let lines = |bytes: u64| Case::new(width, &[64, bytes / width as u64], 1, 0);
        // Short lines are read both ways, with a mask for each vector; but for the first one.
        about(lines(64).work(Kernel::Lines), 3.0, 1.0);
        about(lines(256).work(Kernel::Lines), 3.0, 1.0);
        // Long ones once, except for overlaps on both sides of a border.
        for bytes in [2048, 8192, 8208] {
            let once = 1.0 + 4.0 * LANE as f64 / bytes as f64;
            about(lines(bytes).work(Kernel::Lines), once, once);
            about(lines(bytes).in_place().work(Kernel::Lines), 1.05, 1.03);
        }
    }
}

#[test]
fn streamed_elements_are_written_past_the_caches() {
    for width in WIDTHS {
        // Lanes whole, but for the first line, before which nothing may be read; others as far as
        // they fill cache lines.
        let cases = [
            (64, 1.0),
            (80, 1.0),
            (1040, 1.0),
            (9_008, 1.0),
            (65_536, 0.99),
        ];
        for (bytes, least) in cases {
            let steps = bytes / width as u64;
            let case = Case::new(width, &[64, steps], 1, 0).streamed();
            let found = case.work(Kernel::Lines);
            assert!(found.streamed >= least - 0.02, "{bytes}: {found:?}");
        }
    }
}

#[test]
fn columns_are_transposed_twice_and_reversed_once() {
    for width in WIDTHS {
        let case = || Case::new(width, &[600, 256], 0, 1);
        about(case().work(Kernel::Columns), 2.65, 2.6);
        about(case().in_place().work(Kernel::Columns), 5.3, 5.2);
        // Rows are put together before they are streamed.
        let streamed = case().streamed().work(Kernel::Columns);
        assert_eq!(streamed.streamed, 1.0);
        let moved = if width < LANE { 3.65 } else { 2.65 };
        about(streamed, moved, moved);
    }
}

/// Rows of whole lines alone are streamed: others would be written in parts.
#[test]
fn columns_are_streamed_where_they_are_whole_lines() {
    for width in WIDTHS {
        for (bytes, streamed) in [(96, 0.0), (144, 0.0), (192, 1.0)] {
            let columns = bytes / width as u64;
            let case = Case::new(width, &[100, 2, columns], 0, 2).streamed();
            let found = case.work(Kernel::Columns);
            assert_eq!(found.streamed, streamed, "{bytes}: {found:?}");
        }
    }
}
