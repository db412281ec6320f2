//! The table of a machine in Markdown: a row for each regime, a column for each contestant, and our kernel.

use crate::timing::{Effort, Time, measure};
use crate::{Arena, Case, Contestant, Error, Regime};

/// The cell of a regime that a contestant does not support.
const NOTHING: &str = "–";

/// The first lines.
#[must_use]
pub fn head(arena: &Arena) -> String {
    let mut cells = vec!["regime", "floor"];
    for worker in arena.workers() {
        cells.push(worker.name());
        if worker == Contestant::InPlace {
            cells.push("÷ share");
        }
    }
    cells.push("kernel");
    let rule = "---:|".repeat(cells.len() - 2);
    format!("| {} |\n|---|{rule}---|", cells.join(" | "))
}

/// Measures a regime, and returns its line.
///
/// # Errors
/// A wrong result, or a contestant's error.
pub fn row(arena: &Arena, regime: Regime, effort: Effort) -> Result<String, Error> {
    if let Some(reason) = arena.lacking_memory(&regime) {
        return Ok(format!("| {regime} | skipped: {reason} |"));
    }
    let mut case = Case::new(regime, arena)?;
    let kernel = case.kernel()?.to_string();
    let times = measure(&mut case, effort)?;
    let mut cells = vec![regime.to_string()];
    cells.extend(figures(&regime, &arena.workers(), &times));
    cells.push(kernel);
    Ok(format!("| {} |", cells.join(" | ")))
}

/// The floor, and the figure of each worker: a multiple of the floor, or the time of a call.
fn figures(regime: &Regime, workers: &[Contestant], times: &[Time]) -> Vec<String> {
    let is_call = regime.kind.is_call();
    let of = |contestant| {
        let time = times.iter().find(|time| time.contestant == contestant);
        time.map(|time| time.median_ns)
    };
    let copies = Contestant::COPIES.into_iter().filter_map(of);
    let floor = copies.fold(f64::INFINITY, f64::min);
    let mut cells = vec![match is_call {
        true => nanoseconds(floor),
        false => format!("{:.1} GB/s", regime.bytes() as f64 / floor),
    }];
    for &worker in workers {
        let time = of(worker);
        cells.push(match time {
            None => NOTHING.to_owned(),
            Some(time) if is_call => nanoseconds(time),
            Some(time) => format!("{:.2}", time / floor),
        });
        if worker == Contestant::InPlace {
            let share = Some(regime.reversed_share()).filter(|&share| share > 0.0 && !is_call);
            let per_share = share.and_then(|share| Some(time? / floor / share));
            cells.push(per_share.map_or(NOTHING.to_owned(), |it| format!("{it:.2}")));
        }
    }
    cells
}

fn nanoseconds(time: f64) -> String {
    match time {
        ..10.0 => format!("{time:.1} ns"),
        _ => format!("{time:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Peers;
    use crate::regimes;

    #[test]
    fn figures_are_multiples_of_the_faster_copy() {
        let time = |contestant, median_ns| Time {
            contestant,
            median_ns,
            minimum_ns: median_ns,
            samples: 3,
        };
        let regimes = regimes();
        let bytes = regimes[0].bytes() as f64;
        let times = [
            time(Contestant::Memcpy, bytes / 10.0),
            time(Contestant::StreamingCopy, bytes / 20.0),
            time(Contestant::InPlace, bytes * 0.075),
        ];
        let workers = [Contestant::Serial, Contestant::InPlace];
        let share = format!("{:.2}", 1.5 / regimes[0].reversed_share());
        assert_eq!(
            figures(&regimes[0], &workers, &times),
            ["20.0 GB/s", NOTHING, "1.50", &share]
        );
        let call = regimes.iter().find(|regime| regime.kind.is_call()).unwrap();
        let times = [
            time(Contestant::Memcpy, 5.25),
            time(Contestant::InPlace, 99.5),
        ];
        assert_eq!(
            figures(call, &workers, &times),
            ["5.2 ns", NOTHING, "100 ns", NOTHING]
        );
    }

    #[test]
    fn a_row_has_a_cell_in_each_column() {
        let arena = Arena::new(1, Peers::default()).unwrap();
        let effort = Effort {
            budget: std::time::Duration::ZERO,
            ..Effort::QUICK
        };
        let small = regimes().into_iter().find(|regime| regime.bytes() == 64);
        let row = row(&arena, small.unwrap(), effort).unwrap();
        let head = head(&arena);
        let columns = |line: &str| line.matches('|').count();
        assert!(
            head.lines().all(|line| columns(line) == columns(&row)),
            "{head}\n{row}"
        );
        assert!(head.contains(" | plain loop | kernel |\n"), "{head}");
    }
}
