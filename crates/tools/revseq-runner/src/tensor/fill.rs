//! Made-up inputs.

use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use half::{bf16, f16};
use revseq_graph::ElementType;
use revseq_kernels::DataType;

use super::element::{is_complex, is_float};
use super::{Data, MAXIMUM_BYTES, Tensor, count, type_and_shape};

/// The values of made-up inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    /// The numbers 0, 1, 2, … in row-major order, over and over as far as the type counts exactly.
    Iota,
    /// Random values that depend on the seed alone.
    Random(u64),
    /// The same of integers from `low` up to, but not, `high`.
    Ints { low: i64, high: i64, seed: u64 },
    /// The same of floats from `low` to `high`; truth values and strings are filled as with `Random`.
    Floats { low: f64, high: f64, seed: u64 },
    /// Zeros, false or empty strings.
    Zeros,
}

impl FromStr for Fill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "iota" => Ok(Self::Iota),
            None if text == "zeros" => Ok(Self::Zeros),
            None if text == "random" => Ok(Self::Random(0)),
            Some(("random", seed)) => Ok(Self::Random(parse_seed(seed)?)),
            Some(("ints", range)) => {
                let (low, high, seed) = parse_range(range, "0..20 for 0 to 19")?;
                Ok(Self::Ints { low, high, seed })
            }
            Some(("floats", range)) => {
                let (low, high, seed) = parse_range(range, "-0.5..0.5")?;
                if !f64::is_finite(high - low) {
                    return Err(format!("{range:?} is too wide a range"));
                }
                Ok(Self::Floats { low, high, seed })
            }
            _ => Err(
                "expected iota, random, random:SEED, ints:LOW..HIGH, floats:LOW..HIGH or zeros"
                    .to_owned(),
            ),
        }
    }
}

/// Parses `LOW..HIGH` or `LOW..HIGH:SEED`.
fn parse_range<T: FromStr + PartialOrd>(text: &str, example: &str) -> Result<(T, T, u64), String> {
    let (range, seed) = match text.split_once(':') {
        Some((range, seed)) => (range, parse_seed(seed)?),
        None => (text, 0),
    };
    let bounds = range.split_once("..").and_then(|(low, high)| {
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        (low < high).then_some((low, high, seed))
    });
    bounds.ok_or_else(|| format!("{range:?} is not a range, such as {example}"))
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a seed"))
}

/// The integers that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Indices from 0 to this.
    Indices(u64),
    /// Lengths of sequences of at most as many steps.
    Lengths(u64),
}

impl Accepted {
    /// The greatest.
    pub(crate) fn most(self) -> u64 {
        let (Self::Indices(most) | Self::Lengths(most)) = self;
        most
    }
}

