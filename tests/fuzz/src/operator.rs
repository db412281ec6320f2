//! The kernels: any descriptor, lengths and threads, against the reference.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use revseq_kernels::cpu::{self, Options, SimdLevel, Threads};
use revseq_kernels::{
    DataType, Dims, Error, FeatureLevel, LengthsData, LengthsPolicy, Plan, ReverseSubsequencesDesc,
    SequenceLengths, TensorDesc, reference,
};

use crate::arena::Arena;

/// The most elements of a tensor that is run: the reference counts through each.
const MOST_ELEMENTS: u64 = 4 << 10;

/// The most bytes of a buffer, including gaps between strides.
const MOST_BYTES: usize = 256 << 10;

/// The most bytes between a buffer and the inaccessible memory.
const MOST_APART: usize = 63;

/// Makes a descriptor and a run of the bytes, and runs it in every way.
pub fn operator(data: &[u8]) {
    // Missing bytes count as 0.
    let _ = check(&mut Unstructured::new(data));
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let mut desc = layout(u)?;
    if u.ratio(1, 4)? {
        for _ in 0..u.int_in_range(1..=4)? {
            damage(&mut desc, u)?;
        }
    }
    check_levels(&desc);
    let plan = match Plan::new(&desc) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(());
        }
    };
    let elements = desc.input.element_count();
    let longest = plan.input_bytes().max(plan.output_bytes());
    if elements.is_none_or(|count| count > MOST_ELEMENTS)
        || longest.max(plan.lengths_count()) > MOST_BYTES
    {
        return Ok(());
    }
    let lengths = Lengths::new(&desc, plan.lengths_count(), plan.axis_size() as u64, u)?;
    check_reject(&desc, &plan, lengths.data());
    let case = Case {
        desc: &desc,
        plan: &plan,
        data: lengths.data(),
        lengths: SequenceLengths::new(&plan, lengths.data(), LengthsPolicy::Clamp).unwrap(),
        seed: u.arbitrary()?,
    };
    case.check(u)
}

/// A descriptor that has a plan.
fn layout(u: &mut Unstructured<'_>) -> Result<ReverseSubsequencesDesc> {
    let rank = match u.int_in_range(0..=9)? {
        9 => u.int_in_range(7..=12)?,
        rank => rank % 6 + 1,
    };
    let mut left = MOST_ELEMENTS;
    let mut sizes = vec![0; rank];
    for size in &mut sizes {
        let bits = u.int_in_range(0..=12)?;
        *size = u.int_in_range(0..=left.min(1 << bits))?;
        left /= (*size).max(1);
    }
    let axis = u.choose_index(rank)?;
    let data_type = *u.choose(&DataType::ALL)?;
    let lengths_type = *u.choose(&LENGTHS_TYPES)?;
    let mut lengths_sizes = sizes.clone();
    lengths_sizes[axis] = 1;
    let output = strides(&sizes, false, u)?;
    let input = match u.ratio(1, 2)? {
        true => output.clone(),
        false => strides(&sizes, true, u)?,
    };
    let lengths = strides(&lengths_sizes, true, u)?;
    let tensor = |data_type, sizes: &[u64], strides: Option<Vec<u64>>| TensorDesc {
        strides: strides.map(|strides| strides.into_iter().collect()),
        ..TensorDesc::packed(data_type, sizes.iter().copied())
    };
    Ok(ReverseSubsequencesDesc {
        input: tensor(data_type, &sizes, input),
        sequence_lengths: tensor(lengths_type, &lengths_sizes, lengths),
        output: tensor(data_type, &sizes, output),
        axis: axis as u32,
    })
}

const LENGTHS_TYPES: [DataType; 4] = [
    DataType::Int32,
    DataType::Int64,
    DataType::Uint32,
    DataType::Uint64,
];

