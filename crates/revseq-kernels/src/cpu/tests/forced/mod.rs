//! Every kernel in every memory, on every instruction set, on layouts that it can take: what a
//! run would choose by its size, small tensors reach here, in pieces that begin and end anywhere.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::cpu::choice::dispatch::move_items;
use crate::cpu::choice::{Kernel, KernelChoice, Memory, fold_equal_lengths, writes_lanes};
use crate::cpu::kernels::blended_lines::MAX_VECTORS_IN_PLACE;
use crate::cpu::kernels::columns::Tiling;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::LINE;
use crate::cpu::memory::non_temporal::MAX_RESERVE;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::simd::{LANE, SimdTask, Vector};
use crate::cpu::threads::{ParallelMin, Threads};
use crate::{DataType, LengthsPolicy, Plan, SequenceLengths, TensorDesc, reference};

mod case;
use case::{Case, Place, Workers, case, directed};

// Miri protects no pages, but sees every byte too far by itself.
#[cfg(all(unix, not(miri)))]
#[path = "../../../../tests/guarded/mod.rs"]
mod guarded;

thread_local! {
    /// The tasks, by their types' names, that were done on this thread, with the
    /// bytes of their vectors.
    static REACHED: RefCell<BTreeSet<(&'static str, usize)>> = RefCell::default();
}

/// Notes that a task is done by a vector.
pub(crate) fn reached<V: Vector, T: SimdTask>() {
    let done = (std::any::type_name::<T>(), V::BYTES);
    REACHED.with_borrow_mut(|reached| reached.insert(done));
}

/// The loops that vectors of every width have.
const LOOPS: [&str; 14] = [
    "tile::CopyTail",
    "transpose::TransposeReverse",
    "transpose::TransposeIn",
    "transpose::TransposeOut",
    "shuffle_rows::Reverse",
    "copy_queue::DrainCopies",
    "swap_queue::DrainSwaps",
    "blended_lines::ManyVectors",
    "blended_lines::FewVectors",
    "blended_lines::ReverseLines",
    "short_rows::Along",
    "short_rows::Across",
    "short_rows::SwapAlong",
    "short_rows::SwapAcross",
];

/// A buffer at a place.
enum Buffer {
    #[cfg(all(unix, not(miri)))]
    Guarded(guarded::Guarded),
    Heap(Box<[u8]>),
}

impl Buffer {
    fn new(content: &[u8], place: Place) -> Self {
        match place {
            #[cfg(all(unix, not(miri)))]
            Place::Start(distance) => {
                Self::Guarded(guarded::Guarded::new(content, false, distance))
            }
            #[cfg(all(unix, not(miri)))]
            Place::End(distance) => Self::Guarded(guarded::Guarded::new(content, true, distance)),
            _ => Self::Heap(content.into()),
        }
    }

    fn slice(&mut self) -> &mut [u8] {
        match self {
            #[cfg(all(unix, not(miri)))]
            Self::Guarded(buffer) => buffer.slice(),
            Self::Heap(buffer) => buffer,
        }
    }
}

/// The levels that are tested: those that a run could use.
fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::current().lower().chain([SimdLevel::current()])
}

/// How far away bytes can be taken to be, for what copies and for what works in place.
fn memories(in_place: bool) -> &'static [Memory] {
    match in_place {
        true => &[Memory::Cached, Memory::Prefetched],
        false => &[Memory::Cached, Memory::Prefetched, Memory::NonTemporal],
    }
}

/// Whether a kernel can take a plan and lengths of at most `longest`, by the rest of a choice.
fn can_take(choice: &KernelChoice, plan: &Plan, longest: usize) -> bool {
    let (row, line) = (plan.row_bytes, plan.time.size * plan.row_bytes);
    match choice.kernel {
        Kernel::Scalar | Kernel::ShortRows | Kernel::LongRows | Kernel::Columns(_) => true,
        Kernel::ShuffleRows => plan.is_packed_along_time() && row < LINE,
        Kernel::LongLines => plan.has_lines(),
        Kernel::SubVectorLines => plan.has_lines() && line < LANE,
        Kernel::BlendedLines => {
            let fits = match choice.in_place {
                true => {
                    let packed = plan.loops.last().is_some_and(|lines| lines.output == line);
                    packed && longest * row <= MAX_VECTORS_IN_PLACE * choice.simd.vector_bytes()
                }
                false => {
                    choice.memory != Memory::NonTemporal || choice.aligned || line <= MAX_RESERVE
                }
            };
            plan.has_lines() && line >= LANE && fits
        }
    }
}

