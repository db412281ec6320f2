//! The rows of the table.

use anyhow::{Context, Result};
use revseq_kernels::{DataType, ReverseSubsequencesDesc};

/// The lengths of the sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lengths {
    /// Lengths from 0 to the whole axis.
    Random,
    /// The whole axis.
    Full,
    /// Lengths of 0 or 1: nothing moves.
    Short,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) sizes: &'static [u64],
    pub(crate) data_type: DataType,
    pub(crate) batch_axis: u32,
    pub(crate) time_axis: u32,
    pub(crate) lengths: Lengths,
}

/// All rows.
pub(crate) fn all() -> Vec<Row> {
    use DataType::{Float16, Float32, Int64, Uint8};
    use Lengths::{Full, Random, Short};
    const SQUARE: &[u64] = &[4096, 4096];
    let row = |sizes, data_type, batch_axis, time_axis, lengths| Row {
        sizes,
        data_type,
        batch_axis,
        time_axis,
        lengths,
    };
    let mut rows = vec![
        row(&[32, 16, 64], Float32, 1, 0, Random),
        row(&[4, 8, 16, 8, 128], Float32, 1, 3, Random),
        row(&[512, 64, 256], Float32, 1, 0, Random),
        row(&[512, 64, 256], Float32, 1, 0, Full),
        row(&[64, 512, 256], Float32, 0, 1, Random),
    ];
    for data_type in [Float32, Float16, Uint8, Int64] {
        rows.push(row(SQUARE, data_type, 0, 1, Random));
    }
    for data_type in [Float32, Uint8] {
        for lengths in [Random, Full, Short] {
            rows.push(row(SQUARE, data_type, 1, 0, lengths));
        }
    }
    rows
}

impl Row {
    pub(crate) fn name(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        let lengths = match self.lengths {
            Lengths::Random => "random",
            Lengths::Full => "full",
            Lengths::Short => "0 and 1",
        };
        format!(
            "[{}] {}, batch {}, time {}, {lengths}",
            sizes.join(","),
            self.data_type.name(),
            self.batch_axis,
            self.time_axis
        )
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().product::<u64>() * self.data_type.size() as u64
    }

    pub(crate) fn desc(&self) -> Result<ReverseSubsequencesDesc> {
        ReverseSubsequencesDesc::reverse_sequence(
            self.data_type,
            self.sizes,
            self.batch_axis,
            self.time_axis,
            DataType::Int64,
        )
        .context(self.name())
    }

    /// The lengths, the same in every run.
    pub(crate) fn lengths(&self) -> Vec<i64> {
        let time = self.sizes[self.time_axis as usize];
        let count = self.sizes[self.batch_axis as usize];
        let mut random = Random(count);
        (0..count)
            .map(|index| match self.lengths {
                Lengths::Random => random.next() % (time + 1),
                Lengths::Full => time,
                Lengths::Short => index % 2,
            } as i64)
            .collect()
    }

    /// The data, the same in every run.
    pub(crate) fn data(&self) -> Vec<u8> {
        let mut random = Random(self.bytes());
        let words = (0..self.bytes().div_ceil(8)).flat_map(|_| random.next().to_ne_bytes());
        words.take(self.bytes() as usize).collect()
    }
}

/// Numbers as good as random: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
