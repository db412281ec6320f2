//! The measured regimes: shapes, axes, element types and lengths.

use std::fmt;

use revseq_kernels::{DataType, ReverseSubsequencesDesc};

/// Number of random lengths in sequence that no processor learns.
const UNLEARNABLE: usize = 1 << 15;

/// One row of the table: a shape, its axes, its elements and its lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regime {
    /// The kind of work, the first word of its name.
    pub kind: Kind,
    /// The sizes in elements, outermost dimension first.
    pub dims: &'static [u64],
    /// The dimension that is reversed along.
    pub time_axis: usize,
    /// The dimension that a length is given for.
    pub batch_axis: usize,
    /// The type of the elements.
    pub data_type: DataType,
    /// The lengths of the reversed prefixes.
    pub lengths: Lengths,
}

/// The kind of work of a regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// `[time, batch, …]`: rows, or single elements of columns, change places.
    TimeMajor,
    /// `[batch, time, …]`: rows, or single elements of rows, change places.
    BatchMajor,
    /// `[batch, time]` by buffer size: the elements of contiguous rows.
    Elements,
    /// Neither axis is an outermost one, or there is a dimension between them.
    Strided,
    /// The smallest work, from the descriptor on: plan, check of the lengths, run.
    WholeCall,
    /// The smallest work, with a ready plan: check of the lengths, run.
    ReadyPlan,
}

impl Kind {
    /// The word in a regime's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeMajor => "time-major",
            Self::BatchMajor => "batch-major",
            Self::Elements => "elements",
            Self::Strided => "strided",
            Self::WholeCall => "whole-call",
            Self::ReadyPlan => "ready-plan",
        }
    }

    /// Whether the time of a call counts, and not its distance from a copy.
    #[must_use]
    pub fn is_call(self) -> bool {
        matches!(self, Self::WholeCall | Self::ReadyPlan)
    }
}

/// Lengths of the reversed prefixes, in steps of an axis of size `t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// Lengths evenly spread over 0 to `t`, the same in every run.
    Random,
    /// Lengths that are all `t`.
    Full,
    /// Lengths that are all `t / 2`.
    Equal,
    /// Lengths of 0 and 1 in turn: there is nothing to reverse.
    ZeroOne,
}

impl Lengths {
    /// The word in a regime's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::ZeroOne => "zero-one",
        }
    }
}

/// The short name of an element type, as in Rust; `c128` for the one of 16 bytes.
fn type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Float16 => "f16",
        DataType::Uint8 => "u8",
        DataType::Int64 => "i64",
        DataType::Complex128 => "c128",
        DataType::Float32 => "f32",
        other => other.name(),
    }
}

/// The name: kind, sizes, element type and lengths, as in `time-major 512x64x256 f32 random`.
impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.dims.iter().map(u64::to_string).collect();
        let name = format!(
            "{} {} {} {}",
            self.kind.name(),
            dims.join("x"),
            type_name(self.data_type),
            self.lengths.name()
        );
        f.pad(&name)
    }
}

