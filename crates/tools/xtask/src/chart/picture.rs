//! Charts on a logarithmic scale.
//!
//! Each row has a name, and dots on a scale that all rows share, such as all contestants' in a regime.
//! What is equal to 1, the floor, is marked by a line.

use maud::{Markup, PreEscaped, html};

/// The colours, light and dark as the reader has it.
const STYLE: &str = include_str!("chart.css");

/// Height of the first row's start, below the floor's name.
const TOP: f64 = 22.0;
/// The height of a row.
const STEP: f64 = 24.0;
/// The space below the rows for the scale's figures.
const BOTTOM: f64 = 22.0;
/// The space of a picture above the chart for the key, and below it for the caption.
const KEY: f64 = 36.0;
const CAPTION: f64 = 22.0;
/// Factor by which the picture is larger.
const ZOOM: f64 = 7.0 / 6.0;
/// The width of a chart, and the ends of the scale between names and the edge.
const WIDTH: f64 = 822.0;
const LEFT: f64 = 274.0;
const RIGHT: f64 = 794.0;
/// The space that dots at the ends need.
const SPACE: f64 = 12.0;

/// A logarithmic scale of multiples of a floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The ends of the scale.
    low: f64,
    high: f64,
    /// The factor between marked values.
    step: f64,
}

impl Scale {
    /// The scale of multiples of a floor.
    pub(super) fn of_multiples(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = range(values);
        // The floor is always in the picture, with room for its name. In place there may be next
        // to nothing to do: that bar ends at the edge.
        let (low, high) = (low.clamp(0.1, 0.5), high.max(2.0));
        Self {
            low,
            high,
            step: if high / low > 32.0 { 4.0 } else { 2.0 },
        }
    }

    /// The place of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
    }

    /// The marked values: powers of the step.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let power = |value: f64| value.ln() / self.step.ln();
        // A hair wider, as logarithms are rounded.
        let first = (power(self.low) - 1e-9).ceil() as i32;
        let last = (power(self.high) + 1e-9).floor() as i32;
        (first..=last).map(|power| self.step.powi(power))
    }
}

/// The least and the greatest value. A time of 0, of a call that is faster than the clock, has no
/// place on a scale.
fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values = values.into_iter().filter(|value| *value > 0.0);
    values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// A name and its marks.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The name, to the left.
    pub(super) name: String,
    /// The class of the style sheet that colours a mark, and its value.
    pub(super) marks: Vec<(&'static str, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// A description in words.
    pub(super) label: String,
    /// The scale of all rows.
    pub(super) scale: Scale,
    /// The name of the floor.
    pub(super) floor: String,
    /// The rows from top to bottom.
    pub(super) rows: Vec<Row>,
}

impl Chart {
    /// The chart as a file, with a key of classes and their names, and a caption.
    pub(super) fn picture(&self, key: &[(&str, &str)], caption: &str) -> String {
        let bottom = self.bottom() + BOTTOM + CAPTION;
        let height = KEY + bottom;
        let starts = key.iter().scan(LEFT - 12.0, |next, (_, name)| {
            let start = *next;
            *next += 38.0 + 6.8 * name.len() as f64;
            Some(start)
        });
        let picture = html! {
            svg.chart.dots xmlns="http://www.w3.org/2000/svg"
                viewBox=(format!("0 {} {WIDTH} {height}", -KEY))
                width=(at(ZOOM * WIDTH)) height=(at(ZOOM * height))
                role="img" aria-label=(self.label)
            {
                style { (PreEscaped(STYLE)) }
                rect.page y=(-KEY) width=(WIDTH) height=(height) rx="7" {}
                @for ((class, name), start) in key.iter().zip(starts) {
                    (dot(class, start, -12.0))
                    text x=(at(start + 11.0)) y="-8" { (name) }
                }
                (self.contents())
                text.tick x=(at((LEFT + RIGHT) / 2.0)) y=(at(bottom - 10.0)) { (caption) }
            }
        };
        // One element a line, so that a change shows where it is.
        let picture = picture.into_string().replace("><", ">\n<");
        picture.replace(">\n</", "></") + "\n"
    }

    /// The lower end of the rows.
    fn bottom(&self) -> f64 {
        TOP + STEP * self.rows.len() as f64
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.scale.place(value)
    }

    fn contents(&self) -> Markup {
        let bottom = self.bottom();
        let tops = (0..).map(|index| TOP + STEP * f64::from(index));
        let floor = at(self.x(1.0));
        html! {
            @for tick in self.scale.ticks() {
                @let x = at(self.x(tick));
                line.grid x1=(x) x2=(x) y1=(at(TOP)) y2=(at(bottom)) {}
                text.tick x=(x) y=(at(bottom + 15.0)) { (tick) }
            }
            line.floor x1=(floor) x2=(floor) y1=(at(TOP - 4.0)) y2=(at(bottom)) {}
            text.floor x=(floor) y=(at(TOP - 8.0)) { (self.floor) }
            @for (row, top) in self.rows.iter().zip(tops) {
                @let middle = top + STEP / 2.0;
                text.name x=(at(LEFT - SPACE - 6.0)) y=(at(middle + 4.0)) { (row.name) }
                line.grid x1=(at(LEFT - SPACE)) x2=(at(RIGHT + SPACE)) y1=(at(middle)) y2=(at(middle)) {}
                @for &(class, value) in &row.marks { (dot(class, self.x(value), middle)) }
            }
        }
    }
}

/// A dot. Ours is larger, so that it shows around an equal figure.
fn dot(class: &str, x: f64, y: f64) -> Markup {
    let radius = if class == "ours" { 7.5 } else { 5.0 };
    html! { circle class=(class) cx=(at(x)) cy=(at(y)) r=(radius) {} }
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
            let scale = Scale::of_multiples([low, high]);
            let ticks: Vec<f64> = scale.ticks().collect();
            assert!((2..=8).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            assert!(ticks.contains(&1.0), "{low} {high}: {ticks:?}");
            let shown = scale.low - 1e-9..=scale.high + 1e-9;
            assert!(ticks.iter().all(|tick| shown.contains(tick)), "{ticks:?}");
        }
        let ticks: Vec<f64> = Scale::of_multiples([0.3, 70.0]).ticks().collect();
        assert_eq!(ticks, [1.0, 4.0, 16.0, 64.0]);
    }

    #[test]
    fn marks_lie_within_the_chart() {
        let chart = Chart {
            label: String::new(),
            scale: Scale::of_multiples([0.25, 4.0]),
            floor: String::new(),
            rows: Vec::new(),
        };
        let places = [0.0, 0.25, 1.0, 4.0].map(|value| chart.x(value));
        assert_eq!(places, [LEFT, LEFT, (LEFT + RIGHT) / 2.0, RIGHT]);
    }
}
