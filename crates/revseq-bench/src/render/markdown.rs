//! Markdown for a document.

use super::table::{LEGEND, Table, cautions, machine};
use crate::Report;

/// A table in Markdown, with the machine and settings.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let table = Table::new(report);
    let escape = |text: &str| text.replace('|', "\\|");
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("{}\n\n", machine(report));
    text += &line(&table.head);
    text += "|---|";
    text += &"---:|".repeat(table.head.len() - 1);
    text += "\n";
    for row in &table.rows {
        let mut cells = vec![escape(&row.name)];
        match &row.cells {
            Ok(figures) => cells.extend(figures.iter().map(|cell| escape(cell))),
            Err(reason) => {
                cells.push(format!("skipped: {}", escape(reason)));
                cells.resize(table.head.len(), String::new());
            }
        }
        text += &line(&cells);
    }
    text += &format!("\n{LEGEND}\n");
    for caution in cautions(report) {
        text += &format!("\n{caution}\n");
    }
    text
}
