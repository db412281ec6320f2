//! A chart of bars for one regime, as SVG inside the page.

use maud::{Markup, html as markup};

use super::table::{NOTHING, figure, workers};
use crate::{Contestant, Measurement, Report, Row};

/// The chart's width in its own units.
const WIDTH: f64 = 480.0;
/// Where the scale starts, to the right of the names.
const LEFT: f64 = 86.0;
/// Where the scale ends, to the left of the figure of the longest bar.
const RIGHT: f64 = 410.0;
/// Where the first bar's space starts, below the floor's name.
const TOP: f64 = 22.0;
/// The space of a bar, and how thick the bar is.
const STEP: f64 = 24.0;
const THICKNESS: f64 = 16.0;
/// The space below the bars for the scale's figures.
const BOTTOM: f64 = 22.0;

/// A logarithmic scale, the same for all charts of a page that show the same unit.
pub(super) struct Scale {
    /// The ends of the scale.
    low: f64,
    high: f64,
    /// The factor between marked values.
    step: f64,
    /// Where bars start: at the floor if they are multiples of it.
    base: f64,
}

impl Scale {
    /// The scale of multiples of the floor, or of the times of calls.
    pub(super) fn of(report: &Report, is_call: bool) -> Self {
        let rows = report.regimes.iter().filter(|row| row.is_call == is_call);
        let values = rows.flat_map(|row| {
            workers(report).filter_map(move |worker| Some(value(row, row.of(worker)?)))
        });
        Self::around(values, is_call)
    }

    fn around(values: impl Iterator<Item = f64>, is_call: bool) -> Self {
        // A time of 0, of a call that is faster than the clock, has no place on the scale.
        let values = values.filter(|value| *value > 0.0);
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if is_call {
            // From a power of ten on.
            let low = 10_f64.powf(low.min(1e9).log10().floor());
            let (high, step) = (high.max(10.0 * low), 10.0);
            return Self {
                low,
                high,
                step,
                base: low,
            };
        }
        // The floor is always in the picture, with room for its name. In place there may be next
        // to nothing to do: that bar ends at the edge.
        let (low, high) = (low.clamp(0.1, 0.5), high.max(2.0));
        let step = if high / low > 32.0 { 4.0 } else { 2.0 };
        Self {
            low,
            high,
            step,
            base: 1.0,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        LEFT + (RIGHT - LEFT) * share
    }

    /// The marked values: powers of the step, from the base.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let power = |value: f64| (value / self.base).ln() / self.step.ln();
        // A hair wider, as logarithms are rounded.
        let first = (power(self.low) - 1e-9).ceil() as i32;
        let last = (power(self.high) + 1e-9).floor() as i32;
        (first..=last).map(|power| self.base * self.step.powi(power))
    }
}

/// The chart of a regime, or why there is none.
pub(super) fn chart(row: &Row, workers: impl Iterator<Item = Contestant>, scale: &Scale) -> Markup {
    markup! {
        figure {
            figcaption { (row.name) }
            @match &row.skipped {
                Some(reason) => p { "skipped: " (reason) },
                None => (bars(row, &workers.collect::<Vec<_>>(), scale)),
            }
        }
    }
}

/// The value of a bar: a multiple of the floor, or the time of a call.
fn value(row: &Row, measurement: &Measurement) -> f64 {
    if row.is_call {
        measurement.median_ns
    } else {
        measurement.ratio
    }
}

fn bars(row: &Row, workers: &[Contestant], scale: &Scale) -> Markup {
    let bottom = TOP + STEP * workers.len() as f64;
    let height = bottom + BOTTOM;
    let summary = workers
        .iter()
        .filter_map(|&worker| Some(format!("{worker} {}", figure(row, row.of(worker)?))))
        .collect::<Vec<_>>()
        .join(", ");
    markup! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img"
            aria-label=(format!("{}: {summary}", row.name))
        {
            @for tick in scale.ticks() {
                @let x = at(scale.x(tick));
                line.grid x1=(x) x2=(x) y1=(at(TOP)) y2=(at(bottom)) {}
                text.tick x=(x) y=(at(bottom + 15.0)) { (tick_label(row, tick)) }
            }
            @for (index, &worker) in workers.iter().enumerate() {
                (bar(row, worker, TOP + STEP * index as f64, scale))
            }
            @if !row.is_call {
                @let x = at(scale.x(1.0));
                line.floor x1=(x) x2=(x) y1=(at(TOP - 4.0)) y2=(at(bottom)) {}
                text.floor x=(x) y=(at(TOP - 8.0)) {
                    "floor"
                    @if let Some(speed) = row.floor_gb_per_s() { (format!(" {speed:.1} GB/s")) }
                }
            }
        }
    }
}

/// A contestant's name, bar and figure. The figure is to the right of the bar and of its base, so
/// that no line crosses it.
fn bar(row: &Row, worker: Contestant, top: f64, scale: &Scale) -> Markup {
    let class = if worker.is_ours() { "ours" } else { "others" };
    let base = scale.x(scale.base);
    let (end, figure) = match row.of(worker) {
        Some(measurement) => (scale.x(value(row, measurement)), figure(row, measurement)),
        None => (base, NOTHING.to_owned()),
    };
    let baseline = top + STEP / 2.0 + 4.0;
    markup! {
        rect class=(class) x=(at(base.min(end))) y=(at(top + (STEP - THICKNESS) / 2.0))
            width=(at((end - base).abs())) height=(at(THICKNESS)) {}
        text.name x=(at(LEFT - 6.0)) y=(at(baseline)) { (worker) }
        text.figure x=(at(base.max(end) + 5.0)) y=(at(baseline)) { (figure) }
    }
}

fn tick_label(row: &Row, tick: f64) -> String {
    if row.is_call {
        format!("{tick} ns")
    } else {
        tick.to_string()
    }
}

/// A coordinate, to a tenth.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (low, high) in [(0.7, 0.9), (0.3, 4.9), (1.0, 300.0), (0.05, 900.0)] {
            for is_call in [false, true] {
                let scale = Scale::around([low, high].into_iter(), is_call);
                let ticks: Vec<f64> = scale.ticks().collect();
                assert!((2..=8).contains(&ticks.len()), "{low} {high}: {ticks:?}");
                assert!(ticks.contains(&scale.base), "{low} {high}: {ticks:?}");
                let shown = scale.low - 1e-9..=scale.high + 1e-9;
                assert!(ticks.iter().all(|tick| shown.contains(tick)), "{ticks:?}");
            }
        }
        let ticks = |values: &[f64], is_call| -> Vec<f64> {
            Scale::around(values.iter().copied(), is_call)
                .ticks()
                .collect()
        };
        assert_eq!(ticks(&[0.3, 70.0], false), [1.0, 4.0, 16.0, 64.0]);
        assert_eq!(ticks(&[22.5, 2250.0], true), [10.0, 100.0, 1000.0]);
        assert_eq!(ticks(&[], true).len(), 2);
    }

    #[test]
    fn bars_lie_within_the_chart() {
        let scale = Scale::around([0.25, 4.0].into_iter(), false);
        assert_eq!(scale.x(0.25), LEFT);
        assert_eq!(scale.x(4.0), RIGHT);
        assert_eq!(scale.x(1.0), (LEFT + RIGHT) / 2.0);
        assert_eq!(scale.x(0.0), LEFT);
    }
}
