//! The chart of docs/benchmarks.md, drawn from its table.

mod picture;

use crate::files;
use picture::{Chart, Row, Scale};

/// The table's page, and the picture it shows.
const PAGE: &str = "docs/benchmarks.md";
const PICTURE: &str = "docs/benchmarks.svg";

/// The columns: the head in the table, the class of the style sheet, the name in the key.
const SERIES: [(&str, &str, &str); 5] = [
    ("serial", "ours", "revseq"),
    ("in place", "in-place", "revseq in place"),
    ("plain loop", "others", "plain loop"),
    ("ORT CPU", "onnxruntime", "ONNX Runtime"),
    ("rten", "rten", "rten"),
];

/// Draws the chart.
pub(crate) fn write() -> Result<(), String> {
    let page = files::read(&crate::root().join(PAGE))?;
    files::write(&crate::root().join(PICTURE), &draw(rows(&page)?))
}

/// The rows of the page's table of regimes.
fn rows(page: &str) -> Result<Vec<Row>, String> {
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
            let marks = columns
                .iter()
                .zip(SERIES)
                .filter_map(|(&column, (_, class, _))| {
                    Some((class, row.get(column)?.parse().ok()?))
                });
            Row {
                name: row[0].to_owned(),
                marks: marks.collect(),
            }
        })
        .collect())
}

/// The chart: a line for each regime, a dot for each figure.
fn draw(rows: Vec<Row>) -> String {
    let marks = rows.iter().flat_map(|row| &row.marks);
    let chart = Chart {
        label: "Time as a multiple of a copy's, by regime".to_owned(),
        scale: Scale::of_multiples(marks.map(|&(_, value)| value)),
        floor: "a copy".to_owned(),
        rows,
    };
    let key = SERIES.map(|(_, class, name)| (class, name));
    chart.picture(&key, "time as a multiple of a copy's; less is better")
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
        let picture = read(PICTURE);
        for (_, class, _) in SERIES {
            let rule = format!("\n.chart .{class} {{ fill: ");
            assert!(picture.contains(&rule), "no colour for {class}");
        }
        assert!(
            picture == draw(rows),
            "{PICTURE} does not show the table in {PAGE}; run `cargo xtask chart`"
        );
    }

    /// The least and the greatest figure of a series in some rows, as the README has them.
    fn range(rows: &[&Row], series: &str) -> String {
        let figures = rows.iter().flat_map(|row| &row.marks);
        let figures = figures.filter_map(|&(name, figure)| (name == series).then_some(figure));
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
            let [kind, sizes, element, lengths] = row.name.split(' ').collect::<Vec<_>>()[..]
            else {
                panic!("{}", row.name);
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
                range(&long, "ours"),
                range(&long, "in-place"),
                range(&long, "onnxruntime"),
            ),
            format!(
                "Columns with individual lengths take {} times as long as a copy; ONNX Runtime \
                 takes {} times.",
                range(&columns, "ours"),
                range(&columns, "onnxruntime"),
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
            let style = style.replace(' ', "");
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
