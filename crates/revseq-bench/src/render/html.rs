//! Page for a browser, which needs nothing else.

use maud::{Markup, html as markup};
use revseq_pages::{Chart, Form, Row as Bar, Scale};

use super::table::{LEGEND, NOTHING, Table, cautions, figure, workers};
use crate::{Contestant, Report, Row};

/// A self-contained page: the machine and settings, a table, and a bar chart for each
/// regime with the same figures.
#[must_use]
pub fn html(report: &Report) -> String {
    let body = markup! {
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
        (charts(report))
    };
    let title = format!("revseq bench: {}", report.machine.processor);
    revseq_pages::page(&title, &body)
}

fn head(report: &Report) -> Markup {
    let Report { machine, taken, .. } = report;
    let (date, load) = taken.as_ref().map(|it| (it.date.clone(), it.load)).unzip();
    let facts = [
        ("Date", date),
        (
            "Load before",
            load.flatten().map(|load| format!("{load:.2}")),
        ),
        ("Processor", Some(machine.processor.clone())),
        ("Logical cores", Some(machine.cores.to_string())),
        ("System", Some(machine.system.clone())),
        ("SIMD level", Some(machine.simd.clone())),
        ("Threads in the pool", Some(machine.threads.to_string())),
        ("revseq", Some(machine.version.clone())),
        ("ONNX Runtime", machine.onnxruntime.clone()),
        ("rten", machine.rten.clone()),
    ];
    markup! {
        dl {
            @for (name, fact) in facts {
                @if let Some(fact) = fact { div { dt { (name) } dd { (fact) } } }
            }
        }
    }
}

fn table(report: &Report) -> Markup {
    let table = Table::new(report);
    markup! {
        div.wide role="region" aria-labelledby="table" tabindex="0" {
            table.figures {
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

/// A chart for each regime, or why there is none. Those of multiples have one scale, those of times
/// another.
fn charts(report: &Report) -> Markup {
    let bars = report.regimes.iter().map(|row| bars(report, row));
    let bars: Vec<Vec<Bar>> = bars.collect();
    let regimes = || report.regimes.iter().zip(&bars);
    let values = |is_call| {
        let bars = regimes().filter(move |(row, _)| row.is_call == is_call);
        let marks = bars.flat_map(|(_, bars)| bars).flat_map(|bar| &bar.marks);
        marks.map(|&(_, value)| value)
    };
    let multiples = Scale::of_multiples(values(false));
    let times = Scale::of_times(values(true));
    markup! {
        div.charts {
            @for (row, bars) in regimes() {
                figure {
                    figcaption { (row.name) }
                    @match &row.skipped {
                        Some(reason) => p { "skipped: " (reason) },
                        None if row.is_call => (chart(row, bars, times)),
                        None => (chart(row, bars, multiples)),
                    }
                }
            }
        }
    }
}

fn chart(row: &Row, bars: &[Bar], scale: Scale) -> Markup {
    let measured = bars.iter().filter(|bar| !bar.marks.is_empty());
    let figures = measured.map(|bar| format!("{} {}", bar.name, bar.figure));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let speed = row.floor_gb_per_s();
    let speed = speed.map_or(String::new(), |speed| format!(" {speed:.1} GB/s"));
    let chart = Chart {
        form: Form::Bars,
        label: format!("{}: {figures}", row.name),
        scale,
        floor: (!row.is_call).then(|| format!("floor{speed}")),
        rows: bars.to_vec(),
    };
    chart.element()
}

/// A bar for each contestant: a multiple of the floor, or the time of a call.
fn bars(report: &Report, row: &Row) -> Vec<Bar> {
    let bar = |worker: Contestant| {
        let measurement = row.of(worker);
        let class = if worker.is_ours() { "ours" } else { "others" };
        let mark = measurement.map(|it| match row.is_call {
            true => (class, it.time.median_ns),
            false => (class, it.ratio),
        });
        Bar {
            name: worker.to_string(),
            marks: mark.into_iter().collect(),
            figure: measurement.map_or(NOTHING.to_owned(), |it| figure(row, it)),
        }
    };
    workers(report).map(bar).collect()
}
