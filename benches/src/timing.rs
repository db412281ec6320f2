//! Interleaved timing: contestants alternate, so that disturbances hit all of them.

use std::time::{Duration, Instant};

use crate::{Case, Contestant, Error};

/// The least time that one sample takes; shorter work is repeated within it.
const SAMPLE: Duration = Duration::from_millis(1);

/// Work of less than this starts with an untimed run, whatever the previous
/// contestant left in the caches; longer work replaces their contents anyway.
const COLD: Duration = Duration::from_millis(50);

/// The number of samples of each contestant.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time for the samples of all contestants together, …
    pub budget: Duration,
    /// … but each has no fewer than this, …
    pub minimum: usize,
    /// … and no more than this.
    pub maximum: usize,
}

impl Effort {
    /// Effort for figures worth keeping.
    pub const FULL: Self = Self {
        budget: Duration::from_secs(4),
        minimum: 9,
        maximum: 101,
    };

    /// Effort for a look.
    pub const QUICK: Self = Self {
        budget: Duration::from_millis(250),
        minimum: 3,
        maximum: 31,
    };
}

/// Time that a contestant takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// The contestant.
    pub contestant: Contestant,
    /// The median of the samples, for one run, in nanoseconds.
    pub median_ns: f64,
    /// The shortest sample, for one run, in nanoseconds.
    pub minimum_ns: f64,
    /// Number of samples.
    pub samples: usize,
}

/// Checks every contestant's result, then times them alternately.
///
/// # Errors
/// A wrong result, or a contestant's error.
pub fn measure(case: &mut Case<'_>, effort: Effort) -> Result<Vec<Time>, Error> {
    let contestants = case.contestants();
    let mut plans = Vec::with_capacity(contestants.len());
    for &contestant in &contestants {
        let first = case.check(contestant)?;
        let repeats = repeats_per_sample(case, contestant, first)?;
        plans.push((repeats, first < COLD));
    }
    let mut samples = vec![Vec::new(); contestants.len()];
    let start = Instant::now();
    for round in 0..effort.maximum {
        if round >= effort.minimum && start.elapsed() >= effort.budget {
            break;
        }
        for turn in 0..contestants.len() {
            // Back and forth, so that no contestant always runs after the same one.
            let turn = match round % 2 {
                0 => turn,
                _ => contestants.len() - 1 - turn,
            };
            let (repeats, warms_up) = plans[turn];
            if warms_up {
                case.run(contestants[turn], 1)?;
            }
            let start = Instant::now();
            case.run(contestants[turn], repeats)?;
            samples[turn].push(start.elapsed().as_secs_f64() * 1e9 / repeats as f64);
        }
    }
    let times = contestants.into_iter().zip(samples);
    Ok(times
        .map(|(contestant, mut samples)| {
            samples.sort_by(f64::total_cmp);
            Time {
                contestant,
                median_ns: median(&samples),
                minimum_ns: samples[0],
                samples: samples.len(),
            }
        })
        .collect())
}

/// Returns the number of runs with which a contestant's sample lasts long enough, when its first
/// run took some time.
fn repeats_per_sample(
    case: &mut Case<'_>,
    contestant: Contestant,
    first: Duration,
) -> Result<u64, Error> {
    // The first run may have started cold, so trust it only if it is long.
    if first >= 8 * SAMPLE {
        return Ok(1);
    }
    let mut repeats = 1;
    loop {
        let start = Instant::now();
        case.run(contestant, repeats)?;
        if start.elapsed() >= SAMPLE {
            return Ok(repeats);
        }
        repeats *= 2;
    }
}

/// The middle of sorted samples.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Peers;
    use crate::{Arena, regimes};

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }

    #[test]
    fn contestants_get_equal_numbers_of_samples() {
        let arena = Arena::new(1, Peers::default()).unwrap();
        let regime = *regimes()
            .iter()
            .find(|regime| regime.bytes() == 64)
            .unwrap();
        let mut case = Case::new(regime, &arena).unwrap();
        let effort = Effort {
            budget: Duration::ZERO,
            minimum: 3,
            maximum: 5,
        };
        let times = measure(&mut case, effort).unwrap();
        assert_eq!(times.len(), case.contestants().len());
        for time in times {
            assert_eq!(time.samples, 3);
            assert!(0.0 < time.minimum_ns && time.minimum_ns <= time.median_ns);
        }
    }
}