/// All choices of a kernel, for a plan or, without one, to be counted.
fn choices(kernel: Kernel, in_place: bool, aligned: bool) -> Vec<KernelChoice> {
    let mut choices = Vec::new();
    for &memory in memories(in_place) {
        for simd in levels() {
            choices.push(KernelChoice {
                kernel,
                memory,
                aligned,
                simd,
                in_place,
            });
        }
    }
    // It has no vectors, and prefetches nothing.
    if kernel == Kernel::Scalar {
        choices.truncate(1);
    }
    choices
}

/// All choices that a plan leaves.
fn choices_for(
    plan: &Plan,
    longest: usize,
    output: *const u8,
    in_place: bool,
) -> Vec<KernelChoice> {
    let line = plan.time.size * plan.row_bytes;
    let row = plan.row_bytes | plan.time.output;
    let kernels = KERNELS
        .into_iter()
        .chain(Tiling::new(plan, output).map(Kernel::Columns));
    let choices = kernels.flat_map(|kernel| {
        let at_once = if kernel == Kernel::BlendedLines {
            line
        } else {
            row
        };
        choices(kernel, in_place, writes_lanes(plan, at_once, output))
    });
    choices
        .filter(|choice| can_take(choice, plan, longest))
        .collect()
}

/// All kernels but that of columns, which has a tiling.
const KERNELS: [Kernel; 7] = [
    Kernel::Scalar,
    Kernel::ShortRows,
    Kernel::LongRows,
    Kernel::ShuffleRows,
    Kernel::SubVectorLines,
    Kernel::BlendedLines,
    Kernel::LongLines,
];

/// What a choice is counted as.
fn name(choice: &KernelChoice) -> String {
    let place = if choice.in_place {
        "in place"
    } else {
        "copied"
    };
    let kernel = choice.kernel.name();
    format!("{kernel}, {place}, {:?}, {}", choice.memory, choice.simd)
}

/// The pieces that a run of so many items is cut into, in the order of the cuts' keys.
fn pieces(cuts: &[(Index, u8)], items: usize) -> Vec<Range<usize>> {
    let mut borders: Vec<usize> = cuts.iter().map(|(cut, _)| cut.index(items + 1)).collect();
    borders.extend([0, items]);
    borders.sort_unstable();
    let pieces = borders.windows(2).map(|borders| borders[0]..borders[1]);
    let keys = cuts.iter().map(|&(_, key)| key).chain([128]);
    let mut pieces: Vec<_> = keys.zip(pieces).collect();
    pieces.sort_by_key(|&(key, _)| key);
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// Does `work` for all items in pieces, with the workers of a case.
fn for_each_piece(case: &Case, items: usize, work: impl Fn(Range<usize>) + Sync) {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    /// Does `work` for both halves, one on a thread of its own.
    fn on_two<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
        let (one, other) = all.split_at(all.len() / 2);
        std::thread::scope(|scope| {
            scope.spawn(|| one.iter().for_each(&work));
            other.iter().for_each(&work);
        });
    }
    let shared = |threads: Threads<'_>| {
        // As many pieces as if there were much to do.
        let (item_bytes, always) = (1 << 20, ParallelMin { rayon: 0, host: 0 });
        threads.for_each_piece(items, item_bytes, always, &work);
    };
    match case.workers {
        Workers::One => pieces(&case.cuts, items).into_iter().for_each(work),
        Workers::Two => on_two(&pieces(&case.cuts, items), |piece| work(piece.clone())),
        Workers::Pool => shared(Threads::RayonPool(POOL.get_or_init(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3);
            pool.build().unwrap()
        }))),
        Workers::Host => shared(Threads::Host {
            threads: 2,
            parallel_for: &|count, work| {
                let key = |index: &usize| case.cuts.get(*index).map(|&(_, key)| key);
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_key(key);
                on_two(&order, |&index| work(index));
            },
        }),
    }
}

/// Moves the rows of a plan as chosen, in pieces.
///
/// # Safety
/// As [`out_of_place`](crate::cpu::choice::dispatch::out_of_place), or
/// [`in_place`](crate::cpu::choice::dispatch::in_place) where both pointers are one.
unsafe fn run(
    plan: &Plan,
    lengths: &SequenceLengths<'_>,
    (input, output): (*const u8, *mut u8),
    case: &Case,
    choice: KernelChoice,
) {
    let steps = match choice.in_place {
        true => lengths.longest(plan) / 2,
        false => plan.time.size,
    };
    if plan.empty || steps == 0 {
        return;
    }
    let (nest, _) = choice.kernel.nest(plan, steps);
    let job = &Job {
        plan,
        nest: &nest,
        lengths,
        input,
        output,
    };
    for_each_piece(case, nest.items(), |items| {
        // SAFETY: the buffers are those of the plan, which the kernel can take; the nest is the
        // kernel's, and the CPU has the level, as it has all that a run could use.
        unsafe { move_items(job, items, choice) };
    });
}

