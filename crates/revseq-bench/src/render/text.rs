//! For a terminal.

use super::table::{LEGEND, Table, cautions, machine};
use crate::Report;

/// A table in plain text, its columns aligned, with the machine and settings.
#[must_use]
pub fn text(report: &Report) -> String {
    let table = Table::new(report);
    let mut widths: Vec<usize> = table.head.iter().map(|cell| cell.chars().count()).collect();
    for row in &table.rows {
        widths[0] = widths[0].max(row.name.chars().count());
        let cells = row.cells.iter().flatten();
        for (width, cell) in widths[1..].iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |name: &str, cells: &[String]| {
        let mut line = format!("{name:<width$}", width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths[1..]) {
            line += &format!("  {cell:>width$}");
        }
        line + "\n"
    };
    let mut text = machine(report) + "\n\n";
    text += &line(&table.head[0], &table.head[1..]);
    for row in &table.rows {
        text += &match &row.cells {
            Ok(cells) => line(&row.name, cells),
            Err(reason) => format!(
                "{:<width$}  skipped: {reason}\n",
                row.name,
                width = widths[0]
            ),
        };
    }
    text += &format!("\n{}\n", LEGEND.join("\n"));
    for caution in cautions(report) {
        text += &format!("{caution}\n");
    }
    text
}
