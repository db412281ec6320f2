//! For a browser: one page that needs nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::chart::{Scale, chart};
use super::table::{LEGEND, Table, cautions, workers};
use crate::Report;

/// The page's only style sheet: system fonts, light and dark as the reader has it.
const STYLE: &str = include_str!("style.css");

/// A self-contained page: the machine and settings, a table, and a bar chart for each
/// regime with the same figures.
#[must_use]
pub fn html(report: &Report) -> String {
    let [multiples, times] = [false, true].map(|is_call| Scale::of(report, is_call));
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "revseq bench: " (report.machine.processor) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "revseq bench" }
                    (head(report))
                    p { (LEGEND) }
                    ul.cautions { @for caution in cautions(report) { li { (caution) } } }
                    h2 id="table" { "Table" }
                    (table(report))
                    h2 { "Charts" }
                    p { "The scale is logarithmic, and the same for all charts; less is better." }
                    p.key {
                        span.ours { "revseq" } " "
                        span.others { "others" } " "
                        span.floor { "floor: 1, or as fast as a copy" }
                    }
                    div.charts {
                        @for row in &report.regimes {
                            @let scale = if row.is_call { &times } else { &multiples };
                            (chart(row, workers(report), scale))
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn head(report: &Report) -> Markup {
    let Report { machine, taken, .. } = report;
    markup! {
        dl {
            @if let Some(taken) = taken {
                div { dt { "Date" } dd { (taken.date) } }
                @if let Some(load) = taken.load {
                    div { dt { "Load before" } dd { (format!("{load:.2}")) } }
                }
            }
            div { dt { "Processor" } dd { (machine.processor) } }
            div { dt { "Logical cores" } dd { (machine.cores) } }
            div { dt { "System" } dd { (machine.system) } }
            div { dt { "SIMD level" } dd { (machine.simd) } }
            div { dt { "Threads in the pool" } dd { (machine.threads) } }
            div { dt { "revseq" } dd { (machine.version) } }
            @if let Some(version) = &machine.onnxruntime {
                div { dt { "ONNX Runtime" } dd { (version) } }
            }
            @if let Some(version) = &machine.rten {
                div { dt { "rten" } dd { (version) } }
            }
        }
    }
}

fn table(report: &Report) -> Markup {
    let table = Table::new(report);
    markup! {
        div.wide role="region" aria-labelledby="table" tabindex="0" {
            table {
                caption { "Multiples of the floor, by regime and contestant" }
                thead {
                    tr { @for cell in &table.head { th scope="col" { (cell) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            th scope="row" { (row.name) }
                            @match &row.cells {
                                Ok(cells) => @for cell in cells { td { (cell) } },
                                Err(reason) => td.skipped colspan=(table.head.len() - 1) {
                                    "skipped: " (reason)
                                },
                            }
                        }
                    }
                }
            }
        }
    }
}