/// Strides for sizes: packed, or any order of the dimensions with padding after
/// each, and with some that repeat.
fn strides(sizes: &[u64], repeats: bool, u: &mut Unstructured<'_>) -> Result<Option<Vec<u64>>> {
    let how: u8 = u.arbitrary()?;
    if how & 3 == 0 {
        return Ok(None);
    }
    let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
    if how & 4 != 0 {
        for place in 1..order.len() {
            order.swap(place, u.int_in_range(0..=place)?);
        }
    }
    let mut strides = vec![0; sizes.len()];
    let mut next: u64 = 1;
    for dimension in order {
        strides[dimension] = next;
        let padding = match how & 8 != 0 {
            true => u.int_in_range(0..=2)?,
            false => 0,
        };
        next = next * sizes[dimension].max(1) + padding;
    }
    if repeats && how & 16 != 0 {
        let repeated: u16 = u.arbitrary()?;
        for (dimension, stride) in strides.iter_mut().enumerate() {
            if repeated >> (dimension % 16) & 1 != 0 {
                *stride = 0;
            }
        }
    }
    Ok(Some(strides))
}

/// Changes one thing in a descriptor to whatever the bytes say.
fn damage(desc: &mut ReverseSubsequencesDesc, u: &mut Unstructured<'_>) -> Result<()> {
    let which = u.int_in_range(0..=3)?;
    let tensor = match which {
        0 => &mut desc.input,
        1 => &mut desc.sequence_lengths,
        2 => &mut desc.output,
        _ => {
            desc.axis = number(u)? as u32;
            return Ok(());
        }
    };
    let dimension = u.choose_index(tensor.sizes.len().max(1))?;
    match u.int_in_range(0..=8)? {
        0 | 1 => {
            if let Some(size) = tensor.sizes.get_mut(dimension) {
                *size = number(u)?;
            }
        }
        2 | 3 => {
            if tensor.strides.is_none() {
                tensor.strides = tensor.effective_strides();
            }
            let strides = tensor.strides.as_deref_mut();
            if let Some(stride) = strides.and_then(|strides| strides.get_mut(dimension)) {
                *stride = number(u)?;
            }
        }
        4 => tensor.data_type = *u.choose(&DataType::ALL)?,
        5 => tensor.total_size_in_bytes = Some(number(u)?),
        6 => tensor.guaranteed_base_offset_alignment = number(u)? as u32,
        7 if tensor.sizes.len() < 16 => {
            let more = [number(u)?];
            tensor.sizes = tensor.sizes.iter().copied().chain(more).collect();
        }
        _ => tensor.sizes = tensor.sizes.split_last().map_or(&[][..], |it| it.1).into(),
    }
    // A descriptor has as many strides as sizes, or a plan refuses it.
    if let Some(strides) = &mut tensor.strides
        && !u.ratio(1, 8)?
    {
        *strides = of_rank(strides, tensor.sizes.len());
    }
    // One size for all three, or the sizes alone are wrong.
    if u.ratio(1, 2)? {
        let sizes = tensor.sizes.clone();
        let axis = desc.axis as usize;
        for tensor in [
            &mut desc.input,
            &mut desc.sequence_lengths,
            &mut desc.output,
        ] {
            tensor.sizes.clone_from(&sizes);
            if let Some(strides) = &mut tensor.strides {
                *strides = of_rank(strides, sizes.len());
            }
        }
        if let Some(size) = desc.sequence_lengths.sizes.get_mut(axis) {
            *size = 1;
        }
    }
    Ok(())
}

/// The first of some strides, and as many of 1 as are missing.
fn of_rank(strides: &[u64], rank: usize) -> Dims {
    let ones = std::iter::repeat(1);
    strides.iter().copied().chain(ones).take(rank).collect()
}

/// A number of any magnitude.
fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=5)? {
        0..=2 => u.int_in_range(0..=17)?,
        3 => u.arbitrary::<u16>()?.into(),
        4 => u.arbitrary()?,
        _ => {
            let bits = u.int_in_range(0..=63)?;
            (1_u64 << bits)
                .wrapping_add(u.int_in_range(0..=4)?)
                .wrapping_sub(2)
        }
    })
}