/// A filled tensor.
///
/// `number` varies the random values between inputs. Integers are among those that are accepted, if that is
/// known; an explicit range overrides it. Random lengths are 1 at least, and the first is the longest.
///
/// # Errors
/// If it takes more than [`MAXIMUM_BYTES`], or the type does not hold the range.
pub(crate) fn fill(
    fill: Fill,
    element_type: ElementType,
    shape: &[usize],
    number: u64,
    accepted: Option<Accepted>,
) -> Result<Tensor> {
    let element_size = match element_type {
        ElementType::Fixed(data_type) => data_type.size(),
        ElementType::String => size_of::<String>(),
    } as u64;
    let count = count(shape).filter(|&count| {
        (count as u64)
            .checked_mul(element_size)
            .is_some_and(|bytes| bytes <= MAXIMUM_BYTES)
    });
    let count = count.with_context(|| {
        format!(
            "{} is more than the limit of {} GiB for --fill",
            type_and_shape(element_type, shape),
            MAXIMUM_BYTES >> 30
        )
    })?;
    if let Fill::Ints { low, high, .. } = fill {
        let (least, greatest) = integers(element_type);
        ensure!(
            least <= low.into() && i128::from(high) - 1 <= greatest,
            "{element_type} does not hold all integers from {low} to {}",
            high - 1
        );
    }
    if let Fill::Floats { low, high, .. } = fill {
        ensure!(
            !is_integer(element_type),
            "{element_type} holds no floats from {low} to {high}: fill it by its name, such as with \
             --fill NAME=random or --fill NAME=ints:0..10"
        );
    }
    let mut random = SplitMix64(match fill {
        Fill::Random(seed) | Fill::Ints { seed, .. } | Fill::Floats { seed, .. } => {
            seed ^ number.wrapping_mul(0xd134_2543_de82_ef95)
        }
        Fill::Iota | Fill::Zeros => 0,
    });
    let data = match element_type {
        ElementType::String => Data::Strings(strings(fill, count, &mut random)),
        ElementType::Fixed(data_type) => {
            let bytes = count * data_type.size();
            let mut data = Vec::new();
            data.try_reserve_exact(bytes).with_context(|| {
                let what = type_and_shape(element_type, shape);
                format!("not enough memory for {what}")
            })?;
            match fill {
                Fill::Zeros => data.resize(bytes, 0),
                _ => push_all(&mut data, data_type, count, fill, &mut random, accepted),
            }
            ensure!(data.len() == bytes, "{data_type} cannot be filled");
            Data::Fixed(data_type, data)
        }
    };
    Tensor::new(shape.to_vec(), data)
}

fn strings(fill: Fill, count: usize, random: &mut SplitMix64) -> Vec<String> {
    let string = |index: usize| match fill {
        Fill::Iota => index.to_string(),
        Fill::Random(_) | Fill::Ints { .. } | Fill::Floats { .. } => random.word(),
        Fill::Zeros => String::new(),
    };
    (0..count).map(string).collect()
}

/// Appends elements, integers of which are accepted unless the fill has a range.
fn push_all(
    data: &mut Vec<u8>,
    data_type: DataType,
    count: usize,
    fill: Fill,
    random: &mut SplitMix64,
    accepted: Option<Accepted>,
) {
    let element_type = ElementType::Fixed(data_type);
    let most = accepted.map(Accepted::most);
    let period = |all: u64| most.map_or(all, |it| it.saturating_add(1).min(all));
    // The bool and the small types count only so far.
    let exact = period(integers(element_type).1.min((1 << 31) - 1) as u64 + 1);
    // 0 to 99 fits every integer.
    let small = period(100);
    let float = |random: &mut SplitMix64| match fill {
        Fill::Floats { low, high, .. } => low + (high - low) * random.fraction(),
        _ => random.unit(),
    };
    for index in 0..count as u64 {
        let real = match fill {
            Fill::Iota => (index % exact) as f64,
            Fill::Ints { low, high, .. } => {
                // The sum stays below `high`.
                low.wrapping_add_unsigned(random.next() % high.abs_diff(low)) as f64
            }
            _ if data_type == DataType::Bool => (random.next() >> 63) as f64,
            _ if is_float(element_type) => float(random),
            _ => {
                let drawn = random.next();
                match accepted {
                    Some(Accepted::Lengths(steps @ 1..)) => match index {
                        0 => steps as f64,
                        _ => (1 + drawn % steps) as f64,
                    },
                    _ => (drawn % small) as f64,
                }
            }
        };
        let imaginary = match fill {
            Fill::Random(_) | Fill::Floats { .. } if is_complex(element_type) => float(random),
            _ => 0.0,
        };
        push(data, data_type, real, imaginary);
    }
}

fn is_integer(element_type: ElementType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    matches!(
        element_type,
        ElementType::Fixed(Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64)
    )
}

