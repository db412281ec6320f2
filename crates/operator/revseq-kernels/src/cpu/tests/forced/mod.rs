//! Every kernel in every tier, on every instruction set, on layouts that it can take: small tensors
//! reach kernels that a run would choose for large ones, in pieces that begin and end anywhere.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::cpu::choice::{Kernel, KernelChoice, Tier};
use crate::cpu::choose::fold_equal_lengths;
use crate::cpu::columns::Tiling;
use crate::cpu::move_as_chosen;
use crate::cpu::threads::Threads;
use crate::cpu::write::CACHE_LINE;
use crate::simd_level::SimdLevel;
use crate::{DataType, LengthsPolicy, Plan, SequenceLengths, TensorDesc, reference};

mod case;
pub(super) use case::Case;
use case::{Place, Workers, case, directed};

// Miri protects no pages, but sees every byte too far by itself.
#[cfg(all(unix, not(miri)))]
#[path = "../../../../tests/guarded/mod.rs"]
mod guarded;

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
            Place::Start(at) => Self::Guarded(guarded::Guarded::new(content, false, at)),
            #[cfg(all(unix, not(miri)))]
            Place::End(at) => Self::Guarded(guarded::Guarded::new(content, true, at)),
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

/// Whether a kernel can take a plan, by the rest of a choice.
fn can_take(choice: &KernelChoice, plan: &Plan) -> bool {
    let pixels = plan.row_bytes < CACHE_LINE.min(choice.simd.vector_bytes() + 1);
    match choice.kernel {
        Kernel::Small | Kernel::Rows => true,
        Kernel::Lines => plan.has_lines() || plan.is_packed_along_time() && pixels,
        Kernel::Columns => Tiling::takes(plan),
    }
}

/// All choices out of place or in place.
fn choices(in_place: bool) -> Vec<KernelChoice> {
    use {Kernel::*, Tier::*};
    let all = [Small, Rows, Lines, Columns]
        .into_iter()
        .flat_map(|kernel| {
            // In place nothing is streamed; without vectors nothing is prefetched.
            let tiers: &[Tier] = match kernel {
                Small => &[Near],
                _ if in_place => &[Near, Far],
                _ => &[Near, Far, Streamed],
            };
            tiers.iter().flat_map(move |&tier| {
                levels().map(move |simd| KernelChoice {
                    kernel,
                    tier,
                    simd,
                    in_place,
                })
            })
        });
    all.collect()
}

/// The key under which a choice is counted.
fn name(choice: &KernelChoice) -> String {
    format!("{choice} by {}", choice.simd)
}

/// The pieces that a run of `items` items is cut into, in the order of the cuts' keys.
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
        threads.for_each_piece(items, 1 << 20, 0, &work);
    };
    // WebAssembly starts no threads.
    let workers = match cfg!(target_family = "wasm") {
        true => Workers::One,
        false => case.workers,
    };
    match workers {
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

/// Number of times that each choice was made.
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
        // In place, the bytes between the strides are the input's.
        let start = if in_place { &content } else { &before };
        let mut expected = start.clone();
        reference::reverse_subsequences(&case.desc, &content, &case.lengths[..], &mut expected);
        let choices = choices(in_place);
        for choice in choices.iter().filter(|choice| can_take(choice, plan)) {
            output.slice().copy_from_slice(start);
            let to = output.slice().as_mut_ptr();
            let from = match in_place {
                true => to.cast_const(),
                false => input.slice().as_ptr(),
            };
            // SAFETY: the buffers are as long as the plan says, and two unless in place.
            // A kernel that can take the plan, and the CPU has the level, as a run could use it.
            unsafe {
                if !plan.empty {
                    let buffers = (from, to);
                    move_as_chosen(plan, &lengths, buffers, *choice, |items, _, work| {
                        for_each_piece(case, items, work);
                    });
                }
            }
            assert!(*output.slice() == expected[..], "{choice:?}, {plan:?}");
            *made.borrow_mut().entry(name(choice)).or_default() += 1;
        }
    }
    assert!(*input.slice() == content[..], "the input, {plan:?}");
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
    random.unwrap_or_else(|error| panic!("{error}"));
    // Every kernel was run in every way that this machine has.
    let made = made.into_inner();
    for choice in [false, true].map(choices).concat() {
        let name = name(&choice);
        assert!(made.contains_key(&name), "{name} was not run: {made:#?}");
    }
}

/// Miri runs this as well, which also checks pointers that nothing is read from, and their
/// provenance.
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