/// A descriptor that one level takes is taken by every level above it, and has a plan.
fn check_levels(desc: &ReverseSubsequencesDesc) {
    let results = FeatureLevel::ALL.map(|level| desc.validate(level));
    let lowest = results.iter().position(|result| result.is_ok());
    match (desc.lowest_feature_level(), lowest) {
        (Ok(level), Some(lowest)) => {
            assert_eq!(level, FeatureLevel::ALL[lowest]);
            assert!(
                results[lowest..].iter().all(|result| result.is_ok()),
                "{desc:?}"
            );
            let plan = Plan::new(desc);
            let taken = matches!(plan, Ok(_) | Err(Error::SizeOverflow { .. }));
            assert!(taken, "DirectML takes it, but: {plan:?}");
        }
        (Err(error), None) => {
            assert_eq!(Err(&error), results[3].as_ref().copied());
            assert!(!error.to_string().is_empty());
        }
        (level, _) => panic!("{level:?} is the lowest of {results:?}"),
    }
}

enum Lengths {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Lengths {
    fn data(&self) -> LengthsData<'_> {
        match self {
            Self::I32(lengths) => lengths.into(),
            Self::I64(lengths) => lengths.into(),
            Self::U32(lengths) => lengths.into(),
            Self::U64(lengths) => lengths.into(),
        }
    }

    /// `count` lengths for an axis of a size.
    fn new(
        desc: &ReverseSubsequencesDesc,
        count: usize,
        axis_size: u64,
        u: &mut Unstructured<'_>,
    ) -> Result<Self> {
        let kind = u.int_in_range(0..=7)?;
        let seed: u32 = u.arbitrary()?;
        let group = 1 << u.int_in_range(0..=6)?;
        let first: [i8; 4] = u.arbitrary()?;
        let random = |index: u64| {
            let mixed = (index + 1) * (u64::from(seed) << 1 | 1);
            mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
        };
        let value = |index: usize| {
            let random = random(index as u64 / group);
            match kind {
                0 => axis_size,
                1 => u64::from(seed) % (axis_size + 1),
                2 => random % 2,
                3 | 4 => random % (axis_size + 1),
                // Long ones.
                5 => axis_size - axis_size.min(random % 4),
                // The first as the bytes say, then none.
                6 => first
                    .get(index)
                    .map_or(0, |&length| i64::from(length) as u64),
                _ if random.is_multiple_of(11) => u64::MAX - random % 3,
                _ => random % (axis_size + 4),
            }
        };
        let values = (0..count).map(value);
        // A cast from u64::MAX is −1 where the type has a sign, and far too long otherwise.
        Ok(match desc.sequence_lengths.data_type {
            DataType::Int32 => Self::I32(values.map(|value| value as i32).collect()),
            DataType::Int64 => Self::I64(values.map(|value| value as i64).collect()),
            DataType::Uint32 => Self::U32(values.map(|value| value as u32).collect()),
            _ => Self::U64(values.collect()),
        })
    }
}

/// `Reject` names the first length that a subsequence reads and that is out of range.
fn check_reject(desc: &ReverseSubsequencesDesc, plan: &Plan, data: LengthsData<'_>) {
    if desc.sequence_lengths.sizes.contains(&0) {
        return;
    }
    let strides = desc.sequence_lengths.effective_strides().unwrap();
    let mut read = vec![0_usize];
    for (&size, &stride) in std::iter::zip(&desc.sequence_lengths.sizes, &strides) {
        if stride == 0 || size == 1 {
            continue;
        }
        if size.saturating_mul(read.len() as u64) > MOST_ELEMENTS {
            return;
        }
        let one = std::mem::take(&mut read);
        for index in one {
            read.extend((0..size).map(|round| index + (round * stride) as usize));
        }
    }
    let range = 0..=plan.axis_size() as i128;
    let wrong = read
        .into_iter()
        .filter(|&index| !range.contains(&data.value(index)));
    match (
        wrong.min(),
        SequenceLengths::new(plan, data, LengthsPolicy::Reject),
    ) {
        (None, Ok(_)) => {}
        (Some(first), Err(Error::LengthOutOfRange { index, .. })) => assert_eq!(index, first),
        (first, rejected) => panic!("expected {first:?}, got {rejected:?}"),
    }
}

