//! The figures of a run, as data.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::regime::LARGE;
use crate::timing::{Effort, Time, measure};
use crate::{Arena, Case, Contestant, Error, Moment, Regime, regimes};

/// The figures of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine of the figures.
    pub machine: Machine,
    /// The moment at which they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Moment>,
    /// Whether they were taken in little time, so with few samples.
    pub quick: bool,
    /// Whether the build was optimised; if not, the figures say nothing.
    pub optimised: bool,
    /// Whether measuring was stopped before all regimes had their turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The contestants, in the order of the table's columns; not all of them take
    /// every regime.
    pub contestants: Vec<Contestant>,
    /// A row for each regime that was measured.
    pub regimes: Vec<Row>,
}

/// The figures of one regime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The regime's name.
    pub name: String,
    /// The size of the data in bytes.
    pub bytes: usize,
    /// The share of the bytes in reversed prefixes, which work in place touches.
    pub reversed_share: f64,
    /// Whether the time of a call counts, and not its distance from a copy.
    pub is_call: bool,
    /// The kernel that a run on one thread takes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Reason why there are no figures, if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The copies and those who did the work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
}

/// A contestant's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The time that it takes.
    #[serde(flatten)]
    pub time: Time,
    /// The median as a multiple of the floor's: the faster copy is 1.
    pub ratio: f64,
    /// The ratio in place as a multiple of the share of the bytes in reversed prefixes, if there
    /// are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_per_share: Option<f64>,
}

impl Row {
    /// A contestant's figure, if it takes this regime.
    #[must_use]
    pub fn of(&self, contestant: Contestant) -> Option<&Measurement> {
        let mut all = self.measurements.iter();
        all.find(|it| it.time.contestant == contestant)
    }

    /// The floor: the faster copy.
    #[must_use]
    pub fn floor(&self) -> Option<&Measurement> {
        Contestant::COPIES
            .into_iter()
            .filter_map(|copy| self.of(copy))
            .min_by(|a, b| a.time.median_ns.total_cmp(&b.time.median_ns))
    }

    /// Returns the speed of the floor, in 10^9 bytes of the data each second.
    #[must_use]
    pub fn floor_gb_per_s(&self) -> Option<f64> {
        Some(self.bytes as f64 / self.floor()?.time.median_ns)
    }

    fn new(regime: &Regime) -> Self {
        Self {
            name: regime.to_string(),
            bytes: regime.bytes(),
            reversed_share: regime.reversed_share(),
            is_call: regime.kind.is_call(),
            kernel: String::new(),
            skipped: None,
            measurements: Vec::new(),
        }
    }

    fn set_times(&mut self, times: Vec<Time>) {
        let floor = times
            .iter()
            .filter(|time| Contestant::COPIES.contains(&time.contestant))
            .map(|time| time.median_ns)
            .fold(f64::INFINITY, f64::min);
        let share = self.reversed_share;
        let measurement = |time: Time| {
            let ratio = time.median_ns / floor;
            let is_in_place = time.contestant == Contestant::InPlace;
            Measurement {
                time,
                ratio,
                ratio_per_share: (is_in_place && share > 0.0).then(|| ratio / share),
            }
        };
        self.measurements = times.into_iter().map(measurement).collect();
    }
}

/// The regimes whose names contain `filter`, without the large ones if in a hurry.
///
/// # Errors
/// [`Error::UnknownRegime`] if there are none.
pub fn select(filter: Option<&str>, quick: bool) -> Result<Vec<Regime>, Error> {
    let mut selected = regimes();
    selected.retain(|regime| !(quick && regime.bytes() > LARGE));
    let Some(filter) = filter else {
        return Ok(selected);
    };
    let names: Vec<String> = selected.iter().map(Regime::to_string).collect();
    selected.retain(|regime| regime.to_string().contains(filter));
    match selected.is_empty() {
        true => Err(Error::UnknownRegime {
            filter: filter.to_owned(),
            regimes: names,
        }),
        false => Ok(selected),
    }
}

/// Measures regimes. Calls `progress` with each one before it is measured, and stops there if
/// `progress` returns so.
///
/// # Errors
/// A wrong result, or a contestant's error.
pub fn report(
    arena: &Arena,
    regimes: &[Regime],
    quick: bool,
    mut progress: impl FnMut(&Regime) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    // Before measuring, which is a load itself.
    let taken = Some(Moment::now());
    let mut rows = Vec::with_capacity(regimes.len());
    for regime in regimes {
        if progress(regime).is_break() {
            break;
        }
        let mut row = Row::new(regime);
        match arena.lacking_memory(regime) {
            Some(reason) => row.skipped = Some(reason),
            None => {
                let mut case = Case::new(*regime, arena)?;
                row.kernel = case.kernel()?.to_string();
                row.set_times(measure(&mut case, effort)?);
            }
        }
        rows.push(row);
    }
    let copies = Contestant::COPIES.into_iter();
    let contestants = copies
        .chain(Contestant::WORKERS)
        .filter(|&contestant| rows.iter().any(|row| row.of(contestant).is_some()))
        .collect();
    let mut machine = Machine::this(arena.threads());
    arena.peers().describe(&mut machine);
    Ok(Report {
        machine,
        taken,
        quick,
        optimised: !cfg!(debug_assertions),
        interrupted: rows.len() < regimes.len(),
        contestants,
        regimes: rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_select_by_name() {
        let selected = select(Some("c128"), false).unwrap();
        assert!(selected.len() >= 6);
        assert!(
            selected
                .iter()
                .all(|regime| regime.to_string().contains("c128"))
        );
        let large = |quick| {
            let selected = select(None, quick).unwrap();
            selected
                .iter()
                .filter(|regime| regime.bytes() > LARGE)
                .count()
        };
        assert_eq!((large(false), large(true)), (2, 0));
    }

    #[test]
    fn an_unknown_filter_names_a_regime() {
        let error = select(Some("sideways"), true).unwrap_err().to_string();
        assert!(error.contains("\"sideways\""), "{error}");
        let example = "such as \"time-major 512x64x256 f32 random\"";
        assert!(error.contains(example), "{error}");
    }

    #[test]
    fn ratios_are_to_the_faster_copy() {
        let mut row = Row::new(&regimes()[0]);
        row.reversed_share = 0.5;
        let time = |contestant, median_ns| Time {
            contestant,
            median_ns,
            minimum_ns: median_ns,
            samples: 3,
        };
        row.set_times(vec![
            time(Contestant::Memcpy, 20.0),
            time(Contestant::StreamingCopy, 10.0),
            time(Contestant::InPlace, 15.0),
        ]);
        let in_place = row.of(Contestant::InPlace).unwrap();
        assert_eq!((in_place.ratio, in_place.ratio_per_share), (1.5, Some(3.0)));
        assert_eq!(row.of(Contestant::Memcpy).unwrap().ratio, 2.0);
        assert_eq!(
            row.floor().unwrap().time.contestant,
            Contestant::StreamingCopy
        );
        assert_eq!(row.floor_gb_per_s(), Some(row.bytes as f64 / 10.0));
    }
}
