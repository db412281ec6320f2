//! Charts on a logarithmic scale.
//!
//! Each row has a name, and marks on a scale that all rows share: one bar with its figure, such as a
//! contestant's in a regime, or dots, such as all contestants' in a regime. What is equal to 1, the
//! floor, may be marked by a line. A chart is an element of a page, or a picture of its own.

use maud::{Markup, PreEscaped, html};

use crate::CHART_STYLE;

/// Height of the first row's start, below the floor's name.
const TOP: f64 = 22.0;
/// The height of a row, and of a bar in it.
const STEP: f64 = 24.0;
const THICKNESS: f64 = 16.0;
/// The space below the rows for the scale's figures.
const BOTTOM: f64 = 22.0;
/// The space of a picture above the chart for the key, and below it for the caption.
const KEY: f64 = 36.0;
const CAPTION: f64 = 22.0;
/// Factor by which a picture of its own is larger.
const ZOOM: f64 = 7.0 / 6.0;

/// A logarithmic scale, the same for all charts that are to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The ends of the scale.
    low: f64,
    high: f64,
    /// The factor between marked values.
    step: f64,
    /// Position of the start of bars: the floor, if they are multiples of it.
    base: f64,
    /// Text behind a marked value.
    unit: &'static str,
}

impl Scale {
    /// The scale of multiples of a floor.
    pub fn of_multiples(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = range(values);
        // The floor is always in the picture, with room for its name. In place there may be next
        // to nothing to do: that bar ends at the edge.
        let (low, high) = (low.clamp(0.1, 0.5), high.max(2.0));
        Self {
            low,
            high,
            step: if high / low > 32.0 { 4.0 } else { 2.0 },
            base: 1.0,
            unit: "",
        }
    }

    /// The scale of times in nanoseconds.
    pub fn of_times(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = range(values);
        // From a power of ten on.
        let low = 10_f64.powf(low.min(1e9).log10().floor());
        Self {
            low,
            high: high.max(10.0 * low),
            step: 10.0,
            base: low,
            unit: " ns",
        }
    }

    /// The place of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
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

/// The least and the greatest value. A time of 0, of a call that is faster than the clock, has no
/// place on a scale.
fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values = values.into_iter().filter(|value| *value > 0.0);
    values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// The form of the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bars from the scale's base, in a chart beside others.
    Bars,
    /// Dots, in a wide chart.
    Dots,
}

impl Form {
    /// The width of a chart, the ends of the scale between names and figures, and the space that
    /// marks at the ends need.
    fn places(self) -> [f64; 4] {
        match self {
            Self::Bars => [480.0, 86.0, 410.0, 0.0],
            Self::Dots => [822.0, 274.0, 794.0, 12.0],
        }
    }
}

/// A name and its marks.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name, to the left.
    pub name: String,
    /// The class of the style sheet that colours a mark, and its value: one or none for a bar.
    pub marks: Vec<(&'static str, f64)>,
    /// The figure to the right of a bar.
    pub figure: String,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The form of its marks.
    pub form: Form,
    /// A description in words.
    pub label: String,
    /// The scale of all rows.
    pub scale: Scale,
    /// The name of the floor, if it is marked.
    pub floor: Option<String>,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
}

impl Chart {
    /// The chart as an element of a page.
    #[must_use]
    pub fn element(&self) -> Markup {
        let ([width, ..], height) = (self.form.places(), self.bottom() + BOTTOM);
        html! {
            svg.chart viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(self.label) {
                (self.contents())
            }
        }
    }