/// How often each choice was made.
type Made = RefCell<BTreeMap<String, usize>>;

/// Runs a case by every choice that it leaves, beside the reference.
fn check(case: &Case, made: &Made) {
    let of_desc = Plan::new(&case.desc).unwrap();
    let lengths = SequenceLengths::new(&of_desc, &case.lengths, LengthsPolicy::Reject).unwrap();
    let simpler = fold_equal_lengths(&of_desc, &lengths).filter(|_| case.simplified);
    let plan = simpler.as_ref().unwrap_or(&of_desc);

    let byte = |index: usize| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0];
    let content: Vec<u8> = (0..plan.input_bytes()).map(byte).collect();
    let before: Vec<u8> = (0..plan.output_bytes()).map(|index| !byte(index)).collect();
    let mut input = Buffer::new(&content, case.places[0]);
    let mut output = Buffer::new(&before, case.places[1]);
    for in_place in [false, true] {
        if in_place && case.desc.input.strides != case.desc.output.strides {
            continue;
        }
        // In place what lies between the strides is the input's.
        let start = if in_place { &content } else { &before };
        let mut expected = start.clone();
        reference::reverse_subsequences(&case.desc, &content, &case.lengths[..], &mut expected);
        let longest = lengths.longest(plan);
        for choice in choices_for(plan, longest, output.slice().as_ptr(), in_place) {
            output.slice().copy_from_slice(start);
            let to = output.slice().as_mut_ptr();
            let from = match in_place {
                true => to.cast_const(),
                false => input.slice().as_ptr(),
            };
            // SAFETY: the buffers are as long as the plan says, and two unless in place.
            unsafe { run(plan, &lengths, (from, to), case, choice) };
            assert!(*output.slice() == expected[..], "{choice:?}, {plan:?}");
            *made.borrow_mut().entry(name(&choice)).or_default() += 1;
        }
    }
    assert!(*input.slice() == content[..], "the input, {plan:?}");
}

/// `module::Name` of a type.
fn short_name(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    path.rsplitn(3, "::")
        .nth(2)
        .map_or(path, |modules| &path[modules.len() + 2..])
}

/// Asserts that every kernel was run in every way that this machine has.
fn check_made(made: &BTreeMap<String, usize>) {
    let plan = Plan::new(&Case::packed(1, &[30, 1000], 0, 1).desc).unwrap();
    let tiling = Tiling::new(&plan, std::ptr::null()).unwrap();
    for kernel in KERNELS.into_iter().chain([Kernel::Columns(tiling)]) {
        for choice in [false, true]
            .map(|in_place| choices(kernel, in_place, true))
            .concat()
        {
            let name = name(&choice);
            assert!(made.contains_key(&name), "{name} was not run: {made:#?}");
        }
    }
    let reached: BTreeSet<(&str, usize)> = REACHED.with_borrow(|reached| {
        let short = reached
            .iter()
            .map(|&(name, bytes)| (short_name(name), bytes));
        short.collect()
    });
    for level in levels() {
        let bytes = level.vector_bytes();
        for task in LOOPS {
            let done = reached.contains(&(task, bytes));
            assert!(done, "{task} was not reached by {level}: {reached:#?}");
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    let made = Made::default();
    for case in directed() {
        check(&case, &made);
    }
    let config = Config {
        source_file: Some(file!()),
        ..Config::default()
    };
    let random = TestRunner::new(config).run(&case(), |case| {
        check(&case, &made);
        Ok(())
    });
    if let Err(error) = random {
        panic!("{error}");
    }
    check_made(&made.borrow());
}

/// For Miri, which also sees where a pointer leads that nothing is read from, and what it was taken of.
#[test]
fn every_kernel_agrees_on_small_layouts() {
    for (width, sizes, axis, batch) in [
        // Rows along time and across it.
        (4, vec![3, 4, 9], 1, 0),
        (4, vec![4, 3, 9], 0, 1),
        (1, vec![2, 20, 3], 1, 0),
        // Lines of less than a lane, of vectors, and of parts of them.
        (1, vec![3, 13], 1, 0),
        (4, vec![3, 8], 1, 0),
        (2, vec![2, 50], 1, 0),
        // Columns.
        (4, vec![9, 20], 0, 1),
    ] {
        let mut case = Case::packed(width, &sizes, axis, batch);
        case.places = [Place::Heap; 2];
        *case.lengths.last_mut().unwrap() = sizes[axis] as i64;
        let made = Made::default();
        check(&case, &made);
        let mut padded = sizes;
        *padded.last_mut().unwrap() += 4;
        case.desc.input.strides = TensorDesc::packed(DataType::Uint8, padded).effective_strides();
        check(&case, &made);
        assert!(made.borrow().len() > 3, "{made:?}");
    }
}