/// The least and the greatest integer of those that a type holds without a gap, and that a
/// double holds.
fn integers(element_type: ElementType) -> (i128, i128) {
    let ElementType::Fixed(data_type) = element_type else {
        // No integer at all.
        return (0, -1);
    };
    let bits = match data_type {
        DataType::Bool => return (0, 1),
        DataType::Int8 => 7,
        DataType::Int16 => 15,
        DataType::Int32 => 31,
        DataType::Uint8 => return (0, (1 << 8) - 1),
        DataType::Uint16 => return (0, (1 << 16) - 1),
        DataType::Uint32 => return (0, (1 << 32) - 1),
        DataType::Uint64 => return (0, 1 << 53),
        // Up to the number of bits of their significands.
        DataType::Bfloat16 => 8,
        DataType::Float16 => 11,
        DataType::Float32 | DataType::Complex64 => 24,
        _ => 53,
    };
    (-(1 << bits), (1 << bits) - 1)
}

/// Appends a number that the type holds.
fn push(data: &mut Vec<u8>, data_type: DataType, real: f64, imaginary: f64) {
    match data_type {
        DataType::Bool | DataType::Uint8 => data.push(real as u8),
        DataType::Int8 => data.extend((real as i8).to_le_bytes()),
        DataType::Int16 => data.extend((real as i16).to_le_bytes()),
        DataType::Int32 => data.extend((real as i32).to_le_bytes()),
        DataType::Int64 => data.extend((real as i64).to_le_bytes()),
        DataType::Uint16 => data.extend((real as u16).to_le_bytes()),
        DataType::Uint32 => data.extend((real as u32).to_le_bytes()),
        DataType::Uint64 => data.extend((real as u64).to_le_bytes()),
        DataType::Float16 => data.extend(f16::from_f64(real).to_le_bytes()),
        DataType::Bfloat16 => data.extend(bf16::from_f64(real).to_le_bytes()),
        DataType::Float32 => data.extend((real as f32).to_le_bytes()),
        DataType::Float64 => data.extend(real.to_le_bytes()),
        DataType::Complex64 => {
            data.extend((real as f32).to_le_bytes());
            data.extend((imaginary as f32).to_le_bytes());
        }
        DataType::Complex128 => {
            data.extend(real.to_le_bytes());
            data.extend(imaginary.to_le_bytes());
        }
        _ => {}
    }
}