/// A descriptor with its plan, and lengths that are checked for it.
struct Case<'a> {
    desc: &'a ReverseSubsequencesDesc,
    plan: &'a Plan,
    data: LengthsData<'a>,
    lengths: SequenceLengths<'a>,
    seed: u16,
}

/// The memory that all inputs share.
struct Memory {
    input: Arena,
    output: Arena,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        input: Arena::new(MOST_BYTES + MOST_APART),
        output: Arena::new(MOST_BYTES + MOST_APART),
    });
}

impl Case<'_> {
    fn check(&self, u: &mut Unstructured<'_>) -> Result<()> {
        let content = random_bytes(self.seed.into(), self.plan.input_bytes());
        let before = random_bytes(usize::from(!self.seed) + 1, self.plan.output_bytes());
        let expected = self.reversed(content, before);
        // Bytes between the strides keep the values that they have in place.
        let in_place = same_layout(self.desc).then(|| self.reversed(content, content));
        let pool = Pool::new(u)?;
        let parallel_for = |count: usize, work: &(dyn Fn(usize) + Sync)| pool.run(count, work);
        let threads = match pool.threads {
            0 => Threads::Serial,
            1 => Threads::RayonPool(rayon_pool()),
            threads => Threads::Host {
                threads,
                parallel_for: &parallel_for,
            },
        };
        for level in SimdLevel::ALL
            .into_iter()
            .filter(|level| level.is_supported())
        {
            let plan = self.plan;
            let options = Options::from(threads).with_simd_level(level);
            choose(u)?;
            let places: u8 = u.arbitrary()?;
            let apart = match places & 4 != 0 {
                true => usize::from(u.arbitrary::<u8>()?) & MOST_APART,
                false => 0,
            };
            MEMORY.with_borrow_mut(|Memory { input, output }| {
                let from = input.place(content, places & 1 != 0, apart);
                let to = output.place(before, places & 2 != 0, apart);
                if places & 8 != 0 {
                    cpu::run(plan, &self.lengths, from, to, options).unwrap();
                } else {
                    let to: *mut [u8] = to;
                    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and only initialised
                    // bytes, those of the input, are written through the slice.
                    let to = unsafe { &mut *(to as *mut [MaybeUninit<u8>]) };
                    cpu::run_uninit(plan, &self.lengths, from, to, options).unwrap();
                }
                assert!(
                    output.result() == expected,
                    "{level}, {threads:?}, {self:?}"
                );
                assert!(input.result() == content, "{level}, {threads:?}, {self:?}");

                let data = output.place(content, places & 2 != 0, apart);
                let ran = cpu::run_in_place(plan, &self.lengths, data, options);
                match &in_place {
                    Some(expected) => {
                        ran.unwrap();
                        let same = output.result() == expected;
                        assert!(same, "in place, {level}, {threads:?}, {self:?}");
                    }
                    // Layouts may differ in dimensions of one element, or where there is none.
                    None if ran.is_ok() => {
                        let expected = self.reversed(content, content);
                        assert!(output.result() == expected, "in place, {level}, {self:?}");
                    }
                    None => assert!(matches!(ran, Err(Error::NotInPlace { .. })), "{ran:?}"),
                }
            });
        }
        if in_place.is_some() && u.ratio(1, 8)? {
            self.check_typed();
        }
        Ok(())
    }

    /// The reference's output for an input, over the output's previous bytes.
    fn reversed(&self, input: &[u8], before: &[u8]) -> Vec<u8> {
        let mut output = before[..self.plan.output_bytes()].to_vec();
        reference::reverse_subsequences(self.desc, input, self.data, &mut output);
        output
    }

    /// The typed entry, on the elements' indices.
    fn check_typed(&self) {
        let mut desc = self.desc.clone();
        desc.input.data_type = DataType::Uint32;
        desc.output.data_type = DataType::Uint32;
        let count = desc.input.extent().unwrap() as u32;
        let input: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
        let mut expected = input.clone();
        reference::reverse_subsequences(&desc, &input, self.data, &mut expected);
        let mut data: Vec<u32> = (0..count).collect();
        cpu::reverse_in_place(self.plan, &self.lengths, &mut data).unwrap();
        let data: Vec<u8> = data.into_iter().flat_map(u32::to_ne_bytes).collect();
        assert!(data == expected, "typed, {self:?}");
    }
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}, {:?}", self.desc, self.data, self.plan)
    }
}

