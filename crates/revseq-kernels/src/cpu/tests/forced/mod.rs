//! Every kernel at every tier, on every instruction set and as on either make of
//! processor, on layouts that it can take: what a run would choose by its size and
//! its machine, small tensors reach here, in pieces that begin and end anywhere.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::cpu::choice::dispatch::{copy_items, simplify, swap_items};
use crate::cpu::choice::processor::PRETENDED_TO_BE_OF_AMD;
use crate::cpu::choice::{Kernel, Tier};
use crate::cpu::kernels::columns::Tiling;
use crate::cpu::loop_nest::job::Job;
use crate::cpu::memory::LINE;
use crate::cpu::simd::level::SimdLevel;
use crate::cpu::simd::{SimdTask, Vector};
use crate::cpu::threads::{ParallelMin, Threads};
use crate::plan::Strategy;
use crate::{LengthsPolicy, Plan, SequenceLengths, reference};

mod case;
use case::{Case, Place, Workers, case, directed};

#[cfg(unix)]
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
    "short_lines::ManyVectors",
    "short_lines::FewVectors",
    "short_lines::ReverseFewVectors",
    "short_rows::Along",
    "short_rows::Across",
    "short_rows::SwapAlong",
    "short_rows::SwapAcross",
];

/// Those that vectors with masks have besides.
const LOOPS_OF_MASKS: [&str; 2] = ["short_lines::InOne", "short_lines::ReverseInOne"];

/// A buffer at a place.
enum Buffer {
    #[cfg(unix)]
    Guarded(guarded::Guarded),
    Heap(Box<[u8]>),
}

impl Buffer {
    fn new(content: &[u8], place: Place) -> Self {
        match place {
            #[cfg(unix)]
            Place::Start(distance) => {
                Self::Guarded(guarded::Guarded::new(content, false, distance))
            }
            #[cfg(unix)]
            Place::End(distance) => Self::Guarded(guarded::Guarded::new(content, true, distance)),
            _ => Self::Heap(content.into()),
        }
    }

    fn slice(&mut self) -> &mut [u8] {
        match self {
            #[cfg(unix)]
            Self::Guarded(buffer) => buffer.slice(),
            Self::Heap(buffer) => buffer,
        }
    }
}

/// The kernels that can take a plan.
fn kernels(plan: &Plan, output: *const u8) -> Vec<Kernel> {
    let mut kernels = vec![Kernel::Scalar, Kernel::Rows];
    if plan.strategy() == Strategy::Elements {
        kernels.push(Kernel::Elements);
    }
    let row = plan.row_bytes;
    if (plan.time.input, plan.time.output) == (row, row) && row < LINE {
        kernels.push(Kernel::ShuffleRows);
    }
    kernels.extend(Tiling::new(plan, output).map(Kernel::Columns));
    kernels
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
struct Choice {
    kernel: Kernel,
    tier: Tier,
    level: SimdLevel,
    in_place: bool,
    of_amd: bool,
}

impl Choice {
    fn name(&self) -> String {
        let kernel = match self.kernel {
            Kernel::Scalar => "walk",
            Kernel::Rows => "rows",
            Kernel::Elements => "elements",
            Kernel::ShuffleRows => "narrow",
            Kernel::Columns(_) => "columns",
        };
        let place = if self.in_place { "in place" } else { "copied" };
        format!("{kernel}, {place}, {:?}, {}", self.tier, self.level)
    }
}

/// The levels that are tested: those that a run could use.
fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::current().lower().chain([SimdLevel::current()])
}

/// All ways to run a kernel.
fn choices(kernel: Kernel, in_place: bool) -> Vec<Choice> {
    let tiers: &[Tier] = match (kernel, in_place) {
        (Kernel::Scalar, _) => &[Tier::Inner],
        (_, true) => &[Tier::Inner, Tier::Memory],
        (_, false) => &[Tier::Inner, Tier::Outer, Tier::Memory],
    };
    let mut choices = Vec::new();
    for &tier in tiers {
        for level in levels() {
            for of_amd in [false, true] {
                choices.push(Choice {
                    kernel,
                    tier,
                    level,
                    in_place,
                    of_amd,
                });
            }
        }
    }
    // It has no vectors, and asks no processor.
    if kernel == Kernel::Scalar {
        choices.truncate(1);
    }
    choices
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
            let worker = scope.spawn(|| one.iter().for_each(&work));
            other.iter().for_each(&work);
            // Joined here: of how a scope ends ThreadSanitizer sees nothing.
            worker.join().unwrap();
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
    choice: Choice,
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
    let Choice {
        kernel,
        tier,
        level,
        in_place,
        of_amd,
    } = choice;
    for_each_piece(case, nest.items(), |items| {
        PRETENDED_TO_BE_OF_AMD.set(Some(of_amd));
        // SAFETY: the caller's; the nest is the kernel's, and the CPU has the level,
        // as it has all that a run could use.
        unsafe {
            match in_place {
                true => swap_items(job, items, kernel, tier, level),
                false => copy_items(job, items, kernel, tier, level),
            }
        }
        PRETENDED_TO_BE_OF_AMD.set(None);
    });
}

/// How often each choice was made.
type Made = RefCell<BTreeMap<String, usize>>;

/// Runs a case by every choice that it leaves, beside the reference.
fn check(case: &Case, made: &Made) {
    let of_desc = Plan::new(&case.desc).unwrap();
    let lengths = SequenceLengths::new(&of_desc, &case.lengths, LengthsPolicy::Reject).unwrap();
    let simpler = simplify(&of_desc, &lengths).filter(|_| case.simplified);
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
        let kernels = kernels(plan, output.slice().as_ptr());
        for choice in kernels
            .into_iter()
            .flat_map(|kernel| choices(kernel, in_place))
        {
            output.slice().copy_from_slice(start);
            let to = output.slice().as_mut_ptr();
            let from = match in_place {
                true => to.cast_const(),
                false => input.slice().as_ptr(),
            };
            // SAFETY: the buffers are as long as the plan says, and two unless in place.
            unsafe { run(plan, &lengths, (from, to), case, choice) };
            assert!(*output.slice() == expected[..], "{choice:?}, {plan:?}");
            *made.borrow_mut().entry(choice.name()).or_default() += 1;
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
    for kernel in [
        Kernel::Scalar,
        Kernel::Rows,
        Kernel::Elements,
        Kernel::ShuffleRows,
        Kernel::Columns(tiling),
    ] {
        for choice in choices(kernel, false)
            .into_iter()
            .chain(choices(kernel, true))
        {
            let name = choice.name();
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
        let (bytes, of_masks) = match level {
            SimdLevel::Avx512 => (64, &LOOPS_OF_MASKS[..]),
            SimdLevel::Avx2 => (32, &[][..]),
            _ => (16, &[][..]),
        };
        for task in LOOPS.iter().chain(of_masks) {
            let done = reached.contains(&(*task, bytes));
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