impl Regime {
    /// The size of the data in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let elements: u64 = self.dims.iter().product();
        elements as usize * self.data_type.size()
    }

    /// The descriptor: packed tensors, a 64-bit length for every batch entry.
    #[must_use]
    pub fn desc(&self) -> ReverseSubsequencesDesc {
        let (batch, time) = (self.batch_axis as u32, self.time_axis as u32);
        let lengths = DataType::Int64;
        ReverseSubsequencesDesc::reverse_sequence(self.data_type, self.dims, batch, time, lengths)
            .expect("a regime has two axes")
    }

    /// A length for every batch entry.
    #[must_use]
    pub fn sequence_lengths(&self) -> Vec<i64> {
        let time = self.dims[self.time_axis];
        let mut state = 12345;
        (0..self.dims[self.batch_axis])
            .map(|batch| {
                let length = match self.lengths {
                    Lengths::Random => next_random(&mut state) % (time + 1),
                    Lengths::Full => time,
                    Lengths::Equal => time / 2,
                    Lengths::ZeroOne => batch % 2,
                };
                length as i64
            })
            .collect()
    }

    /// The lengths of one run after the other: the [lengths](Self::sequence_lengths),
    /// then the same in other orders, if there are so few that a processor would
    /// learn where each sequence ends, as it cannot where they come with every call.
    #[must_use]
    pub fn lengths_of_runs(&self) -> Vec<Vec<i64>> {
        let mut lengths = self.sequence_lengths();
        let orders = (UNLEARNABLE / lengths.len()).clamp(1, 64);
        let mut state = 54321;
        let mut runs = vec![lengths.clone()];
        while runs.len() < orders {
            for last in (1..lengths.len()).rev() {
                let other = next_random(&mut state) % (last as u64 + 1);
                lengths.swap(last, other as usize);
            }
            runs.push(lengths.clone());
        }
        runs
    }

    /// The share of the bytes that lie in reversed prefixes, 0 to 1, which work
    /// in place must touch. Prefixes of length 1 do not count.
    #[must_use]
    pub fn reversed_share(&self) -> f64 {
        let lengths = self.sequence_lengths();
        let reversed: i64 = lengths.iter().filter(|&&length| length > 1).sum();
        reversed as f64 / (self.dims[self.time_axis] as f64 * lengths.len() as f64)
    }
}

/// The next number of a splitmix64 sequence.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The types of the two-dimensional rows: one of each size that kernels know.
const TYPES: [DataType; 5] = [
    DataType::Float32,
    DataType::Float16,
    DataType::Uint8,
    DataType::Int64,
    DataType::Complex128,
];

/// `[b, 256]` of 64 KiB, 1 MiB, 16 MiB and 64 MiB, for elements of each size.
const ELEMENTS: [(DataType, [[u64; 2]; 4]); 5] = [
    (DataType::Uint8, elements(1)),
    (DataType::Float16, elements(2)),
    (DataType::Float32, elements(4)),
    (DataType::Int64, elements(8)),
    (DataType::Complex128, elements(16)),
];

const fn elements(size: u64) -> [[u64; 2]; 4] {
    let rows = (64 << 10) / 256 / size;
    [
        [rows, 256],
        [16 * rows, 256],
        [256 * rows, 256],
        [1024 * rows, 256],
    ]
}

/// Number of bytes above which a regime is left out of a quick run.
pub const LARGE: usize = 512 << 20;

