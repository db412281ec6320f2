//! A page of our nodes in a model: the details of each, and a picture of its neighbours.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::neighbours::{self, End, Neighbourhood};
use super::report::Report;
use crate::escape::printable;
use crate::model::Model;

/// The width of a box, the height of each of its lines, and the room around it, in pixels.
const WIDTH: usize = 230;
const LINE: usize = 17;
const GAP: (usize, usize) = (20, 56);

/// Number of characters of a name that fit into a box.
const FITS: usize = 30;

/// The page of a model, with the number of nodes of other operators, and lines on how it runs under titles.
pub(super) fn page(
    model: &Model,
    lines: &[String],
    reports: &[Report],
    others: &BTreeMap<String, usize>,
    runs: &[(String, Vec<String>)],
) -> String {
    let neighbourhoods = neighbours::find(model);
    let name = name(model);
    let title = printable(&name);
    let body = html! {
        (arrow())
        h1 { (title) }
        @for line in lines { div { (printable(line)) } }
        @for (title, lines) in runs {
            h2 { (printable(title)) }
            @for line in lines { div { (printable(line)) } }
        }
        @for report in reports {
            h2 {
                // Lines end after a slash.
                @for part in report.path.split_inclusive('/') { (printable(part)) wbr; }
                ": " (printable(&report.operator))
            }
            @if let Some(neighbourhood) = neighbourhoods.get(&report.path) {
                (picture(neighbourhood))
            }
            table.details {
                @for (what, text) in report.lines() {
                    tr class=[(what == "error").then_some(what)] {
                        th scope="row" { (what) }
                        td { (printable(&text)) }
                    }
                }
            }
        }
        @if !others.is_empty() {
            h2 { "other operators" }
            table {
                @for (operator, count) in others {
                    tr { th scope="row" { (printable(operator)) } td.count { (count) } }
                }
            }
        }
    };
    revseq_pages::page(&title, &body)
}

/// The model's name: that of its file, or of its folder, where ONNX's test data have a
/// `model.onnx`.
fn name(model: &Model) -> String {
    let path = &model.path;
    let folder = path.parent().and_then(|folder| folder.file_name());
    let name = match (path.file_name(), folder) {
        (Some(file), Some(folder)) if file == "model.onnx" => folder,
        (Some(file), _) => file,
        (None, _) => path.as_os_str(),
    };
    name.to_string_lossy().into_owned()
}

/// The arrow head of all lines.
fn arrow() -> Markup {
    html! {
        svg width="0" height="0" aria-hidden="true" {
            defs {
                marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"
                    markerHeight="8" orient="auto"
                {
                    path.arrow d="M0 0L8 4L0 8Z" {}
                }
            }
        }
    }
}

/// Three rows: the producers of the inputs, the node, the readers of the outputs.
fn picture(neighbourhood: &Neighbourhood) -> Markup {
    let Neighbourhood {
        node,
        producers,
        readers,
    } = neighbourhood;
    let columns = producers.len().max(readers.len()).max(1);
    let pitch = WIDTH + GAP.0;
    // With the boxes' edges.
    let width = columns * pitch - GAP.0 + 2;
    // Neither the node nor a producer has other readers inside.
    let (center, height, step) = (width / 2, height(node), height(node) + GAP.1);
    let last = readers.iter().map(|(_, end)| self::height(end)).max();
    let bottom = last.map_or(step + height, |last| 2 * step + last);
    // The middles of the boxes of a row.
    let middles = |count: usize| {
        (0..count).map(move |index| (width + (2 * index + 1) * pitch - count * pitch) / 2)
    };
    let label = format!("{} and its neighbours", node.name);
    html! {
        div.wide {
            // Smaller text is unreadable.
            svg.neighbours width=(width) viewBox=(format!("0 0 {width} {}", bottom + 2))
                style=(format!("min-width: {}px", width * 2 / 3))
                role="img" aria-label=(printable(&label))
            {
                @for ((value, producer), x) in producers.iter().zip(middles(producers.len())) {
                    (edge(((x, height), (center, step)), (x, height), value))
                    g { (boxed(x, 1, producer)) }
                }
                @for ((value, reader), x) in readers.iter().zip(middles(readers.len())) {
                    (edge(((center, step + height), (x, 2 * step)), (x, 2 * step), value))
                    g { (boxed(x, 2 * step + 1, reader)) }
                }
                g.node { (boxed(center, step + 1, node)) }
            }
        }
    }
}

/// The height of a box: two lines, and one for what is inside.
fn height(end: &End) -> usize {
    LINE * lines(end, true).len() + 10
}

/// The lines of a box, with names that fit into it if they are to be `short`.
fn lines(end: &End, short: bool) -> Vec<String> {
    let line = |before: &str, name: &str, after: &str| {
        let room = FITS.saturating_sub(before.chars().count() + after.chars().count());
        match short {
            true => format!("{before}{}{after}", shortened(name, room.max(FITS / 2))),
            false => format!("{before}{name}{after}"),
        }
    };
    let mut lines = vec![line("", &end.what, ""), line("", &end.name, "")];
    if let [first, others @ ..] = end.inside.as_slice() {
        let more = match others.len() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        lines.push(line(&format!("↳ {} ", first.what), &first.name, &more));
    }
    lines
}

fn boxed(middle: usize, top: usize, end: &End) -> Markup {
    html! {
        title { (printable(&lines(end, false).join(" "))) }
        rect x=(middle - WIDTH / 2) y=(top) width=(WIDTH) height=(height(end)) rx="5" {}
        @for (index, line) in lines(end, true).iter().enumerate() {
            text x=(middle) y=(top + LINE * (index + 1)) { (printable(line)) }
        }
    }
}

type Point = (usize, usize);

/// An arrow from a box to another, with a value's name nearer to `near`, so that the names of
/// several do not meet.
fn edge((from, to): (Point, Point), near: Point, value: &str) -> Markup {
    let far = if near == from { to } else { from };
    let (x, y) = ((7 * near.0 + far.0) / 8, (2 * near.1 + far.1) / 3 + 4);
    html! {
        line x1=(from.0) y1=(from.1) x2=(to.0) y2=(to.1) marker-end="url(#arrow)" {}
        text.value x=(x) y=(y) { (printable(&shortened(value, FITS))) title { (printable(value)) } }
    }
}

/// The end of a name that is longer than `room`: exporters put the layers' names first.
fn shortened(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 1 - room).collect();
    format!("…{end}")
}
