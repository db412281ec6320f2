//! Text for a terminal.

use super::table::{LEGEND, Table, TableRow, cautions, machine};
use crate::Report;

/// The longest lines of prose.
const PROSE: usize = 100;

/// The report as plain text: a table, or a paragraph for each regime if the table is wider than
/// `width` characters.
#[must_use]
pub fn text(report: &Report, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    let table = Table::new(report);
    let mut figures = aligned(&table);
    if figures.iter().any(|line| length(line) > width) {
        figures = paragraphs(&table, width);
    }
    let prose = |text: &str| wrapped(text.split(' '), " ", width.min(PROSE));
    let mut lines = prose(&machine(report));
    lines.push(String::new());
    lines.extend(figures);
    lines.push(String::new());
    lines.extend(prose(LEGEND));
    lines.extend(cautions(report).iter().flat_map(|caution| prose(caution)));
    lines.join("\n") + "\n"
}

/// A table with a line for each regime.
fn aligned(table: &Table) -> Vec<String> {
    let (name_width, widths) = widths(table);
    let line = |name: &str, cells: &[String]| {
        let mut line = format!("{name:<name_width$}");
        for ((cell, head), width) in cells.iter().zip(&table.head[1..]).zip(&widths) {
            let width = length(head).max(*width);
            line += &format!("  {cell:>width$}");
        }
        line
    };
    let rows = table.rows.iter().map(|row| match &row.cells {
        Ok(cells) => line(&row.name, cells),
        Err(reason) => format!("{:<name_width$}  skipped: {reason}", row.name),
    });
    let head = line(&table.head[0], &table.head[1..]);
    std::iter::once(head).chain(rows).collect()
}

/// Each regime's name, and below it the figures, each after the head of its column.
fn paragraphs(table: &Table, width: usize) -> Vec<String> {
    let (_, widths) = widths(table);
    let paragraph = |row: &TableRow| {
        let figures = match &row.cells {
            Ok(cells) => {
                let columns = table.head[1..].iter().zip(&widths);
                let figures = columns.zip(cells);
                let figures = figures.map(|((head, width), cell)| format!("{head} {cell:>width$}"));
                wrapped(figures, "   ", width.saturating_sub(2))
            }
            Err(reason) => {
                let text = format!("skipped: {reason}");
                wrapped(text.split(' '), " ", width.saturating_sub(2))
            }
        };
        let mut lines = wrapped(row.name.split(' '), " ", width);
        lines.extend(figures.iter().map(|line| format!("  {line}")));
        lines
    };
    table.rows.iter().flat_map(paragraph).collect()
}

/// The widths of the names, and of the cells of each column but its head.
fn widths(table: &Table) -> (usize, Vec<usize>) {
    let names = table.rows.iter().map(|row| length(&row.name));
    let mut widths = vec![0; table.head.len() - 1];
    for cells in table.rows.iter().flat_map(|row| &row.cells) {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = length(cell).max(*width);
        }
    }
    (
        names.chain([length(&table.head[0])]).max().unwrap_or(0),
        widths,
    )
}

/// Lines of at most `width` characters, each of as many parts as fit, at least one.
fn wrapped(
    parts: impl IntoIterator<Item = impl AsRef<str>>,
    separator: &str,
    width: usize,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let part = part.as_ref();
        match lines.last_mut() {
            Some(line) if length(line) + separator.len() + length(part) <= width => {
                *line += separator;
                *line += part;
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}
