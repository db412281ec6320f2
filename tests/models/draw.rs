//! What random models and their inputs are drawn from: small sizes and numbers, and now and then long runs,
//! no elements at all, and numbers at which types or functions end.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Integers at which types end, and their neighbours.
pub const EDGES: [i64; 18] = [
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    -(1 << 31) - 1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    -(1 << 32),
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    -(1 << 53) - 1,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    1_000_000_000,
];

/// Small integers, and now and then one of [`EDGES`].
pub fn integers(small: std::ops::Range<i64>) -> impl Strategy<Value = i64> + Clone {
    prop_oneof![4 => small, 1 => proptest::sample::select(&EDGES[..])]
}

/// Numbers of steps or elements: few, none, or 100 to 1,000.
pub fn counts(few: std::ops::Range<usize>) -> impl Strategy<Value = usize> + Clone {
    prop_oneof![16 => few, 1 => Just(0), 1 => 100..=1000_usize]
}

/// The floats of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floats {
    /// From -1 to 1.
    Small,
    /// These times a power of two, at which gates are saturated, products overflow or vanish.
    Times(i32),
    /// Among them infinity, NaN, zeros of both signs, and the largest and smallest numbers.
    Any,
}

/// Enums of which one is drawn: `Name::ALL` has each of an enum, `Name::any()` draws one.
#[macro_export]
macro_rules! drawn {
    ($($(#[$about:meta])* enum $name:ident { $($(#[$each:meta])* $one:ident,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum $name { $($(#[$each])* $one),* }

        impl $name {
            const ALL: &[Self] = &[$(Self::$one),*];

            fn any() -> impl ::proptest::strategy::Strategy<Value = Self> + Clone {
                ::proptest::sample::select(Self::ALL)
            }
        }
    )*};
}

/// Floats of computed values: their sums are exact to the same extent at each scale.
pub fn scaled() -> impl Strategy<Value = Floats> + Clone {
    prop_oneof![
        6 => Just(Floats::Small),
        1 => proptest::sample::select(&[6, 30, 100, -100][..]).prop_map(Floats::Times),
    ]
}

/// The sizes of a run's inputs, and what their elements are.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The number of steps.
    pub time: usize,
    /// The number of sequences.
    pub batch: usize,
    /// What the elements are mixed from.
    pub seed: u64,
    /// The range of floats.
    pub floats: Floats,
}

/// Runs of random sizes.
pub fn runs(floats: impl Strategy<Value = Floats>) -> impl Strategy<Value = Run> {
    let batch = prop_oneof![16 => 1..5_usize, 1 => Just(0)];
    (counts(1..6), batch, any::<u64>(), floats).prop_map(|(time, batch, seed, floats)| Run {
        time,
        batch,
        seed,
        floats,
    })
}

impl Run {
    /// This run with floats up to 2^6: what a state or a linear function keeps of larger ones differs between
    /// runtimes by more than a tolerance.
    #[must_use]
    pub fn kept(self) -> Self {
        let floats = match self.floats {
            Floats::Times(power) => Floats::Times(power.min(6)),
            other => other,
        };
        Self { floats, ..self }
    }

    /// This run with floats up to 1.
    #[must_use]
    pub fn small(self) -> Self {
        Self {
            floats: Floats::Small,
            ..self
        }
    }

    /// A number for each element of an input.
    #[must_use]
    pub fn mixed(&self, index: usize) -> u64 {
        (index as u64 + 1).wrapping_mul(self.seed | 1) >> 7
    }

    /// The float at a place.
    #[must_use]
    pub fn float(&self, index: usize) -> f32 {
        const EDGES: [f32; 8] = [
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            -0.0,
            1e30,
            -1e30,
            1e-30,
            f32::MAX,
        ];
        let mixed = self.mixed(index);
        let small = (mixed % 128) as f32 / 64.0 - 1.0;
        match self.floats {
            Floats::Small => small,
            Floats::Times(power) => small * 2_f32.powi(power),
            Floats::Any if mixed.is_multiple_of(5) => EDGES[(mixed / 5 % 8) as usize],
            Floats::Any => small,
        }
    }

    /// Bytes of floats.
    #[must_use]
    pub fn floats(&self, count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|at| self.float(at).to_le_bytes())
            .collect()
    }
}

/// So many random cases, times the number of the environment variable `REVSEQ_RANDOM_TIMES`.
///
/// # Panics
/// That is no number.
#[must_use]
pub fn times(cases: u32) -> u32 {
    let times = std::env::var("REVSEQ_RANDOM_TIMES");
    cases * times.map_or(1, |it| it.parse().expect("REVSEQ_RANDOM_TIMES is a number"))
}

/// Checks so many random values and [more](times), which are the same in each run of a seed; shrinks what fails a
/// little.
///
/// # Panics
/// A check fails.
pub fn check<S: Strategy>(
    cases: u32,
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: Debug,
{
    let config = Config {
        cases: times(cases),
        max_shrink_iters: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let checked = TestRunner::new(config).run(&strategy, test);
    checked.unwrap_or_else(|error| panic!("{error}"));
}

/// Choices that are made one after the other.
#[derive(Debug)]
pub struct Choices(std::vec::IntoIter<u32>);

impl Choices {
    /// All the choices that will be made; later ones are 0.
    #[must_use]
    pub fn new(all: Vec<u32>) -> Self {
        Self(all.into_iter())
    }

    /// Returns a number below this.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.next().unwrap_or(0) as usize % count.max(1)
    }

    /// Whether there are none left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.len() == 0
    }
}