/// Sebastiano Vigna's SplitMix64: a seed gives the same values in every
/// version, which crates of generators do not promise.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number in [-1, 1): a multiple of 2^-10, which every float holds but bfloat16,
    /// which rounds it.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 53) as f64 - 1024.0) / 1024.0
    }

    /// Returns a number in [0, 1).
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn word(&mut self) -> String {
        let mut bits = self.next();
        let length = bits % 8;
        (0..length)
            .map(|_| {
                bits /= 26;
                char::from(b'a' + (bits % 26) as u8)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_fills_and_random_depends_on_the_seed_alone() {
        for element_type in ElementType::all() {
            let make = |how, number| fill(how, element_type, &[2, 300], number, None).unwrap();
            for how in [Fill::Iota, Fill::Zeros, Fill::Random(7)] {
                assert_eq!(make(how, 0), make(how, 0), "{element_type} {how:?}");
            }
            assert_ne!(
                make(Fill::Random(7), 0),
                make(Fill::Random(8), 0),
                "{element_type}"
            );
            assert_ne!(
                make(Fill::Random(7), 0),
                make(Fill::Random(7), 1),
                "{element_type}"
            );
            assert_ne!(make(Fill::Iota, 0), make(Fill::Zeros, 0), "{element_type}");
        }
    }

    #[test]
    fn integers_keep_to_the_highest() {
        let element_type = ElementType::Fixed(DataType::Int64);
        for how in [Fill::Iota, Fill::Random(1)] {
            let indices = Some(Accepted::Indices(5));
            let tensor = fill(how, element_type, &[1000], 0, indices).unwrap();
            let mut seen: Vec<String> = (0..1000).map(|at| tensor.value(at).to_string()).collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen, ["0", "1", "2", "3", "4", "5"], "{how:?}");
        }
    }

    #[test]
    fn lengths_are_of_one_step_to_all_of_which_one_is() {
        let lengths = |count, steps| {
            let element_type = ElementType::Fixed(DataType::Int32);
            let accepted = Some(Accepted::Lengths(steps));
            let tensor = fill(Fill::Random(1), element_type, &[count], 0, accepted).unwrap();
            let seen: Vec<String> = (0..count).map(|at| tensor.value(at).to_string()).collect();
            seen
        };
        assert_eq!(lengths(1, 7), ["7"]);
        assert_eq!(lengths(3, 0), ["0", "0", "0"]);
        let mut many = lengths(1000, 4);
        assert_eq!(many[0], "4");
        many.sort();
        many.dedup();
        assert_eq!(many, ["1", "2", "3", "4"]);
    }

    #[test]
    fn integers_are_within_their_range() {
        let fill = |text: &str, data_type| {
            let how = text.parse().unwrap();
            fill(
                how,
                ElementType::Fixed(data_type),
                &[1000],
                0,
                Some(Accepted::Indices(2)),
            )
        };
        let seen = |tensor: Tensor| -> Vec<String> {
            let values = (0..1000).map(|at| tensor.value(at).to_string());
            let values: std::collections::BTreeSet<String> = values.collect();
            values.into_iter().collect()
        };
        let int64 = fill("ints:-1..3", DataType::Int64).unwrap();
        assert_eq!(seen(int64), ["-1", "0", "1", "2"]);
        let float = fill("ints:7..9:5", DataType::Float16).unwrap();
        assert_eq!(seen(float), ["7.0", "8.0"]);
        assert_eq!(seen(fill("ints:0..2", DataType::Bool).unwrap()).len(), 2);
        for (range, data_type, holds) in [
            ("ints:0..256", DataType::Uint8, true),
            ("ints:0..257", DataType::Uint8, false),
            ("ints:-1..5", DataType::Uint64, false),
            ("ints:-128..128", DataType::Int8, true),
            (
                "ints:-9223372036854775808..9223372036854775807",
                DataType::Int64,
                false,
            ),
        ] {
            assert_eq!(fill(range, data_type).is_ok(), holds, "{range} {data_type}");
        }
        for wrong in [
            "ints",
            "ints:3",
            "ints:3..3",
            "ints:a..b",
            "ints:0..2:x",
            "random:x",
        ] {
            assert!(wrong.parse::<Fill>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn floats_are_within_their_range_and_no_integers() {
        let filled = |text: &str, data_type| {
            let how = text.parse().unwrap();
            fill(
                how,
                ElementType::Fixed(data_type),
                &[1000],
                3,
                Some(Accepted::Indices(5)),
            )
        };
        let make = |text: &str, data_type| filled(text, data_type).unwrap();
        for data_type in [DataType::Float16, DataType::Float32, DataType::Complex128] {
            let tensor = make("floats:-2.5..4:7", data_type);
            let values = (0..1000).filter_map(|at| tensor.value(at).components());
            let values: Vec<f64> = values.map(|[real, _]| real).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!((-2.5..-2.3).contains(&least), "{data_type}: {least}");
            assert!((3.8..=4.0).contains(&greatest), "{data_type}: {greatest}");
        }
        let error = filled("floats:0..1:7", DataType::Int64).unwrap_err();
        let expected = "int64 holds no floats from 0 to 1: fill it by its name, such as ";
        assert!(error.to_string().starts_with(expected), "{error}");
        for wrong in [
            "floats",
            "floats:1..1",
            "floats:2..1",
            "floats:0..nan",
            "floats:-1e308..1e308",
        ] {
            assert!(wrong.parse::<Fill>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn too_much_is_an_error() {
        let element_type = ElementType::Fixed(DataType::Float32);
        for shape in [vec![1 << 30, 2], vec![usize::MAX, 2], vec![usize::MAX]] {
            assert!(
                fill(Fill::Zeros, element_type, &shape, 0, None).is_err(),
                "{shape:?}"
            );
        }
        assert!(fill(Fill::Zeros, element_type, &[usize::MAX, 2, 0], 0, None).is_ok());
    }
}