/// Every regime, in the order of the table.
#[must_use]
pub fn regimes() -> Vec<Regime> {
    use DataType::Float32;
    use Kind::{BatchMajor, Elements, ReadyPlan, Strided, TimeMajor, WholeCall};
    use Lengths::{Equal, Full, Random, ZeroOne};
    let row = |kind, dims, data_type, lengths| {
        let [batch_axis, time_axis] = match kind {
            TimeMajor => [1, 0],
            Strided => [1, 3],
            BatchMajor | Elements | WholeCall | ReadyPlan => [0, 1],
        };
        Regime {
            kind,
            dims,
            time_axis,
            batch_axis,
            data_type,
            lengths,
        }
    };
    let mut rows = vec![
        row(TimeMajor, &[512, 64, 256], Float32, Random),
        row(TimeMajor, &[512, 64, 256], Float32, Full),
        row(TimeMajor, &[512, 64, 256], Float32, Equal),
        row(BatchMajor, &[64, 512, 256], Float32, Random),
    ];
    let square: &[u64] = &[4096, 4096];
    rows.extend(TYPES.map(|data_type| row(BatchMajor, square, data_type, Random)));
    rows.extend(TYPES.map(|data_type| row(TimeMajor, square, data_type, Random)));
    rows.extend([
        row(TimeMajor, square, Float32, Full),
        row(TimeMajor, square, Float32, ZeroOne),
        // Two axes that ONNX Runtime's own kernel does not take, and two that it does.
        row(Strided, &[8, 16, 4, 32, 32], Float32, Random),
        row(TimeMajor, &[32, 16, 8, 4, 32], Float32, Random),
        row(TimeMajor, &[128, 16, 16], Float32, Random),
        row(BatchMajor, &[16, 128, 16], Float32, Random),
        // As models have them: one sequence, few steps, sizes that are no powers of two.
        row(BatchMajor, &[1, 100, 128], Float32, Random),
        row(BatchMajor, &[16, 50, 13], Float32, Random),
        row(TimeMajor, &[50, 16, 13], Float32, Random),
        row(TimeMajor, &[32, 1000], Float32, Random),
        row(TimeMajor, &[1000, 30], Float32, Random),
    ]);
    for (data_type, sizes) in &ELEMENTS {
        rows.extend(
            sizes
                .iter()
                .map(|dims| row(Elements, dims, *data_type, Random)),
        );
    }
    rows.extend([
        row(WholeCall, &[4, 4], Float32, Random),
        row(ReadyPlan, &[4, 4], Float32, Random),
        row(TimeMajor, &[1024, 256, 1024], Float32, Random),
        row(BatchMajor, &[256, 1024, 1024], Float32, Random),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_tell_the_regimes_apart() {
        let names: HashSet<_> = regimes().iter().map(Regime::to_string).collect();
        assert_eq!(names.len(), regimes().len());
        assert!(names.contains("time-major 512x64x256 f32 random"));
    }

    #[test]
    fn sizes_are_those_of_the_table() {
        let mut elements = regimes();
        elements.retain(|regime| regime.kind == Kind::Elements);
        for (index, regime) in elements.iter().enumerate() {
            let expected = [64 << 10, 1 << 20, 16 << 20, 64 << 20][index % 4];
            assert_eq!(regime.bytes(), expected, "{regime}");
        }
        let of_rank_5 = regimes()
            .into_iter()
            .filter(|regime| regime.dims.len() == 5);
        assert!(
            of_rank_5
                .map(|regime| regime.bytes())
                .eq([2 << 20, 2 << 20])
        );
        let large = regimes()
            .into_iter()
            .filter(|regime| regime.bytes() > LARGE);
        assert!(large.map(|regime| regime.bytes()).eq([1 << 30, 1 << 30]));
    }

    #[test]
    fn runs_shuffle_the_same_lengths() {
        for regime in regimes() {
            let mut sorted = regime.sequence_lengths();
            let mut runs = regime.lengths_of_runs();
            assert_eq!(runs[0], sorted);
            let enough = runs.len() == 64 || runs.len() * sorted.len() > UNLEARNABLE / 2;
            assert!(enough, "{regime}: {}", runs.len());
            if regime.lengths == Lengths::Random && runs.len() > 1 && sorted.len() > 8 {
                assert_ne!(runs[0], runs[1], "{regime}");
            }
            sorted.sort_unstable();
            for run in &mut runs {
                run.sort_unstable();
                assert_eq!(*run, sorted, "{regime}");
            }
        }
    }

    #[test]
    fn lengths_are_of_their_kind() {
        for regime in regimes() {
            let lengths = regime.sequence_lengths();
            let time = regime.dims[regime.time_axis] as i64;
            assert_eq!(lengths.len() as u64, regime.dims[regime.batch_axis]);
            assert!(lengths.iter().all(|length| (0..=time).contains(length)));
            let share = regime.reversed_share();
            match regime.lengths {
                Lengths::Random => assert!((0.2..0.8).contains(&share), "{regime}: {share}"),
                Lengths::Full => assert_eq!(share, 1.0, "{regime}"),
                Lengths::Equal => assert_eq!(share, 0.5, "{regime}"),
                Lengths::ZeroOne => assert_eq!(share, 0.0, "{regime}"),
            }
        }
    }
}