    /// The chart as a file, with a key of classes and their names, and a caption.
    #[must_use]
    pub fn picture(&self, key: &[(&str, &str)], caption: &str) -> String {
        let [width, left, right, _] = self.form.places();
        let bottom = self.bottom() + BOTTOM + CAPTION;
        let height = KEY + bottom;
        let starts = key.iter().scan(left - 12.0, |next, (_, name)| {
            let start = *next;
            *next += 38.0 + 6.8 * name.len() as f64;
            Some(start)
        });
        let picture = html! {
            svg.chart.dots[self.form == Form::Dots] xmlns="http://www.w3.org/2000/svg"
                viewBox=(format!("0 {} {width} {height}", -KEY))
                width=(at(ZOOM * width)) height=(at(ZOOM * height))
                role="img" aria-label=(self.label)
            {
                style { (PreEscaped(CHART_STYLE)) }
                rect.page y=(-KEY) width=(width) height=(height) rx="7" {}
                @for ((class, name), start) in key.iter().zip(starts) {
                    (dot(class, start, -12.0))
                    text x=(at(start + 11.0)) y="-8" { (name) }
                }
                (self.contents())
                text.tick x=(at((left + right) / 2.0)) y=(at(bottom - 10.0)) { (caption) }
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
        let [_, left, right, _] = self.form.places();
        left + (right - left) * self.scale.place(value)
    }

    fn contents(&self) -> Markup {
        let bottom = self.bottom();
        let floor = html! {
            @if let Some(floor) = &self.floor {
                @let x = at(self.x(1.0));
                line.floor x1=(x) x2=(x) y1=(at(TOP - 4.0)) y2=(at(bottom)) {}
                text.floor x=(x) y=(at(TOP - 8.0)) { (floor) }
            }
        };
        let tops = (0..).map(|index| TOP + STEP * f64::from(index));
        html! {
            @for tick in self.scale.ticks() {
                @let x = at(self.x(tick));
                line.grid x1=(x) x2=(x) y1=(at(TOP)) y2=(at(bottom)) {}
                text.tick x=(x) y=(at(bottom + 15.0)) { (tick) (self.scale.unit) }
            }
            // Dots lie on the floor's line, bars begin at it.
            @if self.form == Form::Dots { (floor) }
            @for (row, top) in self.rows.iter().zip(tops) { (self.row(row, top)) }
            @if self.form == Form::Bars { (floor) }
        }
    }

    fn row(&self, row: &Row, top: f64) -> Markup {
        let middle = top + STEP / 2.0;
        let [_, left, right, space] = self.form.places();
        let (left, right) = (left - space, right + space);
        html! {
            text.name x=(at(left - 6.0)) y=(at(middle + 4.0)) { (row.name) }
            @match self.form {
                Form::Bars => (self.bar(row, middle)),
                Form::Dots => {
                    line.grid x1=(at(left)) x2=(at(right)) y1=(at(middle)) y2=(at(middle)) {}
                    @for &(class, value) in &row.marks { (dot(class, self.x(value), middle)) }
                },
            }
        }
    }

    /// A bar and its figure. The figure is to the right of the bar and of its base, so that no line
    /// crosses it.
    fn bar(&self, row: &Row, middle: f64) -> Markup {
        let base = self.x(self.scale.base);
        let ends = row.marks.iter();
        let ends = ends.map(|&(class, value)| (class, self.x(value)));
        let right = ends.clone().fold(base, |right, (_, end)| right.max(end));
        html! {
            @for (class, end) in ends {
                rect class=(class) x=(at(base.min(end))) y=(at(middle - THICKNESS / 2.0))
                    width=(at((end - base).abs())) height=(at(THICKNESS)) {}
            }
            text.figure x=(at(right + 5.0)) y=(at(middle + 4.0)) { (row.figure) }
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
            let values = [low, high];
            for scale in [Scale::of_multiples(values), Scale::of_times(values)] {
                let ticks: Vec<f64> = scale.ticks().collect();
                assert!((2..=8).contains(&ticks.len()), "{low} {high}: {ticks:?}");
                assert!(ticks.contains(&scale.base), "{low} {high}: {ticks:?}");
                let shown = scale.low - 1e-9..=scale.high + 1e-9;
                assert!(ticks.iter().all(|tick| shown.contains(tick)), "{ticks:?}");
            }
        }
        let ticks = |scale: Scale| -> Vec<f64> { scale.ticks().collect() };
        let (multiples, times) = (
            Scale::of_multiples([0.3, 70.0]),
            Scale::of_times([22.5, 2250.0]),
        );
        assert_eq!(ticks(multiples), [1.0, 4.0, 16.0, 64.0]);
        assert_eq!(ticks(times), [10.0, 100.0, 1000.0]);
        assert_eq!(ticks(Scale::of_times([])).len(), 2);
    }

    #[test]
    fn marks_lie_within_the_chart() {
        let scale = Scale::of_multiples([0.25, 4.0]);
        for form in [Form::Bars, Form::Dots] {
            let [width, left, right, space] = form.places();
            assert!(space < left && left < right && right + space < width);
            let chart = Chart {
                form,
                label: String::new(),
                scale,
                floor: None,
                rows: Vec::new(),
            };
            let places = [0.0, 0.25, 1.0, 4.0].map(|value| chart.x(value));
            assert_eq!(places, [left, left, (left + right) / 2.0, right]);
        }
    }
}
