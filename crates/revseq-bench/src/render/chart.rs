//! A chart of bars for one regime, as SVG inside the page.

use maud::{Markup, html as markup};

use super::table::{NOTHING, figure};
use crate::{Contestant, Measurement, Row};

/// The chart's width in its own units.
const WIDTH: f64 = 480.0;
/// Where the bars start, to the right of the names.
const LEFT: f64 = 86.0;
/// Where the longest bar ends, to the left of its figure.
const RIGHT: f64 = 410.0;
/// Where the first bar's space starts, below the floor's name.
const TOP: f64 = 22.0;
/// The space of a bar, and how thick the bar is.
const STEP: f64 = 24.0;
const THICKNESS: f64 = 16.0;
/// The space below the bars for the scale's figures.
const BOTTOM: f64 = 22.0;

/// The lengths of bars: from 0 to a little more than the longest one.
struct Scale {
    maximum: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * value / self.maximum
    }

    /// Round values to mark, three to six of them from 0 on.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let power = 10_f64.powf((self.maximum / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps
            .into_iter()
            .find(|step| self.maximum / step <= 6.0)
            .unwrap_or(self.maximum);
        let count = (self.maximum / step) as usize;
        (0..=count).map(move |index| index as f64 * step)
    }
}

/// The chart of a regime, or why there is none.
pub(super) fn chart(row: &Row, workers: impl Iterator<Item = Contestant>) -> Markup {
    markup! {
        figure {
            figcaption { (row.name) }
            @match &row.skipped {
                Some(reason) => p { "skipped: " (reason) },
                None => (bars(row, &workers.collect::<Vec<_>>())),
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

fn bars(row: &Row, workers: &[Contestant]) -> Markup {
    let values = workers
        .iter()
        .filter_map(|&worker| Some(value(row, row.of(worker)?)));
    // The floor's line is always in the picture.
    let floor = if row.is_call { 0.0 } else { 1.0 };
    let maximum = values.fold(floor, f64::max);
    let scale = Scale {
        maximum: if maximum > 0.0 { maximum } else { 1.0 },
    };
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
                (bar(row, worker, top_of(index), &scale))
            }
            @if !row.is_call {
                @let x = at(scale.x(1.0));
                line.floor x1=(x) x2=(x) y1=(at(TOP - 4.0)) y2=(at(bottom)) {}
                text.floor x=(x) y=(at(TOP - 8.0)) {
                    "floor"
                    @if let Some(speed) = row.floor_gb_per_s() { (format!(" {speed:.1} GB/s")) }
                }
            }
            // Over the floor's line, which would cross them.
            @for (index, &worker) in workers.iter().enumerate() {
                (words(row, worker, top_of(index), &scale))
            }
        }
    }
}

/// Where a bar's space starts.
fn top_of(index: usize) -> f64 {
    TOP + STEP * index as f64
}

fn bar(row: &Row, worker: Contestant, top: f64, scale: &Scale) -> Markup {
    let class = if worker.is_ours() { "ours" } else { "others" };
    let y = top + (STEP - THICKNESS) / 2.0;
    markup! {
        @if let Some(measurement) = row.of(worker) {
            rect class=(class) x=(at(LEFT)) y=(at(y))
                width=(at(scale.x(value(row, measurement)) - LEFT)) height=(at(THICKNESS)) {}
        }
    }
}

/// A contestant's name before its bar, and its figure after it.
fn words(row: &Row, worker: Contestant, top: f64, scale: &Scale) -> Markup {
    let (end, figure) = match row.of(worker) {
        Some(measurement) => (scale.x(value(row, measurement)), figure(row, measurement)),
        None => (LEFT, NOTHING.to_owned()),
    };
    let baseline = top + STEP / 2.0 + 4.0;
    markup! {
        text.name x=(at(LEFT - 6.0)) y=(at(baseline)) { (worker) }
        text.figure x=(at(end + 5.0)) y=(at(baseline)) { (figure) }
    }
}

fn tick_label(row: &Row, tick: f64) -> String {
    // Steps of less than 1 have one decimal, of less than 0.1 two: no more are needed.
    let rounded = (tick * 100.0).round() / 100.0;
    if row.is_call {
        format!("{rounded} ns")
    } else {
        rounded.to_string()
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
        for maximum in [0.7, 1.0, 1.3, 2.0, 4.9, 7.0, 33.0, 240.0] {
            let scale = Scale { maximum };
            let ticks: Vec<f64> = scale.ticks().collect();
            assert!((3..=7).contains(&ticks.len()), "{maximum}: {ticks:?}");
            assert!(ticks.iter().all(|&tick| tick <= maximum), "{ticks:?}");
        }
    }

    #[test]
    fn bars_lie_within_the_chart() {
        let scale = Scale { maximum: 3.0 };
        assert_eq!(scale.x(0.0), LEFT);
        assert_eq!(scale.x(3.0), RIGHT);
        assert_eq!(scale.x(1.5), (LEFT + RIGHT) / 2.0);
    }
}
