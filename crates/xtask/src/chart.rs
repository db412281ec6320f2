//! The chart of docs/benchmarks.md, drawn from its table.

use std::fmt::Write;

/// The table's page, and the picture it shows.
const PAGE: &str = "docs/benchmarks.md";
const PICTURE: &str = "docs/benchmarks.svg";

/// The columns: the head in the table, the name in the legend, the colours on light and dark.
const SERIES: [(&str, &str, [&str; 2]); 5] = [
    ("serial", "revseq", ["#0550ae", "#388bfd"]),
    ("in place", "revseq in place", ["#54aeff", "#a5d6ff"]),
    ("plain loop", "plain loop", ["#6e7781", "#8b949e"]),
    ("ORT CPU", "ONNX Runtime", ["#d1600a", "#f0883e"]),
    ("rten", "rten", ["#a475f9", "#d2a8ff"]),
];

/// The colours of text, page and grid, on light and dark.
const TEXT: [&str; 2] = ["#24292f", "#e6e9ed"];
const CARD: [&str; 2] = ["#fff", "#14181d"];
const GRID: [&str; 2] = ["#d0d7de", "#343b44"];

/// The picture's width, and the start and end of the scale, with names to its left.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 310.0;
const RIGHT: f64 = 930.0;
/// The top of the first row, below the legend, and the height of a row.
const TOP: f64 = 64.0;
const STEP: f64 = 26.0;

/// The margin of the scale beyond the figures, as a power of two.
const MARGIN: f64 = 0.4;
/// The marked values, if on the scale.
const TICKS: [f64; 6] = [0.25, 1.0, 4.0, 16.0, 64.0, 256.0];

/// A regime's name, and its figure for each of the series.
type Row<'a> = (&'a str, Vec<Option<f64>>);

/// Draws the chart.
pub(crate) fn write() -> Result<(), String> {
    let root = crate::root();
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|error| error.to_string())?;
    std::fs::write(root.join(PICTURE), draw(&rows(&page)?)).map_err(|error| error.to_string())
}