/// Whether input and output have the same strides.
fn same_layout(desc: &ReverseSubsequencesDesc) -> bool {
    desc.input.effective_strides() == desc.output.effective_strides()
}

/// Takes choices that otherwise depend on sizes from the bytes.
fn choose(u: &mut Unstructured<'_>) -> Result<()> {
    let how: u8 = u.arbitrary()?;
    #[cfg(fuzzing)]
    revseq_kernels::fuzzing::choose(revseq_kernels::fuzzing::Choice {
        memory: how & 3,
        piece_bytes: match how >> 3 & 7 {
            0 => 0,
            bits => 16 << bits,
        },
    });
    let _ = how;
    Ok(())
}

/// Random bytes that only the seed changes.
fn random_bytes(seed: usize, count: usize) -> &'static [u8] {
    const TABLE: usize = MOST_BYTES + (2 << 16);
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let table = BYTES.get_or_init(|| {
        let hashed = |index: usize| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0];
        (0..TABLE).map(hashed).collect()
    });
    &table[seed..][..count]
}

fn rayon_pool() -> &'static rayon::ThreadPool {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.expect("two threads")
    })
}

/// A host's pool: how it calls the pieces of a run.
struct Pool {
    /// Number of threads that it says that it has; 0 for no pool, 1 for one of rayon's in its
    /// place.
    threads: usize,
    /// Number of the order in which it calls the pieces.
    order: u8,
    seed: u16,
}

impl Pool {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let how: u8 = u.arbitrary()?;
        let threads = match how & 0xf {
            0..=6 => 0,
            // To wake a thread takes as long as many runs.
            7 if how >> 4 == 0 => 1,
            15 => usize::MAX,
            threads => usize::from(threads) - 5,
        };
        Ok(Self {
            threads,
            order: how >> 4,
            seed: u.arbitrary()?,
        })
    }

    fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let mut order: Vec<usize> = (0..count).collect();
        match self.order {
            0..=3 => {}
            4..=7 => order.reverse(),
            _ => {
                let mut state = u64::from(self.seed);
                for place in 1..count {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    order.swap(place, (state >> 33) as usize % (place + 1));
                }
            }
        }
        // A host may also repeat numbers, pass ones that are too large, or leave some out.
        match self.seed & 0x1f {
            0 | 1 => order.extend_from_within(..count / 2),
            2 => order.extend([count, usize::MAX]),
            3 | 4 => order.truncate(count / 2),
            _ => {}
        }
        if self.order == 15 {
            let (one, other) = order.split_at(order.len() / 2);
            std::thread::scope(|scope| {
                scope.spawn(|| one.iter().for_each(|&index| work(index)));
                other.iter().for_each(|&index| work(index));
            });
        } else {
            order.into_iter().for_each(work);
        }
    }
}