/// The rows of the page's table of regimes.
fn rows(page: &str) -> Result<Vec<Row<'_>>, String> {
    let mut table = page
        .lines()
        .skip_while(|line| !line.starts_with("| regime |"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
    let head: Vec<&str> = table
        .next()
        .ok_or_else(|| format!("{PAGE} has no table that begins with \"| regime |\""))?;
    let columns: Vec<usize> = SERIES
        .iter()
        .map(|(column, ..)| {
            let index = head.iter().position(|cell| cell == column);
            index.ok_or_else(|| format!("the table of {PAGE} has no column {column:?}"))
        })
        .collect::<Result<_, _>>()?;
    Ok(table
        .skip(1)
        .map(|row: Vec<&str>| {
            let figure = |&column: &usize| row.get(column)?.parse().ok();
            (row[0], columns.iter().map(figure).collect())
        })
        .collect())
}

/// The radius of a dot: the first series is larger, so that it shows around an equal figure.
fn radius(series: usize) -> f64 {
    if series == 0 { 9.0 } else { 6.0 }
}

/// The style sheet. Colours are classes, so that each has a second value on dark backgrounds.
fn style() -> String {
    let colours = |mode: usize| {
        let (text, card, grid) = (TEXT[mode], CARD[mode], GRID[mode]);
        let series = SERIES.iter().enumerate();
        let dots =
            series.map(|(index, (.., colours))| format!(".s{index}{{fill:{}}}", colours[mode]));
        format!(
            "text{{fill:{text}}}.page{{fill:{card}}}.grid{{stroke:{grid}}}.copy{{stroke:{text}}}\
             .dot{{stroke:{card}}}{}",
            dots.collect::<String>()
        )
    };
    format!(
        "<style>text{{font:14px system-ui,sans-serif}}.tick{{text-anchor:middle}}\
         .name{{text-anchor:end}}.copy{{stroke-width:2}}.dot{{stroke-width:1.5}}\n{}\n\
         @media(prefers-color-scheme:dark){{{}}}</style>",
        colours(0),
        colours(1)
    )
}

/// The chart: a line for each regime, a dot for each figure, on a logarithmic scale.
fn draw(rows: &[Row<'_>]) -> String {
    let figures = rows
        .iter()
        .flat_map(|(_, figures)| figures.iter().flatten());
    let (low, high) = figures.fold((0.0_f64, 0.0_f64), |(low, high), figure| {
        (low.min(figure.log2()), high.max(figure.log2()))
    });
    let (low, high) = (low - MARGIN, high + MARGIN);
    let x = |value: f64| LEFT + (RIGHT - LEFT) * (value.log2() - low) / (high - low);
    let bottom = TOP + STEP * rows.len() as f64;
    let height = bottom + 48.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Time as a multiple of a copy's, by regime\">\n\
         {}\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n",
        style()
    );
    let mut line = |text: String| writeln!(svg, "{text}").expect("a String takes all");
    let mut at = LEFT;
    for (index, (_, name, _)) in SERIES.iter().enumerate() {
        let r = radius(index);
        line(format!(
            "<circle class=\"dot s{index}\" cx=\"{at}\" cy=\"24\" r=\"{r}\"/>\
             <text x=\"{}\" y=\"29\">{name}</text>",
            at + 12.0
        ));
        at += 44.0 + 8.0 * name.len() as f64;
    }
    let is_shown = |tick: &f64| (low..=high).contains(&tick.log2());
    for tick in TICKS.into_iter().filter(is_shown) {
        let class = if tick == 1.0 { "copy" } else { "grid" };
        let at = x(tick);
        line(format!(
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{}\">{tick}</text>",
            TOP - 12.0,
            bottom + 18.0
        ));
    }
    line(format!(
        "<text class=\"tick\" x=\"{}\" y=\"{}\">time as a multiple of a copy's; less is better</text>",
        (LEFT + RIGHT) / 2.0,
        bottom + 38.0
    ));
    for (index, (name, figures)) in rows.iter().enumerate() {
        let middle = TOP + STEP * (index as f64 + 0.5);
        line(format!(
            "<text class=\"name\" x=\"{}\" y=\"{}\">{name}</text>\
             <line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{middle}\" y2=\"{middle}\"/>",
            LEFT - 12.0,
            middle + 5.0
        ));
        for (index, figure) in figures.iter().enumerate() {
            if let Some(figure) = figure {
                let (at, r) = (x(*figure), radius(index));
                line(format!(
                    "<circle class=\"dot s{index}\" cx=\"{at:.1}\" cy=\"{middle}\" r=\"{r}\"/>"
                ));
            }
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_shows_the_table() {
        let read = |path| std::fs::read_to_string(crate::root().join(path)).unwrap();
        let page = read(PAGE);
        let rows = rows(&page).unwrap();
        assert!(rows.len() > 10, "{rows:?}");
        assert!(
            read(PICTURE) == draw(&rows),
            "{PICTURE} does not show the table in {PAGE}; run `cargo xtask chart`"
        );
    }

    /// The least and the greatest figure of a series in some rows, as the README has them.
    fn range(rows: &[&Row<'_>], series: usize) -> String {
        let figures = rows.iter().filter_map(|(_, figures)| figures[series]);
        let (low, high) = figures.fold((f64::INFINITY, 0.0_f64), |(low, high), figure| {
            (low.min(figure), high.max(figure))
        });
        let text = |figure: f64| match figure {
            10.0.. => format!("{figure:.0}"),
            _ => format!("{figure:.1}"),
        };
        format!("{} to {}", text(low), text(high))
    }

    #[test]
    fn the_readme_has_the_figures_of_the_table() {
        let read = |path| std::fs::read_to_string(crate::root().join(path)).unwrap();
        let (page, readme) = (read(PAGE), read("README.md"));
        let words: Vec<&str> = readme.split_whitespace().collect();
        let readme = words.join(" ");
        let rows = rows(&page).unwrap();
        // Columns with individual lengths, and rows or sequences of 1 KiB or more.
        let (mut columns, mut long) = (Vec::new(), Vec::new());
        for row in &rows {
            let [kind, sizes, element, lengths] = row.0.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{}", row.0);
            };
            let sizes: Vec<u64> = sizes.split('x').map(|size| size.parse().unwrap()).collect();
            let bytes = match element {
                "u8" => 1,
                "f16" => 2,
                "f32" => 4,
                other => panic!("{other}"),
            };
            match (kind, sizes[..].len(), lengths) {
                ("time-major", 2, "random") => columns.push(row),
                ("strided", ..) => {}
                _ if sizes[sizes.len() - 1] * bytes >= 1024 => long.push(row),
                _ => {}
            }
        }
        assert!(
            columns.len() >= 4 && long.len() >= 6,
            "{columns:?} {long:?}"
        );
        for sentence in [
            format!(
                "rows and contiguous sequences of 1 KiB or more take {} times as long as a copy of \
                 the same bytes at 64 KiB to 1 GiB, in place {}; ONNX Runtime's own kernel takes {}.",
                range(&long, 0),
                range(&long, 1),
                range(&long, 3),
            ),
            format!(
                "Columns with individual lengths take {} times as long as a copy; ONNX Runtime \
                 takes {} times.",
                range(&columns, 0),
                range(&columns, 3),
            ),
        ] {
            assert!(readme.contains(&sentence), "the README lacks: {sentence}");
        }
    }

    #[test]
    fn every_picture_has_colours_for_dark_backgrounds() {
        let mut pictures = 0;
        for entry in std::fs::read_dir(crate::root().join("docs")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "svg") {
                continue;
            }
            let svg = std::fs::read_to_string(&path).unwrap();
            let (style, drawn) = svg.split_once("</style>").unwrap();
            assert!(
                style.contains("@media(prefers-color-scheme:dark)"),
                "{path:?}"
            );
            // A colour outside of the style sheet would be the same on both.
            assert!(!drawn.contains("\"#"), "{path:?}");
            pictures += 1;
        }
        assert_eq!(pictures, 3);
    }
}
